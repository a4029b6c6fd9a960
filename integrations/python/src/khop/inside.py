"""khop in this process: a connection to a loader of the shared library, in place of one to a server."""

from __future__ import annotations

import ctypes
import logging
import os
import select
import time
from typing import Any, Callable, Optional, Sequence

from . import _library
from .errors import ForkError, KhopError, LibraryNotFound, ProtocolError, ServerError
from .protocol import BATCH, MESSAGE_BYTES, BatchReady, Segment, read_batch
from .ring import Memory

_log = logging.getLogger("khop")
_TICK = 250  # milliseconds between looks at what else may have happened while nothing comes


def choose(
    process: str, here: int, device: bool, socket: bool, binary: bool, serve_options: Sequence[str],
) -> tuple[str, str]:
    """Where a loader makes batches, "inside" or "server", and why. here is how many processes of this machine train
    together; the others say what the loader was given. With "inside" what is in its way is an error."""
    if process not in ("auto", "inside", "server"):
        raise ValueError(f'process={process!r}: must be "inside", "server" or "auto"')
    if process == "server":
        return "server", "it was asked for"
    if process == "inside":
        if socket:
            raise ValueError('socket= is where a server listens: take process="server", or leave it out')
        if device:
            raise ValueError(
                'device= needs a server: the shared library makes batches on the CPU; take process="server"')
        _library.load()
        return "inside", "it was asked for"
    why = _library.why_not() or _for_a_server(here, device, socket or binary or bool(serve_options))
    if not why:
        try:
            _library.load()
        except LibraryNotFound as e:
            why = str(e)
    if why:
        _log.info("batches are made by a server: %s", why)
        return "server", why
    why = "the shared library is there, and no other process shares the loader"
    _log.info("batches are made in this process: %s", why)
    return "inside", why


def _for_a_server(here: int, device: bool, options: bool) -> str:
    """Why a server should make the batches; empty if nothing speaks for one."""
    if here > 1:
        return f"{here} processes of this machine share a server, and one copy of its memory"
    if device:
        return "batches are made on a device, for which the shared library is not built"
    return "socket=, binary= and serve_options= are of a server" if options else ""


class Inside:
    """A loader in this process, and what a feed needs of a connection to it: the methods of socket.socket that Feed
    calls, and memory.

    It ends when close is called, when this object is gone, and with this process.
    """

    def __init__(
        self, dataset: str, options: Sequence[str], rank: int = 0, quiet: bool = True,
        spell: Callable[[str], str] = lambda text: text,
    ) -> None:
        """Begins to open the loader. options are those of khop serve; spell says in Python's terms what the library
        says in its own."""
        self._handle = 0
        self._library = library = _library.load()
        self._spell = spell
        self._owner = os.getpid()
        arguments = [os.fsencode(a) for a in (dataset, *options)]
        handle, bell = ctypes.c_uint64(), ctypes.c_int32()
        start = library.function(
            "khop_loader_open", ctypes.POINTER(ctypes.c_char_p), ctypes.c_int32, ctypes.c_int32, ctypes.c_int32,
            ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_int32))
        start((ctypes.c_char_p * len(arguments))(*arguments), len(arguments), rank, quiet, handle, bell)
        self._handle = handle.value
        self._poll = select.poll()
        self._poll.register(bell.value, select.POLLIN)
        self._room = (ctypes.c_char * MESSAGE_BYTES)()
        self._at = ctypes.addressof(self._room)
        self._length = ctypes.c_uint32()
        self._view = memoryview(self._room).cast("B")
        self._first = self._view[:64]
        self._length_at = ctypes.addressof(self._length)
        kinds = ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p
        self._exchange = library.function("khop_loader_exchange", *kinds)
        self._fast, self._error = library.raw("khop_loader_exchange", *kinds), _library.Error()
        self._due = b""  # goes with the next call
        self._taken = False  # there is a message in the room

    def wait(self, timeout: float) -> None:
        """Returns when the loader is open."""
        ready = self._library.function("khop_loader_ready", ctypes.c_uint64)
        deadline = time.monotonic() + timeout
        try:
            while ready(self._handle):
                if time.monotonic() > deadline:
                    raise ServerError(f"the loader was not open after {timeout:.0f} s")
                self._poll.poll(_TICK)
        except ForkError:
            raise
        except KhopError as e:
            raise type(e)(self._spell(str(e))) from None

    # --- as a socket has them ---

    def send(self, message: bytes, flags: int = 0) -> int:
        """Hands a message over. It never waits."""
        due, self._due = self._due, b""
        for m in (due, message) if due else (message,):
            self._exchange(self._handle, m, len(m), None, None)
        return len(message)

    def send_with_next(self, message: bytes) -> None:
        """Hands a message over with the next call of recvmsg_into, which is to come at once."""
        self._due = message

    def take_batch(self) -> Optional[BatchReady]:
        """The next message, if it is there and a BATCH: the short way of what recvmsg_into and protocol.read do."""
        if not self._taken and self._fast(self._handle, None, 0, self._at, self._length_at, self._error):
            return None
        self._taken = self._length.value != 64 or self._first[0] != BATCH
        return None if self._taken else read_batch(self._first)

    def recvmsg_into(
        self, buffers: Sequence[Any], ancillary: int = 0, flags: int = 0,
    ) -> tuple[int, tuple[()], int, None]:
        """Takes the next message; BlockingIOError where none comes for a while."""
        if self._taken:
            self._taken = False
            n = self._length.value
            buffers[0][:n] = self._view[:n]
            return n, (), 0, None
        due, self._due = self._due, b""
        code = self._fast(self._handle, due, len(due), self._at, self._length_at, self._error)
        if code == _library.AGAIN and self._poll.poll(_TICK):
            code = self._fast(self._handle, None, 0, self._at, self._length_at, self._error)
        if code == _library.AGAIN:
            raise BlockingIOError
        if code:
            raise _library.failure(self._error)
        n = self._length.value
        buffers[0][:n] = self._view[:n]
        return n, (), 0, None

    def close(self) -> None:
        """Ends the loader. Memory that was taken of it stays."""
        handle, self._handle = self._handle, 0
        if handle and self._owner == os.getpid():
            self._library.close(handle)

    def __del__(self) -> None:
        self.close()

    # --- memory ---

    def memory(self, about: Segment) -> Memory:
        """A segment of the ring, where it is."""
        return InsideMemory(self._library, self._handle, about)


class InsideMemory(Memory):
    """A segment where the library has it."""

    __slots__ = ()

    def __init__(self, library: _library.Library, loader: int, about: Segment) -> None:
        handle, address, size = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
        take = library.function(
            "khop_loader_segment", ctypes.c_uint64, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64),
            ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64))
        take(loader, about.number, handle, address, size)
        owner = Owner(library, handle.value)
        if size.value != about.bytes:
            raise ProtocolError(f"segment {about.number} has {size.value} bytes, not {about.bytes}")
        kind: Any = type("Segment", (ctypes.c_char * size.value,), {})
        self.map = kind.from_address(address.value)
        self.map.owner = owner  # arrays keep the map
        self.address, self.bytes, self.read_only = address.value, size.value, False
        self._unpin = None


class Owner:
    """Who has a handle of the library, and closes it in the end."""

    def __init__(self, library: _library.Library, handle: int) -> None:
        self._library, self._handle = library, handle

    def __del__(self) -> None:
        self._library.close(self._handle)
