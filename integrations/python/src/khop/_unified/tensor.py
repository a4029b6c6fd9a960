"""The class of unified tensors, which needs torch. khop.unified makes them."""

from __future__ import annotations

import ctypes
import functools
import json
import math
import threading
import weakref
from multiprocessing.reduction import ForkingPickler
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .._native import library as _library
from ..errors import OptionError
from .._batch.frameworks import Torch
from .._feed.protocol import FOREIGN
from .._native.page_pool import Rooms

_torch: Any = torch  # what its types do not tell


class _Calls:
    """Functions of the library, with their types."""

    def __init__(self) -> None:
        of = self.library = _library.load()
        p, handle, i64, i32, u64 = ctypes.c_void_p, _library.Handle, ctypes.c_int64, ctypes.c_int32, ctypes.c_uint64
        self.open = of.function("khop_unified_open", p, i64, i64, ctypes.POINTER(handle))
        self.column = of.function(
            "khop_unified_column", ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(handle),
            ctypes.POINTER(u64), p, u64)
        self.gather = of.function("khop_unified_gather", handle, p, i64, i32, p, i32)
        self.enqueue = of.function("khop_unified_enqueue", handle, i32, u64, p, i64, i32, p)
        self.hot = of.function("khop_unified_hot", handle, i32, p, i64)
        self.address = of.function("khop_unified_address", handle, i32, ctypes.POINTER(u64))


@functools.lru_cache(maxsize=None)
def _calls() -> _Calls:
    return _Calls()


class Devices:
    """torch's functions on devices that unified tensors need. Tests replace it."""

    @staticmethod
    def ordinal(tensor: Any) -> Optional[int]:
        """Returns the CUDA device that a tensor is on, None for one on the CPU."""
        if not tensor.is_cuda:
            return None
        index = tensor.device.index
        return int(_torch.cuda.current_device() if index is None else index)

    @staticmethod
    def stream(ordinal: int) -> int:
        """Returns torch's current stream there, as the driver's handle."""
        return int(_torch.cuda.current_stream(ordinal).cuda_stream)

    @staticmethod
    def empty(shape: Iterable[int], dtype: Any, ordinal: int) -> Any:
        """Returns memory for rows, by torch's allocator: it belongs to the current stream."""
        return torch.empty(tuple(shape), dtype=dtype, device=f"cuda:{ordinal}")

    @staticmethod
    def view(address: int, tensor: Any, ordinal: int) -> Any:
        """Returns a tensor on the device over memory of the host that the device addresses there."""
        return _over_address(address, tensor, f"cuda:{ordinal}")


devices: Any = Devices
rooms = Rooms()


def _threads_for(size: int) -> int:
    """How many threads gather rows of size bytes in all: to wake another takes as long as to copy a few megabytes."""
    return int(_torch.get_num_threads()) if size >= 8 << 20 else 1


class _Memory:
    """What torch.as_tensor takes without a copy. torch keeps it, and it keeps the tensor."""

    def __init__(self, address: int, tensor: Any, typestr: str) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = {
            "version": 3, "shape": tuple(tensor.shape), "typestr": typestr, "data": (address, False), "strides": None,
            "stream": None,
        }


def _over_address(address: int, tensor: Any, device: str) -> Any:
    name = str(tensor.dtype)[len("torch."):]
    foreign = name in FOREIGN
    typestr = f"<i{FOREIGN[name]}" if foreign else np.dtype(name).str
    view = torch.as_tensor(_Memory(address, tensor, typestr), device=device)
    return view.view(tensor.dtype) if foreign else view


