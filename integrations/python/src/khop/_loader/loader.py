"""Loaders: a training loop iterates over them."""

from __future__ import annotations

import inspect
import logging
import os
import sys
import time
import weakref
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional, Sequence, Type, Union

import numpy as np

from .. import binary as _binary
from .._feed import device as device_
from .._batch import html
from .. import place as _place
from .._feed import protocol, server
from .._batch.batch import Batch
from ..errors import BusyError, KhopError, ServerError, StateError, warn
from .._feed.feed import Feed
from .._batch.frameworks import Framework, framework as _framework
from .._data.info import info
from .._feed.in_process import choose
from .startup import Opening
from .._config.configuration import (
    OPTIONS, Configuration, EdgeSeeds, Fanouts, LoaderOptions, Seeds, check_names, check_values, described,
    fanouts_of, numbers_of, value_of,
)
from ..profiling import flat, shown
from .._feed.protocol import End
from .._feed.fast_path import quick
from .._ranks.consistency import Ranks
from .bottleneck import Told, sentence
from .._feed.ring import SlotArrays
from .._batch.schema import Schema, schema_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


_log = logging.getLogger("khop")
_now = time.perf_counter
ON_REQUEST = "on-request"
"""The seeds of a server that answers single requests."""


class Connection:
    """Batches of a running server: connect returns it, and Loader is one.

    Each ``iter`` runs the next epoch. A loader has one iterator at a time, which threads may share: ``iter`` ends one
    that is still in use, and that one then raises BusyError.
    """

    def __init__(
        self, feed: Feed, *, framework: Union[str, Framework] = "auto", index_dtype: Optional[str] = None,
        pad: Any = None, pin: Optional[bool] = None, opened: Optional[Opening] = None,
    ) -> None:
        opened = opened or Opening(_place.find(), feed=feed)
        self._local_rank, self._rank_reason = opened.place.local_rank, opened.place.source
        self._binary = opened.binary
        self._feed: Feed = feed
        self._framework = _framework(framework)
        self._index_dtype = np.dtype(index_dtype or feed.welcome.index_dtype)
        self._pad = pad
        self._schema: Optional[Schema] = None
        self._iterator: Optional[weakref.ref[Epoch]] = None
        state = feed.welcome.about.get("state")
        self._state: dict[str, Any] = dict(state) if isinstance(state, dict) else {}
        self._epoch = _number(self._state, "epoch")  # what the next iter begins
        self._next = _number(self._state, "next")
        self._place = self._epoch, self._next  # after the last batch that was yielded
        self._mode = 1  # the first run goes on where the rank stands
        self._pending: Optional[dict[str, Any]] = None
        self._told = Told()
        if isinstance(feed.ring, device_.DeviceRing):
            if pad is not None:
                raise ValueError('pad= works on the host: take device="cpu", or pad batch.to("cpu")')
            device_.begin(feed.ring, self._framework, feed.welcome)
        feed.ring.pin = _has_gpu(self._framework) if pin is None else pin
        self._end = weakref.finalize(self, opened.end)  # also when the interpreter ends
        self._device_why = opened.device_why or self.about.get("device_reason", "")
        for note in self.about["notes"]:
            warn(note)
        _log.info("rank %s", self.rank_reason)
        _log.info("batches are made on %s", self.device_reason)

    # --- what it is ---

    @property
    def about(self) -> Mapping[str, Any]:
        """The server's description of itself: dataset, sampler, seeds, ... (docs/feed.md, WELCOME)."""
        return self._feed.welcome.about

    @property
    def rank(self) -> int:
        return self._feed.welcome.rank

    @property
    def world_size(self) -> int:
        return self._feed.welcome.world_size

    @property
    def rank_reason(self) -> str:
        """Which rank this is, and where that was found: "3 of 8: SLURM_PROCID and SLURM_NTASKS of the environment"."""
        return f"{self.rank} of {self.world_size}: {self._rank_reason}"

    @property
    def device(self) -> str:
        """The device to train on, for ``batch.to(loader.device)``: the GPU of this process's local rank if there is
        one, else the CPU."""
        if not _has_gpu(self._framework):
            return "cpu"
        return f"cuda:{self._local_rank}"

    @property
    def device_reason(self) -> str:
        """Where batches are made, and why: "cpu: no CUDA device"."""
        return f"{self.about.get('device')}: {self._device_why}"

    def __len__(self) -> int:
        """Batches of a whole epoch, of this rank."""
        return self._feed.welcome.batches

    @property
    def epoch(self) -> int:
        """The epoch that runs, or that the next ``iter`` runs."""
        return self._epoch

    # --- iterating ---

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next ``iter`` runs, from its beginning. Without it epochs follow one another."""
        if not 0 <= epoch < 1 << 32:
            raise ValueError(f"epoch {epoch}: must be 0 or more, and below 2^32")
        self._epoch, self._next, self._mode, self._pending = epoch, 0, 0, None
        self._place = epoch, 0

    def __iter__(self) -> Epoch:
        """Begins the next epoch, or what load_state_dict left of one. It ends an iterator that is still in use."""
        _refuse_workers()
        with self._feed.lock:
            running = self._running()
            if running is not None and not self.closed:
                running.close()
                running.taken_over = True
            return self._begin()

    def _begin(self) -> Epoch:
        if self.closed:
            raise ServerError("the loader is closed: make another")
        if self._pending is not None:
            begun = self._feed.begin(2, state=self._pending)
        else:
            begun = self._feed.begin(self._mode, self._epoch, self._next)
        self._epoch, self._next = self._place = begun.epoch, begun.next
        self._mode, self._pending = 0, None
        epoch = Epoch(self, begun)
        self._iterator = weakref.ref(epoch)
        return epoch

    def restart(self) -> Epoch:
        """The same as ``iter``."""
        return iter(self)

    def _running(self) -> Optional[Epoch]:
        running = self._iterator() if self._iterator is not None else None
        return None if running is None or running.closed else running

    def __getitem__(self, index: Any) -> Any:
        raise TypeError("a khop loader is iterated, not indexed; for torch.utils.data.DataLoader use "
                        "khop.torch.Dataset(loader) with batch_size=None")

    def _batch(self, arrays: SlotArrays) -> Any:
        ready = arrays.ready
        if self._schema is None:
            about = dict(self._feed.welcome.about)
            if self._pad == "max":
                about.update((k, v) for k, v in info(str(about.get("dataset")), self._binary).items()
                             if k in ("node_types", "edge_types"))
            self._schema = schema_of(arrays, about)
        batch = Batch(self._schema, ready, arrays, self._framework, self._index_dtype)
        self._place = ready.epoch, ready.next
        return batch if self._pad is None else self._padded(batch)

    def _padded(self, batch: Optional[Batch]) -> Any:
        return None if batch is None else batch._padded(self._pad, self._feed.welcome.about)

    def _quick(self) -> Optional[Callable[[], Any]]:
        """Takes a batch of this run if it is ready and in this process."""
        take = quick(self)
        return take if take is None or self._pad is None else lambda: self._padded(take())

    # --- single requests ---

    def sample(
        self, ids: Seeds, times: Any = None, *, start_times: Any = None, epoch: int = 0, number: int = 0,
    ) -> Batch:
        """Returns the batch of these seeds, as khop.Sampler does, from a server whose seeds are "on-request".

        A connection answers one request at a time; others wait. An answer is in use until its last array is gone, or
        until release(). At most hold answers of a connection may be in use.
        """
        if not self.about["node_types"]:
            raise TypeError("sample: the seeds of this server are an epoch's: khop serve --seeds on-request answers "
                            "requests, and khop.Sampler in this process")
        with self._feed.lock:
            schema = self._schema or _told(self.about["node_types"])
            arrays = self._feed.sample(epoch, number, seeds_of(schema, ids, times, start_times))
            batch: Batch = self._batch(arrays)
            return batch

    # --- states ---

    def state_dict(self) -> dict[str, Any]:
        """Returns the place after the last batch that was yielded, or before the first one its place, as plain data for
        JSON.

        After a complete loop it is the beginning of the next epoch. After a loop that was left, by break or an
        exception, it is still the place where it was left. All ranks that have done equally many batches have the same
        state.
        """
        if self._pending is not None:
            return dict(self._pending)
        epoch, next = self._place
        return {**self._state, "epoch": epoch, "next": next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next ``iter`` continue after the batch of this state, to the end of that epoch.

        StateError if it is of another dataset or of other options: raised here if that can be seen, else by ``iter``.
        """
        running = self._running()
        if running is not None:
            running.close()
        for key, own in self._state.items():
            if key not in ("epoch", "next") and key in state and state[key] != own:
                raise StateError(f"the state's {key} is {state[key]!r}, this loader's {own!r}: make the loader as it "
                                 "was, or start an epoch anew")
        if not {"epoch", "next"} <= set(state):
            raise StateError("this is not a state of a khop loader: it has no epoch and next")
        self._pending = dict(state)
        self._epoch, self._next = self._place = _number(self._pending, "epoch"), _number(self._pending, "next")

    def report(self) -> str:
        """Returns a sentence on what the last epoch waited for, and what to change; empty if nothing is wrong.
        docs/troubleshooting.md has the rules. Between epochs."""
        return self._told.sentence() or sentence(self.statistics().get("report"))

    def metrics(self) -> dict[str, float]:
        """Returns the numbers of statistics() as a flat dict, for W&B, MLflow and TensorBoard:
        ``khop/loader/wait/sum_s`` and so on. Durations are in seconds. Between epochs."""
        return flat({k: v for k, v in self.statistics().items() if k != "consumers"}, "khop")

    def statistics(self) -> dict[str, Any]:
        """Returns the server's counts: batches, waiting times, memory (docs/feed.md, TELL). Between epochs."""
        with self._feed.lock:
            return self._feed.statistics()

    # --- the end ---

    def __reduce__(self) -> Any:
        raise TypeError("a connection to a khop server cannot be copied: call khop.connect where another one is needed")

    def close(self) -> None:
        """Leaves the server; a Loader also ends it. Arrays that are still in use stay valid: if they are on a device,
        its server ends when the last one is gone."""
        self._end()

    @property
    def closed(self) -> bool:
        return not self._end.alive

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def _repr_html_(self) -> str:
        left = "closed" if self.closed else f"{len(self):,} batches an epoch; the next is epoch {self.epoch}"
        return html.loader_html(type(self).__name__, left, self.about, f"{self.rank} of {self.world_size}")

    def __repr__(self) -> str:
        a = self.about
        what = f"{a.get('dataset', '?')}, {a.get('sampler', '?')}, rank {self.rank} of {self.world_size}"
        return f"<khop.{type(self).__name__} {what}{', closed' if self.closed else ''}>"


