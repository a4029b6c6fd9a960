#!/usr/bin/env python3
"""Runs others' test suites against khop, at pinned commits, and writes docs/results/judges.md and judges.json.

    tools/judges/run.py                     all suites; 11 minutes on two cores
    tools/judges/run.py --only graphar      one suite, with the one beside it; may be given several times
    tools/judges/run.py --sources DIR       sources from DIR/NAME (a clone, or files), not from GitHub
    tools/judges/run.py --list              what there is

suites.toml has the table of suites. Needs Python 3.11 or later, dist/khop and dist/libkhop.so ("make library"), the
environment of requirements.txt beside this file (--setup makes it: 5 GB), and git. Status 1: a case fails that did not
at the last committed result, a suite has fewer passes or products than it must have, or it could not run.
"""
import argparse
import ast
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

import report
import sources

HERE, ROOT = pathlib.Path(__file__).resolve().parent, pathlib.Path(__file__).resolve().parents[2]
WORK = pathlib.Path(os.environ.get("KHOP_BENCH_DIR", ROOT / ".bench"))
PYTHON = WORK / "judges/bin/python"
NEEDED = [ROOT / "dist/khop", ROOT / "dist/libkhop.so"]


class CannotRun(Exception):
    """Why a suite did not run."""


def plan():
    """The table of suites; one that is like another has what it does not say itself from there."""
    table = tomllib.loads((HERE / "suites.toml").read_text(encoding="utf-8"))
    for name, suite in table["suites"].items():
        like = table["suites"].get(suite.get("like"), {})
        table["suites"][name] = {**{k: v for k, v in like.items() if k != "without"}, **suite}
    for suite in table["suites"].values():
        if "refusals" in suite:
            suite["known"] = constant(*suite["refusals"].split(":"))
    return table


def constant(path, name):
    """A constant of a Python file, which need not be imported."""
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise KeyError(f"{path} has no {name}")


def setup():
    """Makes the environment of requirements.txt; a second call does nothing."""
    folder, pins = WORK / "judges", HERE / "requirements.txt"
    if (folder / "installed.txt").exists() and (folder / "installed.txt").read_text() == pins.read_text():
        return
    python = os.environ.get("PYTHON") or shutil.which("python3.11") or sys.executable
    subprocess.run([python, "-m", "venv", folder], check=True)
    pip = [folder / "bin/pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", pins], check=True)
    alone = re.findall("^# alone: (.*)", pins.read_text(), re.M)
    subprocess.run([*pip, "--no-deps", *alone], check=True)
    shutil.copy(pins, folder / "installed.txt")


def here():
    """The commit of khop, the date and the machine."""
    git = lambda *arguments: subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    commit = git("rev-parse", "--short=8", "HEAD").stdout.strip()
    changed = git("diff", "--quiet", "HEAD", "--", ".", ":!docs").returncode
    models = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return f"{commit}{' and changes' if changed else ''}, {time.strftime('%Y-%m-%d')}, {len(models)} x {models[0]}"


def pytest_command(suite, fill):
    command = ["nice", "-n", "10", PYTHON, "-m", "pytest", "-q", "--tb=no", "-rN", "-W", "ignore", "-p",
               "no:cacheprovider"]
    files = [fill(f) for f in suite["files"]]
    if files[0].startswith("/"):
        command += ["--rootdir", fill(suite["cases"]), "--confcutdir", fill(suite["cases"]), "--timeout", "120"]
    return [*map(str, command), *(f if f.startswith("/") else str(ROOT / f) for f in files)]


def environment(suite, fill, cases, scratch):
    """Variables of a suite. What pytest gets here also holds for the pytest that one of khop's own tests starts."""
    plugins = ["judges_cases", *suite.get("plugins", []), *(["judges_patch"] if "patch" in suite else [])]
    told = [f"-p {plugin}" for plugin in plugins]
    if "left_out" in suite:
        told.append(f"-k 'not ({' or '.join(suite['left_out'])})'")
    khops = "tests" if suite["cases"] == "tests" else "integrations/python/tests"
    path = [HERE, ROOT / "integrations/python/src", ROOT / khops, *map(fill, suite.get("path", []))]
    return {
        **os.environ, **{k: fill(v) for k, v in suite.get("variables", {}).items()},
        "KHOP": str(NEEDED[0]), "KHOP_BIN": str(NEEDED[0]), "KHOP_LIBRARY": str(NEEDED[1]),
        "KHOP_JUDGES_CASES": str(cases), "KHOP_JUDGES_PATCH": suite.get("patch", ""),
        "KHOP_JUDGES_FOLDER": str(ROOT / "tests" if suite["cases"] == "tests" else fill(suite["cases"])),
        "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": " ".join(told), "OMP_NUM_THREADS": "1", "TMPDIR": str(scratch), "HOME": str(scratch),
    }


