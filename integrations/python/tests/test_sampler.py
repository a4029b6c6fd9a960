"""khop.Sampler: single requests in this process, from any thread."""
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import khop
from khop._native import library as _library

pytest.importorskip("xxhash")
pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")
SBM, TYPED = dict(fanouts=[6, 4], seed=7), dict(fanouts={"cites": [5, 3], "*": [4, 2]}, seed=9)


@pytest.fixture
def asked(dataset):
    made = []

    def asked(name="sbm", **options):
        options = {"framework": "numpy", "fanouts": [5, 3], "batch_size": 64, "workers": 2, **options}
        made.append(khop.Sampler(dataset(name), **options))
        return made[-1]
    yield asked
    for sampler in made:
        sampler.close()


def loaded(path, seeds, epoch=0, **options):
    """The digest of the only batch of a loader."""
    with khop.Loader(path, framework="numpy", process="inside", seeds=seeds, batch_size=64, **options) as loader:
        loader.set_epoch(epoch)
        (batch,) = list(loader)
        return batch.digest()


def test_an_answer_is_the_batch_of_a_loader(asked, dataset):
    ids = np.array([17, 4, 17, 2999])
    sampler = asked(**SBM)
    assert sampler.sample(ids).digest() == loaded(dataset("sbm"), ids, **SBM)
    other = sampler.sample(ids, epoch=3)
    assert other.digest() == loaded(dataset("sbm"), ids, 3, **SBM) and (other.epoch, other.number) == (3, 0)
    batch = sampler.sample(list(ids), number=1)
    assert batch.digest() != sampler.sample(ids).digest() and batch.number == 1
    assert np.array_equal(batch.n_id[:3], [17, 4, 2999]) and np.array_equal(batch.input_id, [0, 1, 2, 3])
    again = asked(**SBM).sample(np.asfortranarray(ids.astype(np.int32)))
    assert again.digest() == loaded(dataset("sbm"), ids, **SBM)


def test_requests_may_be_of_several_types(asked, dataset):
    sampler = asked("typed", **TYPED)
    first, second = sampler.about["node_types"][0]["name"], sampler.about["node_types"][1]["name"]
    ids = {first: np.array([5, 1, 5]), second: np.array([2])}
    assert sampler.sample(ids).digest() == loaded(dataset("typed"), ids, **TYPED)
    one = sampler.sample((second, [3, 4]))
    assert one.digest() == loaded(dataset("typed"), (second, np.array([3, 4])), **TYPED)
    assert np.array_equal(one[second].input_id, [0, 1])


def test_each_seed_has_its_own_time(asked, dataset, tmp_path):
    rng = np.random.default_rng(3)
    src, dst, path = rng.integers(0, 50, 900), rng.integers(0, 50, 900), str(tmp_path / "timed.khop")
    khop.write(path, {"edge_index": np.stack([src, dst]), "num_nodes": 50, "time": rng.integers(0, 100, 900)})
    options = dict(sampler="temporal", fanouts=[4, 3], seed=2)
    ids, times = rng.integers(0, 50, 20), rng.integers(0, 100, 20)
    with khop.Sampler(path, framework="numpy", batch_size=64, **options) as sampler:
        got = sampler.sample(ids, times)
        assert got.digest() == loaded(path, ids, input_time=times, **options)
        with pytest.raises(khop.OptionError, match="give each one, or as_of to all"):
            sampler.sample(ids)


def test_each_seed_has_its_own_window(asked, dataset, tmp_path):
    rng = np.random.default_rng(4)
    src, dst, path = rng.integers(0, 50, 900), rng.integers(0, 50, 900), str(tmp_path / "timed.khop")
    khop.write(path, {"edge_index": np.stack([src, dst]), "num_nodes": 50, "time": rng.integers(0, 100, 900)})
    options = dict(sampler="temporal", fanouts=[4, 3], seed=2, disjoint=True)
    ids, times = rng.integers(0, 50, 20), rng.integers(30, 100, 20)
    same = dict(input_time=times, input_start_time=times - 20)
    with khop.Sampler(path, framework="numpy", batch_size=64, **options) as sampler:
        assert sampler.sample(ids, times, start_times=times - 20).digest() == loaded(path, ids, **same, **options)
        assert sampler.sample(ids, times).digest() != loaded(path, ids, **same, **options)
        with pytest.raises(TypeError, match="give these as well"):
            sampler.sample(ids, start_times=times)
        with pytest.raises(ValueError, match="start_times: 3 for 20 ids"):
            sampler.sample(ids, times, start_times=times[:3])
    assert loaded(path, ids, **same, **options) == loaded(path, ids, input_time=times, window=20, **options)
    with khop.Sampler(path, framework="numpy", batch_size=64, **{**options, "disjoint": False}) as sampler:
        with pytest.raises(khop.OptionError, match="set disjoint"):
            sampler.sample(ids, times, start_times=times - 20)


