"""GraphBolt: its sampling functions called one after another, which is faster than its DataLoader at these thread
counts.

Feature rows come by its own TorchBasedFeature.read or, as a user may prefer, by torch.index_select on the same tensor.
Sampled blocks carry no edge ids: GraphBolt 2.1 leaves them out unless asked, so it does a little less work than the
others.
"""
import warnings

import peer

args = peer.arguments(__doc__)
warnings.filterwarnings("ignore")
import dgl
import dgl.graphbolt as gb
import torch

indptr, indices, seeds, x = peer.load(args)
graph = gb.fused_csc_sampling_graph(indptr, indices)
feature = gb.TorchBasedFeature(x)
fanouts = [torch.LongTensor([fanout]) for fanout in peer.FANOUTS]


def sample(seeds, rows):
    blocks, nodes = [], seeds
    for fanout in fanouts:
        sampled = graph.sample_neighbors(nodes, fanout, False, None)
        reached, csc = gb.unique_and_compact_csc_formats(sampled.sampled_csc, nodes)
        blocks.append(gb.SampledSubgraphImpl(sampled_csc=csc, original_column_node_ids=nodes,
                                             original_row_node_ids=reached,
                                             original_edge_ids=sampled.original_edge_ids))
        nodes = reached
    return blocks, rows(nodes)


half = x.half()
ROWS = {"functions": lambda x, nodes: None, "read": lambda x, nodes: feature.read(nodes),
        "index_select": lambda x, nodes: torch.index_select(x, 0, nodes)}


def batches(features, way):
    table = half if features == "float16" else x
    return (sample(s, lambda nodes: ROWS[way](table, nodes)) for s in peer.seed_batches(seeds))


def hops(batch):
    blocks, rows = batch
    return ([block.sampled_csc.indices.numel() for block in blocks],
            [block.original_row_node_ids.numel() for block in blocks], 0 if rows is None else len(rows))


peer.serve(args, {"sampling": ["functions"], "features": ["read", "index_select"], "float16": ["index_select"]},
           batches, hops, {"dgl": dgl.__version__, "torch": torch.__version__})
