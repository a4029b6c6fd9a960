#!/usr/bin/env python3
"""Measures an epoch of training a GCN on a whole graph: PyG's scatter, the same through khop.sparse.patch, and khop
train.

    make library && go build -o dist/khop ./cmd/khop
    KHOP_TESTDATA=... PYTHONPATH=integrations/python/src KHOP_LIBRARY=dist/libkhop.so .bench/pyg/bin/python
    bench/ops/epoch.py

Needs torch and torch_geometric in the interpreter. The graph is cnr-2000 with each edge in both directions, with random
features and classes. The epochs of PyG take turns in one process, round by round: as it is (scatter), with a CSR matrix
(torch's own sparse product), and both through khop.sparse.patch. khop train follows, on the same graph and threads. An
epoch is forward, loss, backward and a step of Adam. Prints a table in Markdown, or JSON with --json; --out writes it as
a section of a page. --minutes bounds the epochs of PyG: those that are left are not begun. khop train also drops out
elements of the input, which the models of PyG do not. 6 GB of memory.
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
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.nn.conv import GATConv, GCNConv, SAGEConv

import khop.sparse

import given
import where

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import section

warnings.filterwarnings("ignore")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--khop", default="dist/khop", help="the program; empty: leave training in Go out")
    parser.add_argument("--model", default="gcn", choices=["gcn", "sage", "gat"])
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--classes", type=int, default=16)
    parser.add_argument("--nodes", type=int, default=0,
                        help="a random graph with ten edges a node, in place of cnr-2000")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help="the page to write")
    return parser.parse_args()


def graph(args):
    """Edges, each once and without loops."""
    if args.nodes:
        edges = np.random.default_rng(0).integers(0, args.nodes, (5 * args.nodes, 2))
    else:
        edges = given.edges_of_cnr_2000()
    edges = np.unique(np.sort(edges, 1), axis=0)
    return edges[edges[:, 0] != edges[:, 1]]


class Model(torch.nn.Module):
    def __init__(self, args):
        super().__init__()
        heads = args.heads if args.model == "gat" else 1
        self.layers, wide = torch.nn.ModuleList(), args.features
        for i in range(args.layers):
            last = i == args.layers - 1
            out, h = (args.classes, 1) if last else (args.hidden, heads)
            make = {"gcn": GCNConv, "sage": SAGEConv, "gat": lambda a, b, h=h: GATConv(a, b, heads=h)}[args.model]
            self.layers.append(make(wide, out))
            wide = out * h

    def forward(self, x, edges):
        for i, layer in enumerate(self.layers):
            x = layer(x if i == 0 else F.dropout(F.relu(x), 0.5, self.training), edges)
        return x


def contest(args, n, edges, x, y):
    """Seconds of each epoch of each way, and the last loss."""
    both = torch.from_numpy(np.concatenate([edges, edges[:, ::-1]]).T.copy())
    csr = torch.sparse_coo_tensor(both.flip(0), torch.ones(both.size(1)), (n, n)).coalesce().to_sparse_csr()
    ways = {"PyG, scatter": (both, False), "PyG, scatter, khop.sparse": (both, True)}
    if args.model != "gat":
        ways |= {"PyG, CSR": (csr, False), "PyG, CSR, khop.sparse": (csr, True)}
    state, seconds, losses = {}, {w: [] for w in ways}, {}
    for way in ways:
        torch.manual_seed(0)
        model = Model(args)
        state[way] = model, torch.optim.Adam(model.parameters(), lr=0.01)
    end = time.monotonic() + 60 * args.minutes
    for epoch in range(args.rounds + 1):  # the first warms up, and builds what is kept
        if epoch > 2 and time.monotonic() > end:
            break
        for way, (a, ours) in ways.items():
            if not ours:
                khop.sparse.unpatch()
            else:
                khop.sparse.patch()
                if epoch > 0:
                    step(*state[way], a, x, y, epoch, learn=False)  # patching forgets: build again, untimed
            start = time.perf_counter()
            losses[way] = step(*state[way], a, x, y, epoch)
            if epoch > 0:
                seconds[way].append(time.perf_counter() - start)
    return seconds, losses


def step(model, adam, a, x, y, epoch, learn=True):
    torch.manual_seed(epoch)  # of dropout
    adam.zero_grad()
    loss = F.cross_entropy(model(x, a), y)
    loss.backward()
    if learn:
        adam.step()
    return loss.item()


def in_go(args, edges, x, y):
    n = len(y)
    with tempfile.TemporaryDirectory() as folder:
        masks = np.zeros((1, n), bool)
        empty = masks.copy()
        masks[:] = True
        masks[0, :2] = False
        val, test = empty.copy(), empty.copy()
        val[0, 0], test[0, 1] = True, True
        np.savez(folder + "/g.npz", node_features=x.numpy(), node_labels=y.numpy(), edges=edges, train_masks=masks,
                 val_masks=val,
                 test_masks=test)
        run = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True}
        subprocess.run([args.khop, "convert", folder + "/g.npz", folder + "/g.khop", "--symmetrise"], **run)
        out = subprocess.run(
            [args.khop, "train", folder + "/g.khop", "--model", args.model, "--hidden", str(args.hidden), "--heads",
             str(args.heads),
             "--layers", str(args.layers), "--epochs", str(args.rounds + 1), "--workers", str(args.threads), "--jsonl"],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    total = [e["seconds"] for e in map(json.loads, out.splitlines()) if "epoch" in e]
    return [b - a for a, b in zip(total, total[1:])]


def main():
    args = parse()
    torch.set_num_threads(args.threads)
    edges = graph(args)
    n = int(edges.max()) + 1
    rng = torch.Generator().manual_seed(1)
    x, y = torch.randn(n, args.features, generator=rng), torch.randint(0, args.classes, (n,), generator=rng)
    seconds, losses = contest(args, n, edges, x, y)
    if args.khop:
        seconds["khop train"] = in_go(args, edges, x, y)
    quartiles = {w: statistics.quantiles(s, n=4) for w, s in seconds.items()}
    record = {"model": args.model, "nodes": n, "edges": 2 * len(edges), "features": args.features,
              "hidden": args.hidden,
              "layers": args.layers, "threads": args.threads, "rounds": args.rounds, "torch": torch.__version__,
              "quartiles": quartiles, "losses": losses}
    if args.json:
        return print(json.dumps(record))
    text = page(args, record)
    if args.out:
        section.put(args.out, "## An epoch of training", text)
    print(text)


def page(args, record):
    quartiles = record["quartiles"]
    first = quartiles["PyG, scatter"][1]
    lines = [section.wrapped(f"""`bench/ops/epoch.py` {where.here()}: {args.model} on the whole graph,
        {record['nodes']:,} nodes, {record['edges']:,} edges, {args.features} features, {args.layers} layers of width
        {args.hidden}, {args.threads} threads, torch {record['torch']}, up to {args.rounds} rounds in turns."""), "",
             "| way | seconds an epoch (quartiles) | PyG's scatter / it | loss |", "|---|---|---|---|"]
    for way, (low, middle, high) in quartiles.items():
        loss = record["losses"].get(way)
        lines.append(f"| {way} | {middle:.3f} ({low:.3f} to {high:.3f}) | {first / middle:.2f} | "
                     f"{'' if loss is None else f'{loss:.5f}'} |")
    return "\n".join(lines) + "\n"


main()
