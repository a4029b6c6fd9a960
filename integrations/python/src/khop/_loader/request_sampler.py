"""Single requests: a sampler that is opened once answers each with a batch."""

from __future__ import annotations

import ctypes
import inspect
import json
import math
import os
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Optional, Type, Union

import numpy as np

from .._native import library as _library
from .._batch.arrays import Arrays
from .._data import memory
from .._batch.batch import Batch
from .._batch.contents import Info
from ..errors import OptionError, ServerError, SlotsHeldError
from .._batch.frameworks import Framework, NumpyArray
from .._batch.frameworks import framework as _framework
from .loader import seeds_of, settled
from .startup import Opening
from .._config.configuration import Configuration, Fanouts, LoaderOptions, Seeds, check_names
from .._feed.protocol import DTYPES
from .._feed.ring import lend
from .._batch.schema import Schema

if TYPE_CHECKING:
    from typing_extensions import Unpack

_TICK = 250  # milliseconds after which a wait looks for what else may have happened
_DTYPES = {name: dtype for name, dtype in DTYPES.values()}
_HERE = ("auto", "cpu", None)


class Sampler:
    """Answers single requests in this process, from any thread.

        sampler = khop.Sampler("products.khop", fanouts=[15, 10])
        batch = sampler.sample([17, 4, 17])
        batch.x, batch.edge_index

    dataset, fanouts and options are those of khop.Loader, but for those of epochs, of edges as seeds and of devices.
    batch_size is the most seeds of a request, and workers the number of requests that run at a time. At most ``most``
    answers, workers + prefetch + hold, may be in progress or in use. Nothing else takes memory.
    """

    def __init__(
        self,
        dataset: Any,
        fanouts: Optional[Fanouts] = None,
        *,
        num_neighbors: Optional[Fanouts] = None,
        index_dtype: str = "int64",
        framework: Union[str, Framework] = "auto",
        timeout: float = 60.0,
        start_timeout: float = 600.0,
        quiet: bool = True,
        **options: Unpack[LoaderOptions],
    ) -> None:
        """timeout is how many seconds a request waits if all answers are in use."""
        check_names(options, inspect.signature(Sampler).parameters)
        if options.get("device") not in _HERE:
            raise ValueError(f"device={options['device']!r}: a sampler in this process makes batches on the CPU")
        self._library = library = _library.load()
        config = Configuration({**settled(options, fanouts, num_neighbors), "device": "cpu"})
        self._framework = _framework(framework)
        self._index, self._timeout = np.dtype(index_dtype), timeout
        self.about: Mapping[str, Any] = {}
        """What the sampler is: types, arrays, and memory."""
        opened = Opening()
        handle = ctypes.c_uint64()
        self._end = weakref.finalize(self, _end, library, handle, opened)
        try:
            graph = memory.handle(dataset)
            if not graph:
                config.options["dataset"] = opened.dataset(dataset)
            self._open(config, graph, handle, quiet, start_timeout)
        except BaseException:
            self.close()
            raise
        finally:
            config.close()
        self._handle = handle.value
        self._used: set[int] = set()
        self._take(self._describe())

    def _open(
        self, config: Configuration, graph: int, handle: ctypes.c_uint64, quiet: bool, timeout: float,
    ) -> None:
        library, deadline = self._library, time.monotonic() + timeout
        begin = library.function(
            "khop_sampler_open", ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64))
        ready = library.function("khop_sampler_ready", ctypes.c_uint64, ctypes.c_int32)
        begin(config.json().encode(), graph, quiet, handle)
        try:
            while ready(handle, _TICK):
                if time.monotonic() > deadline:
                    raise ServerError(f"the sampler was not open after {timeout:.0f} s")
        except (OptionError, ServerError) as e:
            raise config.failure(str(e)) or e from None

    def _describe(self) -> dict[str, Any]:
        tell = self._library.function("khop_sampler_about", ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64,
                                      ctypes.POINTER(ctypes.c_uint64))
        room, size = ctypes.create_string_buffer(1 << 16), ctypes.c_uint64()
        while tell(self._handle, room, len(room), size) or size.value > len(room):
            room = ctypes.create_string_buffer(2 * size.value)
        about: dict[str, Any] = json.loads(room.raw[:size.value])
        return about

    def _take(self, about: dict[str, Any]) -> None:
        self.about = about
        nodes, edges = about["node_types"], about["edge_types"]
        self._schema = Schema(
            node_types=tuple(t["name"] for t in nodes), node_counts=tuple(t["count"] for t in nodes),
            edge_types=tuple((s, r, t) for s, r, t in (e["name"].split(":") for e in edges)),
            edge_counts=tuple(e["count"] for e in edges), layers=about["layers"],
            new_nodes=about.get("frontier") == "new")
        self._forms = Forms({
            a["name"]: Form(i, _DTYPES[a["dtype"]], a["dtype"], tuple(a["row"] or ()))
            for i, a in enumerate(about["arrays"])})
        self._counts = (self._schema.layers + 1) * len(nodes)
        self._ask = self._library.function(
            "khop_sampler_sample", ctypes.c_uint64, ctypes.POINTER(Request), ctypes.POINTER(ctypes.c_uint64))

    @property
    def most(self) -> int:
        """How many answers may be in progress or in use."""
        most: int = self.about["memory"]["slots"]
        return most

    @property
    def used(self) -> int:
        """How many answers are in use."""
        return len(self._used)

    def statistics(self) -> dict[str, Any]:
        """Returns the sampler's counts: answers, times in nanoseconds, memory that it holds."""
        stats: dict[str, Any] = self._describe()["stats"]
        return stats

    def sample(
        self, ids: Seeds, times: Any = None, *, start_times: Any = None, epoch: int = 0, number: int = 0,
    ) -> Batch:
        """Returns the batch of these seeds: ids of nodes, or (node type, ids), or a mapping of node types to ids. times
        has one for each, and so has start_times, if each has a window of time: an array, or a mapping with the same
        keys.

        The answer is batch ``number`` of ``epoch`` of a khop.Loader with the same options and these seeds. Both key all
        random choices: equal requests have equal answers. The memory comes back when the answer's last array is gone,
        or at release().
        """
        if not self._end.alive:
            raise ServerError("the sampler is closed: make another")
        seeds = seeds_of(self._schema, ids, times, start_times)
        count = sum(len(s.ids) for s in seeds)
        answer = Answer(self._library, self._forms, self._counts + count)
        nodes = (Nodes * len(seeds))(*(
            Nodes(s.ids.ctypes.data, *(None if of is None else of.ctypes.data for of in (s.times, s.start)),
                  len(s.ids), s.type)
            for s in seeds))
        request = Request(nodes, len(seeds), epoch, number, answer.rows.ctypes.data, len(answer.rows),
                          answer.numbers.ctypes.data, len(answer.numbers))
        begin = 0.0
        while self._ask(self._handle, request, answer.handle):
            begin = begin or time.monotonic()
            if time.monotonic() - begin > self._timeout:
                raise SlotsHeldError(
                    f"no answer for {self._timeout:.0f} s: all {self.most} are in use. Let go of some, keep copies "
                    "(batch.copy()), or make the sampler with more (hold=)")
        answer.lend(self._used)
        return Batch(self._schema, Info(epoch, number, False, number + 1), answer, self._framework, self._index)

    # --- the end ---

    def close(self) -> None:
        """Ends the sampler, after the running requests. Answers in use stay valid."""
        self._end()

    @property
    def closed(self) -> bool:
        return not self._end.alive

    def __enter__(self) -> Sampler:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a khop sampler cannot be copied: make another one where it is needed")

    def __repr__(self) -> str:
        what = f"{self.about.get('dataset', '?')}, {self.about.get('sampler', '?')}"
        return f"<khop.Sampler {what}{', closed' if self.closed else ''}>"


