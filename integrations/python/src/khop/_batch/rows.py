"""Batches as tables, for programs that take Arrow streams."""

from __future__ import annotations

from typing import Any

import numpy as np

from .contents import Contents
from .frameworks import edge_index
from .schema import columns_of, text
from .._native import producer


def of_nodes(batch: Contents, node_type: str) -> Any:
    """The stream of the nodes of a type: n_id, and the columns. What was loaded for the seeds alone is null for other
    nodes."""
    columns = {"n_id": _numbers(batch, f"nodes/{node_type}")}
    rows = len(columns["n_id"])
    for name in batch._columns(node_type):
        whole = f"node/{node_type}/{name}"
        columns[name] = (_numbers(batch, whole) if whole in batch else
                         _extended(_numbers(batch, f"seed/{node_type}/{name}"), rows))
    return producer.stream(columns)


def of_edges(view: Any) -> Any:
    """The stream of the edges of a type: the ids of both ends in the dataset, and the columns."""
    batch, (source, _, target) = view._batch, view.type
    blocks = [b._name for b in view._parts()]
    parts = [(_numbers(batch, b + "indptr"), _numbers(batch, b + "indices")) for b in blocks]
    ends = edge_index(parts, np.dtype(np.int64))
    columns = {"src": _numbers(batch, f"nodes/{source}")[ends[0]], "dst": _numbers(batch, f"nodes/{target}")[ends[1]]}
    for name in columns_of(batch.names()).get(f"edge/0/{text(view.type)}/", ()):
        of = [_numbers(batch, f"edge/{b.layer}/{text(view.type)}/{name}") for b in view._parts()]
        columns[name] = of[0] if len(of) == 1 else np.concatenate(of)
    return producer.stream(columns)


def _numbers(batch: Contents, name: str) -> Any:
    """An array of a batch on the host. bfloat16, which Arrow lacks, is float32."""
    array, dtype = batch._arrays().numpy(name)
    if dtype == "bfloat16":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if array.dtype.str[1:] not in producer.FORMATS:
        raise TypeError(f"{name}: Arrow has no {dtype}")
    return array


def _extended(values: Any, rows: int) -> Any:
    out = np.zeros((rows, *values.shape[1:]), values.dtype)
    out[:len(values)] = values
    return producer.Sparse(out, np.arange(rows) < len(values))
