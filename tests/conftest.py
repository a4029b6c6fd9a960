"""What the tests share: the khop program, datasets that it makes, and runs of it.

KHOP_BIN (or KHOP)  the program to test; built from this tree if neither is set
KHOP_TESTDATA       folder of real graphs; tests on them skip without it
"""
import os
import pathlib
import subprocess

import pytest

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
GENERATED = {  # arguments of khop generate
    "sbm": ["sbm", "--nodes", "3000", "--edges", "40000", "--features", "16", "--classes", "5", "--seed", "1"],
    "rmat": ["rmat", "--nodes", "70001", "--edges", "300000", "--features", "4", "--classes", "3", "--seed", "2"],
    "typed": ["typed", "--nodes", "4000", "--edges", "30000", "--features", "8", "--classes", "4", "--seed", "3"],
}

COMMITTED = {name: "formats/testdata/" + name for name in ("golden-v1-plain", "golden-v1-typed")}


def run(program, *arguments, fails=False):
    """What a command prints on stdout; the test fails if the command does. With fails the other way round, and stderr too."""
    p = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=600)
    assert (p.returncode != 0) == fails, f"khop {' '.join(map(str, arguments))}: exit {p.returncode}\n{p.stderr}"
    return p.stdout + p.stderr if fails else p.stdout


def build(path, **environment):
    subprocess.run(["go", "build", "-o", path, "./cmd/khop"], check=True, cwd=TESTS.parent, env={**os.environ, **environment})
    return str(path)


def source(name):
    """The file or folder of a real graph."""
    root = os.environ.get("KHOP_TESTDATA")
    if not root:
        pytest.skip("KHOP_TESTDATA is not set: no real graphs")
    return os.path.join(root, REAL[name])


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
            else:
                run(self.khop, "convert", source(name), path)
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
