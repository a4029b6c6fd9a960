"""Finds the rank of this process among those that train together."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Mapping, Optional


# What khop options says: internal/launcher has the table.
# --- made by make options: launchers ---
LAUNCHERS: tuple[Mapping[str, Any], ...] = (
    dict(name="torchrun, accelerate, torch.distributed.run, Kubeflow", rank="RANK", size="WORLD_SIZE",
         local_rank="LOCAL_RANK", local_size="LOCAL_WORLD_SIZE"),
    dict(name="Open MPI", rank="OMPI_COMM_WORLD_RANK", size="OMPI_COMM_WORLD_SIZE",
         local_rank="OMPI_COMM_WORLD_LOCAL_RANK", local_size="OMPI_COMM_WORLD_LOCAL_SIZE"),
    dict(name="MPICH, Intel MPI", rank="PMI_RANK", size="PMI_SIZE", local_rank="MPI_LOCALRANKID",
         local_size="MPI_LOCALNRANKS"),
    dict(name="Slurm (srun)", rank="SLURM_PROCID", size="SLURM_NTASKS", local_rank="SLURM_LOCALID", here="SLURM_GTIDS",
         step="SLURM_STEP_ID"),
    dict(name="Kubernetes Indexed Job", rank="JOB_COMPLETION_INDEX", size="WORLD_SIZE", alone=True),
)
# --- end of make options: launchers ---


@dataclass(frozen=True)
class Place:
    """This process's rank and world size, and those within its machine."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    here: tuple[int, ...] = (0,)  # the ranks of this machine, in the order of their local ranks
    meeting: str = field(default="", compare=False)  # the socket at which those of this machine meet, where they agreed
    source: str = field(default="nothing says otherwise", compare=False)

    @property
    def local_world_size(self) -> int:
        return len(self.here)


def find(rank: Optional[int] = None, world_size: Optional[int] = None) -> Place:
    """Returns the given place, else that of torch.distributed, else that of Ray Train, else that of the first launcher
    whose names are in the environment, else 0 of 1 (docs/machines.md, "Which rank").

    The ranks of this machine are found the same way; here is empty if nothing names them, and torch.distributed can
    find them (khop.ranks). A given place is alone on its machine.
    """
    if (rank is None) != (world_size is None):
        raise ValueError("rank and world_size: give both or neither")
    if rank is not None and world_size is not None:
        return _checked(Place(rank, world_size, 0, (rank,), source="it was asked for"))
    ray, told = _from_ray(), _from_environment()
    found = _from_torch() or ray or told
    for of in (ray, told):  # who knows the same place knows its machine
        if of is not None and found is not None and (of.rank, of.world_size) == (found.rank, found.world_size):
            return _checked(replace(of, source=found.source))
    if found is not None:
        return _checked(_of_environment(found))
    if _number("WORLD_SIZE", 1) != 1:
        raise ValueError(
            f"the environment has WORLD_SIZE={os.environ['WORLD_SIZE']} and no RANK: make the loader when "
            "torch.distributed is initialised (Lightning: in train_dataloader), or give rank= and world_size=")
    return Place()


def _of_environment(place: Place) -> Place:
    """torch.distributed's place, with what the environment says of this machine."""
    local, size = _number("LOCAL_RANK", 0), _number("LOCAL_WORLD_SIZE", 0)
    return replace(place, local_rank=local, here=_in_a_row(place.rank, local, size))


def _in_a_row(rank: int, local_rank: int, size: int) -> tuple[int, ...]:
    """The ranks of a machine on which they follow one another."""
    return tuple(range(rank - local_rank, rank - local_rank + size))


def _checked(place: Place) -> Place:
    if not 0 <= place.rank < place.world_size:
        raise ValueError(f"rank {place.rank} is not one of 0 .. {place.world_size - 1}: {place.source}")
    return place


def _from_torch() -> Optional[Place]:
    torch = sys.modules.get("torch")  # who has not imported it does not use it
    if torch is None:
        return None
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    return Place(int(distributed.get_rank()), int(distributed.get_world_size()), source="torch.distributed")


def _from_ray() -> Optional[Place]:
    train = sys.modules.get("ray.train")
    if train is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # elsewhere than in a worker of Ray Train it warns, or raises
        try:
            context = train.get_context()
            rank, size, local = context.get_world_rank(), context.get_world_size(), context.get_local_rank()
            here = context.get_local_world_size()
        except RuntimeError:
            return None
    if rank is None or size == 1:
        return None
    return Place(rank, size, local, _in_a_row(rank, local, here), source="ray.train.get_context()")


def _from_environment() -> Optional[Place]:
    env = os.environ
    for of in LAUNCHERS:
        batch = "step" in of and env.get("ENVIRONMENT") == "BATCH" and not env.get(of["step"])
        if not env.get(of["rank"]) or not env.get(of["size"]) or batch:
            continue
        rank, size = _number(of["rank"], 0), _number(of["size"], 1)
        local, here = 0, _in_a_row(rank, 0, 1)
        if env.get(of.get("here", "")):
            here = _numbers(of["here"])
            local = here.index(rank) if rank in here else _number(of["local_rank"], 0)
        elif not of.get("alone"):
            local = _number(of["local_rank"], rank)
            here = _in_a_row(rank, local, _number(of.get("local_size", ""), size))
        source = f"{of['rank']} and {of['size']} of the environment ({of['name']})"
        return Place(rank, size, local, here, source=source)
    return None


def _numbers(name: str) -> tuple[int, ...]:
    try:
        return tuple(int(n) for n in os.environ[name].split(","))
    except ValueError:
        raise ValueError(f"the environment's {name} is {os.environ[name]!r}, which is not a list of numbers") from None


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment's {name} is {text!r}, which is not a number") from None


def run_is_named() -> bool:
    """Whether the environment has a value that no other run of this machine has at the time. Else the parent process
    tells runs apart."""
    return any(os.environ.get(n) for n in ("MASTER_PORT", "SLURM_STEP_ID", "PMIX_NAMESPACE"))


def meeting_point(ordinal: int) -> str:
    """Returns the socket at which the processes of this machine meet: the same for all that one launcher started.

    ordinal counts the loaders of a process, which all processes must make in the same order.
    """
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID",
             "SLURM_STEP_ID", "PMIX_NAMESPACE")
    parent = "" if run_is_named() else str(os.getppid())
    key = "\0".join([*(os.environ.get(n, "") for n in names), parent, str(ordinal)])
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    return os.path.join(socket_folder(), name, "feed.sock")


def socket_folder() -> str:
    """Returns a folder for sockets that only this user may enter, and makes it if necessary."""
    folder = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(), f"khop-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    s = os.lstat(folder)
    if s.st_uid != os.getuid() or s.st_mode & 0o077:
        raise PermissionError(
            f"{folder} belongs to another user or is open to others: remove it, or set XDG_RUNTIME_DIR")
    return folder
