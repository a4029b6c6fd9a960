#!/usr/bin/env python3
"""Measures features larger than memory: khop --residence disk, khop mapped and numpy.memmap, in one memory control group, in turns.

It makes a graph whose features are --times as large as the group's memory, caps a control group (version 1 or 2; needs root), and loads an
epoch by each way, after one to warm up, with the page cache dropped before. Then it compares what was read with what `khop plan` simulates
for other policies, and requests a second with fio (Debian's package) on the same file, at the same depth and mean size. Disk space: the
features and a tenth more, under --folder, removed at the end unless --keep.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTH = 128  # float32: rows of 512 bytes

MEMMAP = """
import json, sys, time
import numpy as np
sys.path.insert(0, sys.argv[1])
import khop
path, seeds, fanouts, binary, epochs = sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), sys.argv[5], int(sys.argv[6])
manifest = json.load(open(path + "/dataset.json"))["content"]
part, = next(c for c in manifest["columns"] if c["name"] == "feature")["parts"]
x = np.memmap(path + "/" + part["path"], dtype=np.float32, mode="r", offset=part["body_offset"], shape=(part["rows"], %d))
with khop.Loader(path, fanouts=fanouts, seeds=seeds, shuffle=True, node_columns=[], seed_columns=[], framework="numpy", binary=binary,
                 index_dtype="int32") as loader:
    for epoch in range(epochs):
        begin, rows = time.perf_counter(), 0
        for batch in loader:
            rows += len(x[batch.n_id])
        print(json.dumps({"seconds": time.perf_counter() - begin, "rows": rows, "batches": len(loader)}), flush=True)
