"""What Python says, as options of the command line (docs/cli.md)."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

Fanouts = Union[Sequence[int], Mapping[Any, Sequence[int]]]
Seeds = Any
"""A split's name, "all", "all:TYPE", "@FILE", node ids, a mask, (node type, ids or mask), or a mapping of such."""


def fanouts_text(fanouts: Fanouts) -> str:
    """Fan-outs as --fanouts has them. Keys of a mapping are relations, edge types, or "*" for all others."""
    if isinstance(fanouts, Mapping):
        if not fanouts:
            raise ValueError("fanouts: an empty mapping")
        return ";".join(f"{key if isinstance(key, str) else ':'.join(key)}={_numbers(k)}" for key, k in fanouts.items())
    return _numbers(fanouts)


def _numbers(values: Sequence[int]) -> str:
    if isinstance(values, (str, bytes)) or not len(values):
        raise ValueError(f"fanouts={values!r}: must be numbers, one a hop, such as [15, 10, 5]")
    return ",".join(str(int(k)) for k in values)


@dataclass
class SeedList:
    """The value of --seeds, and the file that holds the seeds, to be removed when the server has read it."""

    text: str
    file: Optional[str] = None

    def close(self) -> None:
        if self.file is not None:
            try:
                os.unlink(self.file)
            except FileNotFoundError:
                pass
            self.file = None


def seed_list(seeds: Seeds) -> SeedList:
    """Seeds as --seeds has them; a list goes into a file."""
    if isinstance(seeds, str):
        return SeedList(seeds)
    sets: list[tuple[str, Any]]
    if isinstance(seeds, Mapping):
        sets = [(str(t), ids) for t, ids in seeds.items()]
    elif isinstance(seeds, tuple) and len(seeds) == 2 and isinstance(seeds[0], str):
        if seeds[1] is None:
            return SeedList("all:" + seeds[0])
        sets = [(seeds[0], seeds[1])]
    else:
        sets = [("", seeds)]
    fd, path = tempfile.mkstemp(prefix="khop-seeds-", suffix=".txt")
    with os.fdopen(fd, "w", encoding="utf-8") as f:
        for node_type, ids in sets:
            prefix = f"{node_type} " if node_type else ""
            f.writelines(f"{prefix}{i}\n" for i in _ids(ids).tolist())
    return SeedList("@" + path, path)


def _ids(values: Any) -> Any:
    """Node ids of an array, a tensor, a list or a mask."""
    array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    if array.ndim != 1:
        raise ValueError(f"seeds: an array of shape {array.shape}: must have one dimension")
    if array.dtype == np.bool_:
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu":
        raise ValueError(f"seeds: an array of {array.dtype}: must be node ids or a mask")
    return array


@dataclass
class Flags:
    """Options of khop serve."""

    list: list[str] = field(default_factory=list)

    def add(self, name: str, value: Any) -> None:
        """Adds an option; None and False stand for its absence, True for a switch."""
        if value is None or value is False:
            return
        if value is True:
            self.list.append(f"--{name}")
            return
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        self.list.append(f"--{name}={value}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.list)
