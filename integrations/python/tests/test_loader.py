"""khop.Loader with a real server: equal batches, resuming, ranks, and what happens when either side dies."""
import gc
import itertools
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import khop
from conftest import PATIENCE, run
from khop._native import library as _library
from khop._config.configuration import Configuration

OPTIONS = {  # of khop sample, and of khop.Loader
    "sbm": (["--fanouts", "6,4", "--batch-size", "256", "--shuffle", "--seed", "7"],
            dict(fanouts=[6, 4], batch_size=256, shuffle=True, seed=7)),
    "typed": (["--fanouts", "cites=5,3;*=4,2", "--batch-size", "300", "--seed", "9", "--frontier", "new"],
              dict(fanouts={"cites": [5, 3], "*": [4, 2]}, batch_size=300, seed=9, frontier="new")),
    "tolokers": (["--fanouts", "10,5,3", "--batch-size", "512", "--replace", "--split", "3"],
                 dict(num_neighbors=[10, 5, 3], batch_size=512, replace=True, split=3)),
}


@pytest.fixture
def load(dataset):
    made = []

    def load(name, **options):
        options.setdefault("framework", "numpy")
        loader = khop.Loader(dataset(name), **options)
        made.append(loader)
        return loader
    yield load
    for loader in made:
        loader.close()


def alive(pid):
    """Whether a process is there and has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


# --- the same batches ---

@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("index_dtype", ["int64", "int32"])
def test_digests_equal_those_of_the_program(name, world, index_dtype, load, dataset, sample):
    pytest.importorskip("xxhash")
    flags, options = OPTIONS[name]
    for rank in range(world):
        loader = load(name, rank=rank, world_size=world, index_dtype=index_dtype, **options)
        for epoch in range(2):
            want = sample(dataset(name), *flags, "--epoch", epoch, "--rank", rank, "--world-size", world)
            assert [(b.number, *b.digests()) for b in loader] == want
            assert len(want) == len(loader) > 0
        loader.close()


@pytest.mark.parametrize("fanouts", [5, [2.5], "5,3", [], [None], np.array(3)], ids=str)
def test_fanouts_are_whole_numbers_one_a_hop(fanouts, dataset):
    with pytest.raises(ValueError, match=r"fanouts=.*: must be whole numbers, one a hop, such as \[15, 10, 5\]"):
        khop.Loader(dataset("sbm"), fanouts)


def test_any_option_that_python_has_reaches_the_server(load, dataset, sample):
    pytest.importorskip("xxhash")
    options = dict(fanouts=[4, 4], frontier="new", replace=True, batch_size=100, shuffle=True, drop_last=True,
                   seed=2**64 - 1, instance=3,
                   workers=1, prefetch=3, resident=True, verify=True, widen=["float32"],
                   max_memory="500MB", device="cpu",
                   seeds="all:paper")
    loader = load("typed", **options)
    loader.set_epoch(4)
    flags = ["--fanouts", "4,4", "--frontier", "new", "--replace", "--batch-size", 100, "--shuffle", "--drop-last",
             "--seed", 2**64 - 1,
             "--instance", 3, "--seeds", "all:paper", "--epoch", 4]
    assert [b.digest() for b in loader] == [full for _, _, full in sample(dataset("typed"), *flags)]


def test_features_on_disk_make_the_same_batches(load, dataset, sample):
    pytest.importorskip("xxhash")
    want = sample(dataset("sbm"), "--fanouts", "4,4", "--frontier", "new", "--shuffle", "--batch-size", 100)
    with load("sbm", fanouts=[4, 4], shuffle=True, batch_size=100, residence="disk", cache_bytes="20kB",
              lookahead=3) as loader:
        assert [b.digest() for b in loader] == [full for _, _, full in want]


ROWS = """#!{python}
# The program of rows_from: see internal/rowpipe.
import json, sys
import numpy as np
rows, out = np.load({rows!r}), sys.stdout.buffer
column, = json.loads(sys.stdin.buffer.readline())["Columns"]
assert (column["Name"], column["Row"], column["Rows"]) == ("feature", list(rows.shape[1:]), len(rows)), column
out.write(bytes(8)), out.flush()
while head := sys.stdin.buffer.read(16):
    ids = np.frombuffer(sys.stdin.buffer.read(8 * int.from_bytes(head[8:], "little")), np.int64)
    out.write(bytes(8) + rows[ids].tobytes()), out.flush()
