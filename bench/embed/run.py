#!/usr/bin/env python3
"""Measures rows for every node where features are larger than memory: khop embed and PyG's way over numpy.memmap, one
after the other in one memory control group, beside what the disk gives to fio, or to dd where there is none.

PyG's way (BasicGNN.inference) goes layer by layer over batches of nodes with all their in-edges, and reads the rows of
their sources: here by NumPy, x[n_id] of a memory-mapped file, which costs it neither sampling nor autograd. It computes
--slow batches of each layer, all over the nodes, and its time is scaled to all from these.

It makes a graph whose features are --gb gigabytes, and a 3-layer GraphSAGE of the same width, caps a control group
(version 1 or 2; needs root), and embeds in each of --shares of the features. Disk space: a bit more than three times
the features, under --folder, removed at the end unless --keep.

Then it embeds a graph of an eighth of the nodes in memory, and computes the same layers by torch with khop.sparse,
which needs torch and KHOP_LIBRARY: the products out of core are to take as long for each node.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/disk"))
from run import Group, ReadAhead  # noqa: E402

WIDTH = 128

MEMMAP = """
import json, sys, time
import numpy as np
path, batch, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
manifest = json.load(open(path + "/dataset.json"))["content"]
def column(name, dtype, width=()):
    part, = next(c for c in manifest["columns"] if c["name"] == name)["parts"]
    return np.memmap(path + "/" + part["path"], dtype=dtype, mode="r", offset=part["body_offset"],
                     shape=(part["rows"], *width))
indptr, indices = column("indptr", np.int64), column("indices", np.int32)
n, width = len(indptr) - 1, WIDTH
rng = np.random.default_rng(1)
x = column("feature", np.float32, (width,))  # of each layer: those between are as wide
batches = (n + batch - 1) // batch
layers = []
for layer in range(3):
    w, own = (rng.standard_normal((width, width)).astype(np.float32) for _ in range(2))
    out = np.empty((batch, width), np.float32)
    times = []
    for b in rng.permutation(batches)[:most]:
        begin = time.perf_counter()
        lo, hi = b * batch, min((b + 1) * batch, n)
        start = indptr[lo:hi + 1]
        n_id, local = np.unique(np.concatenate([np.arange(lo, hi, dtype=np.int32), indices[start[0]:start[-1]]]),
                                return_inverse=True)
        rows = x[n_id]
        messages = rows[local[hi - lo:]]
        degree = np.diff(start)
        sums = np.zeros((hi - lo, width), np.float32)
        some = degree > 0
        if some.any():
            sums[some] = np.add.reduceat(messages, (start[:-1] - start[0])[some])
        sums[some] /= degree[some, None]
        out[:hi - lo] = np.maximum(sums @ w + rows[local[:hi - lo]] @ own, 0)
        times.append(time.perf_counter() - begin)
    layers.append(times)
layers = np.array(layers) * batches
print(json.dumps({"seconds": layers.mean(1).sum(), "batches": batches, "tried": layers.shape[1],
                  "standard_error": (layers.var(1, ddof=1) / layers.shape[1]).sum() ** 0.5,
                  "if_all_were_as_fast_as_the_fastest": layers.min(1).sum()}))
""".replace("WIDTH", str(WIDTH))


BY_SPARSE = """
import json, os, sys, time
import numpy as np, torch
sys.path.insert(0, sys.argv[1])
from khop._ops import spmm as products
path, rounds = sys.argv[2], int(sys.argv[3])
torch.set_num_threads(len(os.sched_getaffinity(0)))
manifest = json.load(open(path + "/dataset.json"))["content"]
def column(name, dtype, width=()):
    part, = next(c for c in manifest["columns"] if c["name"] == name)["parts"]
    return torch.from_numpy(np.fromfile(path + "/" + part["path"], dtype, offset=part["body_offset"],
        count=part["rows"] * int(np.prod(width))).reshape(part["rows"], *width))
indptr, indices, x = column("indptr", np.int64), column("indices", np.int32), column("feature", np.float32, (WIDTH,))
n = len(x)
a = products.in_rows(n, n, indptr, indices)
torch.manual_seed(1)
layers = [[torch.randn(WIDTH, out) / 16 for _ in range(2)] for out in (WIDTH, WIDTH, 8)]
with torch.no_grad():
    for _ in range(rounds):
        begin, h = time.perf_counter(), x
        for w, own in layers[:-1]:
            h = torch.relu_(products.aggregate(a, "mean", None, h) @ w + h @ own)
        w, own = layers[-1]
        h = products.aggregate(a, "mean", None, h @ w) + h @ own
        print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)
