#!/usr/bin/env python3
"""Lets a second interpreter of PTX judge each kernel that tests of device code launch on the simulated device.

    ptxjudge.py LIBRARY [FOLDER[:TESTS] ...]    run tests; by default those that launch every kernel
    ptxjudge.py --log FILE [FILE ...]           only say what these logs hold

LIBRARY has khop_judge, as internal/cudasim/src/judge.h declares it. It may be an adapter of any interpreter that is not
ours. What it writes becomes what the tests read, so they compare the judge's batches with the CPU's.

It fails where a test fails, and where the judge gave a launch up. A launch whose bytes differ is counted: where lanes
compete for a slot of a hash table, whoever comes first has it, and both are right. One that is full holds other nodes,
too, and its batch is made again. Then the tests have the last word.
"""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT = [
    "internal/drivertest:Kernels", "internal/rng/rngtest:.", "sparse:Device", "gather/cuda:.", "examples/outside:.",
    "bench/gpu:TestLinesOfEveryMethod", "sampling:TestSamplersMakeOnADeviceWhatTheyMakeOnTheCPU",
    "sampling:TestDeviceLeavesEdgesOut|TestDeviceDrawsTheNegativesThatTheHostDraws|TestDeviceChoosesOfHubs",
]
MODULES = ("bench", "examples/outside")                     # folders with a go.mod of their own
COUNTS = ("instructions", "lanes", "sectors", "lines")


class Kernel:
    """What the launches of a kernel came to."""

    def __init__(self):
        self.outcomes = collections.Counter()               # equal, differ, refused
        self.written = self.differ = 0                      # bytes
        self.why = collections.Counter()
        self.ours, self.theirs = collections.Counter(), collections.Counter()
        self.counted = self.counted_alike = 0               # launches

    def add(self, fields):
        """Takes one line of a log, which judge.cc wrote."""
        _, outcome, written, _, differ, _, _, _, _, *traffic, text = fields
        self.outcomes[outcome] += 1
        self.written += int(written)
        self.differ += int(differ)
        if outcome == "refused":
            self.why[text] += 1
            return
        pairs = list(zip(map(int, traffic[::2]), map(int, traffic[1::2])))
        if not any(ours for ours, _ in pairs):
            return                                          # nothing was counted
        self.counted += 1
        self.counted_alike += all(ours == theirs for ours, theirs in pairs)
        for i, (ours, theirs) in enumerate(pairs):
            self.ours[COUNTS[i % 4]] += ours
            self.theirs[COUNTS[i % 4]] += theirs


def read(logs):
    """Returns {name: Kernel} of what the logs hold."""
    kernels = collections.defaultdict(Kernel)
    for log in logs:
        for line in pathlib.Path(log).read_text().splitlines():
            fields = line.split("\t")
            if len(fields) != 26:
                raise SystemExit(f"ptxjudge.py: {log} has a line of {len(fields)} fields, want 26: {line[:80]!r}")
            kernels[fields[0]].add(fields)
    return dict(sorted(kernels.items()))


def show(kernels):
    """Prints a line for each kernel, and returns whether every launch ran to its end."""
    print(f"{'kernel':24} {'equal':>7} {'differ':>7} {'refused':>7} {'bytes':>12} {'differ':>8}  counts alike")
    total = collections.Counter()
    for name, k in kernels.items():
        o = k.outcomes
        alike = f"{k.counted_alike} of {k.counted}" if k.counted else ""
        print(f"{name:24} {o['equal']:7} {o['differ']:7} {o['refused']:7} {k.written:12} {k.differ:8}  {alike}")
        for text, times in k.why.most_common(3):
            print(f"    refused {times} times: {text}")
        total.update(o)
        total.update({"bytes": k.written, "bytes that differ": k.differ, "alike": k.counted_alike, "of": k.counted})
    print(f"{len(kernels)} kernels; {dict(total)}")
    for what in COUNTS:
        ours, theirs = (sum(getattr(k, side)[what] for k in kernels.values()) for side in ("ours", "theirs"))
        print(f"{what}: ours {ours}, the judge's {theirs}")
    return total["equal"] + total["differ"] > 0 and not total["refused"]


def run(library, tests, log):
    """Runs one folder's tests under the judge; returns whether they pass."""
    folder, _, pattern = tests.partition(":")
    module = next((m for m in MODULES if folder == m or folder.startswith(m + "/")), ".")
    package = "./" + os.path.relpath(folder, module)
    env = {**os.environ, "KHOP_CUDASIM_JUDGE": str(library), "KHOP_CUDASIM_JUDGE_LOG": str(log),
           "KHOP_CUDASIM_JUDGE_TAKES": "1"}
    command = ["go", "test", "-C", str(ROOT / module), "-tags", "cuda", "-count", "1", "-timeout", "5h", "-run",
               pattern or "Device", package]
    return subprocess.run(command, env=env).returncode == 0


def main(args):
    if len(args) > 1 and args[0] == "--log":
        return show(read(args[1:]))
    if not args or not args[0] or args[0].startswith("-"):
        raise SystemExit(__doc__)                           # make passes "" where JUDGE is not given
    library = pathlib.Path(args[0]).resolve()
    if not library.exists():
        raise SystemExit(f"ptxjudge.py: there is no {library}: give the library of a judge")
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log")
        log.touch()
        passed = [run(library, tests, log) for tests in args[1:] or DEFAULT]
        return show(read([log])) and all(passed)


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:]))
