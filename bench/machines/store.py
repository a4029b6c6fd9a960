#!/usr/bin/env python3
"""Datasets in a real object store, beside folders:

    python bench/machines/store.py --at s3://BUCKET/PREFIX --folder FOLDER [--nodes 500000] [--rounds 3]

Settings and credentials of the store come from the environment (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ..), as for
khop itself. FOLDER is an empty one for copies and caches. A graph whose edges lead to nodes near by, with its
features, is converted to a folder and to the store; it takes four times its size. The first batch has the first
nodes as seeds; eight are shuffled, so that their rows lie everywhere. Prints a table; ends with an error where a
digest or an id differs.
"""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import numpy as np


class Bench:
    def __init__(self, args):
        self.khop, self.work, self.at = args.khop, pathlib.Path(args.folder), args.at
        self.rows = {}

    def run(self, *command, **options):
        p = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
        if p.returncode:
            sys.exit(f"{command}: {p.stderr}")
        return p.stdout

    def timed(self, name, *command, **options):
        begun = time.perf_counter()
        said = self.run(*command, **options)
        self.rows.setdefault(name, []).append(time.perf_counter() - begun)
        return said

    def sample(self, name, dataset, batches, *more):
        return self.timed(name, self.khop, "sample", dataset, "--batches", batches, "--batch-size", "1024", "--fanouts",
                          "10,5", "--digest", *more, *(["--shuffle"] if batches > 1 else []))

    def make(self, nodes, features):
        """A graph in a band: each node has edges to 16 of the hundred beside it."""
        rng = np.random.default_rng(1)
        src = np.repeat(np.arange(nodes), 16)
        dst = (src + rng.integers(-50, 51, len(src))) % nodes
        np.save(self.work / "x.npy", rng.standard_normal((nodes, features), np.float32))
        np.save(self.work / "edges.npy", np.stack([src, dst]))
        self.local, self.far = self.work / "local.khop", f"{self.at}/far.khop"
        for out in self.local, self.far:
            self.timed(f"convert to {'a folder' if out == self.local else 'the store'}", self.khop, "convert",
                       self.work / "edges.npy", out, "--features", self.work / "x.npy", "--force")
        self.small = int(sum(f.stat().st_size for f in self.local.rglob("*")) * 0.55)

    def cache(self):
        shutil.rmtree(self.work / "cache", ignore_errors=True)
        return self.work / "cache"

    def round(self, want):
        """One of each, in turns."""
        shutil.rmtree(self.work / "copy", ignore_errors=True)
        copy = self.work / "copy"
        self.timed("cp -r, and sync", "sh", "-c", f"cp -r {self.local} {copy} && sync {copy}/*/*")
        shutil.rmtree(self.work / "copy")
        self.timed("curl, file by file in one piece, and sync", "sh", "-c", self.curl())
        shutil.rmtree(self.work / "copy")
        cold = ["--cache-dir", self.cache()]
        self.timed("khop stage, cold", self.khop, "stage", self.far, *cold)
        self.timed("khop stage, warm", self.khop, "stage", self.far, *cold)
        digests = {"folder": self.sample("8 batches, folder", self.local, 8),
                   "warm": self.sample("8 batches, warm cache", self.far, 8, *cold)}
        cold = ["--cache-dir", self.cache()]
        digests["first"] = self.sample("1 batch, cold: training begins", self.far, 1, *cold)
        cold = ["--cache-dir", self.cache()]
        digests["cold"] = self.sample("8 batches, cold cache", self.far, 8, *cold)
        small = ["--cache-dir", self.cache(), "--cache-size", self.small]
        digests["small"] = self.sample("8 batches, cache of 55 %, cold", self.far, 8, *small)
        digests["small again"] = self.sample("8 batches, cache of 55 %, again", self.far, 8, *small)
        for name, text in digests.items():
            if text != (self.first if name == "first" else want):
                sys.exit(f"{name}: other digests")

    def two(self, want):
        """Two processes on one cache, begun together."""
        cache, begun = self.cache(), time.perf_counter()
        both = [subprocess.Popen([self.khop, "sample", self.far, "--batches", "8", "--batch-size", "1024", "--fanouts",
                                  "10,5", "--digest", "--shuffle", "--cache-dir", str(cache)],
                                 stdout=subprocess.PIPE, text=True)
                for _ in range(2)]
        said = [p.communicate()[0] for p in both]
        self.rows.setdefault("8 batches, two processes on one cold cache", []).append(time.perf_counter() - begun)
        if any(text != want for text in said):
            sys.exit("two processes: other digests")

    def curl(self):
        host, user = os.environ["AWS_ENDPOINT_URL"], "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"
        region = os.environ.get("AWS_REGION", "us-east-1")
        lines = [f"mkdir -p {self.work}/copy"]
        for file in self.local.rglob("*"):
            if file.is_file():
                name = file.relative_to(self.local)
                lines.append(f'curl -sf --create-dirs --aws-sigv4 aws:amz:{region}:s3 --user "{user}" '
                             "-H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "
                             f"{host}/{self.far[5:]}/{name} -o {self.work}/copy/{name}")
        return " && ".join([*lines, f"sync {self.work}/copy/*/*"])

    def tasks(self):
        """A conversion in tasks through the store has the id of one to a folder."""
        source, out = self.work / "edges.txt", f"{self.at}/tasks.khop"
        np.savetxt(source, np.load(self.work / "edges.npy").T[:200_000], "%d")
        self.run(self.khop, "convert", source, self.work / "whole.khop", "--force")
        plan = self.run(self.khop, "convert", source, out, "--tasks", 3, "--plan", "--force")
        for line in plan.splitlines():
            self.run(self.khop, "task", line.split(" ", 1)[1])
        self.run(self.khop, "convert", "-", out, "--clean")
        ids = [next(line for line in self.run(self.khop, "info", where).splitlines() if line.startswith("id"))
               for where in (self.work / "whole.khop", out)]
        if ids[0] != ids[1]:
            sys.exit(f"tasks through the store: {ids}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--at", required=True, help="s3://BUCKET/PREFIX, which it may write to")
    parser.add_argument("--folder", required=True, help="an empty folder")
    parser.add_argument("--khop", default=os.environ.get("KHOP_BIN", "khop"))
    parser.add_argument("--nodes", type=int, default=500_000)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    bench = Bench(args := parser.parse_args())
    os.environ["KHOP_CACHE_DIR"] = str(bench.work / "other")
    bench.make(args.nodes, args.features)
    want, bench.first = (bench.sample(f"{n} batches, folder", bench.local, n) for n in (8, 1))
    for _ in range(args.rounds):
        bench.round(want)
        bench.two(want)
    bench.tasks()
    print("digests and ids are equal\n\n| seconds | median | of |\n|---|---|---|")
    for name, took in bench.rows.items():
        print(f"| {name} | {statistics.median(took):.2f} | {', '.join(f'{t:.2f}' for t in took)} |")


if __name__ == "__main__":
    main()
