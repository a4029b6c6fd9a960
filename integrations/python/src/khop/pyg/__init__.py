"""PyTorch Geometric's loaders and samplers with khop's sampling: PyG's signatures and form of batches.

    from khop.pyg import NeighborLoader   # in place of torch_geometric.loader

data is in memory, or the path of a dataset of khop. The structure of a graph in memory goes to khop once. Attributes of
its nodes and edges stay where they are; only the rows of a batch are copied. Batches are those of khop.Loader: seed=
keys them, or torch.manual_seed.
"""

from .cluster import ClusterData, ClusterLoader
from .hgt import HGTLoader
from .neighbor import KhopSampler, LinkNeighborLoader, NeighborLoader
from .samplers import BidirectionalNeighborSampler, NeighborSampler
from .subgraphs import (
    GraphSAINTEdgeSampler, GraphSAINTNodeSampler, GraphSAINTRandomWalkSampler, GraphSAINTSampler, ShaDowKHopSampler,
)

__all__ = [
    "BidirectionalNeighborSampler", "ClusterData", "ClusterLoader", "GraphSAINTEdgeSampler", "GraphSAINTNodeSampler",
    "GraphSAINTRandomWalkSampler", "GraphSAINTSampler", "HGTLoader", "KhopSampler", "LinkNeighborLoader",
    "NeighborLoader", "NeighborSampler", "ShaDowKHopSampler",
]
