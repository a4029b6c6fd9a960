"""What the tests share: the khop program, datasets that it makes, and runs of it.

KHOP_BIN (or KHOP)  the program to test; built from this tree if neither is set
KHOP_TESTDATA       folder of real graphs; tests on them skip without it
"""
import os
import pathlib
import subprocess

import numpy as np
import pytest

import oracle

TESTS = pathlib.Path(__file__).parent
REAL = {  # where each real graph lies under KHOP_TESTDATA
    "tolokers": "heterophilous/tolokers.npz",
    "minesweeper": "heterophilous/minesweeper.npz",
    "actor": "heterophilous/actor.npz",
    "squirrel_filtered": "heterophilous/squirrel_filtered.npz",
    "cora_ml": "citation-csr-npz/cora_ml.npz",
    "citeseer": "citation-csr-npz/citeseer.npz",
    "musae-facebook-page": "musae-facebook-page",
    "CollegeMsg": "CollegeMsg-temporal/CollegeMsg.txt",
    "ogbl-ddi": "ogbl-ddi/raw/edge.csv.gz",
    "cnr-2000": "cnr-2000-webgraph/derived/cnr-2000.csr.npz",
}
TASKS = {  # real graphs with times, types and links: where they lie, and options of khop convert
    "messages": ("CollegeMsg-temporal/CollegeMsg.txt", "--columns", "src,dst,time"),
    "FB15k-237": ("FB15k-237", "--relations-as-types"),
    "WN18RR": ("WN18RR",),
    "ddi": ("ogbl-ddi",),
    "web": ("cnr-2000-webgraph/cnr-2000.graph",),
}
GENERATED = {  # arguments of khop generate
    "sbm": ["sbm", "--nodes", "3000", "--edges", "40000", "--features", "16", "--classes", "5", "--seed", "1"],
    "rmat": ["rmat", "--nodes", "70001", "--edges", "300000", "--features", "4", "--classes", "3", "--seed", "2"],
    "typed": ["typed", "--nodes", "4000", "--edges", "30000", "--features", "8", "--classes", "4", "--seed", "3"],
}

COMMITTED = {name: "formats/testdata/" + name for name in ("golden-v1-plain", "golden-v1-typed")}


def run(program, *arguments, fails=False):
    """What a command prints on stdout; the test fails if the command does. With fails the other way round, and stderr
    too."""
    p = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=600)
    assert (p.returncode != 0) == fails, f"khop {' '.join(map(str, arguments))}: exit {p.returncode}\n{p.stderr}"
    return p.stdout + p.stderr if fails else p.stdout


def build(path, *flags, **environment):
    subprocess.run(["go", "build", *flags, "-o", path, "./cmd/khop"], check=True, cwd=TESTS.parent,
                   env={**os.environ, **environment})
    return str(path)


def source(name):
    """The file or folder of a real graph."""
    root = os.environ.get("KHOP_TESTDATA")
    if not root:
        pytest.skip("KHOP_TESTDATA is not set: no real graphs")
    return os.path.join(root, REAL[name] if name in REAL else TASKS[name][0])


def numbers(n, key, below):
    """n numbers of 0 .. below-1, the same everywhere."""
    return (oracle.mix64(np.arange(n) + (key << 32)) % np.uint64(below)).astype(np.int64)


def edge_table(n, nodes, key):
    """Edges with few hubs, weights of which some are zero, equal or extreme, a mask and times of which many are
    equal."""
    weight = np.maximum(numbers(n, key + 1, 40) - 5, 0) / 16
    weight[::500], weight[1::500] = 5e-324, 1e300
    target = numbers(n, key + 2, nodes) * numbers(n, key + 3, nodes) // nodes
    return [numbers(n, key, nodes), target, weight, numbers(n, key + 4, 3), numbers(n, key + 5, 300)]


def write_events(folder):
    np.savetxt(folder / "events.txt", np.stack(edge_table(9000, 700, 0), 1), "%d %d %.17g %d %d")
    return folder / "events.txt", "--columns", "src,dst,weight,mask,time"


def write_shop(folder):
    """Two node types, one of which has times, and three edge types."""
    for i, name in enumerate(("bought", "like")):
        np.savetxt(folder / (name + ".csv"), np.stack(edge_table(4000, 300, 10 * i), 1), "%d,%d,%.17g,%d,%d",
                   header="src,dst,weight,mask,time", comments="")
    np.savetxt(folder / "items.csv", np.stack((np.arange(300), numbers(300, 30, 200)), 1), "%d", ",", header="id,time",
               comments="")
    (folder / "shop.yaml").write_text("""
        nodes: {user: {count: 300}, item: {file: items.csv, time: time}}
        edges: {"user:bought:item": {file: bought.csv, reverse: bought_by}, "item:like:item": {file: like.csv}}""")
    return (folder / "shop.yaml",)


def write_strided(folder):
    """Rows of 60 bytes, which are made 128 bytes long."""
    np.savetxt(folder / "strided.txt", np.stack(edge_table(9000, 700, 40)[:2], 1), "%d %d")
    np.save(folder / "rows.npy", numbers(700 * 15, 50, 1000).reshape(700, 15).astype(np.float32))
    return folder / "strided.txt", "--features", folder / "rows.npy", "--row-stride", 128


WRITTEN = {"events": write_events, "shop": write_shop, "strided": write_strided}  # what khop convert gets


def program(path):
    """The khop program to test, built at path unless the environment names one."""
    return os.environ.get("KHOP_BIN") or os.environ.get("KHOP") or build(path)


@pytest.fixture(scope="session")
def khop(tmp_path_factory):
    return program(tmp_path_factory.mktemp("bin") / "khop")


class Datasets:
    """Makes a dataset when it is first asked for."""

    def __init__(self, khop, folder):
        self.khop, self.folder = khop, folder

    def __call__(self, name):
        if name in COMMITTED:
            return TESTS.parent / COMMITTED[name]
        path = self.folder / (name + ".khop")
        if not path.exists():
            if name in GENERATED:
                kind, *options = GENERATED[name]
                run(self.khop, "generate", kind, path, *options)
            elif name in WRITTEN:
                first, *options = WRITTEN[name](self.folder)
                run(self.khop, "convert", first, path, *options)
            else:
                run(self.khop, "convert", source(name), path, *TASKS.get(name, ())[1:])
        return path


@pytest.fixture(scope="session")
def dataset(khop, tmp_path_factory):
    return Datasets(khop, tmp_path_factory.mktemp("datasets"))


@pytest.fixture(scope="session")
def sample(khop):
    """Digests that khop sample prints: [(number, full digest)]."""
    def sample(dataset, *options, program=None):
        lines = run(program or khop, "sample", dataset, *options, "--digest").splitlines()
        return [(int(line.split()[0]), line.split()[-1]) for line in lines]
    return sample
