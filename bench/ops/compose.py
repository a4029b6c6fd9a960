#!/usr/bin/env python3
"""Measures how well khop train chooses the way to compute a layer: over graphs, widths and models, the way that is predicted to be the
fastest beside every other, measured.

    go build -o dist/khop ./cmd/khop && python3 bench/ops/compose.py --khop dist/khop

Generated graphs (8), widths of features and hidden layers (8), and the models gcn and sage give 128 settings of two layers each;
--settings takes the first so many. Prints a line of JSON a setting with --json, else a table and how many choices are within 5 % of the
best. A setting is measured --repeat times, and each way counts with its least time, for the machine may be busy. Whole graphs only:
--explain has no batches.
"""
import argparse
import itertools
import json
import math
import pathlib
import subprocess
import tempfile

GRAPHS = [  # nodes, edges
    (2000, 20000), (2000, 200000), (10000, 50000), (10000, 500000), (30000, 90000), (30000, 900000), (60000, 600000), (60000, 1800000),
]
WIDTHS = [(16, 16), (16, 128), (64, 16), (64, 64), (128, 16), (128, 128), (256, 32), (32, 256)]


def explain(khop, dataset, model, hidden, threads, repeat):
    """The ways of each layer: {(layer, product): (seconds measured, fastest predicted, usual)}."""
    ways = {}
    for _ in range(repeat):
        out = subprocess.run([khop, "train", dataset, "--model", model, "--hidden", str(hidden), "--explain", "--json", "--workers",
                              str(threads)], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        for w in json.loads(out)["compositions"]:
            key = w["layer"], w["product"]
            ways.setdefault(key, []).append((w["measured_seconds"], w["predicted_seconds"], w["usual"]))
    layers = {}
    for (layer, product), runs in ways.items():
        layers.setdefault(layer, []).append({
            "product": product, "measured": min(r[0] for r in runs), "predicted": min(r[1] for r in runs), "usual": runs[0][2]})
    return layers


def judged(layers):
    """Of each layer: how much longer than the best the choice, the usual way and the worst take."""
    for layer, ways in sorted(layers.items()):
        best = min(w["measured"] for w in ways)
        choice = min(ways, key=lambda w: w["predicted"])
        usual = next(w for w in ways if w["usual"])
        yield {"layer": layer, "choice": choice["product"], "choice_to_best": choice["measured"] / best,
               "usual_to_best": usual["measured"] / best, "worst_to_best": max(w["measured"] for w in ways) / best}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--khop", default="dist/khop")
    parser.add_argument("--models", default="gcn,sage")
    parser.add_argument("--settings", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = []
    settings = itertools.product(range(len(WIDTHS)), range(len(GRAPHS)), args.models.split(","))
    with tempfile.TemporaryDirectory() as folder:
        for w, g, model in itertools.islice(settings, args.settings):
            (features, hidden), (nodes, edges) = WIDTHS[w], GRAPHS[g]
            dataset = pathlib.Path(folder) / f"{g}-{features}.khop"
            if not dataset.exists():
                subprocess.run([args.khop, "generate", "sbm", dataset, "--nodes", str(nodes), "--edges", str(edges), "--features",
                                str(features), "--classes", "16", "--seed", "1"], check=True, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
            for layer in judged(explain(args.khop, dataset, model, hidden, args.threads, args.repeat)):
                r = {"model": model, "nodes": nodes, "edges": edges, "features": features, "hidden": hidden, **layer}
                found.append(r)
                if args.json:
                    print(json.dumps(r), flush=True)
    if args.json:
        return
    print("| model | nodes | edges | features, hidden | layer | choice | choice / best | usual / best | worst / best |")
    print("|---|---|---|---|---|---|---|---|---|")
    for r in found:
        print(f"| {r['model']} | {r['nodes']:,} | {r['edges']:,} | {r['features']}, {r['hidden']} | {r['layer']} | `{r['choice']}` | "
              f"{r['choice_to_best']:.2f} | {r['usual_to_best']:.2f} | {r['worst_to_best']:.2f} |")
    good = sum(r["choice_to_best"] <= 1.05 for r in found)
    mean = {k: math.exp(sum(math.log(r[k]) for r in found) / len(found)) for k in ("usual_to_best", "worst_to_best")}
    print(f"\n{good} of {len(found)} choices ({100 * good / len(found):.0f} %) are within 5 % of the best way. Geometric means: the usual way "
          f"takes {mean['usual_to_best']:.2f} of the best, the worst {mean['worst_to_best']:.2f}.")


main()
