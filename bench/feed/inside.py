"""What a batch costs to hand over, and how fast batches come, from a server and within the process: "make
bench-inside".

    inside.py [--dataset PATH] [--rounds 5] [--batches 1000] [--json FILE]

Each round measures both ways in turn, each in an interpreter of its own:

ready      next() for a batch that was ready: microseconds, median and tenth; the pause before makes sure that it is
ready, x   the same, and the arrays that a training loop asks for: features, labels, ids, blocks
loading    microseconds a batch while the loader makes them as fast as it can
processor  microseconds of all processors together that such a batch takes, of both processes
memory     the most that the process had, with its server's; pages that both map count once
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
WAYS = ("server", "inside")


def memory(pid):
    """The most that a process had, in bytes, and what of it now are shared pages of a ring."""
    with open(f"/proc/{pid}/status") as f:
        lines = dict(line.split(":", 1) for line in f)
    return int(lines["VmHWM"].split()[0]) * 1024, int(lines["RssShmem"].split()[0]) * 1024


def processor(loader):
    """Seconds that processors have spent for this process and its server."""
    total = 0
    for pid in filter(None, (os.getpid(), loader.server_pid)):
        with open(f"/proc/{pid}/stat") as f:
            user, system = f.read().rpartition(")")[2].split()[11:13]
        total += int(user) + int(system)
    return total / os.sysconf("SC_CLK_TCK")


def arrays(batch):
    batch.x, batch.y, batch.n_id
    for block in batch.blocks:
        block.indptr, block.indices


def measure(dataset, way, batches):
    sys.path.insert(0, os.path.join(ROOT, "integrations", "python", "src"))
    import khop

    loader = khop.Loader(dataset, [4, 3], frontier="all", batch_size=1024, shuffle=True, seed=1, seeds="all",
                         resident=True, process=way,
                         framework="numpy", hold=16)
    result = {"bytes": sum(a.nbytes for a in (lambda s: [s.numpy(n)[0]
                                                         for n in s.names()])(next(iter(loader))._arrays()))}
    for name, use in (("ready", lambda batch: None), ("ready_x", arrays)):
        times = []
        while len(times) < 400:
            source = iter(loader)
            batch = next(source)
            use(batch)
            time.sleep(0.1)  # the loader fills all slots that it may
            for _ in range(10):
                begin = time.perf_counter_ns()
                batch = next(source)
                use(batch)
                times.append((time.perf_counter_ns() - begin) / 1000)
            source.close()
        times.sort()
        result[name], result[name + "_10"] = times[len(times) // 2], times[len(times) // 10]
    begin, spent, n = time.perf_counter(), processor(loader), 0
    while n < batches:
        for batch in loader:
            arrays(batch)
            n += 1
            if n == batches:
                break
    result["loading"] = (time.perf_counter() - begin) / batches * 1e6
    result["processor"] = (processor(loader) - spent) / batches * 1e6
    most, shared = memory(os.getpid())
    result["memory"] = most + (memory(loader.server_pid)[0] - shared if loader.server_pid else 0)
    loader.close()
    print(json.dumps(result))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--dataset", help="a dataset with features of about 100 columns; generated unless given")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--batches", type=int, default=1000)
    options.add_argument("--nodes", type=int, default=1_000_000, help="of the dataset that is generated")
    options.add_argument("--json", help="file for the figures")
    options.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.measure:
        return measure(given.dataset, given.measure, given.batches)
    work = os.path.join(ROOT, ".bench", "inside")
    os.makedirs(work, exist_ok=True)
    khop, library = os.path.join(work, "khop"), os.path.join(work, "libkhop.so")
    subprocess.run(["go", "build", "-o", khop, "./cmd/khop"], cwd=ROOT, check=True)
    subprocess.run([os.path.join(ROOT, "tools", "libkhop.sh"), library], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)
    dataset = given.dataset or os.path.join(work, f"sbm-{given.nodes}.khop")
    if not os.path.exists(dataset):
        subprocess.run([khop, "generate", "sbm", dataset, "--nodes", str(given.nodes), "--edges",
                        str(10 * given.nodes), "--features", "100"],
                       check=True)
    figures = {way: [] for way in WAYS}
    for _ in range(given.rounds):
        for way in WAYS:
            command = [sys.executable, __file__, "--measure", way, "--dataset", dataset, "--batches",
                       str(given.batches)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE,
                                  env={**os.environ, "KHOP_BIN": khop, "KHOP_LIBRARY": library})
            figures[way].append(json.loads(done.stdout))
    print(f"{given.rounds} rounds, batches of {statistics.median(r['bytes'] for r in figures['inside']) / 1e6:.1f} "
          f"MB; median (least to most) of rounds")
    for key, unit, scale in (("ready", "us", 1), ("ready_10", "us", 1), ("ready_x", "us", 1), ("ready_x_10", "us", 1),
                             ("loading", "us", 1),
                             ("processor", "us", 1), ("memory", "MB", 1e-6)):
        cells = []
        for way in WAYS:
            values = [r[key] * scale for r in figures[way]]
            cells.append(f"{way} {statistics.median(values):8.1f} ({min(values):.1f} to {max(values):.1f})")
        print(f"{key:12} {unit}  " + "   ".join(cells))
    if given.json:
        with open(given.json, "w") as f:
            json.dump(figures, f, indent=1)


if __name__ == "__main__":
    main()
