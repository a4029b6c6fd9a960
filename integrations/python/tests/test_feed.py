"""The consumer against a server of a few lines: order, slots, what happens when either side errs."""
import gc
import math
import os
import pickle
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

import khop
from khop._feed import protocol
from khop._feed.feed import Feed
from khop._loader.loader import Connection

import fake as f
from conftest import PATIENCE


@pytest.fixture
def start(request):
    made = []

    def start(script, slots=4, timeout=float(PATIENCE), framework="numpy", pad=None, **options):
        server = f.Fake(script, slots)
        loader = Connection(Feed(server.client, timeout=timeout, **options), framework=framework, pad=pad)
        made.append((server, loader))
        return server, loader
    yield start
    for server, loader in made:
        loader.close()
        server.close()


def numbers(loader):
    return [(b.epoch, b.number, int(b.n_id[0]), float(b.x[0, 0])) for b in loader]


def test_each_iter_runs_the_next_epoch_in_order(start):
    _, loader = start(lambda s: s.serve())
    assert len(loader) == 3
    for epoch in range(3):
        assert numbers(loader) == [(epoch, i, 100 * i, 1000.0 * i) for i in range(3)]


def test_set_epoch_says_which_epoch_comes_next(start):
    _, loader = start(lambda s: s.serve())
    loader.set_epoch(5)
    assert [b.epoch for b in loader] == [5] * 3
    assert [b.epoch for b in loader] == [6] * 3
    with pytest.raises(ValueError, match="below 2"):
        loader.set_epoch(-1)


def test_a_loop_that_is_left_early_is_followed_by_the_next_epoch(start):
    _, loader = start(lambda s: s.serve())
    for b in loader:
        break
    assert numbers(loader)[0][:2] == (1, 0)


def test_a_pass_of_which_nothing_was_taken_comes_again(start):
    _, loader = start(lambda s: s.serve())
    loader.load_state_dict({**loader.state_dict(), "epoch": 4, "next": 1})
    iter(loader).close()
    assert (loader.state_dict()["epoch"], loader.state_dict()["next"]) == (4, 1)
    assert [(b.epoch, b.number) for b in loader] == [(4, 1), (4, 2)]


def test_the_state_after_each_batch_resumes_after_it(start):
    _, loader = start(lambda s: s.serve())
    assert (loader.state_dict()["epoch"], loader.state_dict()["next"]) == (0, 0)
    states = []
    for b in loader:
        states.append(loader.state_dict())
    assert [(s["epoch"], s["next"]) for s in states] == [(0, 1), (0, 2), (0, 3)]
    after = loader.state_dict()
    assert (after["epoch"], after["next"]) == (1, 0)
    for i, state in enumerate(states):
        loader.load_state_dict(state)
        assert loader.state_dict() == state
        assert [b.number for b in loader] == list(range(i + 1, 3))
        assert [b.epoch for b in loader] == [1] * 3  # and then the next epoch


def test_a_state_of_other_options_is_refused(start):
    _, loader = start(lambda s: s.serve())
    with pytest.raises(khop.StateError, match="seed is 8, this loader's 7"):
        loader.load_state_dict({**loader.state_dict(), "seed": 8})
    with pytest.raises(khop.StateError, match="not a state"):
        loader.load_state_dict({"model": 1})


def test_a_second_iterator_ends_the_first_one_which_says_what_to_do(start):
    _, loader = start(lambda s: s.serve())
    first = iter(loader)
    next(first)
    assert [b.epoch for b in loader] == [1] * 3
    with pytest.raises(khop.BusyError, match="one iterator at a time; for two at once make a second loader"):
        next(first)


def test_a_loader_is_not_indexed(start):
    _, loader = start(lambda s: s.serve())
    with pytest.raises(TypeError, match="iterated"):
        loader[0]


# --- slots ---

def test_asking_for_the_next_batch_acknowledges_those_before(start):
    server, loader = start(lambda s: s.serve())
    for _ in loader:
        pass
    loader.close()
    server.thread.join(PATIENCE)
    assert server.returned()[1] == [(1, 0), (1, 1), (1, 2), (1, 3)]


