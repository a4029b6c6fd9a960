"""NumPy arrays as tensors of a framework, over the same memory."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Sequence, Union

import numpy as np
from numpy.typing import NDArray

from .._native import library as _library
from ..errors import ProtocolError
from .._feed.protocol import FOREIGN

Array = Any
"""An array of the framework that a loader was asked for: numpy.ndarray, torch.Tensor or jax.Array."""

NumpyArray = NDArray[Any]


def edge_index(blocks: Sequence[tuple[NumpyArray, NumpyArray]], dtype: np.dtype[Any]) -> NumpyArray:
    """Returns edges as row 0 sources, row 1 destinations, of CSCs one after another, each with indptr and indices. A
    copy."""
    out, end = np.empty((2, sum(len(indices) for _, indices in blocks)), dtype), 0
    for indptr, indices in blocks:
        begin, end = end, end + len(indices)
        if not _ends(indptr, indices, out[0, begin:end], out[1, begin:end]):
            raise ProtocolError(f"a block of {len(indices)} edges whose indptr does not divide them")
    return out


_ENDS = {("i4", "i4"): "khop_ends_32", ("i4", "i8"): "khop_ends_32_64", ("i8", "i8"): "khop_ends_64"}


def _ends(indptr: NumpyArray, indices: NumpyArray, sources: NumpyArray, targets: NumpyArray) -> bool:
    """Writes the ends of the edges of a CSC; False where indptr does not divide them."""
    form = indices.dtype.str[1:], sources.dtype.str[1:]
    fits = form in _ENDS and indptr.dtype == indices.dtype and indptr.flags.c_contiguous and indices.flags.c_contiguous
    native = _library.of_arrays(_ENDS[form]) if fits else None
    if native is not None:
        failed: int = native(address(indptr), address(indices), len(indptr) - 1, len(indices), address(sources),
                             address(targets))
        return not failed
    each = indptr[1:] - indptr[:-1]
    if each.sum() != len(indices) or (each < 0).any():
        return False
    targets[:] = np.arange(len(each), dtype=targets.dtype).repeat(each)
    sources[:] = indices
    return True


def address(array: NumpyArray) -> int:
    """Returns the address of an array's first element. (array.ctypes takes several times as long.)"""
    place: int = array.__array_interface__["data"][0]
    return place


class Framework:
    """NumPy arrays as they are; base of the other frameworks."""

    name = "numpy"

    def wrap(self, array: NumpyArray, dtype: str) -> Array:
        """Returns the array as a tensor. dtype is the name in the dataset, for types that NumPy lacks (see FOREIGN)."""
        return array

    def numpy(self, array: Array) -> NumpyArray:
        """Returns the tensor's elements on the host, as they were in the feed."""
        return np.asarray(array)

    def cat(self, arrays: Sequence[Array]) -> Array:
        """Concatenates arrays. A copy."""
        return np.concatenate(arrays)

    def rows(self, values: Array, index: Array) -> Array:
        """Returns values[index], zeros where index is negative."""
        out = np.zeros((*index.shape, *values.shape[1:]), values.dtype)
        out[index >= 0] = values[index[index >= 0]]
        return out

    def edge_index(self, indptr: Array, indices: Array) -> Array:
        """Returns edges as row 0 sources, row 1 destinations, of a CSC. A copy."""
        return edge_index([(indptr, indices)], indices.dtype)

    def to(self, array: Array, device: Any, non_blocking: bool) -> Array:
        """Returns the array on a device."""
        if str(device) != "cpu":
            raise ValueError(f'NumPy arrays have no device {device!r}: make the loader with framework="torch" or "jax"')
        return array


