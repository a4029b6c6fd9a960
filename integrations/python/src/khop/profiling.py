"""Ranges in profilers, and numbers for loggers."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import nullcontext
from typing import Any, Callable, ContextManager, Iterator, Mapping

_NONE: ContextManager[None] = nullcontext()
_NSYS = "NSYS_PROFILING_SESSION_ID"  # which Nsight Systems sets


def shown(name: str) -> ContextManager[Any]:
    """Returns a range of that name for torch's profiler, or for Nsight Systems (NVTX), if one of them runs in this
    thread; else an empty context. It does not import torch."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return _NONE
    enabled: Callable[[], bool] = getattr(torch.autograd, "_profiler_enabled", bool)
    if enabled():  # with emit_nvtx it makes an NVTX range of it
        record: ContextManager[Any] = torch.profiler.record_function(name)
        return record
    if _NSYS in os.environ and torch.cuda.is_available():
        ranged: ContextManager[Any] = torch.cuda.nvtx.range(name)
        return ranged
    return _NONE


def flat(statistics: Mapping[str, Any], prefix: str) -> dict[str, float]:
    """Returns the numbers of statistics as a flat dict, with names such as khop/loader/wait/sum_s; durations are in
    seconds."""
    return dict(_flat(statistics, prefix))


def _flat(value: Any, name: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, (int, float)):
        yield (name[:-3] + "_s", value / 1e9) if name.endswith("_ns") else (name, float(value))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}/{key}")


def lightning_callback(loader: Any) -> Any:
    """Returns a callback of Lightning that logs the loader's metrics() after each training epoch, and prints its
    report(). Lightning, or pytorch_lightning, must be installed."""
    try:
        base: Any = importlib.import_module("lightning.pytorch")
    except ImportError:
        base = importlib.import_module("pytorch_lightning")

    class Khop(base.Callback):  # type: ignore[misc]
        """Logs what a khop loader counts."""

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            figures = loader.metrics()
            for logger in trainer.loggers:
                logger.log_metrics(figures, step=trainer.global_step)
            said = loader.report()
            if said and trainer.is_global_zero:
                print(said)
    return Khop()
