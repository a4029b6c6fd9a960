"""A contestant's side of the contest: its arguments, its data, and the protocol that run.py speaks with it.

A contestant is a process that loads the data once and then answers commands, one a line on standard input:

    run sampling WAY      sample --batches mini-batches, after --warmup that are not timed
    run features WAY      the same, and the feature rows of every batch
    run float16 WAY       the same, of features that are stored as float16

WAY is one of the ways in which the library can be used; the contestant says on its first line which it has. Each `run`
is answered by one line of JSON on standard output. Only the making of a batch is timed: the clock stands still while
edges and nodes are counted. Edges and nodes a hop are means over the timed batches, in the order in which hops leave
the seeds; nodes are the distinct nodes reached so far, seeds included.
"""
import argparse
import json
import os
import statistics
import sys
import time

FANOUTS = (15, 10, 5)  # the first leaves the seeds: PyG's and khop's order; DGL's samplers take the reverse
BATCH_SIZE = 1024


def arguments(description, *switches):
    """Parses the arguments that all contestants share, and switches of their own, and fixes the thread count before a
    library can read it."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", required=True, help="folder with indptr.npy, indices.npy, x.npy, seeds.npy")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--warmup", type=int, default=6)
    parser.add_argument("--json", action="store_true", help="answer commands; without it: run each way once and print")
    for switch in switches:
        parser.add_argument(switch, action="store_true")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(args.threads)
    os.environ.setdefault("DGLBACKEND", "pytorch")
    return args


def load(args, ids="int32", edges=True):
    """Returns indptr (int64), indices and the seeds that the run needs (both `ids`) and x, as tensors over NumPy's own
    memory; without edges None for indices.

    NumPy asks for huge pages for large arrays, which torch does not: the libraries read the graph faster that way.
    """
    import numpy as np
    import torch

    torch.set_num_threads(args.threads)

    def read(name, dtype=None):
        array = np.load(os.path.join(args.data, name + ".npy"))
        return torch.from_numpy(array if dtype is None else array.astype(dtype, copy=False))

    seeds = read("seeds", ids)
    wanted = (args.warmup + args.batches) * BATCH_SIZE
    if len(seeds) < wanted:
        sys.exit(f"{args.data}/seeds.npy: {len(seeds)} seeds, but {args.warmup} + {args.batches} batches need {wanted}")
    return read("indptr"), read("indices", ids) if edges else None, seeds[:wanted], read("x")


def seed_batches(seeds):
    return (seeds[i:i + BATCH_SIZE] for i in range(0, len(seeds), BATCH_SIZE))


def measure(batches, hops, warmup):
    """Takes every batch of `batches`, times those after the first `warmup`, and counts each by `hops`.

    hops(batch) returns (edges of each hop, nodes reached after each hop, feature rows).
    """
    batches = iter(batches)
    times, edges, nodes, rows = [], [], [], 0
    for i in range(sys.maxsize):
        start = time.perf_counter()
        batch = next(batches, None)
        took = time.perf_counter() - start
        if batch is None:
            break
        if i >= warmup:
            e, n, r = hops(batch)
            times.append(took * 1e3)
            edges.append(e)
            nodes.append(n)
            rows += r
        del batch  # so that its memory can serve the next
    return {
        "ms": statistics.fmean(times),
        "ms_per_batch": {"median": statistics.median(times), "min": min(times), "max": max(times)},
        "batches": len(times),
        "edges_per_hop": [statistics.fmean(h) for h in zip(*edges)],
        "nodes_per_hop": [statistics.fmean(h) for h in zip(*nodes)],
        "rows_per_batch": rows / len(times),
    }


def memory():
    """The process's resident bytes: anonymous (with shared memory, as khop counts it), mapped files, and what lies on
    huge pages."""
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    size = {key: int(status[key].split()[0]) * 1024 for key in ("RssAnon", "RssShmem", "RssFile")}
    rollup = dict(line.split(":", 1) for line in open("/proc/self/smaps_rollup") if ":" in line.split()[0])
    return {"anon_bytes": size["RssAnon"] + size["RssShmem"], "file_bytes": size["RssFile"],
            "huge_page_bytes": int(rollup["AnonHugePages"].split()[0]) * 1024}


def serve(args, ways, batches, hops, versions):
    """Answers commands until end of file. batches(features, way) starts an iterator over all batches of one run;
    features is None, "float32" or "float16".

    ways names the ways of "sampling", of "features" and of "float16".
    """
    kinds = {"sampling": None, "features": "float32", "float16": "float16"}

    def run(what, way):
        result = measure(batches(kinds[what], way), hops, args.warmup)
        return {"what": what, "way": way, **result, **memory()}

    if not args.json:
        for what in ways:
            for way in ways[what]:
                print(json.dumps(run(what, way), indent=1))
        return
    answers, sys.stdout = sys.stdout, sys.stderr  # a library that prints must not break the protocol
    print(json.dumps({"ways": ways, "versions": versions}), file=answers, flush=True)
    for line in sys.stdin:
        command, what, way = line.split()
        if command != "run" or way not in ways.get(what, ()):
            sys.exit(f"unknown command {line!r}")
        print(json.dumps(run(what, way)), file=answers, flush=True)
