"""Items: what a pipeline of khop.graphbolt goes over."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

import torch

from ..loader import on_host
from ..schema import LABEL
from ..sources import Source

SECTION = "From GraphBolt"
"""The section of docs/migrating.md that says what differs."""


_NAMES_OF_21 = {"seed_nodes": "seeds", "node_pairs": "seeds"}
"""Names of GraphBolt 2.1, which DGL of PyPI has, for those of 2.2 and later."""


class ItemSet:
    """dgl.graphbolt.ItemSet: a tensor, a tuple of tensors with a row for each item, or the number of items 0, 1, .."""

    def __init__(self, items: Any, names: Any = None) -> None:
        self._whole = items if isinstance(items, int) else None
        items = torch.arange(items) if isinstance(items, int) else items
        self._items = tuple(map(torch.as_tensor, items if isinstance(items, tuple) else (items,)))
        self.names: tuple[str, ...] = ("seeds", "labels")[:len(self._items)] if names is None else (
            (names,) if isinstance(names, str) else tuple(names))
        # What khop calls them.
        self.called = tuple(_NAMES_OF_21.get(name, name) for name in self.names)
        lengths = {len(item) for item in self._items}
        if len(self.names) != len(self._items) or len(lengths) != 1:
            raise ValueError(f"ItemSet: {len(self._items)} arrays of {sorted(lengths)} rows, with names {self.names}: "
                             "each needs a name, and all as many rows")

    def __len__(self) -> int:
        return len(self._items[0])

    def __getitem__(self, index: Any) -> Any:
        return self._items[0][index] if len(self._items) == 1 else tuple(item[index] for item in self._items)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def of(self, name: str) -> Any:
        """The array of a name; None if there is none."""
        return dict(zip(self.called, self._items)).get(name)

    def __repr__(self) -> str:
        return f"ItemSet({len(self):,} items, names={self.names})"


class HeteroItemSet:
    """dgl.graphbolt.HeteroItemSet: item sets by node type, or by edge type as "source:relation:target"."""

    def __init__(self, itemsets: Mapping[str, ItemSet]) -> None:
        self._itemsets = dict(itemsets)
        some = next(iter(self._itemsets.values()))
        self.names, self.called = some.names, some.called

    def __len__(self) -> int:
        return sum(map(len, self._itemsets.values()))

    def __getitem__(self, key: Any) -> Any:
        """The set of a type, an item as {type: item}, or some items as {type: items}, type after type."""
        if isinstance(key, str):
            return self._itemsets[key]
        whole = range(len(self))
        some = [key] if isinstance(key, int) else key
        wanted = whole[some] if isinstance(some, slice) else [whole[int(i)] for i in some]
        found, first = {}, 0
        for of, items in self._itemsets.items():
            at = [i - first for i in wanted if first <= i < first + len(items)]
            first += len(items)
            if at:
                found[of] = items[at[0] if isinstance(key, int) else torch.tensor(at)]
        return found

    def __repr__(self) -> str:
        return f"HeteroItemSet({self._itemsets})"


ItemSetDict = HeteroItemSet


class Split(ItemSet):
    """A split of a dataset: the server has its items. They are read when they are asked for."""

    def __init__(self, source: Source, split: str, count: int) -> None:
        self.source, self.split, self._count = source, split, count
        self._read: Any = None
        self._whole = None
        self.names = self.called = ("seeds", "labels")

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
