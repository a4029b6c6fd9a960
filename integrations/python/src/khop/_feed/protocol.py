"""The messages of the feed, and the descriptor of a batch: docs/feed.md, byte by byte. This module uses no socket.

All input is checked before it is used: a reader raises ProtocolError and never reads outside its input.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from math import prod
from typing import Any, Callable, NamedTuple, Optional, Sequence, Union

import numpy as np

from ..errors import ProtocolError

VERSION = 1
MAGIC = b"khopfeed"
BATCH_MAGIC = b"khopbtch"
MESSAGE_BYTES = 65_536
MAX_SEGMENTS = 4096
MAX_SLOTS = 65_536
MAX_ARRAYS = 1 << 20
MAX_DESCRIPTOR = 256 << 20
MAX_NAME = 4096
MAX_BYTES = 1 << 47
MAX_EPOCHS = 1 << 32
MAX_BATCHES = 1 << 63
CREDITS = 1024  # slots a NEXT message
ANY_RANK = 0xFFFFFFFF
TAKES_DEVICE = 1  # HELLO: segments of device memory

HELLO, WELCOME, SEGMENT, BEGIN, BEGUN, BATCH, NEXT, END, STOP, ERROR, ASK, TELL, BYE, SAMPLE = range(1, 15)
NAMES = ("?", "HELLO", "WELCOME", "SEGMENT", "BEGIN", "BEGUN", "BATCH", "NEXT", "END", "STOP", "ERROR", "ASK", "TELL",
         "BYE", "SAMPLE")
STATISTICS, STATE = 1, 2

ERRORS = {
    1: "bad message", 2: "version", 3: "user", 4: "rank", 5: "taken", 6: "full", 7: "index dtype", 8: "state",
    9: "epochs",
    10: "load", 11: "memory", 12: "ending", 13: "readers", 14: "stalled",
}
ERROR_RANK, ERROR_INDEX_DTYPE, ERROR_STATE = 4, 7, 8
TIMED = 1  # SAMPLE: seeds have times
WINDOWED = 2  # and first times
GOODBYES = {0: "done", 1: "interrupted", 2: "all epochs were loaded"}

DTYPES: dict[int, tuple[str, np.dtype[Any]]] = {
    1: ("int8", np.dtype("<i1")), 2: ("uint8", np.dtype("<u1")), 3: ("int16", np.dtype("<i2")),
    4: ("uint16", np.dtype("<u2")),
    5: ("int32", np.dtype("<i4")), 6: ("uint32", np.dtype("<u4")), 7: ("int64", np.dtype("<i8")),
    8: ("uint64", np.dtype("<u8")),
    9: ("float16", np.dtype("<f2")), 10: ("bfloat16", np.dtype("<u2")), 11: ("float32", np.dtype("<f4")),
    12: ("float64", np.dtype("<f8")),
}
FOREIGN = {name: dtype.itemsize for name, dtype in DTYPES.values() if dtype.name != name}
"""The bytes of elements of dtypes that NumPy does not have: it sees integers of that size."""
INDEX_DTYPES = {"int32": 5, "int64": 7}


class Typed(NamedTuple):
    """Seeds of one node type, their times, and their first times."""

    type: int
    ids: np.ndarray[Any, Any]
    times: Optional[np.ndarray[Any, Any]]
    start: Optional[np.ndarray[Any, Any]] = None


# --- what a consumer sends --------------------------------------------------------------------------------------------

def hello(rank: Optional[int], index_dtype: int, hold: int, pid: int, takes: int = 0) -> bytes:
    """Encodes HELLO. index_dtype is a code of DTYPES, 0 for the server's own; hold 0 for the server's number of slots;
    takes TAKES_DEVICE or 0."""
    head = struct.pack("<HHI8sHHIIIII", HELLO, 0, 64, MAGIC, VERSION, VERSION, ANY_RANK if rank is None else rank,
                       index_dtype, hold, pid, takes)
    return head.ljust(64, b"\0")


def begin(run: int, mode: int, epoch: int = 0, next: int = 0, state: Optional[Any] = None) -> bytes:
    """Encodes BEGIN. mode 0: batch next of epoch; 1: where the rank is; 2: after the state."""
    text = b"" if state is None else json.dumps(state).encode()
    return struct.pack("<HHIIIQQII", BEGIN, 0, 40 + len(text), run, mode, epoch, next, len(text), 0) + text


def next_batch(run: int, done: int, slots: Sequence[int]) -> bytes:
    """Encodes NEXT: acknowledges the run's batches below done, and returns slots, at most CREDITS."""
    n = len(slots)
    return _next(n).pack(NEXT, 0, 24 + 4 * n, run, n, done, *slots)


