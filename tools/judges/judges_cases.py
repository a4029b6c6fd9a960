"""A plugin of pytest: writes what became of each case, as lines of JSON, for run.py.

KHOP_JUDGES_CASES   file to append to
KHOP_JUDGES_FOLDER  a case is a test below this folder

A test may say that it has cases of its own, by record_property("case", (name, outcome, reason)), or that khop refuses
what it asks, by record_property("refused", reason).
"""
import json
import os
import pathlib

import pytest

FILE, FOLDER = os.environ.get("KHOP_JUDGES_CASES"), pathlib.Path(os.environ.get("KHOP_JUDGES_FOLDER", "/")).resolve()


def outcome(report):
    """What a report means for the test; None if it says nothing yet."""
    if report.when == "call" or report.outcome == "skipped":
        return report.outcome
    return "failed" if report.failed else None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    said = dict(report.user_properties)
    found = outcome(report)
    if FILE and found and FOLDER in item.path.resolve().parents:
        name = f"{item.path.resolve().relative_to(FOLDER)}::{item.nodeid.partition('::')[2]}"
        own = [value for key, value in report.user_properties if key == "case"]
        reason = str(said.get("refused", "")) or reason_of(report)
        lines = [(f"{name}: {part}", *rest) for part, *rest in own] or [
            (name, "refused" if found == "passed" and "refused" in said else found, reason)]
        with open(FILE, "a") as out:
            for case, result, why in lines:
                out.write(json.dumps({"case": case, "outcome": result, "why": why, "products": said.get("products", 0),
                                      "seconds": report.duration}) + "\n")


def reason_of(report):
    """The last line of what a test that did not pass says."""
    if report.outcome == "passed":
        return ""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr).strip()[:300]
