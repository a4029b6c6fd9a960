#!/usr/bin/env python3
"""Measures package sparse beside torch, scipy and a plain C kernel: one operation, the same arrays, in interleaved
rounds.

    bench/peers/setup.sh && KHOP_TESTDATA=... python3 bench/ops/run.py

Writes docs/results/ops.json, with the quartiles of every contestant, the tables of docs/results/ops.md, and the plot
ops-spmm.svg;
--page measures nothing, and writes the latter two again of what ops.json has. cnr-2000 comes from KHOP_TESTDATA; the
block is the outermost layer of a batch ([15, 10, 5] x 1024) of a generated graph with the size and the degrees of
ogbn-products. Every result is compared with khop's before it is timed. torch runs in the environment dgl of
bench/peers; "tuned" is a malloc that keeps what it got, so that outputs lie on warm pages. Needs gcc, Go with cgo, 4 GB
of memory and 1 GB on disk.
"""
import argparse
import json
import math
import os
import pathlib
import platform
import subprocess
import sys
import time

import draw
import given
import where

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[1]
WIDTHS = (16, 32, 47, 64, 100, 128, 256, 602)
PEERS = ("C", "iSpLib", "torch tuned", "torch as installed", "scipy")
BY_HAND = "\n## What the figures say"  # from here on ops.md is not ours


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(os.environ.get("KHOP_BENCH_DIR", REPO / ".bench"))
    parser.add_argument("--dir", type=pathlib.Path, default=default,
                        help="environments and data (default $KHOP_BENCH_DIR)")
    parser.add_argument("--dataset", type=pathlib.Path, help="the graph of the block; default: generated in --dir")
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=9,
                        help="leave out what does not begin within so long; building counts not")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--isplib", help="iSpLib's libmyfusedmm_shared.so, which its configure builds, for as many "
                                         "threads as the machine has cores; without it it is left out")
    parser.add_argument("--command", default="", help="what runs before each measurement, such as \"nice -n -5\"")
    parser.add_argument("--out", type=pathlib.Path, default=REPO / "docs" / "results")
    parser.add_argument("--page", action="store_true", help="measure nothing: page and plot of ops.json")
    args = parser.parse_args()
    args.dir = args.dir.absolute()
    return args


def call(command, **options):
    print(time.strftime("%H:%M:%S"), *command, file=sys.stderr, flush=True)
    return subprocess.run([str(c) for c in command], check=True, cwd=REPO, text=True, **options)


