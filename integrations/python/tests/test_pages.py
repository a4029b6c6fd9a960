"""A stranger follows each page by copying its blocks, one after the other, in an empty folder.

A block of sh runs in a shell, one of Python in the page's one session, one with a file's name is written there. A block
that needs more says so by its title: "needs a store", or "part of a program", which tests of Go compile. A block of
text with the title "prints" is what the block before it prints; ".." there stands for what differs between runs.
"""
import collections
import json
import os
import re
import subprocess
import sys
import time

import pytest

from conftest import ROOT

PAGES = [ROOT / "README.md", ROOT / "integrations/python/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.M | re.S)
SHOWN = ("text", "json", "error")  # what is not to be copied
NEEDS = {"start/pyg": "torch_geometric", "start/scipy": "scipy", "start/tables": "polars", "start/graphdb": "duckdb",
         "sparse": "torch", "python": "torch_geometric", "embed": "torch_geometric",
         "database": "torch"}


def blocks(page):
    return [b for b in BLOCK.findall(page.read_text()) if b[0] not in SHOWN]


def prints(page):
    """What the page says that blocks print, by the block."""
    found, said = BLOCK.findall(page.read_text()), {}
    for before, block in zip(found, found[1:]):
        if block[:2] == ("text", "prints"):
            assert before[0] not in SHOWN, f"{page}: no block prints {block[2]}"
            said[before] = block[2]
    return said


def equals(shown, printed):
    """Whether a page shows what a block printed: ".." is anything within a line, and a line of it alone any lines."""
    parts = [r"(?:.*\n)*?" if line.strip() == ".." else ".*?".join(map(re.escape, line.split(".."))) + "\n"
             for line in shown.splitlines()]
    printed = "".join(line.rstrip() + "\n" for line in printed.splitlines())
    return re.fullmatch("".join(parts), printed) is not None


def name(page):
    return page.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/")


def followed(page):
    return [b for b in blocks(page) if not b[1].startswith(("needs ", "part of "))]


def seconds(page):
    """What the page says that its blocks take."""
    said = re.search(r"empty\s+folder[^.]*?:\s+(\d+)\s+seconds?\b", page.read_text())
    assert said, f"{page} has blocks, and does not say how many seconds they take"
    return int(said[1])


class Python:
    """A python3 that takes a page's blocks, one after the other."""

    LOOP = """import contextlib, io, json, sys, traceback
session, answers = {"__name__": "__main__"}, open(int(sys.argv[1]), "w", buffering=1)
for block in sys.stdin:
    failed, out = None, io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(json.loads(block), "<page>", "exec"), session)
        except BaseException:
            failed = traceback.format_exc()
    print(json.dumps([out.getvalue(), failed]), file=answers)
"""

    def __init__(self):
        reads, writes = os.pipe()  # not stdout: processes that a block starts may write there
        self.process = subprocess.Popen([sys.executable, "-c", self.LOOP, str(writes)], stdin=subprocess.PIPE,
                                        stdout=subprocess.DEVNULL, text=True, pass_fds=[writes])
        os.close(writes)
        self.answers = open(reads)

    def run(self, block):
        self.process.stdin.write(json.dumps(block) + "\n")
        self.process.stdin.flush()
        printed, failed = json.loads(self.answers.readline())
        assert not failed, f"{block}\n{printed}\n{failed}"
        return printed

    def end(self):
        self.process.communicate(timeout=60)
        self.answers.close()
        assert self.process.returncode == 0


@pytest.mark.parametrize("page", list(filter(followed, PAGES)), ids=name)
def test_its_blocks_work_in_an_empty_folder(program, page, tmp_path, monkeypatch, request):
    module = NEEDS.get(name(page), "numpy")
    pytest.importorskip(module, reason=f"{module} is not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "khop").symlink_to(os.path.abspath(program))
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    here = tmp_path / "empty"
    here.mkdir()
    monkeypatch.chdir(here)
    for key, value in {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path),
                       "GOFLAGS": "-mod=mod -vet=off -trimpath", "CGO_ENABLED": "0"}.items():
        monkeypatch.setenv(key, value)
    if "\ngo run ." in page.read_text() and subprocess.run(["go", "version"], capture_output=True).returncode:
        pytest.skip("Go is not installed")
    session = None
    strict = name(page) == "README" or name(page).startswith("start/")
    began, shown = time.monotonic(), prints(page)
    for block in followed(page):
        kind, title, text = block
        printed = ""
        if title:
            (here / title).parent.mkdir(parents=True, exist_ok=True)
            (here / title).write_text(text)
        elif kind == "python":
            if session is None:
                session = Python()
                request.addfinalizer(session.end)
            printed = session.run(text)
        else:
            assert kind == "sh", f"a block of {kind} without a title"
            # Until there is a release, its module is this tree. tools/release-install.sh takes the module's zip.
            text = text.replace("go get github.com/khop-gnn/khop@v0.1.0",
                                f"go mod edit -require github.com/khop-gnn/khop@v0.0.0 -replace "
                                f"github.com/khop-gnn/khop={ROOT}")
            p = subprocess.run(["bash", "-euo", "pipefail", "-c", text], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
            assert p.returncode == 0, f"{text}\n{p.stdout}"
            printed = p.stdout
        if block in shown or strict and printed:
            said = shown.get(block, "")
            assert equals(said, printed), f"{text}\nprints\n{printed}\nand the page shows\n{said}"
    took = time.monotonic() - began
    print(f"{name(page)}: {took:.1f} s")
    assert took < 10 * seconds(page) + 20, f"{page} says {seconds(page)} seconds"


@pytest.mark.parametrize("page", list(filter(prints, PAGES)), ids=name)
def test_output_that_was_changed_by_hand_is_noticed(page):
    """Any digit or word of what a page shows, changed, is no longer what is printed."""
    for shown in prints(page).values():
        printed = shown.replace("..", "x")
        assert equals(shown, printed)
        for m in re.finditer(r"\d|\w+", shown):
            other = str(9 - int(m[0])) if m[0].isdigit() and len(m[0]) == 1 else m[0] + "y"
            assert not equals(shown[:m.start()] + other + shown[m.end():], printed), m[0]


def test_blocks_that_are_not_followed_are_known():
    """Each says on the page what it needs. Who adds one adds it here."""
    left = collections.Counter(title for page in PAGES for _, title, _ in blocks(page)
                               if title.startswith(("needs ", "part of ")))
    assert left == {
        "needs RelBench": 3,
        "needs Spark and Ray": 1,
        "needs a checkout of khop": 12,
        "needs a checkout of khop and a GPU": 2,
        "needs a release": 2,
        "needs a server": 1,
        "needs a store": 3,
        "needs several machines": 1,
        "needs tables of yours": 1,
        "part of a program": 7}
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        bare = re.findall(r"^ {4}(?:(?:\$ )?khop [^< ](?!.* {10})| *import |from \S+ import |python3? |for \w+ in "
                          r"|loader = ).*", text, re.M)
        assert not bare, f"{page}: commands outside of blocks: {bare}"
