"""The memory of the feed: mapped segments, and slots that come back when no array uses them any more."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections import deque
from functools import partial
from importlib import import_module
from itertools import islice
from math import prod
from typing import Any, Callable, Optional, Protocol, Sequence, Tuple
from weakref import WeakSet, ref

import numpy as np

from ..errors import ProtocolError
from .._batch.frameworks import NumpyArray
from .protocol import BatchReady, Layout, Segment, layout

_F_GET_SEALS = 1034  # Linux's numbers: Pythons that were built for old C libraries do not have the names
_PAGE = mmap.PAGESIZE
_MOVE_TO = 1 | 2  # MREMAP_MAYMOVE, MREMAP_FIXED
_new = object.__new__
Told = Tuple[int, ...]
"""The fields of a BatchReady, which is made of them where they are asked for."""
_SEALS = 0x0001 | 0x0002 | 0x0004  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW


class Memory:
    """A mapped segment. Unmapped when the last array over it is gone."""

    __slots__ = ("map", "address", "bytes", "read_only", "_unpin", "__weakref__")

    map: Any
    """The bytes, as a buffer that keeps them."""

    def __init__(self, about: Segment, fds: Sequence[int]) -> None:
        """Maps the descriptor that came with SEGMENT, after a check that no access can ever fault. Does not close the
        descriptor."""
        if about.memory != 0:
            raise ProtocolError("a segment on a device, which was not asked for")
        if len(fds) != 1:
            raise ProtocolError(f"SEGMENT with {len(fds)} file descriptors")
        try:
            seals = fcntl.fcntl(fds[0], _F_GET_SEALS)
        except OSError as e:
            raise ProtocolError(f"segment {about.number} is not a memfd: {e}") from None
        if seals & _SEALS != _SEALS:
            raise ProtocolError(f"segment {about.number} can change its size: its seals are {seals:#x}")
        size = os.fstat(fds[0]).st_size
        if size != about.bytes or size == 0:
            raise ProtocolError(f"segment {about.number} has {size} bytes, not {about.bytes}")
        access = mmap.ACCESS_READ if about.read_only else mmap.ACCESS_WRITE
        try:
            self.map = mmap.mmap(fds[0], size, access=access)
        except OSError as e:
            raise ProtocolError(f"segment {about.number} of {size} bytes cannot be mapped: {e}") from None
        self.bytes, self.read_only = size, about.read_only
        self.address = int(np.frombuffer(self.map, np.uint8).ctypes.data)
        self._unpin: Optional[Callable[[], object]] = None
        lend(self)

    def pin(self) -> None:
        """Page-locks the segment for CUDA, once, so that copies to a device are asynchronous. If CUDA refuses, it stays
        as it is."""
        cudart: Any = import_module("torch").cuda.cudart()
        if int(cudart.cudaHostRegister(self.address, self.bytes, 0)) == 0:
            self._unpin = partial(cudart.cudaHostUnregister, self.address)

    def unpin(self) -> None:
        """Undoes pin()."""
        unpin, self._unpin = getattr(self, "_unpin", None), None
        if unpin is not None:
            unpin()

    __del__ = unpin

    def keep(self, begin: int, end: int) -> None:
        """Replaces some bytes by a private copy, which nobody else writes to. Other bytes of the same pages are
        separated, too. OSError if there is no memory."""
        self.unpin()  # pages that are locked cannot be replaced
        begin, end = begin // _PAGE * _PAGE, -(-end // _PAGE) * _PAGE
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mremap.restype, libc.mremap.argtypes = ctypes.c_void_p, [
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        failed, at, size = ctypes.c_void_p(-1).value, self.address + begin, end - begin
        copy = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if copy != failed:
            ctypes.memmove(copy, at, size)
            copy = libc.mremap(copy, size, size, _MOVE_TO, at)
        if copy == failed:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Lent(Protocol):
    """Memory that batches share, one after another."""

    @property
    def address(self) -> int: ...

    @property
    def bytes(self) -> int: ...


_lent: WeakSet[Lent] = WeakSet()


def lend(memory: Lent) -> None:
    """Registers memory as lent, as long as it exists."""
    _lent.add(memory)


def lent(address: int) -> bool:
    """Whether an array is in a slot. Keeping such an array keeps the slot from the loader; keeping its address is
    useless, since another batch's array will have it."""
    return any(m.address <= address < m.address + m.bytes for m in list(_lent))


