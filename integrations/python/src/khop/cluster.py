"""Conversion in tasks, which an executor runs: processes, Dask, Ray or Spark (docs/machines.md).

    import concurrent.futures, khop.cluster

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        khop.cluster.convert("edges.txt", "graph.khop", tasks=8, executor=pool, symmetrise=True)

It imports Dask, Ray or Spark only when their executor is made.
"""

from __future__ import annotations

import concurrent.futures as futures
import json
import os
import re
import secrets
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Mapping, Optional, Protocol

from . import binary as _binary
from ._native import program
from .errors import KhopError, WriteError
from ._data.stage import located

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._config.option_table import ConvertOptions


class Executor(Protocol):
    """Runs functions elsewhere: ``concurrent.futures.Executor``, Dask's ``client.get_executor()``, RayExecutor,
    SparkExecutor."""

    def submit(self, fn: Callable[..., Any], *args: Any) -> "futures.Future[Any]":
        """Begins a call of a function, which is pickled."""
        ...


class Cancelled(KhopError):
    """A conversion was cancelled."""


def convert(
    source: _binary.PathLike, out: _binary.PathLike, *, tasks: int, executor: Optional[Executor] = None,
    progress: Optional[Callable[[int, int, str], None]] = None, cancelled: Callable[[], bool] = lambda: False,
    binary: Optional[_binary.PathLike] = None, **options: Unpack[ConvertOptions],
) -> None:
    """Converts source to the dataset out in tasks. executor runs each task as a process of khop; with None, threads
    start the processes on this machine, one per task. Both paths must be visible to all machines, or be addresses.

    options are those of ``khop convert``; ``max_memory`` holds for each task. progress is called with the number of
    tasks done, the number of all tasks, and the name of the one just done. cancelled is called once a second; when it
    returns True, the tasks end and Cancelled is raised. An error and Cancelled leave neither a dataset nor a task.
    """
    source, out = located(source), located(out)
    memory = options.get("max_memory")
    planned = {**options, "tasks": tasks, "plan": True}
    done = program.run("convert", [source, out, "--json"], planned, binary, WriteError)
    plan = json.loads(done.stdout)["stages"]
    own = futures.ThreadPoolExecutor(tasks) if executor is None else None
    name = None if binary is None else os.fsdecode(binary)
    try:
        count, total = 0, sum(map(len, plan))
        for stage in plan:
            running = {(own or executor).submit(_task, task, memory, name): task for task in stage}  # type: ignore
            for done_now in finished(running, executor, cancelled):
                count += 1
                if progress is not None:
                    progress(count, total, os.path.basename(running[done_now])[:-len(".json")])
    finally:
        if own is not None:
            own.shutdown()
        clean(out, binary=binary)


def clean(out: _binary.PathLike, *, binary: Optional[_binary.PathLike] = None) -> None:
    """Removes what the tasks of an unfinished conversion left, as ``khop convert --clean`` does."""
    program.run("convert", ["-", located(out), "--clean"], {}, binary, WriteError)


def finished(
    running: Mapping["futures.Future[Any]", str], executor: Optional[Executor], cancelled: Callable[[], bool],
) -> Iterator["futures.Future[Any]"]:
    """Yields futures as they finish. After the first error, or when cancelled, it ends all others first."""
    left = set(running)
    try:
        while left:
            if cancelled():
                raise Cancelled("the conversion was cancelled")
            ended, left = futures.wait(left, timeout=1, return_when=futures.FIRST_COMPLETED)
            for one in ended:
                one.result()
                yield one
    except BaseException:
        cancel = getattr(executor, "cancel", None)
        if cancel is not None:
            cancel()
        else:
            for one in left:
                one.cancel()
        futures.wait(left)
        raise


def _task(task: str, memory: Any, binary: Optional[str]) -> None:
    """Runs a task, where the executor has it run."""
    options = {} if memory is None else {"max_memory": memory}
    line = ["task", task] + [w for k, v in options.items() for w in ("--" + k.replace("_", "-"), str(v))]
    done = program.call(line, binary)
    if done.status:
        raise WriteError(done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2].replace("khop: ", "", 1))


class RayExecutor:
    """Runs each task as a task of Ray; options are those of ``ray.remote``: ``num_cpus``, ``memory``, .."""

    def __init__(self, **options: Any) -> None:
        self._options = {"max_retries": 3, "scheduling_strategy": "SPREAD", **options}
        self._refs: List[Any] = []

    def submit(self, fn: Callable[..., Any], *args: Any) -> "futures.Future[Any]":
        """Begins a task."""
        import ray

        ref = ray.remote(fn).options(**self._options).remote(*args)
        self._refs.append(ref)
        future: "futures.Future[Any]" = ref.future()
        return future

    def cancel(self) -> None:
        """Ends all tasks."""
        import ray

        for ref in self._refs:
            ray.cancel(ref, force=True)


class SparkExecutor:
    """Runs each task as a job of one partition; Spark runs as many at a time as it has cores."""

    def __init__(self, spark: Any, threads: int = 256) -> None:
        self._context, self._group = spark.sparkContext, f"khop-{secrets.token_hex(8)}"
        self._threads = futures.ThreadPoolExecutor(threads)

    def submit(self, fn: Callable[..., Any], *args: Any) -> "futures.Future[Any]":
        """Begins a job of one task."""
        return self.job(lambda: self._context.parallelize([args], 1).map(lambda a: fn(*a)).collect()[0])

    def job(self, run: Callable[[], Any]) -> "futures.Future[Any]":
        """Begins a function that makes a Spark job, which cancel can end."""
        def grouped() -> Any:
            self._context.setJobGroup(self._group, "khop.cluster", interruptOnCancel=True)
            try:
                return run()
            except Exception as e:  # of Java, with the text of what a worker has raised
                said = re.search(r"khop\.errors\.WriteError: (.*)", str(e))
                if said is None:
                    raise
                raise WriteError(said[1]) from e
        return self._threads.submit(grouped)

    def cancel(self) -> None:
        """Ends all jobs."""
        self._context.cancelJobGroup(self._group)