class Epoch:
    """The iterator of a loader, for one epoch. Threads may share it: each batch goes to one of them."""

    def __init__(self, loader: Connection, begun: protocol.Begun) -> None:
        self._loader: Optional[Connection] = loader
        self._feed = loader._feed
        self.epoch = begun.epoch
        self._first = begun.next
        self._all = self._left = begun.batches
        self._quick = loader._quick()
        self._told = loader._told = Told()
        self.taken_over = False

    def __iter__(self) -> Epoch:
        return self

    def __len__(self) -> int:
        """Batches that are left."""
        return self._left

    def __next__(self) -> Batch:
        with self._feed.lock:
            begin = _now()
            batch: Optional[Batch] = None
            if self._quick is not None:
                batch = self._quick()
            if batch is None:
                batch = self._wait()
            else:
                self._left -= 1
            self._told.took(begin, _now())
            return batch

    def _wait(self) -> Batch:
        """The next batch, which may not be there yet."""
        loader = self._loader
        if loader is None:
            if self.taken_over:
                raise BusyError(
                    f"this iterator, of epoch {self.epoch}, ended when another one of its loader began: a loader has "
                    "one iterator at a time; for two at once make a second loader (instance= tells it apart)")
            raise StopIteration
        try:
            begin = _now()
            with shown("khop.wait"):
                arrays = self._feed.next()
            self._told.waited += _now() - begin
        except KhopError as e:
            if self._feed.closed or e.code:
                self._loader = self._quick = None  # the pass is over; the next one begins with the batch that failed
            raise
        if isinstance(arrays, End):
            self._loader = self._quick = None
            loader._epoch, loader._next = loader._place = self.epoch + 1, 0
            raise StopIteration
        self._left -= 1
        taken: Batch = loader._batch(arrays)
        return taken

    def kept(self) -> Iterator[Batch]:
        """Yields the batches for loaders with a peer's name, which let users keep all batches: a batch that would take
        the last slot is a copy in memory of its own."""
        ring = self._feed.ring
        for batch in self:
            if len(ring.held) >= ring.hold and not isinstance(ring, device_.DeviceRing):
                batch = batch.copy()
            yield batch

    @property
    def closed(self) -> bool:
        return self._loader is None

    def close(self) -> None:
        """Ends the epoch early, as leaving the loop does. The loader's next ``iter`` runs the next epoch, or this one
        if no batch of it was taken.

        The loader's state stays the place after the last batch that was taken.
        """
        with self._feed.lock:
            loader, self._loader, self._quick = self._loader, None, None
            if loader is not None:
                self._feed.stop()
                taken = self._left < self._all
                loader._epoch, loader._next = (self.epoch + 1, 0) if taken else (self.epoch, self._first)

    def __reduce__(self) -> Any:
        raise TypeError("an iterator of a khop loader cannot be copied: copy the loader, which keeps its place")

    def __del__(self) -> None:
        if hasattr(self, "_feed"):
            self.close()


