"""khop.Loader(..., process="inside"): the same batches by threads of this process, and whatever may happen to a
process."""
import copy
import gc
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import khop
from conftest import PATIENCE
from khop._native import library as _library

pytest.importorskip("xxhash")
pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")
OPTIONS = {
    "sbm": (["--fanouts", "6,4", "--batch-size", "256", "--shuffle", "--seed", "7"],
            dict(fanouts=[6, 4], batch_size=256, shuffle=True, seed=7)),
    "typed": (["--fanouts", "cites=5,3;*=4,2", "--batch-size", "300", "--seed", "9"],
              dict(fanouts={"cites": [5, 3], "*": [4, 2]}, batch_size=300, seed=9)),
}


@pytest.fixture
def load(dataset):
    made = []

    def load(name="sbm", **options):
        options = {"framework": "numpy", "process": "inside", "fanouts": [5, 3], "batch_size": 256, **options}
        made.append(khop.Loader(dataset(name), **options))
        return made[-1]
    yield load
    for loader in made:
        loader.close()


def run(code, *arguments):
    """What a program in another Python writes; the test fails if it does, or says anything to stderr."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True,
                          timeout=3600,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)
    return done.stdout


# --- the same batches ---

@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("world", [1, 3])
def test_digests_equal_those_of_the_program(name, world, load, dataset, sample):
    flags, options = OPTIONS[name]
    loaders = [load(name, **options, rank=r, world_size=world) for r in range(world)]
    for epoch in (0, 1):
        expected = sample(dataset(name), *flags, "--epoch", epoch)
        got = [(b.number, *b.digests()) for loader in loaders for b in loader if not b.padded]
        assert sorted(got) == expected
    assert loaders[0].statistics()["epoch"] == 1


def test_a_state_goes_from_a_server_to_this_process_and_back(load):
    whole = [b.digest() for b in load()]
    there, here = load(process="server"), load()
    taken = []
    for loader, other in ((there, here), (here, there), (there, None)):
        for batch in loader:
            taken.append(batch.digest())
            if other and len(taken) % 3 == 0:
                break
        if other:
            other.load_state_dict(loader.state_dict())
    assert taken == whole
    with pytest.raises(khop.StateError, match="seed"):
        load(seed=1).load_state_dict(here.state_dict())


def test_links_padding_and_torch_work_as_with_a_server(load):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pairs = np.random.default_rng(5).integers(0, 3000, (2, 500))
    options = dict(edge_label_index=pairs, negatives="uniform", batch_size=100, framework="torch", fanouts=[4, 2])
    for one, two in zip(load(**options), load(**options, process="server")):
        assert one.digest() == two.digest() and torch.equal(one.edge_label_index, two.edge_label_index)
    assert len({b.x.shape for b in load(pad="max")}) == 1
    assert [b.digest() for b in load(num_neighbors=[3], fanouts=None, sampler="labor")]


def test_errors_speak_of_what_python_said_as_those_of_a_server(load, dataset):
    for options in (dict(seeds="nosuch"), dict(seeds=[3, 999999]), dict(sampler="walk", weight="w"),
                    dict(node_columns=["nosuch"]),
                    dict(max_memory="1MB"), dict(batch_size=0)):
        said = []
        for process in ("inside", "server"):
            with pytest.raises(khop.ServerError if "max_memory" in options else khop.OptionError) as e:
                load(process=process, **options)
            said.append(str(e.value))
        assert said[0] == said[1] and not re.search("--|/proc/|goroutine", said[0]), said
    with pytest.raises(khop.OptionError, match="metrics is for a server of its own"):
        load(serve_options=["--metrics=127.0.0.1:0"])


def test_auto_says_which_it_took_and_why(load, monkeypatch, tmp_path):
    loader = load(process="auto")
    assert loader.process == "inside" and "shared library is there" in loader.process_reason and loader.server_pid == 0
    for options, why in ((dict(socket=tmp_path / "a" / "s"), "socket="),
                         (dict(serve_options=["--verify"]), "serve_options=")):
        loader = load(process="auto", **options)
        assert loader.process == "server" and why in loader.process_reason and loader.server_pid
    monkeypatch.setenv("KHOP_LIBRARY", "/nowhere.so")
    loader = load(process="auto")
    assert loader.process == "server" and "/nowhere.so" in loader.process_reason
    with pytest.raises(ValueError, match='must be "inside", "server" or "auto"'):
        load(process="here")
    with pytest.raises(ValueError, match="socket= is where a server listens"):
        load(socket=tmp_path / "s")


# --- whose memory it is ---

def test_arrays_outlive_the_loader_and_their_memory_goes_with_the_last(dataset):
    def mapped():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[0]) * 4096

    def once():
        loader = khop.Loader(dataset("sbm"), [5, 3], batch_size=256, process="inside", framework="numpy", workers=2)
        for batch in loader:
            x, ids, copy = batch.x, batch.n_id, batch.x.copy()
            break
        batch = None
        loader.close()  # in the middle of an epoch, with the slot in use
        del loader
        assert np.array_equal(x, copy) and ids.max() < 3000
        x[:] = 1
    once()
    gc.collect()
    before = mapped()
    for _ in range(10):
        once()
    gc.collect()
    assert mapped() - before < 5 * 64 << 20  # a ring has 64 MiB at least


def test_a_slot_comes_back_when_the_last_array_over_it_is_gone(load):
    loader = load(hold=2, batch_size=64)
    batches = iter(loader)
    kept = [next(batches).x, next(batches).x]
    patient, loader._feed._timeout = loader._feed._timeout, 0.5
    with pytest.raises(khop.SlotsHeldError, match="batch 1 of epoch 0"):
        next(batches)
    loader._feed._timeout = patient
    batches.close()
    kept.clear()
    assert len([b.number for b in loader]) == len(loader)  # the next epoch
    for _ in range(5):  # iterators that are dropped
        next(iter(loader))
    assert loader.statistics()["consumers"][0]["held"] <= 2


@pytest.mark.parametrize("process", ["inside", "server"])
def test_a_list_of_all_batches_fails_at_once_where_nobody_can_let_go(process, dataset):
    run("""
