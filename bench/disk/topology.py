#!/usr/bin/env python3
"""Measures a topology larger than memory: khop --residence disk beside mapped files, in one memory control group, in
turns.

It makes a graph without features whose indices are --times as large as the group's memory, and loads --batches batches
by each way, after as many to warm up, with the page cache dropped before. Mapped files are read with Linux's default
read-ahead of 128 KiB, and with none, which is what MADV_RANDOM does; and with none by as many workers as khop takes for
a topology on disk. Needs root. Nothing else may use the disk meanwhile: its read-ahead is changed until the end.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess

from run import ROOT, Group, ReadAhead


def reads(folder: pathlib.Path) -> tuple[int, int]:
    """Requests and bytes that the disk of a folder has read."""
    device = os.stat(folder).st_dev
    for line in open("/proc/diskstats"):
        f = line.split()
        if (int(f[0]), int(f[1])) == (os.major(device), os.minor(device)):
            return int(f[3]), int(f[5]) * 512
    return 0, 0


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--memory", type=int, default=450, help="of the control group, MB")
    p.add_argument("--edges", type=int, default=200_000_000)
    p.add_argument("--nodes", type=int, default=8_000_000)
    p.add_argument("--cache", type=int, default=200, help="--cache-bytes of khop, MB")
    p.add_argument("--batches", type=int, default=60)
    p.add_argument("--slow", type=int, default=6, help="batches with read-ahead")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--sampler", nargs="*", default=["--fanouts", "10,5"])
    p.add_argument("--folder", default=os.environ.get("KHOP_BENCH_DIR", str(ROOT / ".bench")) + "/disk")
    p.add_argument("--data", help="a dataset that is there")
    p.add_argument("--json", help="write figures there")
    o = p.parse_args()
    folder = pathlib.Path(o.folder)
    folder.mkdir(parents=True, exist_ok=True)
    khop, seeds = folder / "khop", folder / "seeds.txt"
    data = pathlib.Path(o.data) if o.data else folder / f"topology-{o.nodes}-{o.edges}"
    subprocess.run(["go", "build", "-o", khop, "./cmd/khop"], cwd=ROOT, check=True)
    if not data.exists():
        subprocess.run([khop, "generate", "rmat", data, "--nodes", str(o.nodes), "--edges", str(o.edges), "--features",
                        "0", "--classes", "-1"],
                       check=True)
    draw = random.Random(1)
    seeds.write_text("".join(f"{draw.randrange(o.nodes)}\n" for _ in range(1024 * 2 * o.batches)))
    common = [str(khop), "bench", str(data), *o.sampler, "--seeds", f"@{seeds}", "--shuffle", "--no-features",
              "--no-memcpy", "--json"]
    workers = str(2 * (os.cpu_count() or 1) + 2)
    ways = {
        "mapped, read-ahead 128 KiB": (128, o.slow, []),
        "mapped, no read-ahead": (0, o.batches, []),
        f"mapped, no read-ahead, {workers} workers": (0, o.batches, ["--workers", workers]),
        "disk": (128, o.batches, ["--residence", "disk", "--cache-bytes", f"{o.cache}MB"]),
    }
    rates: dict = {name: [] for name in ways}
    last: dict = {}
    group, ahead = Group(o.memory * 10**6), ReadAhead(folder)
    try:
        for _ in range(o.rounds):
            for name, (kib, n, options) in ways.items():
                ahead.path.write_text(str(kib))
                before = reads(folder)
                got = json.loads(group.run([*common, *options, "--warmup", str(n), "--batches", str(n)]))
                got["disk_reads"] = [a - b for a, b in zip(reads(folder), before)]
                rates[name].append(got["batches_per_s"])
                last[name] = got
                print(f"{name}: {got['batches_per_s']:.2f} batches/s", flush=True)
        kills = group.kills()
    finally:
        ahead.close()
        group.close()
        if not o.data:
            shutil.rmtree(data, ignore_errors=True)
    disk = statistics.median(rates["disk"])
    print(f"\n{4 * o.edges / 1e6:.0f} MB of indices, {8 * o.nodes / 1e6:.0f} of indptr in {o.memory} MB of memory, "
          f"{' '.join(o.sampler)}, batches of "
          f"1,024 seeds; kills for memory: {kills}; load {os.getloadavg()[0]:.1f}")
    for name, r in rates.items():
        m, got = statistics.median(r), last[name]
        print(f"  {name:38} {m:7.2f} batches/s ({min(r):.2f} to {max(r):.2f}), disk {disk / m:.2f} times as fast; a "
              f"batch: {got['sample_ms']:.1f} ms of "
              f"sampling, {got['disk_ms']:.1f} of waiting for the disk; disk, start and warm-up included: "
              f"{got['disk_reads'][0]} requests, "
              f"{got['disk_reads'][1] / 1e6:.0f} MB")
    t = last["disk"]["topology_on_disk"]
    print(f"  khop asked for {t['wanted']} pages, read {t['read']} in {t['requests']} requests, "
          f"{t['bytes'] / 1e6:.0f} MB")
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps({"rates": rates, "last": last, "kills": kills}, indent=1) + "\n")


if __name__ == "__main__":
    main()
