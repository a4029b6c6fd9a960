"""Describes datasets, as khop info does."""

from __future__ import annotations

import json
import os
from typing import Any, Optional

from .. import binary as _binary
from .._native import program
from .stage import SCHEMES


def info(dataset: _binary.PathLike, binary: Optional[_binary.PathLike] = None) -> dict[str, Any]:
    """Returns counts and columns of each node type and edge type, and splits (docs/json.md, "Datasets").

    ServerError if there is no dataset.
    """
    name = os.fsdecode(dataset)
    done = program.call(["info", name, "--json"], binary, small=not name.startswith(SCHEMES))
    done.check()
    about: dict[str, Any] = json.loads(done.stdout)
    return about
