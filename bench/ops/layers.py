#!/usr/bin/env python3
"""Measures layers of PyG with khop.sparse.patch's options beside those without, in turns, by processor time of one
thread: GATConv in both orders, and gradients of three GCN layers with backward_budget.

    PYTHONPATH=integrations/python/src KHOP_LIBRARY=dist/libkhop.so
    $PYTHON bench/ops/layers.py --out docs/results/ops.md

Graphs are drawn; a step is forward and backward. Takes 4 minutes and 3 GB. Needs torch and PyG.
"""
import argparse
import pathlib
import statistics
import sys
import time

import torch
from torch_geometric.nn import GATConv, GCNConv

import khop.sparse
from khop import draws

import where

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import section

# sources, targets, edges, features, hidden columns of a head, heads
ATTENTION = [(20_000, 20_000, 200_000, 16, 64, 4), (20_000, 20_000, 400_000, 32, 32, 2),
             (20_000, 2_000, 40_000, 64, 64, 1), (20_000, 2_000, 40_000, 32, 64, 4),
             (20_000, 20_000, 200_000, 64, 16, 4)]
ORDERS = {"PyG": None, "khop": {}, "reassociate": {"reassociate": True}}
NODES, DEGREE, WIDTH, SHARE = 3_000, 400, 64, 0.1


def ends(n, edges, seed):
    return torch.randint(0, n, (edges,), generator=torch.Generator().manual_seed(seed))


def patch(options):
    if options is None:
        khop.sparse.unpatch()
    else:
        khop.sparse.patch(**options)


def seconds(run):
    start = time.process_time()
    run()
    return time.process_time() - start


def in_turns(step, ways, rounds):
    """Seconds of the second of two steps of each way, by way; the first one makes what khop keeps."""
    took = {way: [] for way in ways}
    for turn in range(rounds):
        for way in list(ways)[::-1 if turn % 2 else 1]:
            patch(ways[way])
            step()
            took[way].append(seconds(step))
    khop.sparse.unpatch()
    return took


def attention(rounds):
    """How many times as long PyG takes, and khop without the option, as khop with it: medians of turns."""
    for sources, targets, edges, features, hidden, heads in ATTENTION:
        layer = GATConv(features, hidden, heads=heads, add_self_loops=False)
        x = torch.randn(sources, features, requires_grad=True)
        given = x if sources == targets else (x, x[:targets].detach())
        both = torch.stack([ends(sources, edges, 1), ends(targets, edges, 2)])
        took = in_turns(lambda: layer(given, both).sum().backward(), ORDERS, rounds)
        ratios = [statistics.median(b / a for a, b in zip(took["reassociate"], took[w])) for w in ("PyG", "khop")]
        yield (f"| {sources:,} | {targets:,} | {edges:,} | {features} | {heads} x {hidden} | "
               f"{statistics.median(took['reassociate']) * 1e3:.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")


def errors(steps):
    """The relative error of the gradient of three layers with equal shares, and with shares of their own; the share of
    the work of each, the last first; and how many times as long a step takes with exact ones."""
    torch.manual_seed(1)
    layers = [GCNConv(WIDTH, WIDTH, cached=True) for _ in range(2)] + [GCNConv(WIDTH, WIDTH // 2, cached=True)]
    weights = [layer.lin.weight for layer in layers]
    both = torch.stack([ends(NODES, NODES * DEGREE, 1), ends(NODES, NODES * DEGREE, 2)])
    x, labels = torch.randn(NODES, WIDTH), ends(WIDTH // 2, NODES, 3)

    def gradient():
        h = x
        for layer in layers[:-1]:
            h = layer(h, both).relu()
        loss = torch.nn.functional.cross_entropy(layers[-1](h, both)[::10], labels[::10])
        return [g.clone() for g in torch.autograd.grad(loss, weights)]
    khop.sparse.patch()
    exact, found, allot, took = gradient(), {}, draws.allot, {}
    for way in ("equal", "own"):
        draws.allot = allot if way == "own" else lambda share, sites: []
        khop.sparse.patch(backward_budget=SHARE, seed=1)
        for _ in range(3):
            gradient()
        lost = [[float((a - b).norm() ** 2 / a.norm() ** 2) for a, b in zip(exact, gradient())] for _ in range(steps)]
        found[way] = [statistics.fmean(of) ** 0.5 for of in zip(*lost)]
    draws.allot = allot
    for _ in range(9):
        for way, options in (("exact", {}), ("own", {"backward_budget": SHARE, "seed": 1})):
            khop.sparse.patch(**options)
            for _ in range(2):  # the second one weighs the rows, as every tenth does
                gradient()
            took.setdefault(way, []).append(seconds(gradient))
    khop.sparse.unpatch()
    return found, statistics.median(a / b for a, b in zip(took["exact"], took["own"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path, help="the page to write")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for row in attention(args.rounds):
        rows.append(row)
        print(row, flush=True)
    found, times = errors(3 * args.rounds)
    equal, own = (", ".join(f"{e:.2f}" for e in found[way]) for way in ("equal", "own"))
    text = section.wrapped(f"""`bench/ops/layers.py` {where.here()}, torch {torch.__version__}: a step of `GATConv` with
        `patch(reassociate=True)`, ms, and how many times as long PyG takes, and `patch()`; medians of {args.rounds}
        turns, one thread.""") + f"""

| sources | targets | edges | features | heads | ms | PyG | `patch()` |
|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

""" + section.wrapped(f"""Three GCN layers, {NODES:,} nodes of {DEGREE} edges, `backward_budget={SHARE}`: relative
        errors of their weights' gradients with equal shares {equal}; with shares of their own {own}. A step with exact
        gradients takes {times:.2f} times as long.""") + "\n"
    if args.out:
        section.put(args.out, "### Options of patch by layer", text)
    print(text)


main()
