"""A mapping that keeps what was used last."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, TypeVar

_V = TypeVar("_V")


class Recent(OrderedDict[Any, _V]):
    """What was put in or moved to the end last, at most so many."""

    def __init__(self, keep: int) -> None:
        super().__init__()
        self.keep = keep

    def put(self, key: Any, value: _V) -> None:
        self[key] = value
        while len(self) > self.keep:
            self.popitem(last=False)
