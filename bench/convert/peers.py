#!/usr/bin/env python3
"""Measures khop convert beside other tools, in turns.

    peers.py graph --edges 123718280 --nodes 2449029 --peer PYTHON   random edges: dgl.graph(...).formats("csc") in
    memory, GraphBolt's
                                                                     conversion of a folder, and `khop convert` to a
                                                                     dataset on disk
    peers.py text --lines 5000000                                    lines of two ids: numpy.loadtxt and khop's reader

PYTHON has dgl 2.1 and torch (bench/peers/setup.sh makes one); this program needs NumPy. Times are of the wall and of
the processor, memory is anonymous and shared memory at most, polled. Everything lies in --folder, and is removed at the
end.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]

DGL = """
import sys, time, numpy as np, torch, dgl
src, dst = (torch.from_numpy(np.load(f"{sys.argv[1]}/{name}.npy")) for name in ("src", "dst"))
begin, cpu = time.perf_counter(), time.process_time()
g = dgl.graph((src, dst), num_nodes=int(sys.argv[2])).formats("csc")
g.adj_tensors("csc")
print("took", time.perf_counter() - begin, time.process_time() - cpu)
"""

GRAPHBOLT = """
import sys, time, dgl.graphbolt as gb
begin, cpu = time.perf_counter(), time.process_time()
gb.OnDiskDataset(sys.argv[1])
print("took", time.perf_counter() - begin, time.process_time() - cpu)
"""

LOADTXT = """
import sys, time, numpy as np
begin, cpu = time.perf_counter(), time.process_time()
np.loadtxt(sys.argv[1], dtype=np.int64)
print("took", time.perf_counter() - begin, time.process_time() - cpu)
"""


def measure(command: list, **options) -> tuple[float, float, int, str]:
    """Runs a command. Returns seconds of the wall and of the processor, bytes of memory at most, and what it
    printed."""
    before = os.times()
    begin = time.perf_counter()
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, text=True, **options)
    peak, pause = 0, threading.Event()
    output: list[str] = []
    reader = threading.Thread(target=lambda: output.append(process.stdout.read()))
    reader.start()
    while process.poll() is None:
        try:
            lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            break
        peak = max(peak, sum(1024 * int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem"))))
        pause.wait(0.05)
    process.wait()
    reader.join()
    wall, after = time.perf_counter() - begin, os.times()
    if process.returncode != 0:
        sys.exit(f"{command[:3]} ended with status {process.returncode}")
    took = re.search(r"took ([\d.e-]+) ([\d.e-]+)", output[0])
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return (float(took[1]), float(took[2]), peak, output[0]) if took else (wall, cpu, peak, output[0])


def report(rounds: dict[str, list]) -> None:
    for name, list_ in rounds.items():
        wall, cpu, peak = ([r[i] for r in list_] for i in range(3))
        print(f"{name}: {statistics.median(wall):.2f} s ({min(wall):.2f} to {max(wall):.2f}), "
              f"{statistics.median(cpu):.2f} s of the processor, "
              f"{max(peak) / 1e9:.2f} GB")
    khop = [r[0] for r in rounds["khop"]]
    for name in rounds:
        if name != "khop":
            ratios = sorted(r[0] / k for r, k in zip(rounds[name], khop))
            print(f"{name} by khop, in the same round: {statistics.median(ratios):.2f} ({ratios[0]:.2f} to "
                  f"{ratios[-1]:.2f})")


def graph(options, folder: pathlib.Path) -> None:
    r = np.random.default_rng(1)
    ends = np.lib.format.open_memmap(folder / "edge_index.npy", "w+", np.int64, (2, options.edges))
    for at in range(0, options.edges, 1 << 22):
        part = r.random((2, min(1 << 22, options.edges - at)))
        ends[:, at:at + part.shape[1]] = (part * part * options.nodes).astype(np.int64)  # low ids have many edges
    ends.flush()
    for name, row in ("src", 0), ("dst", 1):
        np.save(folder / f"{name}.npy", ends[row])
    del ends
    bolt = folder / "bolt"
    khop = options.khop or build(folder)
    rounds: dict[str, list] = {"khop": [], "dgl": [], "graphbolt": []}
    for _ in range(options.rounds):
        rounds["khop"].append(measure([khop, "convert", folder / "edge_index.npy", folder / "x.khop", "--max-memory",
                                       options.memory, "--json"],
                                      stderr=subprocess.DEVNULL))
        shutil.rmtree(folder / "x.khop")
        if not options.peer:
            continue
        rounds["dgl"].append(measure([options.peer, "-c", DGL, folder, options.nodes]))
        shutil.rmtree(bolt, ignore_errors=True)
        (bolt / "edges").mkdir(parents=True)
        (bolt / "edges" / "e.npy").symlink_to(folder / "edge_index.npy")
        (bolt / "metadata.yaml").write_text(f"dataset_name: x\ngraph:\n  nodes: [{{num: {options.nodes}}}]\n"
                                            "  edges: [{format: numpy, path: edges/e.npy}]\nfeature_data: []\ntasks: "
                                            "[]\n")
        rounds["graphbolt"].append(measure([options.peer, "-c", GRAPHBOLT, bolt]))
    report({name: list_ for name, list_ in rounds.items() if list_})


def text(options, folder: pathlib.Path) -> None:
    path, r = folder / "edges.txt", np.random.default_rng(1)
    with open(path, "w") as f:
        for at in range(0, options.lines, 1 << 18):
            part = r.integers(0, options.nodes, (min(1 << 18, options.lines - at), 2))
            f.write("".join(f"{a}\t{b}\n" for a, b in part.tolist()))
    size, test = path.stat().st_size, folder / "edgelist.test"
    subprocess.run(["go", "test", "-c", "-o", test, "./formats/internal/foreign/edgelist"], cwd=ROOT, check=True)
    rounds: dict[str, list] = {"khop": [], "numpy.loadtxt": []}
    for _ in range(options.rounds):
        out = measure([test, "-test.run", "xxx", "-test.bench", "ReadFile", "-test.benchtime", "5x"],
                      env=os.environ | {"KHOP_BENCH_TEXT": str(path)})[3]
        rate, cpu = (float(re.search(rf"([\d.]+) {unit}", out)[1]) for unit in ("MB/s", "MB/cpu-s"))
        rounds["khop"].append((size / rate / 1e6, size / cpu / 1e6, 0))
        rounds["numpy.loadtxt"].append(measure([sys.executable, "-c", LOADTXT, path]))
    report(rounds)
    ours, theirs = ([size / 1e6 / r[1] for r in rounds[name]] for name in rounds)
    ratios = sorted(a / b for a, b in zip(ours, theirs))
    print(f"{size / 1e6:.0f} MB; MB by second of the processor: khop {statistics.median(ours):.0f} ({min(ours):.0f} "
          f"to {max(ours):.0f}), "
          f"numpy.loadtxt {statistics.median(theirs):.0f} ({min(theirs):.0f} to {max(theirs):.0f}); "
          f"{statistics.median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})")


def build(folder: pathlib.Path) -> pathlib.Path:
    subprocess.run(["go", "build", "-o", folder / "khop", "./cmd/khop"], cwd=ROOT, check=True)
    return folder / "khop"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["graph", "text"])
    parser.add_argument("--edges", type=int, default=12_371_828)
    parser.add_argument("--nodes", type=int, default=2_449_029)
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="1.4GB")
    parser.add_argument("--peer", help="an interpreter with dgl and torch; without it khop runs alone")
    parser.add_argument("--khop", help="khop's program; built if not given")
    parser.add_argument("--folder", default="/tmp/khop-bench-convert", type=pathlib.Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    try:
        globals()[options.part](options, options.folder)
    finally:
        shutil.rmtree(options.folder)


if __name__ == "__main__":
    main()
