"""Several processes that train together: each its share, one server a machine, and what happens when one is killed."""
import json
import os
import socket
import subprocess
import sys
import time
import types

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
for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"): os.environ.pop(name)  # torch.distributed knows
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


def start(dataset, rank, world, port, how="", code=PLAIN, alone=False):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RANK": str(rank), "WORLD_SIZE": str(world),
           "LOCAL_RANK": str(rank),
           "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port or "")}
    alone = alone or code is not PLAIN
    parent = ["sh", "-c", '"$@"; exit $?', "sh"] if alone else []  # one each, as with some launchers
    return subprocess.Popen([*parent, sys.executable, "-c", code, dataset, how], env=env, stdin=subprocess.PIPE,
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


@pytest.mark.parametrize("how", ["named", "torch", "neither"])
def test_processes_of_two_parents_share_a_server_or_say_why_not(dataset, how):
    """As from two shells, or by srun with a shell for each rank."""
    code = PLAIN
    if how == "torch":  # which knows all ranks, and names them where the environment does not name the run
        pytest.importorskip("torch", reason="torch is not installed")
        code = ("import os, torch.distributed as dist\ndist.init_process_group('gloo')\n"
                f"del os.environ['MASTER_PORT']\n{PLAIN}dist.barrier()\n")
    port = how != "neither" and free_port()
    ranks = [start(dataset("sbm"), r, 2, port, code=code, alone=True) for r in range(2)]
    outputs = [p.communicate(timeout=PATIENCE) for p in ranks]
    if how == "neither":
        assert all(f"started ranks [{r}]" in e and "MASTER_PORT" in e for r, (_, e) in enumerate(outputs)), outputs
        return
    abouts = [json.loads(out.splitlines()[0]) for out, _ in outputs]
    assert [p.returncode for p in ranks] == [0, 0] and [bool(a["server"]) for a in abouts] == [True, False], outputs


def test_a_rank_that_is_killed_leaves_the_others_whole(dataset):
    """Rank 1 dies in the middle; rank 0, which has the server, goes on. Then the other way round: rank 1 gets an
    error."""
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
    from khop.place import LAUNCHERS, Place, find
    for of in LAUNCHERS:
        for key in ("rank", "size", "local_rank", "local_size", "here", "step"):
            monkeypatch.delenv(of.get(key, ""), raising=False)

    def told(said, rank=None, world_size=None):
        with monkeypatch.context() as env:
            for name, value in (pair.split("=") for pair in said.split()):
                env.setenv(name, value)
            return find(rank, world_size)

    assert told("") == told("RANK=5") == told("WORLD_SIZE=1") == Place()
    assert told("RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4") == Place(5, 8, 1, (4, 5, 6, 7))
    assert told("RANK=1 WORLD_SIZE=2") == Place(1, 2, 1, (0, 1))
    assert told("RANK=5 WORLD_SIZE=8", 1, 2) == Place(1, 2, 0, (1,))
    assert told("RANK=1 WORLD_SIZE=2 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=0") == Place(1, 2, 1, (0, 1))
    assert told("SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=1 SLURM_GTIDS=1,3") == Place(3, 4, 1, (1, 3))
    assert told("ENVIRONMENT=BATCH SLURM_PROCID=0 SLURM_NTASKS=4") == Place()
    mpi = "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1"
    assert told(mpi) == Place(2, 3, 0, (2,))
    assert told("JOB_COMPLETION_INDEX=6 WORLD_SIZE=7") == Place(6, 7, 0, (6,))
    assert "SLURM_PROCID and SLURM_NTASKS" in told("SLURM_PROCID=3 SLURM_NTASKS=4").source
    for said, rank, error in (("", 1, "both or neither"), ("WORLD_SIZE=4", None, "and no RANK"),
                              ("RANK=2 WORLD_SIZE=2", None, "rank 2 is not one of 0 .. 1: RANK and WORLD_SIZE"),
                              ("RANK=x WORLD_SIZE=2", None, "RANK is 'x'")):
        with pytest.raises(ValueError, match=error):
            told(said, rank)


def test_ray_train_says_the_rank_where_torch_does_not(monkeypatch):
    from khop.place import Place, find

    def context(rank, size):
        said = dict(world_rank=rank, world_size=size, local_rank=1, local_world_size=2)
        return types.SimpleNamespace(**{f"get_{k}": lambda v=v: v for k, v in said.items()})
    train = types.SimpleNamespace(get_context=lambda: context(3, 4))
    monkeypatch.setitem(sys.modules, "ray.train", train)
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    assert find() == Place(3, 4, 1, (2, 3))
    train.get_context = lambda: context(0, 1)  # what Ray says elsewhere than in a worker
    assert find() == Place(0, 2, 0, (0, 1))


# Each rank makes a loader, with an option of its own, and prints what becomes of it.
AGREE = """
import json, os, sys
import khop
if sys.argv[3] == "torch":
    import torch.distributed as dist
    dist.init_process_group("gloo")
    folder = None
else:
    folder = sys.argv[3]
dataset, own = json.loads(sys.argv[2]).get(os.environ["RANK"], [sys.argv[1], {}])
try:
    options = {"fanouts": [3], "batch_size": 100, "framework": "numpy", "agree": folder, "start_timeout": 60.0, **own}
    with khop.Loader(dataset, **options) as loader:
        print(json.dumps([loader.rank_reason, [b.number for b in loader]]))
except khop.KhopError as e:
    print(json.dumps([type(e).__name__, str(e)]))
"""


def agree(dataset, how, others):
    """What each of two ranks says; others are (dataset, options) of some."""
    port = free_port()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost",
           "MASTER_PORT": str(port), "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    ranks = [subprocess.Popen([sys.executable, "-c", AGREE, dataset, json.dumps(others), str(how)],
                              env={**env, "RANK": str(r)}, stdout=subprocess.PIPE, text=True) for r in range(2)]
    return [json.loads(p.communicate(timeout=PATIENCE)[0].splitlines()[-1]) for p in ranks]


def test_ranks_that_differ_say_which_and_in_what(dataset, tmp_path):
    good, missing = dataset("sbm"), str(tmp_path / "nowhere")
    for rank, others, said in (
        (1, [good, {"seed": 5}], "rank 1 has seed 5, rank 0 has 0"),
        (1, [good, {"workers": 1}], ""),
        (1, [dataset("typed"), {}], "rank 1 has dataset "),
        (0, [missing, {}], "rank 0 has no loader: "),
    ):
        results = agree(good, tmp_path / "agree", {str(rank): others})  # a folder in which another run was
        if said:
            kind, _ = results.pop(rank) if others[0] == missing else ("ServerError", "")
            assert kind == "ServerError"
            assert all(kind == "RanksError" and said in text for kind, text in results), results
        else:
            assert [numbers for _, numbers in results] == [list(range(r, 18, 2)) for r in range(2)], results


def test_ranks_compare_over_torch_distributed(dataset):
    pytest.importorskip("torch", reason="torch is not installed")
    results = agree(dataset("sbm"), "torch", {"1": [dataset("sbm"), {"fanouts": [4]}]})
    said = "rank 1 has fanouts [4], rank 0 has [3]"
    assert all(kind == "RanksError" and said in text for kind, text in results), results