class Column:
    """Rows in host memory that the library knows. It keeps their memory."""

    def __init__(
        self, plain: Any, handle: Optional[int] = None, again: Any = None, read_only: bool = False,
    ) -> None:
        self.plain = plain  # a torch.Tensor, contiguous, on the CPU
        self.row_bytes = math.prod(plain.shape[1:]) * int(plain.element_size())
        self.read_only = read_only
        self.again = again  # how another process makes it, and its arguments; None: torch shares the tensor
        self._lock = threading.Lock()
        self._handle, self._base = handle, plain.data_ptr()
        self._hot: set[int] = set()  # devices that have the hot rows
        self._open: list[int] = [] if handle is None else [handle]
        weakref.finalize(self, _close, _calls().library, self._open)

    @classmethod
    def over(cls, source: Any) -> Column:
        """Returns a column over the rows of a tensor or an array."""
        again, read_only = None, False
        if isinstance(source, np.memmap) and source.filename is not None and source.base is not None \
                and not isinstance(source.base, np.ndarray):
            again = (_mapped, (str(source.filename), source.dtype.str, source.mode, int(source.offset), source.shape))
        if isinstance(source, np.ndarray):
            if not source.flags.c_contiguous or source.dtype.byteorder == ">":
                raise OptionError("source is an array that is not C-contiguous, or that is big-endian: "
                                  "numpy.ascontiguousarray copies it")
            read_only = not source.flags.writeable
            try:
                source = Torch().wrap(np.asarray(source), source.dtype.name)
            except TypeError as e:
                raise OptionError(f"source is an array of {source.dtype}: {e}") from None
        if isinstance(source, UnifiedTensor):
            source = source.plain
        if not isinstance(source, torch.Tensor):
            raise OptionError(f"source is a tensor, an array or the folder of a dataset, not {type(source).__name__}")
        if source.is_cuda or source.layout != torch.strided or not source.is_contiguous():
            raise OptionError("source is a tensor on a device, a sparse one, or one that is not contiguous: "
                              "source.cpu().contiguous() copies it")
        if source.dim() == 0 or math.prod(source.shape[1:]) == 0:
            raise OptionError(f"source has no rows, with the shape {list(source.shape)}: give a tensor [rows, ...]")
        return cls(source.detach(), again=again, read_only=read_only)

    def handle(self) -> int:
        """Returns the library's handle of the rows' present place: torch moves a tensor when it is first shared."""
        base = self.plain.data_ptr()
        if self._handle is None or base != self._base:
            with self._lock:
                if self._handle is None or base != self._base:
                    made = _library.Handle()
                    _calls().open(base, len(self.plain), self.row_bytes, made)
                    _close(_calls().library, self._open)
                    self._open[:] = [made.value]
                    self._hot.clear()
                    self._handle, self._base = made.value, base
        return int(self._handle)

    def keep(self, ordinal: int, hot: Any) -> None:
        """Ensures that a device has the hot rows."""
        if ordinal in self._hot or hot is None:
            return
        handle = self.handle()
        with self._lock:
            if ordinal not in self._hot:
                _calls().hot(handle, ordinal, hot.ctypes.data, len(hot))
                self._hot.add(ordinal)


def _close(library: _library.Library, handles: list[int]) -> None:
    while handles:
        library.close(handles.pop())


def of_dataset(path: str, node_type: str, name: str) -> Column:
    """Returns a column of a dataset, in its mapped file."""
    handle, address, about = _library.Handle(), ctypes.c_uint64(), ctypes.create_string_buffer(4096)
    _calls().column(path.encode(), node_type.encode(), name.encode(), handle, address, ctypes.addressof(about),
                    len(about))
    said = json.loads(about.value)
    dtype = np.dtype(f"u{FOREIGN[said['dtype']]}" if said["dtype"] in FOREIGN else said["dtype"])
    size = math.prod(said["shape"]) * dtype.itemsize
    memory = (ctypes.c_uint8 * size).from_address(address.value) if size else b""
    rows = np.frombuffer(memory, dtype).reshape(said["shape"])
    rows.flags.writeable = False
    return Column(Torch().wrap(rows, said["dtype"]), handle.value, (of_dataset, (path, node_type, name)), True)


def place_of(device: Any) -> Optional[int]:
    """Returns where an operation of unified tensors alone runs: None is the CPU."""
    from .._feed.cuda import ordinal

    if device is None:
        return 0 if _torch.cuda.is_available() else None
    try:
        where = ordinal(device)
    except ValueError as e:
        raise OptionError(str(e)) from None
    return None if where < 0 else where


def placement(operands: Iterable[Any], otherwise: Optional[int]) -> Optional[int]:
    """Returns where an operation runs that has a unified tensor among its operands: the ordinal of a CUDA device, None
    for the CPU. otherwise is the unified tensor's own choice.

    The rule is that of Min et al.: of the operands that are not unified, one on a device decides for it; a tensor on
    the CPU with dimensions decides for the CPU; numbers and tensors without dimensions decide nothing.
    """
    where = otherwise
    for t in operands:
        on = devices.ordinal(t)
        if on is not None:
            return int(on)
        if t.dim() > 0:
            where = None
    return where


