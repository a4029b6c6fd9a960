"""Computes sparse products of torch, PyTorch Geometric and DGL by khop's kernels, forward and backward.

    import khop.sparse
    khop.sparse.patch()

From then on torch.sparse.mm, the layers of PyG and the message passing of DGL compute sums and means over edges with
khop, if khop supports the tensors: on the CPU, or on a CUDA device if the library was built for one, of float32 or
16-bit floats, with indices of 32 or 64 bits. All other calls go to the original functions. docs/sparse.md lists what is
covered, and what is kept between calls.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import threading
import weakref
from typing import Any, Callable, Iterator, Optional

import torch
from torch import Tensor

from ._native import library as _library
from ._ops import lazy_gather, spmm, spmm_cuda, torch_library, traced
from ._ops.sampled_gradients import Draws
from .errors import OptionError
from ._ops.lazy_gather import fuse
from ._ops.spmm import operations
from ._ops.layer_order import layers as layers_in_both_ways
from ._ops.replacements import Replacements

__all__ = ["clear", "fuse", "operations", "patch", "patched", "unpatch"]

RESULT_MEMORY = 1 << 30
"""How many bytes of results that nobody has are kept for the next ones, unless patch is given another number."""

_lock = threading.RLock()


@dataclasses.dataclass(frozen=True)
class _Options:
    """The options of patch."""

    reassociate: bool = False
    backward_budget: float = 0
    seed: int = 0
    result_memory: int = RESULT_MEMORY

    def __post_init__(self) -> None:
        if not isinstance(self.reassociate, bool):
            raise OptionError(f"reassociate is True or False, not {self.reassociate!r}")
        budget = self.backward_budget
        if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 <= budget <= 1:
            raise OptionError(f"backward_budget is a number from 0 to 1, not {budget!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 1 << 32:
            raise OptionError(f"seed is an integer from 0 to {(1 << 32) - 1}, not {self.seed!r}")
        memory = self.result_memory
        if isinstance(memory, bool) or not isinstance(memory, int) or memory < 0:
            raise OptionError(f"result_memory is a number of bytes from 0, not {memory!r}")


def patch(
    *, reassociate: bool = False, backward_budget: float = 0, seed: int = 0, result_memory: int = RESULT_MEMORY,
) -> None:
    """Replaces products of torch, and of PyG and DGL if they are installed, by khop's.

    Call it before or after their import, or again after a later import. LibraryNotFound if this package came without
    the shared library; OptionError for an option out of range.

    With reassociate, layers of PyG multiply with their weight before or after they sum over edges, whichever is less
    work: docs/sparse.md lists them. backward_budget is a number from 0 to 1; 0 gives exact gradients. Otherwise
    gradients of sums over edges use rows that have that share of the edges. These are drawn with the seed, and the
    result is right in the mean. From the third backward pass over the same matrices on, each layer has the share that
    makes the errors of all least, for the same work. A gradient is exact if drawing would take about as long as it
    saves, which the degrees and the columns tell.

    result_memory bounds the bytes of results on the CPU that khop keeps for the next ones once nobody has them; with 0
    each result is in new memory. clear gives all of it back.
    """
    options = _Options(reassociate, backward_budget, seed, result_memory)
    _library.load()
    with _lock:
        _own_state().options = options
        _settle()


SAMPLED_GAIN = 1.2
"""How many times as fast a sampled gradient must be, as predicted: docs/results/ops.md."""


def unpatch() -> None:
    """Puts back what was there before patch, and forgets what was kept. A function that somebody has put around one of
    khop's stays."""
    with _lock:
        _own_state().options = None
        _settle()
    clear()


@contextlib.contextmanager
def patched(
    *, reassociate: bool = False, backward_budget: float = 0, seed: int = 0, result_memory: int = RESULT_MEMORY,
) -> Iterator[None]:
    """with khop.sparse.patched(): patches inside, and leaves what was there before outside. Options are patch's.

    Of blocks of several threads, the one that began last is in force, in all threads.
    """
    state = _State(_Options(reassociate, backward_budget, seed, result_memory), threading.get_ident())
    _library.load()
    with _lock:
        _blocks.append(state)
        _settle()
    try:
        yield
    finally:
        with _lock:
            _blocks[:] = [block for block in _blocks if block is not state]
            _settle()


