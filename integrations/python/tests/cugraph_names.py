"""A plugin of pytest: cuGraph-PyG's tests of loaders get khop.pyg, with stores of PyG in memory, on the CPU.

Its packages want CUDA. What its tests take of them is stood in for here: where edges and features lie, a small graph,
and the start of a cluster of GPUs, which has none.
"""
import importlib
import sys
import types

import pandas
import torch
import torch.distributed
from torch_geometric.testing import MyFeatureStore, MyGraphStore
from torch_geometric.utils import barabasi_albert_graph

import khop.pyg


def module(name, **names):
    """Puts a module of these names in place of one of cuGraph's."""
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(names)
    parent, _, own = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], own, made)


def import_optional(name):
    return sys.modules.get(name) or importlib.import_module(name)


class Small:
    """A graph where a test asks for the karate club."""

    @staticmethod
    def number_of_nodes():
        return 34

    @staticmethod
    def get_edgelist():
        return pandas.DataFrame(barabasi_albert_graph(34, 3).numpy().T, columns=["src", "dst"])


def nothing(*arguments, **options):
    """What starts and ends a cluster."""


module("rapids_pytest_benchmark")
module("cugraph")
module("cugraph.datasets", karate=Small)
module("pylibcugraph")
module("pylibcugraph.comms", **dict.fromkeys((
    "cugraph_comms_init", "cugraph_comms_shutdown", "cugraph_comms_create_unique_id", "cugraph_comms_get_raft_handle"),
    nothing))
module("cugraph_pyg")
module("cugraph_pyg.data", GraphStore=MyGraphStore, FeatureStore=MyFeatureStore)
module("cugraph_pyg.loader", NeighborLoader=khop.pyg.NeighborLoader, LinkNeighborLoader=khop.pyg.LinkNeighborLoader)
module("cugraph_pyg.utils")
module("cugraph_pyg.utils.imports", import_optional=import_optional, MissingModule=type("MissingModule", (), {}))
torch.distributed.init_process_group = torch.distributed.destroy_process_group = nothing
as_tensor = torch.as_tensor
torch.as_tensor = lambda data, dtype=None, device=None: as_tensor(data, dtype=dtype)


def pytest_report_header():
    """Says what is tested."""
    return f"cugraph_pyg.loader.NeighborLoader is of {khop.pyg.__file__}"