def test_a_slot_comes_back_when_the_last_array_over_it_is_gone(start):
    server, loader = start(lambda s: s.serve(batches=50), slots=4)
    ring = loader._feed.ring
    epoch = iter(loader)
    batch = next(epoch)
    x = batch.x
    row, column = x[2], x.reshape(-1)[5:]  # views of views
    del batch, x
    gc.collect()
    assert len(ring.held) == 1
    kept = row.copy()
    for _ in range(20):  # one slot fewer; what is held does not change
        next(epoch)
    np.testing.assert_array_equal(row, kept)
    del row
    assert len(ring.held) == 1
    del column
    assert len(ring.held) == 0


@pytest.mark.parametrize("view", [
    lambda x: x.view(np.uint8), lambda x: x[:, 1:].T, lambda x: np.asarray(memoryview(x)),
    lambda x: np.frombuffer(x, np.int32),
    lambda x: x.view(np.recarray), lambda x: np.lib.stride_tricks.as_strided(x, (2, 2)),
    lambda x: np.ndarray((3,), np.float32, x), lambda x: x.base[128:],
], ids=["dtype", "transposed", "memoryview", "buffer", "subclass", "strides", "ndarray", "base"])
def test_every_kind_of_view_holds_the_slot(view, start):
    _, loader = start(lambda s: s.serve())
    ring = loader._feed.ring
    kept = view(next(iter(loader)).x)
    gc.collect()
    assert len(ring.held) == 1
    del kept
    assert not ring.held


def test_more_slots_than_a_message_takes_come_back_in_several(start, monkeypatch):
    monkeypatch.setattr(protocol, "CREDITS", 2)
    server, loader = start(lambda s: s.serve(batches=20, hold=8), slots=8)
    epoch = iter(loader)
    # Of which five come back at once; the server has one slot, so nothing is sent meanwhile.
    kept = [next(epoch) for _ in range(7)]
    del kept[:5]
    assert len(loader._feed.ring.returned) == 5
    kept.append(next(epoch))
    assert not loader._feed.ring.returned
    assert [b.number for b in epoch] == list(range(8, 20))


def test_releasing_gives_the_slot_back_at_once_and_once(start):
    server, loader = start(lambda s: s.serve(batches=10))
    epoch = iter(loader)
    batch = next(epoch)
    assert len(loader._feed.ring.held) == 1
    batch.release()
    batch.release()
    assert len(loader._feed.ring.held) == 0
    with pytest.raises(ValueError, match="was released"):
        batch.x
    assert [b.number for b in epoch] == list(range(1, 10))
    loader.close()
    server.thread.join(PATIENCE)
    assert server.returned()[0].count(0) in (3, 4)  # of ten batches in three slots; the last may be on its way


def test_holding_every_slot_waits_and_then_says_who_holds_them(start, caplog):
    said = []
    _, loader = start(lambda s: s.serve(batches=10, hold=2))
    epoch = iter(loader)
    held = [next(epoch), next(epoch)]
    loader._feed._timeout = 0.3
    with pytest.raises(khop.SlotsHeldError, match=r"all 2 slots .* batch 0 of epoch 0; batch 1 of epoch 0. .*copy"):
        next(epoch)
    loader._feed._timeout = PATIENCE
    with caplog.at_level("WARNING", "khop"):
        caplog.handler.emit = lambda record: (said.append(record.getMessage()), held.pop())  # and lets go of one
        assert next(epoch).number == 2  # and the loop goes on
    assert len(said) == 1 and "for a second: all 2 slots are held" in said[0]


def test_batches_in_reference_cycles_are_found_when_slots_run_out(start):
    _, loader = start(lambda s: s.serve(batches=10, hold=2))
    gc.disable()
    try:
        for batch in loader:
            cycle = [batch.x]
            cycle.append(cycle)
            del batch, cycle
    finally:
        gc.enable()


def test_arrays_are_writable_and_their_writes_harm_nobody(start):
    _, loader = start(lambda s: s.serve())
    for batch in loader:
        batch.x[:] = -1
        batch.edge_index[:] = 0
    assert numbers(loader)[1] == (1, 1, 100, 1000.0)


def test_arrays_outlive_the_loader(start):
    _, loader = start(lambda s: s.serve())
    batch = next(iter(loader))
    x = batch.x
    del batch
    loader.close()
    assert float(x[0, 1]) == 1.0
    with pytest.raises(khop.KhopError, match="closed"):
        iter(loader)


