"""Computes messages of PyG's layers that are sums over edges, without a row for each edge.

A layer of PyG gathers the rows of x at the sources of the edges (x_j), makes messages of them, and reduces the messages
by target. Rows promises gathered rows. Where a message is such rows, or those times a weight an edge or a head, the
reduction is a product of khop.products. The first other use gathers the rows, once, and Rows is that tensor from then
on: whatever changes in place, views or hooks is done to it.

A promise is made for layers whose message is known to change nothing that it is promised of (list_layers), and for
those that fuse names.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Optional, TypeVar

import torch
from torch import Tensor

from . import spmm
from .recent import Recent
from .._feed.ring import lent

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
    _own: bool  # the layer is one that fuse names
    _learned: bool  # gradients were on
    _versions: tuple[Optional[int], ...]
    _parent: Optional[Rows]  # those that these are a product of, until they were gathered
    _products: list[Any]  # weak references to these rows times weights
    _real: Optional[Tensor]  # the rows, once they were gathered
    _known: Any  # the state of the rows that autograd knows of these
    _wrong: list[bool]  # not empty once the gradient of a state would be wrong

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _WITHOUT_ROWS and args[0]._real is None:
            with _torch._C.DisableTorchFunction():
                return func(*args, **(kwargs or {}))
        if func in _TIMES and len(args) == 2 and not kwargs:
            rows, weights = args if type(args[0]) is Rows else args[::-1]
            heads = _heads(rows, weights)
            if heads:
                return _times(rows, weights.reshape(-1, heads))
        used: list[Rows] = []
        try:
            return func(*_gathered(args, used), **_gathered(kwargs or {}, used))
        finally:
            for rows in used:
                rows._follow()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None,
    ) -> Any:
        """What comes past __torch_function__, such as a scripted function. The gradient is that of Rows itself."""
        if func._schema.is_mutable:
            raise RuntimeError(
                f"khop.sparse: {func} would change the rows of edges where khop cannot follow: give it x_j.clone()")
        return func(*_gathered(args, None), **_gathered(kwargs or {}, None))

    def _gather(self) -> Tensor:
        """The rows. They are gathered once."""
        if self._real is None and self._parent is not None:
            self._parent._gather()  # and these with them
        if self._real is None:
            self._check()
            with torch.set_grad_enabled(self._learned):
                self._fulfil(self._select(self._x, self._index))
        return self._real  # type: ignore[return-value]

    def _fulfil(self, rows: Tensor) -> None:
        """Takes rows for what was promised, and multiplies them where products were promised of them."""
        self._real, self._parent, self._known = rows, None, _state(rows)
        for product in (reference() for reference in self._products):
            if product is not None and product._real is None:
                product._check()
                with torch.set_grad_enabled(product._learned):
                    product._fulfil(rows * _aligned(product._weights, rows))

    def _check(self) -> None:
        """RuntimeError where what was promised cannot be had any more."""
        if self._versions != _versions_of(self._x, self._index, self._weights):
            raise RuntimeError(
                "khop.sparse: x, edge_index or the weights of messages were changed in place before the messages were "
                "summed: take khop.sparse.fuse away from this layer, or let it change a clone()")

    def _beyond(self) -> Any:
        """The rows, for what does not see that they have a gradient."""
        if self._real is None:
            self._check()
            rows = self._select(self._x.detach(), self._index)
            return rows if self._weights is None else rows * _aligned(self._weights.detach(), rows)
        with _torch._C.DisableTorchFunction():
            shape, learned = self.shape, self.requires_grad
        if shape != self._real.shape or learned and self._known != _state(self._real):
            raise RuntimeError("khop.sparse: rows of edges that were changed in place are used where khop cannot "
                               "follow: give a function of autograd or TorchScript x_j.clone()")
        return self._real.detach()

    def _use(self) -> Tensor:
        """The rows, for one more operation."""
        rows = self._gather()
        if self._known != _state(rows):  # by a view
            if not torch.is_grad_enabled():  # a function of autograd has asked for the gradient already
                self._wrong.append(True)
            self._follow()
        return rows

    def _follow(self) -> None:
        """Tells autograd that these are the rows as they are now, for what comes past __torch_function__."""
        rows: Any = self._real
        now = _state(rows)
        if now != self._known:
            self._known, self._wrong = now, []
            with _torch._C.DisableTorchFunction():
                learned = self.requires_grad
            if learned or rows.requires_grad:
                with torch.enable_grad():
                    _Become.apply(self, rows, self._wrong)


def _state(rows: Tensor) -> Any:
    """What changes with a tensor, its place in autograd's graph, and its hooks."""
    hooks: Any = rows._backward_hooks
    return (spmm.version(rows), rows.grad_fn, rows.requires_grad, rows.retains_grad, len(hooks or ()))


