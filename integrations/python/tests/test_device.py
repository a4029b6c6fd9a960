"""Batches on a device, with the simulated one: its memory is the host's, so that ctypes can look at it.

They run where KHOP_CUDA_DRIVER names the simulator, or it and the program for it are in dist/, and skip elsewhere.
"""
import ctypes
import gc
import os
import pathlib
import signal
import subprocess

import numpy as np
import pytest

import khop
from khop._feed import cuda, device
from khop._batch import digest, frameworks
from khop._feed.device import DeviceArray

ROOT = pathlib.Path(__file__).parents[3]
PROGRAM, DRIVER = ROOT / "dist/khop-cuda", ROOT / "dist/libcudasim.so"

pytestmark = pytest.mark.skipif(
    not (PROGRAM.exists() and DRIVER.exists()),
    reason="no dist/khop-cuda or no dist/libcudasim.so: make khop-cuda cudasim",
)
PLAIN = dict(fanouts=[5, 3], batch_size=256, seed=3, shuffle=True)
FLAGS = ["--fanouts=5,3", "--batch-size=256", "--seed=3", "--shuffle"]


@pytest.fixture(autouse=True)
def driver(monkeypatch):
    monkeypatch.setenv("KHOP_CUDA_DRIVER", str(DRIVER))
    monkeypatch.setenv("KHOP_BIN", str(PROGRAM))


def loader(dataset, **options):
    return khop.Loader(dataset, **{**PLAIN, "device": "cuda:0", "framework": "numpy", **options})


def look(array):
    """An array on the simulated device, through the address that it tells frameworks."""
    about = array.__cuda_array_interface__
    assert about["version"] == 3 and about["stream"] is None and about["strides"] is None
    dtype, (address, read_only) = np.dtype(about["typestr"]), about["data"]
    assert not read_only
    size = int(np.prod(about["shape"], dtype=np.int64)) * dtype.itemsize
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address),
                         dtype).reshape(about["shape"]) if size else np.empty(about["shape"], dtype)


def looked_digest(batch):
    """The full digest of what lies on the device, without the package's own copies."""
    source = batch._arrays()

    def arrays():
        for name in batch.names():
            a = batch.array(name)
            if isinstance(a, DeviceArray):
                yield name, look(a), a.dtype_name
            else:
                yield name, a, source.dtype(name)
    return digest.digests(arrays())


@pytest.mark.parametrize("name, more", [("sbm", []), ("sbm", ["--edge-pos"]), ("typed", ["--frontier=new"])])
def test_another_process_sees_the_batches_that_the_cpu_makes(dataset, sample, name, more):
    options = {"edge_pos": "--edge-pos" in more, "frontier": "new" if "--frontier=new" in more else "all"}
    data = dataset(name)
    with loader(data, **options) as batches:
        assert batches.about["device"] == "cuda:0"
        for epoch in range(2):
            expected = sample(data, "--device=cpu", f"--epoch={epoch}", f"--frontier={options['frontier']}", *FLAGS)
            got = []
            for b in batches:
                topology, full = b.digests()
                assert (topology, full) == looked_digest(b)
                got.append((b.number, topology, full))
            if not options["edge_pos"]:
                assert got == expected
            assert len(got) == len(expected)
        rings = batches.statistics()
        assert rings["ring_device_bytes"] >= 64 << 20 and rings["ring_bytes"] > 0


def test_columns_and_ids_are_on_the_device_and_counts_are_not(dataset):
    with loader(dataset("sbm")) as batches:
        b = next(iter(batches))
        for a in (b.x, b.y, b.n_id, b.blocks[0].indptr, b.blocks[0].indices):
            assert isinstance(a, DeviceArray) and a.__dlpack_device__() == (2, 0)
            assert (look(a) == a.numpy()).all()
        assert b.x.shape == (b.num_nodes, 16) and b.x.dtype == np.float32
        assert b.n_id.dtype == np.int32  # the dataset's own
        assert isinstance(b.input_id, np.ndarray) and b.input_id.dtype == np.int64
        assert b.num_sampled_nodes[0] == b.batch_size
        with pytest.raises(TypeError, match='framework="torch"'):
            b.edge_index
        host = b.copy()
        assert isinstance(host.x, np.ndarray) and host.digest() == b.digest()
        assert host.edge_index.shape[0] == 2


def test_a_slot_comes_back_when_the_last_array_is_gone(dataset):
    with loader(dataset("sbm"), hold=2) as batches:
        it = iter(batches)
        kept = [next(it).x, next(it).x]
        before = [k.numpy() for k in kept]
        patient, batches._feed._timeout = batches._feed._timeout, 1.0
        with pytest.raises(khop.SlotsHeldError):
            next(it)
        batches._feed._timeout = patient
        assert all((look(k) == was).all() for k, was in zip(kept, before))
        kept.pop()
        gc.collect()
        assert next(it).number == 2


