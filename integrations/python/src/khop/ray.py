"""Writes datasets of Ray Data's datasets (docs/machines.md, "From a DataFrame").

    import khop.ray

    khop.ray.write_dataset({}, {"cites": ray.data.read_parquet("/shared/cites")}, "/shared/papers.khop")
"""

from __future__ import annotations

import concurrent.futures as futures
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Mapping, Optional

from . import binary as _binary
from ._data import frames
from .cluster import RayExecutor

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._config.option_table import ConvertOptions


def write_dataset(
    nodes: Mapping[str, Any], edges: Mapping[frames.EdgeName, Any], out: _binary.PathLike, *,
    tasks: Optional[int] = None, progress: Optional[Callable[[int, int, str], None]] = None,
    cancelled: Callable[[], bool] = lambda: False, binary: Optional[_binary.PathLike] = None,
    **options: Unpack[ConvertOptions],
) -> None:
    """Writes a dataset of ray.data.Datasets, as khop.spark.write_dataset does of DataFrames. Without ``order`` rows are
    in the order of their source."""
    import ray

    with futures.ThreadPoolExecutor(1) as thread:
        def spill(data: Any, folder: str, order: List[str]) -> futures.Future[Any]:
            return thread.submit(_spill, data.sort(order) if order else data, folder)

        frames.write(
            nodes, edges, out, spill=spill, executor=RayExecutor(), tasks=tasks or int(ray.cluster_resources()["CPU"]),
            progress=progress, cancelled=cancelled, binary=binary, options=options)


def _spill(data: Any, folder: str) -> None:
    from ray.data.block import BlockAccessor
    from ray.data.datasource import Datasink

    class Parts(Datasink):  # type: ignore[misc]
        def write(self, blocks: Iterable[Any], ctx: Any) -> None:
            frames.write_part(_batches(blocks, BlockAccessor), folder, ctx.task_idx)

    how = data.context.execution_options
    before, how.preserve_order = how.preserve_order, True  # so that tasks are numbered in the order of rows
    try:
        data.write_datasink(Parts())
    finally:
        how.preserve_order = before


def _batches(blocks: Iterable[Any], accessor: Any) -> Iterator[Any]:
    for block in blocks:
        table = accessor.for_block(block).to_arrow()
        yield from table.to_batches() or table.schema.empty_table().to_batches(1)
