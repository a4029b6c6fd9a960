#!/usr/bin/env python3
"""Measures what tuning and keeping transposes gain: tuned kernels beside untuned ones by width, and a gradient whose
transpose is kept beside one that builds it.

    go build -o dist/khop ./cmd/khop && KHOP_TESTDATA=... python3 bench/ops/tuned.py --out docs/results/ops.md

The graph of the first part is cnr-2000 (khop tune, sums over its in-edges); the plot goes beside the page whose
section is written, as SVG. The second part is the benchmark Backward of package sparse. Takes 3 minutes and 2 GB.
Needs NumPy.
"""
import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np

import given
import where

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import section

REPO = pathlib.Path(__file__).resolve().parents[2]


def tune(args, folder):
    np.savez(folder / "g.npz", edges=given.edges_of_cnr_2000())
    subprocess.run([args.khop, "convert", folder / "g.npz", folder / "g.khop"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    plot = ["--plot", args.out.with_name(f"{args.out.stem}-tuned.svg")] if args.out else []
    return json.loads(subprocess.run([args.khop, "tune", folder / "g.khop", "--widths", args.widths, "--rounds",
                                      str(args.rounds), "--workers",
                                      str(args.threads), "--file", folder / "tune.json", "--json", *plot], check=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout)


def backward(args):
    """Milliseconds of each run: {"kept": [...], "rebuilt": [...]}."""
    out = subprocess.run(["go", "test", "./sparse", "-run", "-", "-bench", "Backward", "-count", str(args.rounds)],
                         cwd=REPO, check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    runs = {}
    for name, ns in re.findall(r"^BenchmarkBackward/(\w+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op", out, re.M):
        runs.setdefault(name, []).append(float(ns) / 1e6)
    return runs


def spread(ms):
    low, middle, high = statistics.quantiles(ms, n=4)
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--khop", default="dist/khop")
    parser.add_argument("--widths", default="16..512")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=pathlib.Path, help="the page to write")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = tune(args, pathlib.Path(folder))
    runs = backward(args)
    gains = [t["default_ns"] / t["best_ns"] for t in found["tuned"]]
    mean = math.exp(statistics.mean(map(math.log, gains)))
    plot = f" ![{args.out.stem}-tuned.svg]({args.out.stem}-tuned.svg)" if args.out else ""
    text = section.wrapped(f"""`bench/ops/tuned.py` {where.here()}. `khop tune` on cnr-2000 (325,557 nodes, 3,216,152
        edges), {args.threads} threads, kernel {found['kernel']}, {args.rounds} rounds in turns, makes a product
        {mean:.2f} times as fast in the geometric mean, {min(gains):.2f} to {max(gains):.2f} times.""") + f"""

| width | without values: untuned to tuned, ms | speed-up | with values | speed-up |
|---|---|---|---|---|
"""
    for width in dict.fromkeys(t["width"] for t in found["tuned"]):
        of = sorted(((t["weighted"], t, gain) for t, gain in zip(found["tuned"], gains) if t["width"] == width),
                    key=lambda cell: cell[0])
        cells = [f"{t['default_ns'] / 1e6:.1f} to {t['best_ns'] / 1e6:.1f} | {gain:.2f}" for _, t, gain in of]
        text += f"| {width} | {' | '.join(cells)} |\n"
    times = statistics.median(runs["rebuilt"]) / statistics.median(runs["kept"])
    text += "\n" + section.wrapped(f"""The gradient of a mean over 50,000 rows of 10 edges, 64 columns, one thread,
        {args.rounds} runs: {spread(runs['kept'])} ms with a kept transpose, {spread(runs['rebuilt'])} ms with one built
        anew: {times:.2f} times as long.{plot}""") + "\n"
    if args.out:
        section.put(args.out, "## Tuned kernels, and transposes that are kept", text)
    print(text)


main()
