"""A stranger follows each page by copying its blocks, one after the other, in an empty folder.

A block of sh runs in a shell, one of Python in the page's one session, one with a file's name is written there. A block
that needs more says so by its title: "needs a store", or "part of a program", which tests of Go compile.
"""
import collections
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
NEEDS = {"start/pyg": "torch_geometric", "python": "torch_geometric", "migrating": "torch_geometric",
         "embed": "torch_geometric", "database": "torch", "sparse": "torch"}


def blocks(page):
    return [b for b in BLOCK.findall(page.read_text()) if b[0] not in SHOWN]


def name(page):
    return page.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/")


def followed(page):
    return [b for b in blocks(page) if not b[1].startswith(("needs ", "part of "))]


def seconds(page):
    """What the page says that its blocks take."""
    said = re.search(r"empty\s+folder[^.]*?:\s+(\d+)\s+seconds?\b", page.read_text())
    assert said, f"{page} has blocks, and does not say how many seconds they take"
    return int(said[1])


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
    session = {"__name__": "__main__"}
    if name(page) == "sparse":
        import khop.sparse
        request.addfinalizer(khop.sparse.unpatch)
    began = time.monotonic()
    for kind, title, text in followed(page):
        if title:
            (here / title).parent.mkdir(parents=True, exist_ok=True)
            (here / title).write_text(text)
        elif kind == "python":
            exec(compile(text, f"{page.name}: {text[:40]}", "exec"), session)
        else:
            assert kind == "sh", f"a block of {kind} without a title"
            # Until there is a release, its module is this tree. tools/release-install.sh takes the module's zip.
            text = text.replace("go get github.com/khop-gnn/khop@v0.1.0",
                                f"go mod edit -require github.com/khop-gnn/khop@v0.0.0 -replace "
                                f"github.com/khop-gnn/khop={ROOT}")
            p = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True)
            assert p.returncode == 0, f"{text}\n{p.stdout}\n{p.stderr}"
    took = time.monotonic() - began
    print(f"{name(page)}: {took:.1f} s")
    assert took < 10 * seconds(page) + 20, f"{page} says {seconds(page)} seconds"


def test_blocks_that_are_not_followed_are_known():
    """Each says on the page what it needs. Who adds one adds it here."""
    left = collections.Counter(title for page in PAGES for _, title, _ in blocks(page)
                               if title.startswith(("needs ", "part of ")))
    assert left == {
        "needs DuckDB and a database": 1,
        "needs RelBench": 3,
        "needs Spark and Ray": 1,
        "needs a checkout of khop": 18,
        "needs a checkout of khop and a GPU": 3,
        "needs a release": 1,
        "needs a store": 4,
        "needs several machines": 1,
        "needs tables of yours": 1,
        "part of a program": 7}
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        bare = re.findall(r"^ {4}(?:(?:\$ )?khop [^< ](?!.* {10})| *import |from \S+ import |python3? |for \w+ in "
                          r"|loader = ).*", text, re.M)
        assert not bare, f"{page}: commands outside of blocks: {bare}"
