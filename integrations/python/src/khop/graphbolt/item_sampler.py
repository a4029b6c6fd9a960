"""The beginning of pipelines: samplers of items."""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping
from typing import Any, Callable, Iterator, Optional

import torch

from ..torch import random_seed
from .base import generator
from .items import HeteroItemSet, ItemSet, Split
from .minibatch import FIELDS, MiniBatch
from .pipes import Stage, checked
from .plan import NotByKhop, Plan
from .ranges import calculate_range


def minibatcher_default(batch: Any, names: Any) -> Any:
    """dgl.graphbolt.minibatcher_default: makes a minibatch with a field for each name. Without names it returns the
    batch as it is."""
    if names is None:
        warnings.warn("Failed to map item list to `MiniBatch` as the names of items are not provided. Please provide a "
                      "customized `MiniBatcher`. The item list is returned as is.", stacklevel=2)
        return batch
    minibatch = MiniBatch()
    for i, name in enumerate(names):
        value = batch
        if len(names) > 1:
            value = {k: v[i] for k, v in batch.items()} if isinstance(batch, Mapping) else batch[i]
        if name not in FIELDS and name != "timestamp":
            warnings.warn(f"Unknown item name '{name}' is detected and added into `MiniBatch`. You probably need to "
                          "provide a customized `MiniBatcher`.", stacklevel=2)
        if name == "node_pairs":
            value = {k: (v[:, 0], v[:, 1]) for k, v in value.items()} if isinstance(value, Mapping) else (
                value[:, 0], value[:, 1])
        setattr(minibatch, str(name), value)
    return minibatch


