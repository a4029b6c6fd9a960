"""The contents of a batch by the names of its arrays: the part of Batch that its views and other forms use."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np

from .arrays import Arrays, Converted
from .._feed.device import DeviceArrays, array_of
from ..errors import ProtocolError
from .frameworks import Array, Framework, edge_index
from .._feed.protocol import BatchReady
from .._feed.ring import Told
from .schema import Schema, columns_of


class Info(NamedTuple):
    """Which batch it is, and the place of the next one."""

    epoch: int
    number: int
    padded: bool
    next: int


class Contents:
    """The arrays of a batch, made at the first access."""

    __slots__ = ("schema", "_info", "_source", "_framework", "_index", "_values", "_table", "__weakref__")

    def __init__(
        self, schema: Schema, info: Union[Info, BatchReady], source: Arrays, framework: Framework,
        index_dtype: Union[str, np.dtype[Any]],
    ) -> None:
        self.schema = schema
        self._info: Union[Info, Told] = info
        self._source: Optional[Arrays] = source
        self._framework = framework
        self._index: np.dtype[Any] = np.dtype(index_dtype) if isinstance(index_dtype, str) else index_dtype
        self._values: dict[str, Array] = {}
        self._table: Optional[list[list[int]]] = None

    # --- which batch it is ---

    @property
    def info(self) -> Info:
        info = self._info
        if type(info) is not Info:
            ready = BatchReady(*info)
            info = self._info = Info(ready.epoch, ready.number, ready.padded, ready.next)
        return info

    @property
    def epoch(self) -> int:
        return self.info.epoch

    @property
    def number(self) -> int:
        """The batch's number in the epoch, over all ranks."""
        return self.info.number

    @property
    def padded(self) -> bool:
        """Whether this rank repeats a batch of another rank, so that all have equally many."""
        return self.info.padded

    @property
    def _counts(self) -> list[list[int]]:
        """Nodes [after hop][node type]."""
        if self._table is None:
            table = self._arrays().numpy("num_nodes")[0]
            if table.shape != (self.schema.layers + 1, len(self.schema.node_types)):
                raise ProtocolError(
                    f"num_nodes has shape {table.shape}, where the batches before had {self.schema.layers} layers")
            self._table = table.tolist()
        return self._table

    # --- arrays by name ---

    def names(self) -> tuple[str, ...]:
        """The names of all arrays (docs/digest.md)."""
        return self._arrays().names()

    def array(self, name: str) -> Array:
        """Returns an array by its name (docs/digest.md). Ids have the loader's index_dtype; where the feed has another,
        they are a copy."""
        value = self._values.get(name)
        if value is None:
            source = self._source or self._arrays()
            if isinstance(source, DeviceArrays):
                value = array_of(self._framework, source, name, self._index if _is_index(name) else None)
            else:
                a, dtype = source.numpy(name)
                if a.dtype != self._index and _is_index(name):
                    a = a.astype(self._index)
                value = self._framework.wrap(a, dtype)
            self._values[name] = value
        return value

    def _find(self, name: str) -> Optional[Array]:
        """The array of a name, None if there is none."""
        return self.array(name) if self._arrays().has(name) else None

    def _attribute(self, node_type: str, column: str) -> Array:
        """A column of all nodes of a type, or where it was asked for seeds only, of the seeds."""
        has = self._arrays().has
        name = f"node/{node_type}/{column}"
        if not has(name):
            name = f"seed/{node_type}/{column}"
            if not has(name):
                there_are = ", ".join(self._columns(node_type)) or "none"
                raise AttributeError(
                    f"node type {node_type!r} has no column {column!r} in this batch; it has: {there_are}")
        return self.array(name)

    def _columns(self, node_type: str) -> tuple[str, ...]:
        """The columns of a node type that are here, of all nodes or of the seeds."""
        columns = columns_of(self.names())
        return tuple(dict.fromkeys(c for kind in ("node", "seed") for c in columns.get(f"{kind}/{node_type}/", ())))

    def __contains__(self, name: str) -> bool:
        return self._arrays().has(name)

    def _arrays(self) -> Arrays:
        if self._source is None:
            raise ValueError(f"batch {self.number} of epoch {self.epoch} was released")
        return self._source

    def _dtypes(self) -> dict[str, str]:
        source = self._arrays()
        if isinstance(source, DeviceArrays):
            return {n: source.dtype(n) for n in source.names()}
        return {n: source.numpy(n)[1] for n in source.names()}

    def _edge_index(self, blocks: list[str]) -> Array:
        """Sources and destinations [2, edges] of blocks one after another. Their arrays' names begin so."""
        source, f = self._arrays(), self._framework
        if isinstance(source, (Converted, DeviceArrays)):
            parts = [f.edge_index(self.array(b + "indptr"), self.array(b + "indices")) for b in blocks]
            return parts[0] if len(parts) == 1 else f.cat([p[0] for p in parts] + [p[1] for p in parts]).reshape(2, -1)
        csc = [(source.numpy(b + "indptr")[0], source.numpy(b + "indices")[0]) for b in blocks]
        return f.wrap(edge_index(csc, self._index), self._index.name)

    def _cached(self, name: str, make: Callable[[], Array]) -> Array:
        if name not in self._values:
            self._values[name] = make()
        return self._values[name]


def _is_index(name: str) -> bool:
    return name.startswith(("nodes/", "seeds/", "input/", "item/", "block/")) or name.startswith(
        "link/") and name.endswith("/group")
