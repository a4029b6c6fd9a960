"""Tensors of PyTorch in host memory, whose rows khop gathers on the CPU and on CUDA devices.

    features = khop.unified(numpy.memmap("features.bin", "float32", "r", shape=(n, 100)))
    features[ids]  # ids on the CPU or on a CUDA device: so are the rows

It is PyTorch-Direct's unified tensor (Min et al., PVLDB 14(11), 2021). docs/python.md, "Unified tensors".
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional, Sequence

import numpy as np

from ..errors import OptionError

if TYPE_CHECKING:
    from .tensor import UnifiedTensor


def unified(
    source: Any, column: Optional[str] = None, *, node_type: str = "", device: Any = None,
    hot: Optional[Sequence[int]] = None, threads: Optional[int] = None,
) -> UnifiedTensor:
    """Returns a tensor [rows, ...] over memory that stays in place. khop gathers its rows where the ids are, for
    u[ids], torch.index_select(u, 0, ids) and torch.nn.functional.embedding(ids, u).

    source is a tensor on the CPU, a NumPy array or memmap, or the folder of a dataset, with column and perhaps
    node_type. Nothing is copied: changing the source changes the tensor. device is where an operation runs whose
    operands are only unified tensors and numbers (default: "cuda" if torch has it, else "cpu"). hot are rows, of which
    each device that gathers keeps a copy in its own memory. threads is how many gather on the CPU (default: as many as
    torch has).

    OptionError for an invalid source, LibraryNotFound if this package came without the shared library.
    """
    from .tensor import Column, UnifiedTensor, of_dataset, place_of

    rows = None if hot is None else np.unique(np.asarray(hot, np.int64))
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise OptionError(f"threads is a number from 1, or None for as many as torch has, not {threads!r}")
    where = place_of(device)
    if isinstance(source, (str, bytes, os.PathLike)):
        if column is None:
            raise OptionError("column names the column of the dataset: khop.unified(dataset, 'feature')")
        return UnifiedTensor(of_dataset(os.fsdecode(source), node_type, column), where, rows, threads)
    if column is not None or node_type:
        raise OptionError("column and node_type are of a dataset: give its folder as source")
    return UnifiedTensor(Column.over(source), where, rows, threads)