class Slow(cuda.Event):
    """An event that passes when it is told to."""

    __slots__ = ()
    passed = False

    def done(self):
        return Slow.passed

    def wait(self):
        Slow.passed = True


def test_a_slot_comes_back_when_the_streams_have_passed(dataset, monkeypatch):
    streams = []

    def record(device, which):
        streams.append(set(which))
        return [Slow(device, ctypes.c_void_p())]
    with loader(dataset("sbm"), hold=3) as batches:
        ring = batches._feed.ring
        monkeypatch.setattr(cuda.Device, "record", record)
        Slow.passed = False
        it = iter(batches)
        b = next(it)
        b.record_stream(7)
        b.release()
        assert streams == [{0, 7}]
        assert len(ring.passing) == 1 and not ring.returned and not ring.held
        next(it).release()
        assert len(ring.passing) == 2  # asking for a batch has polled, and not waited
        assert not Slow.passed
        next(it).release()
        assert next(it).number == 3  # nothing more could come: the first was waited for
        assert Slow.passed
        monkeypatch.undo()


@pytest.fixture
def serve(dataset, tmp_path):
    made = []

    def serve(*options, **environment):
        path = tmp_path / f"feed{len(made)}" / "sock"
        command = [PROGRAM, "serve", dataset("sbm"), f"--socket={path}", *FLAGS, *options]
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env={**os.environ, **environment})
        made.append(p)
        assert "serving" in p.stdout.readline()
        return path
    yield serve
    for p in made:
        p.send_signal(signal.SIGTERM)
        p.communicate()


def test_consumers_on_the_host_and_on_the_device_take_turns(dataset, sample, serve):
    path = serve("--device=cuda")
    want = sample(dataset("sbm"), "--device=cpu", *FLAGS)
    for where in ("cpu", "cuda", "cpu", "cuda:0"):
        with khop.connect(path, device=where, framework="numpy", index_dtype="int32") as batches:
            batches.set_epoch(0)
            kind = np.ndarray if where == "cpu" else DeviceArray
            for b, (number, topology, full) in zip(batches, want):
                assert isinstance(b.x, kind) and isinstance(b.n_id, kind)
                assert (b.number, *b.digests()) == (number, topology, full)
        del b
        gc.collect()


def test_batches_of_the_cpu_come_to_those_who_take_them_anywhere(serve):
    with khop.connect(serve("--device=cpu"), device="cuda:0", framework="numpy") as batches:
        assert batches.about["device"] == "cpu"
        assert isinstance(next(iter(batches)).x, np.ndarray)


def test_a_ring_that_many_read_lies_on_the_host(serve):
    with pytest.warns(RuntimeWarning, match="through host memory"):
        batches = khop.connect(serve("--device=cuda", "--broadcast=1"), device="cuda:0", framework="numpy")
    with batches:
        assert isinstance(next(iter(batches)).x, np.ndarray)


def test_the_server_ends_when_the_last_array_is_gone(dataset):
    batches = loader(dataset("sbm"))
    pid = batches.server_pid
    b = next(iter(batches))
    x, was = b.x, b.x.numpy()
    del b
    batches.close()
    os.kill(pid, 0)  # it is there: the memory is its own
    assert (x.numpy() == was).all()
    del x
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_arrays_outlive_a_server_that_was_killed(dataset):
    # So it is with the simulator. CUDA promises nothing of memory whose owner has gone.
    with loader(dataset("sbm")) as batches:
        it = iter(batches)
        b = next(it)
        was = b.digest()
        os.kill(batches.server_pid, signal.SIGKILL)
        with pytest.raises(khop.ServerError):
            while True:
                next(it)
        assert b.digest() == was == looked_digest(b)[1]
        del b


def test_another_device_than_the_servers_is_refused(serve, python):
    devices = "devices=2"
    path = serve("--device=cuda:1", KHOP_CUDASIM=devices)
    # This process has one device, the server's other.
    with pytest.raises(khop.DeviceError, match="does not see that device"):
        khop.connect(path, device="cuda:0", framework="numpy")
    code = ("import khop, sys\ntry:\n khop.connect(sys.argv[1], device='cuda:0', framework='numpy')\n"
            "except khop.DeviceError as e: print(e)")
    out, err = python(code, path, KHOP_CUDASIM=devices).communicate()
    assert 'take device="cuda:1"' in out, err


def test_what_cannot_be_is_refused(dataset, monkeypatch):
    data = dataset("sbm")
    with pytest.raises(ValueError, match="must be"):
        loader(data, device="tpu")
    with pytest.raises(khop.DeviceError, match="there are 1"):
        loader(data, device="cuda:3")
    with pytest.raises(ValueError, match="pad="):
        loader(data, pad="pow2")
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(ValueError, match="a server of its own with rank="):
        loader(data)


