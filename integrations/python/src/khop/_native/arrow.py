"""The structs of Arrow's C data interface and C stream interface, and the capsules in which Python hands them on.

Method: https://arrow.apache.org/docs/format/CDataInterface.html, and beside it CStreamInterface.html and
CDataInterface/PyCapsuleInterface.html.
"""

from __future__ import annotations

import ctypes
from typing import Any

SCHEMA, ARRAY, STREAM = b"arrow_schema", b"arrow_array", b"arrow_array_stream"
"""The names of capsules."""

pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Schema(ctypes.Structure):
    """struct ArrowSchema."""


class Array(ctypes.Structure):
    """struct ArrowArray."""


class Stream(ctypes.Structure):
    """struct ArrowArrayStream."""


EndSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(Schema))
EndArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(Array))
EndStream = ctypes.CFUNCTYPE(None, ctypes.POINTER(Stream))
GetSchema = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Schema))
GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Array))
GetError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Stream))

Schema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.POINTER(Schema)), ("release", EndSchema), ("private_data", ctypes.c_void_p)]
Array._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)), ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.POINTER(Array)), ("release", EndArray), ("private_data", ctypes.c_void_p)]
Stream._fields_ = [
    ("get_schema", GetSchema), ("get_next", GetNext), ("get_last_error", GetError), ("release", EndStream),
    ("private_data", ctypes.c_void_p)]


def move(of: Any, struct: Any) -> Any:
    """Takes what a struct holds over into a new one of the type of, as the interface asks for: the old one is then
    released."""
    new = of.from_buffer_copy(struct)
    struct.release = type(struct.release)()
    return new


_new: Any = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_named = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_GetName", ctypes.pythonapi))
_at = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_structs: dict[int, Any] = {}  # those in capsules, by their addresses


def _destroy(capsule: int) -> None:
    """Ends a capsule, with what nobody has taken over from it."""
    struct = _structs.pop(_at(capsule, _named(capsule)), None)
    if struct is not None and struct.release:
        struct.release(struct)


_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy)


def capsule(struct: Any, name: bytes) -> Any:
    """A capsule that owns a struct."""
    _structs[ctypes.addressof(struct)] = struct
    return _new(ctypes.addressof(struct), _NAMES[name], ctypes.cast(_destructor, ctypes.c_void_p))


_NAMES = {name: ctypes.create_string_buffer(name) for name in (SCHEMA, ARRAY, STREAM)}
"""The same names where they stay, for a capsule keeps no copy."""