"""


def test_rows_of_another_machine_make_the_same_batches(program, tmp_path, monkeypatch):
    pytest.importorskip("xxhash")
    rng, here = np.random.default_rng(3), tmp_path / "here.khop"
    x = rng.random((4000, 16), np.float32)
    khop.write(here, {"edge_index": rng.integers(0, 4000, (2, 40_000)), "x": x})
    options = dict(fanouts=[4, 4], shuffle=True, batch_size=100, seeds="all")
    with khop.Loader(here, **options) as loader:
        want = [b.digest() for b in loader]
    feature, = here.rglob("feature*")
    size = feature.stat().st_size
    with open(feature, "r+b") as f:  # its head and tail are left, as of a dataset that came without the rows
        f.seek(4096), f.write(bytes(size - 3 * 4096))
    np.save(tmp_path / "rows.npy", x)
    ask = tmp_path / "rows"
    ask.write_text(ROWS.format(python=sys.executable, rows=str(tmp_path / "rows.npy")))
    ask.chmod(0o700)
    monkeypatch.setenv("KHOP_ROWS", str(ask))
    options |= dict(rows_from="grpc://rows:1", cache_bytes="20kB")
    with khop.Loader(here, **options) as loader:
        assert [b.digest() for b in loader] == want
    monkeypatch.setenv("KHOP_ROWS", str(tmp_path / "none"))
    with pytest.raises(khop.OptionError, match="rows_from needs the program khop-rows: build it"):
        khop.Loader(here, **options)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are text")
def test_paths_are_any_bytes(program, tmp_path):
    folder = os.fsencode(tmp_path)
    for name, nodes in ((b"a\xff", 50), (b"a\xfe", 60)):
        subprocess.run([program, "generate", "sbm", folder + b"/" + name, "--nodes", str(nodes)], check=True,
                       capture_output=True)
    with khop.Loader(folder + b"/a\xff", seeds="all", fanouts=[2], socket=folder + b"/feed\xff/socket\xfe",
                     verify=True) as loader:
        assert sum(b.batch_size for b in loader) == 50
    with pytest.raises(khop.ServerError) as e:
        khop.Loader(os.fsdecode(folder + b"/none\xff"), fanouts=[2])
    str(e.value).encode("utf-8")
    assert "\\xff" in str(e.value)


@pytest.mark.parametrize("spelling", ["list", "array", "mask", "pair", "mapping"])
def test_seeds_may_be_given_as_ids_or_masks(spelling, load):
    ids = np.array([5, 3, 900, 17, 42])
    mask = np.zeros(3000, bool)
    mask[ids] = True
    name, seeds, want = {
        "list": ("sbm", ids.tolist(), ids), "array": ("sbm", ids.astype(np.int32), ids),
        "mask": ("sbm", mask, np.sort(ids)),
        "pair": ("typed", ("author", ids), ids), "mapping": ("typed", {"author": ids, "paper": []}, ids),
    }[spelling]
    loader = load(name, fanouts=[2], batch_size=2, seeds=seeds)
    got, items = [], []
    for b in loader:
        view = b["author" if name == "typed" else b.node_types[0]]
        got += view.n_id[:view.batch_size].tolist()
        items += view.input_id.tolist()
    assert got == want.tolist() and items == list(range(5))


def test_seeds_that_are_no_ids_are_refused():
    for seeds in ([0.5], np.zeros((2, 2), int)):
        with pytest.raises(ValueError, match="seeds"):
            Configuration({}).nodes(seeds)


# --- what is in a batch ---

def test_typed_batches_are_what_the_program_counts(load, dataset, program):
    _, options = OPTIONS["typed"]
    flags = OPTIONS["typed"][0]
    counts = [json.loads(line) for line in run(program, "sample", dataset("typed"), *flags, "--jsonl").splitlines()]
    loader = load("typed", edge_pos=True, **options)
    for b, want in zip(loader, counts):
        assert b.num_nodes == want["nodes"] and b.batch_size == want["seeds"]
        drawn = np.sum([b[e].num_sampled_edges for e in b.edge_types], axis=0)
        assert drawn.tolist() == want["edges_per_hop"]
        assert np.cumsum(
            np.sum([b[t].num_sampled_nodes for t in b.node_types], axis=0)).tolist() == want["nodes_per_hop"]
        for e in b.edge_types:
            index = b[e].edge_index
            assert index.shape == (2, b[e].num_edges) and len(b[e].e_id) == b[e].num_edges
            if b[e].num_edges:
                assert index[0].max() < b[e[0]].num_nodes and index[1].max() < b[e[2]].num_nodes
        with pytest.raises(AttributeError, match="several node types"):
            b.x
        with pytest.raises(KeyError, match="no edge type"):
            b["paper", "likes", "paper"]
    assert "paper" in b.node_types and b["paper"].x.shape == (b["paper"].num_nodes, 8)


def test_edges_lead_where_the_dataset_says(load, dataset):
    """edge_pos, e_id and edge_index against the dataset's own files."""
    with open(os.path.join(dataset("sbm"), "dataset.json")) as f:
        columns = {c["name"]: c for c in json.load(f)["content"]["columns"] if c["owner"] == "graph"}

    def column(name):
        (part,) = columns[name]["parts"]
        path = os.path.join(dataset("sbm"), part["path"])
        return np.fromfile(path, columns[name]["dtype"], part["rows"], offset=part["body_offset"])
    indptr, indices = column("indptr"), column("indices")
    for frontier in ("all", "new"):
        for b in load("sbm", fanouts=[5, 3], batch_size=128, edge_pos=True, frontier=frontier):
            source, target = b.n_id[b.edge_index]
            np.testing.assert_array_equal(indices[b.e_id], source)
            assert ((indptr[target] <= b.e_id) & (b.e_id < indptr[target + 1])).all()
            assert sum(b.num_sampled_edges) == len(b.e_id)


