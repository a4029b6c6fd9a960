#!/usr/bin/env python3
"""Measures layers of PyG with khop.sparse.patch's options beside those without, in turns, by processor time of one
thread: GATConv in both orders, and gradients of three GCN layers with backward_budget, on graphs whose degrees follow
a power law too.

    PYTHONPATH=integrations/python/src KHOP_LIBRARY=dist/libkhop.so
    $PYTHON bench/ops/layers.py --out docs/results/ops.md

Graphs are drawn; a step is forward and backward. Takes 8 minutes and 3 GB. Needs torch and PyG.
"""
import argparse
import itertools
import pathlib
import statistics
import sys
import time

import torch
from torch_geometric.nn import GATConv, GCNConv

import khop.sparse
from khop._ops import sampled_gradients, spmm

import given
import where

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import section

# sources, targets, edges, features, hidden columns of a head, heads
ATTENTION = [(20_000, 20_000, 200_000, 16, 64, 4), (20_000, 20_000, 400_000, 32, 32, 2),
             (20_000, 2_000, 40_000, 64, 64, 1), (20_000, 2_000, 40_000, 32, 64, 4),
             (20_000, 20_000, 200_000, 64, 16, 4)]
ORDERS = {"PyG": None, "khop": {}, "reassociate": {"reassociate": True}}
NODES, DEGREE, SHARE = 3_000, 400, 0.1
# features, hidden and last columns of three GCN layers, and of how many nodes one has a label
MODELS = [((64, 64, 64, 32), 10), ((64, 256, 64, 32), 10), ((64, 256, 64, 32), 1), ((64, 128, 256, 128), 1)]
POWER_LAWS = [(2_000, 100), (8_000, 50)]  # nodes, mean degree


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
        inputs = x if sources == targets else (x, x[:targets].detach())
        both = torch.stack([ends(sources, edges, 1), ends(targets, edges, 2)])
        took = in_turns(lambda: layer(inputs, both).sum().backward(), ORDERS, rounds)
        ratios = [statistics.median(b / a for a, b in zip(took["reassociate"], took[w])) for w in ("PyG", "khop")]
        yield (f"| {sources:,} | {targets:,} | {edges:,} | {features} | {heads} x {hidden} | "
               f"{statistics.median(took['reassociate']) * 1e3:.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")


def errors(widths, labelled, steps):
    """The relative errors of the gradients of three layers' weights, the first one's first, with equal shares and with
    shares of their own."""
    torch.manual_seed(1)
    layers = [GCNConv(a, b, cached=True) for a, b in zip(widths, widths[1:])]
    weights = [layer.lin.weight for layer in layers]
    both = torch.stack([ends(NODES, NODES * DEGREE, 1), ends(NODES, NODES * DEGREE, 2)])
    x, labels = torch.randn(NODES, widths[0]), ends(widths[-1], NODES, 3)

    def gradient():
        h = x
        for layer in layers[:-1]:
            h = layer(h, both).relu()
        loss = torch.nn.functional.cross_entropy(layers[-1](h, both)[::labelled], labels[::labelled])
        return [g.clone() for g in torch.autograd.grad(loss, weights)]
    khop.sparse.patch()
    exact, allot = gradient(), sampled_gradients.allot
    for way in ("equal", "own"):
        sampled_gradients.allot = allot if way == "own" else lambda share, sites: []
        khop.sparse.patch(backward_budget=SHARE, seed=1)
        for _ in range(3):
            gradient()
        lost = [[float((a - b).norm() ** 2 / a.norm() ** 2) for a, b in zip(exact, gradient())] for _ in range(steps)]
        yield ", ".join(f"{statistics.fmean(of) ** 0.5:.2f}" for of in zip(*lost))
    sampled_gradients.allot = allot
    khop.sparse.unpatch()


def backward(s, values, new, dy):
    """Seconds of a backward pass through three sums."""
    h = x = torch.ones(s.cols, dy.size(1), requires_grad=True)
    for _ in range(3):
        h = spmm.aggregate(s, "sum", values.clone() if new else values, h) * 0.01
    took = seconds(lambda: h.backward(dy))
    assert x.grad is not None
    return took


