"""Products as operations of torch.library, for what looks at operations instead of running them: torch.compile, and the
transforms of torch.func. They have shapes, gradients and rules of vmap of their own. They need torch 2.5.

An operation takes the ends of the edges and the number of their structure, which structure() returns. Compiled code
writes to memory that it has used before, and torch does not count that: so the number is that of equal contents.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .._native import library as _library
from . import by_torch, spmm
from ..errors import KhopError
from .recent import Recent

_torch: Any = torch  # what its types do not tell
_define_by: Any = torch.library
AVAILABLE = all(hasattr(_define_by, name) for name in ("custom_op", "register_vmap"))
_SCHEMA = "Tensor number, Tensor targets, Tensor sources, SymInt rows, SymInt cols"


class _Numbered:
    """The structures of the contents used last, by number, with copies of these contents."""

    def __init__(self, keep: int) -> None:
        self._lock = threading.Lock()
        self._all: Recent[spmm.Structure] = Recent(keep)
        self._next = 0

    def number(self, targets: Tensor, sources: Tensor, rows: int, cols: int) -> int:
        with self._lock:
            for number, s in reversed(self._all.items()):
                if (s.rows, s.cols) == (rows, cols) and s.under[0].dtype == targets.dtype and torch.equal(
                        s.under[0], targets) and torch.equal(s.under[1], sources):
                    self._all.move_to_end(number)
                    return int(number)
            try:
                s = spmm.made_of_edges(rows, cols, targets.clone(), sources.clone())
            except KhopError as e:
                raise IndexError(f"khop.sparse: {e}") from None
            self._next += 1
            self._all.put(self._next, s)
            return self._next

    def find(self, number: Tensor, *contents: Any) -> spmm.Structure:
        with self._lock:
            s = self._all.get(int(number))
        return s if s is not None else self._all[self.number(*contents)]

    def clear(self) -> None:
        with self._lock:
            self._all.clear()


numbered = _Numbered(16)


class _Plain:
    """A structure that torch computes with: in a forked process, which the library does not survive."""

    def __init__(self, targets: Tensor, sources: Tensor, rows: int, cols: int) -> None:
        self._ends, self.rows, self.cols, self.edges = (targets.long(), sources.long()), rows, cols, targets.numel()

    def ends(self) -> tuple[Tensor, Tensor, None]:
        return *self._ends, None

    def inverse(self, transposed: bool) -> Tensor:
        n = self.cols if transposed else self.rows
        inverse: Tensor = 1 / self._ends[transposed].bincount(minlength=n).clamp(min=1).float().unsqueeze(1)
        return inverse


def _structure(targets: Tensor, sources: Tensor, rows: int, cols: int) -> Tensor:
    return torch.tensor([numbered.number(targets, sources, rows, cols) if _library.loaded() else 0])


def _multiply(
    number: Tensor, targets: Tensor, sources: Tensor, rows: int, cols: int, transposed: bool, reduce: int,
    values: Optional[Tensor], x: Tensor,
) -> Tensor:
    """products.Structure.multiply, of a result that has x's dtype, or float32 if values have it. Nothing is kept of the
    values: compiled code changes them where torch does not count that."""
    weights = None if values is None else values.float().contiguous()
    if _library.loaded():
        s = numbered.find(number, targets, sources, rows, cols)
        y = s.multiply(transposed, reduce, weights, 1 if values is None else values.size(1), x.contiguous(), 0)
    else:
        plain = _Plain(targets, sources, rows, cols)
        y = by_torch.multiply(plain, transposed, reduce == spmm.MEAN, reduce == spmm.SPREAD, weights, x)
    return y if values is not None and values.dtype == torch.float32 else y.to(x.dtype)


def _sample(
    number: Tensor, targets: Tensor, sources: Tensor, rows: int, cols: int, heads: int, u: Tensor, v: Tensor,
) -> Tensor:
    """products.Structure.sample."""
    if not _library.loaded():
        return by_torch.sample(_Plain(targets, sources, rows, cols), heads, u, v)
    s = numbered.find(number, targets, sources, rows, cols)
    return s.sample(heads, u.contiguous(), v.contiguous())


def _define() -> tuple[Any, Any, Any]:
    """The operations structure, multiply and sample."""
    define = _define_by.custom_op
    structure = define("khop::structure", _structure, mutates_args=(), device_types="cpu",
                       schema="(Tensor targets, Tensor sources, SymInt rows, SymInt cols) -> Tensor")
    multiply = define("khop::multiply", _multiply, mutates_args=(), device_types="cpu",
                      schema=f"({_SCHEMA}, bool transposed, int reduce, Tensor? values, Tensor x) -> Tensor")
    sample = define("khop::sample", _sample, mutates_args=(), device_types="cpu",
                    schema=f"({_SCHEMA}, int heads, Tensor u, Tensor v) -> Tensor")
    structure.register_fake(lambda targets, *rest: targets.new_empty(1, dtype=torch.int64))
    multiply.register_fake(_shape_of_product)
    sample.register_fake(lambda number, targets, sources, rows, cols, heads, u, v: u.new_empty(
        targets.size(0), heads, dtype=torch.float32))
    gradients = _Gradients(multiply, sample)
    multiply.register_autograd(gradients.of_product, setup_context=_keep_of_product)
    sample.register_autograd(gradients.of_sample, setup_context=_keep_of_sample)
    multiply.register_vmap(_beside(multiply))
    for operation in (structure, sample):
        operation.register_vmap(_one_by_one(operation))
    return structure, multiply, sample


def _shape_of_product(
    number: Tensor, targets: Tensor, sources: Tensor, rows: int, cols: int, transposed: bool, reduce: int,
    values: Optional[Tensor], x: Tensor,
) -> Tensor:
    dtype = torch.float32 if values is not None and values.dtype == torch.float32 else x.dtype
    y: Tensor = x.new_empty(cols if transposed else rows, x.size(1), dtype=dtype)
    return y


def _keep_of_product(ctx: Any, inputs: Any, output: Any) -> None:
    *edges, rows, cols, transposed, reduce, values, x = inputs
    ctx.what = rows, cols, transposed, reduce, x.dtype
    ctx.save_for_backward(*edges, values, x if values is not None and ctx.needs_input_grad[7] else None)


def _keep_of_sample(ctx: Any, inputs: Any, output: Any) -> None:
    *edges, rows, cols, _, u, v = inputs
    ctx.what = rows, cols
    ctx.save_for_backward(*edges, u, v)


class _Gradients:
    """The gradients of products and samples, by a function multiply and a function sample."""

    def __init__(self, multiply: Any, sample: Any) -> None:
        self._multiply, self._sample = multiply, sample

    def of_product(self, ctx: Any, dy: Tensor) -> Any:
        rows, cols, transposed, reduce, dtype = ctx.what
        *edges, values, x = ctx.saved_tensors
        dvalues = dx = None
        if ctx.needs_input_grad[8]:
            dx = self._multiply(*edges, rows, cols, not transposed, spmm.TRANSPOSED[reduce], values, dy).to(dtype)
        if ctx.needs_input_grad[7]:
            u, v = dy.float(), x.float()
            if reduce == spmm.MEAN:
                u = u * self._inverse(edges, rows, cols, transposed)
            if reduce == spmm.SPREAD:
                v = v * self._inverse(edges, rows, cols, not transposed)
            u, v = (v, u) if transposed else (u, v)
            dvalues = self._sample(*edges, rows, cols, values.size(1), u, v).to(values.dtype)
        return None, None, None, None, None, None, None, dvalues, dx

    def _inverse(self, edges: Any, rows: int, cols: int, transposed: bool) -> Any:
        """1/edges of each row, or of each column; [n, 1]."""
        ones = torch.ones(rows if transposed else cols, 1)
        return 1 / self._multiply(*edges, rows, cols, transposed, spmm.SUM, None, ones).clamp(min=1)

    def of_sample(self, ctx: Any, dout: Tensor) -> Any:
        rows, cols = ctx.what
        *edges, u, v = ctx.saved_tensors
        needs_u, needs_v = ctx.needs_input_grad[6:]
        du = self._multiply(*edges, rows, cols, False, spmm.SUM, dout, v) if needs_u else None
        dv = self._multiply(*edges, rows, cols, True, spmm.SUM, dout, u) if needs_v else None
        return None, None, None, None, None, None, du, dv


def _one_by_one(operation: Any) -> Any:
    def rule(info: Any, in_dims: Any, *args: Any) -> Any:
        def one(i: int) -> Any:
            return operation(*(a if d is None else a.select(d, i) for a, d in zip(args, in_dims)))
        return torch.stack([one(i) for i in range(info.batch_size)]), 0
    return rule


def _beside(multiply: Any) -> Any:
    """The rule of products: one of all rows beside each other, where only they differ."""
    one_by_one = _one_by_one(multiply)

    def rule(info: Any, in_dims: Any, *args: Any) -> Any:
        if info.batch_size == 0 or any(d is not None for d in in_dims[:-1]):
            return one_by_one(info, in_dims, *args)
        *rest, values, x = args
        heads = 1 if values is None else values.size(1)
        x = x.movedim(in_dims[-1], 1)
        n, batch, width = x.shape
        x = x.reshape(n, batch, heads, width // heads).transpose(1, 2).reshape(n, batch * width)
        y = multiply(*rest, values, x)
        y = y.view(y.size(0), heads, batch, width // heads).transpose(1, 2)
        return y.reshape(y.size(0), batch, width), 1
    return rule


class _Product(torch.autograd.Function):
    """multiply for transforms of torch.func, which take no gradients of operations."""

    forward: Any = staticmethod(_multiply)
    setup_context = staticmethod(_keep_of_product)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return _transformed.of_product(ctx, dy)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        return _beside(_Product.apply)(info, in_dims, *args)


class _Sampled(torch.autograd.Function):
    """sample, likewise."""

    forward: Any = staticmethod(_sample)
    setup_context = staticmethod(_keep_of_sample)

    @staticmethod
    def backward(ctx: Any, dout: Any) -> Any:
        return _transformed.of_sample(ctx, dout)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        return _one_by_one(_Sampled.apply)(info, in_dims, *args)


_transformed = _Gradients(_Product.apply, _Sampled.apply)
_made: Any = _define() if AVAILABLE else (None, None, None)
structure, multiply, sample = _made


def has_rules() -> bool:
    """Whether there are rules for what torch transforms here and now: vmap and gradients, not forward mode."""
    stack = _torch._C._functorch.get_interpreter_stack() or ()
    return forward_ad._current_level < 0 and all(str(i.key()).endswith((".Vmap", ".Grad")) for i in stack)


def computes(s: spmm.Structure) -> bool:
    """Whether product and dots compute with a structure and tensors that torch.func transforms. Batched gradients of
    torch.autograd are older, and have no such rules."""
    return spmm.transforms() is not None and not s.in_rows and s.on is None and has_rules()


def product(s: spmm.Structure, transposed: bool, reduce: int, values: Optional[Tensor], x: Tensor) -> Any:
    """products.Structure.multiply of tensors that torch transforms."""
    return _Product.apply(*_edges(s), transposed, reduce, values, x)


def dots(s: spmm.Structure, heads: int, u: Tensor, v: Tensor) -> Any:
    """products.Structure.sample of tensors that torch transforms."""
    return _Sampled.apply(*_edges(s), heads, u, v)


def _edges(s: spmm.Structure) -> tuple[Tensor, Tensor, Tensor, int, int]:
    return structure(*s.under, s.rows, s.cols), *s.under, s.rows, s.cols


def aggregate(
    targets: Tensor, sources: Tensor, rows: Any, reduce: str, values: Optional[Tensor], x: Tensor,
) -> Tensor:
    """Returns sums or means of rows of x [columns, ...] by target, compiled or transformed. values are [edges, heads],
    or None: 1 everywhere."""
    edges = structure(targets, sources, rows, x.size(0)), targets, sources
    multiplied = multiply if spmm.compiling() else _Product.apply
    flat = x.reshape(x.size(0), -1)
    y: Tensor = multiplied(*edges, rows, x.size(0), False, spmm.SUMS[reduce], values, flat)
    shaped: Tensor = y.view(rows, *x.shape[1:])
    return shaped


if AVAILABLE:
    spmm.by_operations = sys.modules[__name__]
