"""Products on CUDA devices: structures that torch makes there, and the library's kernels on torch's current stream.

The host reads no ids, so none is refused: an edge with an id out of range counts as if it were not there. It waits for
the device where edge_index is compared with those of earlier calls, and where nobody says how many rows there are.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import warnings
from typing import Any, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from . import spmm
from .._unified import tensor as unified_tensor
from ..errors import KhopError

_SAMPLE, _SOFTMAX, _SOFTMAX_BACKWARD = 3, 4, 5  # khop_placed


class _Placed(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("indptr", "indices", "values", "x", "u", "out")),
        ("stream", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in ("rows", "cols", "edges", "width", "heads")),
        *((name, ctypes.c_int32) for name in ("device", "indptr_bytes", "index_bytes", "operation")),
    ]


@functools.lru_cache(maxsize=None)
def serves(ordinal: int) -> bool:
    """Whether the library computes on a device. If not, a warning gives the reason, once."""
    try:
        spmm.call("device", ordinal)
    except KhopError as e:
        warnings.warn(f"khop.sparse leaves tensors on cuda:{ordinal} to torch: {e}", RuntimeWarning, stacklevel=2)
        return False
    return True


class _Side(NamedTuple):
    """Compressed rows. order says which of the caller's edges stands at each place; None: they are in order."""

    indptr: Tensor
    indices: Tensor
    order: Optional[Tensor]

    def arranged(self, values: Tensor) -> Tensor:
        """Values [edges, heads] as kernels read them, [heads, edges]."""
        arranged: Tensor = (values if self.order is None else values.index_select(0, self.order)).t().contiguous()
        return arranged

    def back(self, values: Tensor) -> Tensor:
        """Those of kernels in the caller's layout."""
        there: Tensor = values.t().contiguous()
        return there if self.order is None else torch.empty_like(there).index_copy_(0, self.order, there)

    def inverse(self) -> Tensor:
        """1/edges of each row, 1 without edges; float32."""
        inverse: Tensor = 1 / (self.indptr[1:] - self.indptr[:-1]).clamp(min=1).float()
        return inverse


def _counted(like: Tensor, n: int) -> Tensor:
    """0 to n-1, of the dtype and on the device of another tensor."""
    counted: Tensor = like.new_ones(n).cumsum(0, dtype=like.dtype) - 1
    return counted