class Ring:
    """The segments of a connection, and the slots that this process holds."""

    def __init__(self, most_bytes: int, on_return: Callable[[], None]) -> None:
        """on_return is called, in any thread and at any moment, when a slot has come back and the server has no
        other."""
        self.memory: list[Optional[Memory]] = []  # None for what is not on the host
        self.sizes: list[int] = []
        self.held: dict[int, Told] = {}  # what is in the slots that this process holds
        self.hold = 1  # slots that this process may have
        self.sequence = 0  # batches of the run that were taken
        self.returned: deque[int] = deque()
        self.leaving: list[int] = []  # slots that came back and are being sent to the server
        self.passing: deque[Any] = deque()  # slots that streams of a device still work with (device.DeviceRing)
        self.pin = False  # whether segments are page-locked for CUDA
        # Finds segments where batches are made in this process.
        self.within: Optional[Callable[[Segment], Memory]] = None
        self._most_bytes = most_bytes
        self.on_return = on_return
        self._kind: type[SlotArrays] = SlotArrays
        self.layout: Optional[Layout] = None

    def add(self, about: Segment, fds: Sequence[int]) -> None:
        """Maps a segment."""
        if about.number < len(self.memory):
            raise ProtocolError(f"segment {about.number} comes after {len(self.memory)} others")
        if sum(self.sizes) + about.bytes > self._most_bytes:
            raise ProtocolError(
                f"a ring of {sum(self.sizes) + about.bytes} bytes, of which max_ring_bytes allows {self._most_bytes}")
        opened = self._open(about, fds)
        for _ in range(about.number - len(self.memory)):  # those of other consumers
            self.memory.append(None)
            self.sizes.append(0)
        self.memory.append(opened)
        self.sizes.append(about.bytes)

    def _open(self, about: Segment, fds: Sequence[int]) -> Optional[Memory]:
        memory = Memory(about, fds) if self.within is None else self.within(about)
        if self.pin:
            memory.pin()
        return memory

    def take(self, ready: BatchReady, slots: int) -> SlotArrays:
        """Takes the slot of a batch."""
        slot, begin = ready.slot, ready.offset
        if slot >= slots or slot in self.held:
            raise ProtocolError(
                f"batch {ready.number} is in slot {slot}, which is {'in use' if slot < slots else 'none'}")
        if ready.segment >= len(self.sizes) or begin + ready.bytes > self.sizes[ready.segment]:
            raise ProtocolError(f"the descriptor of batch {ready.number} is not in the ring")
        memory = self.memory[ready.segment]
        if memory is None:
            raise ProtocolError(f"the descriptor of batch {ready.number} is on a device")
        descriptor = memory.map[begin:begin + ready.bytes]
        self.layout = layout(descriptor, ready, self.layout)
        return self.lease(ready, self.layout, descriptor)

    def lease(self, ready: BatchReady, layout: Layout, descriptor: Optional[bytes] = None) -> SlotArrays:
        """Takes a slot. The descriptor of a batch that this process made is read when an array is first used."""
        arrays = _new(self._kind)
        arrays.begin(self, ready, layout, descriptor)
        return arrays

    def discard(self, ready: BatchReady, slots: int) -> None:
        """Returns the slot of a batch that nobody reads."""
        if ready.slot >= slots or ready.slot in self.held or ready.slot in self.returned:
            raise ProtocolError(
                f"batch {ready.number} is in slot {ready.slot}, which is {'in use' if ready.slot < slots else 'none'}")
        self.returned.append(ready.slot)

    def away(self) -> int:
        """Returns how many slots the server does not have, as far as this process knows."""
        return len(self.held) + len(self.returned) + len(self.leaving) + len(self.passing)

    def wait_for_one(self) -> bool:
        """Waits for a slot that is about to come back; returns False if no slot is."""
        return False

    def when_free(self, then: Callable[[], object]) -> None:
        """Calls a function that ends the server: at once, since the memory belongs to this process, too."""
        then()

    def close(self) -> None:
        """Marks the connection as closed."""

    def keep_held(self) -> None:
        """Gives arrays of held slots memory of this process, before the connection ends and the server uses all slots
        again. OSError if there is no memory."""
        if self.within is not None:  # it is this process's, and its arrays keep it
            return
        for told in list(self.held.values()):
            ready = BatchReady(*told)
            memory = self.memory[ready.segment]
            if memory is None or self.layout is None:
                continue
            descriptor = memory.map[ready.offset:ready.offset + ready.bytes]
            form = layout(descriptor, ready, self.layout)
            pages: dict[int, list[tuple[int, int]]] = {}
            for name in form.names:
                segment, offset, shape, dtype, _ = form.place(name, descriptor, self.sizes)
                pages.setdefault(segment, []).append((offset, offset + dtype.itemsize * prod(shape)))
            for segment, ranges in pages.items():
                where = self.memory[segment] if segment >= 0 else None
                if where is not None:
                    for begin, end in _joined(ranges):
                        where.keep(begin, end)

    def leave(self, most: int) -> None:
        """Moves returned slots to leaving, up to most. For the thread that takes batches: if it is interrupted, each
        slot is in one of the two."""
        try:
            self.leaving.extend(islice(iter(self.returned.popleft, None), most - len(self.leaving)))
        except IndexError:  # that were all
            pass

    def take_returned(self, most: int) -> list[int]:
        """Returns slots for the server, up to a number. Any number of threads may call it."""
        slots: list[int] = []
        try:
            for _ in range(min(most, len(self.returned))):
                slots.append(self.returned.popleft())
        except IndexError:  # another thread has taken them
            pass
        return slots

    def holders(self) -> str:
        """Describes which batches hold slots, for messages."""
        held = [BatchReady(*told) for told in list(self.held.values())]
        return "; ".join(f"batch {ready.number} of epoch {ready.epoch}" for ready in held)


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of bytes, those that share a page or are next to one another as one."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if joined and begin // _PAGE <= -(-joined[-1][1] // _PAGE):
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


