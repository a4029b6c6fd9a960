#!/usr/bin/env python3
"""What narrow rows cost in accuracy: GCN and GraphSAGE on real graphs, with features of each type, over seeds.

    bench/narrow/accuracy.py DATA [--khop khop] [--json FILE]

DATA is a folder with the graphs that GRAPHS names. Each is converted once for each type, from the same source and with
the same split, and trained on by `khop train` with each seed. The table has the mean accuracy on the test split, and
how many points a narrow type is off; a graph beyond the bound is named. Only the standard library is needed.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

# Name, path within DATA, and whether it is split here (60 % to learn from) because it brings no split.
GRAPHS = [
    ("Cora", "planetoid-cora", False),
    ("CiteSeer", "planetoid-citeseer", False),
    ("Squirrel, filtered", "heterophilous/squirrel_filtered.npz", False),
    ("Tolokers", "heterophilous/tolokers.npz", False),
    ("Facebook pages", "musae-facebook-page", True),
]
MODELS = ("gcn", "sage")
BOUNDS = {"int8": 0.2, "int4": 0.5}  # points


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--khop", default="khop", help="the program")
    parser.add_argument("--types", default="float32,float16,int8,int4", help="by commas")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--json", type=pathlib.Path, help="write every measurement here")
    args = parser.parse_args()
    args.types = args.types.split(",")
    print("| graph | model | " + " | ".join(args.types) + " | off by, points |")
    print("|---|---|" + "---:|" * len(args.types) + "---|")
    runs, beyond = [], []
    with tempfile.TemporaryDirectory() as folder:
        for graph in GRAPHS:
            datasets = {t: convert(args, graph, t, pathlib.Path(folder) / f"{graph[0]}.{t}") for t in args.types}
            for model in MODELS:
                mean, spread = {}, {}
                for kind, dataset in datasets.items():
                    got = [train(args, dataset, model, seed) for seed in range(args.seeds)]
                    mean[kind], spread[kind] = statistics.fmean(got), statistics.stdev(got)
                    runs.append({"graph": graph[0], "model": model, "type": kind, "test_accuracy": got})
                off = {kind: 100 * (mean[kind] - mean[args.types[0]]) for kind in args.types[1:]}
                beyond += [f"{graph[0]}, {model}, {kind}: {off[kind]:+.2f} points" for kind, bound in BOUNDS.items()
                           if abs(off.get(kind, 0)) > bound]
                print(f"| {graph[0]} | {model} | "
                      + " | ".join(f"{mean[kind]:.4f} ± {spread[kind]:.4f}" for kind in args.types)
                      + " | " + ", ".join(f"{kind} {points:+.2f}" for kind, points in off.items()) + " |", flush=True)
    print("\nbeyond the bounds: " + ("; ".join(beyond) or "none"))
    if args.json:
        args.json.write_text(json.dumps(runs, indent=1) + "\n")


def convert(args, graph, kind, to):
    _, source, deal = graph
    narrow = [] if kind == "float32" else ["--feature-dtype", kind]
    call(args.khop, "convert", args.data / source, to, *narrow)
    if deal:
        call(args.khop, "split", to, "--train", "0.6", "--val", "0.2", "--test", "rest", "--seed", "0")
    return to


def train(args, dataset, model, seed):
    return json.loads(call(args.khop, "train", dataset, "--model", model, "--epochs", args.epochs, "--seed", seed,
                           "--json"))["test_accuracy"]


def call(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}: {done.stderr}")
    return done.stdout


main()
