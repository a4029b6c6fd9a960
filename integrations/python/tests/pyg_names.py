"""A plugin of pytest: PyG's tests get khop's loaders under PyG's names, also where PyG's own would need pyg-lib."""
import torch_geometric.loader
import torch_geometric.testing
import torch_geometric.typing

import khop.pyg

torch_geometric.loader.NeighborLoader = khop.pyg.NeighborLoader
torch_geometric.loader.LinkNeighborLoader = khop.pyg.LinkNeighborLoader
with_package = torch_geometric.testing.withPackage


def without_library(*packages):
    others = [p for p in packages if p != "pyg_lib"]
    return with_package(*others) if others else lambda test: test


torch_geometric.testing.withPackage = without_library
torch_geometric.testing.onlyNeighborSampler = lambda test: test
torch_geometric.typing.WITH_WEIGHTED_NEIGHBOR_SAMPLE = torch_geometric.typing.WITH_EDGE_TIME_NEIGHBOR_SAMPLE = True
