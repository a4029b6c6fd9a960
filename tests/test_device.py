"""A CUDA device makes the batches that the CPU makes, on every dataset. Without a GPU the device is the simulated
one."""
import os
import pathlib
import subprocess

import pytest

from conftest import COMMITTED, GENERATED, REAL, run

DIST = pathlib.Path(__file__).parent.parent / "dist"
SIMULATOR = DIST / "libcudasim.so"


@pytest.fixture(scope="module")
def program():
    if not (DIST / "khop-cuda").exists() or not SIMULATOR.exists():
        pytest.skip("dist has no khop-cuda and libcudasim.so: make khop-cuda cudasim")
    return DIST / "khop-cuda"


@pytest.fixture
def simulated(monkeypatch):
    if not os.environ.get("KHOP_CUDA_DRIVER"):
        monkeypatch.setenv("KHOP_CUDA_DRIVER", str(SIMULATOR))


OPTIONS = {
    "over the bus": "--fanouts 5,3 --batch-size 64 --batches 3 --seed 5 --seeds all --shuffle --device-cache 0",
    "on the card": "--fanouts 4,-1 --batch-size 16 --batches 2 --seed 6 --seeds all --frontier new",
}


@pytest.mark.parametrize("options", [pytest.param(o.split(), id=name) for name, o in OPTIONS.items()])
@pytest.mark.parametrize("name", sorted({**REAL, **GENERATED, **COMMITTED}))
def test_a_device_makes_the_batches_of_the_cpu(name, options, program, simulated, dataset):
    want = run(program, "sample", dataset(name), *options, "--digest", "--device", "cpu")
    got = run(program, "sample", dataset(name), *options, "--digest", "--device", "cuda")
    assert got == want and want.count("\n") >= 1


@pytest.mark.parametrize("name, options", [
    ("messages", "--sampler temporal --seeds all-edges --link-time time --fanouts 4,3 --batch-size 64 --shuffle "
                 "--time-rules before"),
    ("messages",
     "--sampler temporal --seeds all-edges --link-time time --fanouts 4,3 --batch-size 64 --half-life 86400 --chain"),
    ("FB15k-237", "--seeds val --fanouts 1 --batch-size 8 --negatives uniform --strict --corrupt either"),
    ("WN18RR",
     "--seeds all-edges --link-label relation --exclude-seeds reverse --fanouts 4,3 --batch-size 64 --shuffle"),
    ("ddi", "--seeds val --fanouts 3,2 --batch-size 64"),
    ("web", "--sampler labor --seeds all --fanouts 5,3 --batch-size 64 --shuffle"),
    ("events", "--weight weight --seeds all --fanouts 5,3 --batch-size 64 --shuffle"),
    ("strided", "--seeds all --fanouts 5,3 --batch-size 64 --shuffle --device-cache 0"),
    ("strided", "--seeds all --fanouts 5,3 --batch-size 64 --shuffle"),
])
def test_a_device_makes_them_of_times_links_weights_and_strides(name, options, program, simulated, dataset):
    ways = [run(program, "sample", dataset(name), *options.split(), "--batches", 2, "--digest", *way) for way in (
        ["--device", "cpu", "--workers", "1"], ["--device", "cpu", "--workers", "3"], ["--device", "cuda"])]
    assert ways[0] == ways[1] == ways[2] and ways[0].count("\n") == 2


def test_without_a_driver_it_works_on_the_cpu(program, dataset, monkeypatch):
    monkeypatch.setenv("KHOP_CUDA_DRIVER", "/nonexistent/libcuda.so")
    data = dataset("sbm")
    assert "no CUDA device" in run(program, "doctor")
    want = run(program, "sample", data, "--digest", "--batches", 2, "--device", "cpu")
    assert run(program, "sample", data, "--digest", "--batches", 2) == want
    asked = subprocess.run([program, "sample", data, "--device", "cuda"], capture_output=True, text=True, timeout=600)
    assert asked.returncode == 1 and "no CUDA device" in asked.stderr and not asked.stdout


def test_an_old_driver_is_named_with_what_is_needed(program, dataset, simulated, monkeypatch):
    monkeypatch.setenv("KHOP_CUDA_DRIVER", str(SIMULATOR))
    monkeypatch.setenv("KHOP_CUDASIM", "driver=11040")
    asked = subprocess.run([program, "sample", dataset("sbm"), "--device", "cuda"], capture_output=True, text=True,
                           timeout=600)
    assert asked.returncode == 1 and "driver is too old" in asked.stderr
    assert "11.4" in asked.stderr and "11.8" in asked.stderr


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:"])
def test_a_device_of_no_such_name_is_a_mistake_of_usage(name, program, dataset):
    asked = subprocess.run([program, "sample", dataset("sbm"), "--device", name], capture_output=True, text=True,
                           timeout=600)
    assert asked.returncode == 2 and "cuda:N" in asked.stderr


def test_a_device_that_is_not_there_is_named(program, dataset, simulated):
    out = run(program, "sample", dataset("sbm"), "--device", "cuda:7", fails=True)
    assert "cuda:7" in out and "1 CUDA device" in out
