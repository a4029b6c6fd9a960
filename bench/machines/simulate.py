#!/usr/bin/env python3
"""A conversion and a training on many machines, simulated: tasks of drawn sizes straggle, fail and are started twice.

    simulate.py [--svg FILE]

Prints the tables of docs/results/machines.md, "On paper". Rates are those of one machine, measured where the source is
named;
assumptions are named so. Nothing here was run on more than one machine.
"""
import argparse
import heapq
import random
from dataclasses import dataclass, field

GB, TB = 1e9, 1e12
SLOW = 1.5  # times its cost: who has taken as long is started again
DRAWS = 3


@dataclass
class Machine:
    """What a machine does. 16 cores, two NVMe, 25 Gbit/s: a common size for rent."""

    cores: int = 16
    store: float = 1.37 * GB   # bytes/s from an object store: minio-go, ranges of 8 MiB, 8 in flight (loopback)
    network: float = 3.1 * GB  # assumed: 25 Gbit/s
    disk: float = 1.2 * GB     # bytes/s, both ways: the disk of results/convert.md
    requests: float = 63_000   # random reads/s: results/disk.md
    memory: float = 128 * GB   # assumed
    price: float = 1.5         # assumed: dollars an hour


@dataclass
class Store:
    """An object store, as the large ones state their limits and prices (assumed)."""

    gets: float = 5_500 * 16   # a second: 16 prefixes
    get_price: float = 0.4e-6
    put_price: float = 5e-6


@dataclass(order=True)
class Run:
    """An attempt at a task."""

    end: float
    task: int = field(compare=False)
    start: float = field(compare=False)
    fails: bool = field(compare=False)


def schedule(costs, slots, draw, fail=0.002, straggle=0.02, speculate=True):
    """Tasks of costs (seconds) on slots, longest first, as an engine does it. 2 of 100 attempts take 2 to 8 times as
    long, 2 of 1,000 fail somewhere on the way and begin anew; where nothing waits, the slowest are started twice.
    Returns the wall, the seconds of work and a list of (time, running)."""
    waiting = sorted(range(len(costs)), key=lambda t: costs[t])
    running, copies, done, now, work, line = [], [0] * len(costs), [False] * len(costs), 0.0, 0.0, []
    left = len(costs)

    def begin(task):
        cost = costs[task] * (draw.uniform(2, 8) if draw.random() < straggle else draw.uniform(0.9, 1.15))
        fails = draw.random() < fail
        copies[task] += 1
        heapq.heappush(running, Run(now + cost * (draw.random() if fails else 1), task, now, fails))

    while left:
        while waiting and len(running) < slots:
            begin(waiting.pop())
        if speculate and not waiting and len(running) < slots:
            alone = [(run.start + SLOW * costs[run.task], run.task) for run in running if copies[run.task] == 1]
            for due, task in sorted(alone)[:slots - len(running)]:
                if due <= now:
                    begin(task)
            due = min((due for due, _ in alone if due > now), default=running[0].end)
            if due < running[0].end:
                now = due
                continue
        line.append((now, len(running)))
        run = heapq.heappop(running)
        work += run.end - run.start
        now = run.end
        copies[run.task] -= 1
        if run.fails and not done[run.task] and not copies[run.task]:
            waiting.append(run.task)
        elif not run.fails and not done[run.task]:
            done[run.task], left = True, left - 1
            for other in [r for r in running if r.task == run.task]:
                running.remove(other)
                work += now - other.start
            heapq.heapify(running)
    return now, work, line