@dataclasses.dataclass
class _State:
    """What patch and unpatch set: that of the process, or that of a block of patched. No options: unpatched."""

    options: Optional[_Options] = None
    thread: int = 0
    draws: Optional[Draws] = None
    of: Optional[_Options] = None  # the options that the draws are of


_process = _State()
_blocks: list[_State] = []
_now: Optional[Replacements] = None


def _own_state() -> _State:
    """That of the calling thread's innermost block; outside of blocks the process's."""
    own = [block for block in _blocks if block.thread == threading.get_ident()]
    return own[-1] if own else _process


def _in_force() -> _State:
    return _blocks[-1] if _blocks else _process


def _reassociating() -> bool:
    options = _in_force().options
    return options is not None and options.reassociate


def _settle() -> None:
    """Makes what is in force be so."""
    global _now
    state = _in_force()
    options = state.options
    spmm.rooms.bound(0 if options is None else options.result_memory)
    if options is None:
        spmm.draws = None
        if _now is not None:
            _now.end()
            _now = None
            clear()
        return
    if state.of is not options:
        state.draws, state.of = None, options
        if options.backward_budget:
            state.draws = Draws(options.backward_budget, options.seed, SAMPLED_GAIN)
    spmm.draws = state.draws
    if _now is None:
        _now = Replacements()
        _patch_torch(_now)
    _now.spread()
    for name, patch_peer in (("torch_geometric", _patch_pyg), ("dgl", _patch_dgl)):
        if name in _now.peers:
            continue
        _now.peers.add(name)  # an import of it may patch, too
        if _installed(name):
            patch_peer(_now)
        else:
            _now.peers.discard(name)


def clear() -> None:
    """Clears matrices, transposes and norms of earlier calls, the tensors they belong to, and memory of results."""
    spmm.rooms.clear()
    spmm.structures.clear()
    torch_library.numbered.clear()
    _norms.clear()
    _graphs.clear()


_norms = lazy_gather.Memory(8)
_graphs: dict[int, tuple[Any, spmm.Structure]] = {}
"""By the id of an index of DGL's, which cannot be hashed: a weak reference to it, and its structure."""


def _installed(name: str) -> bool:
    if name in sys.modules:
        return True
    try:
        __import__(name)
    except ImportError:
        return False
    return True


# torch