class _Lazy(torch.autograd.Function):
    """Makes Rows. The gradient is what counts where torch computes with them and does not tell Rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, weights: Optional[Tensor], wrong: list[bool]) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, index, *(() if weights is None else (weights,)))
        ctx.wrong = wrong
        dtype = x.dtype if weights is None else torch.promote_types(x.dtype, weights.dtype)
        rows: Tensor = _torch.Tensor._make_wrapper_subclass(
            Rows, (index.numel(), *x.shape[1:]), dtype=dtype, device=x.device)
        return rows

    @staticmethod
    def backward(ctx: Any, grad: Optional[Tensor]) -> Any:
        if grad is None:
            return None, None, None, None
        _check_gradient(ctx)
        x, index, *weights = ctx.saved_tensors
        dweights = None
        if weights:
            if ctx.needs_input_grad[2]:
                dweights = (grad * x.index_select(0, index)).reshape(*weights[0].shape, -1).sum(-1)
            grad = grad * _aligned(weights[0], grad)
        return torch.zeros_like(x).index_add(0, index, grad.to(x.dtype)), None, dweights, None


class _Become(torch.autograd.Function):
    """The gradient of Rows is that of a tensor from now on."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, real: Tensor, wrong: list[bool]) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.mark_dirty(rows)
        ctx.wrong = wrong
        return rows

    @staticmethod
    def backward(ctx: Any, grad: Optional[Tensor]) -> Any:
        if grad is not None:
            _check_gradient(ctx)
        return None, grad, None


def _check_gradient(ctx: Any) -> None:
    if ctx.wrong:
        raise RuntimeError("khop.sparse: rows of edges were changed in place by a view, and then given to a function "
                           "of autograd: give it x_j.clone()")


def _rows(
    x: Tensor, index: Tensor, weights: Optional[Tensor], select: Callable[[Tensor, Tensor], Tensor], own: bool,
    base: Optional[Rows] = None,
) -> Any:
    learned = torch.is_grad_enabled()
    wrong: list[bool] = []
    if not learned:  # what comes of them is not learned either, whoever computes it
        x, weights = x.detach(), None if weights is None else weights.detach()
    rows: Any = _Lazy.apply(x, index, weights, wrong)
    rows._x, rows._index, rows._weights, rows._select = x, index, weights, select
    rows._own, rows._learned, rows._wrong, rows._versions = own, learned, wrong, _versions_of(x, index, weights)
    rows._parent, rows._products, rows._real = base, [], None
    return rows


def _times(rows: Any, weights: Tensor) -> Any:
    """Rows times weights [edges, heads]. Those of a layer of one's own are copied: it may change them."""
    weights = weights.clone() if rows._own else weights
    product = _rows(rows._x, rows._index, weights, rows._select, rows._own, rows)
    rows._products.append(weakref.ref(product))
    return product


def _versions_of(*tensors: Optional[Tensor]) -> tuple[Optional[int], ...]:
    return tuple(None if t is None else spmm.version(t) for t in tensors)


def _aligned(weights: Tensor, rows: Tensor) -> Any:
    """Weights [edges, heads] in a shape that rows can be multiplied with."""
    shape = weights.shape if weights.size(1) > 1 else (-1,)
    return weights.view(*shape, *(1,) * (rows.dim() - len(shape)))


def _heads(rows: Any, weights: Any) -> int:
    """How many heads rows times weights would have, as weights of edges; 0 where it is something else."""
    if type(rows) is not Rows or rows._weights is not None or rows._real is not None:
        return 0
    if not spmm.fits(weights, ROWS):
        return 0
    if weights.dtype != rows._x.dtype and not (weights.dtype == torch.float32 and spmm.fits(rows._x)):
        return 0
    x, w = rows._x, weights.shape
    if len(w) != x.dim() or w[0] != rows._index.numel() or w[0] == 1 or any(n != 1 for n in w[2:]):
        return 0
    if w[1] == 1:
        return 1
    return int(w[1]) if x.dim() > 2 and w[1] == x.size(1) else 0


