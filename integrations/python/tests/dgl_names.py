"""A plugin of pytest: DGL's tests of loaders get khop.dgl under DGL's names, and a drawn graph for a download."""
import sys

import dgl
import dgl.dataloading
import torch

import khop.dgl

for name in khop.dgl.__all__:
    if hasattr(dgl.dataloading, name):
        setattr(dgl.dataloading, name, getattr(khop.dgl, name))
if __name__ != "__mp_main__":  # processes that tests spawn run the main module first: this one, for the same names
    sys.modules["__main__"].__spec__ = __spec__


def drawn():
    """What a data set of one graph is."""
    graph = dgl.rand_graph(1000, 8000)
    graph.ndata["feat"], graph.ndata["label"] = torch.rand(1000, 4), torch.randint(7, (1000,))
    return [graph]


dgl.data.CoraFullDataset = drawn


def pytest_report_header():
    """Says what is tested."""
    return f"dgl.dataloading.DataLoader is {dgl.dataloading.DataLoader.__module__}, of {khop.dgl.__file__}"
