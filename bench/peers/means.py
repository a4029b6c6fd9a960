#!/usr/bin/env python3
"""Do khop's samplers have the means of GraphBolt's and PyG's? The same arrays, the same seeds in every batch, many
batches of each.

    make peer-means, or .bench/dgl/bin/python bench/peers/means.py [--pyg PYTHON] (NumPy is in that environment)

For each sampler it compares, with standard errors over batches: edges and distinct nodes of a batch (where both expand
the same nodes at each hop), distinct sources of hop 0, and of hop 0's picks the shares that fall on each tenth of a
destination's in-edges: by position, by weight and by time. It prints the difference that is farthest off in its
standard errors (z), and fails where any is beyond --limit. Called with --peer it is a peer's side. PyG's interpreter
may be the one of the peers' environment, or any other with torch_geometric and torch-sparse; without them PyG is left
out, and the report says so.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

REPO = pathlib.Path(__file__).resolve().parents[2]
SEEDS, LAST = 1024, 1 << 20
SAMPLERS = {"GraphBolt": ("uniform", "weighted", "temporal", "temporal weighted", "labor"), "PyG": ("uniform, new",)}


def request(num_nodes):
    """The seeds of every batch, and their times: bench/choose has the same."""
    import numpy as np
    item = np.arange(SEEDS)
    return item * 7919 % num_nodes, LAST // 2 + item * 104729 % (LAST // 2)


def peer(which, folder, sampler, batches):
    """Writes for each batch the number of hop 0's picks, edges and nodes, and then the picks, as positions."""
    import warnings
    warnings.filterwarnings("ignore")
    import numpy as np
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    read = lambda name, dtype: torch.from_numpy(np.fromfile(os.path.join(folder, name), dtype))
    indptr, indices = read("indptr", np.int64), read("indices", np.int32)
    seeds, times = map(torch.from_numpy, request(len(indptr) - 1))
    draw = graphbolt(indptr, indices, read, seeds, times, sampler) if which == "GraphBolt" else pyg(indptr, indices,
                                                                                                    seeds)
    with open(os.path.join(folder, "peer"), "wb") as out:
        for _ in range(batches):
            picks, edges, nodes = draw()
            np.array([len(picks), edges, nodes], np.int64).tofile(out)
            picks.numpy().astype(np.int64).tofile(out)


def graphbolt(indptr, indices, read, seeds, times, sampler):
    import dgl.graphbolt as gb
    import numpy as np
    import torch

    graph = gb.fused_csc_sampling_graph(indptr, indices)
    graph.edge_attributes = {"weight": read("weight", np.float32), "time": read("time", np.int64),
                             gb.ORIGINAL_EDGE_ID: torch.arange(len(indices))}
    weight, timed = "weight" if "weighted" in sampler else None, "temporal" in sampler

    def draw():
        nodes, edges, picks = seeds.int(), 0, None
        for fanout in (15,) if timed else (15, 10):
            fanout = torch.LongTensor([fanout])
            if timed:
                sampled = graph.temporal_sample_neighbors(nodes, times, fanout, False, weight, None, "time")
            else:
                sampled = (graph.sample_layer_neighbors if sampler == "labor"
                           else graph.sample_neighbors)(nodes, fanout, False, weight)
                nodes, _ = gb.unique_and_compact_csc_formats(sampled.sampled_csc, nodes)
            edges += sampled.sampled_csc.indices.numel()
            picks = sampled.original_edge_ids if picks is None else picks
        return picks, edges, 0 if timed else len(nodes)
    return draw


def pyg(indptr, indices, seeds):
    import torch
    import torch_sparse  # registers the sampler that NeighborLoader calls

    indices = indices.long()

    def draw():
        nodes, _, column, edge = torch.ops.torch_sparse.neighbor_sample(indptr, indices, seeds, [15, 10], False, True)
        return edge[column < len(seeds)], len(edge), len(nodes)
    return draw


def tenths(folder):
    """For each way to order the in-edges of a destination the tenth that each edge is in."""
    import numpy as np
    read = lambda name, dtype: np.fromfile(os.path.join(folder, name), dtype)
    indptr = read("indptr", np.int64)
    column = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    degree, rank = np.diff(indptr)[column], np.empty(len(column), np.int64)
    for name, values in {"position": np.arange(len(column)), "weight": read("weight", np.float32),
                         "time": read("time", np.int64)}.items():
        rank[np.lexsort((values, column))] = np.arange(len(column)) - indptr[column]
        yield name, rank * 10 // degree


