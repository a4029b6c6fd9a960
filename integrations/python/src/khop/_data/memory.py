"""A small graph in memory: loaders in this process read it in the library's, all others a dataset on disk."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any, Dict, Mapping, Optional, Tuple, Union

import numpy as np

from .._native import library as _library
from .._native.scratch import SMALL, Scratch
from ..errors import ForkError, KhopError, LibraryNotFound
from . import write

_Parts = Mapping[Union[str, Tuple[str, str, str]], Mapping[str, Any]]


class _Array(ctypes.Structure):
    """struct khop_array."""

    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("rank", ctypes.c_int64), ("data", ctypes.c_void_p)]


class Graph(os.PathLike[str]):
    """The arrays of a graph, as khop.write takes those of several types. What becomes of them later changes nothing.

    Up to 8 MiB of numbers become a dataset in the library's memory, unless khop convert has something to say of them.
    Whoever asks for a path, such as a loader with a server or in a forked process, has it written to disk. Larger
    graphs, and others, are written at once. The parts of a graph are one owner's, who calls close; loaders that were
    opened before stay valid if they are in this process.
    """

    def __init__(self, what: str, parts: _Parts, inside: bool) -> None:
        """what begins the names of folders. inside allows loading the shared library. WriteError for an invalid
        graph."""
        self._what, self._parts, self._inside = what, parts, inside
        self._scratch: Optional[Scratch] = None
        self._path = ""
        self._lock = threading.Lock()
        self.handle = 0
        """Of the library's graph; 0 where loaders need the path."""
        if inside and write.size(parts) <= SMALL:
            self._keep()
        if not self.handle:
            os.fspath(self)

    def _keep(self) -> None:
        """Makes the dataset in memory, of copies of the arrays. Where that cannot be, nothing has changed."""
        copies = _copies(self._parts)
        if copies is None:
            return
        try:
            library = _library.load()
            self.handle = _open(library, copies)
        except (LibraryNotFound, ForkError, KhopError):
            return
        self._parts = copies
        self._end = weakref.finalize(self, library.close, self.handle)

    def __fspath__(self) -> str:
        """The path of a dataset on disk, which is written first."""
        with self._lock:
            if not self._path:
                self._scratch, self._path = write.temporary(self._what, self._parts, inside=self._inside)
                self._parts = {}
        return self._path

    def __reduce__(self) -> Any:
        return str, (os.fspath(self),)

    def close(self) -> None:
        """Ends the graph in memory, and removes the dataset."""
        if self.handle:
            self._end()
        if self._scratch is not None:
            self._scratch.close()


def handle(dataset: Any) -> int:
    """Returns the library's graph of a dataset that is a Graph; 0 where it is read by its path."""
    return dataset.handle if isinstance(dataset, Graph) else 0


def _copies(parts: _Parts) -> Optional[Dict[Any, Dict[str, Any]]]:
    """Copies of the arrays; None where some are not plain numbers."""
    copies: Dict[Any, Dict[str, Any]] = {}
    for key, arrays in parts.items():
        to = copies[key] = {}
        for name, value in arrays.items():
            array = write.numbers(value)
            if array is None or array.dtype.kind not in "iuf" or not array.dtype.isnative or array.dtype.itemsize > 8:
                return None
            to[name] = np.array(array, order="C", ndmin=1)
    return copies


def _open(library: _library.Library, parts: Mapping[Any, Mapping[str, Any]]) -> int:
    """Makes the dataset, and returns its handle."""
    make = library.function("khop_graph_open", ctypes.POINTER(_Array), ctypes.c_int64, ctypes.POINTER(ctypes.c_uint64))
    named = [(f"{write.folder_of(key)}/{name}", array) for key, of in parts.items() for name, array in of.items()]
    arrays = (_Array * len(named))(*(
        _Array(name.encode(), a.dtype.str[1:].encode(), (ctypes.c_int64 * a.ndim)(*a.shape), a.ndim, a.ctypes.data)
        for name, a in named))
    made = ctypes.c_uint64()
    make(arrays, len(named), made)
    return made.value