class UnifiedTensor(torch.Tensor):
    """A tensor in host memory whose rows khop gathers, on the CPU and on CUDA devices. khop.unified makes it.

    It is a torch.Tensor on the CPU over the memory of its source. Gathered rows, and every other result, are ordinary
    tensors. Operations of torch pass gradients on; a unified tensor that requires them behaves as an ordinary one.
    """

    _column: Column
    _where: Optional[int]
    _hot_rows: Any
    _threads: Optional[int]

    def __new__(
        cls, column: Column, where: Optional[int] = None, hot: Any = None, threads: Optional[int] = None,
    ) -> UnifiedTensor:
        self: UnifiedTensor = torch.Tensor._make_subclass(cls, column.plain)
        self._column, self._where, self._hot_rows, self._threads = column, where, hot, threads
        return self

    @property
    def plain(self) -> Any:
        """The same memory as a torch.Tensor that torch gathers from."""
        return _reading([self._column.plain], self._column.plain) if self._column.read_only else self._column.plain

    def on(self, device: Any) -> Any:
        """Returns the same memory as a tensor on a CUDA device: torch's kernels read it over the bus. It is valid as
        long as this tensor. The device must not write to it if the source is read-only."""
        where = place_of(device)
        if where is None:
            return self.plain
        column, address = self._column, ctypes.c_uint64()
        _calls().address(column.handle(), where, address)
        return devices.view(address.value, column.plain, where)

    def gather(self, ids: Any, out: Any = None) -> Any:
        """Returns the rows of ids, int32 or int64 of any shape: a tensor [ids.shape, ...] where the ids are.

        On the CPU a wrong id is an IndexError that names it. On a device a later call reports it, and the row is not
        written. out, if given, receives the rows: contiguous, of this dtype.
        """
        column, ids = self._column, ids.contiguous()
        shape, on = (*ids.shape, *column.plain.shape[1:]), devices.ordinal(ids)
        size = ids.numel() * column.row_bytes
        if out is None:
            dtype = column.plain.dtype
            out = rooms.tensor(*shape, dtype=dtype) if on is None else devices.empty(shape, dtype, on)
        elif tuple(out.shape) != shape or out.dtype != column.plain.dtype or not out.is_contiguous() \
                or devices.ordinal(out) != on:
            raise OptionError(f"out must be contiguous, {column.plain.dtype} {list(shape)}, and where the ids are")
        calls, handle, width = _calls(), column.handle(), ids.element_size()
        try:
            if on is None:
                threads = self._threads or _threads_for(size)
                calls.gather(handle, ids.data_ptr(), ids.numel(), width, out.data_ptr(), threads)
            else:
                column.keep(on, self._hot_rows)
                calls.enqueue(handle, on, devices.stream(on), ids.data_ptr(), ids.numel(), width, out.data_ptr())
        except OptionError as e:
            raise IndexError(str(e)) from None
        return out

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        how = _index_select if name == "index_select" else _gathers.get(func)  # PyG puts its own in torch.index_select
        if how is not None:
            rows = how(*args, **kwargs)
            if rows is not None:
                return rows
        return _run(func, args, kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None,
    ) -> Any:
        """What comes past __torch_function__, such as a scripted function."""
        return _run(func, args, kwargs or {})

    def __reduce_ex__(self, protocol: Any) -> Any:
        column = self._column
        made = column.again or (Column, (column.plain,))
        return _again, (*made, self._where, self._hot_rows, self._threads)


class ReadOnlyView(torch.Tensor):
    """A tensor over memory that is mapped for reading alone: what would write to it is an OptionError."""

    _plain: Any  # the same as a torch.Tensor, with its gradient

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None,
    ) -> Any:
        return _run(func, args, kwargs or {})


class _Guard(TorchDispatchMode):
    """Refuses operations that write to memory of these tensors."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        super().__init__()
        self._spans = [(t.data_ptr(), t.data_ptr() + t.numel() * t.element_size()) for t in tensors]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = {a.name: args[i] if i < len(args) else kwargs.get(a.name) for i, a in enumerate(func._schema.arguments)}
        written = [given[a.name] for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        if given.get("training") is True:  # of which the schema does not say that it writes
            written += [given.get("running_mean"), given.get("running_var")]
        if any(map(self.has, _tensors(written))):
            name = func._schema.name.partition("::")[2]
            raise OptionError(f"{name}: the rows are mapped for reading alone: change a copy, u.clone()")
        return func(*args, **kwargs)

    def has(self, t: Any) -> bool:
        """Whether a tensor is over the memory."""
        if t.layout != torch.strided or t.numel() == 0:
            return False
        return any(begin <= t.data_ptr() < end for begin, end in self._spans)


def _tensors(value: Any) -> Iterator[Any]:
    """All tensors in an argument."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for v in value.values() if isinstance(value, dict) else value:
            yield from _tensors(v)


