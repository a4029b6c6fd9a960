"""Batches on a CUDA device: arrays over the server's device memory, opened by its CUDA IPC handles.

The server announces a batch when it is complete on the device, so readers need not wait. A slot goes back when its last
array is gone *and* the streams that used the batch have passed that moment.
"""

from __future__ import annotations

import warnings
from collections import deque
from typing import Any, Callable, Optional, Sequence

import numpy as np

from . import cuda
from ..errors import DeviceError, ProtocolError
from .._batch.frameworks import Array, Framework, Jax, NumpyArray, Torch
from .protocol import FOREIGN, BatchReady, Layout, Segment, Welcome
from .ring import Memory, Ring, SlotArrays


class DeviceMemory:
    """One segment on a device. Closed when the last array over it is gone."""

    __slots__ = ("address", "bytes", "_device")

    def __init__(self, about: Segment, fds: Sequence[int], device: cuda.Device) -> None:
        if fds:
            raise ProtocolError(f"segment {about.number} is on a device and came with {len(fds)} file descriptors")
        self._device = device
        self.bytes = about.bytes
        try:
            self.address = device.open(about.handle, about.bytes)
        except DeviceError as e:
            raise DeviceError(
                f"{e}. The server made segment {about.number} on its cuda:{about.device}: both processes must see the "
                "same devices in the same order (CUDA_VISIBLE_DEVICES) and use the same driver"
            ) from None

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self._device.close(self.address)


class DeviceRing(Ring):
    """A ring with segments on a device."""

    def __init__(self, device: cuda.Device, most_bytes: int, on_return: Callable[[], None]) -> None:
        super().__init__(most_bytes, on_return)
        self.device, self._kind = device, DeviceArrays
        self.current_stream: Callable[[], int] = lambda: 0  # of the thread that asks
        self.opened: dict[int, DeviceMemory] = {}  # by segment
        self._afterwards: Optional[Callable[[], object]] = None
        self.passing: deque[tuple[int, list[cuda.Event]]] = deque()  # slots, and what streams have to pass

    def _open(self, about: Segment, fds: Sequence[int]) -> Optional[Memory]:
        if about.memory == 0:
            return super()._open(about, fds)
        self.opened[about.number] = DeviceMemory(about, fds, self.device)
        return None

    def give_back(self, slot: int, streams: set[int]) -> None:
        """Returns a slot, once: after the streams of its arrays, and the current one, have done the work queued now."""
        try:
            streams = streams | {self.current_stream()}
        except Exception:  # the interpreter is ending, and the framework is half gone
            pass
        try:
            events = self.device.record(streams)
        except DeviceError:  # the device is lost: nothing is under way, and the framework reports it
            events = []
        self.passing.append((slot, events))
        self.held.pop(slot, None)
        if self.away() >= self.hold:
            self.on_return()
        if not self.held and self._afterwards is not None:
            then, self._afterwards = self._afterwards, None
            self.close()
            then()

    def leave(self, most: int) -> None:
        self._look()
        super().leave(most)

    def take_returned(self, most: int) -> list[int]:
        self._look()
        return super().take_returned(most)

    def _look(self) -> None:
        """Finds slots whose streams have passed."""
        for _ in range(len(self.passing)):
            try:
                slot, events = self.passing.popleft()
            except IndexError:  # another thread has them
                break
            if all(e.done() for e in events):
                self._passed(slot, events)
            else:
                self.passing.append((slot, events))

    def _passed(self, slot: int, events: list[cuda.Event]) -> None:
        for e in events:
            e.forget()
        self.returned.append(slot)

    def wait_for_one(self) -> bool:
        """Waits for the streams of the slot that was released first; returns False if no slot is about to come back."""
        try:
            slot, events = self.passing.popleft()
        except IndexError:
            return False
        for e in events:
            e.wait()
        self._passed(slot, events)
        return True

    def when_free(self, then: Callable[[], object]) -> None:
        if not self.held:
            then()
        else:
            self._afterwards = then

    def close(self) -> None:
        """Closes the server's memory if nothing of it is in use: a server must not free memory that others have
        open."""
        try:
            while self.wait_for_one():
                pass
        except DeviceError:  # lost
            return
        if not self.held:
            self.opened.clear()


