"""Several processes that train together: each its share, one server a machine, and what happens when one is killed."""
import json
import os
import socket
import subprocess
import sys
import time

import pytest

from conftest import PATIENCE
from test_loader import alive, wait_until

# Each rank prints a JSON line, and one a batch; with "step" it goes on when it has read a line, or its stdin is closed.
PLAIN = """
import json, os, sys, khop
loader = khop.Loader(sys.argv[1], fanouts=[3], batch_size=100, shuffle=True, framework="numpy")
print(json.dumps({"server": loader.server_pid, "pid": os.getpid(), "rank": loader.rank, "world": loader.world_size}),
      flush=True)
for epoch in range(2):
    for batch in loader:
        print(json.dumps({"epoch": batch.epoch, "number": batch.number, "padded": batch.padded,
                          "seeds": batch.n_id[:batch.batch_size].tolist()}), flush=True)
        if sys.argv[2] == "step": sys.stdin.readline()
"""

TORCH = """
import json, os, sys
import torch, torch.distributed as dist
import khop
dist.init_process_group("gloo")
os.environ.pop("RANK"), os.environ.pop("WORLD_SIZE")  # torch.distributed knows
loader = khop.Loader(sys.argv[1], fanouts=[3], batch_size=100, shuffle=True)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 5))
optimiser = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(2):
    mine = []
    for batch in loader:
        loss = torch.nn.functional.cross_entropy(model(batch.x[:batch.batch_size]), batch.y)
        optimiser.zero_grad()
        loss.backward()  # a collective: hangs unless all ranks have as many batches
        optimiser.step()
        mine.append([batch.number, batch.padded, batch.n_id[:batch.batch_size].tolist()])
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    if dist.get_rank() == 0:
        print(json.dumps(everyone), flush=True)
weights = [torch.zeros_like(model.module.weight) for _ in range(dist.get_world_size())]
dist.all_gather(weights, model.module.weight.detach())
assert all(torch.equal(w, weights[0]) for w in weights)
loader.close()
del model
dist.barrier()  # one that goes while the other is still at work may abort it
dist.destroy_process_group()
"""


def check_shares(shares, num_seeds):
    """Ranks have as many batches, each seed is had once, and padding repeats."""
    assert len({len(share) for share in shares}) == 1
    real = [s for share in shares for _, padded, seeds in share if not padded for s in seeds]
    assert len(real) == len(set(real)) == num_seeds
    assert sorted(n for share in shares for n, padded, _ in share if not padded) == list(range(-(-num_seeds // 100)))


def free_port():
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


def start(dataset, rank, world, port, how="", code=PLAIN):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RANK": str(rank), "WORLD_SIZE": str(world),
           "LOCAL_RANK": str(rank),
           "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    return subprocess.Popen([sys.executable, "-c", code, dataset, how], env=env, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def test_processes_of_one_launcher_share_a_server(dataset):
    port = free_port()
    ranks = [start(dataset("sbm"), r, 3, port) for r in (2, 1, 0)][::-1]  # the one that starts the server comes last
    shares = []
    for r, p in enumerate(ranks):
        out, err = p.communicate(timeout=PATIENCE)
        assert p.returncode == 0, err
        about, *batches = map(json.loads, out.splitlines())
        assert (about["rank"], about["world"], bool(about["server"])) == (r, 3, r == 0)
        shares.append([[b["number"], b["padded"], b["seeds"]] for b in batches if b["epoch"] == 1])
    check_shares(shares, sum(len(s) for share in shares for _, padded, s in share if not padded))


def test_a_rank_that_is_killed_leaves_the_others_whole(dataset):
    """Rank 1 dies in the middle; rank 0, which has the server, goes on. Then the other way round: rank 1 is told."""
    port = free_port()
    first, second = [start(dataset("sbm"), r, 2, port, how) for r, how in enumerate(("", "step"))]
    for _ in range(2):
        second.stdout.readline()
    second.kill()
    second.communicate()
    out, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 0, err
    assert len(out.splitlines()) == 1 + 2 * 9

    port = free_port()
    first, second = [start(dataset("sbm"), r, 2, port, "step") for r in range(2)]
    server = json.loads(first.stdout.readline())["server"]
    for _ in range(2):
        second.stdout.readline()
    first.kill()
    first.communicate()
    wait_until(lambda: not alive(server))
    began = time.monotonic()
    _, err = second.communicate(timeout=PATIENCE)
    assert second.returncode != 0 and "khop.errors.ServerError" in err
    assert time.monotonic() - began < 50  # not when a batch is overdue


def test_two_ranks_of_gloo_train_on_disjoint_shares(dataset):
    pytest.importorskip("torch", reason="torch is not installed")
    port = free_port()
    ranks = [start(dataset("sbm"), r, 2, port, code=TORCH) for r in range(2)]  # as torchrun starts them
    outputs = [p.communicate(timeout=PATIENCE) for p in ranks]
    assert [p.returncode for p in ranks] == [0, 0], outputs
    epochs = [json.loads(line) for line in outputs[0][0].splitlines() if line.startswith("[")]
    assert len(epochs) == 2
    for shares in epochs:
        check_shares(shares, sum(len(s) for share in shares for _, padded, s in share if not padded))
    assert epochs[0] != epochs[1]  # another order


def test_places_come_from_arguments_then_the_environment(monkeypatch):
    from khop.place import Place, find
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert find() == Place(0, 1, 0, 1)
    for name, value in (("RANK", "5"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "4")):
        monkeypatch.setenv(name, value)
    assert find() == Place(5, 8, 1, 4)
    assert find(1, 2) == Place(1, 2, 0, 1)
    with pytest.raises(ValueError, match="both or neither"):
        find(rank=1)
    with pytest.raises(ValueError, match="not one of"):
        find(2, 2)
    monkeypatch.setenv("RANK", "x")
    with pytest.raises(ValueError, match="RANK is 'x'"):
        find()
