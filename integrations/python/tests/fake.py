"""A server of a few lines that speaks docs/feed.md from a thread: for what a real one never sends.

It is written from the document alone, and shares no code with the package.
"""
import fcntl
import json
import os
import socket
import struct
import threading

import numpy as np

CODES = {"int8": 1, "uint8": 2, "int16": 3, "uint16": 4, "int32": 5, "uint32": 6, "int64": 7, "uint64": 8, "float16": 9,
         "bfloat16": 10,
         "float32": 11, "float64": 12}
STATE = {"semantics": 1, "dataset": "00" * 16, "sampler": "s", "seeds": "0", "batch_size": 4, "shuffle": False,
         "drop_last": False, "seed": 7,
         "instance": 0, "epoch": 0, "next": 0}
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
HELLO, WELCOME, SEGMENT, BEGIN, BEGUN, BATCH, NEXT, END, STOP, ERROR, ASK, TELL, BYE = range(1, 14)


def message(kind, flags, body):
    return struct.pack("<HHI", kind, flags, 8 + len(body)) + body


def welcome(hold=3, slots=4, batches=3, index=7, rank=0, world=1, **about):
    text = json.dumps(
        {"layers": 1, "frontier": "all", "state": STATE, "dataset": "fake", "sampler": "s", **about}).encode()
    return message(WELCOME, 0, struct.pack("<8sHHIIIIIIIQQ", b"khopfeed", 1, 0, rank, world, hold, slots, index, 0,
                                           len(text), batches, 0) + text)


def segment(number, size, memory=0, flags=0):
    return message(SEGMENT, 0, struct.pack("<IIQII", number, memory, size, flags, 0) + bytes(64))


def begun(run, epoch=0, following=0, batches=3):
    return message(BEGUN, 0, struct.pack("<IIQQQQ", run, 0, epoch, following, batches, 0))


def batch(run, slot, sequence, epoch=0, number=0, segment=0, size=0, offset=0, following=1, flags=0):
    return message(BATCH, flags,
                   struct.pack("<IIQQQIIQQ", run, slot, sequence, epoch, number, segment, size, offset, following))


def end(run, sent, reason=0, epoch=0):
    return message(END, 0, struct.pack("<IIQQQ", run, reason, sent, epoch, 0))


def error(run, code, text):
    return message(ERROR, 0, struct.pack("<IIII", run, code, len(text.encode()), 0) + text.encode())


def bye(reason=0):
    return message(BYE, 0, struct.pack("<II", reason, 0))