class ItemSampler(Stage):
    """dgl.graphbolt.ItemSampler. seed keys order and draws; without it torch's random numbers decide.

    Items that cannot be indexed, and those with use_indexing=False, are shuffled buffer_size at a time, by default 10
    batches. So are others if buffer_size is given.
    """

    def __init__(
        self, item_set: Any, batch_size: int, minibatcher: Optional[Callable[..., Any]] = None, drop_last: bool = False,
        shuffle: bool = False, use_indexing: bool = True, buffer_size: int = -1, seed: Optional[int] = None,
        **unknown: Any,
    ) -> None:
        checked(type(self), unknown)
        super().__init__(None)
        self.item_set = item_set if isinstance(item_set, (ItemSet, HeteroItemSet)) else ItemSet(item_set, "seeds")
        self.batch_size, self.drop_last, self.shuffle, self.seed = batch_size, drop_last, shuffle, seed
        self.minibatcher, self.use_indexing, self.buffer_size = minibatcher, use_indexing, buffer_size
        self.share: Any = None
        """Rank, number of ranks, and whether uneven batches are dropped, where processes share the items."""

    def describe(self, plan: Plan) -> None:
        """Has khop take items in tensors, if their names are those of nodes or pairs, labels and times."""
        if self.minibatcher is not None:
            raise NotByKhop("a minibatcher makes minibatches")
        if not self.use_indexing or self.buffer_size != -1:
            raise NotByKhop("items are shuffled in a buffer")
        sets = self.item_set._itemsets.values() if isinstance(self.item_set, HeteroItemSet) else [self.item_set]
        for items in sets:
            if not isinstance(items, Split):
                for name in items.names or ("None",):
                    if items.array(name) is None:
                        raise NotByKhop(f"the items {name!r} are not in a tensor")
                if items.array("seeds", "seed_nodes", "node_pairs") is None:
                    raise NotByKhop("no items are called seeds")
        plan.items, plan.seed = self.item_set, self.seed
        drawn = None if self.seed is not None or generator() is None else int(
            torch.randint(1 << 62, (), generator=generator()))
        plan.how.update(batch_size=self.batch_size, drop_last=self.drop_last, shuffle=self.shuffle,
                        seed=random_seed(self.seed) if drawn is None else drawn, rank=0, world_size=1)

    def made(self) -> Iterator[Any]:
        """Batches of items as minibatches."""
        to_minibatch = self.minibatcher or minibatcher_default
        for batch in self._batches() if self._indexed() else self._streamed():
            yield to_minibatch(batch, names=self.item_set.names)

    def _indexed(self) -> bool:
        if not self.use_indexing:
            return False
        try:
            len(self.item_set)
            self.item_set[0]
        except TypeError:
            return False
        return True

    def _generator(self) -> Optional[torch.Generator]:
        return generator() if self.seed is None else torch.Generator().manual_seed(self.seed)

    def _batches(self) -> Iterator[Any]:
        """Of items that can be indexed."""
        about: Any = torch.utils.data.get_worker_info
        worker = about()
        rank, ranks, even = self.share or (0, 1, False)
        first, assigned, left = calculate_range(
            self.share is not None, len(self.item_set), ranks, rank, worker.num_workers if worker else 1,
            worker.id if worker else 0, self.batch_size, self.drop_last, even)
        room = assigned if self.buffer_size < 0 else -(-self.buffer_size // self.batch_size) * self.batch_size
        random_numbers = self._generator()
        for begin in range(first, first + assigned, max(room, 1)):
            held = self.item_set[begin:min(begin + room, first + assigned)]
            number = min(begin + room, first + assigned) - begin
            order = torch.randperm(number, generator=random_numbers) if self.shuffle else torch.arange(number)
            for i in range(0, number, self.batch_size):
                if left <= 0:
                    return
                yield _chosen(held, order[i:i + min(self.batch_size, left)])
                left -= self.batch_size

    def _streamed(self) -> Iterator[Any]:
        """Of items that can only be iterated over."""
        draw = random.Random(int(torch.randint(1 << 62, (), generator=self._generator())))
        room = self.buffer_size if self.buffer_size > 0 else 10 * self.batch_size
        batch: list[Any] = []
        for item in _shuffled(self.item_set, room, draw) if self.shuffle else self.item_set:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield _collated(batch)
                batch = []
        if batch and not self.drop_last:
            yield _collated(batch)


class DistributedItemSampler(ItemSampler):
    """dgl.graphbolt.DistributedItemSampler: each process gets its share. seed must be the same in all."""

    def __init__(
        self, item_set: Any, batch_size: int, minibatcher: Optional[Callable[..., Any]] = None, drop_last: bool = False,
        shuffle: bool = False, drop_uneven_inputs: bool = False, buffer_size: int = -1, seed: Optional[int] = None,
        **unknown: Any,
    ) -> None:
        super().__init__(item_set, batch_size, minibatcher, drop_last, shuffle, True, buffer_size, seed, **unknown)
        self.drop_uneven_inputs = drop_uneven_inputs
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self.share = torch.distributed.get_rank(), torch.distributed.get_world_size(), drop_uneven_inputs

    def describe(self, plan: Plan) -> None:
        """Has khop's ranks take turns at the batches of one order."""
        super().describe(plan)
        plan.how.update(remainder="drop" if self.drop_uneven_inputs else "short", rank=None, world_size=None,
                        seed=self.seed or 0)


def _chosen(items: Any, at: Any) -> Any:
    """Some of the items, in an order; places count through all types."""
    if isinstance(items, Mapping):
        found, first = {}, 0
        for key, of in items.items():
            end = first + len(of[0] if isinstance(of, tuple) else of)
            mine = at[(at >= first) & (at < end)] - first
            if len(mine):
                found[key] = _chosen(of, mine)
            first = end
        return found
    if isinstance(items, tuple):
        return tuple(_chosen(i, at) for i in items)
    if isinstance(items, torch.Tensor):
        return items[at]
    return _collated([items[int(i)] for i in at])


def _collated(items: list[Any]) -> Any:
    """Items as one batch."""
    if isinstance(items[0], Mapping):
        by_key: dict[str, list[Any]] = {}
        for item in items:
            for key, value in item.items():
                by_key.setdefault(key, []).append(value)
        return {key: _collated(values) for key, values in by_key.items()}
    if hasattr(items[0], "canonical_etypes"):
        import dgl

        return dgl.batch(items)
    if isinstance(items[0], tuple):
        return tuple(_collated(list(part)) for part in zip(*items))
    return torch.utils.data.default_collate(items)


def _shuffled(items: Any, room: int, draw: random.Random) -> Iterator[Any]:
    held: list[Any] = []
    for item in items:
        if len(held) == room:
            at = draw.randrange(room)
            yield held[at]
            held[at] = item
        else:
            held.append(item)
    draw.shuffle(held)
    yield from held
