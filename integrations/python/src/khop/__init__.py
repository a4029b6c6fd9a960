"""khop: mini-batches for graph neural networks, from a khop server, over shared memory.

    import khop

    loader = khop.Loader("products.khop", fanouts=[15, 10, 5], batch_size=1024, shuffle=True, seed=7)
    for batch in loader:
        batch.x, batch.edge_index, batch.y

Further modules, such as khop.torch and khop.pyg, are imported when they are first used. docs/python.md is the guide
(khop docs python).
"""

import importlib
import sys
from typing import TYPE_CHECKING

if sys.platform != "linux":
    raise ImportError("khop needs Linux: it shares memory in ways that other systems lack")

from . import _moved
from ._batch.batch import Batch, Padded
from ._batch.contents import Info
from ._batch.schema import EdgeType, Schema
from ._batch.views import Block, EdgeView, NodeView
from ._data.dataset import Dataset, Rows
from ._data.info import info
from ._data.stage import stage
from ._data.write import write
from ._feed.device import DeviceArray
from ._loader.loader import Connection, Epoch, Loader, connect
from ._loader.request_sampler import Sampler
from ._unified.front import unified
from .errors import (
    BinaryNotFound, BusyError, DeviceError, ForkError, KhopError, KhopWarning, LibraryNotFound, OptionError,
    ProtocolError, RanksError, ServerError, SlotsHeldError, StateError, WriteError,
)

_moved.keep_old_paths()

if TYPE_CHECKING:
    from . import cluster, dgl, embedding, graphbolt, profiling, pyg, ray, relational, spark, sparse, tgb, torch
else:
    _MODULES = frozenset({
        "cluster", "dgl", "embedding", "graphbolt", "profiling", "pyg", "ray", "relational", "spark", "sparse", "tgb",
        "torch",
    })

    def __getattr__(name):
        """Imports a module of khop that is used as an attribute: ``import khop``, and then ``khop.pyg``."""
        if name in _MODULES or name in _moved.MOVED:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

__version__ = "0.1.0.dev0"

__all__ = [
    "Batch", "BinaryNotFound", "Block", "BusyError", "Connection", "Dataset", "DeviceArray", "DeviceError",
    "EdgeType", "EdgeView", "Epoch", "ForkError", "Info", "KhopError", "KhopWarning", "LibraryNotFound", "Loader",
    "NodeView", "OptionError", "Padded", "ProtocolError", "RanksError", "Rows", "Sampler", "Schema", "ServerError",
    "SlotsHeldError", "StateError", "WriteError", "connect", "info", "stage", "unified", "write",
]
