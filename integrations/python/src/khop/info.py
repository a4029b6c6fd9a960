"""What a dataset has, as khop info tells."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Optional

from . import binary as _binary
from .errors import ServerError


def info(dataset: _binary.PathLike, binary: Optional[_binary.PathLike] = None) -> dict[str, Any]:
    """Counts and columns of each node type and edge type, and splits (docs/cli.md, "khop info").

    ServerError where there is no dataset.
    """
    done = subprocess.run([_binary.find(binary), "info", os.fsdecode(dataset), "--json"], capture_output=True)
    if done.returncode:
        raise ServerError(done.stderr.decode("utf-8", "replace").strip().replace("khop: ", "", 1))
    about: dict[str, Any] = json.loads(done.stdout)
    return about
