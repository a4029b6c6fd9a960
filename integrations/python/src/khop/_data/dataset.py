"""The tables of a dataset, for programs that take Arrow streams."""

from __future__ import annotations

import ctypes
import os
from typing import Any, List, Mapping, Optional, Tuple

import numpy as np

from .info import info
from .stage import located
from .. import binary as _binary
from .._native import library as _library, producer, streams
from .._native.arrow import STREAM, Stream, capsule


class Rows:
    """Rows of nodes or edges of one type. Whatever takes Arrow streams takes them, as often as it likes:
    ``polars.from_arrow(rows)``, ``pyarrow.table(rows)``, ``duckdb.sql("from rows")``.

    Nodes have n_id, their columns, splits as booleans, and strings such as names; edges have src, dst and columns.
    Times are timestamps in UTC, null where missing. Columns of nodes are the dataset's mapped files, without a copy:
    they stay mapped as long as somebody has an array of them. Edges come in batches of some MB, each a copy.
    """

    def __init__(self, path: str, count: int, edges: bool, place: int) -> None:
        self.num_rows = count
        self._path, self._edges, self._place = path, edges, place

    @property
    def column_names(self) -> List[str]:
        return streams.names(self)

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        return f"<khop.Rows {self.num_rows} of {', '.join(self.column_names)}>"

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A new stream of all rows (Arrow's PyCapsule interface). Types are the dataset's, whatever is requested."""
        read = _library.load().function(
            "khop_stream_read", ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64, ctypes.POINTER(Stream))
        stream = Stream()
        read(os.fsencode(self._path), self._edges, self._place, stream)
        return capsule(stream, STREAM)


class Columns:
    """What khop.info says of a dataset's columns, as a table for what takes Arrow streams: owner (a node type, or
    source, relation and target of edges), count, name, dtype, shape and unit. A type without columns has a row without
    a name.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        owners = [(n["name"], n["count"], n["columns"]) for n in about["node_types"]]
        edges = about["edge_columns"]  # those of all edge types
        owners += [(":".join((e["source"], e["relation"], e["target"])), e["count"], edges)
                   for e in about["edge_types"]]
        self._rows = [(owner, count, column) for owner, count, columns in owners for column in columns or [{}]]

    def __len__(self) -> int:
        return len(self._rows)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A new stream of all rows (Arrow's PyCapsule interface)."""
        owners, counts, columns = zip(*self._rows)
        return producer.stream({
            "owner": [*owners], "count": np.array(counts, np.int64),
            **{name: [c.get(name, "") for c in columns] for name in ("name", "dtype", "unit")},
            "shape": ["x".join(map(str, c.get("shape", ()))) for c in columns]})


class Dataset:
    """A dataset, as tables: ``khop.Dataset("shop.khop").edges("user", "buys", "item")``. khop.Loader makes batches."""

    def __init__(self, path: _binary.PathLike) -> None:
        """ServerError if there is no dataset."""
        self.info, self.path = info(path), located(path)

    def __repr__(self) -> str:
        return f"<khop.Dataset {self.path}: {self.info['nodes']} nodes, {self.info['edges']} edges>"

    @property
    def columns(self) -> Columns:
        """The columns of all nodes and edges, as a table."""
        return Columns(self.info)

    @property
    def node_types(self) -> List[str]:
        return [n["name"] for n in self.info["node_types"]]

    @property
    def edge_types(self) -> List[Tuple[str, str, str]]:
        return [(e["source"], e["relation"], e["target"]) for e in self.info["edge_types"]]

    def nodes(self, node_type: Optional[str] = None) -> Rows:
        """The nodes of a type, which may be left out where there is one."""
        types = self.node_types
        if node_type is None and len(types) == 1:
            node_type = types[0]
        if node_type not in types:
            raise KeyError(f"there is no node type {node_type!r}; there are: {', '.join(types)}")
        place = types.index(node_type)
        return Rows(self.path, self.info["node_types"][place]["count"], False, place)

    def edges(self, *edge_type: str) -> Rows:
        """The edges of a type: source, relation and target, or the relation alone, or nothing where there is one
        type."""
        fits = [i for i, t in enumerate(self.edge_types) if edge_type in ((), t, t[1:2])]
        if len(fits) != 1:
            types = ", ".join(map(str, self.edge_types))
            raise KeyError(f"{len(fits)} edge types are {edge_type!r}; there are: {types}")
        return Rows(self.path, self.info["edge_types"][fits[0]]["count"], True, fits[0])