import sys, khop
with khop.Loader(sys.argv[1], [5, 3], batch_size=64, process=sys.argv[2], framework="numpy", hold=2) as loader:
    try:
        [batch for batch in loader]
    except khop.SlotsHeldError as e:  # after the default timeout it would say for how long
        assert str(e).startswith("no batch: all 2 slots are held"), e
    else:
        raise AssertionError("all batches were held")
""", dataset("sbm"), process)


# --- threads and signals ---

def test_several_loaders_in_threads_at_once(load):
    whole = [b.digest() for b in load()]
    got = {}

    def work(loader, i):
        got[i] = [b.digest() for b in loader]
    threads = [threading.Thread(target=work, args=(load(), i)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
    assert got == {i: whole for i in range(4)}


def test_who_waits_lets_others_run_and_hears_signals(load):
    """All slots are held, so next waits, for a minute: threads run meanwhile, and a signal, which one of them sends,
    ends that at once."""
    loader = load(hold=2, batch_size=64)
    taken = iter(loader)
    held = [next(taken), next(taken)]
    ran = []

    def alarm(*_):
        raise KeyboardInterrupt

    def work():
        time.sleep(0.2)  # the other thread is likely to wait by then
        ran.extend(range(100000))
        os.kill(os.getpid(), signal.SIGALRM)
    old = signal.signal(signal.SIGALRM, alarm)
    thread = threading.Thread(target=work)
    try:
        with pytest.raises(KeyboardInterrupt):
            begin = time.monotonic()
            thread.start()
            next(taken)
        assert time.monotonic() - begin < 30  # the time-out is 60 s
        thread.join(PATIENCE)
        assert len(ran) == 100000
    finally:
        signal.signal(signal.SIGALRM, old)
    held.clear()
    assert [b.number for b in taken] == list(range(2, len(loader)))


def test_opening_can_be_interrupted(load, dataset):
    rang = False

    def alarm(*_):
        nonlocal rang
        rang = True
        raise KeyboardInterrupt
    old = signal.signal(signal.SIGALRM, alarm)
    try:
        for after in (1e-4, 1e-3, 5e-3, 2e-2):
            rang = False
            try:
                signal.setitimer(signal.ITIMER_REAL, after)
                load()
                while not rang:  # it may come before one waits for it, or where nobody hears what it raises
                    time.sleep(0.001)
            except KeyboardInterrupt:
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert len(list(load()))


# --- forks and ends ---

def test_forks_are_refused_and_their_parent_goes_on(dataset):
    out = run("""
