"""Changes of a graph, as khop embed --live takes them: arrays of numbers, one behind the other, and where they are."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Tuple

import numpy as np

from .._data.write import numbers
from ..errors import OptionError


class Graph:
    """The types of a graph, and the widths of features."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        """about is of khop.info."""
        self.widths: Dict[str, int] = {
            t["name"]: sum(math.prod(c["shape"]) for c in t["columns"] if c["name"] == "feature")
            for t in about["node_types"]}
        self.edges = [":".join((e["source"], e["relation"], e["target"])) for e in about["edge_types"]]


class Asked:
    """What an update asks for: the arrays, each with its place, and how many bytes they are."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.arrays: List[Tuple[int, Any]] = []
        self.bytes = 0

    def features(self, given: Any) -> List[Dict[str, Any]]:
        """New features of nodes: where their ids and rows are."""
        asked = []
        for name, of, pair in _typed("features", given, list(self._graph.widths)):
            if of not in self._graph.widths:
                raise OptionError(f"{name}: there are no such nodes: name one of {_names(self._graph.widths)}")
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise OptionError(f"{name}: must be (ids, rows), with rows [n, {self._graph.widths[of]}]")
            nodes = ids(f"{name}: ids", pair[0])
            rows = _rows(f"{name}: rows", pair[1], (len(nodes), self._graph.widths[of]))
            asked.append({"type": of, "count": len(nodes), "ids_at": self._place(nodes), "rows_at": self._place(rows)})
        return asked

    def edges(self, what: str, given: Any) -> List[Dict[str, Any]]:
        """Edges: where their ends are."""
        asked = []
        for name, of, array in _typed(what, given, self._graph.edges):
            ends = _whole(name, array, "edges [2, n]: sources, then destinations")
            if ends.ndim != 2 or len(ends) != 2:
                raise OptionError(f"{name}: the shape {list(ends.shape)}: must be edges [2, n]: sources, then "
                                  "destinations")
            asked.append({"edges": of, "count": ends.shape[1], "src_at": self._place(ends[0]),
                          "dst_at": self._place(ends[1])})
        return asked

    def _place(self, array: Any) -> int:
        """Takes an array, and returns its place."""
        place = self.bytes
        self.arrays.append((place, array))
        self.bytes += array.nbytes
        return place


def ids(name: str, given: Any) -> Any:
    """Ids of nodes."""
    nodes = _whole(name, given, "ids [n]")
    if nodes.ndim != 1:
        raise OptionError(f"{name}: the shape {list(nodes.shape)}: must be ids [n]")
    return nodes


def _typed(what: str, given: Any, types: List[str]) -> List[Tuple[str, str, Any]]:
    """What is given of each type: how errors name it, the type, and the arrays."""
    if given is None:
        return []
    if not isinstance(given, Mapping):
        if len(types) != 1:
            raise OptionError(f"{what}: there are several types: give a dict by type, of {_names(types)}")
        return [(what, types[0], given)]
    typed = []
    for key, value in given.items():
        if not isinstance(key, str) and not (isinstance(key, tuple) and all(isinstance(part, str) for part in key)):
            raise OptionError(f"{what}: {key!r} is no type: name one of {_names(types)}")
        typed.append((f"{what}[{key!r}]", key if isinstance(key, str) else ":".join(key), value))
    return typed


def _names(types: Any) -> str:
    return ", ".join(map(repr, types))


def _whole(name: str, given: Any, what: str) -> Any:
    """Whole numbers as int64."""
    array = numbers(given)
    if array is not None and array.size == 0:
        array = array.astype(np.int64)  # an empty list is of no type
    if array is None or array.dtype.kind not in "iu":
        of = type(given).__name__ if array is None else array.dtype
        raise OptionError(f"{name}: {of}: must be {what}, whole numbers" + (
            " (numpy.flatnonzero makes ids of a mask)" if of == bool else ""))
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise OptionError(f"{name}: {array.max()}: no node has such an id")
    return array.astype(np.int64, copy=False)


def _rows(name: str, given: Any, shape: Tuple[int, int]) -> Any:
    """Rows as float32, which has each number of an array exactly, and those of a list rounded."""
    array = numbers([] if given is None else given)
    if array is None or array.dtype.kind not in "biuf":
        raise OptionError(f"{name}: {type(given).__name__ if array is None else array.dtype}: must be numbers "
                          f"{list(shape)}")
    if array.size == 0 == math.prod(shape):
        return np.empty(shape, np.float32)
    if array.shape != shape:
        raise OptionError(f"{name}: the shape {list(array.shape)}: must be {list(shape)}, a row for each id")
    with np.errstate(over="ignore"):
        rows = array.astype(np.float32, copy=False)
    if isinstance(given, (list, tuple)) and array.dtype.kind == "f":
        return rows
    differ = (rows != array) & (array == array)
    if array.dtype.kind in "iu":  # numpy compares them as float64
        differ |= np.abs(array.astype(np.float64)) > 2**53
    if differ.any():
        row, column = np.argwhere(differ)[0]
        raise OptionError(f"{name}: row {row} has {array[row, column]!r} in column {column}, which float32 does not "
                          "hold exactly: convert the rows to float32 first")
    return rows
