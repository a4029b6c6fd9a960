#!/usr/bin/env python3
"""Measures features larger than memory: khop --residence disk, khop mapped, numpy.memmap and GraphBolt, in one memory
control group, in turns.

numpy.memmap is x[n_id] of batches that khop sampled, as PyG's loaders do it; sampling costs it nothing. GraphBolt
samples by its own functions and reads a memory-mapped TorchBasedFeature: DiskBasedFeature came after 2.1, the last
version in the package index. It needs --dgl, a Python with DGL, such as .bench/dgl/bin/python of `make bench-peers`.

It makes a graph whose features are --times as large as the group's memory, caps a control group (version 1 or 2; needs
root), and loads an epoch by each way, after one to warm up, with the page cache dropped before. Then it compares what
was read with what `khop plan` simulates for other policies, and requests a second with fio (Debian's package) on the
same file, at the same depth and mean size. Disk space: the features and a tenth more, under --folder, removed at the
end unless --keep. The slow ways load --slow batches alone, after as many to warm up, and the time of an epoch is scaled
from these.
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
sys.path.insert(0, str(ROOT / "bench"))
import section
WIDTH = 128  # float32: rows of 512 bytes

MEMMAP = """
import json, sys, time
import numpy as np
sys.path.insert(0, sys.argv[1])
import khop
path, seeds, fanouts, binary, most = sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), sys.argv[5], int(sys.argv[6])
manifest = json.load(open(path + "/dataset.json"))["content"]
part, = next(c for c in manifest["columns"] if c["name"] == "feature")["parts"]
x = np.memmap(path + "/" + part["path"], dtype=np.float32, mode="r", offset=part["body_offset"], shape=(part["rows"], \
%d))
with khop.Loader(path, fanouts=fanouts, seeds=seeds, shuffle=True, node_columns=[], seed_columns=[], \
framework="numpy", binary=binary,
                 index_dtype="int32") as loader:
    for epoch in range(2):
        begin, rows = time.perf_counter(), 0
        for batch in loader:
            rows += len(x[batch.n_id])
            if batch.number + 1 == most:
                break
        print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)
""" % WIDTH

GRAPHBOLT = """
import json, sys, time, warnings
warnings.filterwarnings("ignore")
import numpy as np, torch, dgl.graphbolt as gb
path, seeds, fanouts, most = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
manifest = json.load(open(path + "/dataset.json"))["content"]
def column(name, dtype, width=()):
    part, = next(c for c in manifest["columns"] if c["name"] == name)["parts"]
    return torch.from_numpy(np.memmap(path + "/" + part["path"], dtype=dtype, mode="r", offset=part["body_offset"], \
shape=(part["rows"], *width)))
graph = gb.fused_csc_sampling_graph(column("indptr", np.int64), column("indices", np.int32))
feature = gb.TorchBasedFeature(column("feature", np.float32, (%d,)))
seeds = torch.from_numpy(np.random.default_rng(1).permutation(np.loadtxt(seeds, dtype=np.int32)))
def batch(nodes):
    for fanout in fanouts:
        sampled = graph.sample_neighbors(nodes, torch.LongTensor([fanout]), False, None)
        nodes, _ = gb.unique_and_compact_csc_formats(sampled.sampled_csc, nodes)
    return len(feature.read(nodes))
for epoch in range(2):
    begin, rows = time.perf_counter(), 0
    for i in range(most):
        rows += batch(seeds[1024 * i:1024 * (i + 1)])
    print(json.dumps({"seconds": time.perf_counter() - begin, "rows": rows}), flush=True)