import os, sys, khop
loader = khop.Loader(sys.argv[1], [5, 3], batch_size=64, process="inside", framework="numpy", hold=4)
whole = [b.digest() for b in loader]
batches = iter(loader)
batch = next(batches)
first = batch.x.sum()

def tries(what):
    try:
        what()
    except khop.ForkError:
        return
    os._exit(4)

for n in range(100):
    pid = os.fork()
    if pid == 0:
        tries(lambda: next(batches))
        tries(lambda: iter(loader))
        tries(lambda: khop.Loader(sys.argv[1], [5], process="inside"))
        assert batch.x.sum() == first  # it can read what it inherited
        if n == 0:  # and have a server
            with khop.Loader(sys.argv[1], [5, 3], batch_size=64, process="auto", framework="numpy") as own:
                assert own.process == "server" and [b.digest() for b in own] == whole, own.process
        if n % 10:
            os._exit(0)
        sys.exit(0)  # runs finalisers, which must leave the parent's loader alone
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, n
del batch
print(1 + sum(1 for _ in batches) == len(whole))
loader.set_epoch(0)
print([b.digest() for b in loader] == whole)
""", dataset("sbm"))
    assert out == "True\nTrue\n"


ENDS = {  # each is how a program ends with a live loader
    "the end": "",
    "an exception that is handled late": "sys.excepthook = lambda *_: None; atexit.register(os._exit, 0); raise "
                                         "ValueError",
    "within a loop": "sys.exit(0)",
    "arrays in use": "keep = [batch.x, batch.n_id, batches]",
    "daemon threads that wait": """
def work(batches):
    try:
        for batch in batches:  # all slots of the first are held, so that next waits
            pass
    except BaseException:  # closed at the end
        pass
threading.Thread(target=work, args=(batches,), daemon=True).start()
batches = (b for _ in range(10 ** 9) for b in khop.Loader(sys.argv[1], [5], process="inside"))
threading.Thread(target=work, args=(batches,), daemon=True).start()
""",
    "no finalisers": "os._exit(0)",
    "a loader that refers to itself": "loader.me = loader; del loader, batch, batches",
}


@pytest.mark.parametrize("end", ENDS)
def test_an_interpreter_ends_at_once_with_a_live_loader(end, dataset, temporary_folder):
    run("""
import atexit, os, sys, threading, khop
loader = khop.Loader(sys.argv[1], [5, 3], batch_size=64, process="inside", framework="numpy", hold=1)
batches = iter(loader)
held = batch = next(batches)
""" + ENDS[end], dataset("sbm"))
    assert os.listdir(temporary_folder) == []


def test_interpreters_that_are_killed_leave_nothing(dataset, temporary_folder):
    """KHOP_KILLS says how many; 20 are killed without it."""
    def shared():
        """Names of khop's shared memory. Folders are those of other tests, which may make them meanwhile."""
        return {e.name for e in os.scandir("/dev/shm") if not e.is_dir() and "khop" in e.name}
    before = shared()
    print("seed", seed := random.randrange(1 << 32))
    run("""
import os, random, signal, sys, tempfile, time, khop  # the children load the library, this process does not
tempfile.gettempdir()  # once: the first call in a process tries the folder with a file of its own

def child(out):
    os.write(out, b"u")
    while True:
        with khop.Loader(sys.argv[1], [5, 3], seeds=list(range(500)), batch_size=64, process="inside",
                         framework="numpy", workers=2) as loader:
            os.write(out, b"o")
            for epoch in range(2):
                for batch in loader:
                    batch.x

draw = random.Random(int(sys.argv[2]))
for _ in range(int(sys.argv[3])):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(write)
    os.close(write)
    for _ in range(draw.randrange(1, 4)):
        assert os.read(read, 1), "a child has ended"
    time.sleep(draw.random() / 50)  # a random moment
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    os.close(read)
""", dataset("sbm"), seed, os.environ.get("KHOP_KILLS", "20"))
    assert os.listdir(temporary_folder) == [] and shared() <= before