def conversion(edges=1e12, nodes=1e10, machines=100, tasks=2_000, ranges=2_000, skew=1.25, m=None, s=None, seed=1,
               cores_a_task=2, **how):
    """Pairs of int64 in a store to a dataset there: read tasks write runs, range tasks merge them."""
    m, s, draw = m or Machine(), s or Store(), random.Random(seed)
    source, id_bytes = 16 * edges, 4 if nodes < 2**31 else 8
    runs, dataset = edges * (id_bytes + 2), edges * id_bytes + 8 * nodes
    cpu = edges * 39.4e-9 * 1.4  # core seconds: results/convert.md, and what tasks may add
    slots = m.cores // cores_a_task

    def seconds(cores, down, up, gets):  # what shares a machine with the other slots
        return max(cores / cores_a_task, (down + up) * slots / min(m.store, m.network),
                   gets * machines * slots / s.gets)

    read = [seconds(cpu / 2 / tasks * f, source / tasks * f, runs / tasks * f, 0)
            for f in (draw.uniform(0.9, 1.1) for _ in range(tasks))]
    sizes = [draw.uniform(2 - skew, skew) for _ in range(ranges)]
    merge = [seconds(cpu / 2 / ranges * f, runs / ranges * f, dataset / ranges * f, tasks) for f in sizes]
    first, work1, line1 = schedule(read, machines * slots, draw, **how)
    second, work2, line2 = schedule(merge, machines * slots, draw, **how)
    commit = 30 + (tasks + ranges) * 0.02  # descriptors read one after another, 20 ms each (assumed)
    wall = first + second + commit
    gets = source / 8e6 + tasks * ranges + runs / 8e6
    puts = (runs + dataset) / 64e6
    return {"read": source + runs, "moved": source + 2 * runs + dataset, "kept": dataset, "runs": runs, "seconds": wall,
            "phases": (first, second, commit), "waste": (work1 + work2) / (sum(read) + sum(merge)) - 1,
            "memory": max(2 * GB, 64e6 * 2 + max(sizes) * nodes / ranges * 8, tasks * 64e3 * 2), "gets": gets,
            "price": wall / 3600 * machines * m.price + gets * s.get_price + puts * s.put_price,
            "lines": (line1, line2)}


