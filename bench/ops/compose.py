#!/usr/bin/env python3
"""Measures how well khop train chooses the way to compute a layer: over graphs, widths and models, the way that is
chosen beside every other, measured.

    go build -o dist/khop ./cmd/khop && python3 bench/ops/compose.py --khop dist/khop --out docs/results/ops.md

A setting is a generated graph (6), widths of features and hidden layers (6), a model (gcn, sage, gat), and the whole
graph or a batch: 216 settings of two layers each, of which --settings are drawn, always the same. A setting is measured
by --repeat processes, in rounds over all settings. The first one chooses (khop train --fastest does the same) and keeps
the choice in a tuning file of this run; then it measures, as the others do, all ways in turns. Two ways are compared by
the median of the ratios of measurements that followed each other, so a machine that is now fast and now slow does not
favour one of them. What the choice took is counted apart. Prints a line of JSON a layer with --json, else how
many choices are within 5 % of the best. --out replaces that section of a page, and writes all layers beside it, to
ops-compose.json for ops.md. --minutes ends the run after the process in hand.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import where

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import section

# nodes, edges
GRAPHS = [(2000, 20000), (2000, 200000), (10000, 50000), (10000, 500000), (30000, 90000), (30000, 600000)]
WIDTHS = [(16, 16), (16, 128), (64, 16), (64, 64), (128, 16), (128, 128)]  # features, hidden
BATCH = ["--fanouts", "10,10", "--batch-size", "1024"]


def explain(args, folder, dataset, model, hidden, batch, layers):
    """Adds what one process measures to {layer: {product: way}}; way has the rounds of each process."""
    width = max(hidden // 4, 1) if model == "gat" else hidden  # of each of four heads
    out = subprocess.run([args.khop, "train", dataset, "--model", model, "--hidden", str(width), "--heads", "4",
                          "--explain", "--json",
                          "--workers", str(args.threads)] + BATCH * batch, check=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL,
                         text=True, env=os.environ | {"XDG_CACHE_HOME": folder}).stdout
    for w in json.loads(out)["compositions"]:
        way = layers.setdefault(w["layer"], {}).setdefault(w["product"], {
            "usual": w["usual"], "chosen": w["fastest"], "predicted": w["predicted_seconds"],
            "choosing": w["choosing_seconds"],
            "inputs": w["inputs"], "outputs": w["outputs"], "rounds": []})
        way["rounds"].append(w["round_seconds"])


def ratios(one, other):
    """Of measurements that followed each other."""
    return [a / b for of in zip(one["rounds"], other["rounds"]) for a, b in zip(*of)]


def ratio(one, other):
    return statistics.median(ratios(one, other))


def judged(layers):
    """Of each layer: how much longer than the best the choice, the best prediction, the usual way and the worst
    take."""
    for layer, ways in sorted(layers.items()):
        best = min(ways, key=lambda w: max(ratio(ways[w], o) for o in ways.values()))
        choice = next(w for w in ways if ways[w]["chosen"])
        usual = next(w for w in ways if ways[w]["usual"])
        predicted = min(ways, key=lambda w: ways[w]["predicted"])
        to_best = {name: ratio(ways[w], ways[best]) for name, w in (("choice", choice), ("predicted", predicted),
                                                                    ("usual", usual))}
        second = min((w for w in ways if w != best), key=lambda w: ratio(ways[w], ways[best]))
        halves = ratios(ways[second], ways[best])
        noise = abs(statistics.median(halves[::2]) / statistics.median(halves[1::2]) - 1)
        step = statistics.median(t for r in ways[choice]["rounds"] for t in r)
        yield {"layer": layer, "inputs": ways[best]["inputs"], "outputs": ways[best]["outputs"], "choice": choice,
               "best": best,
               **{f"{name}_to_best": max(r, 1) for name, r in to_best.items()},
               "worst_to_best": max(ratio(w, ways[best]) for w in ways.values()), "noise": noise, "rounds": len(halves),
               "step_seconds": step, "choosing_steps": ways[choice]["choosing"] / step}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--khop", default="dist/khop")
    parser.add_argument("--models", default="gcn,sage,gat")
    parser.add_argument("--settings", type=int, default=72)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=7.5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help="the page to write")
    args = parser.parse_args()
    end = time.monotonic() + 60 * args.minutes
    settings = list(itertools.product(WIDTHS, GRAPHS, args.models.split(","), (False, True)))
    random.Random(1).shuffle(settings)
    del settings[args.settings:]
    found = {s: {} for s in settings}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.repeat):
            for s in settings:
                (features, hidden), (nodes, edges), model, batch = s
                if time.monotonic() > end:
                    break
                dataset = pathlib.Path(folder) / f"{nodes}-{edges}-{features}.khop"
                if not dataset.exists():
                    subprocess.run([args.khop, "generate", "sbm", dataset, "--nodes", str(nodes), "--edges",
                                    str(edges), "--features",
                                    str(features), "--classes", "16", "--seed", "1"], check=True,
                                   stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
                explain(args, folder, dataset, model, hidden, batch, found[s])
    results = [{"model": model, "batch": batch, "nodes": nodes, "edges": edges, "features": features, "hidden": hidden,
                **layer}
               for ((features, hidden), (nodes, edges), model, batch),
               layers in found.items() for layer in judged(layers)]
    if args.json:
        return print("\n".join(map(json.dumps, results)))
    text = page(args, results)
    if args.out:
        section.put(args.out, "## Ways to compute a layer", text)
        args.out.with_name(f"{args.out.stem}-compose.json").write_text(
            "[\n" + ",\n".join(map(json.dumps, results)) + "\n]\n")
    print(text)


def page(args, results):
    noise = sorted(r["noise"] for r in results)
    settings = {key(r) for r in results}
    missed = {key(r) for r in results if r["choice_to_best"] > 1.05}
    choosing = statistics.median(r["choosing_steps"] for r in results if r["choosing_steps"] > 0)
    rounds, good = sorted(r["rounds"] for r in results), len(settings) - len(missed)
    half, most = 100 * statistics.median(noise), 100 * noise[int(0.95 * len(noise))]
    lines = [section.wrapped(f"""`khop train --fastest` predicts what each way to compute a layer takes, of primitives
        measured at the layer's widths. Of the ways within 1.5 times the best prediction, the one that wins in turns is
        taken, once for each key. A choice takes as long as {choosing:.0f} steps of the layer in the median, and is kept
        with those of `khop tune`. `bench/ops/compose.py` {where.here()} compares the choice with all other ways:
        {len(results)} layers of {len(settings)} settings, {args.threads} thread(s), {rounds[0]} to {rounds[-1]} rounds
        in {args.repeat} processes a layer, batches of 1,024 seeds with fan-outs 10, 10. Ratios are medians over rounds;
        those of odd and even rounds differ by {half:.1f} % in the median over layers, by {most:.1f} % in 95 of 100.
        Both layers of {good} settings are within 5 % of the best. [ops-compose.json](ops-compose.json) has each
        layer."""), ""]
    lines += ["| of | layers | within 5 % of the best | best prediction alone | usual way | usual / best (greatest) | "
              "worst / best (greatest) |",
              "|---|---|---|---|---|---|---|"]
    groups = [("all", results)] + [(m + (", batches" if b else ", whole graphs"),
                                    [r for r in results if (r["model"], r["batch"]) == (m, b)])
                                   for m in args.models.split(",") for b in (False, True)]
    for name, group in groups:
        if group:
            good = [sum(r[f"{way}_to_best"] <= 1.05 for r in group) for way in ("choice", "predicted", "usual")]
            usual, worst = (f"{math.exp(sum(math.log(r[k]) for r in group) / len(group)):.2f} "
                            f"({max(r[k] for r in group):.2f})"
                            for k in ("usual_to_best", "worst_to_best"))
            share = [f"{n} ({100 * n / len(group):.0f} %)" for n in good]
            lines.append(f"| {name} | {len(group)} | {' | '.join(share)} | {usual} | {worst} |")
    return "\n".join(lines) + "\n"


def key(r):
    return r["model"], r["batch"], r["nodes"], r["edges"], r["features"], r["hidden"]


main()
