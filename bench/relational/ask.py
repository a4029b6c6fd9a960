"""What one answer costs beside its sampling: khop.Sampler, alone and asked by several threads.

    python bench/relational/ask.py [DATASET] [--seeds 512] [--fanouts 128,64] [--requests 400] [--threads 1,4]

Each request has other seeds. It prints, by number of threads, the median and the 99th percentile of a request's time in
Python, the median of the processor time of its thread, and the medians of sampling and gathering, which khop measures:
all in microseconds. With fan-outs 0,0 nothing is sampled, which leaves the other costs of an answer. Without
DATASET it makes a graph of a million edges. It needs the khop package with its shared library
(PYTHONPATH=integrations/python/src, KHOP_BIN, KHOP_LIBRARY).
"""
import argparse
import subprocess
import os
import tempfile
import threading
import time

import numpy as np

import khop


def generated(folder):
    """A graph, where none is given."""
    path = os.path.join(folder, "sbm.khop")
    subprocess.run([os.environ["KHOP_BIN"], "generate", "sbm", path, "--nodes", "100000", "--edges", "1000000",
                    "--features", "64", "--classes", "5"], check=True, stdout=subprocess.DEVNULL)
    return path


def ask(sampler, requests, times):
    """Asks, and notes what each took, in nanoseconds: of the clock, and of the processor."""
    for ids in requests:
        begin = time.perf_counter_ns(), time.thread_time_ns()
        answer = sampler.sample(ids)
        times.append((time.perf_counter_ns() - begin[0], time.thread_time_ns() - begin[1]))
        answer.release()


def measure(sampler, requests, threads):
    times = [[] for _ in range(threads)]
    running = [threading.Thread(target=ask, args=(sampler, requests[t::threads], times[t])) for t in range(threads)]
    begin = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    seconds = time.perf_counter() - begin
    clock, processor = np.concatenate(times).T / 1000
    inner = [sampler.statistics()[part]["p50_ns"] / 1000 for part in ("sample", "gather")]
    print(f"{threads} threads: p50 {np.median(clock):,.0f}, p99 {np.percentile(clock, 99):,.0f}, processor p50 "
          f"{np.median(processor):,.0f}, sampling p50 {inner[0]:,.0f}, gathering p50 {inner[1]:,.0f}, "
          f"{len(clock) / seconds:,.0f} requests a second")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", nargs="?")
    parser.add_argument("--seeds", type=int, default=512)
    parser.add_argument("--fanouts", default="128,64")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--threads", default="1,4")
    how = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = how.dataset or generated(folder)
        threads = list(map(int, how.threads.split(",")))
        for n in threads:
            with khop.Sampler(path, fanouts=list(map(int, how.fanouts.split(","))), batch_size=how.seeds,
                              workers=max(threads), framework="numpy") as sampler:
                nodes = sampler.about["node_types"][0]["count"]
                draw = np.random.default_rng(7)
                requests = [draw.integers(0, nodes, how.seeds) for _ in range(how.requests)]
                ask(sampler, requests[:20], [])
                measure(sampler, requests, n)


if __name__ == "__main__":
    main()
