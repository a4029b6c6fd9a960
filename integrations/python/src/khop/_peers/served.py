"""What the loaders with PyG's, DGL's and GraphBolt's names share: loaders of khop behind them, epochs and states."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional

from .._batch.batch import Batch
from .._loader.loader import Loader
from ..errors import ServerError

if TYPE_CHECKING:
    from typing_extensions import Self


class Served:
    """A loader of another library's name, whose khop.Loader begins with the first iteration. Iterations that run at the
    same time have loaders of their own, which later ones use again.

    Each iteration runs the next epoch, or the one that set_epoch or load_state_dict has chosen. As a context manager it
    closes itself at the end.
    """

    _epoch = 0  # that the next iteration runs
    _last: Optional[Loader] = None  # whose place is the state
    _closed = False
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
        if self._closed:
            raise ServerError("the loader is closed: make another")
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
        """Opens a loader of this one's options."""
        raise NotImplementedError

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
        """Ends servers. Using the loader afterwards is a ServerError."""
        self._closed = True
        while self._made_here:
            self._made_here.pop().close()
        self._free.clear()
        self._last = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