def prepare(args):
    """Builds both libraries and the block, and returns the graphs."""
    work = args.dir / "ops"
    work.mkdir(parents=True, exist_ok=True)
    call(["gcc", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", HERE / "plain.c", "-o", work / "libplain.so"])
    call(["go", "build", "-C", "bench", "-buildmode=c-shared", "-o", work / "libkhop.so", "./ops/lib"])
    dataset = args.dataset or args.dir / "topology.khop"
    if not dataset.exists():
        call(["go", "run", "./cmd/khop", "generate", "products", dataset, "--features", "-1"])
    lines = call(["go", "run", "-C", "bench", "./ops/blocks", dataset, work],
                 stdout=subprocess.PIPE).stdout.splitlines()
    cols = int(lines[0].split()[2])
    return work, [{"name": "cnr-2000", "path": str(given.cnr_2000())},
                  {"name": "block", "path": str(work / "0"), "cols": cols}]


def geometric(values):
    product = 1.0
    for v in values:
        product *= v
    return product ** (1 / len(values)) if values else float("nan")


def limits(r):
    """Bytes that an SpMM moves with no reuse of rows, and at least: values of 4 bytes, indices of 4."""
    rest = 8 * r["edges"] + 4 * r["rows"]
    return 4 * r["width"] * (r["edges"] + r["rows"]) + rest, 4 * r["width"] * (r["distinct"] + r["rows"]) + rest


def rows_alone(r, mine):
    """What khop would take if it did nothing but read rows, and the share of its time."""
    ms = 1e3 * r.get("rows_seconds", 0)
    return f"{ms:.1f} ({100 * ms / mine:.0f} %)" if ms else ""


def tables(results):
    lines = []
    for threads in sorted({r["threads"] for r in results}):
        peers = [p for p in PEERS if any(p in r["seconds"] for r in results if r["threads"] == threads)]
        lines += ["", f"## {threads} thread{'s' if threads > 1 else ''}", "",
                  "| graph | K | khop ms (quartiles) | " + " | ".join(peers)
                  + " | rows alone | no reuse | compulsory | read |",
                  "|---|---|---|" + "---|" * (len(peers) + 4)]
        for r in results:
            if r["threads"] != threads:
                continue
            low, mine, high = (1e3 * s for s in r["seconds"]["khop"])
            none, least = limits(r)
            cells = []
            for p in peers:
                if p in r["seconds"]:
                    theirs = 1e3 * r["seconds"][p][1]
                    cells.append(f"{theirs:.1f} ({theirs / mine:.2f}x)")
                else:
                    cells.append("")
            lines.append(f"| {r['graph']} | {r['width']} | {mine:.1f} ({low:.1f} to {high:.1f}) | " + " | ".join(cells)
                         +
                         f" | {rows_alone(r, mine)} | {none / mine / 1e6:.1f} | {least / mine / 1e6:.1f} | "
                         f"{r['read_bytes_s'] / 1e9:.1f} |")
        lines += ["", "Geometric means of peer / khop: " + "; ".join(
            f"{p} {geometric(ratios):.2f}x (least {min(ratios):.2f}x)" for p in peers
            for ratios in [[r["seconds"][p][1] / r["seconds"]["khop"][1] for r in results
                            if r["threads"] == threads and p in r["seconds"]]]) + "."]
    return "\n".join(lines) + "\n"


def left_out(record):
    n = record["left_out"]
    return f" {n} settings were left out, for want of time." if n else ""


def page(record):
    m = record["machine"]

    def of(graph):
        return record["graphs"].get(graph, "sizes that were not measured")
    return f"""# Sparse operations: measured

Written by `bench/ops/run.py`, {record['rounds']} rounds, at commit {record['commit']}, on {m['processor']}, \
{m['cores']} cores,
{m['system']}; torch {record['torch']}. Times are medians in ms of y = A x in float32, with a value an edge and \
indices of 32 bits;
in parentheses how often khop fits into the peer's time. khop and C write to memory that was written before; torch \
and scipy make a new
output, "tuned" on warm pages. scipy has one thread. "Rows alone" is what a loop in C takes that reads the row of \
each edge, prefetched,
adds its elements up and writes nothing, and its share of khop's time. The last columns are GB/s: bytes with no reuse \
of rows, and the bytes
that must be moved at least, each over khop's time; and how fast as many threads read memory in order.{left_out(record)}

cnr-2000 is a web crawl with {of('cnr-2000')}. The block has {of('block')}: mostly
rows that are read once.

![ops-spmm.svg](ops-spmm.svg)
{tables(record['results'])}"""


def write(args, record):
    """The page down to its second part, and its plot: times of tuned torch by those of khop."""
    md = args.out / "ops.md"
    by_hand = md.read_text().partition(BY_HAND) if md.exists() else ("", "", "")
    md.write_text(page(record) + by_hand[1] + by_hand[2])
    curves = {}
    for r in record["results"]:
        if "torch tuned" in r["seconds"]:
            name = f"{r['graph']}, {r['threads']} thread{'s' if r['threads'] > 1 else ''}"
            ratio = r["seconds"]["torch tuned"][1] / r["seconds"]["khop"][1]
            curves.setdefault(name, {})[math.log2(r["width"])] = ratio
    widths = {r["width"] for r in record["results"]}
    if len(widths) > 1:
        draw.svg(args.out / "ops-spmm.svg", "SpMM: speed over torch.sparse.mm with its allocator tuned", "columns",
                 "times as fast", curves,
                 draw.logarithms(widths))


def main():
    args = parse()
    if args.page:
        return write(args, json.loads((args.out / "ops.json").read_text()))
    work, graphs = prepare(args)
    python = args.dir / "dgl" / "bin" / "python"
    results, left, end = [], 0, time.monotonic() + 60 * args.minutes
    for width in map(int, args.widths.split(",")):
        for graph in graphs:
            for threads in map(int, args.threads.split(",")):
                if time.monotonic() > end:
                    left += 1
                    continue
                settings = {"folder": str(work), "graphs": [graph], "widths": [width], "threads": threads,
                            "rounds": args.rounds,
                            "only": args.peers.split(","), "isplib": args.isplib}
                env = {**os.environ, **given.TUNED, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
                done = subprocess.run(args.command.split() + [str(python), str(HERE / "contest.py"), "measure"],
                                      check=True, env=env,
                                      input=json.dumps(settings), stdout=subprocess.PIPE, text=True)
                results += json.loads(done.stdout)
    torch = call([python, "-c", "import torch; print(torch.__version__)"], stdout=subprocess.PIPE).stdout.strip()
    record = {"left_out": left, "commit": where.commit(), "torch": torch, "rounds": args.rounds, "results": results,
              "graphs": {r["graph"]: f"{r['rows']:,} rows, {r['distinct']:,} distinct columns and {r['edges']:,} edges"
                         for r in results},
              "machine": {"processor": where.processor(), "cores": os.cpu_count(), "system": platform.platform()}}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "ops.json").write_text(json.dumps(record, indent=1) + "\n")
    write(args, record)


main()