def test_columns_are_those_that_were_asked_for(load):
    b = next(iter(load("sbm", fanouts=[3], batch_size=10, node_columns=["label", "feature"], seed_columns=[])))
    node = b.node_types[0]
    assert set(b[node].columns()) == {"label", "feature"} and b.y.shape == (b.num_nodes,)
    b = next(iter(load("sbm", fanouts=[3], batch_size=10, node_columns=[], seed_columns=["feature"])))
    assert b.x.shape == (10, 16) and not hasattr(b, "y")
    with pytest.raises(khop.OptionError, match='no column "year"'):
        load("sbm", node_columns=["year"])


def test_padding_to_the_most_gives_one_shape(load):
    shapes = set()
    loader = load("sbm", fanouts=[3, 2], batch_size=64, pad="max")
    for b in loader:
        shapes.add((b.x.shape, b.y.shape, b.edge_index.shape, b.node_mask.shape))
        assert b.seed_mask.sum() == 64 or b.number == len(loader) - 1
    assert len(shapes) == 1
    (b,) = load("sbm", fanouts=[-1], batch_size=3000, pad="max", seeds="all")  # no more than the graph has
    assert b.num_nodes == 3001 and b.edge_index.shape == (2, 40000) and b.edge_mask.all()
    assert {type(b) for b in load("sbm", fanouts=[3, 2], batch_size=64, pad="pow2")} == {khop.Padded}


# --- states ---

@pytest.mark.parametrize("after", [0, 1, 4])
def test_a_new_process_resumes_after_the_last_batch(after, load, dataset, sample):
    pytest.importorskip("xxhash")
    flags, options = OPTIONS["sbm"]
    loader = load("sbm", **options)
    loader.set_epoch(2)
    epoch = iter(loader)
    for _ in range(after):
        next(epoch)
    state = json.loads(json.dumps(loader.state_dict()))
    loader.close()
    again = load("sbm", **options)
    again.load_state_dict(state)
    assert [b.digest() for b in again] == [full for _, _, full in sample(dataset("sbm"), *flags, "--epoch", 2)][after:]
    assert [(b.epoch, b.number) for b in again][:1] == [(3, 0)]


