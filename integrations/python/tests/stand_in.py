"""Tests of tensors on a device, with the simulated one, whose memory ctypes can make tensors of: they stand in for
torch's on CUDA. Each test is a process of its own, whose library is built for devices."""
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parents[3]
LIBRARY, DRIVER = ROOT / "dist/libkhop-cuda.so", ROOT / "dist/libcudasim.so"
needs_device = pytest.mark.skipif(
    not (LIBRARY.exists() and DRIVER.exists()),
    reason="no dist/libkhop-cuda.so or no dist/libcudasim.so: make library-cuda cudasim",
)
STAND_IN = '''
import ctypes
import mmap
import sys
import weakref

import numpy as np
import torch

import khop
from khop._feed import cuda
from khop._unified import tensor as unified_tensor

device = cuda.Device(0)
driver = device._lib
stream, blocks, asked = ctypes.c_void_p(), {}, []


def call(name, *arguments):
    with device._current() as lib:
        code = getattr(lib, name)(*arguments)
    assert code == 0, (name, code)


def over(address, shape, dtype, gone=lambda: None):
    t = torch.empty(0, dtype=dtype)
    size = int(np.prod(shape, dtype=np.int64)) * t.element_size()
    memory = (ctypes.c_uint8 * size).from_address(address)
    weakref.finalize(memory, gone).atexit = False
    return torch.frombuffer(memory, dtype=dtype).view(tuple(shape))


class Simulated(unified_tensor.Devices):
    @staticmethod
    def ordinal(tensor):
        address = tensor.data_ptr()
        return 0 if any(a <= address < a + n for a, n in blocks.items()) else None

    @staticmethod
    def stream(ordinal):
        asked.append(ordinal)
        return stream.value

    @staticmethod
    def empty(shape, dtype, ordinal):
        size = max(int(np.prod(tuple(shape), dtype=np.int64)) * torch.empty(0, dtype=dtype).element_size(), 1)
        at = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        blocks[at.value] = size
        return over(at.value, shape, dtype, lambda: Simulated.free(at))

    @staticmethod
    def free(at):
        wait()
        call("cuMemFree_v2", at)
        del blocks[at.value]

    @staticmethod
    def view(address, tensor, ordinal):
        blocks[address] = tensor.numel() * tensor.element_size()
        return over(address, tensor.shape, tensor.dtype)


def put(host):
    """The elements in memory of the device."""
    there = Simulated.empty(host.shape, host.dtype, 0)
    call("cuMemcpyHtoD_v2", ctypes.c_uint64(there.data_ptr()), ctypes.c_void_p(host.data_ptr()),
         ctypes.c_size_t(host.numel() * host.element_size()))
    return there


def wait():
    call("cuStreamSynchronize", stream)


call("cuStreamCreate", ctypes.byref(stream), 1)
unified_tensor.devices = Simulated
draw = np.random.default_rng(4)


def numbers(dtype, *shape):
    """In pages of their own: those of a unified tensor are page-locked as a whole, and a driver copies nothing of which
    a part is page-locked."""
    drawn = torch.from_numpy(draw.integers(0, 100, shape)).to(dtype)
    own = torch.frombuffer(mmap.mmap(-1, drawn.numel() * drawn.element_size()), dtype=dtype).view(drawn.shape)
    own.copy_(drawn)
    return own
'''


def run(body, *arguments, **environment):
    env = {**os.environ, "KHOP_LIBRARY": str(LIBRARY), "KHOP_CUDA_DRIVER": str(DRIVER), **environment}
    done = subprocess.run([sys.executable, "-c", STAND_IN + textwrap.dedent(body), *map(str, arguments)], env=env,
                          capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
