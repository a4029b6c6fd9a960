"""What khop's loaders under PyG's names share."""

from __future__ import annotations

import inspect
import os
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional

from .. import names
from ..batch import Batch
from ..loader import Loader
from ..scratch import Scratch
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
    """What is left of a loader's further options; a TypeError for those that khop does not have."""
    options = {k: v for k, v in options.items() if not (k in _INSTEAD and v is None)}
    own = inspect.signature(loader).parameters
    instead = {name: hint for name, hint in _INSTEAD.items() if name not in more}
    names.check(loader.__name__, options, [*own, *OF_WORKERS, *more], "From PyG", instead)
    return {name: value for name, value in options.items() if name not in OF_WORKERS}


class Listed:
    """Seeds that are others in each epoch, in a file that a server reads when one begins."""

    def __init__(self) -> None:
        self._scratch = Scratch("khop-seeds-")
        self._path = self._scratch.file("seeds")
        self._form: Any = None
        self._loader: Optional[Loader] = None

    def batches(
        self, seeds: Iterable[tuple[str, Any, Any]], key: Any, load: Callable[[str], Loader],
    ) -> Iterator[Batch]:
        """Batches of these seeds: lists of nodes, and their times or None, each with the name of their type. load opens
        a loader of seeds as khop.Loader takes them: at first, and where key, the number of a type's seeds, or whether
        they have times differs from the epoch before."""
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
        return iter(self._loader.restart())

    def close(self) -> None:
        """Ends the server."""
        if self._loader is not None:
            self._loader.close()
            self._loader = None
        self._scratch.close()


class Served:
    """A loader whose server begins with the first iteration. One iteration at a time: another one ends the first."""

    _structure: Structure
    _loader: Optional[Loader] = None
    _listed: Optional[Listed] = None
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
        if self._listed is not None:
            self._listed.close()
            self._listed = None
        self._structure.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
