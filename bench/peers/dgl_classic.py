"""DGL's NeighborSampler, with int64 ids, in one of its ways:

    loader     NeighborSampler in a DataLoader without worker processes
    direct     the same sampler, called without the DataLoader
    unfused    the same, but sampling and relabelling as two steps at any thread count: DGL takes the fused way at 2
    threads functions  sample_neighbors and to_block, called directly

With int32 ids and 2 threads the fused way of DGL 2.1 returns a tenth of the edges, hence int64; run.py compares the
counts.
"""
import warnings

import peer

args = peer.arguments(__doc__)
warnings.filterwarnings("ignore")
import dgl
import torch

WAYS = ["loader", "direct", "unfused", "functions"]
indptr, indices, seeds, x = peer.load(args, ids="int64")
graph = dgl.graph(("csc", (indptr, indices, torch.empty(0, dtype=torch.int64)))).formats(["csc"])
graph.ndata["feat"] = x
half = x.half()


def sampler(**options):
    return dgl.dataloading.NeighborSampler(list(reversed(peer.FANOUTS)), **options)


def loader(features):
    return dgl.dataloading.DataLoader(graph, seeds, sampler(prefetch_node_feats=["feat"] if features else None),
                                      batch_size=peer.BATCH_SIZE, shuffle=False, drop_last=False, num_workers=0)


def functions(seeds):
    blocks, nodes = [], seeds
    for fanout in peer.FANOUTS:
        block = dgl.to_block(dgl.sampling.sample_neighbors(graph, nodes, fanout), nodes)
        nodes = block.srcdata[dgl.NID]
        blocks.insert(0, block)
    return nodes, seeds, blocks


def batches(features, way):
    if way == "loader":
        for _, _, blocks in loader(features):
            yield blocks, blocks[0].srcdata["feat"] if features else None
            del blocks
        return
    one = sampler(fused=way != "unfused")
    for s in peer.seed_batches(seeds):
        nodes, _, blocks = functions(s) if way == "functions" else one.sample(graph, s)
        yield blocks, torch.index_select(half if features == "float16" else x, 0, nodes) if features else None
        del nodes, blocks


def hops(batch):
    blocks, rows = batch
    blocks = blocks[::-1]  # DGL puts the outermost hop first
    return [b.num_edges() for b in blocks], [b.num_src_nodes() for b in blocks], 0 if rows is None else len(rows)


peer.serve(args, {"sampling": WAYS, "features": WAYS, "float16": WAYS[1:]}, batches, hops, {"dgl": dgl.__version__,
                                                                       "torch": torch.__version__})
