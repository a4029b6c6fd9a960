"""Arrow streams of NumPy arrays, which stay where they are."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, List, Mapping, NamedTuple, Sequence

import numpy as np

from .arrow import (
    STREAM, Array, EndArray, EndSchema, EndStream, GetError, GetNext, GetSchema, Schema, Stream, capsule, move,
)

FORMATS = {"i1": "c", "u1": "C", "i2": "s", "u2": "S", "i4": "i", "u4": "I", "i8": "l", "u8": "L",
           "f2": "e", "f4": "f", "f8": "g"}
"""Arrow's formats of NumPy's numbers."""

_held: dict[int, Any] = {}  # what a struct refers to, until it is released
_keys = itertools.count(1)
_NULLABLE = 2  # a flag


class Sparse(NamedTuple):
    """An array [rows, ..], and which of its rows have a value."""

    values: Any
    there: Any

    def __len__(self) -> int:
        return len(self.values)


def stream(columns: Mapping[str, Any]) -> Any:
    """The capsule of a stream of one batch. A column is an array [rows, ..] of numbers or booleans, a Sparse one, or a
    list of texts. Arrays are kept until the last consumer releases them, and must not be
    written to before."""
    left, key = [_batch(columns)], next(_keys)

    def get_schema(_: Any, out: Any) -> int:
        out[0] = move(Schema, _described("+s", "", [_schema(name, values) for name, values in columns.items()]))
        return 0

    def get_next(_: Any, out: Any) -> int:
        out[0] = move(Array, left.pop()) if left else Array()
        return 0

    def end(of: Any) -> None:
        for array in left:
            array.release(array)
        of[0].release = EndStream()
        _held.pop(key)
    functions = (GetSchema(get_schema), GetNext(get_next), GetError(lambda _: None), EndStream(end))
    _held[key] = functions
    return capsule(Stream(*functions), STREAM)


def _batch(columns: Mapping[str, Any]) -> Any:
    rows = len(next(iter(columns.values()))) if columns else 0
    return _filled(rows, [None], [_array(values) for values in columns.values()])


def _schema(name: str, values: Any) -> Any:
    """The description of a column."""
    if isinstance(values, list):
        return _described("U", name, [])
    if isinstance(values, Sparse):
        return _schema(name, values.values)
    if values.ndim > 1:
        return _described(f"+w:{values.shape[1]}", name, [_schema("item", values[0] if len(values) else values[:, 0])])
    boolean = values.dtype == np.bool_
    return _described("b" if boolean else FORMATS[values.dtype.newbyteorder("=").str[1:]], name, [])


def _array(values: Any) -> Any:
    """A column's rows."""
    if isinstance(values, list):
        texts = [v.encode() for v in values]
        ends = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(t) for t in texts], out=ends[1:])
        return _filled(len(texts), [None, ends, np.frombuffer(b"".join(texts) or b"\0", np.uint8)], [])
    rows, valid, nulls = len(values), None, 0
    if isinstance(values, Sparse):
        there = values.there
        valid, nulls, values = np.packbits(there, bitorder="little"), int((~there).sum()), values.values
    values = np.ascontiguousarray(values)
    if values.ndim > 1:
        return _filled(rows, [valid], [_array(values.reshape(rows * values.shape[1], *values.shape[2:]))], nulls)
    data = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else values
    return _filled(rows, [valid, data], [], nulls)


def _end(of: Any) -> None:
    """Releases a struct, with those of its children that nobody has taken over."""
    struct = of[0]
    for i in range(struct.n_children):
        child = struct.children[i]
        if child[0].release:
            child[0].release(child)
    struct.release = type(struct.release)()
    _held.pop(struct.private_data)


_end_schema, _end_array = EndSchema(_end), EndArray(_end)


def _described(format: str, name: str, children: List[Any]) -> Any:
    texts = format.encode(), name.encode()  # which a struct that is moved does not keep
    return _hold(Schema(*texts, flags=_NULLABLE, release=_end_schema), children, texts)


def _filled(rows: int, buffers: Sequence[Any], children: List[Any], nulls: int = 0) -> Any:
    addresses = (ctypes.c_void_p * len(buffers))(*[None if b is None else b.ctypes.data for b in buffers])
    struct = Array(length=rows, null_count=nulls, n_buffers=len(buffers), release=_end_array,
                   buffers=ctypes.cast(addresses, ctypes.POINTER(ctypes.c_void_p)))
    return _hold(struct, children, (addresses, buffers))


def _hold(struct: Any, children: List[Any], more: Any) -> Any:
    kind = ctypes.POINTER(type(struct))
    pointers = (kind * len(children))(*[ctypes.pointer(c) for c in children])
    struct.n_children, struct.children = len(children), ctypes.cast(pointers, ctypes.POINTER(kind))
    struct.private_data = next(_keys)
    _held[struct.private_data] = (children, pointers, more)
    return struct