class _Values(torch.autograd.Function):
    """The values of a sparse tensor. The gradient is a sparse tensor of the same layout."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        ctx.make = _like(a)
        return a.values().detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return ctx.make(grad)  # type: ignore[no-any-return]


def _like(a: Tensor) -> Callable[[Tensor], Tensor]:
    """What makes a tensor of the structure of a from values."""
    if a.layout == torch.sparse_coo:
        indices, shape = a.indices(), a.shape
        return lambda values: torch.sparse_coo_tensor(indices, values, shape)._coalesced_(True)
    if a.layout == torch.sparse_csr:
        parts = a.crow_indices(), a.col_indices()
        return lambda values: torch.sparse_csr_tensor(*parts, values, a.shape)
    parts = a.ccol_indices(), a.row_indices()
    return lambda values: torch.sparse_csc_tensor(*parts, values, a.shape)


def _sparse_product(a: Any, x: Any, reduce: str) -> Tensor:
    """The product of a sparse tensor of torch and a dense one. Refused where khop does not compute it."""
    if not spmm.usable() or not spmm.computes(reduce, x) or x.dim() != 2:
        raise spmm.Refused
    if hasattr(a, "csr") and hasattr(a, "sparse_sizes"):
        return _torch_sparse_product(a, x, reduce)
    if type(a) not in (Tensor, torch.nn.Parameter) or a.layout not in _LAYOUTS:
        raise spmm.Refused
    if a.dtype != x.dtype or a.dim() != 2 or a.dense_dim() > 0 or a.size(1) != x.size(0):
        raise spmm.Refused
    if reduce in spmm.EXTREMES and a.layout != torch.sparse_csr:
        raise spmm.Refused
    return _LAYOUTS[a.layout](a, x, reduce)


def _coo_product(a: Any, x: Any, reduce: str) -> Tensor:
    learned = _learned(a)
    if not a.is_coalesced() and (learned or spmm.SUMS[reduce] != spmm.SUM):
        raise spmm.Refused  # a mean is of places, and several entries may be at one
    (rows, cols), (targets, sources) = a.shape, a._indices()
    s = spmm.of_edges(rows, cols, targets, sources)
    return spmm.aggregate(s, reduce, _Values.apply(a) if learned else a._values().detach(), x)


def _csr_product(a: Any, x: Any, reduce: str) -> Tensor:
    rows, cols = a.shape
    s = spmm.in_rows(rows, cols, a.crow_indices(), a.col_indices())
    return spmm.aggregate(s, reduce, _values_of(a), x)


def _csc_product(a: Any, x: Any, reduce: str) -> Tensor:
    rows, cols = a.shape
    s = spmm.in_rows(cols, rows, a.ccol_indices(), a.row_indices())
    return spmm.multiply(s, True, spmm.SUMS[reduce], _values_of(a), x)


_LAYOUTS = {torch.sparse_coo: _coo_product, torch.sparse_csr: _csr_product, torch.sparse_csc: _csc_product}


def _learned(a: Any) -> bool:
    """Whether the values of a sparse tensor get a gradient."""
    return bool(a.requires_grad) and torch.is_grad_enabled()


def _values_of(a: Any) -> Any:
    return _Values.apply(a) if _learned(a) else a.values().detach()


def _torch_sparse_product(a: Any, x: Any, reduce: str) -> Tensor:
    """The product of a SparseTensor of torch_sparse, whose values have their own gradient."""
    rowptr, col, values = a.csr()
    rows, cols = a.sparse_sizes()
    if cols != x.size(0) or values is not None and (values.dim() != 1 or not spmm.fits(values, lazy_gather.ROWS)):
        raise spmm.Refused
    s = spmm.in_rows(rows, cols, rowptr, col)
    values = values if values is None or values.dtype == x.dtype else values.to(x.dtype)
    return spmm.aggregate(s, reduce, values, x)


def _patch_torch(replacements: Replacements) -> None:
    original: Any = torch.sparse.mm

    def mm(*args: Any, **options: Any) -> Any:
        if len(args) + len(options) <= 3 and len(args) >= 2 and set(options) <= {"reduce"}:
            reduce = options.get("reduce", *args[2:] or ("sum",))
            if isinstance(reduce, str):
                with contextlib.suppress(spmm.Refused):
                    return _sparse_product(args[0], args[1], reduce)
        return original(*args, **options)

    replacements.put(torch.sparse, "mm", mm)


# PyTorch Geometric


def _patch_pyg(replacements: Replacements) -> None:
    import torch_geometric.nn
    import torch_geometric.utils
    from torch_geometric.nn.conv import gcn_conv
    from torch_geometric.nn.conv.message_passing import MessagePassing

    name = "_index_select_safe" if hasattr(MessagePassing, "_index_select_safe") else "_index_select"
    old_select = getattr(MessagePassing, name)
    old_scatter, old_segment = torch_geometric.utils.scatter, torch_geometric.utils.segment
    old_spmm, old_softmax = torch_geometric.utils.spmm, torch_geometric.utils.softmax
    old_norm = gcn_conv.gcn_norm
    of_scatter = lazy_gather.ties_of(lambda x, index: old_scatter(x, index, reduce="max"), torch.tensor([0, 0, 1, 1]))

    def index_select(self: Any, src: Tensor, index: Any) -> Any:
        return lazy_gather.select(self, src, index, functools.partial(old_select, self))

    def scatter(
        src: Tensor, index: Tensor, dim: int = 0, dim_size: Optional[int] = None, reduce: str = "sum",
    ) -> Any:
        return lazy_gather.scatter(src, index, dim, dim_size, reduce, of_scatter, old_scatter)

    def segment(src: Tensor, ptr: Tensor, reduce: str = "sum") -> Any:
        return lazy_gather.segment(src, ptr, reduce, old_segment)

    def softmax(
        src: Any, index: Any = None, ptr: Any = None, num_nodes: Optional[int] = None, dim: int = 0,
    ) -> Any:
        try:
            return spmm_cuda.softmax(src, index, num_nodes, dim)
        except spmm.Refused:
            return old_softmax(src, index, ptr, num_nodes, dim)

    def product(src: Any, other: Tensor, reduce: str = "sum") -> Any:
        try:
            return _sparse_product(src, other, reduce)
        except spmm.Refused:
            return old_spmm(src, other, reduce)

    def gcn_norm(edge_index: Any, edge_weight: Any = None, *rest: Any, **options: Any) -> Any:
        if options or not spmm.usable():
            return old_norm(edge_index, edge_weight, *rest, **options)
        return _norms.call(old_norm, (edge_index, edge_weight), rest)

    replacements.put(MessagePassing, name, index_select)
    traced.patch(replacements, *lazy_gather.list_layers())
    lazy_gather.list_layers()  # with what stands in now
    replacements.put_everywhere({old_scatter: scatter, old_segment: segment, old_spmm: product, old_norm: gcn_norm,
                                 old_softmax: softmax})
    layers_in_both_ways(replacements.put, _reassociating)


# DGL


def _patch_dgl(replacements: Replacements) -> None:
    import dgl.ops
    from dgl.ops import spmm as of_dgl

    original = of_dgl.gspmm

    def gspmm(g: Any, op: str, reduce_op: str, lhs_data: Any, rhs_data: Any) -> Any:
        try:
            return _graph_product(g, op, reduce_op, lhs_data, rhs_data)
        except spmm.Refused:
            return original(g, op, reduce_op, lhs_data, rhs_data)

    replacements.put_everywhere({original: gspmm})


def _graph_product(g: Any, op: str, reduce: str, x: Any, weights: Any) -> Tensor:
    """Sums and means of copy_u and u_mul_e on a graph of one type of edges. Refused where it is something else."""
    if not spmm.usable() or op not in ("copy_lhs", "mul") or reduce not in spmm.SUMS or not spmm.fits(x):
        raise spmm.Refused  # DGL's extremes have gradients of their own where several edges have them
    index = g._graph
    if index.number_of_etypes() != 1 or index.ctx.device_type not in (1, 2):  # the CPU, CUDA
        raise spmm.Refused
    s = _graph_structure(index)
    if x.dim() < 1 or x.size(0) != s.cols:
        raise spmm.Refused
    if op == "copy_lhs":
        return spmm.aggregate(s, reduce, None, x)
    if not spmm.fits(weights, lazy_gather.ROWS) or weights.dtype != x.dtype or weights.dim() < 1:
        raise spmm.Refused
    if weights.size(0) != s.edges:
        raise spmm.Refused
    parts, ends = tuple(x.shape[1:]), tuple(weights.shape[1:])
    parts, ends = (1,) * (len(ends) - len(parts)) + parts, (1,) * (len(parts) - len(ends)) + ends
    if all(n == 1 for n in ends):
        heads = 1
    elif ends[0] == parts[0] and all(n == 1 for n in ends[1:]):
        heads = ends[0]
    else:
        raise spmm.Refused
    return spmm.aggregate(s, reduce, weights.reshape(-1, heads), x.reshape(-1, *parts))


def _graph_structure(index: Any) -> spmm.Structure:
    """The structure of a graph's in-edges."""
    found = _graphs.get(id(index))
    if found is not None and found[0]() is index:
        return found[1]
    rows, cols, indptr, indices, order = index.adjacency_matrix_tensors(0, True, "csr")
    s = spmm.in_rows(rows, cols, indptr, indices, order if order.numel() else None)
    at = id(index)
    _graphs[at] = weakref.ref(index, lambda _: _graphs.pop(at, None)), s
    return s