def read(cases):
    """What became of each case, how many products there were, and how many cases had some."""
    found, products, covered = {}, 0, 0
    for line in cases.read_text().splitlines() if cases.exists() else ():
        case = json.loads(line)
        if found.get(case["case"], ("",))[0] != "failed":
            found[case["case"]] = case["outcome"], case["why"]
        products, covered = products + case["products"], covered + (case["products"] > 0)
    return found, products, covered


def run(name, suite, folders):
    """Runs a suite: what became of its cases, and the result for judges.json."""
    if not PYTHON.exists():
        raise CannotRun(f"there is no {PYTHON}: --setup makes it")
    kept = WORK / "judges-runs" / name
    shutil.rmtree(kept, ignore_errors=True)
    (kept / "tmp").mkdir(parents=True)
    places = {**folders, "sources": sources.below(folders, suite["sources"], kept)}
    fill = lambda text: re.sub(r"{([\w-]+)}", lambda m: str(places[m[1]]), text)
    began = time.monotonic()
    with (kept / "output.txt").open("w") as out:
        process = subprocess.Popen(
            pytest_command(suite, fill), cwd=kept, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            env=environment(suite, fill, kept / "cases.jsonl", kept / "tmp"))
        try:
            status = process.wait(60 * suite["minutes"])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            raise CannotRun(f"it takes more than {suite['minutes']} minutes; see {kept}/output.txt")
    shutil.rmtree(kept / "tmp", ignore_errors=True)
    if status not in (0, 1):
        raise CannotRun(f"pytest ends with status {status}; see {kept}/output.txt")
    cases, products, covered = read(kept / "cases.jsonl")
    result = {"commits": "", "seconds": round(time.monotonic() - began), "khop": here()}
    return cases, {**result, **({"products": products, "with products": covered} if "products" in suite else {})}


def chosen(table, only):
    """Names of suites in the order of the table: those asked for, and those beside them."""
    for name in only:
        if name not in table["suites"]:
            sys.exit(f"judges: there is no suite {name!r}, only {', '.join(table['suites'])}")
    beside = {table["suites"][name].get("beside") for name in only}
    return [name for name in table["suites"] if not only or name in only or name in beside]


def stamp(table, suite):
    """What a run without khop depends on."""
    commits = [table["sources"][s]["commit"] for s in suite["sources"]]
    return json.dumps([suite["files"], suite.get("left_out"), commits, (HERE / "requirements.txt").read_text()])


def before(name, table):
    """What became of the cases of a suite without khop, of an earlier run of the same; None if there was none."""
    kept = WORK / "judges-runs" / name
    if not (kept / "of.json").exists() or (kept / "of.json").read_text() != stamp(table, table["suites"][name]):
        return None
    return read(kept / "cases.jsonl")[0]


def judge(name, table, seen, given):
    """Runs a suite and judges it: its result, and sentences of what is wrong with it."""
    suite = table["suites"][name]
    folders, remarks = {}, []
    for source in suite["sources"]:
        folders[source], remark = sources.obtain(source, table["sources"][source], given, WORK / "judges-sources")
        remarks += [f"{source} is {remark}"] if remark else []
    seen[name], result = run(name, suite, folders)
    (WORK / "judges-runs" / name / "of.json").write_text(stamp(table, suite))
    result |= report.judge(suite, seen[name], seen.get(suite.get("beside"), {}))
    result["commits"] = ", ".join(remarks) or " ".join(table["sources"][s]["commit"][:12] for s in suite["sources"])
    return result, [*report.short(suite, result), *report.worse(suite, result, report.committed().get(name)),
                    *report.needless(suite, seen[name])]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", action="append", default=[], help="a suite")
    p.add_argument("--sources", type=pathlib.Path, help="folder of local sources, one subfolder each")
    p.add_argument("--list", action="store_true", help="list suites and sources")
    p.add_argument("--setup", action="store_true", help="make the environment first")
    return p.parse_args()


def main():
    args, table = arguments(), plan()
    if args.list:
        return print("\n".join(f"{n:26} {s['about']}" for n, s in table["suites"].items()))
    if args.setup:
        setup()
    for path in NEEDED:
        if not path.exists():
            sys.exit(f"judges: there is no {path}: \"make library\" and \"go build -o dist/khop ./cmd/khop\" make it")
    seen, wrong = {}, []
    for name in chosen(table, args.only):
        print(f"{name}: {table['suites'][name]['about']}", flush=True)
        if args.only and name not in args.only and (kept := before(name, table)) is not None:
            seen[name] = kept
            print("  as the last run of it here")
            continue
        try:
            r, said = judge(name, table, seen, args.sources)
            report.keep(table, name, r)
            print(f"  {r['passed']} passed, {len(r['refused'])} refused, {len(r['failed'])} failed, {len(r['theirs'])} "
                  f"fail without khop, {r['skipped']} skipped, {r.get('products', 'no')} products, {r['seconds']} s")
        except (sources.Unobtainable, CannotRun) as e:
            said = [f"did not run: {e}"]
        wrong += [f"{name}: {sentence}" for sentence in said]
    print("\n".join(wrong), file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