def _gathered(value: Any, used: Optional[list[Rows]]) -> Any:
    """The same with rows in the place of Rows, which it adds to a list; without one for what autograd does not see."""
    if type(value) is Rows:
        if used is None:
            return value._beyond()
        used.append(value)
        return value._use()
    if isinstance(value, (list, tuple)):
        made = [_gathered(v, used) for v in value]
        if all(a is b for a, b in zip(made, value)):
            return value
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if type(value) is dict:
        return {k: _gathered(v, used) for k, v in value.items()}
    return value


_REDUCTIONS = {"SumAggregation": "sum", "MeanAggregation": "mean", "MaxAggregation": "max", "MinAggregation": "min"}
_LAYERS = (
    "MessagePassing", "AGNNConv", "APPNP", "ARMAConv", "ChebConv", "ClusterGCNConv", "FAConv", "GATConv", "GATv2Conv",
    "GCN2Conv", "GCNConv", "GINConv", "GatedGraphConv", "GraphConv", "GravNetConv", "LGConv", "LabelPropagation",
    "MFConv", "MixHopConv", "PANConv", "PDNConv", "RGCNConv", "SAGEConv", "SGConv", "SSGConv", "SignedConv",
    "SimpleConv", "TAGConv", "TransformerConv", "WLConvContinuous")
_METHODS = "message", "aggregate", "edge_update"
_HOOKS = tuple(f"_{name}_forward{when}_hooks" for name in _METHODS for when in ("", "_pre"))
_listed: weakref.WeakSet[Any] = weakref.WeakSet()
"""Methods of layers of PyG that change nothing that rows are promised of."""
_fused: weakref.WeakSet[Any] = weakref.WeakSet()
"""Those of classes that fuse names."""
_reductions: dict[type, str] = {}


def list_layers() -> tuple[list[Any], dict[type, str]]:
    """Lists the layers of PyG for whose messages khop promises rows. Returns them, and reductions by their class."""
    from torch_geometric import nn
    from torch_geometric.nn import aggr

    layers = [getattr(nn, name) for name in _LAYERS if hasattr(nn, name)]
    for layer in layers:
        _listed.update(getattr(layer, method) for method in _METHODS if hasattr(layer, method))
    _reductions.update((getattr(aggr, name), reduce) for name, reduce in _REDUCTIONS.items())
    return layers, _reductions


_C = TypeVar("_C", bound=type)


def fuse(cls: _C) -> _C:
    """Lets khop sum the messages of a class of layers of one's own, and returns the class: it can decorate it.

    khop.sparse.patch computes them without a row for each edge where message returns x_j, or x_j times a weight an edge
    or a head. It may do anything else with x_j, which is then gathered, and change that in place. It must not change x,
    edge_index or what message is not given: RuntimeError, where torch counts the change. A subclass with a message of
    its own is another layer.
    """
    if not isinstance(cls, type) or not callable(getattr(cls, "message", None)):
        raise TypeError(f"fuse takes a class of layers, which has a function message, not {cls!r}")
    _fused.update(getattr(cls, method) for method in _METHODS if hasattr(cls, method))
    return cls


def _promised(layer: Any, x: Any) -> bool:
    """Whether rows of x may be gathered later for a layer: it has nothing but what is listed or fused, nobody looks
    into it, and khop would compute its sums."""
    cls: Any = type(layer)
    aggregation: Any = getattr(layer, "aggr_module", None)
    reduce = _reductions.get(type(aggregation), "")
    if not spmm.computes(reduce, x) or aggregation._forward_hooks or aggregation._forward_pre_hooks:
        return False
    if getattr(layer, "explain", False) or any(getattr(layer, name, None) for name in _HOOKS):
        return False
    own = vars(layer)
    methods = [(name, getattr(cls, name, None)) for name in _METHODS]
    return all(name not in own and (method in _listed or method in _fused) for name, method in methods)