class Loader(Connection):
    """A loader with a server of its own: it starts ``khop serve`` and ends it.

    dataset is the path of a dataset, or a graph in memory, as khop.write takes it. A graph in memory becomes a
    temporary dataset in $TMPDIR, which is removed with the loader: use khop.write if several loaders need it.

        for epoch in range(10):
            for batch in loader:
                train(batch.x, batch.edge_index, batch.y)

    Only dataset, sampler, fanouts, the sampler's own options, seeds and links, split, batch_size, drop_last, shuffle,
    seed and instance decide what is in a batch. docs/python.md has all options.

    If several processes train together (torch.distributed, Ray Train, or a launcher's environment: docs/machines.md),
    each gets its share of the batches. The processes of a machine share one server, which its local rank 0 starts. All
    compare what they load, over torch.distributed or in the folder agree.

    pickle and copy make another loader of its options and its state, which continues where this one is.
    """

    _made_of: Optional[tuple[tuple[Any, ...], dict[str, Any]]]

    if not TYPE_CHECKING:  # which reads what a call takes from __init__
        def __new__(cls, *arguments: Any, **options: Any) -> Any:
            made = super().__new__(cls)
            made._made_of = arguments, options
            return made

    def __init__(
        self,
        dataset: Any,
        fanouts: Optional[Fanouts] = None,
        *,
        num_neighbors: Optional[Fanouts] = None,
        seeds: Optional[Seeds] = None,
        input_nodes: Optional[Seeds] = None,
        input_time: Any = None,
        input_start_time: Any = None,
        edge_label_index: Optional[EdgeSeeds] = None,
        edge_label: Any = None,
        edge_label_time: Any = None,
        edge_label_start_time: Any = None,
        edge_label_negatives: Any = None,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        agree: Optional[_binary.PathLike] = None,
        index_dtype: str = "int64",
        framework: Union[str, Framework] = "auto",
        pad: Any = None,
        pin: Optional[bool] = None,
        timeout: float = 60.0,
        start_timeout: float = 600.0,
        max_ring_bytes: int = protocol.MAX_BYTES,
        binary: Optional[_binary.PathLike] = None,
        process: str = "server",
        socket: Optional[_binary.PathLike] = None,
        quiet: bool = True,
        serve_options: Sequence[str] = (),
        **options: Unpack[LoaderOptions],
    ) -> None:
        if not (isinstance(seeds, str) and seeds == ON_REQUEST):
            _refuse_workers()
        check_names(options, inspect.signature(Loader).parameters)
        ranks = Ranks(_place.find(rank, world_size), rank is not None, agree, start_timeout)
        here, device = ranks.place, value_of("device", options)
        on, framework = device_.prepare(device, _framework(framework))
        auto, why = str(device) == "auto", ""
        if auto:
            on, why = device_.automatic(framework, process == "inside", pad, here.local_world_size)
        elif on is not None and here.local_world_size > 1:
            raise ValueError(
                f'device="{device}": a server makes batches on one device, and {here.local_world_size} processes of '
                "this machine share one: give each a server of its own with rank= and world_size=, and its own device")
        self.process, self.process_reason = choose(
            process, here.local_world_size, on is not None, socket is not None, binary is not None, serve_options)
        seeds = _one_of(seeds=seeds, input_nodes=input_nodes)
        config = Configuration({
            **settled(options, fanouts, num_neighbors), "index_dtype": index_dtype,
            "device": "cpu" if why else device, "world_size": here.world_size, "ranks": list(map(str, here.here))})
        opened = Opening(here, dict(
            rank=here.rank, index_dtype=index_dtype, timeout=timeout, max_ring_bytes=max_ring_bytes, device=on,
            or_host=auto,
        ), start_timeout, quiet, binary, device_why=why)
        try:
            if self.process == "inside" or here.local_rank == 0:
                config.seeds(
                    seeds, edge_label_index, input_time=input_time, input_start_time=input_start_time,
                    edge_label=edge_label, edge_label_time=edge_label_time, edge_label_start_time=edge_label_start_time,
                    edge_label_negatives=edge_label_negatives)
            if self.process == "inside":
                config.options.update(rank=here.rank, ranks=None)
                feed = opened.inside(dataset if pad != "max" else opened.dataset(dataset), config, serve_options)
            else:
                feed = opened.server(dataset, config, serve_options, socket)
            super().__init__(feed, framework=framework, pad=pad, pin=pin, opened=opened)
            ranks.compare(self.about, config.options["fanouts"], options)
        except BaseException as e:
            ranks.failed(e)
            opened.end()
            raise
        finally:
            config.close()
        self._server = opened.own
        if not isinstance(dataset, (str, bytes, os.PathLike)):
            self._made_of = None  # nothing of the user's graph stays

    def __reduce__(self) -> Any:
        if self._made_of is None:
            raise TypeError("a khop loader of a graph in memory cannot be copied: khop.write the graph to a dataset, "
                            "and make the loader of its path")
        return _another, (type(self), *self._made_of, self.state_dict())

    @property
    def server_pid(self) -> int:
        """The process id of the server if this process started it, else 0."""
        return self._server.pid if self._server is not None else 0


