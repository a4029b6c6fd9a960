"""Writes datasets of data in memory: arrays, matrices, tables, and graphs of PyTorch Geometric and DGL."""

from __future__ import annotations

import contextlib
import math
import pathlib
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Tuple, Union

import numpy as np

from . import converted, graphs as _graphs, tables
from .._native import library as _library, streams
from .. import binary as _binary
from ..errors import ForkError, LibraryNotFound, warn
from .._feed.protocol import FOREIGN
from .._native.scratch import SMALL, Scratch

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._config.option_table import ConvertOptions

_Key = Union[None, str, Tuple[str, str, str]]  # of a plain graph, a node type, an edge type
_Arrays = Mapping[str, Any]
_EDGES = frozenset({"edge_index", "edges", "edge_list", "edgelist", "src", "source", "row"})  # one is in a plain graph


def write(path: _binary.PathLike, data: Any, *, binary: Optional[_binary.PathLike] = None,
          **options: Unpack[ConvertOptions]) -> None:
    """Writes a dataset of a graph in memory, as ``khop convert`` does of files.

    data is one of

    - ``Data`` or ``HeteroData`` of PyTorch Geometric, or a graph of DGL;
    - a graph of NetworkX, igraph or rustworkx: attributes become columns, ``weight`` the weight, names the list ``id``;
      edges that are not directed go both ways, self-loops once;
    - a square matrix of SciPy, or sparse tensor of torch: entry (i, j) is the edge i -> j, its value the weight, unless
      all are 1;
    - edges ``[2, n]``, sources and targets, as an array or tensor;
    - a mapping of names to arrays: ``{"edge_index": .., "x": .., "y": .., "train_mask": .., "edge_weight": ..}``; for
      several types a mapping of node types and edge types to such mappings: ``{"paper": {"x": ..}, ("author", "writes",
      "paper"): {"edge_index": ..}}``;
    - a table of edges, or a mapping as in docs/convert.md ("Tables"), with tables in place of files. A table is one of
      pandas, or whatever has ``__arrow_c_stream__``: of polars, DuckDB, pyarrow, ibis, .. Its rows are read once, a
      batch at a time. An index of pandas without a name is left out.

    options are those of ``khop convert`` (docs/cli.md): ``symmetrise=True``, ``dedupe="first"``,
    ``feature_dtype="float16"``, ``row_stride=64``, ``force=True``, ..

    The arrays pass through temporary files beside path, which take as much room. WriteError names what is wrong, and
    where; then there is no dataset, or still the one that was there before.
    """
    converted.write(path, lambda folder: _spill(folder, data), "the graph", options, binary, size(data) <= SMALL)


def temporary(
    what: str, data: Any, binary: Optional[_binary.PathLike] = None, inside: bool = True,
) -> tuple[Scratch, str]:
    """Writes a temporary dataset of a graph in memory, and returns it with the folder that it is removed with. inside
    allows loading the shared library for a small one."""
    small = size(data) <= SMALL
    if small and inside and binary is None:
        with contextlib.suppress(LibraryNotFound, ForkError):
            _library.load()
    scratch = Scratch(what, small=small)
    path = scratch.file("data.khop")
    try:
        write(path, data, binary=binary)
    except BaseException:
        scratch.close()
        raise
    return scratch, path


def size(data: Any) -> float:
    """Bytes of the arrays of what khop.write takes; infinity where that is not easily told."""
    if _graphs.is_sparse_tensor(data):  # torch knows no bytes of it
        return math.inf
    if hasattr(data, "stores"):
        return sum(map(size, data.stores))
    if isinstance(data, Mapping) or hasattr(data, "items") and hasattr(data, "keys"):
        return sum(size(value) for _, value in data.items())
    if isinstance(data, (int, float, np.generic, str, type(None))):
        return 8
    if isinstance(data, (list, tuple)):
        return sum(map(size, data))
    if hasattr(data, "nbytes"):
        return int(data.nbytes)
    if hasattr(data, "element_size") and hasattr(data, "numel"):  # torch before 2.1
        return int(data.element_size() * data.numel())
    return math.inf


def _spill(folder: pathlib.Path, data: Any) -> pathlib.Path:
    """Writes what khop convert reads, and returns where it is."""
    for fits, spill in _KINDS:
        if fits(data):
            return spill(folder, data)
    what = f"{type(data).__module__}.{type(data).__name__}"
    raise TypeError(f"khop.write: {what}: must be a graph, a matrix, edges, a table, or a mapping of arrays")


