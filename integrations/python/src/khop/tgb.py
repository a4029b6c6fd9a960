"""Lists of negatives of TGB, the Temporal Graph Benchmark, whose package is not needed.

    lists = khop.tgb.negatives("tgbl-wiki_val_ns.pkl", src, dst, t)
    loader = khop.Loader("wiki.khop", edge_label_index=[src, dst], edge_label_time=t, edge_label_negatives=lists)
"""

from __future__ import annotations

import pickle
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from .binary import PathLike

__all__ = ["negatives"]


def negatives(path: PathLike, src: Any, dst: Any, t: Any, edge_type: Any = None) -> "np.ndarray[Any, Any]":
    """Returns the negative targets of each edge [n, k], int32 or int64, as khop.Loader takes them for
    edge_label_negatives: -1 behind the last of a list that is shorter than k.

    path is a file of TGB, such as tgbl-wiki_test_ns.pkl; src, dst and t are the edges, in TGB's numbers, with edge_type
    for its heterogeneous graphs (thgl). Nothing in the file is run. A ValueError says that it holds other things than
    lists of numbers, or lacks an edge.
    """
    with open(path, "rb") as file:
        try:
            lists = _Numbers(file).load()
        except Exception as e:  # what a pickle that is damaged, or made to harm, may raise
            raise ValueError(f"{path}: not lists of negatives: {e or type(e).__name__}") from e
    if not isinstance(lists, dict):
        raise ValueError(f"{path}: not lists of negatives: a {type(lists).__name__}")
    columns = [np.asarray(c).reshape(-1).tolist() for c in (src, dst, t, edge_type) if c is not None]
    if len(set(map(len, columns))) > 1:
        raise ValueError(f"src, dst, t and edge_type have {list(map(len, columns))} elements: one for each edge")
    rows = [_row(path, lists, edge) for edge in zip(*columns)]
    table = np.full((len(rows), max(map(len, rows), default=0)), -1, np.int64)
    for row, ids in zip(table, rows):
        row[:len(ids)] = ids
    return table.astype(np.int32) if table.size and table.max() < 1 << 31 else table


def _row(path: PathLike, lists: Dict[Any, Any], edge: Tuple[int, ...]) -> "np.ndarray[Any, Any]":
    """The list of an edge: by its ends and its time, or, with types, by time, source and type."""
    key = edge if edge in lists or len(edge) == 3 else (edge[2], edge[0], edge[3])
    if key not in lists:
        raise ValueError(f"{path}: has no negatives of edge {edge}: give the edges of its split, with TGB's numbers")
    ids = lists[key]
    if not isinstance(ids, _Array) or len(ids.shape) != 1:
        raise ValueError(f"{path}: negatives of edge {edge}: not an array of numbers")
    with np.errstate(invalid="ignore"):
        whole = ids.values.astype(np.int64)
    if not np.array_equal(whole, ids.values) or whole.size and whole.min() < 0:
        raise ValueError(f"{path}: negatives of edge {edge}: some are not node ids")
    return whole


class _DType:
    """The type of the elements of a pickled array."""

    def __init__(self, code: str, *_: Any) -> None:
        if not isinstance(code, str) or code not in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"):
            raise ValueError(f"an array of {code!r}")
        self.code = code

    def __setstate__(self, state: Any) -> None:
        if state[1] not in ("<", "|", ">", "="):
            raise ValueError(f"byte order {state[1]!r}")
        self.code = str(state[1]).replace("=", "<") + self.code[-2:]


class _Array:
    """A pickled array."""

    shape: Tuple[int, ...] = ()
    values = np.empty(0, np.int64)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, _, data = state
        self.fill(data, dtype, shape)

    def fill(self, data: Any, dtype: Any, shape: Any) -> _Array:
        if not isinstance(dtype, _DType) or not isinstance(data, (bytes, bytearray)):
            raise ValueError("an array without its bytes")
        self.values, self.shape = np.frombuffer(data, np.dtype(dtype.code)), tuple(shape)
        if len(self.shape) == 1 and self.shape != (len(self.values),):
            raise ValueError(f"{len(self.values)} elements of shape {self.shape}")
        return self


class _Ndarray:
    """Stands for the class numpy.ndarray."""


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _from_buffer(data: Any, dtype: Any, shape: Any, *_: Any) -> _Array:
    return _Array().fill(data, dtype, shape)


def _scalar(dtype: Any, data: Any) -> int:
    (number,) = _Array().fill(data, dtype, (1,)).values.tolist()
    if number != int(number):
        raise ValueError(f"{number} in an edge")
    return int(number)


_TAKEN: Dict[str, Any] = {
    "dtype": _DType, "ndarray": _Ndarray, "_reconstruct": _reconstruct, "scalar": _scalar, "_frombuffer": _from_buffer}
_MODULES: List[str] = ["numpy", *(f"numpy.{core}.{m}" for core in ("core", "_core") for m in ("multiarray", "numeric"))]


class _Numbers(pickle.Unpickler):
    """Reads numbers, tuples, dicts and arrays of numbers. Names that a pickle gives stand for what is above, and
    others are refused, so that nothing of it is run."""

    def find_class(self, module: str, name: str) -> Any:
        if module not in _MODULES or name not in _TAKEN:
            raise ValueError(f"it would run {module}.{name}")
        return _TAKEN[name]
