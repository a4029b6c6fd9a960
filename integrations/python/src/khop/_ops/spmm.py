"""Products of sparse and dense matrices by khop's kernels, as functions that torch differentiates.

A Structure is a matrix without its values: the library has it under a handle, with the transpose, which it makes once.
structure() finds the one of given tensors again, while the tensors are unchanged. khop.sparse replaces products of
torch, PyG and DGL by these. placed has the structures on CUDA devices.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any, Callable, Optional, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .._native import library as _library
from . import by_torch
from .._unified import tensor as unified_tensor
from ..errors import KhopError
from .recent import Recent
from .._feed.ring import lent
from .._native.page_pool import Rooms

_torch: Any = torch  # what its types do not tell
SUM, MEAN, SPREAD = 0, 1, 2
TRANSPOSED = {SUM: SUM, MEAN: SPREAD, SPREAD: MEAN}
"""The reduction of the gradient with respect to x."""

SUMS = {"sum": SUM, "add": SUM, "mean": MEAN}
EXTREMES = {"max": False, "min": True, "amax": False, "amin": True}
"""By the name: whether it is the least."""
FIRST, SHARED, SHARED_WITH_ZERO = 0, 1, 2
"""Whose the gradient of an extreme is where several edges have it: the first one's; of all, in equal parts; or so that
an extreme of 0 counts as one that nobody has, too, which takes its part of the gradient."""

FLOATS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
DOUBLES = {torch.float32: 0, torch.float64: 3}
"""What extremes are computed of."""
INTEGERS = {torch.int32: 4, torch.int64: 8}

rooms = Rooms(kept=64, most=0)
"""Memory of results on the CPU."""


class Refused(Exception):
    """A case that khop does not compute. The caller falls back to the original function."""


class _Product(ctypes.Structure):
    _fields_ = [
        ("values", ctypes.c_void_p), ("x", ctypes.c_void_p), ("y", ctypes.c_void_p), ("width", ctypes.c_int64),
        ("heads", ctypes.c_int64), ("stamp", ctypes.c_uint64), ("turned", ctypes.c_int32), ("reduce", ctypes.c_int32),
        ("dtype", ctypes.c_int32), ("threads", ctypes.c_int32), ("share", ctypes.c_double), ("seed", ctypes.c_uint64),
    ]


class _Extreme(ctypes.Structure):
    _fields_ = [
        ("values", ctypes.c_void_p), ("x", ctypes.c_void_p), ("y", ctypes.c_void_p), ("places", ctypes.c_void_p),
        ("width", ctypes.c_int64), ("least", ctypes.c_int32), ("dtype", ctypes.c_int32), ("threads", ctypes.c_int32),
    ]


class _Winners(ctypes.Structure):
    _fields_ = [
        ("values", ctypes.c_void_p), ("x", ctypes.c_void_p), ("y", ctypes.c_void_p), ("u", ctypes.c_void_p),
        ("out", ctypes.c_void_p), ("width", ctypes.c_int64), ("turned", ctypes.c_int32), ("dtype", ctypes.c_int32),
        ("threads", ctypes.c_int32),
    ]


class _Sampled(ctypes.Structure):
    _fields_ = [
        ("u", ctypes.c_void_p), ("v", ctypes.c_void_p), ("out", ctypes.c_void_p), ("width", ctypes.c_int64),
        ("heads", ctypes.c_int64), ("threads", ctypes.c_int32),
    ]


_P, _I, _L = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "rows": (_L, _L, _L, _P, _I, _P, _I, _P, _I, ctypes.POINTER(_library.Handle)),
    "edges": (_L, _L, _L, _P, _P, _I, ctypes.POINTER(_library.Handle)),
    "multiply": (_library.Handle, ctypes.POINTER(_Product)),
    "extreme": (_library.Handle, ctypes.POINTER(_Extreme)),
    "winners": (_library.Handle, ctypes.POINTER(_Winners)),
    "sample": (_library.Handle, ctypes.POINTER(_Sampled)),
    "operations": (ctypes.POINTER(_L),),
    "device": (_I,),
    "placed": (_P,),
}
_functions: dict[str, Callable[..., int]] = {}


def call(name: str, *arguments: Any) -> None:
    f = _functions.get(name)
    if f is None:
        f = _functions[name] = _library.load().function("khop_sparse_" + name, *_FUNCTIONS[name])
    f(*arguments)


def operations() -> int:
    """Returns how many products khop has computed in this process."""
    count = ctypes.c_int64()
    call("operations", count)
    return count.value


def usable() -> bool:
    """Whether khop can compute here and now: the library is loaded, and torch runs operations as they are called."""
    return _library.loaded() and not (
        _torch.jit.is_tracing() or forward_ad._current_level >= 0 or compiling() or transforms() is not None
    )


compiling: Callable[[], bool] = getattr(
    getattr(_torch, "compiler", None), "is_compiling", getattr(_torch._utils, "is_compiling", lambda: False))
"""torch before 2.3 has it elsewhere."""
transforms: Callable[[], Any] = getattr(getattr(_torch._C, "_functorch", None), "peek_interpreter_stack", lambda: None)


def place(t: Any) -> Optional[int]:
    """Returns the CUDA device that a tensor is on, None for the CPU."""
    on: Optional[int] = unified_tensor.devices.ordinal(t)
    return on


def fits(t: Any, dtypes: Any = FLOATS) -> bool:
    """Whether khop can compute with a tensor: an ordinary one, on the CPU or a device that the library supports, of one
    of the dtypes."""
    if type(t) not in (Tensor, torch.nn.Parameter) or t.layout != torch.strided or t.dtype not in dtypes:
        return False
    on = place(t)
    if on is None:
        return bool(t.device.type == "cpu")
    return on_devices is not None and bool(on_devices.serves(on))


def computes(reduce: str, x: Any) -> bool:
    """Whether khop has a reduction of rows like x."""
    return reduce in SUMS and fits(x) or reduce in EXTREMES and fits(x, DOUBLES) and place(x) is None


def version(t: Tensor) -> Optional[int]:
    """Returns how often a tensor was changed in place; None if torch does not count."""
    return None if t.is_inference() else t._version


def parts(t: Any) -> tuple[Tensor, ...]:
    """Returns the strided tensors that hold a tensor, or a matrix of torch or torch_sparse: structure first, values
    last. None for other objects."""
    if hasattr(t, "csr") and hasattr(t, "sparse_sizes"):  # torch_sparse.SparseTensor
        return tuple(p for p in t.csr() if p is not None)
    if type(t) not in (Tensor, torch.nn.Parameter):
        return ()
    if t.layout == torch.sparse_coo:
        return t._indices(), t._values()
    if t.layout == torch.sparse_csr:
        return t.crow_indices(), t.col_indices(), t.values()
    if t.layout == torch.sparse_csc:
        return t.ccol_indices(), t.row_indices(), t.values()
    return (t,) if t.layout == torch.strided else ()


class Structure:
    """A sparse matrix of khop without values. It owns its tensors, which must not change."""

    on: Optional[int] = None  # the CUDA device

    def __init__(
        self, under: Sequence[Tensor], rows: int, cols: int, edges: int, make: Optional[Callable[..., None]],
        in_rows: bool,
    ) -> None:
        self.rows, self.cols, self.edges, self.in_rows = rows, cols, edges, in_rows
        self.under = tuple(t.detach() for t in under)
        self.versions = tuple(map(version, self.under))
        self._values: Optional[tuple[Tensor, Optional[int]]] = None  # of the last product, and what has its stamp
        self._stamp = 0
        self._inverses: dict[bool, Tensor] = {}
        self._degrees: dict[bool, Tensor] = {}
        self._heavy: dict[tuple[bool, float], float] = {}
        self._squares: dict[bool, tuple[int, Tensor]] = {}  # with the stamp of the values
        if make is not None:
            self._handle = _library.Handle()
            make(self._handle)
            self.number = int(self._handle.value)
            weakref.finalize(self, _library.load().close, self._handle.value).atexit = False

    def unchanged(self) -> bool:
        return all(v is not None and v == version(t) for v, t in zip(self.versions, self.under))

    def stamp(self, values: Tensor) -> int:
        """Returns a number that identifies these values, while they are the last ones and do not change."""
        now = version(values)
        if now is None or values.requires_grad or lent(values.data_ptr()):
            return 0
        if self._values is not None:
            last, then = self._values
            if then == now and last.data_ptr() == values.data_ptr() and last.shape == values.shape:
                return self._stamp
        self._values, self._stamp = (values.detach(), now), self._stamp + 1
        return self._stamp

    def ends(self) -> tuple[Tensor, Tensor, Optional[Tensor]]:
        """The row and the column of each edge, and which of the caller's edges each is; None: they are in order."""
        if not self.in_rows:
            return self.under[0].long(), self.under[1].long(), None
        indptr, indices, *order = (t.long() for t in self.under)
        rows = torch.repeat_interleave(torch.arange(self.rows, device=indptr.device), indptr.diff())
        return rows, indices, order[0] if order else None

    def multiply(
        self, transposed: bool, reduce: int, values: Optional[Tensor], heads: int, x: Tensor, stamp: int,
        share: float = 0, seed: int = 0,
    ) -> Tensor:
        """Returns the product with x [columns, width]; float32. values is float32 [edges, heads], both are contiguous.
        With a share it uses some rows of x, drawn with the seed."""
        y = rooms.tensor(self.cols if transposed else self.rows, x.size(1), dtype=torch.float32)
        product = _Product(
            _address(values), x.data_ptr(), y.data_ptr(), x.size(1), heads, stamp, transposed, reduce, FLOATS[x.dtype],
            torch.get_num_threads(), share, seed)
        call("multiply", self._handle, product)
        return y

    def extreme(self, least: bool, values: Optional[Tensor], x: Tensor, places: Optional[Tensor] = None) -> Tensor:
        """Returns the greatest or the least rows of each row, and the places of their edges. values are [edges]; all
        are contiguous, and of x's dtype."""
        y = rooms.tensor(self.rows, x.size(1), dtype=x.dtype)
        call("extreme", self._handle, _Extreme(
            _address(values), x.data_ptr(), y.data_ptr(), _address(places), x.size(1), least, DOUBLES[x.dtype],
            torch.get_num_threads()))
        return y

    def winners(
        self, transposed: bool, values: Optional[Tensor], y: Tensor, x: Tensor, u: Optional[Tensor] = None,
    ) -> Tensor:
        """Returns the sums of u over the edges of the extremes, or how many these are."""
        out = rooms.tensor(self.cols if transposed else self.rows, x.size(1), dtype=x.dtype)
        call("winners", self._handle, _Winners(
            _address(values), x.data_ptr(), y.data_ptr(), _address(u), out.data_ptr(), x.size(1), transposed,
            DOUBLES[x.dtype], torch.get_num_threads()))
        return out

    def sample(self, heads: int, u: Tensor, v: Tensor) -> Tensor:
        """Returns the dot products of parts of rows of u and v at the ends of the edges, [edges, heads]."""
        out = rooms.tensor(self.edges, heads, dtype=torch.float32)
        sampled = _Sampled(u.data_ptr(), v.data_ptr(), out.data_ptr(), u.size(1), heads, torch.get_num_threads())
        call("sample", self._handle, sampled)
        return out

    def inverse(self, transposed: bool) -> Tensor:
        """Returns 1/edges of each row, or of each column; [n, 1]."""
        if transposed not in self._inverses:
            ones = torch.ones(self.rows if transposed else self.cols, 1)
            self._inverses[transposed] = 1 / self.multiply(transposed, SUM, None, 1, ones, 0).clamp_(min=1)
        return self._inverses[transposed]

    def degrees(self, transposed: bool) -> Tensor:
        """Returns the edges of each row, or of each column; int64."""
        if transposed not in self._degrees:
            rows, columns, _ = self.ends()
            self._degrees[transposed] = (columns if transposed else rows).bincount(
                minlength=self.cols if transposed else self.rows)
        return self._degrees[transposed]

    def squares(self, transposed: bool, values: Tensor, stamp: int) -> Tensor:
        """Returns the sums of squares of the values of rows, or of columns. values are float32 [edges, 1]."""
        kept = self._squares.get(transposed)
        if kept is None or stamp == 0 or kept[0] != stamp:
            rows, columns, order = self.ends()
            each = values.view(-1).square()
            kept = self._squares[transposed] = stamp, (columns if transposed else rows).bincount(
                each if order is None else each[order], minlength=self.cols if transposed else self.rows)
        return kept[1]

    def heavy(self, transposed: bool, share: float) -> float:
        """Returns the share of the edges that rows have, or columns, which are kept in a gradient of a share of them,
        since they have more than a quarter of that."""
        if (transposed, share) not in self._heavy:
            degrees = self.degrees(transposed)
            many = degrees[degrees > share * self.edges / 4]
            self._heavy[transposed, share] = float(many.sum()) / self.edges
        return self._heavy[transposed, share]


