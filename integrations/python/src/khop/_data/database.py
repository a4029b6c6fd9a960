"""Writes datasets of databases in memory, in the rules of RelBench's folders (docs/database.md)."""

from __future__ import annotations

import json
import os
import pathlib
import re
from typing import TYPE_CHECKING, Any, Mapping, Optional

from . import converted, tables
from .. import binary as _binary
from ..errors import WriteError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._config.option_table import ConvertOptions

_ROWS = ("train", "val", "test")


def write(
    path: _binary.PathLike, data: Any, *, primary_keys: Optional[Mapping[str, str]] = None,
    keys: Optional[Mapping[str, Mapping[str, str]]] = None, times: Optional[Mapping[str, str]] = None,
    kinds: Optional[Mapping[str, Mapping[str, str]]] = None, val_timestamp: Any = None, test_timestamp: Any = None,
    tasks: Optional[Mapping[str, Mapping[str, Any]]] = None, binary: Optional[_binary.PathLike] = None,
    **options: Unpack[ConvertOptions],
) -> None:
    """Writes a dataset of a database in memory, as ``khop convert`` does of one in RelBench's folder form: its bytes
    are those of a detour through Parquet.

        khop.relational.write(
            "shop.khop", {"users": users, "orders": con.sql("from orders")},
            primary_keys={"users": "id"}, keys={"orders": {"user": "users"}}, times={"orders": "at"},
            tasks={"churn": {"entity_table": "users", "entity_col": "user", "time_col": "at", "target_col": "gone",
                             "train": train, "val": val}})

    data has tables by name: of pandas, whatever has ``__arrow_c_stream__`` (polars, DuckDB, pyarrow, ..), or paths of
    Parquet, Arrow or CSV files. RelBench's Database brings its keys and times along.

    Of each table, by name: primary_keys is the column of its keys; keys maps its columns with keys of other tables to
    these; times is the column of its rows' times; kinds maps columns to kinds ("What columns mean"). val_timestamp and
    test_timestamp are those of a manifest, tasks the manifests of tasks, with tables "train", "val" and "test".

    options are those of ``khop convert`` (docs/cli.md). Tables pass through temporary files beside path. WriteError
    names what is wrong, and where; then there is no dataset, or still the one that was there before.
    """
    if hasattr(data, "table_dict"):
        data, primary_keys, keys, times = _of_relbench(data, primary_keys, keys, times)
    about: Mapping[str, Mapping[str, Any]] = {
        "pkey": primary_keys or {}, "fkeys": keys or {}, "time_col": times or {}, "kinds": kinds or {}}
    _check(data, about)
    def spill(scratch: pathlib.Path) -> pathlib.Path:
        folder = scratch / "database"
        entries = {name: {field: of[name] for field, of in about.items() if name in of} for name in data}
        for number, (name, table) in enumerate(data.items()):
            entries[name]["file"] = _save(folder / "db", name, table, number)
        _describe(folder, {"tables": entries, "val_timestamp": _text(val_timestamp),
                           "test_timestamp": _text(test_timestamp)})
        for number, (name, task) in enumerate((tasks or {}).items()):
            at = folder / "tasks" / _file_name(name, number)
            for split in _ROWS:
                if task.get(split) is not None:
                    _save(at, split, task[split], 0)
            _describe(at, {"name": name, **{k: v for k, v in task.items() if k not in _ROWS}})
        return folder
    given: Any = {**options, "from": "relbench"}
    converted.write(path, spill, "the database", given, binary)


def _of_relbench(data: Any, primary_keys: Any, keys: Any, times: Any) -> Any:
    """The tables of RelBench's Database, and what it knows of them where nobody says otherwise."""
    of = data.table_dict
    return ({name: t.df for name, t in of.items()},
            {**{name: t.pkey_col for name, t in of.items() if t.pkey_col is not None}, **(primary_keys or {})},
            {**{name: dict(t.fkey_col_to_pkey_table) for name, t in of.items()}, **(keys or {})},
            {**{name: t.time_col for name, t in of.items() if t.time_col is not None}, **(times or {})})


def _check(data: Any, about: Mapping[str, Mapping[str, Any]]) -> None:
    names = {"pkey": "primary_keys", "fkeys": "keys", "time_col": "times", "kinds": "kinds"}
    if not isinstance(data, Mapping):
        raise TypeError(f"khop.relational.write: {type(data).__name__}: must be a mapping of names to tables")
    for field, of in about.items():
        for name in of:
            if name not in data:
                raise ValueError(f"{names[field]}: there is no table {name!r}; there are: {', '.join(data)}")
    for name, to in about["fkeys"].items():
        for column, other in to.items():
            if other not in data:
                raise ValueError(f"keys[{name!r}][{column!r}]: there is no table {other!r}; there are: "
                                 f"{', '.join(data)}")


def _save(folder: pathlib.Path, name: str, table: Any, number: int) -> str:
    """Puts a table into a folder, and returns the path of its file from the folder above."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(table, (str, os.PathLike)):
        there = pathlib.Path(os.fsdecode(table)).absolute()
        if not there.is_file():
            raise WriteError(f"{name}: there is no file {there}")
        file = _file_name(name, number) + "".join(there.suffixes[-2:] if there.suffix == ".gz" else there.suffixes[-1:])
        (folder / file).symlink_to(there)
    elif tables.is_table(table):
        file = tables.save(folder / _file_name(name, number), table)
    else:
        raise TypeError(f"khop.relational.write: {name}: {type(table).__name__} is not a table, nor a path of one")
    return f"{folder.name}/{file}"


def _file_name(name: str, number: int) -> str:
    """A name for a file, which errors say; with a number, where the names of two may be alike otherwise."""
    plain = re.sub(r"[^\w-]", "_", name)
    return plain if plain == name else f"{plain}.{number}"


def _describe(folder: pathlib.Path, manifest: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.yaml").write_text(json.dumps({k: v for k, v in manifest.items() if v is not None}))


def _text(time: Any) -> Optional[str]:
    return None if time is None else str(time)
