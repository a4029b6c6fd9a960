"""Gathers a batch's rows of attributes that stay where they are.

PyG gathers them into new memory for each batch, whose pages the system must make and clear: for wide rows that takes as
long as the copy. Here memory is used again when the last tensor over it is gone.
"""

from __future__ import annotations

import copy
import mmap
from typing import Any, Iterator

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData

_LEAST = 1 << 20  # bytes of the rows of a batch: fewer cost nothing to speak of
_SPARE = 2  # pieces that are kept for the batches to come
_HUGE = 2 << 20


class _Piece(np.ndarray):  # type: ignore[type-arg]  # NumPy 2.5 has no NDArray to derive from
    """Memory, as the base of tensors over it."""

    __slots__ = ("owner",)

    owner: _Owner


class _Owner:
    """Gives memory back when nothing is over it any more."""

    def __init__(self, free: list[mmap.mmap], memory: mmap.mmap) -> None:
        self._free, self._memory = free, memory

    def __del__(self) -> None:
        if len(self._free) < _SPARE:
            self._free.append(self._memory)


class Rows:
    """Gathers rows for a loader."""

    def __init__(self) -> None:
        self._free: list[mmap.mmap] = []

    def _memory(self, size: int) -> mmap.mmap:
        try:
            while True:
                memory = self._free.pop()
                if len(memory) >= size:
                    return memory
        except IndexError:
            pass
        memory = mmap.mmap(-1, (size + size // 4 + _HUGE) // _HUGE * _HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
        return memory

    def take(self, values: Any, index: Any) -> Any:
        """Returns values[index], a copy in memory that is used again."""
        size = len(index) * values[:1].numel() * values.element_size()
        memory = self._memory(size)
        piece = _Piece(size, np.uint8, memory)
        piece.owner = _Owner(self._free, memory)
        out = torch.from_numpy(piece.view(np.ndarray)).view(values.dtype).view(len(index), *values.shape[1:])
        return torch.index_select(values, 0, index, out=out)


def wide(data: Any, nodes: dict[Any, Any]) -> Iterator[tuple[Any, str, Any]]:
    """Returns the attributes of a Data or HeteroData that Rows gathers: type of node, name and values. nodes are those
    of a batch by type, with None for the only one."""
    if type(data) not in (Data, HeteroData):
        return
    for of, ids in nodes.items():
        store = data._store if of is None else data[of]
        for name, values in store.items():
            if (isinstance(values, torch.Tensor) and values.dim() > 1 and store.is_node_attr(name)
                    and values.layout == torch.strided and values.device.type == "cpu" and not values.requires_grad
                    and len(ids) * values[:1].numel() * values.element_size() >= _LEAST
                    and data.__cat_dim__(name, values, store) == 0):
                yield of, name, values


def without(data: Any, taken: list[tuple[Any, str, Any]]) -> Any:
    """Returns the data with attributes of no width in place of some."""
    data = copy.copy(data)
    for of, name, values in taken:
        (data._store if of is None else data[of])[name] = values.new_empty((len(values), 0))
    return data
