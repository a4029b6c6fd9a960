"""Tables in memory, as khop convert reads them: Arrow streams, and those of pandas."""

from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any, Mapping

from .._native import streams
from ..errors import OptionError, ServerError, WriteError


def is_table(data: Any) -> bool:
    """Whether an object is a table: of pandas, or any that hands out an Arrow stream."""
    return _is_pandas(data) or streams.is_stream(data)


def save(path: pathlib.Path, table: Any) -> str:
    """Writes a table to a new file, and returns its name: path with an ending."""
    if _is_pandas(table):
        try:
            import pyarrow
        except ImportError:
            table.to_csv(f"{path}.csv", index=_has_names(table.index))
            return path.name + ".csv"
        try:
            table = pyarrow.Table.from_pandas(table, preserve_index=_has_names(table.index))
        except (pyarrow.ArrowException, ValueError) as e:
            raise WriteError(f"{path.name}: {e}") from None
    try:
        streams.write(table, f"{path}.arrow")
    except (OptionError, ServerError) as e:
        raise WriteError(f"{path.name}: {e}") from None
    return path.name + ".arrow"


def filed(folder: pathlib.Path, mapping: Any) -> Any:
    """Returns a mapping as in docs/convert.md ("Tables"), with files in place of its tables, which are written to a
    folder. Paths become absolute."""
    taken: list[str] = []

    def walk(value: Any, *where: str) -> Any:
        if is_table(value):
            name = re.sub(r"[^\w.-]", "_", ".".join(w for w in where if w != "file"))  # an error says it
            taken.append(name)
            return save(folder / (name + f".{len(taken)}" * (taken.count(name) > 1)), value)
        if isinstance(value, Mapping):
            return {k: walk(v, *where, str(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [walk(v, *where) for v in value]
        return os.path.abspath(value) if isinstance(value, os.PathLike) else value
    return walk(mapping)


def write(folder: pathlib.Path, mapping: Mapping[str, Any]) -> pathlib.Path:
    """Writes a mapping with its tables to a folder, and returns its file."""
    source = folder / "graph.json"
    source.write_text(json.dumps(filed(folder, mapping)))
    return source


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns")


def _has_names(index: Any) -> bool:
    """Whether an index of pandas is data: one without a name numbers the rows."""
    return any(name is not None for name in index.names)