def test_jax_is_told_of_its_way(dataset):
    pytest.importorskip("jax", reason="jax is not installed")
    with pytest.raises(ValueError, match="from_dlpack"):
        loader(dataset("sbm"), framework="jax")


def test_without_a_driver_the_error_says_so(dataset, python):
    code = ("import khop, sys\ntry:\n khop.Loader(sys.argv[1], fanouts=[3], device='cuda', framework='numpy')\n"
            "except khop.DeviceError as e: print(e)")
    out, err = python(code, dataset("sbm"), KHOP_CUDA_DRIVER="/nonexistent").communicate()
    assert "no CUDA driver" in out and 'device="cpu"' in out, err


def test_a_torch_without_cuda_is_refused(dataset):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if torch.cuda.is_available():
        pytest.skip("this torch finds a device")
    with pytest.raises(khop.DeviceError, match="built for CUDA"):
        loader(dataset("sbm"), framework="torch")


class Owner:
    """A DeviceArray on the simulated device, for NumPy: what torch makes of __cuda_array_interface__ with a real
    one."""

    def __init__(self, array):
        about = array.__cuda_array_interface__
        self.array, self.__array_interface__ = array, {k: about[k] for k in ("version", "shape", "typestr", "data")}


class SimulatedTorch:
    """torch, with tensors of the CPU over the simulated device's memory."""

    class cuda:
        is_available = staticmethod(lambda: True)
        current_stream = staticmethod(lambda device: type("Stream", (), {"cuda_stream": 0}))

    def __getattr__(self, name):
        import torch
        return getattr(torch, name)

    def as_tensor(self, array, device):
        return self.from_numpy(np.asarray(Owner(array)))


def test_tensors_are_over_the_memory_and_ids_are_widened(dataset, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    framework = frameworks.Torch()
    framework.torch = SimulatedTorch()
    monkeypatch.setattr(device, "_name", lambda lease: "cpu")
    with loader(dataset("sbm"), framework=framework, pin=False, hold=3) as batches, \
            loader(dataset("sbm"), device="cpu", framework="torch") as others:
        for b, other in zip(batches, others):
            assert b.x.data_ptr() == b._arrays().view("node/node/feature").__cuda_array_interface__["data"][0]
            for name in other.names():
                assert b.array(name).dtype == other.array(name).dtype and torch.equal(
                    b.array(name), other.array(name)), name
            assert b.n_id.dtype == torch.int64
            assert torch.equal(b.edge_index, other.edge_index)
            assert b.pin_memory() is b
            b.record_stream(0)
            assert b.to("cpu") is b
        kept = b.x
        del b
        gc.collect()
        assert len(batches._feed.ring.held) == 1  # the tensor holds the slot
        was = kept.clone()
        assert sum(1 for _ in batches) == len(batches)
        assert torch.equal(kept, was)
        del kept
        gc.collect()
        assert not batches._feed.ring.held


def test_auto_takes_the_device_where_torch_can_use_it(dataset, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    framework = frameworks.Torch()
    framework.torch = SimulatedTorch()
    monkeypatch.setattr(device, "_name", lambda lease: "cpu")

    def auto(**options):
        return loader(dataset("sbm"), device="auto", pin=False, **options)
    with auto(framework=framework) as batches:
        assert batches.device_reason == "cuda:0: the first CUDA device"
        assert isinstance(batches._feed.ring, device.DeviceRing) and len(next(iter(batches)).x)
    with auto(framework=framework, sampler="ppr", fanouts=None) as batches:
        assert batches.device_reason == "cpu: the sampler sampling.PPR runs on the CPU alone"
        assert not isinstance(batches._feed.ring, device.DeviceRing)
        assert sum(1 for _ in batches) == len(batches)
    with auto(framework=framework, pad="pow2") as batches:
        assert batches.device_reason == "cpu: pad= works on the host"
    with auto(framework="numpy") as batches:
        assert batches.device_reason == 'cpu: arrays of framework="numpy" lie on the host'


def test_nothing_is_left_open(dataset):
    def maps():
        return sum("memfd:cudasim" in line for line in open("/proc/self/maps"))
    cuda.Device(0)
    gc.collect()
    before = maps()
    for _ in range(2):
        with loader(dataset("sbm")) as batches:
            for b in batches:
                b.x
            del b
            gc.collect()
        assert maps() <= before  # closed with the loader, which frees it


def test_memory_that_is_not_there_is_not_opened():
    with pytest.raises(khop.DeviceError, match="open the server's memory"):
        cuda.Device(0).open(b"\1" * 64, 4096)


def test_memory_that_is_smaller_than_announced_is_refused(dataset, monkeypatch):
    opened = cuda.Device.open
    monkeypatch.setattr(cuda.Device, "open", lambda self, handle, size: opened(self, handle, 4 * size))
    with pytest.raises(khop.DeviceError, match="bytes, not"), loader(dataset("sbm")) as batches:
        next(iter(batches))
