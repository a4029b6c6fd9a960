"""A stranger follows a page below docs/start by copying its blocks, one after the other, in an empty folder."""
import os
import re
import subprocess
import sys

import pytest

from conftest import ROOT

PAGES = sorted((ROOT / "docs" / "start").glob("*.md"))
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.M | re.S)
NEEDS = {"pyg": "torch_geometric"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_its_blocks_work_in_an_empty_folder(program, page, tmp_path):
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "khop").symlink_to(os.path.abspath(program))
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    here = tmp_path / "empty"
    here.mkdir()
    env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path),
           "GOFLAGS": "-mod=mod -vet=off -trimpath", "CGO_ENABLED": "0"}
    if "```go" in page.read_text() and subprocess.run(["go", "version"], capture_output=True).returncode:
        pytest.skip("Go is not installed")
    blocks = BLOCK.findall(page.read_text())
    assert blocks
    for kind, title, text in blocks:
        if title:
            (here / title).parent.mkdir(parents=True, exist_ok=True)
            (here / title).write_text(text)
            continue
        assert kind == "sh", f"a block of {kind} without a title"
        # Until there is a release, its module is this tree. tools/release-install.sh takes the module's zip.
        text = text.replace("go get github.com/khop-gnn/khop@v0.1.0",
                            f"go mod edit -require github.com/khop-gnn/khop@v0.0.0 -replace "
                            f"github.com/khop-gnn/khop={ROOT}")
        p = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=here, env=env, capture_output=True, text=True)
        assert p.returncode == 0, f"{text}\n{p.stdout}\n{p.stderr}"
