"""DGL's samplers and DataLoader with khop's sampling: the usual names of dgl.dataloading.

    from khop.dgl import DataLoader, NeighborSampler   # in place of dgl.dataloading

    loader = DataLoader(graph, train_nids, NeighborSampler([5, 10, 15]), batch_size=1024, shuffle=True)
    for input_nodes, output_nodes, blocks in loader:
        blocks[0].srcdata["feat"], blocks[-1].dstdata["label"]

graph is a graph of DGL, the path of a dataset of khop, or what khop.write takes. Blocks and graphs are DGL's where it
is installed, else khop.blocks.Block and Graph. docs/migrating.md, "From DGL", lists what differs.
"""

from .._batch.blocks import EID, NID, Block
from .graphs import Graph
from .loading import DataLoader
from .samplers import (
    ClusterGCNSampler, LaborSampler, MultiLayerFullNeighborSampler, MultiLayerNeighborSampler, NeighborSampler,
    SAINTSampler, ShaDowKHopSampler, as_edge_prediction_sampler, negative_sampler,
)

__all__ = [
    "EID", "NID", "Block", "ClusterGCNSampler", "DataLoader", "Graph", "LaborSampler", "MultiLayerFullNeighborSampler",
    "MultiLayerNeighborSampler", "NeighborSampler", "SAINTSampler", "ShaDowKHopSampler", "as_edge_prediction_sampler",
    "negative_sampler",
]