def test_threads_get_what_each_gets_alone(asked):
    sampler = asked(workers=2)
    want = [sampler.sample([i, 2 * i], number=i).digest() for i in range(60)]
    wrong = []

    def ask():
        for i in range(60):
            if sampler.sample([i, 2 * i], number=i).digest() != want[i]:
                wrong.append(i)
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and sampler.most == 4


def test_an_array_keeps_its_answer_and_no_more_than_most_are_in_use(asked):
    sampler = asked(workers=1, prefetch=2, timeout=0.2)
    x = sampler.sample([1, 2, 3]).x  # of the batch only this is left
    before = x.copy()
    held = [sampler.sample([i]) for i in range(2)]
    with pytest.raises(khop.SlotsHeldError, match="all 3 are in use"):
        sampler.sample([9])
    held[0].release()
    for i in range(20):
        sampler.sample(np.arange(i, i + 9))
    assert np.array_equal(x, before)
    copy = held[1].copy()
    del held
    gc.collect()
    x += 1  # it is the caller's to write
    assert len(sampler.sample([9]).copy().x) and np.array_equal(x, before + 1) and copy.num_nodes


def test_answers_outlive_their_sampler(asked):
    sampler = asked()
    batch = sampler.sample([3, 1])
    digest = batch.digest()
    sampler.close()
    with pytest.raises(khop.ServerError, match="is closed"):
        sampler.sample([1])
    assert batch.digest() == digest and "closed" in repr(sampler)


@pytest.mark.parametrize("ask, error, says", [
    (lambda s: s.sample([3000]), khop.OptionError, "node 3000; nodes of type"),
    (lambda s: s.sample([-1]), khop.OptionError, "node -1; nodes of type"),
    (lambda s: s.sample(np.zeros(65, np.int64)), khop.OptionError, "a request has 65 seeds"),
    (lambda s: s.sample([0.5]), ValueError, "ids: float64"),
    (lambda s: s.sample([[1]]), ValueError, r"ids: int64 of shape \(1, 1\)"),
    (lambda s: s.sample({"nosuch": [1]}), KeyError, "no node type 'nosuch'"),
    (lambda s: s.sample([1, 2], [1]), ValueError, "times: 1 for 2 ids"),
    (lambda s: s.sample({"node": [1]}, [1]), ValueError, "times: must be as ids are"),
    (lambda s: s.sample([1], epoch=1 << 32), khop.OptionError, "below 2"),
])
def test_requests_that_make_no_sense_are_refused(asked, ask, error, says):
    sampler = asked()
    with pytest.raises(error, match=says):
        ask(sampler)
    assert sampler.sample([]).num_nodes == 0
    assert sampler.sample([1]).num_nodes


@pytest.mark.parametrize("options, error, says", [
    (dict(shuffle=True), khop.OptionError, "shuffle is of epochs"),
    (dict(residence="disk"), khop.OptionError, "known ahead"),
    (dict(sampler="saint-node", fanouts=None), khop.OptionError, "items of its own"),
    (dict(fanouts=[0.5]), ValueError, "whole numbers"),
    (dict(device="cuda"), ValueError, "on the CPU"),
    (dict(nosuch=1), TypeError, "no option 'nosuch'"),
])
def test_options_that_make_no_sense_are_refused(asked, options, error, says):
    with pytest.raises(error, match=says):
        asked(**options)


def test_memory_is_bounded_and_said(asked):
    sampler = asked(max_memory="64MB")
    memory = sampler.about["memory"]
    assert sum(memory["bound"].values()) <= 64e6 and memory["slots"] == sampler.most
    batch = sampler.sample([1, 2])
    stats = sampler.statistics()
    assert (stats["batches"], stats["nodes"], stats["slots_held"]) == (1, batch.num_nodes, 1)
    assert sum(stats["memory"].values()) <= stats["memory_peak"] <= 64e6


def test_a_forked_child_is_told(asked):
    sampler = asked()
    child = os.fork()
    if not child:
        try:
            sampler.sample([1])
        except khop.ForkError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0 and sampler.sample([1]).num_nodes


def test_a_sampler_ends_with_its_process(dataset):
    code = ("import sys, khop; s = khop.Sampler(sys.argv[1], fanouts=[3]); b = s.sample([1]); x = b.x; "
            "print(len(x) == b.num_nodes)")
    done = subprocess.run([sys.executable, "-c", code, dataset("sbm")], capture_output=True, text=True, timeout=180,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
