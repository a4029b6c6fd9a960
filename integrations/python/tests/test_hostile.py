"""The consumer against servers that lie: whatever is wrong with an answer, it is a ProtocolError, and nothing is left
open.

KHOP_SEED  another seed of the mutations, or "new", which draws one; a failure prints it
"""
import copy
import fcntl
import gc
import json
import os
import random
import socket
import struct
import threading

import numpy as np
import pytest

import khop
from khop._feed.feed import Feed
from khop._loader.loader import Connection

import fake as f
from conftest import PATIENCE

SLOT = f.Fake.SLOT
FIELDS = {f.WELCOME: "8sHHIIIIIIIQQ", f.SEGMENT: "IIQII", f.BEGUN: "IIQQQQ", f.BATCH: "IIQQQIIQQ", f.END: "IIQQQ",
          f.ERROR: "IIII"}


class Answers:
    """All that a server answers to a consumer of one run, as it should be: messages and their descriptors, and the
    ring."""

    def __init__(self):
        self.ring = bytearray(4 * SLOT)
        self.messages = [(f.welcome(slots=4, hold=4), 0), (f.begun(1), 0), (f.segment(0, 4 * SLOT), 1)]
        self.arrays = [f.small_batch(n) for n in range(3)]

    def put(self):
        """Writes the batches into the ring, and announces them."""
        for n, arrays in enumerate(self.arrays):
            data, writes = f.descriptor(arrays, n * SLOT + 4096, 0, n, n + 1)
            self.ring[n * SLOT:n * SLOT + len(data)] = data
            for at, content in writes:
                self.ring[at:at + len(content)] = content
            self.messages.append((f.batch(1, n, n, 0, n, 0, len(data), n * SLOT, n + 1), 0))
        self.messages.append((f.end(1, 3), 0))