@pytest.mark.parametrize("leave", ["break", "raise", "close"])
def test_a_loop_that_was_left_resumes_where_it_was_left(leave, load):
    options = dict(fanouts=[3], batch_size=128, shuffle=True)
    whole = [(b.number, b.n_id.tolist()) for b in load("sbm", **options)]
    loader = load("sbm", **options)
    epoch = iter(loader)
    try:
        for batch in epoch:
            if batch.number == 2:
                if leave == "raise":
                    raise KeyboardInterrupt
                break
    except KeyboardInterrupt:
        pass
    if leave == "close":
        epoch.close()
    del epoch, batch
    state = json.loads(json.dumps(loader.state_dict()))
    assert state["epoch"] == 0 and loader.epoch == 1
    again = load("sbm", **options)
    again.load_state_dict(state)
    assert [(b.number, b.n_id.tolist()) for b in again] == whole[3:]
    assert next(iter(loader)).epoch == 1  # where nobody takes the state, the next loop is the next epoch
    assert loader.state_dict()["epoch"] == 1
    loader.load_state_dict(state)
    assert [b.number for b in loader] == [number for number, _ in whole[3:]]


def test_the_edges_of_a_node_are_sampled_once_by_default(load):
    for sampler in ("neighbor", "labor"):
        batch = next(iter(load("sbm", sampler=sampler, fanouts=[4, 3], batch_size=64, edge_pos=True)))
        assert len(np.unique(batch.e_id)) == len(batch.e_id) == batch.edge_index.shape[1]
        assert np.bincount(batch.edge_index[1])[:batch.batch_size].max() <= 4

def test_a_state_of_another_loader_is_refused_with_the_difference(load):
    state = load("sbm", fanouts=[3], seed=1).state_dict()
    other = load("sbm", fanouts=[4], seed=1)
    with pytest.raises(khop.StateError, match="fanouts=3"):
        other.load_state_dict(state)


# --- ends ---

def test_closing_ends_the_server_and_leaves_nothing(load):
    loader = load("sbm", fanouts=[3])
    pid = loader.server_pid
    assert alive(pid)
    assert not os.listdir(tempfile.gettempdir())  # gone as soon as it has been connected to
    x = next(iter(loader)).x
    loader.close()
    loader.close()
    assert not alive(pid) and x.shape[1] == 16
    with pytest.raises(khop.ServerError, match="closed"):
        iter(loader)
    with load("sbm", fanouts=[3]) as second:
        pid = second.server_pid
    assert not alive(pid)


def test_a_loader_that_is_forgotten_ends_its_server(dataset):
    loader = khop.Loader(dataset("sbm"), fanouts=[3], framework="numpy")
    pid = loader.server_pid
    for _ in loader:
        break
    del loader, _
    gc.collect()
    wait_until(lambda: not alive(pid))


PARENT = """
import os, signal, sys, khop
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
loader = khop.Loader(sys.argv[1], fanouts=[3], framework="numpy")
batch = next(iter(loader))
print(loader.server_pid, flush=True)
how = sys.argv[2]
if how == "exit": sys.exit(0)
if how == "raise": raise RuntimeError
if how == "_exit": os._exit(3)
import time; time.sleep(600)
"""


@pytest.mark.parametrize("how", ["exit", "raise", "_exit", "SIGKILL", "SIGTERM", "SIGINT"])
def test_a_server_ends_with_its_trainer_however_that_ends(how, dataset, python):
    trainer = python(PARENT, dataset("sbm"), how)
    pid = int(trainer.stdout.readline())
    if how.startswith("SIG"):
        trainer.send_signal(getattr(signal, how))
    trainer.communicate(timeout=PATIENCE)
    wait_until(lambda: not alive(pid))
    assert not os.listdir(tempfile.gettempdir())


