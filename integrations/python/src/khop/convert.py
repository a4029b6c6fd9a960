"""Batches as PyTorch Geometric's and DGL's own objects."""

from __future__ import annotations

from typing import Any

from .views import Typed
from .blocks import blocks_of
from .frameworks import Array, Torch
from .schema import EDGE_NAMES, NODE_NAMES


def to_pyg(batch: Typed) -> Any:
    """See Batch.to_pyg."""
    from torch_geometric.data import Data, HeteroData

    _need_torch(batch, "to_pyg")
    if batch.schema.plain:
        data = Data()
        _fill_nodes(batch, batch.node_types[0], data)
        _fill_edges(batch, batch.edge_types[0], data)
        return data
    data = HeteroData()
    for node_type in batch.node_types:
        _fill_nodes(batch, node_type, data[node_type])
    for edge_type in batch.edge_types:
        _fill_edges(batch, edge_type, data[edge_type])
    return data


def _fill_nodes(batch: Typed, node_type: str, data: Any) -> None:
    view = batch[node_type]
    for column in view.columns():
        of_seeds = f"node/{node_type}/{column}" not in batch
        data[NODE_NAMES.get(column, column)] = _for_all(view[column], view.num_nodes) if of_seeds else view[column]
    data.num_nodes = view.num_nodes
    data.n_id = view.n_id
    data.num_sampled_nodes = view.num_sampled_nodes
    if view.batch_size:
        data.batch_size = view.batch_size
        if f"item/{node_type}" in batch:
            data.input_id = view.input_id
    if f"sample/tree/{node_type}" in batch:
        data.batch = batch.array(f"sample/tree/{node_type}").long()
    if f"task/{node_type}/label" in batch:
        data.y = view.label
        if f"task/{node_type}/time" in batch:
            data.seed_time = view.seed_time


def _for_all(rows: Any, nodes: int) -> Any:
    """Rows of the seeds, which are the first nodes, as rows of all nodes: without that PyG would take them for rows of
    other things where it cuts a batch (Data.subgraph). The others are NaN, or -100, which torch's losses leave out."""
    if len(rows) == nodes:
        return rows
    if not rows.is_floating_point() and not rows.dtype.is_signed:
        rows = rows.long()
    out = rows.new_full((nodes, *rows.shape[1:]), float("nan") if rows.is_floating_point() else -100)
    out[:len(rows)] = rows
    return out


def _fill_edges(batch: Typed, edge_type: Any, data: Any) -> None:
    view = batch[edge_type]
    data.edge_index = view.edge_index
    data.num_sampled_edges = view.num_sampled_edges
    for column in view.columns():
        data[EDGE_NAMES.get(column, column)] = view[column]
    if f"block/0/{':'.join(edge_type)}/edge_pos" in batch and "edge_id" not in view.columns():
        data.e_id = view.edge_pos
    link = f"link/{':'.join(edge_type)}/"
    if link + "counts" in batch:
        data.edge_label_index, data.edge_label, data.input_id = view.edge_label_index, view.edge_label, view.input_id
        if link + "time" in batch:
            data.edge_label_time = view.edge_label_time


def to_dgl(batch: Typed) -> Any:
    """See Batch.to_dgl."""
    _need_torch(batch, "to_dgl")
    blocks = blocks_of(batch)
    first, last = blocks[0], blocks[-1]
    inputs: dict[str, Array] = {}
    outputs: dict[str, Array] = {}
    for t in batch.node_types:
        view = batch[t]
        inputs[t], outputs[t] = view.n_id, view.n_id[:view.batch_size]
        for column in view.columns():
            seed_only = f"node/{t}/{column}" not in batch
            if seed_only:
                last.dstnodes[t].data[column] = view[column]
            else:
                first.srcnodes[t].data[column] = view[column]
    if len(batch.node_types) == 1:
        return inputs[batch.node_types[0]], outputs[batch.node_types[0]], blocks
    return inputs, outputs, blocks


def _need_torch(batch: Typed, method: str) -> None:
    if not isinstance(batch._framework, Torch):
        raise TypeError(f'{method}() needs torch tensors: make the loader with framework="torch"')