def _end(library: _library.Library, handle: ctypes.c_uint64, opened: Opening) -> None:
    if handle.value and opened._pid == os.getpid():
        library.close(handle.value)
    opened.end()


class Nodes(ctypes.Structure):
    """The C struct khop_nodes."""

    _fields_ = [("ids", ctypes.c_void_p), ("times", ctypes.c_void_p), ("from", ctypes.c_void_p),
                ("count", ctypes.c_int64), ("node_type", ctypes.c_int64)]


class Request(ctypes.Structure):
    """The C struct khop_request."""

    _fields_ = [("nodes", ctypes.POINTER(Nodes)), ("sets", ctypes.c_int64), ("epoch", ctypes.c_uint64),
                ("number", ctypes.c_uint64), ("rows", ctypes.c_void_p), ("arrays", ctypes.c_int64),
                ("numbers", ctypes.c_void_p), ("room", ctypes.c_int64)]


class Form(NamedTuple):
    """The properties of an array that all answers share."""

    place: int
    numpy: np.dtype[Any]
    dtype: str
    row: tuple[int, ...]


class Forms:
    """The arrays of a sampler's answers."""

    def __init__(self, of: Mapping[str, Form]) -> None:
        self.of = of
        self.names = tuple(of)


class Answer(Arrays):
    """The arrays of an answer, in the library's memory: views that keep it."""

    __slots__ = ("_library", "_forms", "_used", "handle", "rows", "numbers")

    def __init__(self, library: _library.Library, forms: Forms, room: int) -> None:
        self.handle = ctypes.c_uint64()
        self._used: set[int] = set()
        self._library, self._forms = library, forms
        self.rows = np.empty((len(forms.names), 2), np.int64)  # address, and how many rows
        self.numbers = np.empty(room, np.int64)

    def lend(self, used: set[int]) -> None:
        """Counts the answer among those in use, until its release."""
        self._used = used
        used.add(self.handle.value)

    def names(self) -> tuple[str, ...]:
        return self._forms.names

    def has(self, name: str) -> bool:
        return name in self._forms.of

    def shape(self, name: str) -> tuple[int, ...]:
        form = self._forms.of[name]
        return (int(self.rows[form.place, 1]), *form.row)

    def numpy(self, name: str) -> tuple[NumpyArray, str]:
        """Returns a view of an array, and its dtype's name."""
        form, shape = self._forms.of[name], self.shape(name)
        if 0 in shape:
            return np.empty(shape, form.numpy), form.dtype
        return np.asarray(View(self, int(self.rows[form.place, 0]), shape, form.numpy)), form.dtype

    def release(self) -> None:
        """Returns the memory, once: in any thread."""
        handle, self.handle = self.handle, ctypes.c_uint64()
        if handle.value:
            self._used.discard(handle.value)
            self._library.close(handle.value)

    __del__ = release


class View:
    """The base of an array of an answer, which keeps the answer."""

    __slots__ = ("address", "bytes", "__array_interface__", "_answer", "__weakref__")

    def __init__(self, answer: Answer, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._answer, self.address = answer, address
        self.bytes = dtype.itemsize * math.prod(shape)
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": dtype.str, "version": 3}
        lend(self)