""" % WIDTH


class Group:
    """A memory control group with a limit, in which commands run."""

    def __init__(self, limit: int) -> None:
        self.v1 = pathlib.Path("/sys/fs/cgroup/memory").is_dir()
        self.path = pathlib.Path("/sys/fs/cgroup/memory" if self.v1 else "/sys/fs/cgroup") / f"khop-bench-disk-{os.getpid()}"
        self.path.mkdir()
        if self.v1:
            (self.path / "memory.limit_in_bytes").write_text(str(limit))
            (self.path / "memory.swappiness").write_text("0")
        else:
            (self.path / "memory.max").write_text(str(limit))
            (self.path / "memory.swap.max").write_text("0")

    def run(self, command: list[str]) -> str:
        tasks = self.path / ("tasks" if self.v1 else "cgroup.procs")
        subprocess.run(["sync"], check=True)
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: tasks.write_text(str(os.getpid())))
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout

    def kills(self) -> int:
        text = (self.path / ("memory.oom_control" if self.v1 else "memory.events")).read_text()
        return int(next((line.split()[1] for line in text.splitlines() if line.startswith("oom_kill ")), 0))

    def close(self) -> None:
        for _ in range(100):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)


def fio(path: pathlib.Path, size: int, depth: int, seconds: int) -> float:
    """Requests a second of fio, at random places of a file."""
    if shutil.which("fio") is None:
        return 0.0
    out = subprocess.run(
        ["fio", "--name=read", f"--filename={path}", "--readonly", "--rw=randread", "--direct=1", "--ioengine=io_uring", "--norandommap",
         "--fixedbufs=1", "--registerfiles=1", f"--bs={size}", f"--iodepth={depth}", f"--runtime={seconds}", "--time_based", "--output-format=json"],
        check=True, capture_output=True, text=True).stdout
    return float(json.loads(out[out.index("{"):])["jobs"][0]["read"]["iops"])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--memory", type=int, default=2000, help="of the control group, MB")
    p.add_argument("--times", type=float, default=3, help="features are so many times as large")
    p.add_argument("--cache", type=int, default=0, help="--cache-bytes of khop, MB; 0: two fifths of the group")
    p.add_argument("--batches", type=int, default=100, help="of an epoch")
    p.add_argument("--lookahead", type=int, default=256)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--fanouts", default="15,10,5")
    p.add_argument("--folder", default=os.environ.get("KHOP_BENCH_DIR", str(ROOT / ".bench")) + "/disk")
    p.add_argument("--json", help="write figures there")
    p.add_argument("--keep", action="store_true")
    o = p.parse_args()
    folder = pathlib.Path(o.folder)
    folder.mkdir(parents=True, exist_ok=True)
    nodes = int(o.memory * 1e6 * o.times / (4 * WIDTH))
    cache = (o.cache or o.memory * 2 // 5) * 10**6
    khop, data, seeds = folder / "khop", folder / f"rmat-{nodes}", folder / "seeds.txt"
    subprocess.run(["go", "build", "-o", khop, "./cmd/khop"], cwd=ROOT, check=True)
    if not data.exists():
        subprocess.run([khop, "generate", "rmat", data, "--nodes", str(nodes), "--edges", str(10 * nodes), "--features", str(WIDTH), "--classes",
                        "-1"], check=True)
    draw = random.Random(1)
    seeds.write_text("".join(f"{draw.randrange(nodes)}\n" for _ in range(1024 * o.batches)))
    common = ["--fanouts", o.fanouts, "--seeds", f"@{seeds}", "--shuffle"]
    on_disk = ["--residence", "disk", "--cache-bytes", str(cache), "--lookahead", str(o.lookahead)]
    ways = {
        "khop disk": [str(khop), "bench", str(data), *common, *on_disk],
        "khop mapped": [str(khop), "bench", str(data), *common],
        "numpy.memmap": [sys.executable, "-c", MEMMAP, str(ROOT / "integrations/python/src"), str(data), f"@{seeds}",
                         json.dumps([int(k) for k in o.fanouts.split(",")]), str(khop), "2"],
    }
    result: dict = {"memory": o.memory * 10**6, "feature_bytes": nodes * 4 * WIDTH, "cache_bytes": cache, "batches": o.batches,
                    "lookahead": o.lookahead, "fanouts": o.fanouts, "seconds": {name: [] for name in ways}, "bench": []}
    group = Group(o.memory * 10**6)
    try:
        for _ in range(o.rounds):
            for name, command in ways.items():
                if name == "numpy.memmap":
                    seconds = json.loads(group.run(command).splitlines()[-1])["seconds"]
                else:
                    got = json.loads(group.run([*command, "--warmup", str(o.batches), "--batches", str(o.batches), "--no-memcpy", "--json"]))
                    seconds = got["seconds"]
                    if got["on_disk"]:
                        result["bench"].append(got)
                result["seconds"][name].append(seconds)
                print(f"{name}: an epoch in {seconds:.2f} s", flush=True)
        result["oom_kills"] = group.kills()
    finally:
        group.close()
    plan = json.loads(subprocess.run([khop, "plan", data, *common, *on_disk, "--json"], check=True, capture_output=True, text=True).stdout)
    at = next(c for c in plan["caches"] if c["cache_bytes"] == cache)
    result["plan"] = {x["policy"]: {"misses": x["misses"], "requests": x["requests"], "bytes": x["bytes"]} for x in at["policies"]}
    got = result["bench"][-1]
    d = got["on_disk"]
    size = max(round(d["bytes"] / d["requests"] / 4096), 1) * 4096
    result["fio_size"], result["khop_requests"] = size, d["requests"] / got["seconds"]
    result["fio_requests"] = fio(data / "nodes/n0/feature.arrow", size, d["probe"]["depth"], 5)
    report(result)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(result, indent=1) + "\n")
    if not o.keep:
        shutil.rmtree(data)


def report(r: dict) -> None:
    """Prints what was found."""
    best = {name: min(s) for name, s in r["seconds"].items()}
    print(f"\n{r['feature_bytes'] / 1e9:.1f} GB of features in {r['memory'] / 1e9:.1f} GB of memory, cache {r['cache_bytes'] / 1e9:.2f} GB; "
          f"kills for memory: {r['oom_kills']}")
    for name, s in best.items():
        print(f"  {name:14} {s:8.2f} s an epoch, {s / best['khop disk']:.2f} times khop disk")
    d = r["bench"][-1]["on_disk"]
    print(f"  missed {100 * d['misses'] / d['rows']:.2f} % of {d['rows']} rows; " +
          ", ".join(f"{name} {100 * x['misses'] / d['rows']:.2f} %" for name, x in r["plan"].items()) + " simulated")
    print(f"  {d['requests']} requests, {d['bytes'] / 1e9:.2f} GB read, {100 * d['useful'] / max(d['bytes'], 1):.1f} % of it rows asked for; " +
          ", ".join(f"{name} {x['requests']}" for name, x in r["plan"].items()) + " requests simulated")
    share = f", {100 * r['khop_requests'] / r['fio_requests']:.0f} %" if r["fio_requests"] else ""
    print(f"  {r['khop_requests']:.0f} requests/s of {r['fio_size']} bytes in the mean, fio {r['fio_requests']:.0f}{share}")


if __name__ == "__main__":
    main()