class SlotArrays:
    """A slot that this process holds, and its arrays: views that keep it. It goes back when the last view is gone, or
    at release."""

    __slots__ = ("ring", "told", "_layout", "_descriptor", "_open", "_segment", "_base")

    ring: Ring
    told: Told
    _base: Optional[ref[SlotBytes]]
    _segment: int

    def begin(self, ring: Ring, ready: BatchReady, layout: Layout, descriptor: Optional[bytes]) -> None:
        """Takes the slot of a batch. layout is the batch's, or before its descriptor is read, that of an earlier one.
        (A method, since calling a class takes Python several times as long as the rest.)"""
        self.ring, self.told, self._layout, self._descriptor, self._base = ring, ready, layout, descriptor, None
        # At once, as far as signals are concerned: who is interrupted before reads the message again, and not after.
        ring.held[ready.slot], ring.sequence, self._open = ready, ready.sequence + 1, True

    @property
    def ready(self) -> BatchReady:
        return BatchReady(*self.told)

    def release(self) -> None:
        """Returns the slot, once: in any thread."""
        try:
            if not self._open:
                return
        except AttributeError:  # whoever took it was interrupted
            return
        self._open = False
        ring, slot = self.ring, self.told[2]
        held, returned = ring.held, ring.returned
        held.pop(slot, None)
        returned.append(slot)
        if len(held) + len(returned) + len(ring.leaving) >= ring.hold:  # as Ring.away: nothing passes on the host
            ring.on_return()

    __del__ = release

    def _read(self) -> bytes:
        ring, ready = self.ring, self.ready
        memory = ring.memory[ready.segment]
        assert memory is not None
        self._descriptor = descriptor = bytes(memory.map[ready.offset:ready.offset + ready.bytes])
        self._layout = ring.layout = layout(descriptor, ready, self._layout)
        return descriptor

    @property
    def layout(self) -> Layout:
        if self._descriptor is None:
            self._read()
        return self._layout

    def names(self) -> tuple[str, ...]:
        return self.layout.names

    def has(self, name: str) -> bool:
        return name in self.layout.forms

    def shape(self, name: str) -> tuple[int, ...]:
        return self._place(name)[2]

    def _place(self, name: str) -> tuple[int, int, tuple[int, ...], np.dtype[Any], str]:
        descriptor = self._descriptor or self._read()
        return self._layout.place(name, descriptor, self.ring.sizes)

    def numpy(self, name: str) -> tuple[NumpyArray, str]:
        """Returns a view of an array, and its dtype's name."""
        segment, offset, shape, numpy, dtype = self._place(name)
        base = None if self._base is None or segment != self._segment else self._base()
        if base is None:
            if segment < 0:
                return np.empty(shape, numpy), dtype
            memory = self.ring.memory[segment]
            if memory is None:
                raise ProtocolError(f"array {name} is in segment {segment}, which is not there")
            base = SlotBytes(memory.bytes, np.uint8, memory.map)
            base.slot = self
            self._segment, self._base = segment, ref(base)  # weakly, for it keeps this
        return np.ndarray(shape, numpy, base, offset), dtype


class SlotBytes(np.ndarray):  # type: ignore[type-arg]  # NumPy 2.5 has no NDArray to derive from
    """A segment's bytes, as the base of a slot's arrays: as long as one of them is alive, the slot is held. (NumPy
    replaces the base of a view by that one's base only if both have the view's own type, so it stops here.)"""

    __slots__ = ("slot",)

    slot: SlotArrays
