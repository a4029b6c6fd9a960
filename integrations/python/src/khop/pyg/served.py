"""The common part of khop's loaders under PyG's names."""

from __future__ import annotations

import contextlib
import inspect
from functools import cached_property
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional

import numpy as np
import torch

from .._config import unknown_names
from .._batch.batch import Batch
from .._loader.loader import Loader
from .._native.scratch import Scratch
from .structure import Structure

OF_WORKERS = frozenset({
    "persistent_workers", "prefetch_factor", "worker_init_fn", "multiprocessing_context", "timeout", "pin_memory",
    "pin_memory_device", "generator", "num_workers", "in_order", "dataset", "collate_fn",
})
"""Options of torch's DataLoader for its worker processes, of which there are none, and two that Lightning passes."""

_INSTEAD = {
    "sampler": "khop orders the seeds itself: take shuffle=True; loaders of neighbours have sampler",
    "batch_sampler": "khop makes the batches itself: take batch_size and shuffle; loaders of neighbours have sampler",
    "neighbor_sampler": "khop samples itself: leave it out, or take PyG's NodeLoader",
    "fanouts": "it is num_neighbors here",
    "seeds": "it is input_nodes here",
}


def without_workers(loader: type, options: Mapping[str, Any], more: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns a loader's remaining options. TypeError for those that khop does not have."""
    options = {k: v for k, v in options.items() if not (k in _INSTEAD and v is None)}
    if not options:  # and Python need not find out what the loader takes
        return {}
    own = inspect.signature(loader).parameters
    instead = {name: hint for name, hint in _INSTEAD.items() if name not in more}
    unknown_names.check(loader.__name__, options, [*own, *OF_WORKERS, *more], "From PyG", instead)
    return {name: value for name, value in options.items() if name not in OF_WORKERS}


class Listed:
    """Seeds that change each epoch, in a file that a server reads when the epoch begins."""

    def __init__(self) -> None:
        self._scratch = Scratch("khop-seeds-")
        self._path = self._scratch.file("seeds")
        self._form: Any = None
        self._loader: Optional[Loader] = None

    def batches(
        self, seeds: Iterable[tuple[str, Any, Any]], key: Any, load: Callable[[str], Loader],
    ) -> Iterator[Batch]:
        """Yields batches of these seeds: lists of nodes, and their times or None, each with the name of their type.
        load opens a loader of seeds as khop.Loader takes them: at first, and when key, the number of a type's seeds, or
        whether they have times has changed."""
        counts: dict[str, int] = {}
        timed = False
        with open(self._path, "w", encoding="utf-8") as file:
            for name, nodes, times in seeds:
                counts[name] = counts.get(name, 0) + len(nodes)
                timed = timed or times is not None
                columns = [nodes.tolist(), *([] if times is None else [times.tolist()])]
                file.writelines(f"{name} {' '.join(map(str, row))}\n" for row in zip(*columns))  # name may be ""
        form = key, timed, counts
        if self._loader is None or form != self._form:
            if self._loader is not None:
                self._loader.close()
            self._loader = load(f"each:{'timed' if timed else ''}@{self._path}")
            self._form = form
        return self._loader.restart().kept()

    def close(self) -> None:
        """Ends the server."""
        if self._loader is not None:
            self._loader.close()
            self._loader = None
        self._scratch.close()


class Served:
    """A loader whose server begins with the first iteration. Iterations that run at the same time have servers of their
    own, which later ones use again."""

    _structure: Structure
    _how: dict[str, Any]
    _epoch = 0  # that the next iteration runs
    _last: Optional[Loader] = None  # whose place is the state
    _pending: Optional[dict[str, Any]] = None  # a state to go on from

    @cached_property
    def _free(self) -> dict[str, list[Any]]:
        """What no iteration uses, by its kind."""
        return {}

    @cached_property
    def _made_here(self) -> list[Any]:
        """All that is to be closed."""
        return []

    @contextlib.contextmanager
    def _lent(self, kind: str, make: Callable[[], Any]) -> Iterator[Any]:
        """Something of a kind that no other iteration uses meanwhile."""
        free = self._free.setdefault(kind, [])
        if not free:
            free.append(make())
            self._made_here.append(free[-1])
        lent = free.pop()
        try:
            yield lent
        finally:
            free.append(lent)

    def _open(self) -> Loader:
        return self._structure.open(**self._how)

    def _next_epoch(self) -> int:
        """The number of an epoch that begins."""
        self._epoch += 1
        return self._epoch - 1

    def _batches(self) -> Iterator[Batch]:
        with self._lent("loader", self._open) as loader:
            if self._pending is not None:
                loader.load_state_dict(self._pending)
                self._epoch, self._pending = loader.epoch, None
                self._next_epoch()
            else:
                loader.set_epoch(self._next_epoch())
            self._last = loader
            run = loader.restart()
            try:
                yield from run.kept()
            finally:
                run.close()

    def _check_state(self) -> None:
        """A TypeError where an iteration has no place to go on from."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the place after the last batch of the iteration that began last, for load_state_dict: plain data for
        JSON."""
        self._check_state()
        if self._pending is not None:
            return dict(self._pending)
        if self._last is not None:
            return self._last.state_dict()
        with self._lent("loader", self._open) as loader:
            return {**loader.state_dict(), "epoch": self._epoch, "next": 0}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration continue after the batch of this state, to the end of that epoch. StateError if it
        is of other data or of other options."""
        self._check_state()
        with self._lent("loader", self._open) as loader:
            loader.load_state_dict(state)
        self._pending = dict(state)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next iteration runs, from its beginning. Without it epochs follow one another."""
        if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0:
            raise ValueError(f"epoch={epoch!r}: must be a whole number from 0 on")
        self._epoch, self._pending, self._last = epoch, None, None

    def close(self) -> None:
        """Ends servers, and removes the temporary dataset. Using the loader afterwards is a ServerError."""
        while self._made_here:
            self._made_here.pop().close()
        self._free.clear()
        self._last = None
        self._structure.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def check_ids(name: str, ids: Any, number: Optional[int]) -> None:
    """Refuses ids of nodes that are not whole numbers, and masks of another length than the number of nodes."""
    if not isinstance(ids, (torch.Tensor, np.ndarray)):
        return
    ids = torch.as_tensor(ids)
    if ids.dtype == torch.bool:
        if number is not None and ids.shape != (number,):
            raise ValueError(f"{name}: a mask of {len(ids):,} for {number:,} nodes: must be as long as there are nodes")
    elif ids.is_floating_point() or ids.is_complex():
        raise TypeError(f"{name}: {ids.dtype}: must be whole numbers, or a mask of bool")
