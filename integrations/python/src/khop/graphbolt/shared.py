"""Graphs in shared memory, which other processes of the machine open by name."""

from __future__ import annotations

import json
import mmap
import os
import weakref
from multiprocessing import resource_tracker
from typing import Any, Iterator, Mapping

import numpy as np
import torch

_FOLDER = "/dev/shm"
_ALIGNED = 64


def _path(name: str) -> str:
    if not name or "/" in name or "\0" in name or len(name) > 200:
        raise ValueError(f"{name!r}: the name of shared memory has up to 200 characters and no '/'")
    return f"{_FOLDER}/khop-gb-{name}"


def _tensors(fields: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """(field, name, tensor) of each tensor; the name is that of an attribute, or empty."""
    for field, value in fields.items():
        if isinstance(value, torch.Tensor):
            yield field, "", value
        elif isinstance(value, Mapping):
            yield from ((field, n, v) for n, v in value.items() if isinstance(v, torch.Tensor))


def create(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Copies the tensors of fields to shared memory, and returns the fields with those there.

    The name ends with them, or when the process ends in any way, by multiprocessing's resource tracker. Memory that
    others have opened stays until they close it.
    """
    listed, end = [], 0
    for field, key, tensor in _tensors(fields):
        array = np.ascontiguousarray(tensor.detach().cpu().numpy())
        listed.append((field, key, array, end))
        end += -(-array.nbytes // _ALIGNED) * _ALIGNED
    others = {f: v for f, v in fields.items() if not isinstance(v, torch.Tensor) and not _has_tensors(v)}
    about = {"others": others,
             "tensors": [(f, k, a.dtype.str, list(a.shape), at) for f, k, a, at in listed],
             "empty": [f for f, v in fields.items() if isinstance(v, Mapping) and not v]}
    header = json.dumps(about).encode()
    first = -(-(8 + len(header)) // _ALIGNED) * _ALIGNED
    path = _path(name)
    # A name that is there belongs to a graph that lives, or to a process that has just ended.
    if os.path.exists(path):
        os.unlink(path)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        resource_tracker.register(path.removeprefix(_FOLDER), "shared_memory")
        os.ftruncate(file, first + max(end, 1))
        inode = os.fstat(file).st_ino
        memory = mmap.mmap(file, 0)
    finally:
        os.close(file)
    memory[8:8 + len(header)] = header
    for _, _, array, at in listed:
        memory[first + at:first + at + array.nbytes] = array.tobytes()
    memory[:8] = len(header).to_bytes(8, "little")
    found = _fields(memory)
    weakref.finalize(memory, _forget, path, inode, os.getpid())
    return found


def load(name: str) -> dict[str, Any]:
    """Opens the fields that create stored under a name, over the same memory."""
    path = _path(name)
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no graph {name!r} in shared memory: its maker has released it, or "
                                "has ended") from None
    try:
        if os.fstat(file).st_uid != os.getuid():
            raise PermissionError(f"{path}: belongs to another user")
        return _fields(mmap.mmap(file, 0))
    finally:
        os.close(file)


def _has_tensors(value: Any) -> bool:
    return isinstance(value, Mapping) and any(isinstance(v, torch.Tensor) for v in value.values())


def _fields(memory: mmap.mmap) -> dict[str, Any]:
    """The fields that memory describes. What lies outside it is a ValueError."""
    size = int.from_bytes(memory[:8], "little")
    if not 0 < size <= len(memory) - 8:
        raise ValueError("shared memory without a graph")
    about = json.loads(memory[8:8 + size])
    first = -(-(8 + size) // _ALIGNED) * _ALIGNED
    fields: dict[str, Any] = {**about["others"], **{f: {} for f in about["empty"]}}
    for field, key, dtype, shape, at in about["tensors"]:
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(memory, np.dtype(dtype), count, first + at) if count else np.empty(0, dtype)
        tensor = torch.from_numpy(array.reshape(shape))
        if key:
            fields.setdefault(field, {})[key] = tensor
        else:
            fields[field] = tensor
    return fields


def _forget(path: str, inode: int, owner: int) -> None:
    if os.getpid() != owner:
        return
    try:
        if os.stat(path).st_ino == inode:
            os.unlink(path)
            resource_tracker.unregister(path.removeprefix(_FOLDER), "shared_memory")
    except OSError:
        pass