def _address(t: Optional[Tensor]) -> Optional[int]:
    return None if t is None else t.data_ptr()


def _floats(t: Tensor) -> Any:
    return t.float().contiguous()


draws: Any = None  # the Draws of patch; None: gradients are exact


class _Multiply(torch.autograd.Function):
    """y = a x, [rows, width]. values are [edges, heads], or None; under are the tensors of the structure."""

    @staticmethod
    def forward(
        ctx: Any, s: Structure, transposed: bool, reduce: int, stamp: int, values: Any, x: Tensor, *under: Tensor,
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.what = s, transposed, reduce, stamp
        learned = ctx.needs_input_grad[4]  # else x may change: the gradient does not need it
        ctx.of = x.dtype, learned, None if values is None else (values.dtype, values.size(1))
        ctx.save_for_backward(*(() if values is None else (values,)), *((x,) if learned else ()), *under)
        heads = 1 if values is None else values.size(1)
        y = s.multiply(transposed, reduce, None if values is None else _floats(values), heads, x.contiguous(), stamp)
        return y if values is not None and values.dtype == torch.float32 else y.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        s, transposed, reduce, stamp = ctx.what
        dtype, learned, of = ctx.of
        saved = ctx.saved_tensors  # once: what unpacks them by computing anew, such as checkpoints, does so once
        values = None if of is None else saved[0]
        dvalues = dx = None
        if dy is not None and ctx.needs_input_grad[5]:
            dx = _gradient(s, transposed, reduce, stamp, values, dy).to(dtype)
        if dy is not None and learned:
            u, v = dy.float(), saved[1].float()
            if reduce == MEAN:
                u = u * s.inverse(transposed)
            if reduce == SPREAD:
                v = v * s.inverse(not transposed)
            dvalues = _sample(s, of[1], *((v, u) if transposed else (u, v))).to(of[0])
        return (None, None, None, None, dvalues, dx) + (None,) * len(s.under)


def _gradient(
    s: Structure, transposed: bool, reduce: int, stamp: int, values: Optional[Tensor], dy: Tensor,
) -> Tensor:
    """The gradient of a product with respect to x."""
    if draws is not None and _direct(dy):
        drawn: Optional[Tensor] = draws.gradient(s, transposed, reduce, values, stamp, dy)
        if drawn is not None:
            return drawn
    return _multiply(s, not transposed, TRANSPOSED[reduce], stamp, values, dy)


def _direct(*tensors: Any) -> bool:
    """Whether the library can read tensors that gradients are made of: not those of vmap, or of forward mode."""
    if forward_ad._current_level >= 0 or transforms() is not None:
        return False
    try:
        return all(type(t) in (Tensor, torch.nn.Parameter) and t.data_ptr() >= 0 for t in tensors if t is not None)
    except RuntimeError:  # there is no memory behind one
        return False


def _multiply(s: Structure, transposed: bool, reduce: int, stamp: int, values: Optional[Tensor], x: Tensor) -> Tensor:
    """The product by the library, or by torch where that cannot be."""
    if _direct(values, x):
        y: Tensor = _Multiply.apply(s, transposed, reduce, stamp, values, x, *s.under)
        return y
    if by_operations is not None and by_operations.computes(s):
        y = by_operations.product(s, transposed, reduce, values, x)
        return y
    y = by_torch.multiply(s, transposed, reduce == MEAN, reduce == SPREAD, values, x)
    return y if values is not None and values.dtype == torch.float32 else y.to(x.dtype)


def _sample(s: Structure, heads: int, u: Tensor, v: Tensor) -> Tensor:
    """The dot products of rows at the ends of the edges by the library, or by torch where that cannot be."""
    if _direct(u, v):
        out: Tensor = _Sample.apply(s, heads, u, v, *s.under)
        return out
    if by_operations is not None and by_operations.computes(s):
        out = by_operations.dots(s, heads, u, v)
        return out
    return by_torch.sample(s, heads, u, v)


class _Sample(torch.autograd.Function):
    """The dot products of rows of u and v at the ends of the edges, [edges, heads]; all float32."""

    @staticmethod
    def forward(ctx: Any, s: Structure, heads: int, u: Tensor, v: Tensor, *under: Tensor) -> Tensor:
        ctx.s = s
        ctx.save_for_backward(u, v, *under)
        return s.sample(heads, u.contiguous(), v.contiguous())

    @staticmethod
    def backward(ctx: Any, dout: Any) -> Any:
        u, v = ctx.saved_tensors[:2]
        du = _multiply(ctx.s, False, SUM, 0, dout, v) if ctx.needs_input_grad[2] else None
        dv = _multiply(ctx.s, True, SUM, 0, dout, u) if ctx.needs_input_grad[3] else None
        return (None, None, du, dv) + (None,) * len(ctx.s.under)


class _Shared(torch.autograd.Function):
    """The extremes of rows, whose gradient goes to all edges that have them in equal parts."""

    @staticmethod
    def forward(
        ctx: Any, s: Structure, least: bool, ties: int, values: Optional[Tensor], x: Tensor, *under: Tensor,
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        x = x.clone(memory_format=torch.contiguous_format)  # whoever has it may change it
        y = s.extreme(least, values, x)
        ctx.what = s, ties, values is not None
        ctx.save_for_backward(*(() if values is None else (values,)), x, y, *under)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        s, ties, has_values = ctx.what
        saved = ctx.saved_tensors
        x, y = (t.detach() for t in saved[int(has_values):][:2])
        values = saved[0] if has_values else None
        dx = None
        if dy is not None:
            number = s.winners(False, values, y, x)
            if ties == SHARED_WITH_ZERO:
                number += y == 0
            dx = _won(s, True, values, y, x, torch.where(y.isnan(), y, dy / number))
        return (None, None, None, None, dx) + (None,) * len(s.under)


class _Won(torch.autograd.Function):
    """The sums of u over the edges that extremes y are of: the gradient of these, and the gradient of that."""

    @staticmethod
    def forward(
        ctx: Any, s: Structure, transposed: bool, values: Optional[Tensor], y: Tensor, x: Tensor, u: Tensor,
        *under: Tensor,
    ) -> Tensor:
        ctx.what = s, transposed, values is not None
        ctx.save_for_backward(*(() if values is None else (values,)), y, x, *under)
        return s.winners(transposed, values, y, x, u.contiguous())

    @staticmethod
    def backward(ctx: Any, dout: Any) -> Any:
        s, transposed, has_values = ctx.what
        saved = ctx.saved_tensors
        y, x = saved[int(has_values):][:2]
        values = saved[0] if has_values else None
        du = _won(s, not transposed, values, y, x, dout)
        return (None, None, None, None, None, du) + (None,) * len(s.under)


def _won(s: Structure, transposed: bool, values: Optional[Tensor], y: Tensor, x: Tensor, u: Tensor) -> Tensor:
    """The sums over edges that have an extreme by the library, or by torch where that cannot be."""
    if _direct(values, y, x, u):
        out: Tensor = _Won.apply(s, transposed, values, y, x, u, *s.under)
        return out
    return by_torch.winners(s, transposed, values, y, x, u)


def _first(s: Structure, least: bool, values: Optional[Tensor], x: Tensor) -> Tensor:
    """The extremes of rows, whose gradient goes to the first edge that has them."""
    learned = torch.is_grad_enabled() and (x.requires_grad or values is not None and values.requires_grad)
    places = rooms.tensor(s.rows, x.size(1), dtype=torch.int64) if learned else None
    y = s.extreme(least, None if values is None else values.detach(), x.detach().contiguous(), places)
    if places is None:
        return y
    at = places.clamp(min=0)
    won: Tensor = x.gather(0, s.under[1].long()[at])
    if values is not None:
        won = won * values[s.under[2].long()[at] if len(s.under) > 2 else at]
    return _torch.where(places < 0, torch.zeros((), dtype=x.dtype), won)  # type: ignore[no-any-return]


def extreme(s: Structure, least: bool, ties: int, values: Optional[Tensor], x: Tensor) -> Tensor:
    """Returns the greatest or the least rows of x [columns, ...], each times the value of its edge. values are [edges]
    or [edges, 1], of x's dtype, or None. Refused if khop has no such gradient."""
    if values is not None:
        if values.dtype != x.dtype or values.numel() != s.edges or ties != FIRST and values.requires_grad:
            raise Refused
        values = values.reshape(-1).contiguous()
    if s.edges == 0 or ties == FIRST and not s.in_rows:
        raise Refused
    flat = x.reshape(x.size(0), x.shape[1:].numel())
    if ties == FIRST:
        y = _first(s, least, values, flat)
    else:
        y = _Shared.apply(s, least, ties, values, flat, *s.under)
    shaped: Tensor = y.view(y.size(0), *x.shape[1:])
    return shaped


def aggregate(s: Structure, reduce: str, values: Optional[Tensor], x: Tensor, ties: Optional[int] = FIRST) -> Tensor:
    """Returns sums, means or extremes of rows of x, by name. Refused if khop does not have the reduction."""
    if reduce in SUMS:
        return multiply(s, False, SUMS[reduce], values, x)
    if ties is None or not computes(reduce, x) or s.on is not None:
        raise Refused
    return extreme(s, EXTREMES[reduce], ties, values, x)


def multiply(s: Structure, transposed: bool, reduce: int, values: Optional[Tensor], x: Tensor) -> Tensor:
    """Returns the product of a matrix and x [columns, ...]. values are [edges] or [edges, heads], or None: 1
    everywhere.

    Heads are equal parts of the columns of x. The result has x's dtype, or float32 if values have it. Refused if they
    are not all in one place.
    """
    if any(place(t) != s.on for t in (x, values) if t is not None):
        raise Refused
    flat = x.reshape(x.size(0), x.shape[1:].numel())
    stamp = 0
    if values is not None:
        values = values if values.dim() == 2 else values.unsqueeze(1)
        stamp = s.stamp(values)
    y: Tensor = _Multiply.apply(s, transposed, reduce, stamp, values, flat, *s.under)
    shaped: Tensor = y.view(y.size(0), *x.shape[1:])
    return shaped


class Structures:
    """The structures of the tensors used last, while the tensors do not change. A structure of arrays in a slot is
    found only while something else keeps it, such as the graph of a gradient: this cache must not hold the slot."""

    def __init__(self, keep: int) -> None:
        self._lock = threading.Lock()
        self._all: Recent[Structure] = Recent(keep)
        self._lent: weakref.WeakValueDictionary[Any, Structure] = weakref.WeakValueDictionary()

    def find(
        self, kind: Any, under: Sequence[Tensor], make: Callable[[], Structure], search: bool = False,
    ) -> Structure:
        """Returns the structure of tensors of a kind, and makes it if necessary. With search, equal tensors count,
        too."""
        key = (kind, *((t.data_ptr(), version(t), t.shape, t.stride(), t.dtype) for t in under))
        in_slots = any(lent(t.data_ptr()) for t in under)
        with self._lock:
            s = self._lent.get(key) if in_slots else self._all.get(key)
            if s is not None:
                if not in_slots:
                    self._all.move_to_end(key)
                return s
            if search:
                for other, s in self._all.items():
                    if other[0] == kind and s.unchanged() and all(
                        a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(s.under, under)
                    ):
                        self._all.move_to_end(other)
                        return s
        try:
            s = make()
        except KhopError:  # ids out of range: who is called instead says so in its own words
            raise Refused from None
        if None not in s.versions:
            with self._lock:
                if in_slots:
                    self._lent[key] = s
                else:
                    self._all.put(key, s)
        return s

    def clear(self) -> None:
        with self._lock:
            self._all.clear()


structures = Structures(16)


on_devices: Any = None  # the module placed, which says so of itself: it builds on this one
by_operations: Any = None  # the module operators, likewise, if this torch has what it needs


def _one_place(*tensors: Tensor) -> Optional[int]:
    """The device that all are on, None for the CPU. Refused where they are in several places."""
    places = set(map(place, tensors))
    if len(places) > 1:
        raise Refused
    return places.pop()


def in_rows(rows: int, cols: int, indptr: Tensor, indices: Tensor, order: Optional[Tensor] = None) -> Structure:
    """Returns the structure of compressed rows. Only tensors that are not contiguous are copied.

    order gives the edge at each place; None: they are in order.
    """
    given = [t for t in (indptr, indices, order) if t is not None]
    if not all(fits(t, INTEGERS) and t.dim() == 1 for t in given) or indptr.numel() != rows + 1:
        raise Refused
    under = tuple(t.contiguous() for t in given)
    edges, on = indices.numel(), _one_place(*given)
    if on is not None:
        return structures.find(
            ("rows", on, rows, cols), under, lambda: on_devices.in_rows(on, rows, cols, under))

    def make(handle: Any) -> None:
        parts = [v for t in under for v in (t.data_ptr(), INTEGERS[t.dtype])]
        call("rows", rows, cols, edges, *parts, *((None, 0) if order is None else ()), handle)

    return structures.find(("rows", rows, cols), under, lambda: Structure(under, rows, cols, edges, make, True))


def of_edges(rows: int, cols: int, targets: Tensor, sources: Tensor) -> Structure:
    """Returns the structure of edges in any order."""
    if not fits(targets, INTEGERS) or not fits(sources, INTEGERS) or targets.dtype != sources.dtype:
        raise Refused
    if targets.dim() != 1 or targets.shape != sources.shape:
        raise Refused
    on = _one_place(targets, sources)
    if on is not None:
        return structures.find(
            ("edges", on, rows, cols), (targets, sources),
            lambda: on_devices.of_edges(on, rows, cols, targets, sources), search=True)

    return structures.find(
        ("edges", rows, cols), (targets, sources), lambda: made_of_edges(rows, cols, targets, sources), search=True)


def made_of_edges(rows: int, cols: int, targets: Tensor, sources: Tensor) -> Structure:
    """Makes the structure of edges on the CPU. KhopError for ids out of range."""
    def make(handle: Any) -> None:
        to, of = targets.contiguous(), sources.contiguous()
        call("edges", rows, cols, to.numel(), to.data_ptr(), of.data_ptr(), INTEGERS[to.dtype], handle)

    return Structure((targets, sources), rows, cols, targets.numel(), make, False)
