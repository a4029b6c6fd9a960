"""Writes datasets of Spark's DataFrames (docs/machines.md, "From a DataFrame").

    import khop.spark

    khop.spark.write_dataset(
        {"user": users, "item": {"file": items, "label": "kind", "split": "part"}},
        {("user", "buys", "item"): {"file": buys, "order": ["_metadata.file_path", "_metadata.row_index"]}},
        "/shared/shop.khop", symmetrise=True)
"""

from __future__ import annotations

import concurrent.futures as futures
import os
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Mapping, Optional

from . import binary as _binary
from ._data import frames
from .cluster import SparkExecutor

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._config.option_table import ConvertOptions


def write_dataset(
    nodes: Mapping[str, Any], edges: Mapping[frames.EdgeName, Any], out: _binary.PathLike, *,
    tasks: Optional[int] = None, progress: Optional[Callable[[int, int, str], None]] = None,
    cancelled: Callable[[], bool] = lambda: False, binary: Optional[_binary.PathLike] = None,
    **options: Unpack[ConvertOptions],
) -> None:
    """Writes a dataset of DataFrames. nodes and edges are those of a mapping (docs/convert.md, "Tables") with
    DataFrames in place of files. ``order`` names columns that the rows of a table are sorted by: without it they follow
    Spark's partitions. out, and its folder, must have the same path on all machines.

    tasks and the other arguments are those of khop.cluster.convert; tasks None: as many as Spark runs at a time.
    """
    from pyspark.sql import SparkSession

    spark: Any = SparkSession.active()
    executor = SparkExecutor(spark)

    def spill(frame: Any, folder: str, order: List[str]) -> futures.Future[Any]:
        return executor.job(lambda: _spill(frame.orderBy(*order) if order else frame, folder))

    frames.write(
        nodes, edges, out, spill=spill, executor=executor, tasks=tasks or spark.sparkContext.defaultParallelism,
        progress=progress, cancelled=cancelled, binary=binary, options=options)


def _spill(frame: Any, folder: str) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    def write(batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        frames.write_part(batches, folder, TaskContext.get().partitionId())
        return iter(())

    frame.mapInArrow(write, "nothing int").collect()
    if not os.listdir(folder):
        frames.write_part(to_arrow_schema(frame.schema).empty_table().to_batches(1), folder, 0)
