"""The common part of khop's loaders under PyG's names."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional

import numpy as np
import torch

from .._config import unknown_names
from .._batch.batch import Batch
from .._loader.loader import Loader
from .._native.scratch import Scratch
from .._peers import served as peers
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
        self, seeds: Iterable[tuple[str, Any, Any, Any]], key: Any, load: Callable[[str], Loader],
    ) -> Iterator[Batch]:
        """Yields batches of these seeds: lists of nodes, their times and first times, perhaps None, each with the name
        of their type. load opens a loader of seeds as khop.Loader takes them: at first, and when key, the number of a
        type's seeds, or which times they have has changed."""
        counts: dict[str, int] = {}
        kind = ""
        with open(self._path, "w", encoding="utf-8") as file:
            for name, nodes, times, start in seeds:
                counts[name] = counts.get(name, 0) + len(nodes)
                kind = "window" if start is not None else "timed" if times is not None else kind
                columns = [of.tolist() for of in (nodes, times, start) if of is not None]
                file.writelines(f"{name} {' '.join(map(str, row))}\n" for row in zip(*columns))  # name may be ""
        form = key, kind, counts
        if self._loader is None or form != self._form:
            if self._loader is not None:
                self._loader.close()
            self._loader = load(f"each:{kind}@{self._path}")
            self._form = form
        return self._loader.restart().kept()

    def close(self) -> None:
        """Ends the server."""
        if self._loader is not None:
            self._loader.close()
            self._loader = None
        self._scratch.close()


class Served(peers.Served):
    """A loader of khop under PyG's names, over a structure."""

    _structure: Structure
    _how: dict[str, Any]

    def _open(self) -> Loader:
        return self._structure.open(**self._how)

    def close(self) -> None:
        """Ends servers, and removes the temporary dataset. Using the loader afterwards is a ServerError."""
        super().close()
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
