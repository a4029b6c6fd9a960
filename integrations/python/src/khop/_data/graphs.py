"""Graphs of NetworkX, igraph and rustworkx, and sparse tensors of torch, as the arrays that khop.write takes.

The functions know an object by the module of its class, and import none of these libraries.
"""

from __future__ import annotations

import datetime
from typing import Any, Dict, Hashable, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ..errors import warn

_Columns = Dict[Hashable, Sequence[Any]]  # a value for each node or edge; None where one has none
_Parts = Dict[Union[None, str, Tuple[str, str, str]], Mapping[str, Any]]
_MOST_TEXT = 1 << 30  # bytes of a list of names, each of which takes as much as the longest


def is_networkx(data: Any) -> bool:
    return _of(data, "networkx") and hasattr(data, "is_multigraph")


def is_igraph(data: Any) -> bool:
    return _of(data, "igraph") and hasattr(data, "get_edgelist")


def is_rustworkx(data: Any) -> bool:
    return _of(data, "rustworkx") and hasattr(data, "weighted_edge_list")


def is_sparse_tensor(data: Any) -> bool:
    return _of(data, "torch") and str(getattr(data, "layout", "torch.strided")) != "torch.strided"


def _of(data: Any, library: str) -> bool:
    return any(c.__module__.split(".")[0] == library for c in type(data).__mro__)


def of_networkx(graph: Any) -> _Parts:
    nodes = list(graph.nodes)
    number = {node: i for i, node in enumerate(nodes)}
    listed = list(graph.edges(data=True))
    _left_out("graph", graph.graph)
    if graph.is_multigraph() and not all(isinstance(key, int) for *_, key in graph.edges(keys=True)):
        warn("khop.write: keys of parallel edges are left out: store them as an attribute of numbers")
    ends = [(number[u], number[v]) for u, v, _ in listed]
    return _parts(nodes, _columns(graph.nodes[v] for v in nodes), ends, _columns(d for *_, d in listed),
                  graph.is_directed())


def of_igraph(graph: Any) -> _Parts:
    nodes: _Columns = {name: graph.vs[name] for name in graph.vs.attributes()}
    edges: _Columns = {name: graph.es[name] for name in graph.es.attributes()}
    _left_out("graph", graph.attributes())
    names = nodes.pop("name", range(graph.vcount()))
    return _parts(names, nodes, graph.get_edgelist(), edges, graph.is_directed())


def of_rustworkx(graph: Any) -> _Parts:
    names: Sequence[Any] = list(graph.node_indices())
    number = {node: i for i, node in enumerate(names)}
    listed = list(graph.weighted_edge_list())
    if graph.attrs is not None:
        _left_out("graph", graph.attrs if isinstance(graph.attrs, Mapping) else {"attrs": graph.attrs})
    nodes = _payload(graph.nodes(), "data")
    if all(isinstance(node, str) for node in graph.nodes()):
        names, nodes = graph.nodes(), {}
    elif nodes.get("data") == names:
        nodes = {}
    names = nodes.pop("__networkx_node__", names)  # of rustworkx.networkx_converter
    directed = any(c.__name__ == "PyDiGraph" for c in type(graph).__mro__)
    return _parts(names, nodes, [(number[u], number[v]) for u, v, _ in listed],
                  _payload([data for *_, data in listed], "weight"), directed)


def of_sparse_tensor(tensor: Any) -> _Parts:
    layout = str(tensor.layout).replace("torch.", "")
    if layout not in ("sparse_coo", "sparse_csr", "sparse_csc"):
        raise ValueError(f"khop.write: a tensor of the layout {layout}: must be COO, CSR or CSC: use to_sparse_coo()")
    coo = tensor.detach() if layout == "sparse_coo" else tensor.detach().to_sparse_coo()
    if coo.sparse_dim() != 2 or coo.shape[0] != coo.shape[1]:
        shape = tuple(coo.shape)
        raise ValueError(f"khop.write: a sparse tensor of shape {shape}: must be square, a row and a column for each "
                         "node")
    (source, target), value = coo._indices(), coo._values()  # equal entries are parallel edges, as in SciPy's
    arrays = {"src": source, "dst": target, "num_nodes": coo.shape[0]}
    if value.dim() > 1:
        arrays["edge_attr"] = value
    elif not (value == 1).all():
        arrays["edge_weight"] = value
    return {None: arrays}


# --- what these have in common: nodes and edges with attributes ---