def _write(folder: pathlib.Path, parts: Mapping[_Key, _Arrays]) -> pathlib.Path:
    """Writes arrays as formats/internal/foreign/arrays has them: in one folder, or in one for each type."""
    for key, arrays in parts.items():
        at = folder
        if key is not None:
            names = (key,) if isinstance(key, str) else key
            for name in names:
                if not _is_file_name(name) or "__" in name:
                    raise ValueError(f"khop.write: {key!r}: types need names of up to 200 bytes without '__' and '/'")
            at = folder / folder_of(key)
        at.mkdir(parents=True, exist_ok=True)
        for name, value in arrays.items():
            if not _is_file_name(name):
                raise ValueError(f"khop.write: {name!r}: arrays need names of up to 200 bytes without '/'")
            array = numbers(value)
            if array is None:
                what = f"{key!r}: {name}" if key is not None else name
                kind = type(value).__name__
                warn(f"khop.write: {what} is left out: {kind} is not an array of numbers")
            else:
                _save(at / f"{name}.npy", array)
    return folder


def folder_of(key: Union[str, Tuple[str, str, str]]) -> str:
    """Where khop convert reads the arrays of a node type or an edge type."""
    return f"nodes/{key}" if isinstance(key, str) else f"edges/{'__'.join(key)}"


def _is_file_name(name: Any) -> bool:
    """Whether a name can be that of a file that khop convert reads; khop convert checks the rest."""
    if not isinstance(name, str) or name.startswith(".") or {"/", "\0"} & set(name):
        return False
    try:
        return 0 < len(name.encode()) <= 200
    except UnicodeEncodeError:
        return False


def numbers(value: Any) -> Any:
    """A value as an array of numbers, times, or names in UTF-8; None if it is not one."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype).removeprefix("torch.") in FOREIGN:
            value = value.float()
        if value.layout is not __import__("torch").strided:
            return None
        value = value.numpy()
    if isinstance(value, (str, bytes, Mapping)) or value is None:
        return None
    if streams.is_stream(value) and not hasattr(value, "__array__"):
        return streams.numbers(value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return None
    return array if array.dtype.kind in "biufmMS" else None


def _save(path: pathlib.Path, array: Any) -> None:
    """Writes an array row by row: one whose columns lie together numpy would write so, without asking."""
    if array.flags.c_contiguous or not array.flags.f_contiguous:
        np.save(path, array, allow_pickle=False)
        return
    create: Any = np.lib.format.open_memmap
    rows = create(path, mode="w+", dtype=array.dtype, shape=array.shape)
    step = max(1, (16 << 20) // max(1, array[:1].nbytes))
    for first in range(0, len(array), step):
        rows[first:first + step] = array[first:first + step]


# --- kinds of data ---

def _of_pyg(folder: pathlib.Path, data: Any) -> pathlib.Path:
    parts: dict[_Key, dict[str, Any]] = {}
    for store in data.stores:
        key = store._key
        values = dict(store.items())
        if key is None and hasattr(data, "node_types"):  # what a HeteroData says of the whole graph
            for name in values:
                warn(f"khop.write: {name} is left out: it belongs to no type of nodes or edges")
        elif key is None:  # a Data: one type of nodes and of edges, whose attributes lie side by side
            of_nodes = {k for k in values if store.is_node_attr(k) or k.endswith("_idx")} | {"num_nodes"}
            parts["node"] = {**{k: v for k, v in values.items() if k in of_nodes}, "num_nodes": data.num_nodes}
            parts["node", "to", "node"] = adjacency({k: v for k, v in values.items() if k not in of_nodes})
        elif isinstance(key, str):
            parts[key] = {**values, "num_nodes": store.num_nodes}
        else:
            parts[key] = adjacency(values, key)
    return _write(folder, parts)


def adjacency(values: dict[str, Any], of: Any = None) -> dict[str, Any]:
    """Makes edges of a transposed adjacency matrix of PyG, as ToSparseTensor makes it, and checks the form of
    edge_index, which is that of an edge type."""
    index: Any = values.get("edge_index")
    if hasattr(index, "shape") and (len(index.shape) != 2 or index.shape[0] != 2):
        name, shape = "edge_index" if of is None else f"edge_index of {of}", tuple(index.shape)
        turned = ": give its transpose, edge_index.t()" if len(shape) == 2 and shape[1] == 2 else ""
        raise ValueError(f"{name}: shape {shape}: must be [2, edges], sources and targets{turned}")
    transposed = values.pop("adj_t", None)
    if transposed is None or "edge_index" in values:
        return values
    if hasattr(transposed, "coo"):
        target, source, value = transposed.coo()
    else:
        coo = transposed.to_sparse_coo().coalesce()
        (target, source), value = coo.indices(), coo.values()
    values["src"], values["dst"] = source, target
    if value is not None:
        values["edge_weight"] = value
    return values


def _of_dgl(folder: pathlib.Path, graph: Any) -> pathlib.Path:
    parts: dict[_Key, dict[str, Any]] = {}
    for t in graph.ntypes:
        parts[_name(t, "node")] = {**graph.nodes[t].data, "num_nodes": graph.num_nodes(t)}
    for source, relation, target in graph.canonical_etypes:
        src, dst = graph.edges(etype=(source, relation, target), order="eid")
        names = {"feat": "edge_feat", "label": "edge_label"}
        data = {names.get(k, k): v for k, v in graph.edges[source, relation, target].data.items()}
        parts[_name(source, "node"), _name(relation, "to"), _name(target, "node")] = {**data, "src": src, "dst": dst}
    return _write(folder, parts)


def _name(of: str, plain: str) -> str:
    """DGL's names of types that have none are _N and _E."""
    return plain if of in ("_N", "_E") else of


