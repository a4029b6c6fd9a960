"""A cache in memory of the rows that were used last."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch

from .base import require

POLICIES = ("s3-fifo", "sieve", "lru", "clock")


class CPUFeatureCache:
    """dgl.graphbolt.impl.CPUFeatureCache: up to cache_shape[0] rows by key, those that were used last.

    All of GraphBolt's policies are accepted, and all mean least recently used: a policy changes how long reading takes,
    and not what is read.
    """

    def __init__(self, cache_shape: Sequence[int], dtype: Any, policy: Optional[str] = None, num_parts: int = 1,
                 pin_memory: bool = False) -> None:
        require(policy is None or policy in POLICIES, f"policy={policy!r}: must be one of {', '.join(POLICIES)}")
        require(len(cache_shape) > 0 and cache_shape[0] > 0, f"cache_shape={tuple(cache_shape)}: must have rows")
        self._rows = torch.empty(tuple(cache_shape), dtype=dtype, pin_memory=pin_memory)
        self.clear()
        self._asked = self._missed = 0

    def clear(self) -> None:
        """Forgets all rows."""
        self._keys = torch.empty(0, dtype=torch.int64)  # ascending
        self._at = torch.empty(0, dtype=torch.int64)
        self._used = torch.zeros(len(self._rows), dtype=torch.int64)
        self._owner = torch.full((len(self._rows),), -1, dtype=torch.int64)
        self._now = 0

    def _find(self, keys: Any) -> tuple[Any, Any]:
        """Whether each key is there, and its row if it is."""
        if not len(self._keys):
            return torch.zeros(len(keys), dtype=torch.bool), torch.zeros(len(keys), dtype=torch.int64)
        place = torch.searchsorted(self._keys, keys).clamp(max=len(self._keys) - 1)
        return self._keys[place] == keys, self._at[place]

    def query(self, keys: Any) -> tuple[Any, Any, Any]:
        """Returns the rows of keys that are cached, the places of those that are not, and the keys of those."""
        keys = keys.long()
        there, at = self._find(keys)
        values = torch.empty((len(keys), *self._rows.shape[1:]), dtype=self._rows.dtype)
        values[there] = self._rows[at[there]]
        self._now += 1
        self._used[at[there]] = self._now
        missing = (~there).nonzero().view(-1)
        self._asked, self._missed = self._asked + len(keys), self._missed + len(missing)
        return values, missing, keys[missing]

    def replace(self, keys: Any, values: Any) -> None:
        """Adds rows, in place of those that were used longest ago."""
        keys, first = _first_of_each(keys.long())
        values = values[first]
        there, at = self._find(keys)
        self._now += 1
        self._rows[at[there]] = values[there]
        self._used[at[there]] = self._now
        keys, values = keys[~there][:len(self._rows)], values[~there][:len(self._rows)]
        if not len(keys):
            return
        rows = self._used.sort(stable=True)[1][:len(keys)]
        self._rows[rows], self._owner[rows], self._used[rows] = values, keys, self._now
        held = torch.arange(len(self._rows))[self._owner >= 0]
        self._keys, order = self._owner[held].sort()
        self._at = held[order]

    @property
    def miss_rate(self) -> float:
        """The share of requested keys that were not cached."""
        return self._missed / self._asked if self._asked else 0.0

    def is_pinned(self) -> bool:
        """Whether the rows are in pinned memory."""
        return bool(self._rows.is_pinned())


def _first_of_each(keys: Any) -> tuple[Any, Any]:
    ordered, order = keys.sort(stable=True)
    begins = torch.ones(len(keys), dtype=torch.bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    return ordered[begins], order[begins]