# torch-sparse draws pick j of an edge's n from 0 .. j-1, where Floyd's method needs 0 .. j: of 5 in-edges it takes the
# last with probability 0 where 1 is picked, and 0.5 where 3 are (0.2 and 0.6 would be even). So with PyG no shares by
# position are compared.
BIASED = {"PyG": "position"}


def measures(path, indices, ways, timed):
    """What is compared: [batch, measure], and the names of measures."""
    import numpy as np
    data, at, rows = np.fromfile(path, np.int64), 0, []
    names = (["edges"] if timed else ["edges", "nodes"]) + ["sources of hop 0"] + [f"tenth {i} by {way}"
                                                                                   for way in ways for i in range(10)]
    while at < len(data):
        n, edges, nodes = data[at:at + 3]
        picks = data[at + 3:at + 3 + n]
        shares = [np.bincount(tenth[picks], minlength=10) / n for tenth in ways.values()]
        rows.append(np.concatenate([[edges] if timed else [edges, nodes], [len(np.unique(indices[picks]))], *shares]))
        at += 3 + n
    return np.array(rows, float), names


def compare(args):
    import numpy as np
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "choose")
        subprocess.run(["go", "build", "-o", program, "./choose"], check=True, cwd=REPO / "bench")
        subprocess.run([program, "-dir", folder, "-nodes", str(args.nodes), "-edges", str(args.edges), "make"],
                       check=True)
        ways, indices = dict(tenths(folder)), np.fromfile(os.path.join(folder, "indices"), np.int32)
        print("| sampler | peer | edges, khop and peer | nodes | measures | farthest, in standard errors | finds "
              "|\n|---|---|---|---|---|---|---|")
        for side, python in {"GraphBolt": args.python, "PyG": args.pyg or args.python}.items():
            if side not in args.peers:
                continue
            if side == "PyG" and subprocess.run([python, "-c", "import torch_geometric, torch_sparse"],
                                                capture_output=True).returncode:
                print(f"\nPyG: {python} lacks torch_geometric or torch-sparse; it was left out")
                continue
            for sampler in SAMPLERS[side]:
                subprocess.run([program, "-dir", folder, "-batches", str(args.batches), "draw", sampler], check=True)
                subprocess.run([python, __file__, "--peer", side, folder, sampler, str(args.batches)], check=True)
                even = {way: tenth for way, tenth in ways.items() if way != BIASED.get(side)}
                (own, names), (its, _) = (measures(os.path.join(folder, f), indices, even, "temporal" in sampler)
                                          for f in ("khop", "peer"))
                off, error = own.mean(0) - its.mean(0), np.sqrt(own.var(0, ddof=1) / len(own)
                                                                + its.var(0, ddof=1) / len(its))
                z = np.where(error > 0, off / np.maximum(error, 1e-300), np.where(off == 0, 0, np.inf))
                far = int(np.abs(z).argmax())
                means = lambda i: f"{own[:, i].mean():,.2f}, {its[:, i].mean():,.2f}" if i is not None else ""
                least = 100 * float((3.09 + args.limit) * np.max(error / its.mean(0)))
                print(f"| {sampler} | {side} | {means(0)} | {means(1 if 'nodes' in names else None)} | {len(names)} | "
                      f"{z[far]:+.1f} ({names[far]}) | {least:.2f} % |", flush=True)
                worst = max(worst, abs(z[far]))
    print(f"\n{args.batches} batches of {SEEDS} seeds on each side; the farthest of all is {worst:.1f} standard "
          f"errors off, the limit {args.limit}")
    return int(worst > args.limit)


if len(sys.argv) > 1 and sys.argv[1] == "--peer":
    peer(*sys.argv[2:5], int(sys.argv[5]))
else:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    environments = pathlib.Path(os.environ.get("KHOP_BENCH_DIR", REPO / ".bench")).absolute()
    parser.add_argument("--python", default=environments / "dgl" / "bin" / "python",
                        help="an interpreter that has GraphBolt")
    parser.add_argument("--pyg", help="an interpreter that has PyG and torch-sparse; by default the same")
    parser.add_argument("--peers", type=lambda text: text.split(","), default=list(SAMPLERS), help="by commas")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--edges", type=int, default=500_000)
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--limit", type=float, default=4.5,
                        help="in standard errors; equal means exceed it once in 1,000 runs or so")
    sys.exit(compare(parser.parse_args()))
