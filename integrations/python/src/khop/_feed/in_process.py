"""khop in this process: a connection to a loader of the shared library, in place of one to a server."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import select
import time
from functools import partial
from typing import Any, Callable, Optional, Sequence

from .._native import library as _library
from ..errors import ForkError, LibraryNotFound, OptionError, ProtocolError, ServerError
from .._config.configuration import Configuration
from .protocol import BATCH, MESSAGE_BYTES, Segment
from .ring import Memory, lend

_log = logging.getLogger("khop")
POST, _DATA = 1 << 19, 192  # cmd/libkhop/feed.h: bytes of messages, and where they begin
BATCH_BYTES = 72  # of a BATCH, with its frame
BATCH_FRAME = BATCH << 32 | 64
_TICK = 250  # milliseconds between looks at what else may have happened while nothing comes


def choose(
    process: str, here: int, device: bool, socket: bool, binary: bool, serve_options: Sequence[str],
) -> tuple[str, str]:
    """Chooses where a loader makes batches, "inside" or "server", and gives the reason. here is how many processes of
    this machine train together; the others are arguments of the loader. With "inside" any obstacle is an error."""
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
    """A loader in this process, with the methods of socket.socket that Feed calls, and its memory.

    It ends when close is called, with this object, and with this process.
    """

    _handle = _feed = 0  # of one that was never opened

    def __init__(self, config: Configuration, quiet: bool = True, graph: int = 0) -> None:
        """Begins to open the loader. config has the dataset and the rank beside options of khop serve; the caller
        closes it. graph is the library's, in place of the dataset."""
        self._library = library = _library.load()
        self._config = config
        self._owner = os.getpid()
        self._feed = library.feed.khop_feed_new()
        if not self._feed:
            raise OSError(errno.ENOMEM, "no memory or no file descriptors for a loader in this process")
        handle = ctypes.c_uint64()
        start = library.function(
            "khop_loader_open", ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int32, ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_uint64))
        start(config.json().encode(), graph, quiet, self._feed, handle)
        self._handle = handle.value
        self._poll = select.poll()
        self._poll.register(library.feed.khop_feed_bell(self._feed), select.POLLIN)
        room, self._next = (ctypes.c_char * MESSAGE_BYTES)(), ctypes.c_uint64()
        self._view = memoryview(room).cast("B")
        self._arguments = ctypes.addressof(room), ctypes.addressof(self._next)
        self._put, self._take = library.feed.khop_feed_put, library.feed.khop_feed_take
        self.place = 0
        """Of the message that is read next. It is read as often as it is asked for, until the place is another."""
        post = memoryview((ctypes.c_char * (_DATA + POST)).from_address(self._feed)).cast("B")
        self.written, self.data = post[:8].cast("Q"), post[_DATA:]
        """What khop_feed_take reads: how far messages go, and the messages."""
        self.frames = self.data.cast("Q")

    def wait(self, timeout: float) -> None:
        """Returns when the loader is open."""
        ready = self._library.function("khop_loader_ready", ctypes.c_uint64)
        deadline = time.monotonic() + timeout
        try:
            while ready(self._handle):
                if time.monotonic() > deadline:
                    raise ServerError(f"the loader was not open after {timeout:.0f} s")
                self._poll.poll(_TICK)
        except (OptionError, ServerError) as e:
            raise self._config.failure(str(e)) or e from None

    def dealt_with(self) -> None:
        """Marks the message that recvmsg_into returned as handled."""
        self.place = self._next.value

    # --- as with a socket ---

    def send(self, message: bytes, flags: int = 0) -> int:
        """Passes a message to the loader. BlockingIOError if there is no room for it."""
        if self.sending(message)():
            raise BlockingIOError
        return len(message)

    def sending(self, message: bytes) -> Callable[[], int]:
        """Returns a C function that passes a message to the loader; it returns 0 if there was room."""
        return partial(self._put, self._feed, message, len(message))

    def recvmsg_into(
        self, buffers: Sequence[Any], ancillary: int = 0, flags: int = 0,
    ) -> tuple[int, tuple[()], int, None]:
        """Reads the next message. BlockingIOError if there is none for a while."""
        size = self._take(self._feed, self.place, *self._arguments)
        if not size and self._poll.poll(_TICK):
            size = self._take(self._feed, self.place, *self._arguments)
        if not size:
            raise BlockingIOError
        size = max(size, 0)  # the end
        buffers[0][:size] = self._view[:size]
        return size, (), 0, None

    def close(self) -> None:
        """Ends the loader. Memory in use stays."""
        handle, self._handle = self._handle, 0
        if handle and self._owner == os.getpid():
            self._library.close(handle)

    def __del__(self) -> None:
        self.close()
        if self._feed and self._owner == os.getpid():
            self._library.feed.khop_feed_free(self._feed)

    # --- memory ---

    def memory(self, about: Segment) -> Memory:
        """Returns a segment of the ring, in place."""
        return InsideMemory(self._library, self._handle, about)


class InsideMemory(Memory):
    """A segment in the library's memory."""

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
        lend(self)


class Owner:
    """Owns a handle of the library, and closes it in the end."""

    _handle = 0

    def __init__(self, library: _library.Library, handle: int) -> None:
        self._library, self._handle = library, handle

    def __del__(self) -> None:
        if self._handle:
            self._library.close(self._handle)
