#!/usr/bin/env python3
"""Measures iSpLib's own operation of torch (fusedmm_spmm, with gradients) beside torch.sparse.mm through
khop.sparse.patch, in turns, on one thread: forward, backward, and an epoch of a GCN of two layers.

    PYTHONPATH=integrations/python/src KHOP_LIBRARY=dist/libkhop.so KHOP_TESTDATA=... $PYTHON bench/ops/isplib.py
    --isplib FOLDER --kernels FOLDER/libmyfusedmm.a --out docs/results/ops.md

FOLDER has iSpLib's sources, whose csrc/fusedmm.cpp this builds for the interpreter's torch. The kernels are those of
FusedMM_Extended (branch spmm_variant): ./configure && ./generate_shared_object.sh, with NTHREADS=1 and bestK=272 in its
Makefile. The graph is cnr-2000 with values. iSpLib's module for PyG keeps the transpose's indices and values, as khop
does: they are made before. Takes 5 minutes and 6 GB. Needs torch and g++.
"""
import argparse
import pathlib
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load

import khop.sparse

import given
import where

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import section

WIDTHS = (16, 32, 64, 128, 256)


class Graph:
    def __init__(self):
        edges = torch.from_numpy(np.ascontiguousarray(given.edges_of_cnr_2000().T))
        self.n = int(edges.max()) + 1
        values = torch.rand(edges.size(1), generator=torch.Generator().manual_seed(1))
        self.a = torch.sparse_coo_tensor(edges, values, (self.n, self.n)).coalesce()
        self.row, self.col = self.a.indices()
        self.values, self.csr = self.a.values(), self.a.to_sparse_csr()
        self.order = torch.argsort(self.col, stable=True)
        self.colptr = torch.searchsorted(self.col[self.order].contiguous(), torch.arange(self.n + 1))
        self.back = self.values[self.order], self.row[self.order]

    def by_khop(self, x):
        return torch.sparse.mm(self.csr, x)

    def by_isplib(self, x):
        return torch.ops.isplib.fusedmm_spmm(self.row, self.csr.crow_indices(), self.col, self.values, self.colptr,
                                             self.order, x, *self.back)


def steps(graph, multiply, width):
    """What is measured, by name: functions that return the seconds that they took."""
    x = torch.randn(graph.n, width, generator=torch.Generator().manual_seed(2))
    dy, classes = torch.randn_like(x), torch.arange(graph.n) % 16
    model = torch.nn.ModuleList([torch.nn.Linear(width, width), torch.nn.Linear(width, 16)])
    adam = torch.optim.Adam(model.parameters())

    def forward():
        with torch.no_grad():
            start = time.process_time()
            multiply(x)
            return time.process_time() - start

    def backward():
        y = multiply(x.detach().requires_grad_())
        start = time.process_time()
        y.backward(dy)
        return time.process_time() - start

    def epoch():
        start = time.process_time()
        adam.zero_grad()
        h = multiply(model[0](x)).relu()
        F.cross_entropy(multiply(model[1](h)), classes).backward()
        adam.step()
        return time.process_time() - start
    return {"forward": forward, "backward": backward, "epoch": epoch}


def measured(graph, width, rounds):
    """Milliseconds of khop and of iSpLib in each round, by name."""
    ways = {"khop": steps(graph, graph.by_khop, width), "iSpLib": steps(graph, graph.by_isplib, width)}
    x = torch.randn(graph.n, width)
    near = (graph.by_khop(x) - graph.by_isplib(x)).abs().max() < 1e-2
    assert near, "results differ"
    found = {name: {way: [] for way in ways} for name in ways["khop"]}
    for turn in range(rounds + 1):
        for name, of in found.items():
            for way in list(ways)[::1 if turn % 2 else -1]:
                took = ways[way][name]() * 1e3
                if turn:
                    of[way].append(took)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isplib", type=pathlib.Path, required=True, help="iSpLib's sources")
    parser.add_argument("--kernels", type=pathlib.Path, required=True, help="libmyfusedmm.a")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path, help="the page to write")
    args = parser.parse_args()
    load("fusedmm_cpu", [str(args.isplib / "csrc/fusedmm.cpp")], extra_include_paths=[str(args.isplib / "csrc")],
         extra_cflags=["-O3", "-march=native", "-fopenmp"], extra_ldflags=[str(args.kernels.resolve()), "-lgomp"],
         is_python_module=False)
    torch.set_num_threads(1)
    khop.sparse.patch()
    graph, rows, ahead = Graph(), [], []
    for width in WIDTHS:
        cells = []
        for of in measured(graph, width, args.rounds).values():
            low, middle, high = statistics.quantiles(of["khop"], n=4)
            times = statistics.median(b / a for a, b in zip(of["khop"], of["iSpLib"]))
            ahead.append(times)
            cells.append(f"{middle:.0f} ({low:.0f} to {high:.0f}) | {times:.2f}")
        rows.append(f"| {width} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    text = section.wrapped(f"""`bench/ops/isplib.py` {where.here()}: iSpLib's operation of torch and its kernels, built
        for this machine, beside `torch.sparse.mm` through `khop.sparse.patch()`; cnr-2000 with values, one thread,
        torch {torch.__version__}, {args.rounds} rounds in turns. Columns are ms of processor time of khop (quartiles),
        and how many times as long iSpLib takes, the median of rounds. Least {min(ahead):.2f}, geometric mean
        {statistics.geometric_mean(ahead):.2f}.""") + f"""

| K | forward | iSpLib | backward | iSpLib | epoch | iSpLib |
|---|---|---|---|---|---|---|
{chr(10).join(rows)}
"""
    if args.out:
        section.put(args.out, "## iSpLib", text)
    print(text)


main()
