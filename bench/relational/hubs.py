"""Temporal sampling by times of nodes on hubs: khop beside pyg-lib or torch-sparse, and as it was.

    python bench/relational/hubs.py [--degrees 64,1000,100000] [--rounds 5]

Each hub has a number of rows of a table as in-edges; a batch is one hop of fan-out 64 out of all hubs, each as of a
time in the middle. Ways take turns: pyg-lib's hetero_neighbor_sample and torch-sparse's
hetero_temporal_neighbor_sample, where they are installed, khop where rows are in no order of time, so that it looks at
every in-edge, and khop where they are, so that it bisects. torch-sparse picks out of all in-edges and leaves out what
is later, so that a seed gets fewer. khop makes batches with one worker, in this process, and hands them to Python as
arrays. It prints microseconds a seed, median, least and most of the rounds. It needs torch and the khop package with
its shared library (PYTHONPATH=integrations/python/src, KHOP_BIN, KHOP_LIBRARY); peers/setup.sh installs torch-sparse.
"""
import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np
import torch

import khop

PEERS = {}
with contextlib.suppress(ImportError):
    import pyg_lib
    PEERS["pyg-lib"] = pyg_lib.__version__
with contextlib.suppress(ImportError):
    import torch_sparse
    PEERS["torch-sparse"] = torch_sparse.__version__
FANOUT, MIDDLE = 64, 1_000_000
LOADER = dict(fanouts=[FANOUT], sampler="temporal", node_time="time", process="inside", framework="numpy", workers=1)


def edges(hubs, degree, draw):
    """The rows that hubs have, in the order of rows, and times of rows in the order of time."""
    rows = hubs * degree
    return draw.permutation(np.arange(rows) % hubs), np.sort(draw.integers(0, 2 * MIDDLE, rows))


def of_khop(path, hubs, owner, times):
    """A batch of khop's, again and again."""
    khop.write(path, {
        "hub": {"num_nodes": hubs, "time": np.full(hubs, MIDDLE)}, "row": {"num_nodes": len(times), "time": times},
        ("row", "of", "hub"): {"src": np.arange(len(times)), "dst": owner}})
    loader = khop.Loader(path, seeds={"hub": np.arange(hubs)}, batch_size=hubs, **LOADER)

    def batches():
        while True:
            yield from loader
    made = batches()
    return loader, lambda: len(next(made)["row"].n_id)


def of_peer(peer, hubs, owner, times):
    """The same of a peer, on in-edges in the order of time."""
    colptr = torch.from_numpy(np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=hubs))]))
    kind, seeds = ("row", "of", "hub"), {"hub": torch.arange(hubs)}
    name = kind if peer == "pyg-lib" else "__".join(kind)
    graph = {name: colptr}, {name: torch.from_numpy(np.argsort(owner, kind="stable"))}
    node_time = {"hub": torch.full((hubs,), MIDDLE), "row": torch.from_numpy(times)}

    def by_pyg_lib():
        nodes = pyg_lib.sampler.hetero_neighbor_sample(
            *graph, seeds, {name: [FANOUT]}, node_time_dict=node_time, csc=True, disjoint=True)[2]
        return len(nodes["row"])

    def by_torch_sparse():
        nodes, *_ = torch.ops.torch_sparse.hetero_temporal_neighbor_sample(
            ["hub", "row"], [kind], *graph, seeds, {name: [FANOUT]}, node_time, 1, False, True)
        return len(nodes["row"])
    return by_pyg_lib if peer == "pyg-lib" else by_torch_sparse


def timed(sample, seconds):
    """Seconds a call."""
    calls, begin = 0, time.perf_counter()
    while (took := time.perf_counter() - begin) < seconds or calls < 2:
        sample()
        calls += 1
    return took / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--degrees", default="64,100,1000,10000,100000,1000000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=.5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, khop {khop.__version__}, load {os.getloadavg()[0]:.1f}")
    ways = [*(f"{name} {version}" for name, version in PEERS.items()), "khop, rows in no order", "khop, rows in order"]
    print("| in-edges | hubs | " + " | ".join(ways) + " |")
    with tempfile.TemporaryDirectory() as folder:
        for degree in map(int, args.degrees.split(",")):
            measure(pathlib.Path(folder), degree, args)


def measure(folder, degree, args):
    hubs, draw = min(512, max(8, 4_000_000 // degree)), np.random.default_rng(degree)
    owner, times = edges(hubs, degree, draw)
    opened, ways = [], {peer: of_peer(peer, hubs, owner, times) for peer in PEERS}
    for name, of in (("before", draw.permutation(times)), ("now", times)):
        loader, ways[name] = of_khop(folder / f"{degree}-{name}.khop", hubs, owner, of)
        opened.append(loader)
    seen = {name: [] for name in ways}
    for name, sample in ways.items():  # torch-sparse picks among all in-edges, and drops those that are later
        assert sample() == hubs * FANOUT or degree <= 2 * FANOUT or name == "torch-sparse"
    for _ in range(args.rounds):
        for name, sample in ways.items():
            seen[name].append(timed(sample, args.seconds) / hubs * 1e6)
    for loader in opened:
        loader.close()
    print(f"| {degree:,} | {hubs} | " + " | ".join(
        f"{statistics.median(s):,.2f} ({min(s):,.2f}-{max(s):,.2f})" for s in seen.values()) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
