"""khop as a shared library in this process: functions of cmd/libkhop/khop.h, by ctypes.

It is loaded when something first needs it. Go's runtime comes with it, which a fork does not copy: a child of a process
that has loaded it gets ForkError.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import threading
from pathlib import Path
from typing import Any, Callable, Optional

from ..errors import ForkError, KhopError, LibraryNotFound, OptionError, ServerError, StateError

ABI = 7  # KHOP_ABI
OK, AGAIN, ARGUMENT, CLOSED, FAILED, STATE, BUG = range(7)
Handle = ctypes.c_uint64
DESCRIPTORS = 8
"""File descriptors that must be left: where Go's runtime finds none for its poller, it ends the process."""

_RAISES: dict[int, type[Exception]] = {
    ARGUMENT: OptionError, CLOSED: ServerError, FAILED: ServerError, STATE: StateError,
}
_GO_NEEDS = (signal.SIGURG, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP)


_FEED: list[Any] = [  # functions that do not enter Go: name, result, arguments
    ("khop_feed_new", ctypes.c_void_p),
    ("khop_feed_free", None, ctypes.c_void_p),
    ("khop_feed_bell", ctypes.c_int32, ctypes.c_void_p),
    ("khop_feed_put", ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32),
    ("khop_feed_take", ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p),
]


_ARRAYS: list[Any] = [  # the same, which take longer: other threads run meanwhile
    *((name, ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2)
      for name in ("khop_ends_32", "khop_ends_32_64", "khop_ends_64")),
    ("khop_calendar", None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64),
]


class Error(ctypes.Structure):
    """struct khop_error."""

    _fields_ = [("code", ctypes.c_int32), ("text", ctypes.c_char * 4092)]


class Library:
    """The library, loaded. Any thread may call it."""

    def __init__(self, path: str) -> None:
        _look_for_descriptors()
        # Go's threads keep this mask, so that the signals of this process go to Python's threads.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - set(_GO_NEEDS))
        try:
            self._c = ctypes.CDLL(path)
            # Functions that wait for nothing: to let other threads run would take longer.
            self.feed = ctypes.PyDLL(path)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.path = path
        self.usable = True  # False in a forked child
        self._local = threading.local()
        abi = int(self._c.khop_abi())
        if abi != ABI:
            raise LibraryNotFound(
                f"{path} speaks version {abi} of khop.h, this package version {ABI}: install both of the same version "
                "of khop")
        self._c.khop_version.restype = ctypes.c_char_p
        self.version = str(self._c.khop_version().decode())
        self._close = self.function("khop_close", Handle)
        for of, functions in ((self.feed, _FEED), (self._c, _ARRAYS)):
            for name, result, *arguments in functions:
                function = getattr(of, name)
                function.restype, function.argtypes = result, arguments

    def function(self, name: str, *arguments: Any) -> Callable[..., int]:
        """A function whose last argument is khop_error *, with its other arguments' types. Called without that one it
        returns OK or AGAIN, and raises what the library says. It lets other threads run meanwhile."""
        c, local = self._c[name], self._local
        c.argtypes, c.restype = [*arguments, ctypes.POINTER(Error)], ctypes.c_int32

        def call(*values: Any) -> int:
            if not self.usable:
                raise _forked()
            error = getattr(local, "error", None)
            if error is None:
                error = local.error = Error()
            code: int = c(*values, error)
            if code > AGAIN:
                raise failure(error)
            return code
        return call

    def close(self, handle: int) -> None:
        """Ends what a handle stands for. Does nothing in a forked child: there it is its parent's."""
        if self.usable:
            self._close(handle)


def _look_for_descriptors() -> None:
    """OSError where too few are left. Others may take them meanwhile, so there is room to spare."""
    taken: list[int] = []
    try:
        while len(taken) < DESCRIPTORS:
            taken += os.pipe()
    except OSError as e:
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        raise OSError(e.errno, f"fewer than {DESCRIPTORS} file descriptors are left of {most}, and without them Go's "
                               "runtime would end this process: close some, or allow more (ulimit -n)") from None
    finally:
        for descriptor in taken:
            os.close(descriptor)


def failure(error: Error) -> Exception:
    """The exception that says what an error says."""
    return _RAISES.get(error.code, KhopError)(error.text.decode("utf-8", "replace"))


_lock = threading.Lock()
_loaded: Optional[Library] = None
_parent = 0  # the process that had loaded it before this one was forked


def find() -> str:
    """The path of the library: ``$KHOP_LIBRARY``, else the one in this package. LibraryNotFound if there is none."""
    named = os.environ.get("KHOP_LIBRARY")
    if named:
        if not os.path.isfile(named):
            raise LibraryNotFound(f"$KHOP_LIBRARY names {named}, which is not a file")
        return named
    own = Path(__file__).parent.parent / "lib" / "libkhop.so"
    if not own.is_file():
        raise LibraryNotFound(
            "this package was installed without the shared library (libkhop.so): install a wheel that has it, or build "
            "it with tools/libkhop.sh and set KHOP_LIBRARY")
    return str(own)


def why_not() -> str:
    """Why the library cannot be used in this process; empty if it can, as far as can be seen without loading it."""
    if _parent:
        return str(_forked())
    try:
        find()
    except LibraryNotFound as e:
        return str(e)
    return ""


def load() -> Library:
    """The library. LibraryNotFound where there is none or it cannot be loaded; ForkError in a child of a process that
    has loaded it."""
    global _loaded
    if _loaded is not None and not _parent:
        return _loaded
    with _lock:
        if _parent:
            raise _forked()
        if _loaded is None:
            path = find()
            try:
                _loaded = Library(path)
            except OSError as e:
                raise LibraryNotFound(f"{path} cannot be loaded: {e}") from None
        return _loaded


def loaded() -> bool:
    """Whether the library is loaded and can be called in this process."""
    return _loaded is not None and _loaded.usable


def of_arrays(name: str) -> Optional[Callable[..., Any]]:
    """A function of khop.h that turns arrays into others; None where the library is not loaded. None of Go is in it, so
    that a forked child may call it, too."""
    return None if _loaded is None else getattr(_loaded._c, name)


def _forked() -> ForkError:
    return ForkError(
        f"process {_parent} had loaded khop's shared library when it forked this one, {os.getpid()}, and Go's runtime "
        'does not survive a fork. Start processes by "spawn" or "forkserver" (multiprocessing), make khop loaders only '
        'in the children, or take process="server"'
    )


def _before_fork() -> None:
    _lock.acquire()  # no fork while another thread loads it


def _in_parent() -> None:
    _lock.release()


def _in_child() -> None:
    global _parent
    if _loaded is not None:
        _loaded.usable = False
        _parent = os.getppid()
    _lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
