"""Uses khop with torch.utils.data.DataLoader and libraries that build on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Optional

import torch
import torch.utils.data

from ._loader.loader import Connection

if TYPE_CHECKING:
    _Base = torch.utils.data.IterableDataset[Any]
else:
    _Base = torch.utils.data.IterableDataset


class Dataset(_Base):
    """A loader as an iterable dataset: ``DataLoader(khop.torch.Dataset(loader), batch_size=None)``, and for Lightning.

    num_workers must be 0: khop makes batches by itself, ahead of the loop. A new pass ends an unfinished one, since
    Lightning keeps the iterators of loops that it has left early.
    """

    def __init__(self, loader: Connection) -> None:
        super().__init__()
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        return self.loader.restart()

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next pass runs."""
        self.loader.set_epoch(epoch)

    def __getstate__(self) -> Any:
        raise RuntimeError(
            "a khop dataset cannot go to another process: khop makes batches by itself, ahead of the loop; use "
            "num_workers=0")


def random_seed(seed: Optional[int]) -> int:
    """Returns seed, or one of torch's random numbers."""
    return int(torch.empty((), dtype=torch.int64).random_().item()) if seed is None else seed
