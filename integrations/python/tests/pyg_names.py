"""A plugin of pytest: PyG's tests get khop's loaders under PyG's names, also where PyG's own would need pyg-lib, METIS
or torch-sparse. Where torch-sparse is not there, what they use of its SparseTensor is in sparse_tensor.py."""
import os
import random
import sys

import numpy
import pytest
import torch

try:
    import torch_sparse  # noqa: F401
except ImportError:
    import sparse_tensor
    sys.modules["torch_sparse"] = sparse_tensor

import torch_geometric.loader
import torch_geometric.sampler
import torch_geometric.sampler.neighbor_sampler
import torch_geometric.testing
import torch_geometric.typing
from torch_geometric.datasets import Planetoid

import khop.pyg

for name in khop.pyg.__all__:
    for module in (torch_geometric.loader, torch_geometric.sampler, torch_geometric.sampler.neighbor_sampler):
        if hasattr(module, name):
            setattr(module, name, getattr(khop.pyg, name))
with_package = torch_geometric.testing.withPackage


def without_libraries(*packages):
    needless = {"pyg_lib", "torch_sparse"}  # but tests that name both compare the two
    others = packages if needless <= set(packages) else [p for p in packages if p not in needless]
    return with_package(*others) if others else lambda test: test


torch_geometric.testing.withPackage = without_libraries
torch_geometric.testing.onlyNeighborSampler = torch_geometric.testing.withMETIS = lambda test: test
torch_geometric.typing.WITH_WEIGHTED_NEIGHBOR_SAMPLE = torch_geometric.typing.WITH_EDGE_TIME_NEIGHBOR_SAMPLE = True

if os.environ.get("KHOP_TESTDATA"):  # in place of a download
    Planetoid.url = os.path.join(os.environ["KHOP_TESTDATA"], "planetoid-cora")


@pytest.fixture(autouse=True)
def drawn_alike():
    """Some of PyG's tests draw graphs of which one in a hundred breaks what they say, with PyG's loaders, too."""
    for seed in (random.seed, numpy.random.seed, torch.manual_seed):
        seed(20261130)
