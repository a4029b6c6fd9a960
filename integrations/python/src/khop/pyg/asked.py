"""Single samples of a graph's structure, in PyG's form, from a sampler that is opened once."""

from __future__ import annotations

import os
import threading
from typing import Any, Mapping, Optional, Protocol, Union

from .._native import library as _library
from .._batch.batch import Batch
from .._loader.loader import ON_REQUEST, Loader
from .._config.configuration import OPTIONS
from .._loader.request_sampler import Sampler

_LEAST = 256  # seeds that a sampler takes at once
_OWN = {"framework", "index_dtype", "timeout", "start_timeout", "quiet"}
_MESSAGE = 8000  # numbers that a request to a server has room for
_HOLD = 12  # answers that users may keep where they lie
_SPARE = 4  # of all answers, those that are left for what is being asked


class Opener(Protocol):
    """An object that opens loaders and samplers of a graph."""

    def open(self, **how: Any) -> Loader: ...

    def sampler(self, **how: Any) -> Sampler: ...


class Asked:
    """Answers single requests, from any thread. Users of PyG keep what they like, so answers are copies when few slots
    are left.

    The sampler is opened at the first request, and again if options differ or more seeds come than it takes. If it
    cannot be in this process, as in a forked worker of torch, it is a server, with the same bytes. Requests too large
    for a message to a server get a loader of their own.
    """

    def __init__(self, structure: Opener) -> None:
        self._structure = structure
        self._lock = threading.Lock()
        self._sampler: Union[Sampler, Loader, None] = None
        self._most = 0
        self._how: Any = None

    def sample(
        self, seeds: Mapping[str, Any], times: Optional[Mapping[str, Any]], start: Optional[Mapping[str, Any]],
        key: int, how: dict[str, Any],
    ) -> Batch:
        """Returns the batch of these seeds by type, with their times and first times. key separates the draws of calls.
        how are options of khop.Loader."""
        number = sum(map(len, seeds.values()))
        process = how.pop("process", "auto")
        server = process == "server" or set(how) - _OWN - set(OPTIONS) - {"fanouts"} or bool(_library.why_not())
        if server and number * (2 if start is None else 3) > _MESSAGE:
            with self._structure.open(**how, process=process, batch_size=number, seeds=seeds,
                                      input_time=times, input_start_time=start) as loader:
                loader.set_epoch(key)
                batch: Batch = next(iter(loader))
                return batch.copy()
        sampler = self._opened(number, bool(server), how)
        if isinstance(sampler, Sampler):
            answer = sampler.sample(seeds, times, start_times=start, epoch=key)
            return answer if sampler.used + _SPARE <= sampler.most else answer.copy()
        with self._lock:  # a server answers one request at a time
            return sampler.sample(seeds, times, start_times=start, epoch=key).copy()

    def _opened(self, number: int, server: bool, how: dict[str, Any]) -> Union[Sampler, Loader]:
        with self._lock:
            now, there = (how, server, os.getpid()), self._sampler
            if there is None or self._how != now or number > self._most:
                self._most = most = max(_LEAST, 1 << max(number - 1, 0).bit_length())
                if server:
                    there = self._structure.open(batch_size=most, seeds=ON_REQUEST, **{**how, "process": "server"})
                else:
                    there = self._structure.sampler(batch_size=most, **{"hold": _HOLD, **how})
                self._sampler, self._how = there, now
            return there

    def close(self) -> None:
        """Ends the sampler."""
        with self._lock:
            if self._sampler is not None:
                self._sampler.close()
                self._sampler = None
