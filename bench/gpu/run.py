#!/usr/bin/env python3
"""Measures khop on this machine's GPU: bench/gpu/README.md says what each phase shows.

    ./run                     all phases, what is worth most first
    ./run gather transfer     some: machine (a), gather (b), sampling (c), transfer (d), training (e), ops (f)
    ./run --more              also what no claim needs: other widths, pages, numbers of workers and kinds of operations
    ./run --total 9           for 9 minutes at most, where a command may not take longer; again, until all is done

Prints one JSON object on standard output, a table a phase on standard error, and after every step writes the object to
$OUT as well (a file in it, if that is a folder). A phase stops before its time is over (8 minutes) and goes on where it
was when it is run again: finished steps are kept in --dir, with the data that is generated there. On another machine of
the kind, --from takes it from the object that was written. Needs Python 3.10; training, PyG's sampling and the peers of
ops need torch.
"""
import argparse
import json
import math
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import time

import report
from bench import HERE, Bench, Failed, OutOfTime
from phases import MORE, PHASES

BUILD = 420  # seconds that building PyG's sampler may take, outside of --total
LEAST = 0.2  # of the seconds that a step may take: with less left it is not begun, for it would likely be tried in vain


class Run:
    """The phases that are asked for, what was measured of them, and where that is kept."""

    def __init__(self, args, bench, about):
        self.bench, self.about = bench, about
        self.steps = {phase: [step for step in PHASES[phase](bench) if args.more or step.worth < MORE]
                      for phase in args.phases}
        self.limit, self.spent = args.minutes * 60, dict.fromkeys(args.phases, 0)
        self.end = time.monotonic() + args.total * 60
        of = {"bundle": about["bundle"], "smoke": bench.smoke, "device": about["cuda"]["devices"][0]["name"]}
        self.kept = bench.dir / "state.json"
        self.state = {"of": of}
        if self.kept.exists():
            state = json.loads(self.kept.read_text())
            if state.get("of") == of:  # else nothing that was measured holds for this bundle and device
                self.state = state
        if args.earlier:
            earlier = json.loads(args.earlier.read_text())
            if {"bundle": earlier["bundle"], "smoke": earlier["smoke"],
                "device": earlier["cuda"]["devices"][0]["name"]} != of:
                sys.exit(f"run: {args.earlier} is of another bundle or device")
            for phase, p in earlier["phases"].items():
                self.state[phase] = p["steps"] | self.state.get(phase, {})
        for phase in args.phases:
            self.state[phase] = {} if args.again else self.state.get(phase, {})
        self.out = os.environ.get("OUT") and pathlib.Path(os.environ["OUT"])
        if self.out and self.out.is_dir():
            self.out /= f"khop-gpu-{'-'.join(args.phases) if len(args.phases) < len(PHASES) else 'all'}.json"

    def pending(self):
        """The steps to take, what is worth most first; last those that failed in an earlier run."""
        todo = [(phase, step) for phase, steps in self.steps.items() for step in steps]
        new = [(p, s) for p, s in todo if s.name not in self.state[p]]
        again = [(p, s) for p, s in todo if s.name in self.state[p] and failed(self.state[p][s.name])]
        return sorted(new, key=lambda t: t[1].worth) + again

    def go(self):
        pending = self.pending()
        self.bench.todo = {(phase, step.name) for phase, step in pending}
        for phase, step in pending:
            start = time.monotonic()
            over = min(self.end, start + self.limit - self.spent[phase])
            if over - start < LEAST * step.seconds:
                continue
            print(f"{time.strftime('%H:%M:%S')} {phase}: {step.name}", file=sys.stderr, flush=True)
            self.bench.begin(step.seconds, over)
            try:
                result = step.work()
            except OutOfTime:
                self.spent[phase] = self.limit
                continue
            except Exception as error:  # whatever it is, the other steps are still wanted
                result = {**getattr(error, "partial", {}), "failed": str(error) if isinstance(error, Failed)
                          else f"{type(error).__name__}: {error}"}
            took = time.monotonic() - start
            self.spent[phase] += took
            self.state[phase][step.name] = {**result, "took_s": round(took, 1)}
            self.save()

    def result(self):
        phases = {phase: {"complete": all(s.name in self.state[phase] for s in steps),
                          "claims": report.claims(phase, self.state), "steps": self.state[phase]}
                  for phase, steps in self.steps.items()}
        return {**self.about, "phases": phases}

    def save(self):
        """After each step, for whoever is stopped in the next."""
        write(self.kept, json.dumps(self.state))
        if self.out:
            write(self.out, json.dumps(self.result(), indent=1) + "\n")


