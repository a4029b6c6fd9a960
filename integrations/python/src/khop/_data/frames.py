"""Datasets of tables that an engine holds in partitions: khop.spark, khop.ray (docs/machines.md, "From a DataFrame").

The engine writes each partition to a file, in its own tasks; tasks of khop convert the files. An engine defines only
which objects are tables, and how their partitions are numbered.
"""

from __future__ import annotations

import concurrent.futures as futures
import json
import os
import secrets
import shutil
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .. import binary as _binary
from .. import cluster
from ..errors import WriteError

if TYPE_CHECKING:
    from .._config.option_table import ConvertOptions

EdgeName = Union[str, Tuple[str, str, str]]
Spill = Callable[[Any, str, List[str]], "futures.Future[Any]"]
_GROUP = 1 << 18  # rows that a task of khop reads or leaves


def write(
    nodes: Mapping[str, Any], edges: Mapping[EdgeName, Any], out: _binary.PathLike, *, spill: Spill,
    executor: cluster.Executor, tasks: int, progress: Optional[Callable[[int, int, str], None]],
    cancelled: Callable[[], bool], binary: Optional[_binary.PathLike], options: ConvertOptions,
) -> None:
    """Writes the dataset out of tables. spill begins to write a table, in the order of columns if any are given:
    write_part puts its partitions into a folder that all machines see."""
    target = os.path.abspath(os.fsdecode(out))
    if os.path.lexists(target) and not options.get("force"):
        raise WriteError(f"{target} is there already: force=True replaces it")
    draft = f"{target}.khop-tasks.{secrets.token_hex(8)}"  # which khop convert --clean removes, with its data
    folder = os.path.join(draft, "data")
    try:
        os.mkdir(draft)
        os.mkdir(folder)
    except OSError as e:
        raise WriteError(f"{draft}: {e.strerror}") from None

    def filed(table: Any, name: str) -> Any:
        entry = dict(table) if isinstance(table, Mapping) else {"file": table}
        frame, order = entry.get("file"), entry.pop("order", [])
        if frame is None or isinstance(frame, (str, bytes, os.PathLike)):
            return {**entry, **({} if frame is None else {"file": os.path.abspath(os.fsdecode(frame))})}
        at = os.path.join(folder, name)
        os.mkdir(at)
        written = spill(frame, at, [order] if isinstance(order, str) else list(order))
        for _ in cluster.finished({written: name}, executor, cancelled):
            pass
        return {**entry, "file": os.path.join(at, "*.parquet")}

    try:
        mapping = {
            "nodes": {name: filed(table, f"nodes-{i}") for i, (name, table) in enumerate(nodes.items())},
            "edges": {name if isinstance(name, str) else ":".join(name): filed(table, f"edges-{i}")
                      for i, (name, table) in enumerate(edges.items())}}
        source = os.path.join(folder, "graph.json")
        with open(source, "w") as f:
            json.dump(mapping, f)
        cluster.convert(source, target, tasks=tasks, executor=executor, progress=progress, cancelled=cancelled,
                        binary=binary, **options)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_part(batches: Iterable[Any], folder: str, number: int) -> None:
    """Writes record batches of Arrow as a part of a table. Of several attempts at a part the last one counts."""
    import pyarrow.parquet

    draft, writer = os.path.join(folder, f".{number}.{secrets.token_hex(8)}"), None
    try:
        for table in _groups(batches):
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(
                    draft, table.schema, compression="snappy", use_dictionary=False, write_statistics=False)
            writer.write_table(table, row_group_size=max(1, table.num_rows))
        if writer is not None:
            writer.close()
            os.replace(draft, os.path.join(folder, f"{number:09d}.parquet"))
    except BaseException:
        if writer is not None:
            writer.close()
            os.remove(draft)
        raise


def _groups(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches together as tables of many rows."""
    import pyarrow

    some: List[Any] = []
    rows = 0
    for batch in batches:
        some.append(batch)
        rows += batch.num_rows
        if rows >= _GROUP:
            yield pyarrow.Table.from_batches(some)
            some, rows = [], 0
    if some:
        yield pyarrow.Table.from_batches(some)
