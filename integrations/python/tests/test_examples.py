"""Examples that people copy: each is short, and reaches the figure that it asserts."""
import os
import sys

import pytest

from conftest import ROOT, run

FOLDER = ROOT / "examples" / "python"
NEEDS = {"links": "torch_geometric", "typed_hgt": "torch_geometric"}
EXAMPLES = [p for p in sorted(FOLDER.glob("*.py")) if p.stem != "graphsage_torch"]  # test_example.py


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_it_is_short_and_reaches_its_figure(program, example):
    if example.stem in NEEDS:
        pytest.importorskip(NEEDS[example.stem])
    assert len(example.read_text().splitlines()) < 80
    run(sys.executable, example, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
