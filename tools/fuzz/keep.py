#!/usr/bin/env python3
"""Keeps of what fuzzing has found interesting the few inputs that reach lines no other does.

Plain `go test` runs what lies in testdata/fuzz, so those lines stay tested. `make fuzz` fills Go's cache of inputs,
`make fuzz-keep` runs this. Smaller inputs come first; all of a target together have at most MOST bytes.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MOST = 3000


def targets(root):
    """The fuzz targets below a folder, with the folder of each."""
    for path in sorted(root.rglob("*_test.go")):
        for name in re.findall(r"^func (Fuzz\w*)", path.read_text(), re.M):
            yield path.parent, name


def covered(program, folder, pattern):
    """The blocks of code that a target reaches by the inputs of a pattern."""
    with tempfile.NamedTemporaryFile() as profile:
        subprocess.run([program, "-test.run", pattern, "-test.coverprofile", profile.name], cwd=folder, check=True,
                       capture_output=True, timeout=120)
        lines = pathlib.Path(profile.name).read_text().splitlines()[1:]
    return {line.split()[0] for line in lines if not line.endswith(" 0")}


def keep(folder, name, found):
    """Keeps inputs of a target, and returns how many of how many."""
    kept = folder / "testdata" / "fuzz" / name
    inputs = sorted([f for f in found.glob("*") if not (kept / f.name).exists()], key=lambda f: (f.stat().st_size, f))
    if not inputs:
        return 0, 0
    room, count = MOST - sum(f.stat().st_size for f in kept.glob("*")), 0
    with tempfile.TemporaryDirectory() as work:
        program = os.path.join(work, "program")
        subprocess.run(["go", "test", "-c", "-cover", "-o", program, "."], cwd=folder, check=True)
        reached = covered(program, folder, f"^{name}$")
        kept.mkdir(parents=True, exist_ok=True)
        for f in inputs:
            if f.stat().st_size > room:
                break
            (kept / f.name).write_bytes(f.read_bytes())
            more = covered(program, folder, f"^{name}$/^{f.name}$")
            if more <= reached:
                (kept / f.name).unlink()
                continue
            reached, room, count = reached | more, room - f.stat().st_size, count + 1
    if not any(kept.iterdir()):
        kept.rmdir()
    return count, len(inputs)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    cache = pathlib.Path(subprocess.check_output(["go", "env", "GOCACHE"], text=True).strip(), "fuzz")
    module = subprocess.check_output(["go", "list", "-m"], text=True, cwd=root).strip()
    for folder, name in targets(root):
        of = folder.relative_to(root)
        count, all_of = keep(folder, name, cache / module / of / name)
        if all_of:
            print(f"{of} {name}: {count} of {all_of} inputs kept", flush=True)


if __name__ == "__main__":
    sys.exit(main())