def test_a_server_that_is_killed_is_reported_at_once(load):
    loader = load("sbm", fanouts=[3], batch_size=16)
    epoch = iter(loader)
    batch = next(epoch)
    x = batch.x.copy()
    os.kill(loader.server_pid, signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(khop.ServerError, match=r"was ended by signal 9 \(SIGKILL\).*max_memory="):
        for _ in epoch:
            pass
    assert time.monotonic() - began < 30  # not when a batch is overdue, after a minute
    np.testing.assert_array_equal(batch.x, x)


def test_a_server_that_hangs_is_reported_with_what_it_wrote(load):
    loader = load("sbm", fanouts=[3], batch_size=16)
    epoch = iter(loader)
    next(epoch)
    loader._feed._timeout = 1.0
    os.kill(loader.server_pid, signal.SIGSTOP)
    try:
        with pytest.raises(khop.ServerError, match="(?s)did not come within 1 s.*it wrote last:.*a consumer is there"):
            for _ in epoch:
                pass
    finally:
        os.kill(loader.server_pid, signal.SIGCONT)


def test_what_the_server_complains_of_is_in_the_error(load, dataset, tmp_path):
    with pytest.raises(khop.ServerError, match="no-such"):
        khop.Loader(tmp_path / "no-such.khop")
    with pytest.raises(khop.OptionError, match="fanouts"):
        load("sbm", fanouts=[-7])
    with pytest.raises(khop.OptionError, match="split"):
        load("sbm", seeds="holdout")
    with pytest.raises(khop.BinaryNotFound, match="binary= names /nowhere/khop"):
        load("sbm", binary="/nowhere/khop")


def test_what_a_server_says_after_it_has_closed_the_connection_is_in_the_error(dataset, tmp_path):
    program = tmp_path / "khop"
    program.write_text(f"""#!{sys.executable}
import os, socket, sys, time
path = sys.argv[sys.argv.index("--socket") + 1]
os.mkdir(os.path.dirname(path), 0o700)
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
    s.bind(path)
    s.listen()
    s.accept()
time.sleep(0.5)
sys.exit("a late reason")
""")
    program.chmod(0o700)
    with pytest.raises(khop.ServerError, match="(?s)^khop serve has ended with status 1\na late reason$") as e:
        khop.Loader(dataset("sbm"), binary=program)
    assert str(program) in e.value.command


def test_a_server_that_crashes_is_reported_in_a_line(load):
    epoch = iter(load("sbm", fanouts=[3], batch_size=16))
    next(epoch)
    os.kill(epoch._loader.server_pid, signal.SIGSEGV)
    with pytest.raises(khop.ServerError, match="^khop serve has crashed: SIGSEGV: .*a bug") as e:
        for _ in epoch:
            pass
    assert "\n" not in str(e.value) and "goroutine" in e.value.output


@pytest.mark.parametrize("options, says", [
    (dict(node_columns=["nope"]), 'node_columns: no column "nope"; there are: feature, label'),
    (dict(seed_columns=["nope"]), 'seed_columns: no column "nope"; there are: feature, label'),
    (dict(seeds=np.array([1, 2, 10**9])), "seeds[2]: seed out of range: node 1000000000"),
    (dict(seeds={"node": [5, -1]}), "seeds['node'][1]: seed out of range: node -1"),
    (dict(edge_label_index=np.array([[1, 2], [3, 10**8]])), "edge_label_index[:, 1]: "),
    (dict(batch_size=0), 'batch_size is 0: must be 1 to 1073741824'),
    (dict(fanouts=[3, -2]), "fanouts[1]: -2: must be a number"),
])
def test_errors_speak_of_what_python_said(options, says, load):
    with pytest.raises(ValueError) as e:
        load("sbm", **options)
    text = str(e.value)
    assert type(e.value) is khop.OptionError and "serve" in e.value.command
    assert text.startswith(says), text
    assert "/proc/" not in text and "--" not in text and "Columns" not in text, text
    assert e.value.__cause__ is None and (e.value.__suppress_context__ or e.value.__context__ is None)


@pytest.mark.parametrize("seeds, says", [
    (np.ones(7, bool), "a mask of 7 entries, where there are 3,000 nodes"),
    ({"node": np.ones(3001, bool)}, r"seeds\['node'\]: a mask of 3,001 entries"),
    ([], "seeds: there are none"),
    ({"node": np.zeros(3000, bool)}, "seeds: there are none"),
])
def test_seeds_that_are_no_nodes_are_refused(seeds, says, load):
    with pytest.raises(ValueError, match=says):
        load("sbm", seeds=seeds)


def test_a_closed_loader_says_so_and_not_that_it_is_busy(load):
    loader = load("sbm", fanouts=[3], batch_size=16)
    epoch = iter(loader)
    next(epoch)
    loader.close()
    for use in (lambda: iter(loader), lambda: next(epoch)):
        with pytest.raises(khop.ServerError, match="closed"):
            use()


def test_options_with_two_names_have_one_at_a_time(dataset, load):
    for both in (dict(fanouts=[3], num_neighbors=[3]), dict(fanouts=[3], seeds="train", input_nodes="train")):
        with pytest.raises(TypeError, match="the same"):
            khop.Loader(dataset("sbm"), **both)
    one, other = (load("sbm", fanouts=[3], batch_size=64, **{name: "train"}) for name in ("seeds", "input_nodes"))
    assert [b.digest() for b in one] == [b.digest() for b in other]


# --- servers that run already ---

@pytest.fixture
def serve(program, dataset, tmp_path):
    """Starts khop serve on its own; returns the process and the socket."""
    started = []

    def serve(name, *options):
        path = tmp_path / "feed" / "s"
        process = subprocess.Popen([program, "serve", dataset(name), "--socket", str(path), "--json",
                                    *map(str, options)], stdout=subprocess.PIPE)
        started.append(process)
        process.stdout.readline()
        return process, path
    yield serve
    for process in started:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()


def test_a_consumer_that_was_killed_resumes_at_what_it_had_not_acknowledged(serve, python):
    process, path = serve("sbm", "--fanouts", 3, "--batch-size", 16)
    consumer = python("""
import sys, os, khop
for batch in khop.connect(sys.argv[1], framework="numpy"):
    print(batch.number, flush=True)
    if batch.number == 5: os.kill(os.getpid(), 9)
""", path)
    out, _ = consumer.communicate(timeout=PATIENCE)
    assert out.split() == list("012345")
    again = khop.connect(path, framework="numpy")
    assert next(iter(again)).number == 5  # it was asked for, not done
    again.close()


def test_consumers_killed_at_random_moments_lose_and_repeat_nothing(serve, python, tmp_path):
    seed = int.from_bytes(os.urandom(4), "little")
    rng = np.random.default_rng(seed)
    process, path = serve("sbm", "--fanouts", 3, "--batch-size", 2, "--seeds", "all", "--shuffle")
    log, last = tmp_path / "numbers", None
    for _ in range(6):
        log.write_text("")
        consumer = python("""
import sys, khop
with open(sys.argv[2], "w", buffering=1) as log:
    for batch in khop.connect(sys.argv[1], framework="numpy"):
        print(batch.number, file=log)
""", path, log)
        wait_until(lambda: log.stat().st_size)
        time.sleep(rng.random() / 20)
        consumer.kill()
        consumer.communicate()
        numbers = list(map(int, log.read_text().split()))
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), f"seed {seed}"
        # The last one that was seen was not yet done with.
        assert last is None or numbers[0] in (last, last + 1), f"seed {seed}"
        last = numbers[-1]
        if last == 1499:  # the whole epoch
            break
    assert process.poll() is None


