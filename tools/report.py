#!/usr/bin/env python3
"""Shows "go test -json", read from standard input, by gotestsum, and keeps tests honest about what they leave out.

It fails where a test or a build fails, where nothing has passed, and where a test skips that the list does not name.

    go test -json ./... | tools/report.py [--allowed tests/allowed-skips.txt] [--totals FILE]
"""
import argparse
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tempfile

GOTESTSUM = "v1.13.0"
DIST = pathlib.Path(__file__).resolve().parents[1] / "dist"


def gotestsum():
    """Builds gotestsum into dist/ where it is not there yet."""
    program = DIST / f"gotestsum-{GOTESTSUM}"
    if not program.exists():
        DIST.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=DIST) as folder:
            env = {**os.environ, "GOBIN": folder, "GOFLAGS": "-trimpath", "CGO_ENABLED": "0"}
            subprocess.run(["go", "install", f"gotest.tools/gotestsum@{GOTESTSUM}"], env=env, check=True)
            os.replace(pathlib.Path(folder, "gotestsum"), program)
    return program


def allowed(text):
    """Reads the list of tests that may skip: PACKAGE TEST a line. Lines for pytest are not about these."""
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    lines = [words for words in lines if words and words[0] != "pytest"]
    if wrong := [words for words in lines if len(words) != 2]:
        raise SystemExit(f"report.py: want PACKAGE TEST, not {' '.join(wrong[0])!r}")
    return lines


def may_skip(package, test, patterns):
    """Whether a line names the test or one that it is part of, and the package or the end of its path."""
    return any((fnmatch.fnmatchcase(package, p) or fnmatch.fnmatchcase(package, "*/" + p)) and
               (fnmatch.fnmatchcase(test, name) or fnmatch.fnmatchcase(test, name + "/*")) for p, name in patterns)


def verdict(events, patterns):
    """Counts tests of events: (passed, failed, skipped), and says what is wrong. Without patterns any test may skip."""
    counts, problems, open_packages = {"pass": 0, "fail": 0, "skip": 0}, [], {}
    for event in events:
        action, package, test = event["Action"], event.get("Package", ""), event.get("Test", "")
        if not test:
            if action == "start":
                open_packages[package] = True
            elif action in counts:
                open_packages.pop(package, None)
        elif action in counts:
            counts[action] += 1
            if action == "skip" and patterns is not None and not may_skip(package, test, patterns):
                problems.append(f"skipped, but not allowed to: {package} {test}")
        if action in ("fail", "build-fail"):
            problems.append(f"failed: {package or event.get('ImportPath')} {test}")
    problems += [f"did not end: {package}" for package in open_packages]
    if not counts["pass"]:
        problems.append("no test has passed")
    return tuple(counts.values()), problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--allowed", type=pathlib.Path, help="the tests that may skip; without it any may")
    parser.add_argument("--totals", type=pathlib.Path, help="a line is added: passed, failed, skipped")
    args = parser.parse_args()
    patterns = allowed(args.allowed.read_text()) if args.allowed else None
    with tempfile.NamedTemporaryFile() as log:
        show = subprocess.run([gotestsum(), "--format", "standard-quiet", "--hide-summary", "skipped",
                               "--ignore-non-json-output-lines", "--jsonfile", log.name, "--raw-command", "--", "cat"])
        sys.stdout.flush()
        subprocess.run([gotestsum(), "tool", "slowest", "--threshold", "5s", "--jsonfile", log.name])
        counts, problems = verdict(map(json.loads, log), patterns)
    if args.totals:
        with args.totals.open("a") as totals:
            print(*counts, file=totals)
    for problem in problems:
        print(problem)
    print("{} tests passed, {} failed, {} skipped".format(*counts))
    return bool(problems) or show.returncode


if __name__ == "__main__":
    sys.exit(main())