@lru_cache
def _next(slots: int) -> struct.Struct:
    return struct.Struct(f"<HHIIIQ{slots}I")


def stop(run: int) -> bytes:
    return struct.pack("<HHIII", STOP, 0, 16, run, 0)


def sample(run: int, epoch: int, number: int, seeds: Sequence[Typed]) -> bytes:
    """Encodes SAMPLE. ValueError if a message has no room for the seeds."""
    flags = (TIMED * any(s.times is not None for s in seeds)) | (WINDOWED * any(s.start is not None for s in seeds))
    sets = b"".join(struct.pack("<II", s.type, len(s.ids)) + b"".join(
        of.astype("<i8").tobytes() for of in (s.ids, s.times, s.start) if of is not None) for s in seeds)
    if 32 + len(sets) > MESSAGE_BYTES:
        raise ValueError(f"a request of {sum(len(s.ids) for s in seeds)} seeds: a message has room for 8,000, or 4,000 "
                         "with times, 2,700 with windows: ask for fewer at a time")
    return struct.pack("<HHIIIQQ", SAMPLE, flags, 32 + len(sets), run, len(sets), epoch, number) + sets


def ask(what: int, id: int) -> bytes:
    return struct.pack("<HHIII", ASK, 0, 16, what, id)


def bye(reason: int = 0) -> bytes:
    return struct.pack("<HHIII", BYE, 0, 16, reason, 0)


# --- what a server sends ----------------------------------------------------------------------------------------------

class Welcome(NamedTuple):
    version: int
    rank: int
    world_size: int
    hold: int
    slots: int
    index_dtype: str
    broadcast: bool
    durable: bool
    device: bool
    """Whether batches lie on the device that was asked for."""
    batches: int
    """Batches that an epoch of this rank has."""
    about: dict[str, Any]


Handle = bytes


class Segment(NamedTuple):
    number: int
    memory: int
    bytes: int
    read_only: bool
    device: int = 0
    handle: Handle = b""
    """Of cuIpcGetMemHandle, for memory on a device."""


class Begun(NamedTuple):
    run: int
    epoch: int
    next: int
    batches: int


class BatchReady(NamedTuple):
    """The fields of the message BATCH."""

    flags: int
    run: int
    slot: int
    sequence: int
    epoch: int
    number: int
    segment: int
    bytes: int
    offset: int
    next: int

    @property
    def padded(self) -> bool:
        return bool(self.flags & 1)


class End(NamedTuple):
    run: int
    stopped: bool
    batches: int
    epoch: int


class Error(NamedTuple):
    run: int
    code: int
    text: str

    @property
    def name(self) -> str:
        return ERRORS.get(self.code, f"error {self.code}")


class Tell(NamedTuple):
    what: int
    id: int
    about: dict[str, Any]


class Bye(NamedTuple):
    reason: str


Message = Union[Welcome, Segment, Begun, BatchReady, End, Error, Tell, Bye]

_KIND = struct.Struct("<HHI")
BATCH_FORM = struct.Struct("<2xH4xIIQQQIIQQ")
_WELCOME = struct.Struct("<HHI8sHHIIIIIIIQQ")


def read(data: bytes) -> Message:
    """Decodes a packet of a server."""
    if len(data) < 8:
        raise ProtocolError(f"a packet of {len(data)} bytes is not a message")
    kind, flags, length = _KIND.unpack_from(data)
    if length != len(data) or length > MESSAGE_BYTES:
        raise ProtocolError(f"a message says that it has {length} bytes, its packet has {len(data)}")
    if kind not in _READERS:
        raise ProtocolError(
            f"a server sends no message of kind {kind} ({NAMES[kind] if kind < len(NAMES) else 'unknown'})")
    fixed, reader = _READERS[kind]
    if fixed and length != fixed:
        raise ProtocolError(f"{NAMES[kind]} has {length} bytes, not {fixed}")
    try:
        return reader(data, flags)
    except struct.error:
        raise ProtocolError(f"{NAMES[kind]} has {length} bytes, which are too few") from None