def consume(answers, **options):
    """Takes all batches of a server, looks at everything in them, and leaves nothing open."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ring = f.memfd(len(answers.ring))
    pipe = os.pipe()
    loader = None
    try:
        os.pwrite(ring, bytes(answers.ring), 0)
        for data, fds in answers.messages:
            choice = {"pipe": [pipe[0]], "file": [theirs.fileno()],
                      "unsealed": []}.get(fds, [ring] * fds if isinstance(fds, int) else [])
            socket.send_fds(theirs, [data], choice) if choice else theirs.send(data)
        theirs.shutdown(socket.SHUT_WR)
        loader = Connection(Feed(ours, timeout=PATIENCE, **options), framework="numpy", pin=False)
        batches = len(loader)
        for batch in loader:
            look(batch)
            loader.state_dict()
        return batches
    finally:
        if loader is not None:
            loader.close()
        for fd in (ring, *pipe):
            os.close(fd)
        ours.close()
        theirs.close()


def look(batch):
    """Reads every element of a batch, and all that is computed from them."""
    for name in batch.names():
        batch.array(name).sum()
    for block in batch[batch.edge_types[0]].blocks:
        block.num_src, block.num_dst, block.num_edges, block.indptr, block.indices
    batch.batch_size, batch.num_nodes, batch.num_sampled_nodes, batch.num_sampled_edges
    batch.n_id, batch.input_id, batch.edge_index
    assert repr(batch) and batch.info


VALUES = [None, -1, 0, 1, 3.5, 1 << 31, 1 << 32, 1 << 63, 1 << 64, 1 << 70, True, "", "x", [], {}, [1], {"epoch": 0},
          "\0", float("nan")]


def change_json(answers, r):
    """WELCOME with a field that is missing or something else."""
    head, text = answers.messages[0][0][8:64], json.loads(answers.messages[0][0][64:])
    text.update(version="1", pid=1, dataset_id="0", seeds="all", num_seeds=12, batch_size=4, shuffle=False,
                drop_last=False, batches=3, epochs=0)
    inside = r.choice([text, text["state"]])
    key = r.choice(list(inside))
    if r.random() < 0.3:
        del inside[key]
    else:
        inside[key] = r.choice(VALUES)
    answers.put()
    data = json.dumps(r.choice(VALUES) if r.random() < 0.05 else text).encode()
    body = bytearray(head)
    body[36:40] = struct.pack("<I", len(data))
    answers.messages[0] = (f.message(f.WELCOME, 0, bytes(body) + data), 0)


def change_field(answers, r):
    """A message of which one field has another value."""
    answers.put()
    i = r.randrange(len(answers.messages))
    data, fds = answers.messages[i]
    data = bytearray(data)
    fields = FIELDS[data[0]]
    parts = list(struct.unpack_from("<" + fields, data, 8))
    k = r.randrange(len(parts))
    if isinstance(parts[k], bytes):
        parts[k] = bytes(r.randrange(256) for _ in parts[k])
    else:
        width = {"H": 16, "I": 32, "Q": 64}[
            "".join(c * (8 if c == "s" else 1) for c in fields if not c.isdigit()).replace("s" * 8, "s")[k]]
        parts[k] = r.choice([0, 1, 2, 3, 4, parts[k] + 1, parts[k] - 1, 1 << 16, 1 << 31, 1 << 32, 1 << 47, 1 << 63, -1,
                             r.getrandbits(64)]) % (1 << width)
    struct.pack_into("<" + fields, data, 8, *parts)
    answers.messages[i] = (bytes(data), fds)


def change_length(answers, r):
    """A message that is cut short, or goes on, whatever it says of its length."""
    answers.put()
    i = r.randrange(len(answers.messages))
    data, fds = answers.messages[i]
    data = data[:r.randrange(1, len(data))] if r.random() < 0.7 else data + bytes(r.choice([1, 8, 64_000]))
    if len(data) >= 8 and r.random() < 0.5:
        data = data[:4] + struct.pack("<I", len(data)) + data[8:]
    answers.messages[i] = (data, fds)


def change_descriptors(answers, r):
    """Unexpected descriptors, none where there should be one, several, or one of something else."""
    answers.put()
    i = r.choice([2, r.randrange(len(answers.messages))])
    answers.messages[i] = (answers.messages[i][0], r.choice([0, 1, 2, 5, 60, 100, "pipe", "file"]))


def change_order(answers, r):
    """Messages that are missing, come twice, or in another order."""
    answers.put()
    i = r.randrange(len(answers.messages))
    {0: lambda: answers.messages.pop(i),
     1: lambda: answers.messages.insert(i, answers.messages[r.randrange(len(answers.messages))]),
     2: lambda: r.shuffle(answers.messages)}[r.randrange(3)]()


def change_arrays(answers, r):
    """A batch without an array, or with one of another name, dtype or shape."""
    n = r.choice([0, 0, 1])
    arrays = answers.arrays[n]
    name = r.choice(list(arrays))
    a = arrays.pop(name)
    how = r.randrange(4)
    if how == 1:
        other = list(name)
        other[r.randrange(len(other))] = r.choice("/:x0é")
        name = "".join(other)
    elif how == 2:
        a = a.astype(r.choice([np.int8, np.uint16, np.int32, np.float64, np.float16]))
    elif how == 3:
        a = np.resize(a, r.choice([(0,), (1,), (2, 1), (1, 0), (3, 3), (1, 1, 1), (0, 2, 3, 4), (5,), (8,)]))
    if how:
        arrays[name] = a
    answers.put()


def change_entry(answers, r):
    """The description of a batch, or of one of its arrays, of which some bytes differ."""
    answers.put()
    for _ in range(r.randrange(1, 4)):
        at = r.randrange(3) * SLOT + r.randrange(64 + 64 * 9 + 150)
        answers.ring[at] = r.choice([0, 1, 127, 128, 255, r.randrange(256)])


CHANGES = [change_json, change_field, change_length, change_descriptors, change_order, change_arrays, change_entry]


def open_files():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_the_answers_are_right_unless_they_are_changed():
    answers = Answers()
    answers.put()
    assert consume(answers) == 3


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_every_answer_that_is_changed_is_right_or_a_protocol_error(change):
    seed = os.environ.get("KHOP_SEED", "1")
    seed = str(random.SystemRandom().getrandbits(32)) if seed == "new" else seed
    r = random.Random(f"{seed} {change.__name__}")
    before, refused = open_files(), 0
    for i in range(250):
        answers = Answers()
        change(answers, r)
        kept = copy.deepcopy(answers.messages)
        try:
            consume(answers)
        except khop.ProtocolError:
            refused += 1
        except khop.ServerError as e:  # what was sent ended, or was made ERROR or BYE
            assert "without a word" in str(e) or "has closed the feed" in str(
                e) or change is change_length, f"KHOP_SEED={seed}, {i}: {e}"
        except BaseException as e:
            raise AssertionError(f"KHOP_SEED={seed}, change {i}, {kept}: {e!r}") from e
    assert refused > 25
    assert open_files() == before


# --- servers that never come to an end ---

@pytest.mark.parametrize("what", ["batches of a run before", "ends of a run before", "answers to nothing"])
def test_endless_messages_are_an_error_in_time(what):
    def script(s):
        run = s.begun()
        while True:
            s.send(
                {"batches of a run before": f.batch(run + 7, 0, 0, size=64), "ends of a run before": f.end(run + 7, 0),
                    "answers to nothing": f.message(f.TELL, 0, struct.pack("<IIII", 1, 9, 2, 0) + b"{}")}[what])
    server = f.Fake(script)
    loader = Connection(Feed(server.client, timeout=PATIENCE), framework="numpy")
    try:
        epoch = iter(loader)
        loader._feed._timeout = 0.3
        with pytest.raises(khop.ProtocolError):
            next(epoch)
    finally:
        loader.close()
        server.close()


# --- invalid memory ---

def sealed(flags=os.MFD_ALLOW_SEALING, size=4096, seals=f.SEALS):
    fd = os.memfd_create("x", os.MFD_CLOEXEC | flags)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


@pytest.mark.parametrize("what, size, make", [
    ("may shrink", 4096, lambda: sealed(seals=fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)),
    ("may grow", 4096, lambda: sealed(seals=fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)),
    ("may lose its seals", 4096, lambda: sealed(seals=fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)),
    ("is a pipe", 4096, lambda: os.pipe()[0]), ("is a folder", 4096, lambda: os.open("/", os.O_RDONLY)),
    ("is a device", 4096, lambda: os.open("/dev/zero", os.O_RDWR)), ("is smaller than said", 8192, sealed),
    ("is larger than said", 4096, lambda: sealed(size=8192)), ("has no bytes", 0, lambda: sealed(size=0)),
    ("is larger than the address space", (1 << 47) - 4096, lambda: sealed(size=(1 << 47) - 4096)),
    ("is read-only", 4096, lambda: os.open(f"/proc/self/fd/{sealed()}", os.O_RDONLY)),
])
def test_memory_that_could_fault_is_not_mapped(what, size, make):
    answers = Answers()
    fd = make()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.send(answers.messages[0][0])
        theirs.send(f.begun(1))
        socket.send_fds(theirs, [f.segment(0, size)], [fd])
        loader = Connection(Feed(ours, timeout=PATIENCE), framework="numpy", pin=False)
        with pytest.raises(khop.ProtocolError):
            next(iter(loader))
        loader.close()
    os.close(fd)


def test_a_segment_that_was_mapped_cannot_be_made_to_fault():
    answers = Answers()
    answers.put()
    ring = f.memfd(len(answers.ring))
    os.pwrite(ring, bytes(answers.ring), 0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        for data, fds in answers.messages:
            socket.send_fds(theirs, [data], [ring]) if fds else theirs.send(data)
        loader = Connection(Feed(ours, timeout=PATIENCE), framework="numpy", pin=False)
        batch = next(iter(loader))
        with pytest.raises(PermissionError):
            os.ftruncate(ring, 0)
        assert float(batch.x[0, 1]) == 1.0
        loader.close()
    os.close(ring)


def test_what_is_announced_by_a_server_that_reads_no_more_is_not_taken():
    """A reader that was given up: the server uses its slots again."""
    over = threading.Event()

    def script(s):
        run = s.begun()
        s.put(run, 0, 0)
        s.put(run, 1, 1)
        s.receive(f.NEXT)
        s.socket.shutdown(socket.SHUT_RD)
        s.send(f.error(0, 14, "the other readers have waited for you"))
        over.wait(PATIENCE)
    server = f.Fake(script)
    loader = Connection(Feed(server.client, timeout=PATIENCE), framework="numpy")
    try:
        epoch = iter(loader)
        assert next(epoch).number == 0
        while not loader._feed._cut:  # the server may still be about to stop reading
            loader._feed._send(khop._feed.protocol.ask(1, 1))
        with pytest.raises(khop.ServerError, match="have waited for you") as caught:
            next(epoch)
        assert caught.value.code == 14
    finally:
        over.set()
        loader.close()
        server.close()
