"""A consumer's connection to a server."""

from __future__ import annotations

import gc
import logging
import os
import socket
import struct
import threading
import time
import warnings
import weakref
from collections import deque
from functools import partial
from operator import methodcaller
from typing import Any, Callable, NoReturn, Optional, Sequence, TypeVar, Union

from . import protocol as p
from .._batch.batch import copying, forget_copied
from .cuda import Device
from .device import DeviceRing
from ..errors import ForkError, KhopError, ProtocolError, ServerError, SlotsHeldError, StateError
from .in_process import Inside
from .ring import Ring, SlotArrays
from .server import END, Server

_STOP = 5.0  # seconds that the end of a run which was left may take
# Enums compute slowly.
_NO_SIGNAL, _AT_ONCE, _CLOSE_ON_EXEC = int(socket.MSG_NOSIGNAL), int(socket.MSG_DONTWAIT), int(socket.MSG_CMSG_CLOEXEC)
_TRUNCATED = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)
_TICK = 0.25  # seconds between looks at what else may have happened while nothing comes

_log = logging.getLogger("khop")
_NOTHING: Any = ()
_CALL: Callable[[Any], object] = methodcaller("__call__")

_E = TypeVar("_E", bound=KhopError)


class Feed:
    """A connection, from HELLO to BYE. Beginning, reading or ending a run, and statistics, hold its lock; slots come
    back from any thread, and any thread may call close."""

    def __init__(
        self,
        connection: Union[socket.socket, Inside],
        *,
        rank: Optional[int] = None,
        index_dtype: Optional[str] = "int64",
        hold: int = 0,
        timeout: float = 60.0,
        start_timeout: float = 0.0,
        max_ring_bytes: int = p.MAX_BYTES,
        device: Optional[Device] = None,
        or_host: bool = False,
        server: Optional[Server] = None,
    ) -> None:
        """Takes over a connected socket, or a loader in this process. index_dtype None takes the server's.
        start_timeout, if it is longer, is for the first answer, which comes when the server has loaded. device is where
        batches may be; with or_host, batches of a server without that device are taken on the host. server is the
        process at the other end, if this process started it: it gives the reason if it ended."""
        self.lock = threading.RLock()
        self._socket: Union[socket.socket, Inside, None] = connection
        self._inside = connection if isinstance(connection, Inside) else None
        self.lazy = 0
        """How many slots may wait to go back while batches are there: to wake a worker takes longer than to take a
        batch."""
        self._pid = os.getpid()
        self._timeout = max(timeout, start_timeout)
        self._server = server
        self._buffer = bytearray(p.MESSAGE_BYTES)
        self._buffers, self._view = [self._buffer], memoryview(self._buffer)
        self._run = 0
        self._asked = 0
        self._length = self._view[4:8].cast("I")  # of a message in the buffer; 0 where it was dealt with
        self._epoch, self._batches = 0, 0  # of the run, and how many it has
        self._cut = False  # the server reads no more
        self._complained = 0.0  # of which wait
        self._slots = 0
        self.ring = DeviceRing(device, max_ring_bytes, self._flush) if device else Ring(max_ring_bytes, self._flush)
        self._hold = 1
        _open_feeds.add(self)
        try:
            if self._inside is not None:
                self.ring.within = self._inside.memory
            else:
                assert isinstance(connection, socket.socket)
                _check_user(connection)
                for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                    connection.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 0, int(_TICK * 1e6)))
            if index_dtype is not None and index_dtype not in p.INDEX_DTYPES:
                raise ValueError(f'index_dtype={index_dtype!r}: must be "int64" or "int32"')
            takes = p.TAKES_DEVICE if device else 0
            self._send(p.hello(rank, p.INDEX_DTYPES[index_dtype] if index_dtype else 0, hold, self._pid, takes))
            self.welcome: p.Welcome = self._wait_for((p.Welcome,), "an answer to HELLO")
            if or_host and device and not self.welcome.device:
                self.ring = Ring(max_ring_bytes, self._flush)
            self._timeout = timeout
            self._hold, self._slots = self.welcome.hold, self.welcome.slots
            self.ring.hold = self._hold
            self.lazy = self._hold // 2
            if rank is not None and self.welcome.rank != rank:
                raise ProtocolError(f"the server gives rank {self.welcome.rank} where {rank} was asked for")
        except BaseException:
            self.close()
            raise

    # --- runs ---

    def begin(self, mode: int, epoch: int = 0, next: int = 0, state: Optional[Any] = None) -> p.Begun:
        """Starts a run, and ends the current one. See docs/feed.md, BEGIN."""
        self._run += 1
        self.ring.sequence = 0
        self._return_slots()
        self._send(p.begin(self._run, mode, epoch, next, state))
        begun: p.Begun = self._wait_for((p.Begun,), "an answer to BEGIN")
        self._epoch, self._batches = begun.epoch, begun.batches
        return begun

    def next(self) -> Union[SlotArrays, p.End]:
        """Acknowledges the batches before, and waits for the next one, or for the end of the run."""
        if copying:
            forget_copied()
        ring = self.ring
        slots = ring.leaving
        if ring.returned or ring.passing:
            ring.leave(p.CREDITS)
        full = len(slots) == p.CREDITS
        self._send(p.next_batch(self._run, ring.sequence, slots), slots.clear if slots else None)
        if full:
            self._return_slots()
        message: Union[p.BatchReady, p.End] = self._wait_for((p.BatchReady, p.End), "a batch")
        if isinstance(message, p.End):
            self._dealt_with()
            if message.batches != ring.sequence or message.batches != self._batches or message.stopped:
                raise self._broken(ProtocolError(
                    f"END after {message.batches} batches, where {ring.sequence} of {self._batches} came"))
            return message
        if message.sequence != ring.sequence:
            raise self._broken(ProtocolError(f"batch {message.sequence} of the run comes where {ring.sequence} should"))
        if message.epoch != self._epoch:
            raise self._broken(ProtocolError(f"a batch of epoch {message.epoch} comes in a run of epoch {self._epoch}"))
        return self._take(message)

    def _take(self, message: p.BatchReady) -> SlotArrays:
        try:
            arrays = self.ring.take(message, self._slots)
        except ProtocolError as e:
            raise self._broken(e) from None
        self._dealt_with()
        return arrays

    def sample(self, epoch: int, number: int, seeds: Sequence[p.Typed]) -> SlotArrays:
        """Returns the answer of a server of requests. See docs/feed.md, SAMPLE."""
        ring = self.ring
        self._run = self._run % 0xFFFFFFFF + 1
        message = p.sample(self._run, epoch, number, seeds)
        ring.sequence = 0
        if len(ring.held) >= self._hold:
            gc.collect()  # batches in reference cycles
        self._return_slots()
        if len(ring.held) >= self._hold:
            raise SlotsHeldError(
                f"no answer: all {self._hold} that there may be are in use: {ring.holders()}. Let go of some, keep "
                "copies (batch.copy()), or start the server with more (--hold)")
        self._send(message)
        ready: p.BatchReady = self._wait_for((p.BatchReady,), "an answer")
        if (ready.epoch, ready.number) != (epoch, number):
            raise self._broken(ProtocolError(
                f"batch {ready.number} of epoch {ready.epoch} answers a request of {number} of {epoch}"))
        return self._take(ready)

    def _dealt_with(self) -> None:
        """The message that was read last needs no more reading. Until then an interrupted call reads it again."""
        if self._inside is not None:
            self._inside.dealt_with()
        else:
            self._length[0] = 0

    def stop(self) -> None:
        """Ends the run, and returns what was announced of it and not taken. It raises nothing: the next run reports
        errors."""
        if self._socket is not None and self._mine():
            self._send(p.stop(self._run))
            try:
                self._read_to_end(time.monotonic() + min(self._timeout, _STOP))
                self._return_slots()
            except KhopError:
                pass
        self._run += 1  # what still comes is of a run that was left

    def _read_to_end(self, deadline: float) -> None:
        while True:
            message = self._receive(deadline, "the end of the run")
            self._dealt_with()
            if time.monotonic() > deadline:
                return
            if isinstance(message, p.BatchReady):
                self._discard(message)
            elif isinstance(message, (p.End, p.Error)) and message.run == self._run:
                return
            elif isinstance(message, p.Bye) or isinstance(message, p.Error) and message.run == 0:
                self.close()
                return

    def statistics(self) -> dict[str, Any]:
        """Returns the server's counts of itself, of this rank and of its consumers. Only between runs."""
        self._asked += 1
        self._send(p.ask(p.STATISTICS, self._asked))
        deadline = time.monotonic() + self._timeout
        while True:
            tell: p.Tell = self._wait_for((p.Tell,), "statistics")
            if (tell.what, tell.id) == (p.STATISTICS, self._asked):
                return tell.about
            self._in_time(deadline, "statistics")

    # --- messages ---

    def _wait_for(self, kinds: tuple[type, ...], what: str) -> Any:
        """The next message of some kind that belongs to the current run. Messages of earlier runs are handled."""
        deadline = time.monotonic() + self._timeout
        while True:
            message = self._receive(deadline, what)
            run = getattr(message, "run", self._run)
            if run == self._run and type(message) in kinds and not (self._cut and type(message) is p.BatchReady):
                if type(message) is p.BatchReady and message.sequence == self.ring.sequence - 1:
                    self._dealt_with()  # it was taken, but who took it was interrupted
                    continue
                if type(message) is not p.BatchReady and type(message) is not p.End:
                    self._dealt_with()
                return message
            self._dealt_with()
            if isinstance(message, p.Error) and message.run in (0, self._run):
                raise self._failed(message)
            if isinstance(message, p.Bye):
                raise self._broken(ServerError(f"the server has closed the feed: {message.reason}{self._tail()}"))
            # Of a run that was left: back, unread.
            if isinstance(message, p.BatchReady) and (run != self._run or self._cut):
                self._discard(message)
            elif run == self._run and not isinstance(message,
                                                     p.Tell):  # somebody was interrupted while waiting for that
                raise self._broken(ProtocolError(f"{type(message).__name__} came where {what} should"))
            self._in_time(deadline, what)

    def _discard(self, ready: p.BatchReady) -> None:
        """Returns a batch unread. Where the server reads no more it may have used the slot again."""
        try:
            if not self._cut:
                self.ring.discard(ready, self._slots)
        except ProtocolError as e:
            raise self._broken(e) from None

    def _in_time(self, deadline: float, what: str) -> None:
        """Raises where messages that nobody waits for came for too long."""
        if time.monotonic() > deadline:
            raise self._broken(ProtocolError(f"{what} did not come within {self._timeout:.0f} s, but other messages"))

    def _receive(self, deadline: float, what: str) -> p.Message:
        """The next message other than SEGMENT, whose memory is mapped."""
        while True:
            ring, s = self.ring, self._socket or self._unusable()
            if ring.passing and ring.away() >= self._hold and ring.wait_for_one():  # or nothing would come
                self._return_slots()
            try:
                size, ancillary, flags = self._length[0] if self._inside is None else 0, _NOTHING, 0
                if not size:
                    size, ancillary, flags, _ = s.recvmsg_into(self._buffers, 256, _CLOSE_ON_EXEC)
            except BlockingIOError:
                self._tick(deadline, what)
                continue
            except ConnectionResetError:
                continue  # it closed with messages of ours unread; its own, and the end, are still to be read
            except OSError as e:
                raise self._broken(
                    self._death() or ServerError(f"the connection to the server is broken: {e}")) from None
            fds = _descriptors(ancillary) if ancillary else ()
            try:
                if size == 0:
                    raise self._death() or ServerError("the server has closed the connection without a word")
                if flags & _TRUNCATED:
                    raise ProtocolError("a message that is too long")
                message = p.read(bytes(self._view[:size]))
                if type(message) is not p.Segment:
                    if fds:
                        raise ProtocolError(f"{type(message).__name__} with file descriptors")
                    return message
                ring.add(message, fds)
                self._dealt_with()
            except KhopError as e:
                raise self._broken(e)
            finally:
                for fd in fds:
                    os.close(fd)

    def _tick(self, deadline: float, what: str) -> None:
        """Looks around while nothing comes."""
        forget_copied()
        if len(self.ring.held) >= self._hold:
            gc.collect()  # batches in reference cycles
        if self.ring.returned or self.ring.passing:
            self._return_slots()
        if len(self.ring.held) >= self._hold:
            self._starve(deadline)
        if time.monotonic() < deadline:
            return
        raise ServerError(f"{what} did not come within {self._timeout:.0f} s{self._tail()}")

    def _starve(self, deadline: float) -> None:
        """All slots are held: says so after a second, and raises where nobody can let go of one, or in the end."""
        waited = time.monotonic() - (deadline - self._timeout)
        held = f"all {self._hold} slots are held by arrays that are still in use: {self.ring.holders()}"
        alone = threading.active_count() == 1 and not copying
        if alone or waited >= self._timeout:
            since = "" if alone else f" for {self._timeout:.0f} s"
            raise SlotsHeldError(f"no batch{since}: {held}. Let go of them, keep a copy (batch.copy()), or make the "
                                 "loader with more slots (hold=)")
        if waited >= 1 and deadline != self._complained:
            self._complained = deadline
            _log.warning("no batch for a second: %s; another thread may let go of one: waiting for %.0f s", held,
                         self._timeout)

    def _send(self, message: bytes, then: Optional[Callable[[], object]] = None) -> None:
        """Sends a message, and calls then at once: no signal is handled in between, as long as it is a function of
        C's."""
        deadline = 0.0
        while True:
            try:
                s = self._socket or self._unusable()
                if then is None:
                    s.send(message, _NO_SIGNAL)
                elif self._inside is None:
                    deque(map(_CALL, (partial(s.send, message, _NO_SIGNAL), then)), 0)
                elif list(map(_CALL, (self._inside.sending(message), then)))[0]:
                    raise self._broken(ServerError("the loader has read nothing for hundreds of batches"))
                return
            except BlockingIOError:
                deadline = deadline or time.monotonic() + self._timeout
                if time.monotonic() > deadline:
                    raise self._broken(
                        ServerError(f"the server has read nothing for {self._timeout:.0f} s{self._tail()}")) from None
            except OSError:
                self._cut = True
                return  # the server is gone: what it sent before, which is read next, says why

    # --- slots ---

    def _return_slots(self) -> None:
        """Sends slots that came back, apart from any acknowledgement."""
        while True:
            slots = self.ring.take_returned(p.CREDITS)
            if not slots:
                return
            self._send(p.next_batch(0, 0, slots))

    def _flush(self) -> None:
        """A slot came back, in any thread, and the server has none: it hears of it now, else with the next request."""
        ring, s = self.ring, self._socket
        if s is None or not self._mine():
            return
        slots = ring.take_returned(p.CREDITS)
        if not slots:
            return
        try:
            s.send(p.next_batch(0, 0, slots), _NO_SIGNAL | _AT_ONCE)
        except OSError:
            ring.returned.extend(slots)  # the next request takes them along, or says what is wrong

    # --- the end ---

    def close(self) -> None:
        """Ends the connection. Arrays stay valid: those of batches that are still in use get memory of this process."""
        s, self._socket = self._socket, None
        _open_feeds.discard(self)
        if s is None:
            return
        if self._mine():
            self._keep_held()
            self.ring.close()
            try:
                s.send(p.bye(), _NO_SIGNAL | _AT_ONCE)
            except OSError:
                pass
        s.close()

    def _keep_held(self) -> None:
        try:
            self.ring.keep_held()
        except (OSError, ProtocolError) as e:
            warnings.warn(f"arrays of {len(self.ring.held)} batches that are still in use may change: they cannot be "
                          f"kept: {e}", RuntimeWarning, 3)

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self.close()

    @property
    def closed(self) -> bool:
        return self._socket is None

    def _mine(self) -> bool:
        return self._pid == os.getpid()

    def _unusable(self) -> NoReturn:
        if not self._mine():
            raise ForkError(
                f"this loader belongs to process {self._pid}, and this is its child {os.getpid()}: batches are made "
                "ahead of the loop, so there is nothing to win by forking. Use num_workers=0, or make the loader in "
                "the child"
            )
        raise ServerError("the loader is closed")

    def _failed(self, error: p.Error) -> KhopError:
        text = error.text or error.name
        result: KhopError = StateError(text) if error.code == p.ERROR_STATE else ServerError(text)
        result.code = error.code
        return self._broken(result) if error.run == 0 else result

    def _broken(self, error: _E) -> _E:
        """Closes the connection; no message can be sent on it afterwards."""
        self.close()
        return error

    def _death(self) -> Optional[KhopError]:
        """Why the server has ended, after it has closed the connection."""
        return None if self._server is None else self._server.death(END)

    def _tail(self) -> str:
        words = "" if self._server is None else self._server.last_words()
        return f"; it wrote last:\n{words}" if words else ""


def _check_user(connection: socket.socket) -> None:
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if uid != os.getuid():
        raise ProtocolError(f"the server runs as user {uid}, this process as {os.getuid()}")


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.extend(struct.unpack(f"{len(data) // 4}i", data[:len(data) // 4 * 4]))
    return fds


_open_feeds: weakref.WeakSet[Feed] = weakref.WeakSet()


def _in_child() -> None:
    """After a fork: the child must not keep the connection open, or its parent's death would go unnoticed. Nor can it
    use it so."""
    for feed in list(_open_feeds):
        s, feed._socket, feed._inside = feed._socket, None, None
        feed.lock = threading.RLock()  # whoever held it is not in this process
        if s is not None:
            s.close()
    _open_feeds.clear()


os.register_at_fork(after_in_child=_in_child)
