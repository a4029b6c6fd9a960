"""What a trainer leaves behind, however it ends."""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from conftest import PATIENCE

from khop._native.scratch import Scratch

TRAINER = """
import signal, numpy, khop
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever these tests were started by
signal.signal(signal.SIGINT, signal.default_int_handler)
from khop._peers.graph_source import Source
edges = numpy.random.default_rng(1).integers(0, 3000, (2, 60_000))
graph = {"edge_index": edges, "x": numpy.ones((3000, 64), "float32")}
print("ready", flush=True)
while True:
    with khop.Loader(graph, [5, 3], seeds=list(range(500)), batch_size=64, framework="numpy") as loader:
        for batch in loader:
            batch.x
    source = Source(graph)
    with khop.Loader(source.path, [5, 3], seeds=[1, 2, 3], batch_size=2, process="inside", framework="numpy") as loader:
        for batch in loader:
            batch.x
    source.close()
"""


def processes(folder):
    """Processes that were told of a folder."""
    found = []
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if folder.encode() in (p / "environ").read_bytes() + (p / "cmdline").read_bytes():
                found.append((p / "cmdline").read_bytes())
        except OSError:  # it has ended, or is not ours
            pass
    return found


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGKILL", "SIGINT"])
def test_a_trainer_that_is_ended_leaves_nothing(name, program, temporary_folder):
    """KHOP_KILLS says how many trainers each signal ends; 3 without it."""
    def shared():
        return {e.name for e in os.scandir("/dev/shm") if "khop" in e.name}
    before = shared()
    print("seed", seed := random.randrange(1 << 32))
    draw = random.Random(seed)
    for _ in range(int(os.environ.get("KHOP_KILLS", "3"))):
        trainer = subprocess.Popen([sys.executable, "-c", TRAINER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert trainer.stdout.readline() == b"ready\n"
        time.sleep(draw.random())  # a random moment
        trainer.send_signal(getattr(signal, name))
        trainer.communicate(timeout=PATIENCE)
        end = time.monotonic() + PATIENCE
        while left := os.listdir(temporary_folder) + processes(temporary_folder) + list(shared() - before):
            assert time.monotonic() < end, left
            time.sleep(0.01)


def test_folders_are_removed_by_close_and_with_their_object(temporary_folder):
    a, b, odd = Scratch("a-"), Scratch("b-"), Scratch("line\nbreak-")
    for s in (a, b, odd):
        pathlib.Path(s.file("x")).write_text("here")
    a.close()
    a.close()
    assert sorted(os.listdir(temporary_folder)) == sorted(map(os.path.basename, (b.path, odd.path)))
    if (child := os.fork()) == 0:
        b.close()  # it is the parent's
        os._exit(os.EX_OK if os.path.exists(b.path) else 1)
    assert os.waitpid(child, 0)[1] == 0 and os.path.exists(b.file("x"))
    del b
    odd.close()
    assert os.listdir(tempfile.gettempdir()) == []
