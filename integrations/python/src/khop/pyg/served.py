"""What khop's loaders under PyG's names share."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Iterator, Mapping, Optional

from .. import names
from ..batch import Batch
from ..loader import Loader
from .structure import Structure

OF_WORKERS = frozenset({
    "persistent_workers", "prefetch_factor", "worker_init_fn", "multiprocessing_context", "timeout", "pin_memory",
    "pin_memory_device", "generator", "num_workers", "in_order", "dataset", "collate_fn",
})
"""Options of torch's DataLoader for its worker processes, of which there are none, and two that Lightning passes."""

_INSTEAD = {
    "sampler": "khop orders the seeds itself: take shuffle=True, or list the nodes in their order, repeats included",
    "batch_sampler": "khop makes the batches itself: take batch_size and shuffle",
    "neighbor_sampler": "khop samples itself: leave it out, or take PyG's NodeLoader",
    "fanouts": "it is num_neighbors here",
    "seeds": "it is input_nodes here",
}


def without_workers(loader: type, options: Mapping[str, Any], more: tuple[str, ...] = ()) -> dict[str, Any]:
    """What is left of a loader's further options; a TypeError for those that khop does not have."""
    options = {k: v for k, v in options.items() if not (k in _INSTEAD and v is None)}
    own = inspect.signature(loader).parameters
    names.check(loader.__name__, options, [*own, *OF_WORKERS, *more], "From PyG", _INSTEAD)
    return {name: value for name, value in options.items() if name not in OF_WORKERS}


class Served:
    """A loader whose server begins with the first iteration. One iteration at a time: another one ends the first."""

    _structure: Structure
    _loader: Optional[Loader] = None
    _how: dict[str, Any]

    def _batches(self, load: Callable[..., Loader]) -> Iterator[Batch]:
        if self._loader is None:
            self._loader = load(**self._how)
        return iter(self._loader.restart())

    def close(self) -> None:
        """Ends the server, and removes the temporary dataset. Using the loader after that is a ServerError."""
        if self._loader is not None:
            self._loader.close()
            self._loader = None
        self._structure.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
