"""Batches as PyTorch Geometric's and DGL's own objects."""

from __future__ import annotations

from typing import Any, Container, Dict, Iterable, Mapping, Optional, Sequence

from .views import Typed
from .blocks import blocks_of
from .frameworks import Array, Torch
from .schema import EDGE_NAMES, NODE_NAMES, EdgeType, columns_of, text


_Columns = Mapping[str, Sequence[str]]


def to_pyg(
    batch: Typed, hidden: Mapping[str, Container[str]] = {}, edge_types: Optional[Iterable[EdgeType]] = None,
) -> Any:
    """Makes Batch.to_pyg's object. hidden are columns of nodes to leave out, by type; edge_types are those to include,
    all by default."""
    from torch_geometric.data import Data, HeteroData

    _need_torch(batch, "to_pyg")
    columns = columns_of(batch.names())
    if batch.schema.plain:
        data = Data()
        nodes, edges = _nodes(batch, batch.node_types[0], columns, ()), _edges(batch, batch.edge_types[0], columns)
        for name, value in (*nodes.items(), *edges.items()):
            setattr(data, name, value)
        return data
    data = HeteroData()
    for node_type in batch.node_types:  # the mapping of a store is filled at once: to set each takes as long as to make
        nodes = _nodes(batch, node_type, columns, hidden.get(node_type, ()))
        data.get_node_store(node_type)._mapping.update(nodes)
    for edge_type in batch.edge_types if edge_types is None else edge_types:
        data.get_edge_store(*edge_type)._mapping.update(_edges(batch, edge_type, columns))
    return data


def _nodes(batch: Typed, node_type: str, columns: _Columns, hidden: Container[str]) -> Dict[str, Any]:
    view = batch[node_type]
    data = {NODE_NAMES.get(c, c): view[c] for c in columns.get(f"node/{node_type}/", ()) if c not in hidden}
    for c in columns.get(f"seed/{node_type}/", ()):
        if c not in hidden:
            data.setdefault(NODE_NAMES.get(c, c), _for_all(view[c], view.num_nodes))
    data.update(num_nodes=view.num_nodes, n_id=view.n_id, num_sampled_nodes=view.num_sampled_nodes)
    if view.batch_size:
        data["batch_size"] = view.batch_size
        if f"item/{node_type}" in batch:
            data["input_id"] = view.input_id
    if f"sample/tree/{node_type}" in batch:
        data["batch"] = batch.array(f"sample/tree/{node_type}").long()
    if f"task/{node_type}/label" in batch:
        data["y"] = view.label
        if f"task/{node_type}/time" in batch:
            data["seed_time"] = view.seed_time
        if f"task/{node_type}/from" in batch:
            data["seed_start_time"] = view.seed_start_time
    return data


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


def _edges(batch: Typed, edge_type: EdgeType, columns: _Columns) -> Dict[str, Any]:
    view, there = batch[edge_type], columns.get(f"edge/0/{text(edge_type)}/", ())
    data = {"edge_index": view.edge_index, "num_sampled_edges": view.num_sampled_edges}
    data.update((EDGE_NAMES.get(c, c), view[c]) for c in there)
    if "edge_id" not in there and f"block/0/{text(edge_type)}/edge_pos" in batch:
        data["e_id"] = view.edge_pos
    link = f"link/{text(edge_type)}/"
    if link + "counts" in batch:
        data.update(edge_label_index=view.edge_label_index, edge_label=view.edge_label, input_id=view.input_id)
        if link + "time" in batch:
            data["edge_label_time"] = view.edge_label_time
        if link + "from" in batch:
            data["edge_label_start_time"] = view.edge_label_start_time
    return data


def to_dgl(batch: Typed) -> Any:
    """Makes Batch.to_dgl's triple."""
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
