#!/usr/bin/env python3
"""khop partition beside METIS: edges cut, balance and time, on datasets that store both directions of every edge.

    partition.py KHOP DATASET ... [--parts 8,64]       (needs pymetis 2025.2.2, numpy and pyarrow)

Prints the rows of docs/results/samplers.md.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import pymetis


def column(dataset, name):
    import pyarrow as pa

    (batch,) = [pa.ipc.open_file(pa.memory_map(os.path.join(dataset, "graph", name + ".arrow"))).get_batch(0)]
    return batch.column(0).to_numpy()


def quality(indptr, indices, part, parts):
    destination = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    sizes = np.bincount(part, minlength=parts)
    return int((part[indices] != part[destination]).sum()), sizes.max() / (len(part) / parts)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("khop")
    p.add_argument("datasets", nargs="+")
    p.add_argument("--parts", default="8,64")
    a = p.parse_args()
    print("| graph | nodes | edges | parts | khop: cut | balance | s | METIS: cut | balance | s "
          "|\n|---|---|---|---|---|---|---|---|---|---|")
    for dataset in a.datasets:
        indptr, indices = column(dataset, "indptr"), column(dataset, "indices")
        loops = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)) == indices
        kept = np.concatenate(([0], np.cumsum(~loops)))  # METIS takes no loops
        adjacency = pymetis.CSRAdjacency(kept[indptr].astype(np.int64), indices[~loops].astype(np.int64))
        for parts in map(int, a.parts.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                out = os.path.join(folder, "parts")
                r = json.loads(subprocess.run([a.khop, "partition", dataset, "--parts", str(parts), "--out", out,
                                               "--json"],
                                              capture_output=True, check=True, text=True).stdout)
                ours = quality(indptr, indices, np.loadtxt(out, dtype=np.int64), parts)
            assert ours[0] == r["cut"], "khop says another cut"
            begin = time.perf_counter()
            _, membership = pymetis.part_graph(parts, adjacency)
            took = time.perf_counter() - begin
            theirs = quality(indptr, indices, np.array(membership), parts)
            share = [f"{100 * q[0] / len(indices):.1f} % | {q[1]:.3f}" for q in (ours, theirs)]
            print(f"| {pathlib.Path(dataset).stem} | {parts} | {share[0]} | {r['seconds']:.1f} | "
                  f"{share[1]} | {took:.1f} |", flush=True)


if __name__ == "__main__":
    main()
