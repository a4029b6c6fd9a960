#!/usr/bin/env python3
"""Measures khop on this machine's GPU: docs/gpu-bundle.md says what each phase shows.

    ./run                     all phases
    ./run gather transfer     some: machine (a), gather (b), sampling (c), transfer (d), training (e)

Prints one JSON object on standard output, a table a phase on standard error, and writes the object to $OUT as well (a file in it, if
that is a folder). A phase stops before its time is over (8 minutes) and goes on where it was when it is run again: what is done is
kept in --dir, with the data that is generated there. Needs Python 3.10; the training phase needs torch.
"""
import argparse
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import report
from phases import PHASES

HERE = pathlib.Path(__file__).resolve().parent
LEAST = 10  # seconds: with less left no step is begun


class OutOfTime(Exception):
    """The phase's time is over; the step is tried again by the next run."""


class Failed(Exception):
    """A step that did not work, and why."""


class Bench:
    """What steps are run with: programs, folders, sizes, and the time that is left."""

    def __init__(self, args):
        self.smoke, self.dir, self.limit = args.smoke, args.dir, args.minutes * 60
        self.khop, self.gpubench, self.here = HERE / "khop", HERE / "gpubench", HERE
        self.threads = min(16, os.cpu_count())
        self.end = 0

    def begin(self):
        self.end = time.monotonic() + self.limit

    def left(self):
        return self.end - time.monotonic()

    def call(self, command, env=None, cwd=None, allowed=(0,)):
        """Runs a program to its end, or to that of the phase. Returns (status, stdout, stderr)."""
        command = [str(c) for c in command]
        fresh = self.left() > self.limit - 60
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
                                   env={**os.environ, **(env or {})}, start_new_session=True)
        try:
            out, errors = process.communicate(timeout=max(self.left(), 1))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if fresh:  # more time than this it will not get
                raise Failed(f"took longer than the {self.limit:.0f} s of a phase: {' '.join(command)}") from None
            raise OutOfTime from None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        if process.returncode not in allowed:
            raise Failed(f"status {process.returncode}: {' '.join(command)}\n{errors[-2000:]}")
        return process.returncode, out, errors

    def json(self, command, **options):
        return json.loads(self.call(command, **options)[1])

    def dataset(self, kind="products", *options):
        """A dataset, generated where it is missing."""
        if self.smoke and kind == "products":
            options = ("--nodes", "3000", "--features", "20", *options)
        path = self.dir / ("-".join([kind, *(o.strip("-") for o in map(str, options))]) + ".khop")
        if not path.exists():
            self.call([self.khop, "generate", kind, path, *options])
        return path

    def tests(self):
        """The folder of the tests, unpacked."""
        folder = self.dir / "tests"
        if not (folder / "list.txt").exists():
            with tarfile.open(HERE / "tests.tar.xz") as archive:
                archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
        return folder

    def python(self, script, *options, allowed=(0,)):
        """Runs one of the bundle's scripts with the interpreter that runs this one."""
        path = os.pathsep.join(map(str, [HERE / "python", self.dir / "site", HERE]))
        return self.call([sys.executable, HERE / script, *options], env={"PYTHONPATH": path}, allowed=allowed)


def run_phase(bench, name, state):
    """Runs the steps of a phase that are not done yet; true when all are."""
    bench.begin()
    done = state.setdefault(name, {})
    for step, work in PHASES[name](bench):
        if step in done:
            continue
        if bench.left() < LEAST:
            return False
        print(f"{time.strftime('%H:%M:%S')} {name}: {step}", file=sys.stderr, flush=True)
        start = time.monotonic()
        try:
            result = work()
        except OutOfTime:
            return False
        except (Failed, OSError, ValueError, KeyError) as error:
            result = {"failed": f"{type(error).__name__}: {error}"}
        done[step] = {**result, "took_s": round(time.monotonic() - start, 1)}
        save(bench, state)
    return True


def save(bench, state):
    path = bench.dir / "state.json"
    path.with_suffix(".tmp").write_text(json.dumps(state))
    path.with_suffix(".tmp").replace(path)


def about(bench):
    """The machine, driver and commit that results are of."""
    doctor = json.loads(subprocess.run([bench.khop, "doctor", "--json"], check=True, capture_output=True, text=True).stdout)
    smi = shutil.which("nvidia-smi")
    driver = subprocess.run([smi, "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip() if smi else None
    return {"bundle": json.loads((HERE / "about.json").read_text()), "date": time.strftime("%Y-%m-%d"), "kernel": platform.release(),
            "driver": driver or None, "machine": doctor["machine"], "cuda": doctor["cuda"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phase", nargs="*", help="default: all")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path(os.environ.get("KHOP_GPU_DIR", "/tmp/khop-gpu")), help="data and state (default $KHOP_GPU_DIR or /tmp/khop-gpu)")
    parser.add_argument("--minutes", type=float, default=8, help="that a phase may take (8)")
    parser.add_argument("--again", action="store_true", help="forget what was measured before, in these phases")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, to see that all runs: also on the simulated device")
    args = parser.parse_args()
    letters = dict(zip("abcde", PHASES))
    phases = [letters.get(p, p) for p in args.phase] or list(PHASES)
    if unknown := [p for p in phases if p not in PHASES]:
        parser.error(f"{unknown[0]}: not one of {', '.join(PHASES)}")
    args.dir.mkdir(parents=True, exist_ok=True)
    bench = Bench(args)
    result = {**about(bench), "smoke": args.smoke}
    devices = result["cuda"]["devices"]
    if not devices:
        sys.exit(f"run: no CUDA device: {result['cuda']['reason']}")
    result["simulated"] = devices[0]["name"] == "khop CUDA simulator"
    if result["simulated"] and not args.smoke:
        sys.exit("run: this is the simulated device, whose figures mean nothing: take --smoke")
    path = args.dir / "state.json"
    state = json.loads(path.read_text()) if path.exists() else {}
    of = [result["bundle"], args.smoke, devices[0]["name"]]
    if state.get("of") != of:  # another bundle or device: nothing that was measured holds for it
        state = {"of": of}
    result["phases"] = {}
    out = os.environ.get("OUT")
    out = out and pathlib.Path(out)
    if out and out.is_dir():
        out /= f"khop-gpu-{'-'.join(phases) if args.phase else 'all'}.json"
    for phase in phases:
        if args.again:
            state.pop(phase, None)
        complete = run_phase(bench, phase, state)
        result["phases"][phase] = {"complete": complete, "claims": report.claims(phase, state), "steps": state[phase]}
        text = json.dumps(result, indent=1) + "\n"
        if out:  # after each phase, for whoever is stopped in the next
            out.write_text(text)
    print(text, end="", flush=True)
    for phase in phases:  # last, for whoever sees the end of the output only
        report.table(phase, result)
    unfinished = [p for p in phases if not result["phases"][p]["complete"]]
    if unfinished:
        print(f"run: not done yet: {', '.join(unfinished)}; run it again to go on", file=sys.stderr)
    failed = [f"{p}: {s}: {r['failed']}" for p in phases for s, r in state[p].items() if "failed" in r]
    for line in failed:
        print("run: failed:", line, file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