def select(layer: Any, x: Any, index: Any, original: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """The rows of x at the sources or targets of edges: gathered later, if khop may not need them."""
    if (
        spmm.usable() and spmm.fits(x, ROWS) and spmm.fits(index, spmm.INTEGERS) and index.dim() == 1
        and x.dim() > 1 and layer.node_dim in (0, -x.dim()) and _promised(layer, x)
    ):
        return _rows(x, index, None, original, any(getattr(type(layer), name) not in _listed for name in _METHODS))
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
        if not _along_rows(src, reduce, dim) or not spmm.fits(index, spmm.INTEGERS):
            raise spmm.Refused
        if dim_size is None:
            dim_size = int(index.max()) + 1 if index.numel() > 0 else 0
        s = spmm.of_edges(dim_size, src._x.size(0), index, src._index)
        return spmm.aggregate(s, reduce, src._weights, src._x, ties)
    except spmm.Refused:
        return original(src._use(), index, dim, dim_size, reduce)


def segment(src: Any, ptr: Any, reduce: str, original: Callable[..., Tensor]) -> Any:
    """Computes torch_geometric.utils.segment, by a product if src is Rows and the reduction a sum or mean. Gradients of
    its extremes follow no rule that khop has, if several rows are extreme."""
    if type(src) is not Rows:
        return original(src, ptr, reduce)
    try:
        if reduce not in spmm.SUMS or not _along_rows(src, reduce, 0):
            raise spmm.Refused
        s = spmm.in_rows(ptr.numel() - 1, src._x.size(0), ptr, src._index)
        return spmm.aggregate(s, reduce, src._weights, src._x)
    except spmm.Refused:
        return original(src._use(), ptr, reduce)


def _along_rows(src: Rows, reduce: str, dim: int) -> bool:
    """Whether khop has the reduction of rows that nobody has gathered."""
    if src._real is not None:
        return False
    src._check()
    return spmm.computes(reduce, src._x) and dim in (0, -src._x.dim())


def ties_of(reduce: Callable[[Tensor, Tensor], Tensor], groups: Tensor) -> Optional[int]:
    """Returns which of equal extremes get the gradient, for a function of values [4, 1] in two groups of two: see
    products.FIRST. None if it follows no known rule."""
    with torch.enable_grad():
        x = torch.tensor([[0.0], [0.0], [1.0], [1.0]], requires_grad=True)
        try:
            gradient, = torch.autograd.grad(reduce(x, groups).sum(), x)
        except (RuntimeError, ImportError):  # this torch has none
            return None
    known = {spmm.FIRST: [1, 0, 1, 0], spmm.SHARED: [1 / 2] * 4,
             spmm.SHARED_WITH_ZERO: [1 / 3, 1 / 3, 1 / 2, 1 / 2]}
    return next((t for t, g in known.items() if torch.allclose(gradient.view(-1), torch.tensor(g).float())), None)


class Memory:
    """Results of functions of tensors and matrices, kept as long as neither arguments nor results change."""

    def __init__(self, keep: int) -> None:
        self._lock = threading.Lock()
        self._all: Recent[tuple[list[Tensor], list[int], Any]] = Recent(keep)

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
                kept = [p.detach() for t in given for p in spmm.parts(t)]  # so that no other takes their place
                key = f, rest, *map(_identity, given)  # torch counts a change where gcn_norm reads a COO
                self._all.put(key, (kept, _versions(results), results))
        return results

    def clear(self) -> None:
        with self._lock:
            self._all.clear()


def _each(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _versions(results: Any) -> list[int]:
    return [p._version for r in _each(results) for p in spmm.parts(r)]


def _identity(t: Any) -> Any:
    """What tells a tensor or matrix from another one, and from itself when it was changed."""
    if t is None:
        return None
    sizes = t.shape if isinstance(t, Tensor) else tuple(t.sparse_sizes())
    coalesced = isinstance(t, Tensor) and t.layout == torch.sparse_coo and t.is_coalesced()
    return type(t), getattr(t, "layout", None), sizes, coalesced, *(
        (p.data_ptr(), p._version, p.shape, p.stride(), p.dtype) for p in spmm.parts(t))


def _lasting(t: Any) -> bool:
    """Whether a tensor or matrix may be kept, and is the same as long as torch has counted no change."""
    if t is None:
        return True
    parts = spmm.parts(t)
    return bool(parts) and not getattr(t, "requires_grad", False) is True and all(
        spmm.fits(p, _ANY) and not p.requires_grad and not p.is_inference() and not lent(p.data_ptr())
        for p in parts)


ROWS = {*spmm.FLOATS, *spmm.DOUBLES}
_ANY = {*spmm.INTEGERS, *ROWS}
