#!/usr/bin/env python3
"""DGL's random walks on one thread, in ms of CPU time a batch, for docs/results/walks.md.

    .bench/dgl/bin/python bench/peers/walks.py DATA      DATA: a dataset's indptr.npy and indices.npy, as export.py writes them

DGL is given the edges turned round, so that it steps from a node to the source of an in-edge, as khop does.
"""
import os
import sys
import time
import warnings

os.environ["OMP_NUM_THREADS"] = "1"
warnings.filterwarnings("ignore")
import dgl
import numpy as np
import torch

LENGTH, SEEDS, ROUNDS = 20, 1024, 3
WAYS = {
    "uniform": (40, lambda g, s: dgl.sampling.random_walk(g, s, length=LENGTH)),
    "stop 0.1": (40, lambda g, s: dgl.sampling.random_walk(g, s, length=LENGTH, restart_prob=0.1)),
    "node2vec p 0.25 q 4": (5, lambda g, s: dgl.sampling.node2vec_random_walk(g, s, 0.25, 4, LENGTH)),
}


def main(data):
    torch.set_num_threads(1)
    indptr, indices = (torch.from_numpy(np.load(os.path.join(data, name + ".npy")).astype(np.int64)) for name in ("indptr", "indices"))
    g = dgl.graph(("csr", (indptr, indices, torch.empty(0, dtype=torch.int64)))).formats(["csr"])
    for r in range(ROUNDS):
        for name, (batches, walk) in WAYS.items():
            seeds = [torch.from_numpy(np.random.default_rng(100 * r + i).integers(0, len(indptr) - 1, SEEDS)) for i in range(batches)]
            walk(g, seeds[0])
            begin = time.process_time()
            for s in seeds:
                walk(g, s)
            print(name, f"{(time.process_time() - begin) / batches * 1e3:.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