def test_ranks_of_a_running_server_share_an_epoch(serve):
    _, path = serve("sbm", "--fanouts", 3, "--batch-size", 100, "--world-size", 2)
    loaders = [khop.connect(path, framework="numpy") for _ in range(2)]
    assert {loader.rank for loader in loaders} == {0, 1}
    seeds = [np.concatenate([b.n_id[:b.batch_size].copy() for b in loader if not b.padded]) for loader in loaders]
    assert not set(seeds[0]) & set(seeds[1])
    with pytest.raises(khop.ServerError):
        khop.connect(path, rank=0, framework="numpy")
    for loader in loaders:
        loader.close()


def test_many_read_the_same_batches_and_none_can_write(serve):
    _, path = serve("sbm", "--fanouts", 3, "--batch-size", 100, "--broadcast", 2)
    seen = [[], []]

    def read(mine):
        with khop.connect(path, framework="numpy") as loader:
            for b in loader:
                assert not b.x.flags.writeable
                mine.append((b.number, b.n_id.sum(), b.x.sum()))
    readers = [threading.Thread(target=read, args=(mine,)) for mine in seen]
    for r in readers:
        r.start()
    for r in readers:
        r.join(PATIENCE)
    assert len(seen[0]) > 5 and seen[0] == seen[1]


def test_joining_where_nobody_serves_says_so(tmp_path):
    with pytest.raises(khop.ServerError, match="no server at"):
        khop.connect(tmp_path / "s", connect_timeout=0.05)


# --- other libraries ---

def test_tqdm_shows_how_far_it_is(load):
    tqdm = pytest.importorskip("tqdm").tqdm
    loader = load("sbm", fanouts=[3], batch_size=64)
    bar = tqdm(loader, file=open(os.devnull, "w"))
    assert bar.total == len(loader)
    assert sum(1 for _ in bar) == len(loader)


