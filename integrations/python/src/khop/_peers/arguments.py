"""Arguments of loaders with peers' names, and options beside them, which are those of khop.Loader.

One rule holds for all of them: an option decides where the argument that means the same keeps its default. Where both
are given and differ, the loader is refused.
"""

from __future__ import annotations

import inspect
from typing import Any, Mapping, Optional

from .._loader.loader import Loader
from .._config.configuration import check_names
from ..torch import random_seed

_DEFAULTS: dict[str, Any] = {"batch_size": 1, "time": "none", "world_size": None}
"""Values that stand for arguments that were not given, beside None and False."""

_SEEDS = frozenset({
    "seeds", "input_nodes", "input_time", "input_start_time", "edge_label_index", "edge_label", "edge_label_time",
    "edge_label_start_time", "edge_label_negatives", "num_neighbors", "fanouts",
})


def check_options(options: Optional[Mapping[str, Any]]) -> None:
    """Refuses further options that khop.Loader does not have, and seeds, which loaders have as arguments."""
    if options is not None:
        for name in sorted(_SEEDS & set(options)):
            raise TypeError(f"options={{{name!r}: ..}}: seeds and fan-outs are arguments of the loader itself")
        named = {name: of for name, of in inspect.signature(Loader).parameters.items() if of.kind is of.KEYWORD_ONLY}
        check_names([name for name in options if name not in named], named)


def epochs(
    options: Optional[Mapping[str, Any]], *, batch_size: Any = 1, shuffle: Any = False, drop_last: Any = False,
    seed: Optional[int] = None,
) -> dict[str, Any]:
    """Returns what decides an epoch's batches, by arguments and options, and checks both. seed None is one of torch's
    random numbers."""
    check_batches(shuffle, batch_size, drop_last)
    check_options(options)
    own = dict(batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, seed=seed)
    how = combined(own, {name: value for name, value in (options or {}).items() if name in own})
    check_batches(how["shuffle"], how["batch_size"], how["drop_last"])
    return {**how, "seed": random_seed(how["seed"])}


def combined(
    arguments: Mapping[str, Any], options: Optional[Mapping[str, Any]], names: Mapping[str, str] = {},
) -> dict[str, Any]:
    """Returns what arguments say by khop's names of options, and options. names are those of arguments that are called
    otherwise. A TypeError names an argument and an option that differ."""
    out = dict(arguments)
    for name, value in (options or {}).items():
        own = out.get(name)
        if own is not None and own is not False and own != _DEFAULTS.get(name) and own != value:
            given = f"{name}={own!r}" if name not in names else f"{names[name]}, which means {name}={own!r},"
            raise TypeError(f"{given} and options={{{name!r}: {value!r}}} differ: give one of them")
        out[name] = value
    return out


def check_batches(shuffle: Any, batch_size: Any, drop_last: Any) -> None:
    """Raises TypeError or ValueError for values that a loader would refuse only later, or take for others."""
    for name, value in (("shuffle", shuffle), ("drop_last", drop_last)):
        if not isinstance(value, (bool, int)) and type(value).__name__ not in ("bool_", "bool") or value not in (0, 1):
            raise TypeError(f"{name}={value!r}: must be True or False")
    if isinstance(batch_size, bool) or not hasattr(batch_size, "__index__"):
        raise TypeError(f"batch_size={batch_size!r}: must be a whole number")
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size!r}: must be at least 1")