def gain(s, values, new, dy, turns):
    """How many times as long exact gradients take as those with shares by layer, with their part of a pass that weighs
    the rows; None where none are drawn."""
    draws = sampled_gradients.Draws(SHARE, 1, khop.sparse.SAMPLED_GAIN)
    with torch.no_grad():
        if not draws.takes(s, False, spmm.SUM, values, 0 if values is None else 1, dy):
            return None
    every, sampled_gradients.EVERY = sampled_gradients.EVERY, 8
    exact, usual, weighing = [], [], []
    for turn in range(turns + 3):
        for spmm.draws in (None, draws):
            took = backward(s, values, new, dy)
            if turn >= 3:  # the first ones make what the matrix keeps
                (exact if spmm.draws is None else weighing if turn % 8 == 1 else usual).append(took)
    spmm.draws, sampled_gradients.EVERY = None, every
    each = statistics.median(usual)
    return statistics.median(exact) / (each + (statistics.median(weighing) - each) / every)


def power_laws(turns):
    """The gains on graphs of each size."""
    khop.sparse.patch()
    for nodes, degree in POWER_LAWS:
        gains = []
        for exponent, skewed in itertools.product((1.6, 2.5), ((1, 0), (0, 1), (1, 1))):
            s = spmm.made_of_edges(nodes, nodes, *(
                given.ends(nodes, nodes * degree, exponent if of else None, seed) for seed, of in enumerate(skewed)))
            values = torch.rand(s.edges, 1)
            for width, (v, new) in itertools.product((64, 128, 256), ((None, False), (values, False), (values, True))):
                gains.append(gain(s, v, new, torch.randn(nodes, width), turns))
        some = [g for g in gains if g]
        yield (f"| {nodes:,} | {degree} | {len(some)} of {len(gains)} | {statistics.geometric_mean(some):.2f} | "
               f"{min(some):.2f} |")
    khop.sparse.unpatch()


def shown(rows):
    """All rows, each printed as it comes."""
    found = []
    for row in rows:
        found.append(row)
        print(row, flush=True)
    return found


def options_of_draws(args):
    """What the page says of backward_budget."""
    lost = shown(f"| {' - '.join(map(str, widths))} | {'all' if labelled == 1 else 'a tenth'} | "
                 f"{' | '.join(errors(widths, labelled, 20))} |" for widths, labelled in MODELS)
    gains = shown(power_laws(args.rounds + 6))
    return section.wrapped(f"""Three GCN layers, {NODES:,} nodes of {DEGREE} edges, `backward_budget={SHARE}`: relative
        errors of the gradients of the layers' weights, the first one's first, 20 draws.""") + f"""

| columns | labelled | equal shares | shares by layer |
|---|---|---|---|
{chr(10).join(lost)}

""" + section.wrapped(f"""Backward passes through three sums over power-law graphs, exponents 1.6 and 2.5 of targets,
        sources or both, 64, 128 and 256 columns, without values, with kept and new ones: how many times as long exact
        gradients take as those with shares by layer, with a {sampled_gradients.EVERY}th of a pass that weighs rows;
        medians in turns.""") + f"""

| nodes | mean degree | drawn | geometric mean | least |
|---|---|---|---|---|
{chr(10).join(gains)}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path, help="the page to write")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = shown(attention(args.rounds))
    text = section.wrapped(f"""`bench/ops/layers.py` {where.here()}, torch {torch.__version__}: a step of `GATConv` with
        `patch(reassociate=True)`, ms, and how many times as long PyG takes, and `patch()`; medians of {args.rounds}
        turns, one thread.""") + f"""

| sources | targets | edges | features | heads | ms | PyG | `patch()` |
|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

""" + options_of_draws(args)
    if args.out:
        section.put(args.out, "### Options of patch by layer", text)
    print(text)


main()