def _parts(names: Sequence[Any], nodes: _Columns, ends: Any, edges: _Columns, directed: bool) -> _Parts:
    """The arrays of a graph. Names that are not 0, 1, .. become the list "id". Edges that are not directed go both
    ways, but for those from a node to itself."""
    named = any(name != i for i, name in enumerate(names))
    if named and "id" in nodes:
        warn("khop.write: nodes: 'id' is left out: the names of the nodes are called so")
        nodes = {name: values for name, values in nodes.items() if name != "id"}
    of_nodes = _arrays("nodes", nodes, len(names))
    texts = _texts("names", names) if named else None
    if texts is not None:
        of_nodes["names_id"] = texts
    pairs = np.asarray(ends, np.int64).reshape(-1, 2).T
    of_edges = _arrays("edges", edges, pairs.shape[1])
    if not directed:
        back = pairs[0] != pairs[1]
        pairs = np.concatenate([pairs, pairs[::-1, back]], axis=1)
        of_edges = {name: np.concatenate([array, array[back]]) for name, array in of_edges.items()}
    return {"node": {**of_nodes, "num_nodes": len(names)}, ("node", "to", "node"): {**of_edges, "edge_index": pairs}}


def _columns(rows: Iterable[Mapping[Hashable, Any]]) -> _Columns:
    """The attributes of nodes or edges, which some lack, by their names."""
    rows = list(rows)
    columns: dict[Hashable, List[Any]] = {}
    for i, row in enumerate(rows):
        for name, value in row.items():
            if name not in columns:
                columns[name] = [None] * len(rows)
            columns[name][i] = value
    return dict(columns)


def _payload(values: Sequence[Any], name: str) -> _Columns:
    """What rustworkx has at nodes or edges: attributes, or one thing, which gets a name."""
    if all(value is None or isinstance(value, Mapping) for value in values):
        return _columns(value or {} for value in values)
    return {name: values}


def _left_out(of: str, names: Iterable[Any]) -> None:
    for name in names:
        warn(f"khop.write: {of}: {name!r} is left out: it belongs to no node or edge")


def _arrays(of: str, columns: _Columns, rows: int) -> dict[str, Any]:
    """Attributes as arrays. Warnings name those that no column can have, and missing values."""
    found: dict[str, Any] = {}
    for name, values in columns.items():
        have = [value for value in values if value is not None]
        array, text, why = _array(have), False, ""
        if array is not None:
            text = array.dtype.kind == "U"
        if not isinstance(name, str) or name in ("num_nodes", "edge_index"):
            why = "attributes need other names, of text"
        elif array is None:
            why = "its values are not numbers, times, or as many numbers each"
        elif text and of == "edges":
            why = "columns of edges have no text: number its values"
        if why:
            warn(f"khop.write: {of}: {name!r} is left out: {why}")
            continue
        missing: Any = "" if text else 1 if (of, name) == ("edges", "weight") else np.nan
        if len(have) < rows and array.dtype.kind not in "mM":  # of times khop says it
            warn(f"khop.write: {of}: {rows - len(have):,} of {rows:,} have no {name!r}: it is {missing!r} there")
        if text:
            array = _texts(str(name), [missing if value is None else value for value in values])
            if array is not None:
                found[f"names_{name}"] = array
        else:
            found[str(name)] = _filled(array, values, missing)
    return found


def _array(values: Sequence[Any]) -> Any:
    """Values as an array of numbers, times, or text; None if they are not of one kind."""
    values = [value.detach().cpu().numpy() if hasattr(value, "detach") else value for value in values]
    try:
        if any(isinstance(value, datetime.date) for value in values):
            array = np.asarray([_time(value) for value in values])
        elif any(isinstance(value, datetime.timedelta) for value in values):
            array = np.asarray(values, "timedelta64[us]")
        else:
            array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        return None
    if array.dtype.kind == "U" and not all(isinstance(value, str) for value in values):
        return None
    if array.dtype.kind == "f" and all(isinstance(value, int) for value in values):  # beyond 64 bits
        return None
    return array if len(values) and array.dtype.kind in "biufmMU" and array.size else None


def _time(value: Any) -> np.datetime64:
    """A date or time of Python or pandas: without a zone it is UTC."""
    if hasattr(value, "to_datetime64"):
        return np.datetime64(value.to_datetime64())
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return np.datetime64(value, "us")


def _filled(array: Any, values: Sequence[Any], missing: Any) -> Any:
    """The array with a row for each value, also for those that are missing."""
    if len(array) == len(values):
        return array
    if array.dtype.kind in "mM":
        full = np.full((len(values), *array.shape[1:]), np.datetime64("NaT").astype(array.dtype), array.dtype)
    else:
        dtype = array.dtype if array.dtype.kind == "f" or missing == 1 else np.float64
        full = np.full((len(values), *array.shape[1:]), missing, dtype)
    full[[value is not None for value in values]] = array
    return full


def _texts(of: str, values: Sequence[Any]) -> Optional[Any]:
    """Texts as an array of their bytes; None, with a warning, where they cannot be one."""
    try:
        texts = [str(value).encode() for value in values]
    except UnicodeEncodeError:
        texts = [b"\0"]
    width = max(map(len, texts), default=0) or 1
    if width * len(texts) > _MOST_TEXT or any(text.endswith(b"\0") for text in texts):
        warn(f"khop.write: nodes: {of!r} is left out: texts are too long, or not UTF-8")
        return None
    return np.array(texts, f"S{width}")