# --- one loader in several places ---

def shared_by_threads(iterator, threads=6):
    """The numbers of the batches that threads took of one iterator, and what they raised."""
    numbers, errors = [], []

    def work():
        try:
            for batch in iterator:
                assert batch.n_id.max() < 3000
                numbers.append(batch.number)
        except Exception as e:
            errors.append(repr(e))
    every = [threading.Thread(target=work) for _ in range(threads)]
    for t in every:
        t.start()
    for t in every:
        t.join(PATIENCE)
    return sorted(numbers), errors


@pytest.mark.parametrize("process", ["inside", "server"])
def test_threads_that_share_an_iterator_share_its_batches(load, process, monkeypatch):
    loader = load(batch_size=16, hold=16, process=process)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(4):
            assert shared_by_threads(iter(loader)) == (list(range(len(loader))), [])
    finally:
        sys.setswitchinterval(before)
    assert loader.state_dict()["epoch"] == 4


def test_an_iterator_that_another_thread_waits_in_is_no_lock_for_a_forked_child(load):
    """A child gets its error at once, whatever its parent's threads did when it was forked."""
    loader = load(hold=2, batch_size=64)
    taken = iter(loader)
    held = [next(taken), next(taken)]
    waits = threading.Thread(target=lambda: next(taken))
    waits.start()
    while taken._feed.lock.acquire(blocking=False):  # until it waits
        taken._feed.lock.release()
        time.sleep(0.01)
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(60)
            next(taken)
        except khop.ForkError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    del held[:]
    waits.join(PATIENCE)


def test_a_loader_is_pickled_as_its_options_and_its_state(load):
    loader = load(shuffle=True, seeds=np.arange(1000), fanouts=[4, 2])
    whole = [b.digest() for b in loader]
    for copied in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        loader.set_epoch(0)
        for batch in loader:
            break
        with copied(loader) as other:
            assert type(other) is khop.Loader and other.process == "inside"
            assert other.state_dict() == loader.state_dict()
            assert [b.digest() for b in other] == whole[1:]
        assert [b.digest() for b in loader] != whole  # the first one goes on by itself, with its next epoch
    done = run("import pickle, sys; print([b.digest() for b in pickle.loads(bytes.fromhex(sys.argv[1]))][0])",
               pickle.dumps(load(shuffle=True, seeds=np.arange(1000), fanouts=[4, 2])).hex())
    assert done.strip() == whole[0]


def test_what_cannot_be_pickled_says_why_and_what_to_do(load, dataset):
    with khop.Loader(dict(edge_index=np.array([[0, 1], [1, 0]])), [2], process="inside", framework="numpy") as loader:
        with pytest.raises(TypeError, match="a graph in memory.*khop.write"):
            copy.deepcopy(loader)
    taken = iter(load())
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="an iterator of a khop loader cannot be copied: copy the loader"):
            copied(taken)


def test_a_half_made_loader_goes_quietly():
    """Whatever failed, and whoever made it without __init__."""
    assert not run("""
import gc, khop, numpy
from khop._feed import device, in_process, ring, server
from khop._loader import loader
for kind in (khop.Loader, loader.Epoch, loader.Feed, in_process.Inside, in_process.InsideMemory, in_process.Owner,
             ring.Memory, ring.Ring, ring.SlotArrays, server.Server, device.DeviceRing):
    kind.__new__(kind)
    gc.collect()
for options in (dict(fanouts=[1], batch_size=0), dict(fanouts=[1], nosuch=1), dict(fanouts=[1], process="nowhere")):
    try:
        khop.Loader("nowhere.khop", **{"process": "inside", **options})
    except (khop.KhopError, ValueError, TypeError):
        gc.collect()
""")


def test_workers_are_refused_in_words_that_are_true_inside_too(load):
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    from khop.torch import Dataset
    with pytest.raises(RuntimeError) as e:
        list(data.DataLoader(Dataset(load(process="server")), batch_size=None, num_workers=2))
    assert "num_workers=0" in str(e.value) and "server" not in str(e.value).splitlines()[-1]
