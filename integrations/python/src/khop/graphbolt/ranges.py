"""Divides items among processes."""

from __future__ import annotations


def _share(total: int, shares: int, which: int, batch: int = 1) -> tuple[int, int]:
    """How many of total are in a share, and in those before it, if whole batches are dealt out evenly. The first shares
    get those that are left, and the next the batch that is not whole."""
    each, left = divmod(total, shares * batch)
    whole, part = divmod(left, batch)
    mine = each * batch + (batch if which < whole else part if which == whole and batch > 1 else 0)
    return mine, each * which * batch + min(which * batch, left)


def calculate_range(
    distributed: bool, total: int, num_replicas: int, rank: int, num_workers: int, worker_id: int, batch_size: int,
    drop_last: bool, drop_uneven_inputs: bool,
) -> tuple[int, int, int]:
    """Returns where the items of a worker of a rank begin, how many there are, and how many of them it yields."""
    assigned, first = _share(total, num_replicas, rank, batch_size) if distributed else (total, 0)
    handed = assigned // batch_size * batch_size if drop_last else assigned
    if distributed and drop_uneven_inputs:
        if drop_last:
            handed = total // (batch_size * num_replicas) * batch_size
        else:
            fewest = _share(total, num_replicas, num_replicas - 1, batch_size)[0]
            handed = min(-(-fewest // batch_size) * batch_size, assigned)
    if num_workers > 1:
        dropped, dropped_before = _share(assigned - handed, num_workers, worker_id)
        handed, handed_before = _share(handed, num_workers, worker_id, batch_size)
        assigned, first = handed + dropped, first + handed_before + dropped_before
    return first, assigned, handed
