"""Computes messages of PyG's layers that are sums over edges, without a row for each edge.

A layer of PyG gathers the rows of x at the sources of the edges (x_j), makes messages of them, and reduces the messages
by target. Rows stands for rows that are not gathered yet. If a message is such rows, or those times a weight per edge
or per head, the reduction is a product of khop.products. Any other operation gathers the rows first, so layers see no
difference.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional

import torch
from torch import Tensor

from . import products
from .ring import lent

_torch: Any = torch  # what its types do not tell
_WITHOUT_ROWS = {
    Tensor.shape.__get__, Tensor.dtype.__get__, Tensor.device.__get__, Tensor.layout.__get__, Tensor.ndim.__get__,
    Tensor.requires_grad.__get__, Tensor.is_cuda.__get__, Tensor.is_sparse.__get__, Tensor.size, Tensor.dim,
    Tensor.numel, Tensor.is_floating_point, Tensor.__len__, torch.is_floating_point, torch.numel,
}
"""What can be asked of rows that were not gathered."""

_TIMES = {torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__}


class Rows(Tensor):
    """x[index] that is not gathered yet, times weights if there are any: [edges], or [edges, heads] for equal parts of
    x's rows."""

    _x: Tensor
    _index: Tensor
    _weights: Optional[Tensor]
    _select: Callable[[Tensor, Tensor], Tensor]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _WITHOUT_ROWS:
            with _torch._C.DisableTorchFunction():
                return func(*args, **(kwargs or {}))
        if func in _TIMES and len(args) == 2 and not kwargs:
            rows, weights = args if type(args[0]) is Rows else args[::-1]
            heads = _heads(rows, weights)
            if heads:
                return _rows(rows._x, rows._index, weights.reshape(-1, heads), rows._select)
        return func(*_gathered(args), **_gathered(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None,
    ) -> Any:
        """What comes past __torch_function__, such as a scripted function. The gradient is that of _Lazy."""
        return func(*_gathered(args, False), **_gathered(kwargs or {}, False))

    def gather(self, differentiate: bool = True) -> Any:
        """Returns the rows."""
        x, weights = (self._x, self._weights) if differentiate else (self._x.detach(), self._weights)
        rows = self._select(x, self._index)
        if weights is None:
            return rows
        weights = weights if differentiate else weights.detach()
        return rows * _aligned(weights, rows)


class _Lazy(torch.autograd.Function):
    """Makes Rows. The gradient is what counts where torch computes with them and does not tell Rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, weights: Optional[Tensor]) -> Tensor:
        ctx.save_for_backward(x, index, *(() if weights is None else (weights,)))
        dtype = x.dtype if weights is None else torch.promote_types(x.dtype, weights.dtype)
        rows: Tensor = _torch.Tensor._make_wrapper_subclass(
            Rows, (index.numel(), *x.shape[1:]), dtype=dtype, device=x.device)
        return rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, index, *weights = ctx.saved_tensors
        dweights = None
        if weights:
            if ctx.needs_input_grad[2]:
                dweights = (grad * x.index_select(0, index)).reshape(*weights[0].shape, -1).sum(-1)
            grad = grad * _aligned(weights[0], grad)
        return torch.zeros_like(x).index_add(0, index, grad.to(x.dtype)), None, dweights


def _rows(x: Tensor, index: Tensor, weights: Optional[Tensor], select: Callable[[Tensor, Tensor], Tensor]) -> Any:
    rows: Any = _Lazy.apply(x, index, weights)
    rows._x, rows._index, rows._weights, rows._select = x, index, weights, select
    return rows


def _aligned(weights: Tensor, rows: Tensor) -> Any:
    """Weights [edges, heads] in a shape that rows can be multiplied with."""
    shape = weights.shape if weights.size(1) > 1 else (-1,)
    return weights.view(*shape, *(1,) * (rows.dim() - len(shape)))


def _heads(rows: Any, weights: Any) -> int:
    """How many heads rows times weights would have, as weights of edges; 0 where it is something else."""
    if type(rows) is not Rows or rows._weights is not None or not products.fits(weights, ROWS):
        return 0
    if weights.dtype != rows._x.dtype and not (weights.dtype == torch.float32 and products.fits(rows._x)):
        return 0
    x, w = rows._x, weights.shape
    if len(w) != x.dim() or w[0] != rows._index.numel() or w[0] == 1 or any(n != 1 for n in w[2:]):
        return 0
    if w[1] == 1:
        return 1
    return int(w[1]) if x.dim() > 2 and w[1] == x.size(1) else 0


def _gathered(value: Any, differentiate: bool = True) -> Any:
    """The same with rows in the place of Rows."""
    if type(value) is Rows:
        return value.gather(differentiate)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_gathered(v, differentiate) for v in value)
    if type(value) is dict:
        return {k: _gathered(v, differentiate) for k, v in value.items()}
    return value


def select(node_dim: int, x: Any, index: Any, original: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """Returns the rows of x at the sources or targets of edges. They are gathered later, if khop may not need them."""
    if (
        products.usable() and products.fits(x, ROWS) and products.fits(index, products.INTEGERS) and index.dim() == 1
        and x.dim() > 1 and node_dim in (0, -x.dim())
    ):
        return _rows(x, index, None, original)
    return original(x, index)


def scatter(
    src: Any, index: Any, dim: int, dim_size: Optional[int], reduce: str, ties: Optional[int],
    original: Callable[..., Tensor],
) -> Any:
    """Computes torch_geometric.utils.scatter, by a product if src is Rows. ties chooses which of equal extremes get the
    gradient."""
    if type(src) is not Rows:
        return original(src, index, dim, dim_size, reduce)
    try:
        if not _along_rows(src, reduce, dim) or not products.fits(index, products.INTEGERS):
            raise products.Refused
        if dim_size is None:
            dim_size = int(index.max()) + 1 if index.numel() > 0 else 0
        s = products.of_edges(dim_size, src._x.size(0), index, src._index)
        return products.aggregate(s, reduce, src._weights, src._x, ties)
    except products.Refused:
        return original(src.gather(), index, dim, dim_size, reduce)


def segment(src: Any, ptr: Any, reduce: str, original: Callable[..., Tensor]) -> Any:
    """Computes torch_geometric.utils.segment, by a product if src is Rows and the reduction a sum or mean. Gradients of
    its extremes follow no rule that khop has, if several rows are extreme."""
    if type(src) is not Rows:
        return original(src, ptr, reduce)
    try:
        if reduce not in products.SUMS or not _along_rows(src, reduce, 0):
            raise products.Refused
        s = products.in_rows(ptr.numel() - 1, src._x.size(0), ptr, src._index)
        return products.aggregate(s, reduce, src._weights, src._x)
    except products.Refused:
        return original(src.gather(), ptr, reduce)


def _along_rows(src: Rows, reduce: str, dim: int) -> bool:
    return products.computes(reduce, src._x) and dim in (0, -src._x.dim())


def ties_of(reduce: Callable[[Tensor, Tensor], Tensor], groups: Tensor) -> Optional[int]:
    """Returns which of equal extremes get the gradient, for a function of values [4, 1] in two groups of two: see
    products.FIRST. None if it follows no known rule."""
    with torch.enable_grad():
        x = torch.tensor([[0.0], [0.0], [1.0], [1.0]], requires_grad=True)
        try:
            gradient, = torch.autograd.grad(reduce(x, groups).sum(), x)
        except (RuntimeError, ImportError):  # this torch has none
            return None
    known = {products.FIRST: [1, 0, 1, 0], products.SHARED: [1 / 2] * 4,
             products.SHARED_WITH_ZERO: [1 / 3, 1 / 3, 1 / 2, 1 / 2]}
    return next((t for t, g in known.items() if torch.allclose(gradient.view(-1), torch.tensor(g).float())), None)


class Memory:
    """Results of functions of tensors and matrices, kept as long as neither arguments nor results change."""

    def __init__(self, keep: int) -> None:
        self._lock = threading.Lock()
        self._all: products.Recent[tuple[list[Tensor], list[int], Any]] = products.Recent(keep)

    def call(self, f: Callable[..., Any], given: tuple[Any, ...], rest: tuple[Any, ...]) -> Any:
        """Returns f(*given, *rest). Arguments and results may be None."""
        if torch.is_inference_mode_enabled() or not all(map(_lasting, given)):
            return f(*given, *rest)
        with self._lock:
            key = f, rest, *map(_identity, given)
            _, versions, results = self._all.get(key, ([], [], None))
            if results is not None and versions == _versions(results):
                self._all.move_to_end(key)
                return results
        results = f(*given, *rest)
        if all(map(_lasting, _each(results))):
            with self._lock:
                kept = [p.detach() for t in given for p in products.parts(t)]  # so that no other takes their place
                key = f, rest, *map(_identity, given)  # torch counts a change where gcn_norm reads a COO
                self._all.put(key, (kept, _versions(results), results))
        return results

    def clear(self) -> None:
        with self._lock:
            self._all.clear()


def _each(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _versions(results: Any) -> list[int]:
    return [p._version for r in _each(results) for p in products.parts(r)]


def _identity(t: Any) -> Any:
    """What tells a tensor or matrix from another one, and from itself when it was changed."""
    if t is None:
        return None
    sizes = t.shape if isinstance(t, Tensor) else tuple(t.sparse_sizes())
    coalesced = isinstance(t, Tensor) and t.layout == torch.sparse_coo and t.is_coalesced()
    return type(t), getattr(t, "layout", None), sizes, coalesced, *(
        (p.data_ptr(), p._version, p.shape, p.stride(), p.dtype) for p in products.parts(t))


def _lasting(t: Any) -> bool:
    """Whether a tensor or matrix may be kept, and is the same as long as torch has counted no change."""
    if t is None:
        return True
    parts = products.parts(t)
    return bool(parts) and not getattr(t, "requires_grad", False) is True and all(
        products.fits(p, _ANY) and not p.requires_grad and not p.is_inference() and not lent(p.data_ptr())
        for p in parts)


ROWS = {*products.FLOATS, *products.DOUBLES}
_ANY = {*products.INTEGERS, *ROWS}