def _another(kind: Type[Loader], arguments: Sequence[Any], options: Mapping[str, Any], state: Any) -> Loader:
    """A loader like another one, in the place of that one."""
    made = kind(*arguments, **options)
    made.load_state_dict(state)
    return made


def on_host(dataset: Any, fanouts: Optional[Fanouts] = None, **options: Any) -> Loader:
    """Makes a loader for a class with a peer's name: its batches are on the host, and made in this process if the
    shared library is there, unless options say otherwise."""
    return Loader(dataset, fanouts, **{"device": "cpu", "process": "auto", **options})


def _signature() -> inspect.Signature:
    """That of khop.Loader with every option by its name, for notebooks and help(). None is a default that khop finds
    out."""
    _, *own = inspect.signature(Loader.__init__).parameters.values()
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default,
                              annotation=LoaderOptions.__annotations__[name]) for name, option in OPTIONS.items()]
    return inspect.Signature([*(p for p in own if p.kind is not inspect.Parameter.VAR_KEYWORD), *more])


setattr(Loader, "__signature__", _signature())
Loader.__doc__ = f"{Loader.__doc__}\n    Options of khop:\n\n{described()}\n"


def connect(
    path: _binary.PathLike, *, rank: Optional[int] = None, framework: Union[str, Framework] = "auto",
    index_dtype: str = "int64", hold: int = 0,
    pad: Any = None, pin: Optional[bool] = None, timeout: float = 60.0, connect_timeout: float = 10.0,
    max_ring_bytes: int = protocol.MAX_BYTES,
    device: Any = "cpu",
) -> Connection:
    """Joins a running ``khop serve --socket path``. rank None takes that of torch.distributed or of the environment,
    else the lowest free one.

    device is where batches may be: batches that a server makes on a device stay there, all others are copied there.

    On a ring that several consumers read (``--broadcast``) arrays are read-only, and ids of another width than
    index_dtype are copied.

    The first ``iter`` continues where the rank is: after a restart, at the first batch that was not acknowledged.

    A server whose seeds are ``on-request`` has no epochs. Any number of processes may request single batches of it:
    ``khop.connect(path, rank=0).sample(ids)``.
    """
    here = _place.find()
    if rank is not None:
        here = replace(here, source="it was asked for")
    elif here.world_size > 1:
        rank = here.rank
    on, framework = device_.prepare(device, _framework(framework))

    def join(asked: Optional[str]) -> Feed:
        connection = server.connect(os.fspath(path), connect_timeout)
        return Feed(connection, rank=rank, index_dtype=asked, hold=hold, timeout=timeout, max_ring_bytes=max_ring_bytes,
                    device=on)
    try:
        feed = join(index_dtype)
    except ServerError as e:
        if e.code != protocol.ERROR_INDEX_DTYPE:
            raise
        feed = join(None)  # a ring that many read has the ids of one width for all: here they are converted
    try:
        return Connection(
            feed, framework=framework, index_dtype=index_dtype, pad=pad, pin=pin, opened=Opening(here, feed=feed))
    except BaseException:
        feed.close()
        raise


