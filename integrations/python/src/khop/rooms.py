"""Memory for rows that are gathered again and again. Pages that were used before need not be made anew by the system,
which takes longer than writing them."""

from __future__ import annotations

import ctypes
import mmap
import threading
import weakref
from typing import Any

LEAST = 128 << 10
"""Bytes from which on torch's allocator asks the system for pages each time."""
KEPT = 4
"""How many pieces of memory are kept that nothing uses: a batch or two, and what the next ones grow to."""
_HUGE = 2 << 20


class Rooms:
    """Pieces of memory that come back when the last array over them is gone. Any thread may take one."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = threading.RLock()  # what comes back may come while this thread asks
        self._free: list[mmap.mmap] = []

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

    def _back(self, room: mmap.mmap) -> None:
        with self._lock:
            self._free.append(room)
            if len(self._free) > self._kept:
                self._free.pop(0)  # the one that was not asked for the longest

    def held(self) -> int:
        """Returns how many bytes are unused."""
        with self._lock:
            return sum(map(len, self._free))


def _rounded(size: int) -> int:
    """An eighth more than is asked for, in whole pages: the next batch may be a little larger."""
    size += size // 8
    page = _HUGE if size >= _HUGE else mmap.PAGESIZE
    return -(-size // page) * page
