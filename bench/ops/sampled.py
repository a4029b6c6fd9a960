#!/usr/bin/env python3
"""Measures gradients with khop.sparse.patch(backward_budget=0.1) beside exact ones, on graphs whose degrees follow a
power law: by the rule that chooses which are drawn, in turns, by processor time of one thread.

    make library
    PYTHONPATH=integrations/python/src KHOP_LIBRARY=dist/libkhop.so $PYTHON bench/ops/sampled.py
    --out docs/results/ops.md

Exponents 1.6 to 3 of the degrees of targets, of sources, and of both; sums without values and with values, which are
the same in each product or new in each. Takes 8 minutes and 3 GB. Needs torch.
"""
import argparse
import itertools
import pathlib
import statistics
import sys
import time

import torch

import khop.sparse
from khop._ops import spmm
from khop._ops.sampled_gradients import Draws

import given
import where

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import section

SIZES = [(2_000, 100), (2_000, 800), (8_000, 400), (32_000, 150), (250_000, 12)]  # nodes, mean degree
EXPONENTS, WIDTHS, SHARE = (1.6, 2.0, 2.5, 3.0), (16, 64, 128, 256), 0.1


def seconds(run):
    start = time.process_time()
    run()
    return time.process_time() - start


def ratio(s, values, stamp, width, draws, rounds):
    """How many times as long the exact gradient takes, where the other one is drawn; else None: it is the same one."""
    dy, times = torch.randn(s.rows, width), {None: [], draws: []}
    if not draws.takes(s, False, spmm.SUM, values, stamp, dy):
        return None
    for turn, (spmm.draws, of) in itertools.product(range(rounds + 1), times.items()):
        took = seconds(lambda: spmm._gradient(s, False, spmm.SUM, stamp, values, dy))
        if turn:
            of.append(took)
    spmm.draws = None
    return min(times[None]) / min(times[draws])


def settings(nodes, degree):
    """The ratio of each graph of a size, by width."""
    for exponent, (to, of) in itertools.product(EXPONENTS, ((1, 0), (0, 1), (1, 1))):
        targets, sources = (given.ends(nodes, nodes * degree, exponent if skewed else None, seed)
                            for seed, skewed in enumerate((to, of)))
        s = spmm.made_of_edges(nodes, nodes, targets, sources)
        for width in WIDTHS:
            values = torch.rand(s.edges, 1)
            for v, stamp in ((None, 0), (values, s.stamp(values)), (values, 0)):
                draws = Draws(SHARE, 1, khop.sparse.SAMPLED_GAIN)
                yield width, ratio(s, v, stamp, width, draws, 9 if s.edges * width < 1 << 27 else 5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="the page to write")
    args = parser.parse_args()
    khop.sparse.patch()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    rows, drawn = [], []
    for nodes, degree in SIZES:
        found, cells = list(settings(nodes, degree)), []
        for width in WIDTHS:
            of = [r for w, r in found if w == width]
            some = [r for r in of if r]
            cells.append(f"{statistics.geometric_mean(some):.2f} ({min(some):.2f}), {len(some)} of {len(of)}" if some
                         else f"0 of {len(of)}")
            drawn += some
        rows.append(f"| {nodes:,} | {degree} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    text = section.wrapped(f"""`bench/ops/sampled.py` {where.here()}: gradients of sums with
        `khop.sparse.patch(backward_budget={SHARE})` beside exact ones, one thread, by processor time, least of 5 to 9
        in turns; degrees of targets, sources or both by power laws of exponents 1.6 to 3, no values, kept or new ones.
        Cells: how many times as long the exact gradient takes where one is drawn, geometric mean (least), and how many
        are.""")
    text += "\n\n" + "\n".join([
        f"| nodes | mean degree | {' | '.join(f'{w} columns' for w in WIDTHS)} |", "|---" * (2 + len(WIDTHS)) + "|",
        *rows]) + "\n\n" + section.wrapped(f"""`patch` predicts both times of degrees and columns, and draws where
        that is {khop.sparse.SAMPLED_GAIN} times as fast or more. Where it draws, the least is {min(drawn):.2f};
        elsewhere it computes the exact gradient.""") + "\n"
    if args.out:
        section.put(args.out, "### Which gradients are drawn", text)
    print(text)


main()
