"""The graphs of the contests: streams of events, generated or real, and real graphs without times.

    python bench/sequences/graphs.py wiki WORK              # of the shape of SNAP's wiki-talk-temporal, 0.6 GB
    python bench/sequences/graphs.py college WORK FILE      # CollegeMsg.txt of SNAP
    python bench/sequences/graphs.py cnr WORK FILE          # a CSR of NumPy with indptr, indices
    python bench/sequences/graphs.py ddi WORK FILE          # edge.csv.gz of ogbl-ddi

A stream WORK/NAME has source.npy, target.npy and time.npy (int64, ascending times, ids from 0), and NAME.khop, in which
each event i is an edge each way of the time i: an event's place in the stream decides which batches see it, whatever
its time of the clock. A graph without times has only NAME.khop, with each edge both ways.
"""
import pathlib
import sys

import numpy as np

import khop

NODES, EVENTS = 1_140_149, 7_833_140


def wiki(seed=0):
    """Sources and targets are drawn by rank^-0.95 and rank^-0.75, among all nodes in two orders; one event in five
    answers or repeats one of the 1,000 before it. Nobody writes to themself. Gaps of time are exponential."""
    draw = np.random.default_rng(seed)

    def ends(power):
        cumulative = np.cumsum(np.arange(1.0, NODES + 1) ** -power)
        ranks = np.searchsorted(cumulative, draw.random(EVENTS) * cumulative[-1]).clip(max=NODES - 1)
        return draw.permutation(NODES)[ranks]

    source, target = ends(.95), ends(.75)
    again = np.flatnonzero(draw.random(EVENTS) < .2)
    again = again[again > 1000]
    before = again - draw.integers(1, 1001, len(again))
    answers = draw.random(len(again)) < .5
    pairs = np.where(answers, target[before], source[before]), np.where(answers, source[before], target[before])
    source[again], target[again] = pairs
    target = np.where(source == target, (target + 1) % NODES, target)
    return source, target, np.cumsum(draw.exponential(25.0, EVENTS)).astype(np.int64)


def college(file):
    source, target, time = np.loadtxt(file, dtype=np.int64).T
    order = np.argsort(time, kind="stable")
    return source[order] - 1, target[order] - 1, time[order]


def cnr(file):
    arrays = np.load(file)
    nodes = np.arange(len(arrays["indptr"]) - 1)
    return np.repeat(nodes, np.diff(arrays["indptr"])), arrays["indices"].astype(np.int64)


def ddi(file):
    return np.loadtxt(file, dtype=np.int64, delimiter=",").T


def main(name, work, *rest):
    folder = pathlib.Path(work, name)
    folder.mkdir(parents=True, exist_ok=True)
    source, target, *time = {"wiki": wiki, "college": college, "cnr": cnr, "ddi": ddi}[name](*rest)
    edges = np.stack([np.concatenate([source, target]), np.concatenate([target, source])])
    nodes = int(edges.max()) + 1
    if time:
        for stem, array in zip(("source", "target", "time"), (source, target, *time)):
            np.save(folder / f"{stem}.npy", array)
        given = {"edge_index": edges, "time": np.tile(np.arange(len(source)), 2), "num_nodes": nodes}
        khop.write(f"{folder}.khop", given, force=True, by_time=True)
    else:
        khop.write(f"{folder}.khop", {"edge_index": edges, "num_nodes": nodes}, force=True, dedupe="first")
    degree = np.bincount(edges[1], minlength=nodes)
    print(f"{name}: {nodes:,} nodes, {len(source):,} {'events' if time else 'edges'}, in-degree median "
          f"{np.median(degree):.0f}, 99 % {np.percentile(degree, 99):.0f}, greatest {degree.max():,}; "
          f"{(source == target).sum():,} loops")


if __name__ == "__main__":
    main(*sys.argv[1:])
