"""Rows by khop.unified beside torch.index_select, in turns: python bench/unified/gather.py [--rows N] [--width W]

Ids are drawn anew for each call. "new" is what x = table[ids] takes, with the memory for x; "out" writes to memory that
is there. The copy at the end is the limit: as many bytes in order, which a gather at random can only approach.
"""
import argparse
import statistics
import time

import torch

import khop


def timed(f, ids):
    began = time.perf_counter()
    f(ids)
    return time.perf_counter() - began


def compare(table, u, count, rounds):
    """Seconds of each way, a list a way. No call finds rows in a cache that the one before has read.

    A way is called a few times in a row and the first is left out: torch's threads spin for some milliseconds after a
    call, on the cores that the next would have.
    """
    width = table.shape[1]
    out, told = torch.empty(count, width), {}
    flat, copy = table.view(-1)[:count * width], torch.empty(count * width)
    ways = {
        "torch, new": lambda ids: torch.index_select(table, 0, ids),
        "khop, new": lambda ids: torch.index_select(u, 0, ids),
        "torch, out": lambda ids: torch.index_select(table, 0, ids, out=out),
        "khop, out": lambda ids: torch.index_select(u, 0, ids, out=out),
        "copy": lambda ids: copy.copy_(flat),
    }
    for _ in range(rounds):
        for name, f in ways.items():
            draws = [torch.randint(0, len(table), (count,)) for _ in range(5)]
            told.setdefault(name, []).extend([timed(f, ids) for ids in draws][1:])
    ids = draws[0]
    assert torch.equal(torch.index_select(table, 0, ids), torch.index_select(u, 0, ids))
    return told


def spread(seconds):
    low, middle, high = statistics.quantiles(seconds, n=10)[0], statistics.median(seconds), statistics.quantiles(
        seconds, n=10)[-1]
    return f"{middle * 1e3:.3g} ({low * 1e3:.3g} to {high * 1e3:.3g})"


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--rows", type=int, default=2_000_000, help="of the table")
    flags.add_argument("--width", type=int, default=100, help="floats of a row")
    flags.add_argument("--counts", type=int, nargs="+", default=[1000, 10_000, 100_000, 400_000])
    flags.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    flags.add_argument("--rounds", type=int, default=7)
    args = flags.parse_args()
    torch.manual_seed(1)
    table = torch.rand(args.rows, args.width)
    u = khop.unified(table)
    print(f"torch {torch.__version__}, khop {khop.__version__}; rows of {4 * args.width} bytes, of a table of "
          f"{table.numel() * 4 / 1e6:.0f} MB; milliseconds, medians of {4 * args.rounds} calls (10th to 90th "
          "percentile)\n")
    print("| rows | threads | torch, new | khop, new | ratio | torch, out | khop, out | ratio | copy |")
    print("|---|---|---|---|---|---|---|---|---|")
    for count in args.counts:
        for threads in args.threads:
            torch.set_num_threads(threads)
            told = compare(table, u, count, args.rounds)
            cells = [f"{count:,}", str(threads)]
            for kind in ("new", "out"):
                cells += [spread(told[f"torch, {kind}"]), spread(told[f"khop, {kind}"])]
                ways = [statistics.median(told[f"{of}, {kind}"]) for of in ("torch", "khop")]
                cells.append(f"**{ways[0] / ways[1]:.2f}**")
            print("| " + " | ".join([*cells, spread(told["copy"])]) + " |", flush=True)


if __name__ == "__main__":
    main()