def _told(nodes: Sequence[Mapping[str, Any]]) -> Schema:
    """What a server tells of its dataset before the first answer: types of nodes."""
    return Schema(tuple(t["name"] for t in nodes), tuple(t["count"] for t in nodes), (), (), 0)


def seeds_of(schema: Schema, ids: Seeds, times: Any, start_times: Any) -> list[protocol.Typed]:
    """Returns the seeds of a request by type."""
    if start_times is not None and times is None:
        raise TypeError("start_times: windows begin there and end at times: give these as well")
    lists = {name: of for name, of in (("times", times), ("start_times", start_times)) if of is not None}
    if isinstance(ids, tuple) and len(ids) == 2 and isinstance(ids[0], str):
        ids, lists = {ids[0]: ids[1]}, {name: {ids[0]: of} for name, of in lists.items()}
    if not isinstance(ids, Mapping):
        if len(schema.node_types) != 1:
            raise ValueError(f"ids: say of which node type, as in sample(({schema.node_types[0]!r}, ids)); there are "
                             f"{', '.join(schema.node_types)}")
        node_type = schema.node_types[0]
        ids, lists = {node_type: ids}, {name: {node_type: of} for name, of in lists.items()}
    for name, of in lists.items():
        if not isinstance(of, Mapping) or set(of) != set(ids):
            raise ValueError(f"{name}: must be as ids are: an array, or a mapping with the same keys")
    seeds = []
    for node_type, values in ids.items():
        own = numbers_of("ids", values)
        numbers = {name: numbers_of(name, of[node_type]) for name, of in lists.items()}
        for name, of in numbers.items():
            if len(of) != len(own):
                raise ValueError(f"{name}: {len(of)} for {len(own)} ids")
        seeds.append(protocol.Typed(schema.node(node_type), own, numbers.get("times"), numbers.get("start_times")))
    return seeds


