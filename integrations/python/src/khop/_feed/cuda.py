"""The calls of the CUDA driver that batches on a device need, from libcuda.so.1 or $KHOP_CUDA_DRIVER.

Work runs in a device's primary context, which PyTorch, CuPy and JAX use too. Any thread may call these functions.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from typing import Any, Iterable, Iterator, Optional
from uuid import UUID

from ..errors import DeviceError

_NOT_READY = 600
_DISABLE_TIMING = 2
_LAZY_PEER_ACCESS = 1


class _Handle(ctypes.Structure):
    """A CUipcMemHandle, which is passed by value."""

    _fields_ = [("bytes", ctypes.c_char * 64)]


_driver: Optional[ctypes.CDLL] = None


def _load() -> ctypes.CDLL:
    """The driver, started."""
    global _driver
    if _driver is None:
        name = os.environ.get("KHOP_CUDA_DRIVER") or "libcuda.so.1"
        try:
            lib = ctypes.CDLL(name)
            lib.cuIpcOpenMemHandle_v2.argtypes = [ctypes.c_void_p, _Handle, ctypes.c_uint]
        except (OSError, AttributeError) as e:
            raise DeviceError(f'no CUDA driver: {e}; take device="cpu"') from None
        code = lib.cuInit(0)
        if code != 0:
            raise DeviceError(f"the CUDA driver does not start: {_describe(lib, code)}")
        _driver = lib
    return _driver


def _describe(lib: ctypes.CDLL, code: int) -> str:
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    lib.cuGetErrorName(code, ctypes.byref(name))
    lib.cuGetErrorString(code, ctypes.byref(text))
    return f"{(name.value or b'CUDA_ERROR').decode()} ({code}): {(text.value or b'unknown to this driver').decode()}"


class Device:
    """A CUDA device of this process."""

    def __init__(self, ordinal: int) -> None:
        lib = self._lib = _load()
        self.ordinal = ordinal
        self._context = ctypes.c_void_p()
        self._idle: list[ctypes.c_void_p] = []  # events to record again
        number, count = ctypes.c_int(), ctypes.c_int()
        self._check(lib.cuDeviceGetCount(ctypes.byref(count)), "count the CUDA devices")
        if ordinal >= count.value:
            raise DeviceError(f"cuda:{ordinal}: there are {count.value} CUDA devices, cuda:0 the first")
        self._check(lib.cuDeviceGet(ctypes.byref(number), ordinal), f"find cuda:{ordinal}")
        self.uuid = _uuid(lib, number)
        # Never released: the context is shared with the framework, and arrays may live until the process ends.
        self._check(lib.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), number), f"open cuda:{ordinal}")

    def _check(self, code: int, what: str) -> None:
        if code != 0:
            raise DeviceError(f"{what}: {_describe(self._lib, code)}")

    @contextmanager
    def _current(self) -> Iterator[ctypes.CDLL]:
        """The driver, with the context current on this thread."""
        self._check(self._lib.cuCtxPushCurrent_v2(self._context), f"use cuda:{self.ordinal}")
        try:
            yield self._lib
        finally:
            self._lib.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def open(self, handle: bytes, size: int) -> int:
        """Opens memory of another process, of at least size bytes. Returns its address."""
        at, base, whole = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_size_t()
        h = _Handle()
        ctypes.memmove(ctypes.byref(h), handle, 64)
        with self._current() as lib:
            self._check(lib.cuIpcOpenMemHandle_v2(ctypes.byref(at), h, _LAZY_PEER_ACCESS),
                        f"open the server's memory on cuda:{self.ordinal}")
            code = lib.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(whole), at)
        if code == 0 and base.value + whole.value < at.value + size:
            self.close(at.value)
            raise DeviceError(f"the server's memory has {whole.value} bytes, not {size}")
        return at.value

    def close(self, address: int) -> None:
        """Closes memory that was opened. Nothing may use it afterwards."""
        with self._current() as lib:
            lib.cuIpcCloseMemHandle(ctypes.c_uint64(address))

    def download(self, to: int, address: int, size: int) -> None:
        """Copies device memory to host memory, and waits for that."""
        with self._current() as lib:
            self._check(lib.cuMemcpyDtoH_v2(ctypes.c_void_p(to), ctypes.c_uint64(address), ctypes.c_size_t(size)),
                        f"copy from cuda:{self.ordinal}")

    def record(self, streams: Iterable[int]) -> list[Event]:
        """Returns events that mark the current ends of these streams (CUstream as numbers, 0 is the legacy default
        stream)."""
        with self._current() as lib:
            return [self._event(lib, s) for s in streams]

    def _event(self, lib: ctypes.CDLL, stream: int) -> Event:
        try:
            handle = self._idle.pop()
        except IndexError:
            handle = ctypes.c_void_p()
            self._check(lib.cuEventCreate(ctypes.byref(handle), _DISABLE_TIMING), "make an event")
        self._check(lib.cuEventRecord(handle, ctypes.c_void_p(stream)), "record an event")
        return Event(self, handle)


def _uuid(lib: ctypes.CDLL, device: ctypes.c_int) -> str:
    """A device's name in every process, as the server writes it; empty where the driver does not tell."""
    board, own = ctypes.create_string_buffer(16), ctypes.create_string_buffer(16)
    if lib.cuDeviceGetUuid(board, device) or lib.cuDeviceGetUuid_v2(own, device):
        return ""
    name = ctypes.create_string_buffer(256)
    lib.cuDeviceGetName(name, 256, device)  # from CUDA 13 on both calls name an instance of MIG
    return ("GPU-" if own.raw == board.raw and b" MIG " not in name.value else "MIG-") + str(UUID(bytes=own.raw))


def seen_as(uuid: str) -> Optional[int]:
    """Returns the ordinal under which this process sees the device of that name, or None."""
    lib, count, number = _load(), ctypes.c_int(), ctypes.c_int()
    lib.cuDeviceGetCount(ctypes.byref(count))
    for ordinal in range(count.value):
        if lib.cuDeviceGet(ctypes.byref(number), ordinal) == 0 and _uuid(lib, number) == uuid:
            return ordinal
    return None


class Event:
    """A place in a stream."""

    __slots__ = ("_device", "_handle")

    def __init__(self, device: Device, handle: ctypes.c_void_p) -> None:
        self._device, self._handle = device, handle

    def done(self) -> bool:
        """Whether the stream has passed the event. It is true after an error, which the framework's next call
        reports."""
        with self._device._current() as lib:
            return int(lib.cuEventQuery(self._handle)) != _NOT_READY

    def wait(self) -> None:
        """Waits until the stream has passed it."""
        with self._device._current() as lib:
            lib.cuEventSynchronize(self._handle)

    def forget(self) -> None:
        """Returns the event to those that may be recorded again. Do not use it afterwards."""
        self._device._idle.append(self._handle)


def ordinal(device: Any) -> int:
    """Returns the number of a CUDA device given as "cuda", "cuda:1" or torch.device("cuda:1"); -1 for "cpu" and
    "auto"."""
    name = str(device)
    if name in ("cpu", "auto"):
        return -1
    kind, _, number = name.partition(":")
    if kind == "cuda" and (number.isdecimal() or name == "cuda"):
        return int(number or 0)
    raise ValueError(f'device={name!r}: must be "auto", "cpu", "cuda" or "cuda:<number>"')