""".replace("WIDTH", str(WIDTH))


def disk_rate(path: pathlib.Path) -> float:
    """Bytes a second that the disk reads in order, past the page cache."""
    if shutil.which("fio"):
        out = subprocess.run(["fio", "--name=read", f"--filename={path}", "--readonly", "--rw=read", "--direct=1",
                              "--bs=4M", "--iodepth=2", "--ioengine=libaio", "--runtime=5", "--time_based",
                              "--output-format=json"], check=True, capture_output=True, text=True).stdout
        return float(json.loads(out[out.index("{"):])["jobs"][0]["read"]["bw_bytes"])
    begin, size = time.perf_counter(), 1 << 30
    subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=4M", "iflag=direct", f"count={size >> 22}"], check=True,
                   capture_output=True)
    return size / (time.perf_counter() - begin)


def prepared(o: argparse.Namespace, folder: pathlib.Path, nodes: int) -> tuple[str, pathlib.Path, pathlib.Path]:
    """khop, a generated dataset, and a model of its width."""
    khop, data, tiny, model = (folder / name for name in ("khop", f"rmat-{nodes}", "tiny", "model"))
    subprocess.run(["go", "build", "-o", khop, "./cmd/khop"], cwd=ROOT, check=True)
    for path, n in ((data, nodes), (tiny, 2000)):
        if not path.exists():
            subprocess.run([khop, "generate", "rmat", path, "--nodes", str(n), "--edges", str(o.degree * n),
                            "--features", str(WIDTH), "--classes", "8"], check=True)
    if not model.exists():
        subprocess.run([khop, "train", tiny, "--model", "sage", "--layers", "3", "--hidden", str(WIDTH), "--epochs",
                        "1", "--checkpoint", model], check=True)
    return str(khop), data, model


def out_of_core(o: argparse.Namespace, folder: pathlib.Path, nodes: int, limit: int) -> dict:
    """One group's memory: khop, PyG's way, and what the disk gives before and after."""
    khop, data, model = prepared(o, folder, nodes)
    manifest = json.loads((data / "dataset.json").read_text())["content"]
    part = next(c for c in manifest["columns"] if c["name"] == "feature")["parts"][0]
    group = Group(limit)
    try:
        rates = [disk_rate(data / part["path"])]
        begin = time.perf_counter()
        embedded = json.loads(group.run([khop, "embed", str(data), "--checkpoint", str(model), "--force", "--out",
                                         "rows", "--max-memory", str(limit * 3 // 4), "--json"]))
        seconds = time.perf_counter() - begin
        print(json.dumps({"memory": limit, "seconds": seconds, "khop": embedded}), flush=True)
        rates.append(disk_rate(data / part["path"]))
        slow = json.loads(group.run([sys.executable, "-c", MEMMAP, str(data), str(o.batch), str(o.slow)]))
        return {"memory": limit, "disk_bytes_per_second": rates, "seconds": seconds, "khop": embedded, "memmap": slow,
                "kills": group.kills()}
    finally:
        group.close()


def in_memory(o: argparse.Namespace, folder: pathlib.Path, nodes: int) -> dict:
    """The layers with all in memory, by khop embed and by torch with khop's products, in turns."""
    khop, data, model = prepared(o, folder, nodes)
    embed = [khop, "embed", str(data), "--checkpoint", str(model), "--force", "--out", str(folder / "rows.npy"),
             "--max-memory", str(nodes * WIDTH * 4 * 6), "--json"]
    by_sparse = [sys.executable, "-c", BY_SPARSE, str(ROOT / "integrations/python/src"), str(data), "3"]
    seconds: dict[str, list[float]] = {"khop embed": [], "khop.sparse": []}
    for _ in range(3):
        out = subprocess.run(embed, check=True, capture_output=True, text=True).stdout
        seconds["khop embed"].append(sum(s["seconds"] for s in json.loads(out)["steps"]))
        out = subprocess.run(by_sparse, check=True, capture_output=True, text=True).stdout
        seconds["khop.sparse"].append(min(json.loads(line)["seconds"] for line in out.splitlines()))
    return {"nodes": nodes, "seconds": seconds}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gb", type=float, default=2.4, help="of features")
    p.add_argument("--degree", type=int, default=10, help="mean in-edges of a node")
    p.add_argument("--shares", default="6,3", help="memory is that part of the features: 6 is a sixth")
    p.add_argument("--slow", type=int, default=20, help="batches of each layer of PyG's way")
    p.add_argument("--batch", type=int, default=1024)
    p.add_argument("--folder", default=os.environ.get("KHOP_BENCH_DIR", str(ROOT / ".bench")) + "/embed")
    p.add_argument("--json", help="write figures there")
    p.add_argument("--keep", action="store_true")
    o = p.parse_args()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    folder = pathlib.Path(o.folder)
    folder.mkdir(parents=True, exist_ok=True)
    nodes = int(o.gb * 1e9 / (4 * WIDTH))
    result: dict = {"feature_bytes": nodes * 4 * WIDTH, "nodes": nodes, "edges": o.degree * nodes, "runs": []}
    ahead = ReadAhead(folder)
    try:
        if os.environ.get("KHOP_LIBRARY"):
            result["in_memory"] = in_memory(o, folder, nodes // 8)
            print(json.dumps(result["in_memory"]), flush=True)
        for share in map(float, o.shares.split(",")):
            result["runs"].append(out_of_core(o, folder, nodes, int(o.gb * 1e9 / share)))
            print(json.dumps(result["runs"][-1]), flush=True)
    finally:
        ahead.close()
        if not o.keep:
            shutil.rmtree(folder)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
