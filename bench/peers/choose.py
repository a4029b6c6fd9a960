#!/usr/bin/env python3
"""khop beside GraphBolt where edges are chosen by weight, time or LABOR: the same arrays, seeds, fan-outs, and one
thread each, in interleaved rounds.

    bench/peers/setup.sh && python3 bench/peers/choose.py

Prints a table of the time that a batch takes, in processor time and by the clock, as medians over the rounds with their
range. Called with --peer it is GraphBolt's side: its sampling functions, called one after another.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

REPO = pathlib.Path(__file__).resolve().parents[2]
SAMPLERS = "uniform", "weighted", "temporal", "temporal weighted", "labor"
BATCH, LAST = 1024, 1 << 20


def peer(folder, sampler, batches):
    import warnings
    warnings.filterwarnings("ignore")
    import dgl.graphbolt as gb
    import numpy as np
    import torch

    torch.set_num_threads(1)
    read = lambda name, dtype: torch.from_numpy(np.fromfile(os.path.join(folder, name), dtype))
    graph = gb.fused_csc_sampling_graph(read("indptr", np.int64), read("indices", np.int32))
    graph.edge_attributes = {"weight": read("weight", np.float32), "time": read("time", np.int64)}
    weight = "weight" if "weighted" in sampler else None
    timed = "temporal" in sampler
    wall = cpu = edges = nodes_reached = 0
    for batch in range(3 + batches):
        item = torch.arange(batch * BATCH, (batch + 1) * BATCH)
        nodes, times = (item * 7919 % graph.total_num_nodes).int(), LAST // 2 + item * 104729 % (LAST // 2)
        drawn, began, used = 0, time.perf_counter(), time.process_time()
        for fanout in (15, 10) if timed else (15, 10, 5):
            fanout = torch.LongTensor([fanout])
            if timed:
                sampled = graph.temporal_sample_neighbors(nodes, times, fanout, False, weight, None, "time").sampled_csc
                nodes, _, times = gb.compact_csc_format(sampled, nodes, times)
            else:
                draw = graph.sample_layer_neighbors if sampler == "labor" else graph.sample_neighbors
                sampled = draw(nodes, fanout, False, weight).sampled_csc
                nodes, _ = gb.unique_and_compact_csc_formats(sampled, nodes)
            drawn += sampled.indices.numel()
        if batch >= 3:
            wall, cpu = wall + time.perf_counter() - began, cpu + time.process_time() - used
            edges, nodes_reached = edges + drawn, nodes_reached + len(nodes)
    print(json.dumps(dict(wall_ms=wall * 1e3 / batches, cpu_ms=cpu * 1e3 / batches, edges=edges / batches,
                          nodes=nodes_reached / batches)))


def contest(args):
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "choose")
        subprocess.run(["go", "build", "-o", program, "./choose"], check=True, cwd=REPO / "bench")
        subprocess.run([program, "-dir", folder, "-nodes", str(args.nodes), "-edges", str(args.edges), "make"],
                       check=True)
        python = args.dir / "dgl" / "bin" / "python"
        sides = {"khop": lambda s: [program, "-dir", folder, "-batches", str(args.batches), "run", s],
                 "GraphBolt": lambda s: [python, __file__, "--peer", folder, s, str(args.batches)]}
        times = {(s, side): [] for s in args.samplers for side in sides}
        for round in range(args.rounds):
            for s in args.samplers:
                for side in list(sides)[::1 - round % 2 * 2]:
                    line = subprocess.run(sides[side](s), check=True, capture_output=True, text=True,
                                          env={**os.environ, "OMP_NUM_THREADS": "1", "GOMAXPROCS": "1"}).stdout
                    times[s, side].append(json.loads(line))
    print("| sampler | | processor time, ms a batch | by the clock | edges | nodes |\n|---|---|---|---|---|---|")
    for (s, side), runs in times.items():
        spread = lambda key: "{:.1f} ({:.1f} - {:.1f})".format(*(f([r[key] for r in runs])
                                                                 for f in (statistics.median, min, max)))
        print(f"| {s} | {side} | {spread('cpu_ms')} | {spread('wall_ms')} | {runs[0]['edges']:,.0f} | "
              f"{runs[0]['nodes']:,.0f} |")
    for s in args.samplers:
        ratios = [b["cpu_ms"] / a["cpu_ms"] for a, b in zip(times[s, "khop"], times[s, "GraphBolt"])]
        print(f"{s}: {statistics.median(ratios):.1f} times as fast ({min(ratios):.1f} - {max(ratios):.1f} in "
              f"{len(ratios)} rounds)")


if len(sys.argv) > 1 and sys.argv[1] == "--peer":
    peer(sys.argv[2], sys.argv[3], int(sys.argv[4]))
else:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("KHOP_BENCH_DIR", REPO / ".bench")).absolute())
    parser.add_argument("--nodes", type=int, default=500_000)
    parser.add_argument("--edges", type=int, default=25_000_000)
    parser.add_argument("--samplers", type=lambda text: text.split(","), default=SAMPLERS, help="by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=10)
    contest(parser.parse_args())
