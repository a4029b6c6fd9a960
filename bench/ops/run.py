#!/usr/bin/env python3
"""Measures package sparse beside torch, scipy and a plain C kernel: one operation, the same arrays, in interleaved
rounds.

    bench/peers/setup.sh && KHOP_TESTDATA=... python3 bench/ops/run.py

Writes docs/results/ops.json, with the quartiles of every contestant, a section of docs/results/ops.md, and the plot
ops-spmm.svg; --page measures nothing, and writes the latter two again of what ops.json has. cnr-2000 comes from
KHOP_TESTDATA; the block is the outermost layer of a batch ([15, 10, 5] x 1024) of a generated graph with the size and
the degrees of ogbn-products. Every result is compared with khop's before it is timed. torch runs in the environment
dgl of bench/peers; "tuned" is a malloc that keeps what it got, so that outputs lie on warm pages. Needs gcc, Go with
cgo, 4 GB of memory and 1 GB on disk.
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import section

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[1]
WIDTHS = (16, 32, 47, 64, 100, 128, 256, 602)
PEERS = ("C", "iSpLib", "torch tuned", "torch as installed", "scipy")
HEADING = "## SpMM by width"  # of ops.md


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


def table(results):
    """A line a graph and width: milliseconds of khop by number of threads, and how often they fit into the peers'."""
    threads = sorted({r["threads"] for r in results})
    peers = [p for p in PEERS if any(p in r["seconds"] for r in results)]
    lines = ["| graph | K | " + " | ".join(f"khop, {of(n)}" for n in threads) + " | " + " | ".join(peers) + " |",
             "|---|---|" + "---|" * (len(threads) + len(peers))]
    for graph, width in dict.fromkeys((r["graph"], r["width"]) for r in results):
        found = {r["threads"]: r["seconds"] for r in results if (r["graph"], r["width"]) == (graph, width)}
        cells = [quartiles(found[n]["khop"]) if n in found else "" for n in threads]
        cells += [", ".join(f"{found[n][p][1] / found[n]['khop'][1]:.2f}" for n in threads if p in found.get(n, {}))
                  for p in peers]
        lines.append(f"| {graph} | {width} | " + " | ".join(cells) + " |")
    lines += ["", "Geometric means, and the least:", ""]
    for n in threads:
        ratios = {p: [r["seconds"][p][1] / r["seconds"]["khop"][1] for r in results
                      if r["threads"] == n and p in r["seconds"]] for p in peers}
        lines.append(f"- {of(n)}: " + "; ".join(f"{p} {geometric(r):.2f} ({min(r):.2f})"
                                               for p, r in ratios.items() if r) + ".")
    return "\n".join(lines)


def of(threads):
    return f"{threads} thread{'s' if threads > 1 else ''}"


def quartiles(seconds):
    low, middle, high = (1e3 * s for s in seconds)
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def left_out(record):
    n = record["left_out"]
    return f" {n} settings were left out, for want of time." if n else ""


def page(record):
    m = record["machine"]

    graphs = {name: record["graphs"].get(name, "sizes that were not measured") for name in ("cnr-2000", "block")}
    return section.wrapped(f"""`bench/ops/run.py`, {record['rounds']} rounds in turns at {record['commit']} on
        {m['processor']}, {m['cores']} cores; torch {record['torch']}. y = A x in float32, with a value an edge and
        32-bit indices. Columns of khop are ms, with quartiles; those of peers are how many times as long they take, by
        number of threads. C is a plain kernel (`plain.c`). khop and C write to memory that was written before; torch
        and SciPy make a new output, "tuned" on warm pages. SciPy has one thread. cnr-2000 is a web crawl with
        {graphs['cnr-2000']}. The block has {graphs['block']}: most rows are read once. [ops.json](ops.json) has all
        quartiles.{left_out(record)}""") + f"\n\n![ops-spmm.svg](ops-spmm.svg)\n\n{table(record['results'])}\n"


def write(args, record):
    """The section of the page, and its plot: times of tuned torch by those of khop."""
    section.put(args.out / "ops.md", HEADING, page(record))
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
