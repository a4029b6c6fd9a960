"""tools/judges: what makes it fail, and where it has others' tests from."""
import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("tomllib", reason="tools/judges needs Python 3.11")

TOOL = pathlib.Path(__file__).resolve().parents[1] / "tools/judges"
TESTS = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_them(n, record_property):
    record_property("products", 3)
    assert n != %s

@pytest.mark.skip(reason="wants a GPU")
def test_gpu():
    pass
"""


def git(folder, *arguments):
    command = ["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def tool(monkeypatch):
    """The tool's modules, under their own names only while a test runs."""
    monkeypatch.syspath_prepend(str(TOOL))
    for name in ("run", "report", "sources", "section"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import run
    yield run
    for name in ("run", "report", "sources", "section"):
        sys.modules.pop(name, None)


class Judges:
    """A repository of others' tests, a suite of it, and runs of the command."""

    def __init__(self, tool, folder, monkeypatch, capsys):
        self.tool, self.folder, self.patch, self.capsys = tool, folder, monkeypatch, capsys
        self.repository = folder / "theirs.git"
        (self.repository / "tests").mkdir(parents=True)
        git(self.repository, "init", "-q")
        self.suite = {"about": "tests", "sources": ["theirs"], "files": ["{theirs}/tests"], "cases": "{theirs}",
                      "minutes": 5, "passed": 2, "products": 6}
        command = tool.pytest_command  # pytest-timeout is only in the tool's environment
        for where, name, value in [
                (tool, "WORK", folder / "work"), (tool, "NEEDED", [TOOL, TOOL]),
                (tool, "PYTHON", pathlib.Path(sys.executable)),
                (tool, "pytest_command", lambda *a: [c for c in command(*a) if c not in ("--timeout", "120")]),
                (tool.report, "JSON", folder / "judges.json"), (tool.report, "PAGE", folder / "judges.md")]:
            monkeypatch.setattr(where, name, value)

    def commit(self, fails):
        """Commits tests of which the n-th fails, and pins them."""
        (self.repository / "tests/test_theirs.py").write_text(TESTS % fails)
        git(self.repository, "add", "-A")
        git(self.repository, "commit", "-qm", f"{fails} fails")
        self.pinned = git(self.repository, "rev-parse", "HEAD")

    def run(self, *arguments, committed=None):
        """The status of the command, and what it says on stderr. committed is the last committed result."""
        source = {"repository": self.repository.as_uri(), "commit": self.pinned, "licence": "MIT",
                  "folders": ["tests"]}
        self.patch.setattr(self.tool, "plan", lambda: {"sources": {"theirs": source}, "suites": {"s": self.suite}})
        self.patch.setattr(self.tool.report, "committed", lambda: {"s": committed} if committed else {})
        self.patch.setattr(sys, "argv", ["run.py", *map(str, arguments)])
        return self.tool.main(), self.capsys.readouterr().err

    def result(self):
        return json.loads((self.folder / "judges.json").read_text())["s"]


@pytest.fixture
def judges(tool, tmp_path, monkeypatch, capsys):
    made = Judges(tool, tmp_path, monkeypatch, capsys)
    made.commit(fails=0)
    return made


def test_a_suite_runs_from_a_clone_of_the_pinned_commit(judges):
    pinned = judges.pinned
    judges.commit(fails=1)
    judges.pinned = pinned  # which is no longer the newest
    assert judges.run() == (0, "\n")
    result = judges.result()
    assert (result["passed"], result["skipped"], result["failed"], result["products"]) == (2, 1, {}, 6)
    assert result["commits"] == pinned[:12] in (judges.folder / "judges.md").read_text()


def test_a_case_that_passed_and_fails_makes_the_command_fail(judges):
    judges.run()
    before = judges.result()
    judges.commit(fails=2)
    judges.suite["passed"] = 1
    status, said = judges.run(committed=before)
    assert status == 1 and "test_them[2] fails, and did not at the last result" in said
    assert judges.run(committed=judges.result()) == (0, "\n"), "a failure that is committed is known"


def test_fewer_passes_or_products_than_a_suite_must_have_make_the_command_fail(judges):
    judges.suite |= {"passed": 3, "products": 7}
    status, said = judges.run()
    assert status == 1 and "2 cases pass, and 3 is the least" in said
    assert "khop's kernels made 6 products, and 7 is the least" in said


def test_a_refusal_of_a_case_that_does_not_fail_is_said(judges):
    judges.commit(fails=2)
    refused = {"*test_them[[]2]": "why", "*test_then*": "why"}
    judges.suite |= {"passed": 1, "refused": refused, "known": {"why": ["test_gpu"]}}
    status, said = judges.run()
    assert status == 1 and list(judges.result()["refused"]) == ["tests/test_theirs.py::test_them[2]"]
    assert said.count("no case of that name fails") == 2 and "*test_then*" in said and "s: test_gpu" in said


def test_a_local_clone_without_the_pinned_commit_is_refused(judges):
    (judges.folder / "given").mkdir()
    git(judges.folder, "clone", "-q", judges.repository, "given/theirs")
    judges.commit(fails=1)
    status, said = judges.run("--sources", judges.folder / "given")
    assert status == 1 and "s: did not run: commit " + judges.pinned[:12] in said and "given/theirs" in said
    judges.pinned = "0" * 40
    status, said = judges.run()
    assert status == 1 and "cannot be cloned" in said


def test_a_folder_without_its_history_is_named_in_the_result(judges):
    folder = judges.folder / "given/theirs/tests"
    folder.mkdir(parents=True)
    (folder / "test_theirs.py").write_text(TESTS % 0)
    assert judges.run("--sources", judges.folder / "given") == (0, "\n")
    assert judges.result()["commits"] == "theirs is a folder as given, whose commit nobody has checked"


def test_a_suite_that_ends_without_a_verdict_did_not_run(judges):
    judges.suite["files"] = ["{theirs}/elsewhere"]
    status, said = judges.run()
    assert status == 1 and "s: did not run: pytest ends with status 4" in said


def test_a_failure_without_khop_does_not_judge_khop(tool):
    cases = {"a.py::test_a": ("failed", "gone"), "a.py::test_b": ("failed", "wrong"), "a.py::test_c": ("passed", "")}
    found = tool.report.judge({}, cases, {"a.py::test_a": ("failed", ""), "a.py::test_b": ("passed", "")})
    assert found["theirs"] == ["a.py::test_a"] and found["failed"] == {"a.py::test_b": "wrong"} and found["passed"] == 1
