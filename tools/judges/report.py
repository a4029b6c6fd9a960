"""What suites found, as docs/results/judges.json and the page of it; what got worse since a committed result."""
import collections
import fnmatch
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import section

JSON, PAGE = ROOT / "docs/results/judges.json", ROOT / "docs/results/judges.md"
TEXT = """# Other projects' tests judge khop

`make judges` runs test suites of others against khop, at pinned commits, and writes this page. `ONLY=graphar` runs one
suite, `FOLDER=DIR` has the sources where they cannot be cloned. Nothing of them is in this repository;
[tools/judges/suites.toml](../../tools/judges/suites.toml) says how each runs. A case that passed at the last committed
result and does not any more fails the command, as fewer passes do, or fewer products of khop's kernels than a suite
must have.

*Refused* are cases that khop is known not to do, with the reason below. *Theirs* fail without khop, too. *Skipped* are
cases that skip themselves: they want a download, a GPU or another library. *khop* is its commit and the date.
"""


def known(suite, case):
    """Why a case is known not to hold; None if it is not."""
    patterns = [(why, [pattern]) for pattern, why in suite.get("refused", {}).items()]
    reasons = [*patterns, *suite.get("known", {}).items()]
    return next((why for why, names in reasons if any(matches(name, case) for name in names)), None)


def judge(suite, cases, beside):
    """Sorts cases into what the page counts. cases and beside: names, and what became of each."""
    found = {"passed": 0, "skipped": 0, "refused": {}, "theirs": [], "failed": {}}
    for name, (outcome, why) in sorted(cases.items()):
        if outcome in ("passed", "skipped"):
            found[outcome] += 1
        elif outcome == "refused" or known(suite, name) is not None:
            found["refused"][name] = why if outcome == "refused" else known(suite, name)
        elif suite.get("without") or beside.get(name, ("", ""))[0] == "failed":
            found["theirs"].append(name)
        else:
            found["failed"][name] = why
    return found


def committed():
    """The last committed results, by suite."""
    run = subprocess.run(["git", "show", f"HEAD:{JSON.relative_to(ROOT)}"], cwd=ROOT, capture_output=True, text=True)
    return json.loads(run.stdout) if run.returncode == 0 else {}


def worse(suite, now, before):
    """What is worse than the committed result, in sentences: new failures, and fewer passes."""
    if before is None or suite.get("without"):
        return []
    known_then = set(before["failed"]) | set(before["refused"]) | set(before["theirs"])
    said = [f"{name} fails, and did not at the last result: {why}" for name, why in now["failed"].items()
            if name not in known_then]
    if now["passed"] < before["passed"] and not said and now["commits"] == before["commits"]:
        said.append(f"{now['passed']} cases pass, and {before['passed']} did at the last result")
    return said


def short(suite, now):
    """What a suite must have, and has not."""
    said = []
    if now["passed"] < suite["passed"]:
        said.append(f"{now['passed']} cases pass, and {suite['passed']} is the least")
    if now.get("products", 0) < suite.get("products", 0):
        said.append(f"khop's kernels made {now['products']} products, and {suite['products']} is the least")
    return said


def needless(suite, cases):
    """Which refusals are of no case that fails, in sentences: a name has changed, or khop does it now."""
    failed = [name for name, (outcome, _) in cases.items() if outcome == "failed"]
    all_known = [*suite.get("refused", {}), *(name for names in suite.get("known", {}).values() for name in names)]
    return [f"{name} is refused, and no case of that name fails: take it off the list" for name in all_known
            if not any(matches(name, case) for case in failed)]


def matches(known_as, case):
    """Whether a pattern, or the name of a test, is that of a case."""
    test = case.rpartition("::")[2].partition("[")[0].partition(":")[0]
    return fnmatch.fnmatchcase(case, known_as) or test == known_as


def keep(plan, name, result):
    """Writes a suite's result beside those of others, and the page of all."""
    results = json.loads(JSON.read_text()) if JSON.exists() else {}
    results = {n: r for n in plan["suites"] if (r := result if n == name else results.get(n))}
    JSON.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(page(plan, results))


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("---" if i < 2 else "---:" for i in range(len(head))) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def number(n):
    return f"{n:,}" if n else ""


def page(plan, results):
    """The page of all results."""
    rows = []
    for name, suite in plan["suites"].items():
        r = results.get(name)
        if r:
            count = r["passed"] + r["skipped"] + len(r["refused"]) + len(r["theirs"]) + len(r["failed"])
            rows.append((name, suite["about"], number(count), number(r["passed"]), number(len(r["refused"])),
                         number(len(r["failed"])), number(len(r["theirs"])), number(r["skipped"]),
                         number(r.get("products", 0)), r["seconds"], r["khop"].rpartition(", ")[0]))
        else:
            rows.append((name, suite["about"] + ": **not run yet**", *[""] * 9))
    parts = [TEXT, table(["suite", "what", "cases", "passed", "refused", "failed", "theirs", "skipped", "products",
                          "seconds", "khop"], rows)]
    seconds = sum(r["seconds"] for r in results.values())
    machines = sorted({r["khop"].split(", ")[-1] for r in results.values()})
    parts.append(f"\nAll suites took {seconds / 60:.0f} minutes, on {' and '.join(machines)}.")
    parts.append("\n## Sources\n\n" + table(["source", "commit", "licence"], [
        (f"[{name}]({s['repository']})", f"`{s['commit'][:12]}`" + (f", {s['release']}" if "release" in s else ""),
         s["licence"]) for name, s in plan["sources"].items()]).replace("---:", "---"))
    parts.append("\n## What is refused, and why\n")
    for name in plan["suites"]:
        reasons = collections.defaultdict(list)
        for case, why in results.get(name, {}).get("refused", {}).items():
            reasons[why.partition(": ")[0] if ": " in case else why].append(case)  # of files the JSON has the rest
        parts += [section.wrapped(f"- {name}: {said(cases)}: {why}") for why, cases in reasons.items()]
        parts += [section.wrapped(f"- {name}, left out: `{test}`: {why}")
                  for test, why in plan["suites"][name].get("left_out", {}).items()]
    failures = [section.wrapped(f"- {name}: `{case}`") for name in plan["suites"]
                for case in results.get(name, {}).get("failed", {})]
    if failures:
        parts += ["\n## What fails\n", *failures]
    if plan.get("absent"):
        parts += ["\n## Suites that do not run\n",
                  *(section.wrapped(f"- {name}: {why}") for name, why in plan["absent"].items())]
    return "\n".join(parts) + "\n"


def said(cases):
    """Cases for a line of the page: names of tests, with the number of their cases; of files how many there are."""
    tests, files = collections.defaultdict(list), 0
    for case in cases:
        full = case.rpartition("::")[2]
        files += ": " in full
        if ": " not in full:
            tests[full.partition("[")[0]].append(full)
    few = [f"`{all[0]}`" if len(all) == 1 else f"`{name}` ({len(all)} cases)" for name, all in tests.items()]
    return ", ".join([f"{files} file{'s' if files > 1 else ''}"] * (files > 0) + few)
