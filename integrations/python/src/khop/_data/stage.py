"""Brings datasets from elsewhere to this machine."""

from __future__ import annotations

import json
import os
from typing import Any, Optional, Union

from .. import binary as _binary
from .._native import program

SCHEMES = ("s3://", "gs://", "https://", "http://", "hf://")
"""How the addresses of datasets begin that lie elsewhere (docs/machines.md)."""


def located(dataset: Union[str, bytes, "os.PathLike[Any]"]) -> str:
    """Returns a dataset's name that is valid in every folder: the address of one elsewhere, or an absolute path."""
    name = os.fsdecode(dataset)
    return name if name.startswith(SCHEMES) else os.path.abspath(name)


def stage(dataset: str, *, binary: Optional[_binary.PathLike] = None, **options: Any) -> str:
    """Brings a dataset from elsewhere to this machine, whole, and returns its folder.

    dataset is an address: ``s3://BUCKET/PATH``, ``gs://..``, ``https://..``, ``hf://datasets/OWNER/NAME@REV/PATH``.
    options are those of ``khop stage``: the cache's folder and size; None is the default. khop.Loader then opens the
    same address, with the same folder, and finds all there. ServerError says what is wrong.
    """
    line = ["stage", os.fsdecode(dataset), "--json"]
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            line.append(option if value else option + "=false")
        elif value is not None:
            line += [option, os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)]
    done = program.call(line, binary)
    done.check()
    return str(json.loads(done.stdout)["path"])