def settled(options: Mapping[str, Any], fanouts: Optional[Fanouts], num_neighbors: Optional[Fanouts]) -> dict[str, Any]:
    """Returns options with the fan-outs, which have two names, and the seed, as khop takes them."""
    check_values(options)
    fanouts = _one_of(fanouts=fanouts, num_neighbors=num_neighbors)
    return {**options, "fanouts": None if fanouts is None else fanouts_of(fanouts),
            "seed": value_of("seed", options) % (1 << 64)}


def _one_of(**names: Any) -> Any:
    """The value of an option that has two names."""
    given = {name: value for name, value in names.items() if value is not None}
    if len(given) > 1:
        raise TypeError(f"{' and '.join(names)} are the same: give one")
    return next(iter(given.values()), None)


def _number(state: Mapping[str, Any], key: str) -> int:
    value = state.get(key, 0)
    if not isinstance(value, int) or value < 0:
        raise StateError(f"a state whose {key} is {value!r}")
    return value


def _refuse_workers() -> None:
    """In a worker of torch's DataLoader: says that there is nothing for it to do."""
    torch_data = sys.modules.get("torch.utils.data")
    if torch_data is not None and torch_data.get_worker_info() is not None:
        raise RuntimeError("khop makes batches by itself, ahead of the loop, and workers would have nothing to do: use "
                           "num_workers=0 with khop.torch.Dataset")


def _has_gpu(framework: Framework) -> bool:
    torch = getattr(framework, "torch", None)
    return torch is not None and bool(torch.cuda.is_available())