class DeviceArrays(SlotArrays):
    """The arrays of a slot on a device. Some are on the host; all are, if the server shares no device memory. The slot
    goes back when the arrays are gone and the streams have passed."""

    __slots__ = ("device_ring", "streams")

    def begin(self, ring: Ring, ready: BatchReady, layout: Layout, descriptor: Optional[bytes]) -> None:
        assert isinstance(ring, DeviceRing)
        self.device_ring, self.streams = ring, {ring.current_stream()}
        super().begin(ring, ready, layout, descriptor)

    def release(self) -> None:
        if getattr(self, "_open", False):
            self._open = False
            self.device_ring.give_back(self.ready.slot, self.streams)

    __del__ = release

    def record_stream(self, stream: Any) -> None:
        """Records that a stream uses the batch: a torch.cuda.Stream, a cupy.cuda.Stream, or a CUstream as a number."""
        self.streams.add(int(getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))))

    def dtype(self, name: str) -> str:
        return self.layout.forms[name].dtype

    def view(self, name: str) -> Optional[DeviceArray]:
        """Returns an array on the device, or None for one on the host."""
        segment, offset, shape, numpy, dtype = self._place(name)
        memory = self.device_ring.opened.get(segment)
        if memory is None:
            return None
        return DeviceArray(self, memory, memory.address + offset, shape, numpy, dtype)

    def numpy(self, name: str) -> tuple[NumpyArray, str]:
        """Returns a view of an array on the host, or a copy of one on the device."""
        view = self.view(name)
        return super().numpy(name) if view is None else (view.numpy(), view.dtype_name)