def failed(result):
    return "failed" in result


def write(path, text):
    path.with_suffix(".tmp").write_text(text)
    path.with_suffix(".tmp").replace(path)


def about(bench):
    """The machine, driver and commit that results are of."""
    try:
        doctor = json.loads(subprocess.run([bench.khop, "doctor", "--json"], check=True, capture_output=True,
                                           text=True, timeout=120).stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        sys.exit(f"run: khop doctor does not work here: {error} {getattr(error, 'stderr', '') or ''}")
    return {"bundle": json.loads((HERE / "about.json").read_text()), "date": time.strftime("%Y-%m-%d"),
            "kernel": platform.release(),
            "driver": driver(), "machine": doctor["machine"], "cuda": doctor["cuda"], "smoke": bench.smoke}


def driver():
    """The driver's version; None where neither it nor its tool says."""
    try:
        if smi := shutil.which("nvidia-smi"):
            out = subprocess.run([smi, "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                                 text=True, timeout=60).stdout
            if out.strip():
                return out.splitlines()[0].strip()
        return pathlib.Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, subprocess.SubprocessError):
        return None


def prepare(bench):
    """Builds what PyG samples with against the torch that is here, before the clock starts, or says what is missing."""
    bench.begin(BUILD, math.inf)
    try:
        missing = bench.no_sampler
    except Failed as error:
        missing = bench.no_sampler = str(error)
    if missing:
        print(f"run: no comparison with PyG: {missing.splitlines()[0][:300]}", file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phases", nargs="*", metavar="phase", help="default: all")
    parser.add_argument("--dir", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("KHOP_GPU_DIR", "/tmp/khop-gpu")),
                        help="data and state (default $KHOP_GPU_DIR or /tmp/khop-gpu)")
    parser.add_argument("--minutes", type=float, default=8, help="that a phase may take (8)")
    parser.add_argument("--total", type=float, default=math.inf, metavar="MINUTES",
                        help="that all phases may take together")
    parser.add_argument("--from", type=pathlib.Path, dest="earlier", metavar="FILE",
                        help="the object of an earlier run, whose steps are not taken again")
    parser.add_argument("--more", action="store_true", help="also the steps that no claim needs")
    parser.add_argument("--again", action="store_true", help="forget what was measured before, in these phases")
    parser.add_argument("--smoke", action="store_true",
                        help="tiny sizes, to see that all runs: also on the simulated device")
    args = parser.parse_args()
    args.more |= args.smoke
    letters = dict(zip("abcdef", PHASES))
    args.phases = list(dict.fromkeys(letters.get(p, p) for p in args.phases)) or list(PHASES)
    if unknown := [p for p in args.phases if p not in PHASES]:
        parser.error(f"{unknown[0]}: not one of {', '.join(PHASES)}")
    return args


def main():
    args = arguments()
    args.dir.mkdir(parents=True, exist_ok=True)
    bench = Bench(args.dir.resolve(), args.smoke)
    this = about(bench)
    if not this["cuda"]["devices"]:
        sys.exit(f"run: no CUDA device: {this['cuda']['reason']}")
    this["simulated"] = this["cuda"]["devices"][0]["name"] == "khop CUDA simulator"
    if this["simulated"] and not args.smoke:
        sys.exit("run: this is the simulated device, whose figures mean nothing: take --smoke")
    # so that the program of the step ends as well, and what there is is printed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench.uuid = this["cuda"]["devices"][0].get("uuid", "")
    if {"sampling", "training"} & set(args.phases):
        prepare(bench)
    run = Run(args, bench, this)
    try:
        run.go()
    finally:
        run.save()
        result = run.result()
        print(json.dumps(result, indent=1), flush=True)
        for phase in args.phases:  # last, for whoever sees the end of the output only
            report.table(phase, result)
    if unfinished := [p for p in args.phases if not result["phases"][p]["complete"]]:
        print(f"run: not done yet: {', '.join(unfinished)}; run it again to go on", file=sys.stderr)
    broken = [f"{phase}: {step}: {r['failed'].splitlines()[0][:300]}" for phase in args.phases for step,
              r in run.state[phase].items() if failed(r)]
    for line in broken:
        print("run: failed:", line, file=sys.stderr)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
