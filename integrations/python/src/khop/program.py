"""Commands of khop that run to their end."""

from __future__ import annotations

import os
import subprocess
from typing import Any, Mapping, Optional, Sequence

from . import binary as _binary
from .errors import KhopError, ServerError
from .options import Configuration


def run(
    command: str, arguments: Sequence[str], options: Mapping[str, Any], binary: Optional[_binary.PathLike] = None,
    otherwise: type[KhopError] = ServerError,
) -> None:
    """Runs a command. Where it does not take its options that is an OptionError, else an error of the type
    otherwise."""
    config = Configuration(options)
    try:
        done = subprocess.run(
            [_binary.find(binary), command, *arguments, "--config", config.file(), "--parent", str(os.getpid())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=config.inherit())
    finally:
        config.close()
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise config.failure(said.rpartition("\n")[2], otherwise) or otherwise(
            said or f"khop {command} has ended with status {done.returncode}")
