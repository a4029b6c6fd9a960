"""The training of docs/results/training.md: on a graph whose classes can be learned, it does better than guessing."""
import os
import re
import sys

import numpy as np
import pytest

from conftest import ROOT, run


def test_graphsage_learns_from_batches(program, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(1)
    n, classes = 600, 3
    y = rng.integers(0, classes, n)
    a, b = rng.integers(0, n, (2, 20_000))
    keep = (y[a] == y[b]) | (rng.random(len(a)) < 0.1)
    x = rng.normal(size=(n, 8)).astype(np.float32)
    x[:, :classes] += np.eye(classes, dtype=np.float32)[y] * 0.5
    part = rng.integers(0, 3, n)
    np.savez(tmp_path / "g.npz", node_features=x, node_labels=y, edges=np.stack([a, b], 1)[keep],
             **{f"{name}_masks": (part == i)[None] for i, name in enumerate(("train", "val", "test"))})
    run(program, "convert", tmp_path / "g.npz", tmp_path / "g.khop")
    out = run(sys.executable, ROOT / "bench/peers/graphsage_torch.py", tmp_path / "g.npz", tmp_path / "g.khop",
              "--seeds", 1, "--epochs", 20,
              "--batch-size", 64, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert float(re.search(r"khop: accuracy ([\d.]+)", out)[1]) > 0.8
