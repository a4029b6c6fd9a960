#!/usr/bin/env python3
"""Measures how well khop train chooses the way to compute a layer: over graphs, widths and models, the way that is
predicted to be the fastest beside every other, measured.

    go build -o dist/khop ./cmd/khop && python3 bench/ops/compose.py --khop dist/khop

A setting is a generated graph (6), widths of features and hidden layers (6), a model (gcn, sage, gat), and the whole
graph or a batch: 216 settings of two layers each, of which --settings are drawn, always the same. Prints a line of JSON
a layer with --json, else a table and how many choices are within 5 % of the best, and writes it to --out. A setting is
measured --repeat times, in rounds over all settings, and each way counts with its least time, for the machine may be
busy. --minutes ends the run after the round in hand.
"""
import argparse
import itertools
import json
import math
import pathlib
import random
import subprocess
import tempfile
import time

import where

GRAPHS = [(2000, 20000), (2000, 200000), (10000, 50000), (10000, 500000), (30000, 90000), (30000, 600000)]  # nodes, edges
WIDTHS = [(16, 16), (16, 128), (64, 16), (64, 64), (128, 16), (128, 128)]  # features, hidden
BATCH = ["--fanouts", "10,10", "--batch-size", "1024"]


def explain(args, dataset, model, hidden, batch, ways):
    """Adds the ways of each layer to {layer: {product: least seconds measured, least predicted, usual}}."""
    width = max(hidden // 4, 1) if model == "gat" else hidden  # of each of four heads
    out = subprocess.run([args.khop, "train", dataset, "--model", model, "--hidden", str(width), "--heads", "4", "--explain", "--json",
                          "--workers", str(args.threads)] + BATCH * batch, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         text=True).stdout
    for w in json.loads(out)["compositions"]:
        way = ways.setdefault(w["layer"], {}).setdefault(w["product"], {"product": w["product"], "usual": w["usual"]})
        for to, of in (("measured", "measured_seconds"), ("predicted", "predicted_seconds")):
            way[to] = min(way.get(to, math.inf), w[of])


def judged(layers):
    """Of each layer: how much longer than the best the choice, the usual way and the worst take."""
    for layer, ways in sorted(layers.items()):
        ways = list(ways.values())
        best = min(w["measured"] for w in ways)
        choice = min(ways, key=lambda w: w["predicted"])
        usual = next(w for w in ways if w["usual"])
        yield {"layer": layer, "choice": choice["product"], "choice_to_best": choice["measured"] / best,
               "usual_to_best": usual["measured"] / best, "worst_to_best": max(w["measured"] for w in ways) / best}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--khop", default="dist/khop")
    parser.add_argument("--models", default="gcn,sage,gat")
    parser.add_argument("--settings", type=int, default=72)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=9)
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
                    subprocess.run([args.khop, "generate", "sbm", dataset, "--nodes", str(nodes), "--edges", str(edges), "--features",
                                    str(features), "--classes", "16", "--seed", "1"], check=True, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
                explain(args, dataset, model, hidden, batch, found[s])
    results = [{"model": model, "batch": batch, "nodes": nodes, "edges": edges, "features": features, "hidden": hidden, **layer}
               for ((features, hidden), (nodes, edges), model, batch), layers in found.items() for layer in judged(layers)]
    if args.json:
        return print("\n".join(map(json.dumps, results)))
    text = page(args, results)
    if args.out:
        args.out.write_text(text)
    print(text)


def page(args, results):
    lines = [f"""# Ways to compute a layer: the choice beside all others

Written by `bench/ops/compose.py` {where.here()}: {len(results)} layers of {len({key(r) for r in results})} settings, up to {args.repeat}
measurements each, {args.threads} thread(s). The choice is the way that `khop train --fastest` takes; batches have 1,024 seeds and
fan-outs 10, 10; gat has four heads, which share the hidden width.
"""]
    lines += ["| of | layers | within 5 % of the best | usual way / best | worst / best (greatest) |", "|---|---|---|---|---|"]
    groups = [("all", results)] + [(m + (", batches" if b else ", whole graphs"), [r for r in results if (r["model"], r["batch"]) == (m, b)])
                                   for m in args.models.split(",") for b in (False, True)]
    for name, group in groups:
        if group:
            good = sum(r["choice_to_best"] <= 1.05 for r in group)
            usual, worst = (math.exp(sum(math.log(r[k]) for r in group) / len(group)) for k in ("usual_to_best", "worst_to_best"))
            lines.append(f"| {name} | {len(group)} | {good} ({100 * good / len(group):.0f} %) | {usual:.2f} | {worst:.2f} "
                         f"({max(r['worst_to_best'] for r in group):.2f}) |")
    lines += ["", "| model | nodes | edges | features, hidden | layer | choice | choice / best | usual / best | worst / best |",
              "|---|---|---|---|---|---|---|---|---|"]
    for r in results:
        lines.append(f"| {r['model']}{', batch' * r['batch']} | {r['nodes']:,} | {r['edges']:,} | {r['features']}, {r['hidden']} | {r['layer']} | "
                     f"`{r['choice']}` | {r['choice_to_best']:.2f} | {r['usual_to_best']:.2f} | {r['worst_to_best']:.2f} |")
    return "\n".join(lines) + "\n"


def key(r):
    return r["model"], r["batch"], r["nodes"], r["edges"], r["features"], r["hidden"]


main()
