"""What a dataset has, as khop info tells."""

from __future__ import annotations

import json
import os
from typing import Any, Optional

from . import binary as _binary
from . import program
from .errors import ServerError


def info(dataset: _binary.PathLike, binary: Optional[_binary.PathLike] = None) -> dict[str, Any]:
    """Counts and columns of each node type and edge type, and splits (docs/cli.md, "khop info").

    ServerError where there is no dataset.
    """
    done = program.call(["info", os.fsdecode(dataset), "--json"], binary, small=True)
    if done.status:
        raise ServerError(done.stderr.decode("utf-8", "replace").strip().replace("khop: ", "", 1))
    about: dict[str, Any] = json.loads(done.stdout)
    return about
