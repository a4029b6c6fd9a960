"""Multiplies the graph of a khop dataset, and a block of it, with dense matrices on the device, as PyTorch and CuPy
programs do it.

    products.py --dataset D --block FOLDER --widths 16,64 [--reps 7] [--device cuda|cpu]

FOLDER holds the block, as gpubench products -save writes it. Prints a JSON object with quartiles of the seconds of y =
A x in float32, with a value an edge: "torch" (cuSPARSE), and "cupy" where it is installed. --device cpu only shows that
the program runs.
"""
import argparse
import json
import pathlib
import statistics
import time

import numpy as np
import torch

import meter

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--dataset", required=True)
parser.add_argument("--block", type=pathlib.Path, required=True)
parser.add_argument("--widths", required=True)
parser.add_argument("--reps", type=int, default=7)
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
cuda = args.device != "cpu"


def quartiles(call):
    """After once that does not count."""
    times = []
    for i in range(args.reps + 1):
        start = time.perf_counter()
        call()
        if cuda:
            torch.cuda.synchronize()
        if i:
            times.append(time.perf_counter() - start)
    return statistics.quantiles(times, n=4) if len(times) > 1 else times * 3


def cupy_matrix(indptr, indices, values, shape):
    try:
        import cupy
        import cupyx.scipy.sparse
    except ImportError:
        return None
    return cupyx.scipy.sparse.csr_matrix(tuple(cupy.from_dlpack(t) for t in (values, indices, indptr)), shape=shape)


def cells(name, indptr, indices, columns):
    """Measures one matrix at all widths."""
    narrow = torch.int32 if len(indices) < 2**31 else torch.int64  # CuPy's and cuSPARSE's arrays are of one type
    indptr, indices = (torch.from_numpy(np.array(a)).to(narrow).to(args.device) for a in (indptr, indices))
    values = torch.rand(len(indices), device=args.device)
    shape = (len(indptr) - 1, columns)
    # Unchecked: a block's columns are in no order, which torch 1.13 would refuse.
    a = torch._sparse_csr_tensor_unsafe(indptr, indices, values, shape)
    b = cupy_matrix(indptr, indices, values, shape) if cuda else None
    for width in map(int, args.widths.split(",")):
        x = torch.rand(columns, width, device=args.device)
        few = int(indptr[1])  # edges of the first row
        want = (values[:few, None] * x[indices[:few].long()]).sum(0)
        ways = {"torch": lambda: torch.sparse.mm(a, x)}
        if b is not None:
            import cupy
            dense = cupy.from_dlpack(x)
            ways["cupy"] = lambda: torch.from_dlpack(b @ dense)
        for peer, call in ways.items():
            torch.testing.assert_close(call()[0], want, rtol=1e-3, atol=1e-3)
            yield {"graph": name, "operation": "weighted sum", "width": width, "peer": peer, "seconds": quartiles(call)}


def read(name):
    return np.fromfile(args.block / f"block.{name}", np.int32)


found = list(cells("block", read("indptr"), read("indices"), int(read("columns")[0])))
whole = meter.column(args.dataset, "graph", "indptr")
found += cells("whole", whole, meter.column(args.dataset, "graph", "indices"), len(whole) - 1)
print(json.dumps({"device": args.device, "torch": torch.__version__, "cells": found}, indent=1))