def test_arrays_of_a_closed_loader_are_not_written_over(dataset, program, tmp_path):
    path = str(tmp_path / "socket")
    server = subprocess.Popen(
        [program, "serve", dataset("sbm"), f"--socket={path}", "--fanouts=5,3", "--batch-size=64", "--seeds=all"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert "serving" in server.stdout.readline()
        for framework in ("numpy", "torch"):
            if framework == "torch":
                pytest.importorskip("torch", reason="torch is not installed")
            with khop.connect(path, framework=framework) as batches:
                it = iter(batches)
                unused, batch = next(it), next(it)  # of the first no array is made before the end
                x, ids = batch.x, batch.n_id
                were = np.array(x), np.array(ids), batch.digest()
            with khop.connect(path, framework=framework) as others:  # the server has all slots again
                for _ in range(3):
                    for other in others:
                        other.x[:] = -1
            assert np.array_equal(x, were[0]) and np.array_equal(ids, were[1]) and batch.digest() == were[2]
            assert not np.array_equal(np.array(unused.x)[:1], np.full_like(were[0][:1], -1))
            x[:] = 3  # still this process's to write
            assert float(x[0, 0]) == 3
    finally:
        server.terminate()
        server.communicate()


# --- what a batch has ---

def test_the_fields_of_a_plain_batch(start):
    _, loader = start(lambda s: s.serve())
    b = next(iter(loader))
    assert b.batch_size == 4 and b.num_nodes == 7
    assert b.num_sampled_nodes == [4, 3] and b.num_sampled_edges == [5]
    assert b.n_id.dtype == np.int64 and b.n_id.tolist() == list(range(7))
    assert b.input_id.tolist() == [0, 1, 2, 3]
    assert b.edge_index.tolist() == [[4, 5, 6, 0, 4], [0, 0, 2, 3, 3]]
    (block,) = b.blocks
    assert (block.num_src, block.num_dst, block.num_edges) == (7, 4, 5)
    assert b["node"].x is b.x and b["node", "edge", "node"].edge_index is b.edge_index
    assert b.y.tolist() == [0, 1, 0, 1]
    with pytest.raises(AttributeError, match="no column 'weight'"):
        b.edge_weight
    assert not hasattr(b, "edge_attr")
    with pytest.raises(KeyError, match="no node type 'paper'; there are: node"):
        b["paper"]


def test_pickling_copies(start):
    _, loader = start(lambda s: s.serve())
    b = next(iter(loader))
    again = pickle.loads(pickle.dumps(b))
    assert again.digests() == b.digests()
    before = again.x.copy()
    b.x[:] = -5
    np.testing.assert_array_equal(again.x, before)
    assert (again.epoch, again.number, again.batch_size) == (b.epoch, b.number, b.batch_size)


def test_int32_ids_are_widened_by_a_copy_and_only_then(start):
    def script(s):
        s.greet(index=5)
        run, *_ = s.begin()
        s.send(f.begun(run))
        s.put(run, 0, 0, f.small_batch(index=np.int32))
        s.receive(f.BYE)
    _, loader = start(script, index_dtype="int32")
    b = next(iter(loader))
    assert b.n_id.dtype == b.edge_index.dtype == np.int32


# --- the other side errs ---

@pytest.mark.parametrize("code, kind", [(10, khop.ServerError), (8, khop.StateError)])
def test_an_error_of_a_run_is_raised_in_its_place(code, kind, start):
    def script(s):
        run = s.begun()
        s.put(run, 0, 0)
        s.send(f.error(run, code, "features.arrow is cut short: convert again"))
        run, *_ = s.begin()
        s.send(f.begun(run, batches=0))
        s.send(f.end(run, 0))
        s.receive(f.BYE)
    _, loader = start(script)
    epoch = iter(loader)
    assert next(epoch).number == 0
    with pytest.raises(kind, match="cut short"):
        next(epoch)
    assert next(epoch, None) is None  # it is over
    assert list(loader) == []  # the connection is as it was


def test_a_server_that_dies_is_reported_at_once(start):
    def script(s):
        run = s.begun()
        s.receive(f.NEXT)
        s.put(run, 0, 0)
    _, loader = start(script)
    epoch = iter(loader)
    x = next(epoch).x
    began = time.monotonic()
    with pytest.raises(khop.ServerError, match="without a word"):
        next(epoch)
    assert time.monotonic() - began < PATIENCE / 2  # not when a batch is overdue
    assert float(x[1, 0]) == 3.0  # what is held stays


def test_a_server_may_take_its_time_to_load(start):
    def script(s):
        time.sleep(0.5)
        s.greet()
    with pytest.raises(khop.ServerError, match="HELLO did not come"):
        start(lambda s: s.receive(f.BYE), timeout=0.1)
    _, loader = start(script, timeout=0.1, start_timeout=float(PATIENCE))
    assert loader._feed._timeout == 0.1  # from then on


def test_a_server_that_says_goodbye_is_quoted(start):
    def script(s):
        run = s.begun()
        s.send(f.bye(1))
    _, loader = start(script)
    with pytest.raises(khop.ServerError, match="interrupted"):
        next(iter(loader))


def test_a_batch_that_does_not_come_in_time_is_an_error(start):
    def script(s):
        run = s.begun()
        s.receive(f.BYE)
    _, loader = start(script)
    epoch = iter(loader)
    loader._feed._timeout = 0.4
    with pytest.raises(khop.ServerError, match="a batch did not come within 0 s"):
        next(epoch)


def test_a_refusal_is_quoted(start):
    with pytest.raises(khop.ServerError, match="rank 9"):
        start(lambda s: (s.receive(f.HELLO), s.send(f.error(0, 4, "there is no rank 9: --world-size is 2"))), rank=9)


def test_a_server_of_another_user_is_refused(start, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(khop.ProtocolError, match="the server runs as user"):
        start(lambda s: s.serve())


def test_another_rank_than_asked_for_is_refused(start):
    with pytest.raises(khop.ProtocolError, match="gives rank 0 where 1"):
        start(lambda s: s.greet(world=2), rank=1)


def test_another_version_is_refused(start):
    bad = bytearray(f.welcome())
    bad[16:18] = b"\2\0"
    with pytest.raises(khop.ProtocolError, match="version 2"):
        start(lambda s: (s.receive(f.HELLO), s.send(bytes(bad))))


# --- forks ---

def test_a_forked_child_is_told_plainly_and_its_parent_goes_on(start):
    server, loader = start(lambda s: s.serve(batches=4))
    epoch = iter(loader)
    batch = next(epoch)
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ok = float(batch.x[0, 1]) == 1.0  # readable
            del batch
            next(epoch)
        except khop.ForkError as e:
            os.write(w, (f"{ok} " + str(e)).encode())
        except BaseException as e:
            os.write(w, repr(e).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(w)
    text = os.read(r, 4096).decode()
    os.close(r)
    assert text.startswith("True") and "num_workers=0" in text
    del batch
    assert [b.number for b in epoch] == [1, 2, 3]


# --- hostile messages ---

def begun_with(make):
    def script(s):
        run = s.begun()
        make(s, run)
        try:
            s.receive(f.BYE)
        except EOFError:
            pass
    return script


def raw(s, run, mutate, arrays=None):
    """A batch whose descriptor was changed by mutate."""
    data, writes = f.descriptor(arrays or f.small_batch(), 4096)
    data = bytearray(data)
    mutate(data)
    os.pwrite(s.ring, bytes(data), 0)
    s.send(f.batch(run, 0, 0, size=len(data), offset=0))


@pytest.mark.parametrize("what, make", {
    "slot that is none": lambda s, run: s.send(f.batch(run, 4, 0, size=64)),
    "descriptor outside": lambda s, run: s.send(f.batch(run, 0, 0, size=64, offset=4 * s.SLOT - 63)),
    "descriptor far outside": lambda s, run: s.send(f.batch(run, 0, 0, size=64, offset=2**64 - 32)),
    "descriptor in no segment": lambda s, run: s.send(f.batch(run, 0, 0, size=64, segment=1)),
    "descriptor too small": lambda s, run: s.send(f.batch(run, 0, 0, size=63)),
    "descriptor that is none": lambda s, run: s.send(f.batch(run, 0, 0, size=64)),
    "sequence that jumps": lambda s, run: s.put(run, 0, 1),
    "slot twice": lambda s, run: (s.put(run, 0, 0), s.put(run, 0, 1)),
    "message of unknown kind": lambda s, run: s.send(f.message(99, 0, bytes(8))),
    "message of a consumer": lambda s, run: s.send(f.message(f.NEXT, 0, bytes(16))),
    "wrong length": lambda s, run: s.send(f.batch(run, 0, 0)[:-1]),
    "lying length": lambda s, run: s.send(f.end(run, 0) + b"x"),
    "empty message": lambda s, run: s.send(b"x"),
    "name outside": lambda s, run: raw(s, run, lambda d: d.__setitem__(slice(64 + 16, 64 + 20), b"\xff\xff\xff\x7f")),
    "name twice": lambda s, run: raw(s, run, lambda d: d.__setitem__(slice(128 + 16, 128 + 24), d[64 + 16:64 + 24])),
    "count too large": lambda s, run: raw(s, run, lambda d: d.__setitem__(slice(12, 16), b"\0\0\1\0")),
    "another batch's": lambda s, run: raw(s, run, lambda d: d.__setitem__(32, 9)),
    "END of two reasons": lambda s, run: s.send(f.end(run, 0, 7)),
    "END of a run that nobody stopped": lambda s, run: s.send(f.end(run, 0, 1)),
    "END before the last batch": lambda s, run: (s.put(run, 0, 0), s.send(f.end(run, 1))),
    "END of more than came": lambda s, run: (s.put(run, 0, 0), s.send(f.end(run, 3))),
    "second WELCOME": lambda s, run: s.send(f.welcome()),
    "segment out of order": lambda s, run: s.send(f.segment(0, 4096), [f.memfd(4096)]),
    "segment that may shrink": lambda s, run: s.send(f.segment(1, 4096), [f.memfd(4096, 0)]),
    "segment of another size": lambda s, run: s.send(f.segment(1, 8192), [f.memfd(4096)]),
    "segment of no memory": lambda s, run: s.send(f.segment(1, 4096)),
    "segment that is a file": lambda s, run: s.send(f.segment(1, 4096), [os.open(__file__, os.O_RDONLY)]),
    "segment with two descriptors": lambda s, run: s.send(f.segment(1, 4096), [f.memfd(4096), f.memfd(4096)]),
    "segment on a device": lambda s, run: s.send(f.segment(1, 4096, memory=1)),
    "batch with a descriptor": lambda s, run: s.send(f.batch(run, 0, 0, size=64), [f.memfd(4096)]),
}.items(), ids=lambda v: v if isinstance(v, str) else "")
def test_what_the_document_does_not_allow_ends_the_connection(what, make, start):
    before = len(os.listdir("/proc/self/fd"))
    _, loader = start(begun_with(make))
    epoch = iter(loader)
    with pytest.raises(khop.ProtocolError):
        keep = [next(epoch) for _ in range(3)]
    assert loader._feed.closed
    del loader, epoch
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 4  # the two ends, the ring, what the fake itself opened


@pytest.mark.parametrize("what, at, value", [
    ("beyond the segment", 0, (2**40).to_bytes(8, "little")),
    ("beyond 64 bits", 0, (2**64 - 128).to_bytes(8, "little")),
    ("not aligned", 0, (4096 + 8).to_bytes(8, "little")), ("no such segment", 8, b"\7\0\0\0"),
    ("no such dtype", 12, b"\x63"),
    ("rank 0", 13, b"\0"), ("rank 5", 13, b"\5"), ("dimension", 32, (2**61).to_bytes(8, "little")),
    ("dimensions that overflow", 32, (2**46).to_bytes(8, "little") + (2**46).to_bytes(8, "little")),
])
def test_no_array_is_made_outside_of_the_ring(what, at, value, start):
    index = list(f.small_batch()).index("node/node/feature")

    def make(s, run):
        raw(s, run, lambda d: d.__setitem__(slice(64 + 64 * index + at, 64 + 64 * index + at + len(value)), value))
    _, loader = start(begun_with(make))
    with pytest.raises(khop.ProtocolError):
        next(iter(loader)).x


def test_a_layout_that_is_known_is_not_read_again(start):
    """A server that says that all is as before and describes other arrays gets what it deserves: those of before, in
    the ring."""
    index = list(f.small_batch()).index("node/node/feature")

    def lie(s, run):
        s.put(run, 1, 0)
        data, writes = f.descriptor(f.small_batch(1), 4096, number=1, following=2)
        entry = bytearray(data)
        entry[64 + 64 * index + 12:64 + 64 * index + 14] = bytes([12, 4])  # float64 of rank 4
        os.pwrite(s.ring, bytes(entry), 0)
        for offset, content in writes:
            os.pwrite(s.ring, content, offset)
        s.send(f.batch(run, 0, 1, number=1, size=len(data), offset=0, following=2))
    _, loader = start(begun_with(lie))
    epoch = iter(loader)
    assert next(epoch).x.shape == (7, 3)
    x = next(epoch).x
    assert x.shape == (7, 3) and x.dtype == np.float32 and float(x[0, 1]) == 1001.0


def test_a_layout_of_another_number_of_arrays_is_another(start):
    def script(s, run):
        s.put(run, 0, 0)
        # The fake calls all layouts 1.
        s.put(run, 1, 1, {n: a for n, a in f.small_batch(1).items() if n != "seed/node/label"})
    _, loader = start(begun_with(script))
    epoch = iter(loader)
    assert "seed/node/label" in next(epoch)
    second = next(epoch)
    assert "seed/node/label" not in second and float(second.x[0, 0]) == 1000.0


def test_a_ring_larger_than_allowed_is_refused(start):
    _, loader = start(lambda s: s.serve(), max_ring_bytes=4096)
    with pytest.raises(khop.ProtocolError, match="max_ring_bytes"):
        next(iter(loader))


def test_any_bytes_are_a_message_or_a_protocol_error():
    rng = np.random.default_rng(3)
    seeds = [f.welcome(), f.segment(0, 4096), f.begun(1), f.batch(1, 0, 0, size=64), f.end(1, 3),
             f.error(1, 10, "text"), f.bye(),
             f.message(f.TELL, 0, b"\1\0\0\0\2\0\0\0\2\0\0\0\0\0\0\0{}")]
    messages = [protocol.read(m) for m in seeds]
    assert len(messages) == len(seeds)
    refused = 0
    for i in range(5_000):
        data = bytearray(seeds[rng.integers(len(seeds))])
        for _ in range(rng.integers(1, 4)):
            at = rng.integers(len(data))
            data[at] = rng.integers(256) if rng.integers(2) else (0, 255, 127, 128)[rng.integers(4)]
        if rng.integers(4) == 0:
            data = data[:rng.integers(len(data) + 1)]
        try:
            protocol.read(bytes(data))
        except khop.ProtocolError:
            refused += 1
    assert refused > 250


@pytest.mark.parametrize("taken_over", [False, True], ids=["first", "of a layout that is known"])
def test_any_descriptor_gives_arrays_in_the_ring_or_a_protocol_error(taken_over):
    rng = np.random.default_rng(4)
    good, _ = f.descriptor(f.small_batch(), 4096)
    ready = protocol.read(f.batch(1, 0, 0, size=len(good)))
    known = protocol.layout(good, ready) if taken_over else None
    arrays = 0
    for i in range(5_000):
        data = bytearray(good)
        for _ in range(rng.integers(1, 4)):
            at = rng.integers(len(data))
            data[at] = rng.integers(256) if rng.integers(2) else (0, 255, 127, 128)[rng.integers(4)]
        if rng.integers(8) == 0:
            data = data[:rng.integers(64, len(data) + 1)]
        try:
            layout = protocol.layout(bytes(data), ready, known)
            for name in layout.names:
                segment, offset, shape, numpy, _ = layout.place(name, bytes(data), [65536])
                size = math.prod(shape) * numpy.itemsize
                assert segment == -1 and size == 0 or segment == 0 and 0 <= offset <= 65536 - size
                arrays += 1
        except khop.ProtocolError:
            pass
    assert arrays > 250


def test_an_array_without_elements_may_not_have_any_shape():
    arrays = {"x": np.empty((0, 5, 6)), **f.small_batch()}
    good, _ = f.descriptor(arrays, 4096)
    ready = protocol.read(f.batch(1, 0, 0, size=len(good)))
    assert protocol.layout(good, ready).place("x", good, [65536])[2] == (0, 5, 6)
    bad = bytearray(good)
    for k in (1, 2):
        bad[64 + 32 + 8 * k:64 + 40 + 8 * k] = (2**46).to_bytes(8, "little")  # no array of NumPy's
    with pytest.raises(khop.ProtocolError):
        protocol.layout(bytes(bad), ready).place("x", bytes(bad), [65536])
