"""Items: the seeds that a pipeline of khop.graphbolt iterates over."""

from __future__ import annotations

import textwrap
from collections.abc import Sized
from typing import Any, Iterator, Mapping

import torch

from .._loader.loader import on_host
from .._batch.schema import LABEL
from .._peers.graph_source import Source
from .base import require

SECTION = "From GraphBolt"
"""The section of docs/migrating.md that says what differs."""


def _is_number(items: Any) -> bool:
    return items.dim() == 0 if isinstance(items, torch.Tensor) else isinstance(items, int)


class ItemSet:
    """dgl.graphbolt.ItemSet: an iterable, a tuple of iterables of equal length, or a number n for the items 0, 1, .., n
    - 1."""

    def __init__(self, items: Any, names: Any = None) -> None:
        self._items: Any = items if isinstance(items, tuple) or _is_number(items) else (items,)
        self._names: Any = names if names is None or isinstance(names, tuple) else (names,)
        number = len(self._items) if isinstance(self._items, tuple) else 1
        named = len(self._names or ())
        require(names is None or number == named, f"Number of items ({number}) and names ({named}) must match.")
        lengths = {len(i) for i in self._items if isinstance(i, torch.Tensor)} if number > 1 else set()
        require(len(lengths) < 2, f"ItemSet: tensors of {sorted(lengths)} rows: all need as many rows")

    @property
    def names(self) -> Any:
        """The names of the items, which become fields of minibatches: "seeds", "labels", .."""
        return self._names

    @property
    def _counted(self) -> bool:
        return not isinstance(self._items, tuple)

    @property
    def _dtype(self) -> Any:
        return getattr(self._items, "dtype", torch.int64)

    def __len__(self) -> int:
        if self._counted:
            return int(self._items)
        if not isinstance(self._items[0], Sized):
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length.")
        return len(self._items[0])

    def __getitem__(self, index: Any) -> Any:
        if self._counted:
            return self._number(index)
        if not hasattr(self._items[0], "__len__"):
            raise TypeError(f"{type(self).__name__} instance doesn't support indexing.")
        return self._items[0][index] if len(self._items) == 1 else tuple(item[index] for item in self._items)

    def _number(self, index: Any) -> Any:
        whole = range(len(self))
        if isinstance(index, slice):
            return torch.arange(*index.indices(len(whole)), dtype=self._dtype)
        if not isinstance(index, int):
            raise TypeError(f"{type(self).__name__} indices must be integer or slice.")
        if not -len(whole) <= index < len(whole):
            raise IndexError(f"{type(self).__name__} index out of range.")
        at = whole[index]
        return torch.tensor(at, dtype=self._dtype) if isinstance(self._items, torch.Tensor) else at

    def __iter__(self) -> Iterator[Any]:
        if self._counted:
            yield from torch.arange(len(self), dtype=self._dtype)
        elif len(self._items) == 1:
            yield from self._items[0]
        elif isinstance(self._items[0], Sized):
            yield from (tuple(item[i] for item in self._items) for i in range(len(self)))
        else:
            yield from zip(*self._items)

    def array(self, *names: str) -> Any:
        """Returns the tensor of the first of these names that the items have, or None."""
        for name in names:
            if name in (self.names or ()):
                found = torch.arange(len(self), dtype=self._dtype) if self._counted else self._items[
                    self.names.index(name)]
                return found if isinstance(found, torch.Tensor) else None
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    items={self._items},\n    names={self.names},\n)"


class HeteroItemSet:
    """dgl.graphbolt.HeteroItemSet: item sets by node type, or by edge type as "source:relation:target"."""

    def __init__(self, itemsets: Mapping[str, ItemSet]) -> None:
        self._itemsets = itemsets
        names = [s.names for s in itemsets.values()]
        self.names = names[0] if names else None
        require(all(n == self.names for n in names), "All itemsets must have the same names.")
        self._indexed = all(s._counted or isinstance(s._items[0], Sized) for s in itemsets.values())

    def __len__(self) -> int:
        return sum(map(len, self._itemsets.values()))

    def __iter__(self) -> Iterator[Any]:
        return ({key: item} for key, items in self._itemsets.items() for item in items)

    def __getitem__(self, index: Any) -> Any:
        """An item as {type: item}, items as {type: items}, or the set of a type."""
        if isinstance(index, str):
            return self._itemsets[index]
        name = type(self).__name__
        if not self._indexed:
            raise TypeError(f"{name} instance doesn't support indexing.")
        if not isinstance(index, (int, slice)):
            raise TypeError(f"{name} indices must be int or slice.")
        if isinstance(index, int) and not -len(self) <= index < len(self):
            raise IndexError(f"{name} index out of range.")
        chosen = range(len(self))[index]
        if isinstance(chosen, range):
            require(chosen.step == 1, "Step must be 1.")
            require(len(chosen) > 0, "Start must be smaller than stop.")
        found, first = {}, 0
        for key, items in self._itemsets.items():
            begin, first = first, first + len(items)
            if isinstance(chosen, int):
                if begin <= chosen < first:
                    return {key: items[chosen - begin]}
            elif max(begin, chosen.start) < min(first, chosen.stop):
                found[key] = items[max(begin, chosen.start) - begin:min(first, chosen.stop) - begin]
        return found

    def __repr__(self) -> str:
        sets = textwrap.indent(repr(self._itemsets), " " * 13).strip()
        return f"{type(self).__name__}(\n    itemsets={sets},\n    names={self.names},\n)"


class ItemSetDict(HeteroItemSet):
    """dgl.graphbolt.ItemSetDict: the name of HeteroItemSet in GraphBolt 2.1."""


class Split(ItemSet):
    """A split of a dataset of khop. The server has its items; they are read here at the first access."""

    def __init__(self, source: Source, split: str, count: int) -> None:
        self.source, self.split, self._count = source, split, count
        self._read: Any = None
        self._names = ("seeds", "labels") if LABEL in source.columns else ("seeds",)

    def __len__(self) -> int:
        return self._count

    @property
    def _items(self) -> Any:
        if self._read is None:
            labels = [c for c in (LABEL,) if c in self.source.columns]
            with on_host(self.source.path, [0], seeds=self.split, batch_size=1 << 16, framework="torch",
                         node_columns=[], rank=0, world_size=1, seed_columns=labels) as loader:
                parts = [(b[t].input_node.clone(), *(b[t].y[b[t].seeds].clone() for _ in labels))
                         for b in loader for t in b.node_types if b[t].batch_size]
            self._read = tuple(torch.cat(p) for p in zip(*parts))
        return self._read

    @_items.setter
    def _items(self, _: Any) -> None:
        raise AttributeError("the items of a split are those of its dataset")
