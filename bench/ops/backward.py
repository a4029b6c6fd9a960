#!/usr/bin/env python3
"""Compares training with sampled gradients (khop train --backward-budget) with training with exact ones: time, gradient
and accuracy.

    go build -o dist/khop ./cmd/khop
    python3 bench/ops/backward.py --settings 0,1 --out docs/results/ops.md    # whole graphs
    python3 bench/ops/backward.py --settings 2,3 --out docs/results/ops.md    # batches

The graph is a stochastic block model whose nodes have a mean degree of 800: half of the edges stay within a class on
purpose, and a tenth of the labels, which the classes are, is replaced by drawn ones, so that no model is right
everywhere. Models are trained with --seeds seeds, exact and with the budget in turns. The bound is what Amdahl's law
allows: as if the products that are sampled took no time. --minutes ends the run: seeds that it did not come to are left
out, and the table says how many there are. Every setting that is measured takes its place in a file of JSON beside the
page, ops-backward.json for ops.md, and the section of the page has all of them. Needs NumPy.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import where

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import section

SETTINGS = [  # model, layers, hidden, epochs until accuracy hardly rises any more, other options
    ("gcn", 3, 64, 60, []), ("sage", 3, 64, 120, []),
    ("sage", 2, 64, 30, ["--fanouts", "25,25", "--batch-size", "512"]),
    ("gcn", 2, 64, 20, ["--fanouts", "100,100", "--batch-size", "512"]),
]


def generate(args, folder):
    """Writes the graph, and returns where."""
    rng = np.random.default_rng(1)
    classes, n, half = 8, args.nodes, args.nodes * args.degree // 2
    own = rng.integers(0, classes, n)
    edges = rng.integers(0, n, (half, 2))
    within = rng.random(half) < 0.5
    members = [np.flatnonzero(own == c) for c in range(classes)]
    for c in range(classes):
        at = np.flatnonzero(within & (own[edges[:, 0]] == c))
        edges[at, 1] = rng.choice(members[c], len(at))
    edges = edges[edges[:, 0] != edges[:, 1]]
    x = rng.standard_normal((n, args.features), np.float32)
    x[np.arange(n), own] += 1
    labels = np.where(rng.random(n) < 0.1, rng.integers(0, classes, n), own).astype(np.int64)
    masks = np.zeros((3, n), bool)
    for mask, part in zip(masks, np.split(rng.permutation(n), [n * 6 // 10, n * 8 // 10])):
        mask[part] = True
    np.savez(folder / "g.npz", node_features=x, node_labels=labels, edges=edges, train_masks=masks[:1],
             val_masks=masks[1:2],
             test_masks=masks[2:])
    subprocess.run([args.khop, "convert", folder / "g.npz", folder / "g.khop", "--symmetrise"], check=True,
                   stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return folder / "g.khop"


def train(args, dataset, setting, seed, budget):
    model, layers, hidden, epochs, more = setting
    options = {"model": model, "layers": layers, "hidden": hidden, "epochs": epochs, "seed": seed,
               "workers": args.threads,
               "backward-budget": budget, "dropout": 0.2, "rate": 0.02}
    flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    out = subprocess.run([args.khop, "train", dataset, *flags, *more, "--json"], check=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True).stdout
    return {name: value for name, value in json.loads(out).items() if name != "dataset"}


def spread(values):
    return f"{statistics.mean(values):.4f} ({statistics.stdev(values) if len(values) > 1 else 0:.4f})"


def row(measured):
    """One line: medians of times, means of accuracies."""
    model, layers, hidden, epochs, more = measured["setting"]
    runs = measured["runs"]
    exact, few = [r[0] for r in runs], [r[1] for r in runs]
    ratios = [e["seconds"] / f["seconds"] for e, f in runs]
    of = [f["approximation"] for f in few]
    share = statistics.median(a["share_of_training"] for a in of)
    bound = 1 / (1 - share * 0.8 * 0.9)  # a tenth of the steps is exact, and the last fifth of the epochs
    gain = statistics.median(ratios)
    low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    product = statistics.median(a["exact_seconds"] / a["sampled_seconds"] for a in of)
    error = statistics.median(a["gradient_error"] for a in of)
    points = [100 * (f["test_accuracy"] - e["test_accuracy"]) for e, f in runs]
    how = f"batches of {more[-1]}, fan-outs {more[1]}" if more else "whole graph"
    return (f"| {model}, {layers} layers of {hidden}, {epochs} epochs, {how} | {len(runs)} | {product:.1f}x | "
            f"{100 * share:.0f} % | {gain:.2f}x ({low:.2f} to "
            f"{high:.2f}) | {100 * gain / bound:.0f} % | {error:.2f} | "
            f"{spread([e['test_accuracy'] for e in exact])}"
            f" | {spread([f['test_accuracy'] for f in few])} | {statistics.mean(points):+.2f} ({min(points):+.1f} to "
            f"{max(points):+.1f}) | "
            f"{measured['commit']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--khop", default="dist/khop")
    parser.add_argument("--nodes", type=int, default=4000)
    parser.add_argument("--degree", type=int, default=800)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=8.5)
    parser.add_argument("--settings", default="0,1", help="which of those in the source")
    parser.add_argument("--out", type=pathlib.Path, help="the page to write")
    args = parser.parse_args()
    end = time.monotonic() + 60 * args.minutes
    chosen = [SETTINGS[int(i)] for i in args.settings.split(",")]
    runs = [[] for _ in chosen]
    with tempfile.TemporaryDirectory() as folder:
        dataset = generate(args, pathlib.Path(folder))
        for seed in range(args.seeds):
            for setting, of in zip(chosen, runs):
                if time.monotonic() < end:
                    of.append((train(args, dataset, setting, seed, 0),
                               train(args, dataset, setting, seed, args.budget)))
    kept = args.out.with_name(f"{args.out.stem}-backward.json") if args.out else None
    all_of = {m["of"]: m for m in json.loads(kept.read_text())} if kept and kept.exists() else {}
    for setting, of in zip(chosen, runs):
        if of:
            all_of[repr(setting)] = {"of": repr(setting), "setting": setting, "commit": where.commit(), "runs": of}
    order = [repr(s) for s in SETTINGS]
    measured = sorted(all_of.values(), key=lambda m: order.index(m["of"]))
    text = section.wrapped(f"""`khop train --backward-budget` beside exact gradients: `bench/ops/backward.py` on
        {where.machine()}, a stochastic block model of {args.nodes:,} nodes with a mean degree of {args.degree},
        {args.features} features and 8 classes, a tenth of the labels drawn; dropout 0.2, rate 0.02, budget
        {args.budget}, {args.threads} thread(s), exact and sampled in turns. Times are medians over seeds; accuracies on
        the test split are means, with standard deviations, and "points" is their difference in hundredths, in the mean
        and of single seeds. "Product": how many times as long the exact backward product takes; "share": of the exact
        products in a step; "bound": what Amdahl's law gives where they take no time.
        [ops-backward.json](ops-backward.json) has each seed.""") + """

| model | seeds | product | share | epoch (quartiles) | of the bound | gradient error | accuracy, exact | sampled \
| points | commit |
|---|---|---|---|---|---|---|---|---|---|---|
""" + "\n".join(map(row, measured)) + "\n"
    if args.out:
        kept.write_text(json.dumps(measured, indent=1) + "\n")
        section.put(args.out, "## Gradients that are sampled", text)
    print(text)


main()
