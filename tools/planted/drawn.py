"""Draws small faults in kernels by a seed, plants one at a time, and lists those that the tests of the simulated device
miss: a comparison off by one, an operator or a number exchanged, a condition negated, a statement or a barrier left
out, 64 bits cut to 32. planted.py has faults that were thought of instead.

usage: drawn.py [--count N] [--seed S] [--only TEXT] [--tests REGEXP | --own] [FILE...]
FILE: a .cu or .cuh file; all of khop's by default. --own takes seconds a fault in place of a minute."""

import argparse
import os
import pathlib
import random
import re
import resource
import subprocess
import tempfile

from planted import ROOT, WHAT, built, restored, simulator

FILES = subprocess.run(["git", "ls-files", "gather/*.cu*", "sampling/*.cu*", "sparse/*.cu", "internal/rng/*.cuh"],
                       cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
EXCHANGED = {" < ": (" <= ", " > "), " <= ": (" < ",), " > ": (" >= ", " < "), " >= ": (" > ",), " == ": (" != ",),
             " != ": (" == ",), " && ": (" || ",), " || ": (" && ",), " + ": (" - ",), " - ": (" + ",),
             " << ": (" >> ",),
             " >> ": (" << ",), " & ": (" | ",), " | ": (" & ",), "++": ("--",), " += ": (" -= ",), "min(": ("max(",),
             "max(": ("min(",), "(int64_t)": ("(int32_t)",), "true": ("false",), "false": ("true",)}
OPERATORS = re.compile("|".join(map(re.escape, sorted(EXCHANGED, key=len, reverse=True))))
NUMBER = re.compile(r"(?<![\w.\"])(\d+)(?![\w.\"])")
# Of files of sampling, the tests that run them: samplers, as one test names these, or other tests.
OWN = {"walk": "(walk|node2vec|pinsage)", "pinsage": "pinsage", "saint": "saint", "hgt": "hgt", "together": "together",
       "induce": "(induced|shadow|clusters|saint)", "layer": "(fastgcn|ladies)",
       "assembly": "(^all$|trees|together|hgt|walk)"}
OWN = {name: "TestSamplersMakeOnADeviceWhatTheyMakeOnTheCPU/" + of for name, of in OWN.items()}
OWN["assembly"] += "|TestDeviceUsesItsRoomToTheLastCell|TestDeviceNeighborTakesManyEdgeTypes"
OWN["exclude"] = "TestDeviceLeavesEdgesOut|TestLaborOnADeviceLeavesEdgesOut"
CONDITION = re.compile(r"\b(if|while) \(")
STATEMENT = re.compile(r"\s+(?!return|break|continue|const |static|using|template|struct|extern|typedef|case "
                       r"|default|\}|#)"
                       r"(__sync\w+\([^;]*\)|[\w.\->\[\]*()]+ [-+|&]?= "
                       r"[^;{}]+|[\w.\->]+\([^;{}]*\)|\*[^;{}]+);(\s*//.*)?\n")


def of_file(path):
    """All faults of a file: (path, line, what, first byte, byte after the last, text in place of these)."""
    text = (ROOT / path).read_text()
    at, depth = 0, 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        code = line.split("//")[0]
        inside = depth > 0 and not re.match(r"\s*(#|static_assert|template|struct|enum)", code)
        depth += code.count("{") - code.count("}")
        start, at = at, at + len(line)
        if not inside:
            continue
        if m := STATEMENT.fullmatch(line):
            yield path, number, "drop statement", start + m.start(1), start + m.end(1), ""
        for m in OPERATORS.finditer(code):
            for other in EXCHANGED[m[0]]:
                yield path, number, f"{m[0].strip()} to {other.strip()}", start + m.start(), start + m.end(), other
        for m in NUMBER.finditer(code):
            yield path, number, "number", start + m.start(), start + m.end(), str(int(m[1]) + 1)
        for m in CONDITION.finditer(code):
            end, open_ = m.end(), 1
            while open_ and end < len(code):
                open_ += {"(": 1, ")": -1}.get(code[end], 0)
                end += 1
            if not open_:
                yield path, number, "negate", start + m.end(), start + end - 1, f"!({code[m.end():end - 1]})"


class Tests:
    """The tests of a package that need a device, in a binary of their own."""

    def __init__(self, package, scratch, chosen):
        names = "|".join(m for file in sorted((ROOT / package).glob("*_cuda_test.go"))
                         for m in re.findall(r"^func (Test\w+)", file.read_text(), re.M) if m != "TestMain")
        self.folder, self.binary = ROOT / package, scratch / (package + ".test")
        subprocess.run(["go", "test", "-c", "-tags", "cuda", "-vet=off", "-o", self.binary, "./" + package], cwd=ROOT,
                       check=True)
        self.command = [self.binary, "-test.short", "-test.failfast", "-test.timeout", "900s", "-test.run",
                        chosen or f"^({names})$"]

    def notice(self, library, own=None):
        """How the tests fail with a simulator; None where they pass."""
        command = self.command
        if own:
            command = command[:-1] + [own]
        run = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, errors="replace",
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (300, 300)),
                             env=os.environ | {"KHOP_CUDA_DRIVER": str(library)})
        if run.returncode == 0:
            return None
        found = WHAT.search(run.stdout + run.stderr)
        return found[1].lower() if found else "other results"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40, help="faults to try")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="TEXT", help="of FILE:LINE: what is done")
    parser.add_argument("--tests", default="", metavar="REGEXP", help="run these in place of all")
    parser.add_argument("--own", action="store_true", help="run the tests of the samplers of each file in place of all")
    parser.add_argument("files", nargs="*", metavar="FILE")
    args = parser.parse_args()
    named = lambda f: f"{f[0]}:{f[1]}: {f[2]}"
    everything = [f for path in args.files or FILES for f in of_file(path) if re.search(args.only, named(f))]
    random.Random(args.seed).shuffle(everything)
    tried = missed = 0
    with tempfile.TemporaryDirectory(prefix="khop-planted-") as name:
        scratch = pathlib.Path(name)
        simulator(scratch)
        package = lambda path: "sampling" if path.startswith("internal") else path.split("/")[0]
        tests = {p: Tests(p, scratch, args.tests) for p in {package(f[0]) for f in everything}}
        own = lambda path: OWN[pathlib.Path(path).stem] if args.own else None
        for path in {f[0] for f in everything}:
            if tests[package(path)].notice(ROOT / "dist/libcudasim.so", own(path)):
                raise SystemExit(f"{path}: the tests fail as it is")
        for fault in everything:
            if tried == args.count:
                break
            path, _, _, begin, end, new = fault
            whole = (ROOT / path).read_text()
            (scratch / path).write_text(whole[:begin] + new + whole[end:])
            try:
                library = built(scratch, path)
            except SystemExit:
                restored(scratch, path, whole)
                continue  # it does not compile
            restored(scratch, path, whole)
            tried += 1
            how = tests[package(path)].notice(library, own(path))
            missed += how is None
            print(f"{named(fault)}: {how or 'MISSED'}", flush=True)
            first = whole.rfind("\n", 0, begin) + 1
            if how is None:
                line = whole[first:whole.find("\n", end)]
                print(f"  - {line.strip()}\n  + {(whole[first:begin] + new + whole[end:first + len(line)]).strip()}",
                      flush=True)
    print(f"{len(everything)} possible, {tried} tried, {tried - missed} noticed, {missed} missed")


if __name__ == "__main__":
    main()
