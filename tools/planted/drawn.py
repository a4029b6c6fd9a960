"""Draws small faults in kernels by a seed, plants one at a time, and lists those that the tests of the simulated device
miss: a comparison off by one, an operator or a number exchanged, a condition negated, a statement or a barrier left
out, 64 bits cut to 32. planted.py has faults that were thought of instead.

usage: drawn.py [--count N] [--seed S] [--only TEXT] [--tests REGEXP | --own] [--jobs N] [FILE...]
FILE: a .cu or .cuh file; all of khop's by default. --own takes seconds in place of a minute for one that is noticed.

A fault does not count where it does not compile, or where the compiler makes the same code of it as of what stood
there: no test can tell them apart. Tests that take three times the processor's time of what they take without a fault,
and 20 s more, are ended; the fault counts as noticed."""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import tempfile

from planted import ROOT, WHAT, built, including, restored, simulator

FILES = subprocess.run(["git", "ls-files", "gather/cuda/*.cu*", "sampling/*.cu*", "sparse/*.cu", "internal/rng/*.cuh"],
                       cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
EXCHANGED = {" < ": (" <= ", " > "), " <= ": (" < ",), " > ": (" >= ", " < "), " >= ": (" > ",), " == ": (" != ",),
             " != ": (" == ",), " && ": (" || ",), " || ": (" && ",), " + ": (" - ",), " - ": (" + ",),
             " << ": (" >> ",),
             " >> ": (" << ",), " & ": (" | ",), " | ": (" & ",), "++": ("--",), " += ": (" -= ",), "min(": ("max(",),
             "max(": ("min(",), "(int64_t)": ("(int32_t)",), "true": ("false",), "false": ("true",)}
OPERATORS = re.compile("|".join(map(re.escape, sorted(EXCHANGED, key=len, reverse=True))))
NUMBER = re.compile(r"(?<![\w.\"])(\d+)(?![\w.\"])")
# Of files of sampling, the tests that find most of their faults, and soon: samplers, as one test names these, and other
# tests. Others run them too, and come behind.
SAMPLERS = {"walk": "(walk|node2vec|pinsage)", "pinsage": "pinsage", "saint": "saint", "hgt": "hgt",
            "together": "together", "induce": "(induced|shadow|clusters|saint)", "layer": "(fastgcn|ladies)",
            "assembly": "(^all$|trees|together|hgt|walk)", "place": "(saint|walk|pinsage)", "sort": "(ladies|hgt)",
            "table": "(trees|temporal|induced)", "batch": "(^all$|ladies|trees)", "pick": "(masked|fastgcn|induced)",
            "labor": "labor"}
OWN = {"assembly": "UsesItsRoomToTheLastCell|NeighborTakesManyEdgeTypes", "exclude": "LeavesEdgesOut",
       "choose": "Chooses|LooksAtTime", "labor": "OfHubsOnADevice|OnADeviceEqualsTheOracle", "batch": "NeighborEquals",
       "neighbor": "NeighborEquals|MakesLargeSubsets|SharesManyDestinations", "negative": "Negatives",
       "table": "TableTakesEverySlot|StampsStartOver", "pick": "ShareHubs|Hot", "sort": "AddsUpManyEdges"}
OWN = {name: "|".join(f"Test.*({t})" for t in [OWN.get(name)] if t) for name in OWN | SAMPLERS}
OWN = {name: "|".join(filter(None, [own, SAMPLERS.get(name) and
                                    f"TestSamplersMakeOnADeviceWhatTheyMakeOnTheCPU/{SAMPLERS[name]}"]))
       for name, own in OWN.items()}
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


def same_code(scratch, path):
    """Whether the compiler has made of a file with a fault what it makes of it as it is."""
    def code(root, source):
        of = root / "dist/cudasim/kernels" / source.relative_to(scratch.resolve()).with_suffix(".checked.o")
        subprocess.run(["objcopy", "--strip-debug", of, scratch / "code.o"], check=True)
        return (scratch / "code.o").read_bytes()
    return all(code(scratch, source) == code(ROOT, source) for source in including(scratch, path))


class Tests:
    """The tests of a package that need a device, in a binary of their own."""

    def __init__(self, package, scratch, chosen):
        names = "|".join(m for file in sorted((ROOT / package).glob("*_cuda_test.go"))
                         for m in re.findall(r"^func (Test\w+)", file.read_text(), re.M) if m != "TestMain")
        self.folder, self.binary = ROOT / package, scratch / (package + ".test")
        self.all, self.seconds = chosen or f"^({names})$", {}
        subprocess.run(["go", "test", "-c", "-tags", "cuda", "-vet=off", "-o", self.binary, "./" + package], cwd=ROOT,
                       check=True)

    def baseline(self, path, tests):
        """Runs tests without a fault, and keeps how much of a processor's time they take."""
        if tests in self.seconds:
            return
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if self.failure(ROOT / "dist/libcudasim.so", tests):
            raise SystemExit(f"{path}: the tests fail as it is")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.seconds[tests] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def notice(self, library, own):
        """How the tests fail with a simulator, which is removed then; None where they pass."""
        try:
            return self.failure(library, own) or (own != self.all and self.failure(library, self.all)) or None
        finally:
            library.unlink()

    def failure(self, library, tests):
        limit = int(3 * self.seconds.get(tests, 200)) + 20
        run = subprocess.run([self.binary, "-test.short", "-test.failfast", "-test.timeout=900s", "-test.run", tests],
                             cwd=self.folder, capture_output=True, text=True, errors="replace",
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
                             env=os.environ | {"KHOP_CUDA_DRIVER": str(library)})
        if run.returncode == 0:
            return None
        found = WHAT.search(run.stdout + run.stderr)
        ended = f"ended after {limit} s" if run.returncode == -signal.SIGKILL else "other results"
        return found[1].lower() if found else ended


def planted(scratch, fault):
    """A simulator with a fault; None where it does not compile, or is what it was."""
    path, _, what, begin, end, new = fault
    whole = (ROOT / path).read_text()
    (scratch / path).write_text(whole[:begin] + new + whole[end:])
    try:
        library = built(scratch, path)
        # A barrier counts, even one of which this compiler makes nothing.
        if not whole[begin:end].startswith("__") and same_code(scratch, path):
            return None
        return pathlib.Path(shutil.copy(library, tempfile.mkstemp(".so", dir=scratch)[1]))
    except SystemExit:
        return None
    finally:
        restored(scratch, path, whole)


def told(tried):
    """Waits for the tests of a fault, and says what became of it; returns whether it was missed."""
    (path, line, what, begin, end, new), how = tried[0], tried[1].result()
    print(f"{path}:{line}: {what}: {how or 'MISSED'}", flush=True)
    if how is None:
        whole = (ROOT / path).read_text()
        first, last = whole.rfind("\n", 0, begin) + 1, whole.find("\n", end)
        print(f"  - {whole[first:last].strip()}\n  + {(whole[first:begin] + new + whole[end:last]).strip()}",
              flush=True)
    return how is None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40, help="faults to try")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="TEXT", help="of FILE:LINE: what is done")
    parser.add_argument("--tests", default="", metavar="REGEXP", help="run these in place of all")
    parser.add_argument("--own", action="store_true", help="run the tests of the samplers of each file first")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="simulators that run at once")
    parser.add_argument("files", nargs="*", metavar="FILE")
    args = parser.parse_args()
    named = lambda f: f"{f[0]}:{f[1]}: {f[2]}"
    everything = [f for path in args.files or FILES for f in of_file(path) if re.search(args.only, named(f))]
    random.Random(args.seed).shuffle(everything)
    with tempfile.TemporaryDirectory(prefix="khop-planted-") as name, \
            concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        scratch = pathlib.Path(name)
        simulator(scratch)
        package = lambda path: "sampling" if path.startswith("internal") else path.split("/")[0]
        tests = {p: Tests(p, scratch, args.tests) for p in {package(f[0]) for f in everything}}
        own = lambda path: args.own and OWN.get(pathlib.Path(path).stem) or tests[package(path)].all
        for path in dict.fromkeys(f[0] for f in everything):
            for some in own(path), tests[package(path)].all:
                tests[package(path)].baseline(path, some)
        tried, waiting, missed = 0, collections.deque(), 0
        for fault in everything:
            if tried == args.count:
                break
            if library := planted(scratch, fault):
                tried += 1
                waiting.append((fault, pool.submit(tests[package(fault[0])].notice, library, own(fault[0]))))
            if len(waiting) > args.jobs:
                missed += told(waiting.popleft())
        missed += sum(told(each) for each in waiting)
    print(f"{len(everything)} possible, {tried} tried, {tried - missed} noticed, {missed} missed")


if __name__ == "__main__":
    main()
