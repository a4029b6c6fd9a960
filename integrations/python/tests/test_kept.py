"""Rows that are kept (khop embed --keep): after drawn edits of a graph, by commands and from Python, of trained models
and of layers of one's own, and after kills, the bytes are those of a run from scratch.

KHOP_DRAWS says how many edits are drawn, and KHOP_DRAW_SEED from what.
"""
import os
import random
import shutil
import subprocess
import time
import warnings

import numpy as np
import pytest

import khop
from conftest import PATIENCE, run

torch = pytest.importorskip("torch")

from khop import embedding  # noqa: E402

DRAWS = int(os.environ.get("KHOP_DRAWS", "24"))
SEED = int(os.environ.get("KHOP_DRAW_SEED", "20261129"))
EDITS = 5  # of each graph and model
WIDTH = 5
OWN = [
    embedding.Layer("sum", WIDTH, lambda own, sums: own - 2 * sums),
    embedding.Layer("mean", 3, lambda own, sums: own[:, :3] * .5 + sums[:, 1:4]),
    embedding.Layer("max", 3, lambda own, sums: torch.where(own > sums, own, sums * .25)),
]


class Graph:
    def __init__(self, draw, path):
        n = draw.randint(5, 60)
        self.x = np.array([[draw.gauss(0, 1) for _ in range(WIDTH)] for _ in range(n)], "float32")
        self.edges = [(draw.randrange(n), draw.randrange(n)) for _ in range(draw.randint(n, 4 * n))]
        self.path = path
        self.write()

    def write(self):
        n = len(self.x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", khop.KhopWarning)
            khop.write(self.path, {"edge_index": np.array(self.edges, "int64").reshape(-1, 2).T, "num_nodes": n,
                                   "x": self.x, "y": np.arange(n) % 3, **self.masks(n)}, force=True)

    @staticmethod
    def masks(n):
        return {f"{split}_mask": np.arange(n) % 3 == k for k, split in enumerate(["train", "val", "test"])}

    def edit(self, draw, program, folder):
        """Changes some edges or features, by a new dataset or by a new column of this one."""
        if draw.random() < .2:
            self.x[draw.randrange(len(self.x)), draw.randrange(WIDTH)] += 1
            np.save(folder / "feature.npy", self.x)
            run(program, "add", self.path, "--column", f"feature={folder / 'feature.npy'}", "--force")
            return
        for _ in range(draw.randint(1, 3)):
            n = len(self.x)
            node, at = draw.randrange(n), draw.randrange(max(1, len(self.edges)))
            what = draw.randrange(7)
            if what == 0 and self.edges:  # another source, as many edges
                self.edges[at] = node, self.edges[at][1]
            elif what == 1:  # all edges of a node
                self.edges = [e for e in self.edges if e[1] != node]
            elif what == 2:
                self.edges = [e for e in self.edges if e[0] != node]
            elif what == 3:
                self.edges += [(node, draw.randrange(n))] * draw.choice([1, 2])
            elif what == 4 and self.edges:
                del self.edges[at]
            elif what == 5:
                self.x[node] = draw.gauss(0, 1)
            elif what == 6:
                self.x = np.concatenate([self.x, np.full((1, WIDTH), draw.gauss(0, 1), "float32")])
                self.edges += [(node, n), (n, draw.randrange(n))]
        self.write()


def embed(program, model, path, out, keep, draw=None):
    """Writes rows of a graph, perhaps after a run that is killed somewhere."""
    if isinstance(model, list):
        embedding.embed(model, path, out=out, keep=keep, name="own", force=True, binary=program)
        return
    line = [program, "embed", path, "--checkpoint", model, "--out", out, "--force", *["--keep"] * keep]
    if draw and draw.random() < .3:
        killed = subprocess.Popen([*line, "--note-every", "1ms"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(draw.random() * .06)  # the moment of the kill
        killed.kill()
        killed.wait(PATIENCE)
    run(*line)


@pytest.mark.parametrize("kind", ["own", "sage", "gcn", "gin", "gat"])
def test_rows_after_drawn_edits_are_those_of_a_run_from_scratch(program, tmp_path, kind):
    print(f"KHOP_DRAW_SEED={SEED}")
    for number in range(max(1, DRAWS // EDITS // 5)):
        draw = random.Random(f"{SEED} {kind} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        graph = Graph(draw, folder / "data")
        model = OWN if kind == "own" else folder / "model"
        if kind != "own":
            run(program, "train", graph.path, "--model", kind, "--checkpoint", model, "--epochs", "1", "--hidden", "4",
                "--layers", "2", "--fanouts", "-1,-1", *["--heads", "2"] * (kind == "gat"))
        kept, fresh = str(folder / "kept.npy"), str(folder / "fresh.npy")
        for edit in range(EDITS + 1):
            if edit:
                graph.edit(draw, program, folder)
            embed(program, model, graph.path, kept, True, draw)
            shutil.copytree(graph.path, folder / "copy")
            embed(program, model, folder / "copy", fresh, False)
            shutil.rmtree(folder / "copy")
            assert np.load(kept).tobytes() == np.load(fresh).tobytes(), (kind, number, edit)
        shutil.rmtree(folder)
