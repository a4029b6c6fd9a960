"""Transfer of feature rows as PyTorch programs do it: index_select into pinned memory by all threads, then a copy to
the device.

    transfer.py --dataset D --ids FOLDER [--threads 16] [--rounds 3] [--device cuda|cpu]

FOLDER holds the batches' ids, as gpubench transfer -save writes them. Prints a JSON object with the ways "torch,
unpipelined" and
"torch, pipelined" (index_select of one batch while the other is copied). --device cpu only shows that the program runs.
"""
import argparse
import json
import os
import pathlib

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--dataset", required=True)
parser.add_argument("--ids", type=pathlib.Path, required=True)
parser.add_argument("--threads", type=int, default=16)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(args.threads)

import numpy as np
import torch

import meter

torch.set_num_threads(args.threads)
cuda = args.device != "cpu"
synchronize = torch.cuda.synchronize if cuda else lambda: None
x = torch.from_numpy(np.array(meter.column(args.dataset, "nodes/0", "feature")))
batches = [torch.from_numpy(np.fromfile(f, np.int64)) for f in sorted(args.ids.glob("batch-*.i64"))]
most = max(map(len, batches))
staged = [torch.empty((most, x.shape[1]), dtype=x.dtype, pin_memory=cuda) for _ in range(2)]
there = [torch.empty((most, x.shape[1]), dtype=x.dtype, device=args.device) for _ in range(2)]
sent = [torch.cuda.Event() if cuda else None for _ in range(2)]


def transfer(depth):
    for i, ids in enumerate(batches):
        half = i % 2
        if cuda and depth == 2:
            sent[half].synchronize()
        rows = torch.index_select(x, 0, ids, out=staged[half][:len(ids)])
        there[half][:len(ids)].copy_(rows, non_blocking=True)
        if cuda:
            sent[half].record()
        if depth == 1:
            synchronize()
    synchronize()


board, ways = meter.Board(cuda), []
for name, depth in (("torch, unpipelined", 1), ("torch, pipelined", 2)):
    transfer(depth)
    last = (len(batches) - 1) % 2
    assert torch.equal(there[last][:len(batches[-1])].cpu(), x[batches[-1]]), "the rows on the device are others"
    measured = meter.Measurement(board, synchronize)
    for _ in range(args.rounds):
        transfer(depth)
    result = measured.stop(args.rounds * len(batches))
    rows = args.rounds * sum(map(len, batches))
    ways.append({"way": name, "gb_per_s": rows * x.shape[1] * x.element_size() / result["seconds"] / 1e9, **result})
print(json.dumps({"device": args.device, "threads": args.threads, "torch": torch.__version__, "ways": ways}, indent=1))
