#!/usr/bin/env python3
"""Compares training with sampled gradients (khop train --backward-budget) with training with exact ones: time, gradient
and accuracy.

    go build -o dist/khop ./cmd/khop && python3 bench/ops/backward.py --out docs/results/ops-backward.md

The graph is a stochastic block model whose nodes have a mean degree of 800: half of the edges stay within a class on
purpose, and a tenth of the labels, which the classes are, is replaced by drawn ones, so that no model is right
everywhere. Models are trained with --seeds seeds, exact and with the budget in turns, on the whole graph and on
batches; the first two settings come first, with all seeds, and then the others take turns. The bound is what Amdahl's law
allows: as if the products that are sampled took no time. --minutes ends the run: seeds that it did not come to are left
out, and the table says how many there are. Writes a table in Markdown, or prints it. Needs NumPy.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

import where

SETTINGS = [  # model, layers, hidden, more
    ("gcn", 3, 64, []), ("sage", 3, 64, []),
    ("sage", 2, 64, ["--fanouts", "25,25", "--batch-size", "512"]),
    ("gcn", 2, 64, ["--fanouts", "100,100", "--batch-size", "512"]), ("gcn", 3, 256, []),
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
    np.savez(folder / "g.npz", node_features=x, node_labels=labels, edges=edges, train_masks=masks[:1], val_masks=masks[1:2],
             test_masks=masks[2:])
    subprocess.run([args.khop, "convert", folder / "g.npz", folder / "g.khop", "--symmetrise"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return folder / "g.khop"


def train(args, dataset, setting, seed, budget):
    model, layers, hidden, more = setting
    out = subprocess.run([args.khop, "train", dataset, "--model", model, "--layers", str(layers), "--hidden", str(hidden), "--epochs",
                          str(args.epochs), "--seed", str(seed), "--workers", str(args.threads), "--backward-budget", str(budget), "--dropout", "0.2", "--rate", "0.02",
                          "--json"]
                         + more, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(out)


def spread(values):
    return f"{statistics.mean(values):.4f} ({statistics.stdev(values) if len(values) > 1 else 0:.4f})"


def row(args, setting, runs):
    """One line: medians of times, means of accuracies."""
    model, layers, hidden, more = setting
    exact, few = [r[0] for r in runs], [r[1] for r in runs]
    ratios = [e["seconds"] / f["seconds"] for e, f in runs]
    of = [f["approximation"] for f in few]
    share = statistics.median(a["share_of_training"] for a in of)
    bound = 1 / (1 - share * 0.8 * 0.9)  # a tenth of the steps is exact, and the last fifth of the epochs
    gain = statistics.median(ratios)
    low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    product = statistics.median(a["exact_seconds"] / a["sampled_seconds"] for a in of)
    error, kept = (statistics.median(a[k] for a in of) for k in ("gradient_error", "kept"))
    points = 100 * statistics.mean(f["test_accuracy"] - e["test_accuracy"] for e, f in runs)
    how = f"batches of {more[-1]}, fan-outs {more[1]}" if more else "whole graph"
    return (f"| {model}, {layers} layers of {hidden}, {how} | {len(runs)} | {product:.1f}x | {100 * share:.0f} % | {gain:.2f}x ({low:.2f} to "
            f"{high:.2f}) | {bound:.2f}x | {100 * gain / bound:.0f} % | {kept:.3f} | {error:.2f} | {spread([e['test_accuracy'] for e in exact])}"
            f" | {spread([f['test_accuracy'] for f in few])} | {points:+.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--khop", default="dist/khop")
    parser.add_argument("--nodes", type=int, default=4000)
    parser.add_argument("--degree", type=int, default=800)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.7)
    parser.add_argument("--settings", default=",".join(map(str, range(len(SETTINGS)))))
    parser.add_argument("--out", type=pathlib.Path, help="the page to write")
    args = parser.parse_args()
    end = time.monotonic() + 60 * args.minutes
    chosen = [SETTINGS[int(i)] for i in args.settings.split(",")]
    runs = {i: [] for i in range(len(chosen))}
    with tempfile.TemporaryDirectory() as folder:
        dataset = generate(args, pathlib.Path(folder))
        turns = [(seed, i) for part in (range(2), range(2, len(chosen))) for seed in range(args.seeds) for i in part if i < len(chosen)]
        for seed, i in turns:
            if time.monotonic() < end:
                runs[i].append((train(args, dataset, chosen[i], seed, 0), train(args, dataset, chosen[i], seed, args.budget)))
    text = f"""# Sampled gradients beside exact ones

Written by `bench/ops/backward.py` {where.here()}: a stochastic block model of
{args.nodes:,} nodes with a mean degree of {args.degree}, {args.features} features and 8 classes, a tenth of the labels
drawn, {args.epochs} epochs, dropout 0.2, rate 0.02, budget {args.budget}, {args.threads} thread(s). Times are medians over the
seeds, exact and sampled in turns; accuracies on the test split are means, with standard deviations, and "points" is
their difference in hundredths. "Product": how often the sampled backward product fits into the exact one's time, the
choice of rows among the former for batches; "share": of the exact products in the time of a step; "bound": what Amdahl's
law gives where they take no time.

| model | seeds | product | share | epoch (quartiles) | bound | of the bound | kept | gradient error | accuracy, exact | accuracy, sampled | points |
|---|---|---|---|---|---|---|---|---|---|---|---|
""" + "\n".join(row(args, s, runs[i]) for i, s in enumerate(chosen) if runs[i]) + "\n"
    if args.out:
        args.out.write_text(text)
    print(text)


main()