def memfd(size, seals=SEALS):
    fd = os.memfd_create("ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def descriptor(arrays, base, epoch=0, number=0, following=1, layout=1):
    """A descriptor, and where to put which bytes: arrays are placed from base on. arrays: {name: array or (dtype,
    array)}"""
    names = b"".join(n.encode() for n in arrays)
    size = 64 + 64 * len(arrays) + len(names)
    entries, writes, at, name_at = b"", [], base, 64 + 64 * len(arrays)
    for name, value in arrays.items():
        dtype, a = value if isinstance(value, tuple) else (value.dtype.name, value)
        entries += struct.pack("<QIBBHIIQ4Q", at, 0, CODES[dtype], a.ndim, 3, name_at, len(name.encode()), 0, *a.shape,
                               *[0] * (4 - a.ndim))
        writes.append((at, a.tobytes()))
        at += -(-a.nbytes // 128) * 128
        name_at += len(name.encode())
    head = struct.pack("<8sIIQQQQIIQ", b"khopbtch", size, len(arrays), layout, epoch, number, following, 0, 0, 0)
    return head + entries + names, writes


def small_batch(number=0, index=np.int64):
    """The arrays of a batch of four seeds and one hop, whose contents tell its number."""
    return {
        "num_nodes": np.array([[4], [7]], np.int64), "nodes/node": np.arange(7, dtype=index) + 100 * number,
        "seeds/node": np.arange(4, dtype=index), "input/node": np.arange(4, dtype=index) + 100 * number,
        "item/node": np.arange(4) + 4 * number, "block/0/node:edge:node/indptr": np.array([0, 2, 2, 3, 5], index),
        "block/0/node:edge:node/indices": np.array([4, 5, 6, 0, 4], index),
        "node/node/feature": np.arange(21, dtype=np.float32).reshape(7, 3) + 1000 * number,
        "seed/node/label": np.arange(4) % 2,
    }


class Fake:
    """Runs script(fake) in a thread, at the other end of a socket pair."""

    SLOT = 8192

    def __init__(self, script, slots=4):
        self.client, self.socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.slots, self.got, self.error, self.out, self.run = slots, [], None, set(), 0
        self.ring = memfd(slots * self.SLOT)
        self.thread = threading.Thread(target=self._run, args=(script,), daemon=True)
        self.thread.start()

    def _run(self, script):
        try:
            script(self)
        except (OSError, EOFError):
            pass
        except BaseException as e:
            self.error = e
        finally:
            self.socket.close()

    def send(self, data, fds=()):
        if fds:
            socket.send_fds(self.socket, [data], list(fds))
        else:
            self.socket.send(data)

    def receive(self, kind=None):
        """The next message's body; of a kind, which must come unless it is None. Returned slots are collected on the
        way."""
        while True:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            got, _, length = struct.unpack_from("<HHI", data)
            assert length == len(data)
            self.got.append((got, data[8:]))
            if got == STOP and self.run == struct.unpack_from("<I", data, 8)[0]:
                self.run = 0
                self.send(end(struct.unpack_from("<I", data, 8)[0], 0, 1))
            if got == NEXT:
                self.out -= set(struct.unpack_from(f"<{(length - 24) // 4}I", data, 24))
            if kind is None or got == kind:
                return got, data[8:]

    def greet(self, **options):
        self.receive(HELLO)
        self.send(welcome(slots=self.slots, **options))
        self.send(segment(0, self.slots * self.SLOT), [self.ring])

    def put(self, run, slot, sequence, arrays=None, **place):
        """Writes a batch into a slot and announces it."""
        where = {"epoch": 0, "number": sequence, "following": sequence + 1, **place}
        data, writes = descriptor(arrays or small_batch(where["number"]), slot * self.SLOT + 4096, where["epoch"],
                                  where["number"], where["following"])
        os.pwrite(self.ring, data, slot * self.SLOT)
        for offset, content in writes:
            os.pwrite(self.ring, content, offset)
        self.send(batch(run, slot, sequence, size=len(data), offset=slot * self.SLOT, **where))

    def begin(self):
        """Waits for BEGIN: run, mode, epoch, next, JSON."""
        begin = self.parse_begin(self.receive(BEGIN)[1])
        self.run = begin[0]
        return begin

    def begun(self):
        """Greets, and says to the first BEGIN that its epoch has begun: run."""
        self.greet()
        run, *_ = self.begin()
        self.send(begun(run))
        return run

    @staticmethod
    def parse_begin(body):
        run, mode, epoch, following, size, _ = struct.unpack_from("<IIQQII", body)
        return run, mode, epoch, following, json.loads(body[32:]) if size else None

    def returned(self):
        """All slots that have come back so far, in order; and acknowledgements as (run, done)."""
        slots, done = [], []
        for kind, body in self.got:
            if kind == NEXT:
                run, count, acknowledged = struct.unpack_from("<IIQ", body)
                slots += struct.unpack_from(f"<{count}I", body, 16)
                if run:
                    done.append((run, acknowledged))
        return slots, done

    def serve(self, epochs=10, batches=3, **options):
        """A server as it should be: every BEGIN is answered, batches come as slots allow."""
        self.greet(batches=batches, **options)
        hold = options.get("hold", 3)
        while True:
            run, mode, epoch, following, state = self.begin()
            if mode == 2:
                epoch, following = state["epoch"], state["next"]
            if mode == 1:
                epoch = following = 0
            self.send(begun(run, epoch, following, max(0, batches - following)))
            sent = 0
            while following + sent < batches:
                while len(self.out) >= hold and self.run:
                    self.receive()
                if not self.run:  # stopped
                    break
                slot = next(s for s in range(self.slots) if s not in self.out)
                self.out.add(slot)
                self.put(run, slot, sent, epoch=epoch, number=following + sent, following=following + sent + 1)
                sent += 1
            if self.run:
                self.run = 0
                self.send(end(run, sent, 0, epoch))

    def close(self):
        self.client.close()
        self.thread.join(180)
        os.close(self.ring)
        if self.error:
            raise self.error