class DeviceArray:
    """An array on a device, which torch.as_tensor, cupy.asarray, numba and others take without a copy
    (``__cuda_array_interface__``).

    It keeps the batch's slot taken, as does every array made of it.
    """

    __slots__ = ("shape", "dtype", "dtype_name", "_address", "_slot", "_memory", "__weakref__")

    def __init__(
        self, slot: DeviceArrays, memory: DeviceMemory, address: int, shape: tuple[int, ...], dtype: np.dtype[Any],
        dtype_name: str,
    ) -> None:
        self.shape, self.dtype, self.dtype_name = shape, dtype, dtype_name
        self._address, self._slot, self._memory = address, slot, memory

    def as_type(self, dtype: str) -> DeviceArray:
        """Returns the same memory as elements of another dtype of the same size."""
        return DeviceArray(self._slot, self._memory, self._address, self.shape, np.dtype(dtype), self.dtype_name)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # No stream to wait for: the batch was complete when it came.
        return {
            "version": 3, "shape": self.shape, "typestr": self.dtype.str, "data": (self._address, False),
            "strides": None, "stream": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._slot.device_ring.device.ordinal  # kDLCUDA

    def __dlpack__(self, **options: Any) -> Any:
        """Through torch, which has to be there."""
        return tensor_of(Torch(), self).__dlpack__(**options)

    def __len__(self) -> int:
        return self.shape[0]

    def numpy(self) -> NumpyArray:
        """Copies the array to host memory, after the work already queued on the batch's streams."""
        out = np.empty(self.shape, self.dtype)
        if out.nbytes:
            ring = self._slot.device_ring
            for e in ring.device.record(self._slot.streams | {ring.current_stream()}):
                e.wait()
                e.forget()
            ring.device.download(out.ctypes.data, self._address, out.nbytes)
        return out

    def __repr__(self) -> str:
        return f"<khop.DeviceArray {self.dtype_name}{list(self.shape)} on cuda:{self._slot.device_ring.device.ordinal}>"


# --- frameworks ---

class Objects(Framework):
    """Leaves a DeviceArray as it is, for programs without torch."""

    def cat(self, arrays: Sequence[Array]) -> Array:
        if all(isinstance(a, np.ndarray) for a in arrays):
            return super().cat(arrays)
        raise _needs_torch("this array is made of several")

    def edge_index(self, indptr: Array, indices: Array) -> Array:
        raise _needs_torch("edge_index is computed")

    def to(self, array: Array, device: Any, non_blocking: bool) -> Array:
        raise _needs_torch("to() copies")


def _needs_torch(what: str) -> TypeError:
    return TypeError(
        f'{what}: on a device that needs framework="torch"; blocks, nodes and columns are there without it')


def prepare(device: Any, framework: Framework) -> tuple[Optional[cuda.Device], Framework]:
    """Returns the device that batches are taken on, None for the host, and the framework for it. DeviceError if there
    is no such device."""
    ordinal = cuda.ordinal(device)
    if ordinal < 0:
        return None, framework
    if isinstance(framework, Jax):
        raise ValueError(
            f'device="{device}": for JAX take framework="numpy" and jax.dlpack.from_dlpack(array), or device="cpu" '
            'and batch.to("cuda")'
        )
    if isinstance(framework, Torch):
        if not framework.torch.cuda.is_available():
            raise DeviceError(
                f'device="{device}": this torch ({framework.torch.__version__}) finds no CUDA device: install one '
                'that is built for CUDA, or take device="cpu"'
            )
        return cuda.Device(ordinal), framework
    return cuda.Device(ordinal), Objects()


def automatic(
    framework: Framework, inside: bool, pad: Any, processes: int,
) -> tuple[Optional[cuda.Device], str]:
    """Returns the device on which device="auto" takes the batches of a server that makes them there; else None, and the
    reason why they come to the host. inside, pad and processes describe the loader: whether it is in this process, its
    padding, and how many processes of this machine share its server."""
    if inside:
        return None, "the shared library makes batches on the CPU"
    if processes > 1:
        return None, f"{processes} processes of this machine share a server, which has one device"
    if not isinstance(framework, Torch):
        return None, f'arrays of framework="{framework.name}" lie on the host'
    if pad is not None:
        return None, "pad= works on the host"
    if not framework.torch.cuda.is_available():
        return None, f"this torch ({framework.torch.__version__}) finds no CUDA device"
    try:
        return cuda.Device(0), ""
    except DeviceError as e:
        return None, str(e)


def _check_same(device: cuda.Device, server: Any) -> None:
    """Refuses a device of this process that is not the server's: each process counts those that CUDA_VISIBLE_DEVICES
    lets it see."""
    if not server or not device.uuid or server == device.uuid:
        return
    here = cuda.seen_as(str(server))
    remedy = "this process does not see that device: look at CUDA_VISIBLE_DEVICES"
    if here is not None:
        remedy = f'take device="cuda:{here}"'
    raise DeviceError(
        f"the server's batches lie on device {str(server)[:80]}, and cuda:{device.ordinal} is {device.uuid}: {remedy}")


def begin(ring: DeviceRing, framework: Framework, welcome: Welcome) -> None:
    """Notes in the ring which stream the framework uses."""
    made = str(welcome.about.get("device"))
    if made.startswith("cuda") and not welcome.device:
        warnings.warn(f"batches are made on {made} and come through host memory: the server cannot share its device "
                      "memory", RuntimeWarning, 4)
    if welcome.device:
        _check_same(ring.device, welcome.about.get("device_uuid"))
    if isinstance(framework, Torch):
        current, number = framework.torch.cuda.current_stream, ring.device.ordinal
        ring.current_stream = lambda: int(current(number).cuda_stream)


def array_of(framework: Framework, arrays: DeviceArrays, name: str, index: Optional[np.dtype[Any]]) -> Array:
    """Returns an array of a batch, with torch always on the device. Ids get the index dtype, by a copy on the device if
    they have another. index is None for other arrays."""
    view = arrays.view(name)
    if isinstance(framework, Torch):
        if view is not None:
            value = tensor_of(framework, view)
        else:
            value = framework.wrap(*arrays.numpy(name)).to(_name(arrays))
        return value if index is None else value.to(getattr(framework.torch, index.name))
    if view is not None:
        return view
    host = arrays.numpy(name)[0]
    return host if index is None else host.astype(index, copy=False)


def _name(arrays: DeviceArrays) -> str:
    return f"cuda:{arrays.device_ring.device.ordinal}"


def tensor_of(framework: Torch, view: DeviceArray) -> Array:
    """Returns a torch tensor over the same memory."""
    torch, device, name = framework.torch, _name(view._slot), view.dtype_name
    try:
        if name in FOREIGN:
            return torch.as_tensor(view.as_type(f"<i{FOREIGN[name]}"), device=device).view(getattr(torch, name))
        return torch.as_tensor(view, device=device)
    except (TypeError, AttributeError):
        raise TypeError(f'torch {torch.__version__} has no dtype {name} on a device: leave this column out, or take '
                        'framework="numpy"') from None
