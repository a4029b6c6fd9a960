"""Pipelines: stages that pass on minibatches.

Iterating over a stage makes the minibatches, one after another, in this process. A stage that khop knows can also
describe itself (Stage.describe): then DataLoader has khop make the minibatches (served.py).
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any, Callable, Iterator, Optional

from torch.utils.data import IterableDataset

from .._config import unknown_names
from .base import moved, require
from .items import SECTION
from .minibatch import MiniBatch
from .plan import NotByKhop, Plan


class Stage(IterableDataset[Any]):
    """A stage of a pipeline. datapipe is the stage before, or any other iterable."""

    datapipe: Any = None
    def __init__(self, datapipe: Any) -> None:
        self.datapipe = datapipe

    def describe(self, plan: Plan) -> None:
        """Describes the stages up to this one to khop. NotByKhop if khop cannot do it."""
        if not isinstance(self.datapipe, Stage):
            raise NotByKhop(f"it begins with {type(self.datapipe).__name__}")
        self.datapipe.describe(plan)

    def plan(self) -> Plan:
        """Returns the plan for khop. NotByKhop gives the reason if there is none."""
        plan = Plan()
        self.describe(plan)
        plan.check()
        return plan

    served: Callable[[Stage], Optional[Iterator[Any]]]
    """The minibatches of a stage, where khop makes them without being asked (loading.py)."""

    def __iter__(self) -> Iterator[Any]:
        found = Stage.served(self)
        return self.made() if found is None else found

    def made(self) -> Iterator[Any]:
        """Yields the minibatches that the stages make in this process."""
        return iter(self.datapipe)

    def __getattr__(self, name: str) -> Any:
        """Stages behind this one by the names that they have as functions; torch's own, or torchdata's, too."""
        if name in STAGES:
            return partial(STAGES[name], self)
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            from torch.utils.data import IterDataPipe
            from torch.utils.data.datapipes.iter import IterableWrapper
        except ImportError:
            pass
        else:
            if name in IterDataPipe.functions:
                return getattr(IterableWrapper(self, deepcopy=False), name)  # type: ignore[no-untyped-call]
        try:
            unknown_names.check("a pipeline of khop.graphbolt", [name], STAGES, SECTION)
        except TypeError as e:
            raise AttributeError(str(e)) from None


STAGES: dict[str, Callable[..., Stage]] = {}
"""Stages by the names by which others call them: pipe.sample_neighbor(..) is NeighborSampler(pipe, ..)."""


def stage(name: str) -> Callable[[Any], Any]:
    """Registers a stage under the name by which pipelines call it."""
    def named(made: Any) -> Any:
        STAGES[name] = made
        return made
    return named


IGNORED = ("overlap_fetch", "num_gpu_cached_edges", "gpu_cache_threshold", "asynchronous")
"""Arguments that say how GraphBolt is to be fast, and change no minibatch."""


def checked(of: Any, unknown: Any) -> None:
    """Refuses names that an initialiser does not have, except those in IGNORED."""
    unknown_names.check(of.__name__, unknown, [*inspect.signature(of).parameters, *IGNORED], SECTION)


@stage("map")
class Mapper(Stage):
    """Applies a function to each minibatch, or other item."""

    def __init__(self, datapipe: Any, fn: Callable[[Any], Any]) -> None:
        super().__init__(datapipe)
        self.fn = fn

    def describe(self, plan: Plan) -> None:
        """Has khop's minibatches go through the function."""
        super().describe(plan)
        plan.then(self.fn)

    def made(self) -> Iterator[Any]:
        """Applied to each."""
        return map(self.fn, self.datapipe)


@stage("transform")
class MiniBatchTransformer(Mapper):
    """dgl.graphbolt.MiniBatchTransformer: applies a function to each minibatch, which returns one."""

    def __init__(self, datapipe: Any, transformer: Optional[Callable[[Any], Any]] = None) -> None:
        super().__init__(datapipe, self._transformed)
        self.transformer = transformer

    def _transformed(self, minibatch: Any) -> Any:
        found = self.transformer(minibatch) if self.transformer else minibatch
        require(isinstance(found, MiniBatch), "The transformer output should be an instance of MiniBatch")
        return found


@stage("copy_to")
class CopyTo(Mapper):
    """dgl.graphbolt.CopyTo: copies whole minibatches to a device."""

    def __init__(self, datapipe: Any, device: Any, extra_attrs: Any = None, **unknown: Any) -> None:
        checked(CopyTo, unknown)
        super().__init__(datapipe, lambda minibatch: moved(minibatch, device))
        self.device, self.extra_attrs = device, extra_attrs

    def describe(self, plan: Plan) -> None:
        """Copies after sampling, wherever the stage is."""
        Stage.describe(self, plan)
        plan.after.append(self.fn)


@stage("mark_end")
class EndMarker(Stage):
    """dgl.graphbolt.EndMarker: passes on minibatches unchanged."""


@stage("buffer")
class Bufferer(Stage):
    """dgl.graphbolt.Bufferer: holds buffer_size minibatches back."""

    def __init__(self, datapipe: Any, buffer_size: int = 1) -> None:
        if buffer_size <= 0:
            raise ValueError("'buffer_size' is required to be a positive integer.")
        super().__init__(datapipe)
        self.buffer_size = buffer_size

    def made(self) -> Iterator[Any]:
        """Makes buffer_size minibatches ahead."""
        held: list[Any] = []
        for minibatch in self.datapipe:
            held.append(minibatch)
            if len(held) > self.buffer_size:
                yield held.pop(0)
        yield from held


@stage("wait")
class Waiter(Mapper):
    """dgl.graphbolt.Waiter: calls wait() of each minibatch."""

    def __init__(self, datapipe: Any) -> None:
        super().__init__(datapipe, _waited)


def _waited(minibatch: Any) -> Any:
    minibatch.wait()
    return minibatch
