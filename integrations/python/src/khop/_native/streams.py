"""Arrow streams that other libraries hand out: whatever has ``__arrow_c_stream__`` or ``__arrow_c_array__``."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any, Iterator, List, Tuple

import numpy as np

from . import library as _library
from .arrow import ARRAY, SCHEMA, STREAM, Array, EndStream, GetError, GetNext, GetSchema, Schema, Stream, move, pointer
from ..errors import KhopError

_NUMBERS = {"c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8",
            "e": "f2", "f": "f4", "g": "f8"}
"""NumPy's names of Arrow's formats."""


def is_stream(data: Any) -> bool:
    """Whether an object hands out its rows as an Arrow stream, or as one array."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def write(data: Any, path: str) -> None:
    """Writes the rows of an object to a new file, a batch at a time, as khop convert reads them. OptionError where it
    is no table, was read already, or has a column of a type that is not read; ServerError where reading or writing
    fails."""
    c = _library.load()
    begin = c.function("khop_stream_write", ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(_library.Handle))
    step = c.function("khop_stream_next", _library.Handle, ctypes.POINTER(ctypes.c_int64))
    handle, rows = _library.Handle(), ctypes.c_int64()
    with _of(data) as stream:
        begin(ctypes.addressof(stream), os.fsencode(path), handle)
    try:
        while rows.value >= 0:  # an interrupt comes between two batches
            step(handle, rows)
    except BaseException:
        with contextlib.suppress(KhopError):
            c.close(handle.value)
        raise
    c.close(handle.value)


def names(data: Any) -> List[str]:
    """The names of a table's columns."""
    with _of(data) as stream:
        schema = Schema()
        _check(stream, stream.get_schema(stream, schema))
        try:
            return [schema.children[i].contents.name.decode() for i in range(schema.n_children)]
        finally:
            _end(schema)


def numbers(data: Any) -> Any:
    """The numbers of a column, or of a table of one column, as a NumPy array: a copy. None where it holds others.
    ValueError where some are missing, or there are several columns."""
    with _of(data) as stream:
        schema = Schema()
        _check(stream, stream.get_schema(stream, schema))
        try:
            table = schema.format == b"+s"
            if table and schema.n_children != 1:
                raise ValueError(f"a table of {schema.n_children} columns, where one is expected")
            of = schema.children[0].contents if table else schema
            dtype = _NUMBERS.get(of.format.decode())
            if dtype is None or of.dictionary:
                return None
            parts = [_copied(a, table, dtype) for a in _arrays(stream)]
        finally:
            _end(schema)
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _copied(array: Any, table: bool, dtype: str) -> Any:
    first = array.offset if table else 0
    column = array.children[0].contents if table else array
    count, first = array.length, first + column.offset
    if column.null_count and column.buffers[0]:
        valid = np.ctypeslib.as_array(ctypes.cast(column.buffers[0], ctypes.POINTER(ctypes.c_uint8)),
                                      ((first + count + 7) // 8,))
        missing = count - int(np.unpackbits(valid, bitorder="little")[first:first + count].sum())
        if missing:
            raise ValueError(f"{missing} of {count} numbers are missing")
    if not count:
        return np.empty(0, dtype)
    size = np.dtype(dtype).itemsize
    memory = (ctypes.c_char * (count * size)).from_address(column.buffers[1] + first * size)
    return np.frombuffer(memory, dtype).copy()


def _arrays(stream: Any) -> Iterator[Any]:
    """The arrays of a stream, each valid until the next."""
    while True:
        array = Array()
        _check(stream, stream.get_next(stream, array))
        if not array.release:
            return
        try:
            yield array
        finally:
            _end(array)


def _check(stream: Any, code: int) -> None:
    if code:
        said = stream.get_last_error(stream)
        raise OSError(code, ctypes.string_at(said).decode("utf-8", "replace") if said else "an Arrow stream has failed")


def _end(struct: Any) -> None:
    if struct.release:
        struct.release(struct)


@contextlib.contextmanager
def _of(data: Any) -> Iterator[Any]:
    """The stream of an object, which ends with the block unless somebody takes it over."""
    if hasattr(data, "__arrow_c_stream__"):
        capsule = data.__arrow_c_stream__()
        stream = Stream.from_address(pointer(capsule, STREAM))
    else:
        stream = _of_array(*data.__arrow_c_array__())
    try:
        yield stream
    finally:
        _end(stream)


def _of_array(schema: Any, array: Any) -> Any:
    """A stream of the one array in two capsules."""
    described = move(Schema, Schema.from_address(pointer(schema, SCHEMA)))
    left: List[Any] = [move(Array, Array.from_address(pointer(array, ARRAY)))]

    def get_schema(_: Any, out: Any) -> int:
        out[0] = move(Schema, described)
        return 0

    def get_next(_: Any, out: Any) -> int:
        out[0] = left.pop() if left else Array()
        return 0

    def end(stream: Any) -> None:
        for struct in (described, *left):
            _end(struct)
        stream[0].release = EndStream()
    functions: Tuple[Any, ...] = (GetSchema(get_schema), GetNext(get_next), GetError(lambda _: None), EndStream(end))
    stream = Stream(*functions)
    stream.keeps = functions
    return stream
