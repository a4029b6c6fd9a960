#!/usr/bin/env python3
"""Measures whether khop embed takes what its plan says: draws graphs, models, layers, memories and types of layers,
asks for the plan, embeds, and compares bytes and seconds of all steps. It fails where one of them is more than a
quarter away.

Features are in the page cache or not, as drawn; to drop the cache takes root. Graphs and models are made first, and
stay in --folder, so that a second run only measures. The machine should do nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

GRAPHS = [("rmat", 800_000, 8_000_000, 128, "float32"), ("sbm", 500_000, 6_000_000, 192, "float32"),
          ("products", 1_000_000, 12_000_000, 100, "float16"), ("rmat", 1_500_000, 10_000_000, 64, "float32")]
TIMES = [1 / 3, 2 / 3, 1, 3, 8]
"""Memory, of the features."""


class Setting:
    """A graph, a model and options."""

    def __init__(self, r: random.Random, folder: pathlib.Path) -> None:
        kind, nodes, edges, self.width, dtype = r.choice(GRAPHS)
        self.data = folder / f"{kind}-{nodes}"
        self.bytes = nodes * self.width * (4 if dtype == "float32" else 2)
        self.model, self.layers, self.hidden = r.choice(["gcn", "sage", "gin", "gat"]), r.randint(1, 3), r.choice(
            [16, 32, 64, 128])
        self.memory = max(int(self.bytes * r.choice(TIMES)), 48_000_000)
        self.dtype, self.warm = r.choice(["float32", "float32", "float16", "bfloat16"]), r.random() < 0.5
        self.checkpoint = folder / f"{self.model}-{self.layers}-{self.hidden}-{self.width}"
        self.name = (f"{self.data.name}, {self.model}, {self.layers} x {self.hidden}, {self.dtype}, "
                     f"{self.memory / 1e6:.0f} MB, {'warm' if self.warm else 'cold'}")

    def prepare(self, khop: str, folder: pathlib.Path) -> None:
        """Makes what is not there."""
        for kind, nodes, edges, width, dtype in GRAPHS:
            data = folder / f"{kind}-{nodes}"
            if data == self.data and not data.exists():
                call(khop, "generate", kind, data, "--nodes", nodes, "--edges", edges, "--features", width,
                     "--classes", 8)
                if dtype != "float32":
                    call(khop, "add", data, "--feature-dtype", dtype)
        tiny = folder / f"tiny-{self.width}"
        if not tiny.exists():
            call(khop, "generate", "rmat", tiny, "--nodes", 2000, "--edges", 20000, "--features", self.width,
                 "--classes", 8)
        if not self.checkpoint.exists():
            call(khop, "train", tiny, "--model", self.model, "--layers", self.layers, "--hidden", self.hidden,
                 "--epochs", 1, "--checkpoint", self.checkpoint)

    def measure(self, khop: str, folder: pathlib.Path) -> tuple[dict, dict]:
        """The plan, and what came."""
        out = folder / "rows.npy"
        out.unlink(missing_ok=True)
        subprocess.run(["sync"], check=True)
        if self.warm:
            for file in self.data.rglob("*.arrow"):
                file.read_bytes()
        else:
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
        args = ["embed", self.data, "--checkpoint", self.checkpoint, "--out", out, "--max-memory", self.memory,
                "--layer-dtype", self.dtype, "--json"]
        plan = json.loads(call(khop, *args, "--plan"))
        if not self.warm:
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
        return plan, json.loads(call(khop, *args))


def call(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}: status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def near(came: float, planned: float) -> bool:
    return 0.75 * planned <= came <= 1.25 * planned


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--draws", type=int, default=20)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--folder", default=os.environ.get("KHOP_BENCH_DIR", str(ROOT / ".bench")) + "/embed-plans")
    p.add_argument("--khop", help="the program; it is built where none is named")
    p.add_argument("--prepare", action="store_true", help="make graphs and models, and measure nothing")
    p.add_argument("--steps", action="store_true", help="say what each step was planned to take, and took")
    p.add_argument("--only", type=int, help="that draw alone, from 0")
    p.add_argument("--from", dest="first", type=int, default=0, help="the first draw to measure")
    o = p.parse_args()
    folder = pathlib.Path(o.folder)
    folder.mkdir(parents=True, exist_ok=True)
    khop = o.khop or str(folder / "khop")
    if not o.khop:
        subprocess.run(["go", "build", "-o", khop, "./cmd/khop"], cwd=ROOT, check=True)
    r = random.Random(o.seed)
    settings = [Setting(r, folder) for _ in range(o.draws)]
    for s in settings:
        s.prepare(khop, folder)
    far = 0
    for n, s in enumerate(settings):
        if o.prepare or n < o.first or o.only not in (None, n):
            continue
        try:
            plan, came = s.measure(khop, folder)
        except SystemExit as wrong:  # rows beyond float16
            far += 1
            print(f"| {n} | {s.name} | {str(wrong).strip().splitlines()[-1]} | far", flush=True)
            continue
        ways = "/".join(step["way"] or "rows" for step in plan["steps"])
        good = all(near(came[k], plan["planned_" + k]) for k in ("bytes_read", "bytes_written", "seconds"))
        far += not good
        print(f"| {n} | {s.name} | {ways} | {plan['planned_bytes_read'] / 1e9:.3f} | {came['bytes_read'] / 1e9:.3f} | "
              f"{plan['planned_bytes_written'] / 1e9:.3f} | {came['bytes_written'] / 1e9:.3f} | "
              f"{plan['planned_seconds']:.2f} | {came['seconds']:.2f} | "
              f"{came['seconds'] / plan['planned_seconds']:.2f} |{'' if good else ' far'}", flush=True)
        if o.steps:
            for a, b in zip(plan["steps"], came["steps"]):
                print(f"    {a['step']:20} {a['way']:9} {b['way']:9} {a['planned_seconds']:.3f} {b['seconds']:.3f}")
    raise SystemExit(f"{far} of {o.draws} are more than a quarter away" if far else 0)


if __name__ == "__main__":
    main()
