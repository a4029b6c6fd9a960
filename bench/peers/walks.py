#!/usr/bin/env python3
"""Random walks by khop and by DGL in turns, on the same graph and one thread each, for docs/results/samplers.md.

    bench/peers/walks.py KHOP GRAPH DATA     KHOP: the program; GRAPH: a dataset; DATA: its arrays, as export.py writes
    them

Prints a table of milliseconds a batch of 1,024 seeds, by the clock. khop's time is what sampling takes in its loader,
which also makes the list of distinct nodes and local ids. DGL is given the edges turned round, so that it steps from a
node to the source of an in-edge, as khop does. Called with --peer it is DGL's side.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import warnings

LENGTH, SEEDS, ROUNDS = 20, 1024, 7
WAYS = {  # batches, and khop's options
    "uniform": (40, ["--sampler", "walk"]),
    "stop 0.1": (40, ["--sampler", "walk", "--stop", "0.1"]),
    "node2vec, p 0.25, q 4": (10, ["--sampler", "node2vec", "--p", "0.25", "--q", "4"]),
}
DGL = pathlib.Path(os.environ.get("KHOP_BENCH_DIR",
                                  pathlib.Path(__file__).resolve().parents[2] / ".bench")) / "dgl/bin/python"


def peer(data):
    """Answers each line of input, the name of a way, with its time: the graph is loaded once."""
    warnings.filterwarnings("ignore")
    import dgl
    import numpy as np
    import torch

    torch.set_num_threads(1)
    indptr, indices = (torch.from_numpy(np.load(os.path.join(data, name + ".npy")).astype(np.int64))
                       for name in ("indptr", "indices"))
    g = dgl.graph(("csr", (indptr, indices, torch.empty(0, dtype=torch.int64)))).formats(["csr"])
    walks = {
        "uniform": lambda s: dgl.sampling.random_walk(g, s, length=LENGTH),
        "stop 0.1": lambda s: dgl.sampling.random_walk(g, s, length=LENGTH, restart_prob=0.1),
        "node2vec, p 0.25, q 4": lambda s: dgl.sampling.node2vec_random_walk(g, s, 0.25, 4, LENGTH),
    }
    random = np.random.default_rng(0)
    for line in sys.stdin:
        name = line.strip()
        seeds = [torch.from_numpy(random.integers(0, len(indptr) - 1, SEEDS)) for _ in range(WAYS[name][0] + 1)]
        walks[name](seeds.pop())
        begin = time.perf_counter()
        for s in seeds:
            walks[name](s)
        print((time.perf_counter() - begin) / len(seeds) * 1e3, flush=True)


def contest(khop, graph, data):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GOMAXPROCS": "1"}
    dgl = subprocess.Popen([DGL, __file__, "--peer", data], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                           env=env)

    def ours(name):
        batches, options = WAYS[name]
        command = [khop, "bench", graph, "--resident", "--no-memcpy", "--workers", "1", "--seeds", "all", "--shuffle",
                   "--length", str(LENGTH), "--batches", str(batches), "--json", *options]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True,
                                         env=env).stdout)["sample_ms"]

    def theirs(name):
        print(name, file=dgl.stdin, flush=True)
        return float(dgl.stdout.readline())

    times = {(name, side): [] for name in WAYS for side in (ours, theirs)}
    for r in range(ROUNDS):
        for name in WAYS:
            for side in (ours, theirs)[::1 - r % 2 * 2]:
                times[name, side].append(side(name))
    dgl.stdin.close()
    print("| walks | khop, ms a batch | DGL, ms a batch | DGL / khop |\n|---|---|---|---|")
    for name in WAYS:
        a, b = times[name, ours], times[name, theirs]
        columns = (a, 2), (b, 1), ([y / x for x, y in zip(a, b)], 1)
        print("| " + " | ".join([name] + [f"{statistics.median(c):.{d}f} ({min(c):.{d}f}-{max(c):.{d}f})" for c,
                                          d in columns]) + " |")


if sys.argv[1:2] == ["--peer"]:
    peer(sys.argv[2])
else:
    contest(*sys.argv[1:])
