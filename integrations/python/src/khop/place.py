"""Which of the processes that train together this one is."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Place:
    """This process among those that share an epoch, and among those of the same machine."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1


def find(rank: Optional[int] = None, world_size: Optional[int] = None) -> Place:
    """Returns the place that is asked for, else torch.distributed's, else the environment's (RANK, WORLD_SIZE), else 0
    of 1.

    LOCAL_RANK and LOCAL_WORLD_SIZE say how many processes this machine has; without them all are taken to be here. A
    place that is asked for is alone on its machine.
    """
    if (rank is None) != (world_size is None):
        raise ValueError("rank and world_size: give both or neither")
    asked = rank is not None
    if rank is None or world_size is None:
        rank, world_size = _from_torch() or _from_environment()
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is not one of 0 .. {world_size - 1}")
    if asked:
        return Place(rank, world_size)
    local_rank = _number("LOCAL_RANK", rank)
    return Place(rank, world_size, local_rank, _number("LOCAL_WORLD_SIZE", world_size))


def _from_torch() -> Optional[tuple[int, int]]:
    torch = sys.modules.get("torch")  # who has not imported it does not use it
    if torch is None:
        return None
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    return int(distributed.get_rank()), int(distributed.get_world_size())


def _from_environment() -> tuple[int, int]:
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return _number("RANK", 0), _number("WORLD_SIZE", 1)
    return 0, 1


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment's {name} is {text!r}, which is not a number") from None


def meeting_point(ordinal: int) -> str:
    """The socket at which the processes of this machine meet: the same for all that one launcher started.

    ordinal counts the loaders of a process, which all processes must make in the same order.
    """
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID",
             "SLURM_STEP_ID")
    key = "\0".join([*(os.environ.get(n, "") for n in names), str(os.getppid()), str(ordinal)])
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    return os.path.join(socket_folder(), name, "feed.sock")


def socket_folder() -> str:
    """A folder for sockets that only this user may enter. Made if it is not there."""
    folder = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(), f"khop-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    s = os.lstat(folder)
    if s.st_uid != os.getuid() or s.st_mode & 0o077:
        raise PermissionError(
            f"{folder} belongs to another user or is open to others: remove it, or set XDG_RUNTIME_DIR")
    return folder
