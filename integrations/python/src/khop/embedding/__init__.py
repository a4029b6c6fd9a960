"""Computes rows of a torch module for every node, by ``khop embed``: khop sums over edges, in any memory, and torch
computes the dense part of each layer, some thousand nodes at a time.

    khop.embedding.embed([conv1, torch.nn.ReLU(), conv2], "products.khop", out="embedding")

Live keeps such rows in memory, where they follow changes of the graph:

    with khop.embedding.Live("products.khop", [conv1, torch.nn.ReLU(), conv2]) as live:
        live.update(features=([7], [[0.5, 1.5]]), add=[[7], [2]])
        live.rows([2, 7])

docs/embed.md explains how it works, and what it computes.
"""

from __future__ import annotations

import json
import os
from typing import Any, Optional

from .. import binary as _binary
from .blocks import Room, Served, flags
from .layers import Layer, evaluated, layers_of, name_of, names_of, types_of
from .live import Live
from .._data.info import info

__all__ = ["Layer", "Live", "embed"]

ROWS = 4096
"""How many nodes a layer's function has at a time, but for the last."""


def embed(
    module: Any, dataset: _binary.PathLike, *, out: str = "embedding", nodes: Optional[str] = None,
    node_type: Optional[str] = None, max_memory: Optional[int] = None, force: bool = False, keep: bool = False,
    name: Optional[str] = None, binary: Optional[_binary.PathLike] = None,
) -> dict[str, Any]:
    """Computes rows for every node of a dataset, over all neighbours. It writes them as a column, or to a file whose
    name ends in .npy, or in .parquet (columns id and embedding).

    module is a list, or a torch.nn.Sequential (PyG's too), of layers: ``Layer``, PyG's GCNConv, SAGEConv, GraphConv,
    GINConv and GATConv, HeteroConv of one of those, and, after each of these, modules that compute each row by itself,
    such as ReLU and Linear. Modules are in evaluation mode meanwhile. The other arguments are those of ``khop embed``;
    node_type is its --type. name tells modules apart when an interrupted run continues; by default it is made of the
    parameters.

    Returns the result of the command. Errors of a layer are raised as they are. Rows of a wrong shape, or that are not
    finite, are an OptionError or KhopError that names nodes and remedy. Finished work is kept: the same call continues
    from there.
    """
    import torch

    layers, modules = layers_of(module, lambda: types_of(info(dataset, binary)))
    command = [_binary.find(binary), "embed", os.fspath(dataset), "--json", "--out", out,
               *flags(layers=names_of(layers), name=name or name_of(modules), nodes=nodes, type=node_type,
                      max_memory=max_memory)]
    with evaluated(modules), torch.no_grad(), Room() as room, Served(
            command + ["--force"] * force + ["--keep"] * keep, layers, room) as served:
        rest = b"".join(iter(served.line, b""))
        served.check()
        result: dict[str, Any] = json.loads(rest)
        return result
