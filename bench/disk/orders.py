#!/usr/bin/env python3
"""Says what columns on disk are asked for, by order of nodes, type of rows, and with packing or without: the counts of
`khop bench --residence disk`, which need no quiet machine.

    bench/disk/orders.py SOURCE FEATURES ORDER...

SOURCE is what `khop convert` reads, FEATURES an .npy file with rows of 100 float32. Each dataset is made in a temporary
folder ($TMPDIR), and removed.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

# Options of a type, bytes of a stored row, and those of them that are no padding.
KINDS = {"float32": ([], 400, 400), "float32, padded": (["--row-stride", "512"], 512, 400),
         "float16": (["--feature-dtype", "float16"], 200, 200), "int8": (["--feature-dtype", "int8"], 100, 100),
         "int4": (["--feature-dtype", "int4"], 64, 58)}


def call(*command):
    return subprocess.run([str(c) for c in command], check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout


def counts(args, dataset, row, own, more):
    """What a batch asks of the disk. Zeros that pad rows are not counted as useful."""
    nodes = json.loads(call(args.khop, "info", dataset, "--json"))["nodes"]
    cache = int(nodes * row * args.cache)
    got = json.loads(call(args.khop, "bench", dataset, "--frontier", "all", "--seeds", "all", "--shuffle",
                          "--residence", "disk", "--cache-bytes", cache, "--lookahead", 256, "--workers", 2,
                          "--batches", args.batches, "--warmup", args.warmup, "--no-memcpy", "--json",
                          *more))["on_disk"]
    of = lambda key: got[key] / got["batches"]
    return (f"{got['misses'] / got['rows']:.0%} | {of('requests') + of('writes'):,.0f} | {of('bytes') / 1e6:.1f} | "
            f"{of('written') / 1e6:.1f} | {own / row * got['useful'] / max(got['bytes'], 1):.0%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("features")
    parser.add_argument("orders", nargs="+")
    parser.add_argument("--khop", default="dist/khop")
    parser.add_argument("--cache", type=float, default=0.1, help="of the column")
    parser.add_argument("--batches", default="120")
    parser.add_argument("--warmup", default="80")
    args = parser.parse_args()
    print("| order | rows | packed | missed | requests | MB read | MB written | useful |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for order in args.orders:
        for kind, (options, row, own) in KINDS.items():
            with tempfile.TemporaryDirectory() as folder:
                dataset = pathlib.Path(folder) / "x.khop"
                call(args.khop, "convert", args.source, dataset, "--features", args.features, "--directed",
                     "--reorder", order, *options)
                for more in ([], ["--pack", "4GB"]):
                    print(f"| {order} | {kind} | {'yes' if more else 'no'} | "
                          f"{counts(args, dataset, row, own, more)} |", flush=True)


main()