class Torch(Framework):
    """Tensors that share memory with the NumPy arrays, and keep them alive."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self.torch: Any = torch
        self._from_numpy = torch.from_numpy

    def wrap(self, array: NumpyArray, dtype: str) -> Array:
        if dtype in FOREIGN:
            signed = f"int{8 * array.itemsize}"
            return self.wrap(array.view(signed), signed).view(getattr(self.torch, dtype))
        try:
            return self._from_numpy(array) if array.flags.writeable else self._read_only(array)
        except TypeError:
            raise TypeError(
                f'torch {self.torch.__version__} has no dtype {dtype}: use framework="numpy" for this column') from None

    def _read_only(self, array: NumpyArray) -> Array:
        """Of a ring that many read: torch has no read-only tensors, and says so."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return self._from_numpy(array)

    def numpy(self, array: Array) -> NumpyArray:
        array = array.detach().cpu()
        if str(array.dtype)[len("torch."):] in FOREIGN:
            bits = 8 * array.element_size()
            return np.asarray(array.view(getattr(self.torch, f"int{bits}")).numpy()).view(f"uint{bits}")
        return np.asarray(array.numpy())

    def cat(self, arrays: Sequence[Array]) -> Array:
        return self.torch.cat(list(arrays))

    def rows(self, values: Array, index: Array) -> Array:
        if not len(values):
            return values.new_zeros((*index.shape, *values.shape[1:]))
        out = values.index_select(0, index.clamp(min=0).reshape(-1)).view(*index.shape, *values.shape[1:])
        return out.masked_fill_((index < 0).view(*index.shape, *[1] * (values.dim() - 1)), 0)

    def edge_index(self, indptr: Array, indices: Array) -> Array:
        if indices.device.type == "cpu":  # NumPy repeats several times as fast as torch
            return self._from_numpy(super().edge_index(indptr.numpy(), indices.numpy()))
        n = len(indptr) - 1
        out = self.torch.empty((2, len(indices)), dtype=indices.dtype, device=indices.device)
        out[0] = indices
        each = self.torch.arange(n, dtype=indices.dtype, device=indices.device)
        try:
            out[1] = self.torch.repeat_interleave(each, indptr[1:] - indptr[:-1], output_size=len(indices))
        except RuntimeError as e:
            raise ProtocolError(f"a block of {len(indices)} edges whose indptr does not divide them: {e}") from None
        return out

    def to(self, array: Array, device: Any, non_blocking: bool) -> Array:
        return array.to(device, non_blocking=non_blocking)


class Jax(Framework):
    """JAX arrays. Without jax_enable_x64 JAX takes 64-bit integers as 32-bit ones, which is a copy."""

    name = "jax"

    def __init__(self) -> None:
        import jax

        self.jax: Any = jax

    def wrap(self, array: NumpyArray, dtype: str) -> Array:
        if dtype in FOREIGN:
            array = array.view(getattr(self.jax.numpy, dtype))
        if not self.jax.config.jax_enable_x64 and array.dtype.itemsize == 8:
            array = array.astype({"i": np.int32, "u": np.uint32, "f": np.float32}[array.dtype.kind])
        return self.jax.numpy.asarray(array)

    def numpy(self, array: Array) -> NumpyArray:
        out = np.asarray(array)
        return out.view(f"uint{8 * out.itemsize}") if str(out.dtype) in FOREIGN else out

    def cat(self, arrays: Sequence[Array]) -> Array:
        return self.jax.numpy.concatenate(list(arrays))

    def rows(self, values: Array, index: Array) -> Array:
        np = self.jax.numpy
        if not len(values):
            return np.zeros((*index.shape, *values.shape[1:]), values.dtype)
        there = (index >= 0).reshape(*index.shape, *[1] * (values.ndim - 1))
        return np.where(there, values[index.clip(0)], np.zeros((), values.dtype))

    def edge_index(self, indptr: Array, indices: Array) -> Array:
        return self.jax.numpy.asarray(super().edge_index(np.asarray(indptr), np.asarray(indices)))

    def to(self, array: Array, device: Any, non_blocking: bool) -> Array:
        if isinstance(device, str):
            kind, _, number = device.partition(":")
            device = self.jax.devices(kind)[int(number or 0)]
        return self.jax.device_put(array, device)


def framework(name: Union[str, Framework] = "auto") -> Framework:
    """Returns the framework of a name, or the given one. "auto" is torch if the program has imported it, else NumPy."""
    if isinstance(name, Framework):
        return name
    if name == "auto":
        name = "torch" if "torch" in sys.modules else "numpy"
    kinds = {"numpy": Framework, "torch": Torch, "jax": Jax}
    if name not in kinds:
        raise ValueError(f"framework={name!r}: must be auto, numpy, torch or jax")
    return kinds[name]()
