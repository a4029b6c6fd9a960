"""Datasets of data in memory: files beside the dataset, which khop convert reads."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Callable, Mapping, Optional

from .. import binary as _binary
from .._native import program
from .._native.scratch import Scratch
from ..errors import WriteError


def write(
    path: _binary.PathLike, spill: Callable[[pathlib.Path], pathlib.Path], called: str, options: Mapping[str, Any],
    binary: Optional[_binary.PathLike], small: bool = False,
) -> None:
    """Writes a dataset. spill puts into a folder what khop convert reads, and returns where it is. Errors call that as
    called says, and files by their names in it. A small one may be converted in this process."""
    target = pathlib.Path(os.fsdecode(path)).absolute()
    try:
        scratch = Scratch(f".{target.name}.", str(target.parent))
    except OSError as e:
        raise WriteError(f"{target.parent}: {e.strerror}") from None
    try:
        source = spill(pathlib.Path(scratch.path))

        def clean(said: str) -> str:
            said = said.replace(f"{source}{os.sep}", "").replace(str(source), called)
            return said.replace(scratch.path + os.sep, "")

        program.run("convert", [str(source), str(target)], options, binary, WriteError, small, clean)
    finally:
        scratch.close()