def _of_scipy(folder: pathlib.Path, matrix: Any) -> pathlib.Path:
    coo = matrix.tocoo()
    if coo.shape[0] != coo.shape[1]:
        shape = f"{coo.shape[0]:,} rows and {coo.shape[1]:,} columns"
        raise ValueError(f"khop.write: a matrix of {shape}: must be square, a row and a column for each node")
    arrays = {"src": coo.row, "dst": coo.col, "num_nodes": coo.shape[0]}
    if not (coo.data == 1).all():
        arrays["edge_weight"] = coo.data
    return _write(folder, {None: arrays})


def _of_edges(folder: pathlib.Path, edges: Any) -> pathlib.Path:
    array = numbers(edges)
    if array is None or array.ndim != 2 or array.shape[0] != 2 or array.dtype.kind not in "iu":
        shape = "" if array is None else f" {array.dtype} of shape {array.shape}:"
        raise ValueError(f"khop.write: edges:{shape} must be whole numbers [2, edges], sources and targets")
    return _write(folder, {None: {"edge_index": array}})


def _of_arrays(folder: pathlib.Path, arrays: Mapping[Any, Any]) -> pathlib.Path:
    if _EDGES & {name for name, part in arrays.items() if not isinstance(part, Mapping)}:
        return _write(folder, {None: arrays})
    for key, part in arrays.items():
        typed = isinstance(key, str) or isinstance(key, tuple) and len(key) == 3
        if not typed or not isinstance(part, Mapping):
            raise ValueError(f"khop.write: {key!r}: must be edge_index and other arrays, or a mapping for each "
                             "node type and (source, relation, target)")
    return _write(folder, arrays)


def _of_table(folder: pathlib.Path, table: Any) -> pathlib.Path:
    return tables.write(folder, {"edges": {"to": {"file": table}}})


def _is_mapping_of_tables(data: Any) -> bool:
    if not isinstance(data, Mapping) or not set(data) <= {"nodes", "edges"}:
        return False
    return all(isinstance(v, Mapping) for v in data.values())


def _is_array(data: Any) -> bool:
    return isinstance(data, (np.ndarray, list, tuple)) or hasattr(data, "detach")


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[pathlib.Path, Any], pathlib.Path]], ...] = (
    (tables.is_table, _of_table),  # the first: any name may be that of a column, and so an attribute
    (lambda d: hasattr(d, "stores") and hasattr(d, "num_nodes"), _of_pyg),
    (lambda d: hasattr(d, "canonical_etypes"), _of_dgl),
    (_graphs.is_networkx, lambda folder, graph: _write(folder, _graphs.of_networkx(graph))),
    (_graphs.is_igraph, lambda folder, graph: _write(folder, _graphs.of_igraph(graph))),
    (_graphs.is_rustworkx, lambda folder, graph: _write(folder, _graphs.of_rustworkx(graph))),
    (_graphs.is_sparse_tensor, lambda folder, tensor: _write(folder, _graphs.of_sparse_tensor(tensor))),
    (lambda d: hasattr(d, "tocoo"), _of_scipy),
    (_is_mapping_of_tables, tables.write),
    (lambda d: isinstance(d, Mapping), _of_arrays),
    (_is_array, _of_edges),
)
