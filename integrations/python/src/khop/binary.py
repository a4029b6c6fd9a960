"""Finds the khop program."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Optional, Union

from .errors import BinaryNotFound

PathLike = Union[str, "os.PathLike[str]"]


def find(binary: Optional[PathLike] = None) -> str:
    """Returns the path of the khop program: ``binary``, else ``$KHOP_BIN``, else the one in this package, else PATH.

    A program that is named must exist: find falls back to no other.
    """
    for what, named in (("binary=", binary), ("$KHOP_BIN", os.environ.get("KHOP_BIN"))):
        if named:
            path = shutil.which(os.fspath(named))
            if path is None:
                raise BinaryNotFound(f"{what} names {os.fspath(named)}, which is not a program that can be run")
            return path
    own = Path(__file__).parent / "bin" / "khop"
    if os.access(own, os.X_OK):
        return str(own)
    path = _on_path()
    if path is None:
        raise BinaryNotFound(
            "no khop program: this package was installed without one, and there is none on PATH; install a wheel for "
            "your "
            'platform, or build it with "go build ./cmd/khop" and set KHOP_BIN'
        )
    return path


def _on_path() -> Optional[str]:
    """The first khop on PATH that is not a script of this package, which would only call find again."""
    for folder in os.get_exec_path():
        path = shutil.which("khop", path=folder)
        if path is not None and not _is_script(path):
            return path
    return None


def _is_script(path: str) -> bool:
    with open(path, "rb") as f:
        return f.read(2) == b"#!"
