"""Errors for unknown names, in loaders with names of other libraries."""

from __future__ import annotations

import difflib
from typing import Iterable, Mapping, Optional


def check(
    where: str, given: Iterable[str], known: Iterable[str], section: str, instead: Optional[Mapping[str, str]] = None,
) -> None:
    """Refuses unknown names: the error says what to do instead, or gives the nearest known name.

    section is the one of docs/migrating.md that lists the known names.
    """
    known = set(known)
    for name in given:
        if name in known and name not in (instead or {}):
            continue
        near = difflib.get_close_matches(name, sorted(known), 1)
        if instead and name in instead:
            hint = instead[name]
        elif near:
            hint = f"did you mean {near[0]!r}?"
        else:
            hint = "there is nothing like it"
        raise TypeError(f'{where} has no {name!r}: {hint} (khop docs migrating, "{section}")')