""" % WIDTH


class Group:
    """A memory control group with a limit, in which commands run."""

    def __init__(self, limit: int) -> None:
        self.v1 = pathlib.Path("/sys/fs/cgroup/memory").is_dir()
        self.path = pathlib.Path("/sys/fs/cgroup/memory" if self.v1
                                 else "/sys/fs/cgroup") / f"khop-bench-disk-{os.getpid()}"
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
        done = subprocess.run(command, capture_output=True, text=True,
                              preexec_fn=lambda: tasks.write_text(str(os.getpid())))
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


class ReadAhead:
    """Linux's default read-ahead for the disk of a folder: that of some disks of clouds is 4 MiB, which no random fault
    of a page needs."""

    def __init__(self, folder: pathlib.Path) -> None:
        device = os.stat(folder).st_dev
        self.path = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/bdi/read_ahead_kb")
        self.had = self.path.read_text() if self.path.exists() else ""
        if self.had:
            self.path.write_text("128")

    def close(self) -> None:
        if self.had:
            self.path.write_text(self.had)


def fio(path: pathlib.Path, size: int, depth: int, seconds: int) -> float:
    """Requests a second of fio, at random places of a file."""
    if shutil.which("fio") is None:
        return 0.0
    out = subprocess.run(
        ["fio", "--name=read", f"--filename={path}", "--readonly", "--rw=randread", "--direct=1",
         "--ioengine=io_uring", "--norandommap",
         "--fixedbufs=1", "--registerfiles=1", f"--bs={size}", f"--iodepth={depth}", f"--runtime={seconds}",
         "--time_based", "--output-format=json"],
        check=True, capture_output=True, text=True).stdout
    return float(json.loads(out[out.index("{"):])["jobs"][0]["read"]["iops"])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--memory", type=int, default=2000, help="of the control group, MB")
    p.add_argument("--times", type=float, default=3, help="features are so many times as large")
    p.add_argument("--cache", type=int, default=0, help="--cache-bytes of khop, MB; 0: two fifths of the group")
    p.add_argument("--batches", type=int, default=100, help="of an epoch")
    p.add_argument("--slow", type=int, default=3, help="batches of the slow ways")
    p.add_argument("--lookahead", type=int, default=256)
    p.add_argument("--pack", type=int, default=0, help="MB of a temporary file for khop's --pack; 0: not measured")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--fanouts", default="15,10,5")
    p.add_argument("--folder", default=os.environ.get("KHOP_BENCH_DIR", str(ROOT / ".bench")) + "/disk")
    p.add_argument("--dgl", help="a Python with DGL, for GraphBolt")
    p.add_argument("--record", action="store_true", help="write a section of docs/results/disk.md")
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
        subprocess.run([khop, "generate", "rmat", data, "--nodes", str(nodes), "--edges", str(10 * nodes),
                        "--features", str(WIDTH), "--classes",
                        "-1"], check=True)
    draw = random.Random(1)
    seeds.write_text("".join(f"{draw.randrange(nodes)}\n" for _ in range(1024 * o.batches)))
    common = ["--fanouts", o.fanouts, "--seeds", f"@{seeds}", "--shuffle"]
    on_disk = ["--residence", "disk", "--cache-bytes", str(cache), "--lookahead", str(o.lookahead)]
    ways = {
        "khop disk": [str(khop), "bench", str(data), *common, *on_disk],
        "khop mapped": [str(khop), "bench", str(data), *common],
        "numpy.memmap": [sys.executable, "-c", MEMMAP, str(ROOT / "integrations/python/src"), str(data), f"@{seeds}",
                         json.dumps([int(k) for k in o.fanouts.split(",")]), str(khop), str(o.slow)],
    }
    if o.pack:
        ways["khop packed"] = [*ways["khop disk"], "--pack", f"{o.pack}MB"]
    if o.dgl:
        ways["GraphBolt"] = [o.dgl, "-c", GRAPHBOLT, str(data), str(seeds),
                             json.dumps([int(k) for k in o.fanouts.split(",")]), str(o.slow)]
    result: dict = {"memory": o.memory * 10**6, "feature_bytes": nodes * 4 * WIDTH, "cache_bytes": cache,
                    "batches": o.batches,
                    "lookahead": o.lookahead, "fanouts": o.fanouts, "seconds": {name: [] for name in ways},
                    "bench": [], "packed": []}
    group, ahead = Group(o.memory * 10**6), ReadAhead(folder)
    result["read_ahead_kb"] = [ahead.had.strip(), "128"]
    try:
        for _ in range(o.rounds):
            for name, command in ways.items():
                if not name.startswith("khop"):
                    seconds = json.loads(group.run(command).splitlines()[-1])["seconds"] * o.batches / o.slow
                else:
                    n = o.slow if name == "khop mapped" else o.batches
                    got = json.loads(group.run([*command, "--warmup", str(n), "--batches", str(n), "--no-memcpy",
                                                "--json"]))
                    seconds = got["seconds"] * o.batches / n
                    if got["on_disk"]:
                        d = got["on_disk"]
                        sector = d["probe"]["sector"]
                        size = max(round(d["bytes"] / max(d["requests"], 1) / sector), 1) * sector
                        got["fio_size"], got["fio_requests"] = size, fio(data / "nodes/n0/feature.arrow", size,
                                                                         d["probe"]["depth"], 3)
                        result["packed" if name == "khop packed" else "bench"].append(got)
                result["seconds"][name].append(seconds)
                print(f"{name}: an epoch in {seconds:.2f} s", flush=True)
        result["oom_kills"] = group.kills()
    finally:
        ahead.close()
        group.close()
    plan = json.loads(subprocess.run([khop, "plan", data, *common, *on_disk,
                                      *(["--pack", f"{o.pack}MB"] if o.pack else []), "--json"], check=True,
                                     capture_output=True, text=True).stdout)
    at = next(c for c in plan["caches"] if c["cache_bytes"] == cache)
    result["plan"] = {x["policy"]: {"misses": x["misses"], "requests": x["requests"] + x["writes"],
                                    "bytes": x["bytes"] + x["written"]} for x in at["policies"]}
    text = report(result)
    print("\n" + text)
    if o.record:
        record(text)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(result, indent=1) + "\n")
    if not o.keep:
        shutil.rmtree(data)


def report(r: dict) -> str:
    """What was found."""
    best = {name: min(s) for name, s in r["seconds"].items()}
    lines = [f"{r['feature_bytes'] / 1e9:.1f} GB of features (rows of 512 bytes) in {r['memory'] / 1e9:.1f} GB of "
             f"memory, cache "
             f"{r['cache_bytes'] / 1e9:.2f} GB; kills for memory: {r['oom_kills']}",
             f"fan-outs {r['fanouts']}, {r['batches']} batches of 1,024 seeds, look-ahead {r['lookahead']}; "
             f"read-ahead of the disk "
             f"{r['read_ahead_kb'][1]} KiB (was {r['read_ahead_kb'][0]})"]
    for name, s in best.items():
        lines.append(f"  {name:14} {s:8.2f} s an epoch (" + ", ".join(f"{x:.2f}" for x in r["seconds"][name]) + f"), "
                     f"{s / best['khop disk']:.2f} times khop disk")
    d = r["bench"][-1]["on_disk"]
    lines.append(f"  rows asked for {d['rows']}, missed {100 * d['misses'] / d['rows']:.2f} %; simulated: " +
                 ", ".join(f"{name} {100 * x['misses'] / d['rows']:.2f} %" for name, x in r["plan"].items()))
    lines.append(f"  {d['requests']} requests, {d['bytes'] / 1e9:.2f} GB read, "
                 f"{100 * d['useful'] / max(d['bytes'], 1):.1f} % of it asked for")
    for got in r["packed"]:
        d = got["on_disk"]
        lines.append(f"  packed: {d['requests']} requests to read {d['bytes'] / 1e9:.2f} GB, "
                     f"{100 * d['useful'] / max(d['bytes'], 1):.1f} % of it asked "
                     f"for, and {d['writes']} to write {d['written'] / 1e9:.2f} GB; "
                     f"{100 * d['packed'] / max(d['misses'], 1):.1f} % of the rows missed "
                     "were packed" + "".join("; " + p["refused"] for p in d["pack"] if p.get("refused")))
    for got in r["bench"]:
        d, n = got["on_disk"], got["on_disk"]["requests"] / got["seconds"]
        share = f", {100 * n / got['fio_requests']:.0f} %" if got["fio_requests"] else ""
        lines.append(f"  {n:.0f} requests/s, {d['bytes'] / got['seconds'] / 1e6:.0f} MB/s, at depth "
                     f"{d['probe']['depth']}; fio after it {got['fio_requests']:.0f}{share}; a batch: "
                     f"{got['sample_ms']:.1f} ms of sampling, {got['disk_ms']:.1f} of waiting, "
                     f"{got['gather_ms']:.1f} of copying")
    return "\n".join(lines) + "\n"


def record(text: str) -> None:
    """Writes the section of the page of results."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True,
                          text=True).stdout.strip()
    cpu = next((x.split(":")[1].strip() for x in open("/proc/cpuinfo") if x.startswith("model name")), "unknown")
    section.put(ROOT / "docs/results/disk.md", "## Features larger than memory", section.wrapped(
        f"""`make bench-disk` (bench/disk/run.py) loads features that are larger than a memory control group, in turns:
        with `--residence disk`, mapped, by `numpy.memmap` with the same batches, and by GraphBolt, where it is there,
        which has no feature on disk and reads a memory-mapped one. The page cache is dropped before each. The slow ways
        load a few batches, and their epoch is scaled from these. `khop plan` simulates the other policies. Commit
        {head}, {cpu}, {os.cpu_count()} cores, Linux {os.uname().release}, {time.strftime('%Y-%m-%d')}; load when it
        ended: {os.getloadavg()[0]:.1f}.""") + f"\n\n```text\n{text}```")


if __name__ == "__main__":
    main()
