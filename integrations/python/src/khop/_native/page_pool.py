"""Memory for rows and results that are made again and again. Pages that were used before need not be made anew by the
system, which takes longer than writing them."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import threading
import weakref
from typing import Any, Optional

import torch

_torch: Any = torch  # what its types do not tell
LEAST = 128 << 10
"""Bytes from which on torch's allocator asks the system for pages each time."""
KEPT = 4
"""How many pieces of memory are kept that nothing uses: a batch or two, and what the next ones grow to."""
_HUGE = 2 << 20


class Rooms:
    """Pieces of memory that come back when the last array over them is gone. Any thread may take one."""

    def __init__(self, kept: int = KEPT, most: Optional[int] = None) -> None:
        """kept is how many unused pieces are kept, and most how many bytes of them; None: no matter how many."""
        self._kept, self._most = kept, most
        self._lock = threading.RLock()  # what comes back may come while this thread asks
        self._free: list[mmap.mmap] = []
        _all.add(self)

    def take(self, size: int) -> Any:
        """Returns memory of at least size bytes, 1 or more: an object with a buffer. Its contents are undefined."""
        with self._lock:
            fits = [m for m in self._free if size <= len(m) <= 4 * size]
            room = min(fits, key=len) if fits else None
            if room is not None:
                self._free.remove(room)
        if room is None:
            room = mmap.mmap(-1, _rounded(size), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            if len(room) >= _HUGE:
                room.madvise(mmap.MADV_HUGEPAGE)
        lent = (ctypes.c_uint8 * len(room)).from_buffer(room)
        weakref.finalize(lent, self._back, room).atexit = False
        return lent

    def tensor(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        """Returns a tensor on the CPU, of undefined contents: a large one in one of the pieces."""
        count = math.prod(shape)
        size = count * int(_torch._utils._element_size(dtype))
        if size < LEAST or self._most == 0:
            return torch.empty(shape, dtype=dtype)
        over: torch.Tensor = torch.frombuffer(self.take(size), dtype=dtype, count=count).view(shape)
        return over

    def _back(self, room: mmap.mmap) -> None:
        with contextlib.suppress(OSError):  # of a kernel that has no such advice
            room.madvise(mmap.MADV_FREE)  # whoever is short of memory may have the pages
        with self._lock:
            self._free.append(room)
            self._fit()

    def _fit(self) -> None:
        """Gives the system what is too much: first what was not asked for the longest."""
        over = 0 if self._most is None else self.held() - self._most
        while self._free and (len(self._free) > self._kept or over > 0):
            over -= len(self._free.pop(0))

    def bound(self, most: Optional[int]) -> None:
        """Keeps no more unused bytes than that, from now on."""
        with self._lock:
            self._most = most
            self._fit()

    def clear(self) -> None:
        """Gives the system what nothing uses."""
        with self._lock:
            self._free.clear()

    def held(self) -> int:
        """Returns how many bytes are unused."""
        with self._lock:
            return sum(map(len, self._free))

    def forget(self) -> None:
        """In a child that was forked: another thread may have had the lock."""
        self._lock = threading.RLock()
        self._free = []


_all: weakref.WeakSet[Rooms] = weakref.WeakSet()


def _forget() -> None:
    for rooms in list(_all):
        rooms.forget()


os.register_at_fork(after_in_child=_forget)


def _rounded(size: int) -> int:
    """An eighth more than is asked for, in whole pages: the next batch may be a little larger."""
    size += size // 8
    page = _HUGE if size >= _HUGE else mmap.PAGESIZE
    return -(-size // page) * page
