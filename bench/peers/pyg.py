"""PyG's NeighborLoader on pyg-lib where pyg_lib_build.py has built it, else on torch-sparse; with --khop the one of
khop.pyg in its place, with nothing else changed. Both expand only nodes that are new at a hop.

The graph is an edge_index sorted by destination: with a SparseTensor PyG sorts the edges of every batch again. PyG's
ways are everything in the main process, or in as many worker processes as there are threads; khop.pyg's threads are
those of the process.
"""
import os
import warnings

import peer

args = peer.arguments(__doc__, "--khop")
warnings.filterwarnings("ignore")
import numpy as np
import torch
try:
    import pyg_lib as engine  # before torch_geometric, which looks for it when it is imported
except ImportError:
    import torch_sparse as engine
import torch_geometric
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

VERSIONS = {"torch_geometric": torch_geometric.__version__, engine.__name__: engine.__version__,
            "torch": torch.__version__}
WAYS = {"main": {"num_workers": 0}}
if args.khop:
    import khop
    from khop.pyg import NeighborLoader
    VERSIONS["khop"] = khop.__version__
    WAYS["main"] = {"options": {"workers": args.threads}}
elif args.threads > 1:
    WAYS[f"workers={args.threads}"] = {"num_workers": args.threads, "persistent_workers": True}

indptr, _, seeds, x = peer.load(args, ids="int64", edges=False)
num_nodes = len(indptr) - 1
edge_index = np.empty((2, int(indptr[-1])), np.int64)  # NumPy's, for its huge pages; filled without copies beside it
edge_index[0] = np.load(os.path.join(args.data, "indices.npy"), mmap_mode="r")
for lo in range(0, num_nodes, 1 << 16):
    some = indptr[lo:lo + (1 << 16) + 1].numpy()
    edge_index[1, some[0]:some[-1]] = np.repeat(np.arange(lo, lo + len(some) - 1), np.diff(some))
edge_index = torch.from_numpy(edge_index)
loaders = {}


def loader(features, way):
    data = Data(edge_index=edge_index, num_nodes=num_nodes)
    if features:
        data.x = x
    return NeighborLoader(data, num_neighbors=list(peer.FANOUTS), input_nodes=seeds, batch_size=peer.BATCH_SIZE,
                          shuffle=False,
                          is_sorted=True, **WAYS[way])


def batches(features, way):
    if (features, way) not in loaders:  # kept, so that worker processes start only once
        loaders[features, way] = loader(features, way)
    return iter(loaders[features, way])


def hops(batch):
    """torch-sparse tells no counts a hop. Nodes are in order of discovery, so a hop's edges end in the nodes of the hop
    before."""
    if "num_sampled_edges" in batch:  # of pyg-lib
        nodes = [sum(batch.num_sampled_nodes[:hop + 2]) for hop in range(len(peer.FANOUTS))]
        return list(batch.num_sampled_edges), nodes, len(batch.x) if "x" in batch else 0
    source, destination = batch.edge_index
    edges, nodes, done, end = [], [], 0, batch.batch_size
    for _ in peer.FANOUTS:
        within = destination < end
        upto = int(within.sum())
        edges.append(upto - done)
        end = max(end, int(source[within].max()) + 1)
        nodes.append(end)
        done = upto
    assert done == destination.numel() and end == batch.num_nodes, "the nodes are not in order of discovery"
    return edges, nodes, len(batch.x) if "x" in batch else 0


peer.serve(args, {"sampling": list(WAYS), "features": list(WAYS)}, batches, hops, VERSIONS)