def _sorted(keys: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The bounds of each row's keys in order, and the order. Keys out of range are before the first row or behind the
    last."""
    keys, order = keys.sort(stable=True)
    return torch.searchsorted(keys, _counted(keys, rows + 1)), order


class Structure(spmm.Structure):
    """A structure on a device, made there at the first use, as is its transpose."""

    def __init__(
        self, under: Sequence[Tensor], rows: int, cols: int, on: int, side: _Side, in_rows: bool,
    ) -> None:
        super().__init__(under, rows, cols, side.indices.numel(), None, in_rows)
        self.on, self._sides = on, {False: side}

    def _side(self, transposed: bool) -> _Side:
        if transposed not in self._sides:
            a = self._sides[False]
            indptr, order = _sorted(a.indices, self.cols)
            rows = torch.searchsorted(a.indptr, _counted(a.indptr, self.edges), right=True).sub(1)
            edges = order if a.order is None else a.order.index_select(0, order)
            self._sides[True] = _Side(indptr, rows.index_select(0, order), edges)
        return self._sides[transposed]

    def stamp(self, values: Tensor) -> int:
        return 0  # nothing is kept of them

    def _put(self, operation: int, side: _Side, out: Tensor, rows: int, cols: int, **operands: Any) -> Tensor:
        tensors = {k: v for k, v in operands.items() if isinstance(v, Tensor)}
        numbers = {k: v for k, v in operands.items() if isinstance(v, int)}
        spmm.call("placed", ctypes.byref(_Placed(
            indptr=side.indptr.data_ptr(), indices=side.indices.data_ptr(), out=out.data_ptr(),
            stream=unified_tensor.devices.stream(self.on), rows=rows, cols=cols, edges=self.edges, device=self.on,
            indptr_bytes=side.indptr.element_size(), index_bytes=side.indices.element_size(), operation=operation,
            **{k: t.data_ptr() for k, t in tensors.items()}, **numbers)))
        return out

    def multiply(
        self, transposed: bool, reduce: int, values: Optional[Tensor], heads: int, x: Tensor, stamp: int,
        share: float = 0, seed: int = 0,
    ) -> Tensor:
        side, sides = self._side(transposed), (self.rows, self.cols)
        rows, cols = sides[::-1] if transposed else sides
        weights = None if values is None else side.arranged(values)
        if reduce == spmm.SPREAD and cols > 0:
            means = self._side(not transposed).inverse().index_select(0, side.indices.clamp(0, cols - 1))
            weights = means.unsqueeze(0) if weights is None else weights * means
        x = x.float()
        operation = spmm.MEAN if reduce == spmm.MEAN else spmm.SUM
        return self._put(operation, side, x.new_empty(rows, x.size(1)), rows, cols, values=weights, x=x,
                         width=x.size(1), heads=heads)

    def sample(self, heads: int, u: Tensor, v: Tensor) -> Tensor:
        side, out = self._side(False), u.new_zeros(heads, self.edges)
        return side.back(self._put(_SAMPLE, side, out, self.rows, self.cols, u=u, x=v, width=u.size(1), heads=heads))

    def inverse(self, transposed: bool) -> Tensor:
        inverse: Tensor = self._side(transposed).inverse().unsqueeze(1)
        return inverse

    def softmax(self, scores: Tensor, given: Optional[Tensor] = None) -> Tensor:
        """Computes softmax over the edges of each row of scores [edges, heads], float32; or its gradient, if scores are
        the result and given is the gradient with respect to it."""
        side = self._side(False)
        operation = _SOFTMAX if given is None else _SOFTMAX_BACKWARD
        out = scores.new_zeros(scores.size(1), self.edges)
        return side.back(self._put(
            operation, side, out, self.rows, self.cols, values=side.arranged(scores),
            u=None if given is None else side.arranged(given), heads=scores.size(1)))


def in_rows(on: int, rows: int, cols: int, under: Sequence[Tensor]) -> Structure:
    """Makes the structure of compressed rows, which must not lead beyond the edges."""
    indptr, indices, *order = under
    return Structure(under, rows, cols, on, _Side(indptr, indices, order[0].long() if order else None), True)


def of_edges(on: int, rows: int, cols: int, targets: Tensor, sources: Tensor) -> Structure:
    """Makes the structure of edges in any order. Those with the same targets share the sorted order."""
    if sources is targets:
        indptr, order = _sorted(targets, rows)
    else:
        groups: Any = spmm.of_edges(rows, rows, targets, targets)
        indptr, _, order = groups._side(False)
    return Structure((targets, sources), rows, cols, on, _Side(indptr, sources.index_select(0, order), order), False)


class _Softmax(torch.autograd.Function):
    """Softmax over the edges of each target, of scores [edges, heads]."""

    @staticmethod
    def forward(ctx: Any, s: Structure, targets: Tensor, scores: Tensor) -> Tensor:
        ctx.s = s
        out = s.softmax(scores)
        ctx.save_for_backward(out, targets)
        return out

    @staticmethod
    def backward(ctx: Any, given: Any) -> Any:
        out, targets = ctx.saved_tensors
        if not torch.is_grad_enabled() and spmm._direct(given):
            return None, None, ctx.s.softmax(out, given.contiguous())
        sums = out.new_zeros(ctx.s.rows, out.size(1)).index_add(0, targets, out * given)  # differentiated again
        return None, None, out * (given - sums.index_select(0, targets))


def softmax(src: Any, index: Any, num_nodes: Optional[int], dim: int) -> Tensor:
    """Computes torch_geometric.utils.softmax over groups of an index. Refused if it is not on a device, or if khop has
    no such softmax."""
    fits = spmm.usable() and spmm.fits(src, {torch.float32}) and spmm.fits(index, spmm.INTEGERS)
    if not fits or dim != 0 or src.dim() not in (1, 2) or index.dim() != 1 or index.numel() != src.size(0):
        raise spmm.Refused
    on = spmm.place(src)
    if on is None or spmm.place(index) != on or src.numel() == 0:
        raise spmm.Refused
    rows = int(index.max()) + 1 if num_nodes is None else num_nodes
    s: Any = spmm.of_edges(rows, rows, index, index)
    out: Tensor = _Softmax.apply(s, index, src.reshape(src.size(0), -1)).view(src.shape)
    return out


spmm.on_devices = sys.modules[__name__]
