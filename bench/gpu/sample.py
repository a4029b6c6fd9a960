"""Samples with PyG's NeighborLoader, without features, and prints what it brought a second as a JSON object.

    sample.py pyg-N... --dataset D [--threads 16] ...

N processes sample, and the threads that are left are the main process's. Edges are counted in the batches that it
returns. After each N a line has the objects of all so far. Status 3: it cannot run here, and the last line on standard
error says why.
"""
import argparse
import json
import os
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("ways", nargs="+", metavar="pyg-N")
parser.add_argument("--dataset", required=True)
parser.add_argument("--threads", type=int, default=16, help="of all processes together")
parser.add_argument("--fanouts", default="15,10,5")
parser.add_argument("--batch-size", type=int, default=1024)
parser.add_argument("--batches", type=int, default=120, help="the most that are measured")
parser.add_argument("--seconds", type=float, default=12, help="after which no more are measured")
args = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(args.threads)  # a worker of torch takes one by itself

try:
    import torch
    import torch_geometric

    import meter
    import neighbors
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)


def sample(workers):
    torch.set_num_threads(max(args.threads - workers, 1))
    batches = neighbors.for_ever(neighbors.loader(args.dataset, [int(k) for k in args.fanouts.split(",")],
                                                  args.batch_size, workers, columns=False))
    for _ in range(1 + 2 * workers):  # what was sampled ahead of the measurement
        next(batches)
    measured, end = meter.Measurement(meter.Board(False), lambda: None), time.perf_counter() + args.seconds
    n = nodes = edges = 0
    while n < args.batches and (time.perf_counter() < end or n % max(workers, 1)):  # workers deliver in rounds
        batch = next(batches)
        n, nodes, edges = n + 1, nodes + batch.num_nodes, edges + batch.edge_index.shape[1]
    result = measured.stop(n)
    return {"workers": workers, "threads": args.threads, "torch": torch.__version__,
            "torch_geometric": torch_geometric.__version__, "nodes_per_batch": nodes / n, "edges_per_batch": edges / n,
            "edges_per_s": edges / result["seconds"], **result}


found = {}
for way in args.ways:
    try:
        found[way] = sample(int(way.removeprefix("pyg-")))
    except ImportError as error:  # PyG looks for what it samples with when a loader is made
        print(error, file=sys.stderr)
        sys.exit(3)
    print(json.dumps(found), flush=True)