def training(edges=1e11, nodes=1e9, row=256, machines=64, seeds=1e7, parameters=1e6, step=0.05, m=None, seed=1,
             lag=0.02):
    """Replicas on NVMe: staged once, then an epoch of batches of 1,024 seeds, fan-outs 15, 10, 5, DDP."""
    m, draw = m or Machine(), random.Random(seed)
    topology, rows = edges * 4 + nodes * 8, nodes * row
    staged = (topology + rows) / min(m.store, m.network, m.disk)
    rows_a_batch, missed = 108_600, 0.0987    # results/disk.md
    picks = 943_000                           # khop 145f875 sampled 71.6 M edges/s, 13.2 ms
    pages = 468_000 / 80 * (15 + 150 + 750) / (10 + 50) / 4  # results/disk.md's pages a batch, by fan-outs, warm
    disk = (rows_a_batch * missed + pages) / m.requests
    sample = picks / 51.7e6 / (m.cores / 2) + 0.018 / (m.cores / 2)  # mapped; and rows
    gradients = (2 * parameters * 4 / m.network + 2 * (machines - 1) * 50e-6) if machines > 1 else 0
    rounds = -(-int(seeds / 1024) // machines)
    batch = max(disk, sample, step)
    total = sum(max(batch * (draw.uniform(1.5, 4) if draw.random() < lag / machines else draw.uniform(0.95, 1.1))
                    for _ in range(machines)) + gradients for _ in range(rounds))
    return {"staged": topology + rows, "all": (topology + rows) * machines, "stage": staged, "rounds": rounds,
            "epoch": total, "disk": disk, "sample": sample, "step": step, "gradients": gradients,
            "wire": 2 * parameters * 4 * rounds * (machines - 1), "rows": rows_a_batch * row * rounds * machines,
            "memory": 0.25 * rows * missed + 8 * nodes + 16 * 2e8,
            "price": (staged + 10 * total) / 3600 * machines * m.price}


def mean(runs):
    """The mean of each figure over some draws."""
    of = {k: sum(r[k] for r in runs) / len(runs) for k, v in runs[0].items() if isinstance(v, (int, float))}
    return {**of, "phases": [sum(p) / len(runs) for p in zip(*(r.get("phases", ()) for r in runs))]}


def hours(seconds):
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def table(head, rows):
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|", flush=True)
    for r in rows:
        print("| " + " | ".join(map(str, r)) + " |")
    print()


def conversions():
    rows = []
    for name, how in {
        "2,000 tasks, 2,000 ranges": {}, "no stragglers, no failures": {"fail": 0, "straggle": 0},
        "no task started twice": {"speculate": False}, "20,000 tasks": {"tasks": 20_000},
        "20,000 tasks and ranges": {"tasks": 20_000, "ranges": 20_000},
        "400 tasks and ranges": {"tasks": 400, "ranges": 400},
        "ranges of equal nodes (10.0 M edges against 2.7 M)": {"skew": 1.58}, "1 of 50 attempts fails": {"fail": 0.02},
    }.items():
        r = mean([conversion(seed=seed, **how) for seed in range(DRAWS)])
        rows.append([name, f"{r['read'] / TB:.0f} TB", f"{r['moved'] / TB:.0f} TB", f"{r['kept'] / TB:.1f} TB",
                     " + ".join(map(hours, r["phases"])), hours(r["seconds"]), f"{r['waste']:.0%}",
                     f"{r['memory'] / GB:.1f} GB", f"{r['gets'] / 1e6:.0f} M", f"{r['price']:.0f} $"])
    table(["conversion", "read", "moved", "kept", "read + merge + commit", "wall", "done in vain", "memory a task",
           "requests", "price"], rows)


def trainings():
    rows = []
    nvme = Machine(requests=400_000, disk=4 * GB)
    for name, how in {
        "64 machines, the disk that was measured": {}, "NVMe of 400,000 reads/s (assumed)": {"m": nvme},
        "the same, one machine": {"m": nvme, "machines": 1}, "the same, 256 machines": {"m": nvme, "machines": 256},
        "a model of 100 M parameters": {"m": nvme, "parameters": 1e8},
    }.items():
        r = mean([training(seed=seed, **how) for seed in range(DRAWS)])
        batch = ", ".join(f"{r[key] * 1e3:.0f}" for key in ("disk", "sample", "step", "gradients"))
        rows.append([name, f"{r['staged'] / TB:.2f} TB", f"{r['all'] / TB:.0f} TB", hours(r["stage"]),
                     hours(r["epoch"]), batch,
                     f"{r['wire'] / TB:.2f} TB", f"{r['rows'] / TB:.2f} TB", f"{r['memory'] / GB:.0f} GB",
                     f"{r['price']:.0f} $"])
    table(["training", "a replica", "all", "staging", "an epoch", "ms a batch: disk, sampling, step, gradients",
           "gradients, an epoch", "rows, were they remote", "memory a machine", "10 epochs"], rows)


def picture(path):
    """Tasks at work over time, of the first conversion with and without starting twice."""
    runs = [conversion(), conversion(speculate=False)]
    far, parts = max(sum(r["phases"]) for r in runs), []
    for i, (r, name) in enumerate(zip(runs, ("started twice where they straggle", "as they come"))):
        at, y = 0.0, 40 + 130 * i
        parts.append(f'<text x="50" y="{y - 8}">tasks at work: {name}</text>')
        for line, wall, colour in zip(r["lines"], r["phases"], ("#4878a8", "#a86848")):
            points = [(at, 0)] + [(at + t, n) for t, n in line[::8]] + [(at + wall, 0)]
            text = " ".join(f"{50 + 700 * t / far:.1f},{y + 90 - n / 800 * 90:.1f}" for t, n in points)
            parts.append(f'<polygon points="{text}" fill="{colour}"/>')
            at += wall
        parts.append(f'<text x="{55 + 700 * at / far:.0f}" y="{y + 88}">{hours(at)}</text>')
        parts.append(f'<line x1="50" y1="{y + 90}" x2="750" y2="{y + 90}" stroke="#666"/>')
    parts += ['<text x="50" y="300" fill="#4878a8">read tasks</text>',
              '<text x="150" y="300" fill="#a86848">range tasks</text>']
    with open(path, "w") as f:
        f.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 310" font-family="sans-serif" '
                'font-size="13">\n<rect width="820" height="310" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--svg")
    args = parser.parse_args()
    conversions()
    trainings()
    if args.svg:
        picture(args.svg)
