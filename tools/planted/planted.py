#!/usr/bin/env python3
"""Plants faults in kernels and in device code, one at a time, and sees that the test named in faults.py catches each.

    tools/planted/planted.py              all of them; some minutes
    tools/planted/planted.py TEXT...      those whose class, file or test has a text
    tools/planted/planted.py --write      also writes a section of docs/results/mutations.md

A fault in a .cu or .cuh file is planted in a copy, of which a simulator is built; one in Go comes to the compiler by
-overlay. The tree stays as it is. Needs what tools/test-cuda.sh needs, and "make cudasim" before. Status 1: a fault was
not caught, or could not be planted.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from faults import FAULTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import section

WHAT = re.compile(r"(RACE|ILLEGAL ADDRESS|OUT OF BOUNDS|USE AFTER FREE|NO PEER "
                  r"ACCESS|MISALIGNED|UNINITIALISED|DIVERGENT BARRIER|DEADLOCK|WARP MASK|"
                  r"WARP COLLECTIVES MIXED|SHUFFLE FROM A LANE|MEMORY THAT IS GONE|test timed out)")


def simulator(scratch):
    """Copies what a simulator is built of, with what was compiled of it before."""
    for path in subprocess.run(["git", "ls-files", "*.cu", "*.cuh", "internal/cudasim", "device/include"], cwd=ROOT,
                               check=True, capture_output=True,
                               text=True).stdout.splitlines():
        (scratch / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, scratch / path)
    shutil.copytree(ROOT / "dist/cudasim", scratch / "dist/cudasim", ignore=shutil.ignore_patterns("ptx"))


def including(scratch, path):
    """The .cu files of the copy that a file is part of: itself, or those that include it."""
    part, names = {(scratch / path).resolve()}, list(scratch.rglob("*.cu*"))
    while True:
        more = {n for n in names if n not in part and any(
            (n.parent / i).resolve() in part for i in re.findall(r'#include "(.*)"', n.read_text()))}
        if not more:
            return {n for n in part if n.suffix == ".cu"}
        part |= more


def built(scratch, path):
    """The simulator of the copy as it is now."""
    for source in including(scratch, path):
        os.utime(source)
    run = subprocess.run(["make", "-s", "-j2", "-C", scratch / "internal/cudasim"], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{path}: the simulator does not build: {run.stderr[-2000:]}")
    return scratch / "dist/libcudasim.so"


def restored(scratch, path, text):
    """Takes the fault back out of the copy, with what was compiled of it."""
    (scratch / path).write_text(text)
    for source in including(scratch, path):
        made = f"dist/cudasim/kernels/{source.relative_to(scratch.resolve())}".removesuffix(".cu")
        for end in (".khop.cc", ".checked.o"):
            shutil.copy(ROOT / (made + end), scratch / (made + end))


def caught(fault, scratch):
    """Plants a fault; returns how its test fails, or None where it does not."""
    _, path, old, new, package, test = fault
    text = (ROOT / path).read_text()
    if text.count(old) != 1:
        raise SystemExit(f"{path}: {old!r} stands there {text.count(old)} times")
    planted, options, library = text.replace(old, new), [], ROOT / "dist/libcudasim.so"
    if path.endswith(".go"):
        (scratch / "planted.go").write_text(planted)
        (scratch / "overlay.json").write_text(json.dumps({"Replace": {str(ROOT / path): str(scratch / "planted.go")}}))
        options = ["-overlay", scratch / "overlay.json"]
    else:
        (scratch / path).write_text(planted)
        library = built(scratch, path)
    try:
        run = subprocess.run(["go", "test", "-tags", "cuda", "-vet=off", "-count", "1", "-short", "-timeout", "240s",
                              *options, "-run", f"^{test}$", "./" + package],
                             cwd=ROOT, capture_output=True, text=True,
                             env=os.environ | {"KHOP_CUDA_DRIVER": str(library)})
    finally:
        if not path.endswith(".go"):
            restored(scratch, path, text)
    out = run.stdout + run.stderr
    if "build failed" in out or "no tests to run" in out:
        raise SystemExit(f"{path}, {test}: {out[-2000:]}")
    if run.returncode == 0:
        return None
    found = WHAT.search(out)
    return found[1].lower() if found else "other results"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write a section of docs/results/mutations.md")
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    args = parser.parse_args()
    chosen = [f for f in FAULTS if not args.texts or any(t in f"{f[0]} {f[1]} {f[5]}" for t in args.texts)]
    rows, missed = [], 0
    with tempfile.TemporaryDirectory(prefix="khop-planted-") as name:
        scratch = pathlib.Path(name)
        simulator(scratch)
        for fault in chosen:
            how = caught(fault, scratch)
            missed += how is None
            rows.append((fault[0], fault[1], fault[5], how or "**not caught**"))
            print(" | ".join(rows[-1]), flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults in {len({f[0] for f in chosen})} classes were caught")
    if args.write:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True,
                                text=True).stdout.strip()
        section.put(ROOT / "docs/results/mutations.md", "## In kernels and device code", text(rows, missed, commit))
    return 1 if missed else 0


def text(rows, missed, commit):
    """A line a class of faults: in how many files they are, and how they are caught."""
    classes = {}
    for name, path, _, how in rows:
        files, ways = classes.setdefault(name, (set(), collections.Counter()))
        files.add(path)
        ways[how] += 1
    lines = [f"| {name} | {ways.total()} | {len(files)} | " + ", ".join(f"{how} {n}" for how, n in ways.items()) + " |"
             for name, (files, ways) in classes.items()]
    return section.wrapped(f"""`make planted` plants {len(rows)} faults of {len(classes)} classes, one at a time, and
        runs the test that is to catch it on the simulated device. `tools/planted/faults.py` has each fault and its
        test. {len(rows) - missed} of {len(rows)} were caught at {commit}:""") + """

| class | faults | files | caught as |
|---|---:|---:|---|
""" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