def _welcome(data: bytes, flags: int) -> Welcome:
    (_, _, _, magic, version, _, rank, world, hold, slots, dtype, bits, size, batches, _) = _WELCOME.unpack_from(data)
    if magic != MAGIC:
        raise ProtocolError("this is not a khop server: its answer does not begin as one")
    if version != VERSION:
        raise ProtocolError(f"the server speaks version {version} of the feed, this package version {VERSION}")
    _limit("rank", rank, world)
    _limit("slots", slots, MAX_SLOTS + 1)
    _limit("hold", hold, slots + 1)
    if dtype not in INDEX_DTYPES.values() or not hold:
        raise ProtocolError(f"WELCOME: index dtype {dtype}, hold {hold}: out of range")
    _limit("batches of an epoch", batches, MAX_BATCHES)
    about = _json(data, _WELCOME.size, size)
    _check("WELCOME", about, _ABOUT, ("state",))
    _check("WELCOME: state", about["state"], _STATE, ("epoch", "next"))
    types = about.setdefault("node_types", [])
    notes = about.setdefault("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ProtocolError("WELCOME: notes: must be a list of texts")
    for of in types if isinstance(types, list) else [types]:
        _check("WELCOME: node_types", of if isinstance(of, dict) else {}, _NODE_TYPE, tuple(_NODE_TYPE))
    _limit("epoch", about["state"]["epoch"], MAX_EPOCHS)
    return Welcome(version, rank, world, hold, slots, DTYPES[dtype][0], bool(bits & 1), bool(bits & 2), bool(bits & 4),
                   batches, about)


_ABOUT: dict[str, type] = {  # of the JSON in WELCOME, what there is
    "version": str, "pid": int, "dataset": str, "dataset_id": str, "sampler": str, "layers": int, "frontier": str,
    "seeds": str, "num_seeds": int,
    "batch_size": int, "shuffle": bool, "drop_last": bool, "remainder": str, "batches": int, "epochs": int,
    "readers": int, "device": str, "device_reason": str, "state": dict,
}
_STATE: dict[str, type] = {"epoch": int, "next": int}
_NODE_TYPE: dict[str, type] = {"name": str, "count": int}


def _check(what: str, value: dict[str, Any], kinds: dict[str, type], needed: tuple[str, ...]) -> None:
    """Refuses JSON without a field that is needed, or with one that is something else than it should be."""
    for key, kind in kinds.items():
        if key not in value and key not in needed:
            continue
        v = value.get(key)
        if type(v) is not kind or isinstance(v, int) and not 0 <= v < 1 << 64:
            raise ProtocolError(f"{what}: {key} is {str(v)[:100]}, not {kind.__name__}")


def _segment(data: bytes, flags: int) -> Segment:
    number, memory, size, bits, device = struct.unpack_from("<IIQII", data, 8)
    _limit("segment", number, MAX_SEGMENTS)
    _limit("memory", memory, 2)
    _limit("bytes of a segment", size, MAX_BYTES)
    if size == 0:
        raise ProtocolError(f"segment {number} has no bytes")
    return Segment(number, memory, size, bool(bits & 1), device, data[32:96])


def _begun(data: bytes, flags: int) -> Begun:
    run, _, epoch, following, batches = struct.unpack_from("<IIQQQ", data, 8)
    _limit("epoch", epoch, MAX_EPOCHS)
    _limit("next", following, MAX_BATCHES)
    _limit("batches", batches, MAX_BATCHES)
    return Begun(run, epoch, following, batches)


def read_batch(data: Union[bytes, memoryview], flags: int = 0) -> BatchReady:
    """Decodes a BATCH, whose length and kind are known."""
    ready = tuple.__new__(BatchReady, BATCH_FORM.unpack(data))  # _make, which would count the fields again
    if not 64 <= ready.bytes <= MAX_DESCRIPTOR or ready.next >= MAX_BATCHES:
        raise ProtocolError(f"BATCH: a descriptor of {ready.bytes} bytes, next {ready.next}: out of range")
    return ready


def _end(data: bytes, flags: int) -> End:
    run, reason, batches, epoch = struct.unpack_from("<IIQQ", data, 8)
    _limit("reason", reason, 2)
    return End(run, reason == 1, batches, epoch)


def _error(data: bytes, flags: int) -> Error:
    run, code, size, _ = struct.unpack_from("<IIII", data, 8)
    if size != len(data) - 24 or size > 4096:
        raise ProtocolError(f"ERROR: a text of {size} bytes in a message of {len(data)}")
    return Error(run, code, data[24:].decode("utf-8", "replace"))


def _tell(data: bytes, flags: int) -> Tell:
    what, id, size, _ = struct.unpack_from("<IIII", data, 8)
    return Tell(what, id, _json(data, 24, size))


def _bye(data: bytes, flags: int) -> Bye:
    (reason,) = struct.unpack_from("<I", data, 8)
    return Bye(GOODBYES.get(reason, f"reason {reason}"))


_READERS: dict[int, tuple[int, Callable[[bytes, int], Message]]] = {  # with the bytes of those that have a fixed number
    WELCOME: (0, _welcome), SEGMENT: (96, _segment), BEGUN: (48, _begun), BATCH: (64, read_batch), END: (40, _end),
    ERROR: (0, _error),
    TELL: (0, _tell), BYE: (16, _bye),
}


def _limit(what: str, value: int, below: int) -> None:
    if value >= below:
        raise ProtocolError(f"{what} is {value}, which is not below {below}")


def _json(data: bytes, begin: int, size: int) -> dict[str, Any]:
    if size != len(data) - begin:
        raise ProtocolError(f"JSON of {size} bytes where {len(data) - begin} are left")
    try:
        value = json.loads(data[begin:].decode("utf-8"))
    except (ValueError, RecursionError) as e:
        raise ProtocolError(f"not JSON: {e}") from None
    if not isinstance(value, dict):
        raise ProtocolError("the JSON is not an object")
    return value


# --- the descriptor of a batch ----------------------------------------------------------------------------------------

_HEAD = struct.Struct("<8sIIQQQQ")
_ARRAY = struct.Struct("<QIBBHIIQ4Q")
# Of an array's entry: offset, segment and dimensions.
_PLACES = {rank: struct.Struct(f"<QI20x{rank}Q") for rank in range(1, 5)}


class Form(NamedTuple):
    """The properties of an array that a layout fixes."""

    at: int
    """Where its entry is in descriptors."""
    place: struct.Struct
    """Reads offset, segment and dimensions from there."""
    itemsize: int
    numpy: np.dtype[Any]
    dtype: str


class Layout:
    """The common part of a feed's descriptors: the names of the arrays, in order, and their forms."""

    __slots__ = ("key", "count", "forms", "names", "node_types", "edge_types", "layers")

    def __init__(self, key: int, data: bytes, count: int) -> None:
        self.key = key
        self.count = count
        self.forms: dict[str, Form] = {}
        for i in range(count):
            at = 64 + 64 * i
            _, _, code, rank, _, begin, size, *_ = _ARRAY.unpack_from(data, at)
            if not 1 <= size <= MAX_NAME or begin < 64 + 64 * count or begin + size > len(data):
                raise ProtocolError(
                    f"descriptor: array {i}: its name is at {begin}, {size} bytes, outside of the descriptor")
            try:
                name = data[begin:begin + size].decode("utf-8")
            except UnicodeDecodeError:
                raise ProtocolError(f"descriptor: array {i}: its name is not UTF-8") from None
            if name in self.forms:
                raise ProtocolError(f"descriptor: two arrays are called {name!r}")
            if code not in DTYPES or rank not in _PLACES:
                raise ProtocolError(f"array {name}: dtype {code}, rank {rank}: out of range")
            dtype, numpy = DTYPES[code]
            self.forms[name] = Form(at, _PLACES[rank], numpy.itemsize, numpy, dtype)
        self.names = tuple(self.forms)
        self.node_types = tuple(n[len("nodes/"):] for n in self.names if n.startswith("nodes/"))
        self.edge_types = tuple(n[len("block/0/"):-len("/indptr")] for n in self.names if n.startswith("block/0/")
                                and n.endswith("/indptr"))
        self.layers = 0
        if self.edge_types:
            while f"block/{self.layers}/{self.edge_types[0]}/indptr" in self.forms:
                self.layers += 1
        self._check()

    def _check(self) -> None:
        """Every batch has certain arrays: others may count on them."""
        self._needs("num_nodes", 2, ("int64",))
        for t in self.node_types:
            for name in ("nodes", "seeds", "input", "item"):
                self._needs(f"{name}/{t}", 1, ("int64",) if name == "item" else ("int32", "int64"))
        for e in self.edge_types:
            ends = e.split(":")
            if len(ends) != 3 or ends[0] not in self.node_types or ends[2] not in self.node_types:
                raise ProtocolError(f"an edge type that is called {e!r}: not of the form source:relation:target")
            for layer in range(self.layers):
                for name in ("indptr", "indices"):
                    self._needs(f"block/{layer}/{e}/{name}", 1, ("int32", "int64"))
        blocks = {f"block/{layer}/{e}" for layer in range(self.layers) for e in self.edge_types}
        for name in self.names:
            block, _, what = name.rpartition("/")
            if name.startswith("block/") and (block not in blocks or what not in ("indptr", "indices", "edge_pos")):
                raise ProtocolError(f"descriptor: array {name} belongs to no layer")

    def _needs(self, name: str, rank: int, dtypes: tuple[str, ...]) -> None:
        form = self.forms.get(name)
        if form is None:
            raise ProtocolError(f"descriptor: there is no array {name}")
        if form.dtype not in dtypes or form.place is not _PLACES[rank]:
            raise ProtocolError(
                f"descriptor: array {name} is {form.dtype} of {form.place.format}, not {dtypes[-1]} of rank {rank}")

    def layers_of(self, counts: tuple[int, ...]) -> int:
        """Returns the layers of batches whose num_nodes has a shape."""
        layers = counts[0] - 1
        if layers < 0 or counts[1] != len(self.node_types) or self.edge_types and layers != self.layers:
            raise ProtocolError(
                f"num_nodes has shape {counts}, with {len(self.node_types)} node types and {self.layers} layers")
        return layers

    def place(
        self, name: str, descriptor: bytes, segments: Sequence[int],
    ) -> tuple[int, int, tuple[int, ...], np.dtype[Any], str]:
        """Returns where an array of a batch is: segment, offset, shape, NumPy's dtype and the dtype's name. KeyError if
        there is no such array. segments are their sizes in bytes: the array is within one, or has no elements and
        segment -1."""
        at, place, size, numpy, dtype = self.forms[name]
        values: tuple[int, ...] = place.unpack_from(descriptor, at)
        offset, segment, shape = values[0], values[1], values[2:]
        size *= prod(shape)  # Python's integers do not overflow
        if size == 0 and prod(n or 1 for n in shape) < MAX_BYTES:  # or NumPy would not make it
            return -1, 0, shape, numpy, dtype
        if segment >= len(segments) or offset + size > segments[segment] or offset % 128 or size == 0:
            raise ProtocolError(f"array {name}: shape {shape} at {offset} of segment {segment}: not in the ring")
        return segment, offset, shape, numpy, dtype


def layout(descriptor: bytes, ready: BatchReady, known: Optional[Layout] = None) -> Layout:
    """Checks a batch's descriptor and returns its layout. known is the layout of the batch before, which is used again
    if the descriptor says that it is the same. descriptor is a copy: the ring's may change under a reader."""
    magic, size, count, key, epoch, number, following = _HEAD.unpack_from(descriptor)
    if magic != BATCH_MAGIC or size != len(descriptor):
        raise ProtocolError(f"there is no descriptor of {len(descriptor)} bytes where BATCH says")
    if count > MAX_ARRAYS or 64 + 64 * count > size:
        raise ProtocolError(f"a descriptor of {size} bytes with {count} arrays")
    if epoch != ready.epoch or number != ready.number or following != ready.next:
        raise ProtocolError(
            f"BATCH is of batch {ready.number} of epoch {ready.epoch}, the descriptor of {number} of {epoch}")
    if known is not None and known.key == key and known.count == count:
        return known
    new = Layout(key, descriptor, count)
    if known is not None and (new.node_types, new.edge_types,
                              new.layers) != (known.node_types, known.edge_types, known.layers):
        raise ProtocolError(f"batch {number} has other types of nodes or edges than the batches before")
    return new
