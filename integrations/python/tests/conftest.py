"""What the tests share: the khop program, datasets, and the digests that the program itself prints.

KHOP_BIN (or KHOP)  the program to test; built from this tree if neither is set
KHOP_TESTDATA       folder of real graphs; tests on them skip without it
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pytest

PATIENCE = 180  # seconds that a test waits for what comes at once, unless the machine is busy with something else
ROOT = pathlib.Path(__file__).parents[3]
NIGHT = bool(os.environ.get("KHOP_TEST_NIGHT"))  # what takes long runs, too (make nightly)
by_night = pytest.mark.skipif(not NIGHT, reason="make nightly runs it")
GENERATED = {
    "sbm": ["sbm", "--nodes", "3000", "--edges", "40000", "--features", "16", "--classes", "5", "--seed", "1"],
    "typed": ["typed", "--nodes", "4000", "--edges", "30000", "--features", "8", "--classes", "4", "--seed", "3"],
}
REAL = {"tolokers": "heterophilous/tolokers.npz", "cora_ml": "citation-csr-npz/cora_ml.npz"}


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    path = os.environ.get("KHOP_BIN") or os.environ.get("KHOP")
    if not path:
        path = str(tmp_path_factory.mktemp("bin") / "khop")
        subprocess.run(["go", "build", "-o", path, "./cmd/khop"], check=True, cwd=ROOT)
    os.environ["KHOP_BIN"] = path  # what the package takes
    return path


@pytest.fixture(autouse=True)
def temporary_folder(monkeypatch, tmp_path_factory):
    """An empty one, short enough for sockets, that a test leaves as it was."""
    tmp_path_factory.getbasetemp()  # made now, where it stays, and not in the first test's folder
    with tempfile.TemporaryDirectory(prefix="kt-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield folder


def run(*command, **options):
    """What a command prints; the test fails if the command does."""
    p = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE, **options)
    assert p.returncode == 0, f"{command}: exit {p.returncode}\n{p.stderr}"
    return p.stdout


@pytest.fixture(scope="session")
def dataset(program, tmp_path_factory):
    """Makes a dataset when it is first asked for."""
    folder = tmp_path_factory.mktemp("datasets")

    def dataset(name):
        path = folder / (name + ".khop")
        if path.exists():
            return str(path)
        if name == "columns":
            rng, n = np.random.default_rng(3), 6000
            lines = folder / "columns.txt"
            np.savetxt(lines, np.stack(
                [*rng.integers(0, 500, (2, n)), rng.random(n), rng.integers(0, 3, n), rng.integers(0, 100, n)], 1),
                       "%d %d %.6f %d %d")
            run(program, "convert", lines, path, "--columns", "src,dst,weight,mask,time")
        elif name in GENERATED:
            kind, *options = GENERATED[name]
            run(program, "generate", kind, path, *options)
        else:
            if not os.environ.get("KHOP_TESTDATA"):
                pytest.skip("KHOP_TESTDATA is not set: no real graphs")
            run(program, "convert", os.path.join(os.environ["KHOP_TESTDATA"], REAL[name]), path)
        return str(path)
    return dataset


@pytest.fixture(scope="session")
def sample(program):
    """Digests that khop sample prints: [(number, topology, full)]."""
    def sample(dataset, *options):
        lines = run(program, "sample", dataset, "--digest", *options).splitlines()
        return [(int(n), topology, full) for n, topology, full in map(str.split, lines)]
    return sample


@pytest.fixture
def python():
    """Runs a program in another Python, with the package on its path."""
    def python(code, *arguments, **environment):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
        return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
    return python