def _replaced(value: Any, new: Callable[[Any], Any]) -> Any:
    """An argument with other tensors in it."""
    if isinstance(value, torch.Tensor):
        return new(value)
    if isinstance(value, dict):
        return {k: _replaced(v, new) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        made = [_replaced(v, new) for v in value]
        if all(a is b for a, b in zip(made, value)):
            return value
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


_TELLS = {getattr(torch.Tensor, name).__get__ for name in (
    "shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_cuda", "is_leaf", "is_sparse")} | {
    getattr(torch.Tensor, name) for name in (
        "dim", "size", "numel", "stride", "is_contiguous", "element_size", "data_ptr", "is_floating_point", "__len__")}
"""What tells of a tensor, and neither writes nor returns one."""


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    """Another operation than a gather, where the rule of placement says. It writes to no memory that is mapped for
    reading alone, and neither does an operation of a view that it returns."""
    if func in _TELLS and args:
        first = args[0]
        plain = first._column.plain if isinstance(first, UnifiedTensor) else first._plain
        return func(plain, *args[1:], **kwargs)
    where = _where(func, list(_tensors((args, kwargs))))
    kept: list[Any] = []

    def placed(t: Any) -> Any:
        if isinstance(t, ReadOnlyView):
            plain = t._plain
        elif isinstance(t, UnifiedTensor):
            plain = t._column.plain if where is None else t.on(f"cuda:{where}")
        else:
            return t
        if isinstance(t, ReadOnlyView) or t._column.read_only:
            kept.append(plain)
        return plain
    with _torch._C.DisableTorchFunction():
        args, kwargs = _replaced(args, placed), _replaced(kwargs, placed)
        if not kept:
            return func(*args, **kwargs)
        with _Guard(kept):
            result = func(*args, **kwargs)
        return _reading(kept, result)


def _reading(kept: Sequence[Any], result: Any) -> Any:
    """A result whose parts over memory of tensors are for reading alone, too."""
    guard = _Guard(kept)
    if isinstance(result, np.ndarray):
        if any(begin <= result.ctypes.data < end for begin, end in guard._spans):
            result.flags.writeable = False
        return result

    def reading(t: Any) -> Any:
        if type(t) is not torch.Tensor or not guard.has(t):
            return t
        view: Any = torch.Tensor._make_subclass(ReadOnlyView, t)
        view._plain = t
        return view
    return _replaced(result, reading)


def _where(func: Any, tensors: Sequence[Any]) -> Optional[int]:
    """Where an operation runs: on a device, or None for the CPU."""
    own = [t for t in tensors if isinstance(t, UnifiedTensor)]
    if not own:
        return None
    if len(tensors) > len(own):
        return placement((t for t in tensors if not isinstance(t, UnifiedTensor)), own[0]._where)
    return own[0]._where if func in _computes else None


def _ids(ids: Any) -> bool:
    return isinstance(ids, torch.Tensor) and ids.dtype in (torch.int32, torch.int64) and \
        not isinstance(ids, UnifiedTensor)


def _usable(u: Any) -> bool:
    """Whether khop gathers from it in this process."""
    return isinstance(u, UnifiedTensor) and not u.requires_grad and _calls().library.usable


def _getitem(u: Any, ids: Any) -> Any:
    if not _usable(u) or not _ids(ids):
        return None
    on = devices.ordinal(ids)
    try:
        return u.gather(ids)
    except IndexError:
        if on is not None or not bool((ids < 0).any()) or bool((ids < -len(u)).any()):
            raise
    return u.gather(torch.where(ids < 0, ids + len(u), ids))  # counted from the end, as in torch


def _index_select(u: Any, dim: Any, index: Any, *, out: Any = None) -> Any:
    if not _usable(u) or not _ids(index) or dim not in (0, -u.dim()) or index.dim() != 1:
        return None
    return u.gather(index, out)


def _embedding(
    input: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, norm_type: Any = 2.0,
    scale_grad_by_freq: Any = False, sparse: Any = False,
) -> Any:
    if not _usable(weight) or not _ids(input) or max_norm is not None or weight.dim() != 2:
        return None
    return weight.gather(input)


_gathers: dict[Any, Callable[..., Any]] = {
    torch.Tensor.__getitem__: _getitem,
    torch.nn.functional.embedding: _embedding,
}
_computes = {getattr(of, name) for of in (torch, torch.Tensor) for name in (
    "add", "sub", "mul", "div", "neg", "abs", "sum", "mean", "amax", "amin", "matmul", "mm", "square", "sqrt", "exp",
    "log", "relu", "sigmoid", "tanh", "norm", "argmax", "argmin", "__add__", "__sub__", "__mul__", "__truediv__",
    "__matmul__") if hasattr(of, name)}
"""What computes on a device where its operands are unified tensors and numbers. Everything else that has no other
operand reads or tells what is on the CPU."""


def _mapped(path: str, dtype: str, mode: str, offset: int, shape: Any) -> Column:
    mode = "r+" if mode == "w+" else mode
    return Column.over(np.memmap(path, dtype, mode, offset, shape))  # type: ignore[call-overload]


def _again(make: Any, arguments: Any, where: Optional[int], hot: Any, threads: Optional[int]) -> UnifiedTensor:
    return UnifiedTensor(make(*arguments), where, hot, threads)


def _reduce(u: UnifiedTensor) -> Any:
    return u.__reduce_ex__(2)


ForkingPickler.register(UnifiedTensor, _reduce)  # else torch's own, which knows tensors alone
