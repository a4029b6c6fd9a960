"""Single samples of a graph's structure, in PyG's way: by a khop.Sampler that is opened once."""

from __future__ import annotations

import os
import threading
from typing import Any, Mapping, Optional, Protocol

from torch.utils.data import get_worker_info

from .. import _library
from ..batch import Batch
from ..loader import Loader
from ..options import OPTIONS
from ..sampler import Sampler

_LEAST = 256  # seeds that a sampler takes at once
_OWN = {"framework", "index_dtype", "timeout", "start_timeout", "quiet"}


class Opener(Protocol):
    """What opens loaders and samplers of a graph."""

    def open(self, **how: Any) -> Loader: ...

    def sampler(self, **how: Any) -> Sampler: ...


class Asked:
    """Answers, as copies: PyG's users keep what they like. Any thread may ask.

    The sampler is opened when it is first needed, and anew where options differ or more seeds come than it takes.
    Where it cannot be in this process, a loader of its own answers each call: with the same bytes.
    """

    def __init__(self, structure: Opener) -> None:
        self._structure = structure
        self._lock = threading.Lock()
        self._sampler: Optional[Sampler] = None
        self._how: Any = None

    def sample(
        self, seeds: Mapping[str, Any], times: Optional[Mapping[str, Any]], key: int, how: dict[str, Any],
    ) -> Batch:
        """The batch of these seeds by type. key tells the draws of calls apart. how are options of khop.Loader."""
        number = sum(map(len, seeds.values()))
        process = how.pop("process", "auto")
        if process == "server" or set(how) - _OWN - set(OPTIONS) - {"fanouts"} or _elsewhere():
            with self._structure.open(**how, process=process, batch_size=max(number, 1), seeds=seeds,
                                      input_time=times) as loader:
                loader.set_epoch(key)
                batch: Batch = next(iter(loader))
                return batch.copy()
        return self._opened(number, how).sample(seeds, times, epoch=key).copy()

    def _opened(self, number: int, how: dict[str, Any]) -> Sampler:
        with self._lock:
            now, there = (how, os.getpid()), self._sampler
            if there is None or self._how != now or number > there.about["batch_size"]:
                most = max(_LEAST, 1 << max(number - 1, 0).bit_length())
                self._sampler = there = self._structure.sampler(batch_size=most, **how)
                self._how = now
            return there

    def close(self) -> None:
        """Ends the sampler."""
        with self._lock:
            if self._sampler is not None:
                self._sampler.close()
                self._sampler = None


def _elsewhere() -> bool:
    """Whether no sampler can be in this process. A forked worker of torch's is told so: a loader refuses it, too."""
    worker: Any = get_worker_info
    return bool(_library.why_not()) and worker() is None