def test_batches_go_through_pickle(load):
    pytest.importorskip("xxhash")
    b = next(iter(load("typed", fanouts=[3, 2])))
    assert pickle.loads(pickle.dumps(b)).digest() == b.digest() == b.copy().digest()


def test_pyg_gets_what_it_expects(load):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    data = next(iter(load("sbm", fanouts=[4, 3], frontier="new", framework="torch"))).to_pyg()
    assert data.validate() and data.batch_size <= data.num_nodes and data.edge_index.shape[1] == sum(
        data.num_sampled_edges)
    assert len(data.y) == data.num_nodes and (data.y[data.batch_size:] == -100).all() and (
        data.y[:data.batch_size] >= 0).all()
    half = data.subgraph(torch.arange(data.num_nodes - 1, -1, -2).flip(0))
    assert half.y.tolist() == data.y[torch.arange(data.num_nodes - 1, -1, -2).flip(0)].tolist()
    hetero = next(iter(load("typed", fanouts=[4, 3], frontier="new", framework="torch"))).to_pyg()
    assert hetero.validate() and 0 < hetero["paper"].batch_size <= hetero["paper"].num_nodes


def test_dgl_gets_what_it_expects(load):
    pytest.importorskip("torch", reason="torch is not installed")
    dgl = pytest.importorskip("dgl", reason="dgl is not installed")
    batch = next(iter(load("sbm", fanouts=[4, 3], framework="torch", edge_pos=True)))
    inputs, outputs, blocks = batch.to_dgl()
    assert len(inputs) == batch.num_nodes and len(outputs) == batch.batch_size == blocks[-1].num_dst_nodes()
    for block, own in zip(blocks, batch.blocks):
        source, target = block.edges()
        assert source.tolist() == own.edge_index[0].tolist() and target.tolist() == own.edge_index[1].tolist()
        assert block.edata[dgl.EID].tolist() == own.edge_pos.tolist()
    assert "feature" in blocks[0].srcdata and "label" in blocks[-1].dstdata
    typed = next(iter(load("typed", fanouts=[4, 3], framework="torch")))
    _, _, blocks = typed.to_dgl()
    assert blocks[0].num_src_nodes("paper") == typed["paper"].num_nodes


@pytest.mark.parametrize("process", [
    "server", pytest.param("inside", marks=pytest.mark.skipif(bool(_library.why_not()), reason="no shared library"))])
def test_ctrl_c_at_any_line_of_taking_a_batch_breaks_nothing(process, load):
    """KeyboardInterrupt comes before the n-th line of taking a batch, for each n. The loop goes on then, at most
    without the batch that was on its way, and all slots come back: there are two.

    It runs in a thread of its own. Python cannot raise an exception as an except clause ends, but a trace function can:
    then what was caught there (an IndexError of Ring.leave) stays the thread's current exception, and the __context__
    of all that come after it.
    """
    source = pathlib.Path(khop.__file__).parent
    files = {str(source / f) for f in ("_loader/loader.py", "_feed/feed.py", "_feed/in_process.py", "_feed/ring.py",
                                       "_feed/protocol.py")}

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename not in files or frame.f_code.co_name in ("release", "give_back", "_flush"):
            return None  # what finalisers raise nobody hears
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    loader = load("sbm", fanouts=[2], batch_size=500, hold=2, process=process, timeout=20)

    def interrupt_at_each_line():
        nonlocal left
        for n in itertools.count(1):
            batches = iter(loader)
            numbers = [next(batches).number]
            left = n
            try:
                sys.settrace(trace)
                numbers.append(next(batches).number)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            numbers += [b.number for b in batches]
            whole = list(range(len(loader)))
            assert numbers in (whole, [0, *whole[2:]]), n
            if left > 0:
                break
        assert n > 30

    left = 0
    with ThreadPoolExecutor(1) as apart:
        apart.submit(interrupt_at_each_line).result(PATIENCE)
    assert sys.exc_info() == (None, None, None)


def test_a_batch_without_features_has_none(program):
    with khop.Loader({"edge_index": np.array([[0, 1, 2], [1, 2, 0]])}, [2], batch_size=3, framework="numpy") as loader:
        (batch,) = loader
        assert batch.x is None
        with pytest.raises(AttributeError, match="no column 'label'.*it has: none"):
            batch.y
