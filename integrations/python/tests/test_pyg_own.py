"""PyG's own tests of its loaders, run against khop.pyg. KHOP_PYG_TESTS names the folder test of PyG's sources (2.8)."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

NEED_CORA = {"neighbor": 0, "link": 0, "others": 3}
"""Tests that need Cora, which lies in KHOP_TESTDATA, in a form that needs scipy."""

FILES = {  # and the least number that passes
    "neighbor": (44, ["loader/test_neighbor_loader.py"]),
    "link": (41, ["loader/test_link_neighbor_loader.py"]),
    "others": (27, ["loader/test_hgt_loader.py", "loader/test_shadow.py", "loader/test_cluster.py",
                    "loader/test_graph_saint.py",
                    "loader/test_zip_loader.py", "sampler/test_sampler_neighbor_sampler.py"]),
}


@pytest.mark.parametrize("files", FILES)
def test_pygs_own_tests_hold(files, program, tmp_path):
    folder = os.environ.get("KHOP_PYG_TESTS")
    if not folder:
        pytest.skip("KHOP_PYG_TESTS is not set: no tests of PyG")
    here = pathlib.Path(__file__).parent
    least, paths = FILES[files]
    data = bool(os.environ.get("KHOP_TESTDATA")) and importlib.util.find_spec("scipy") is not None
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join([str(here), *sys.path]),
           "FULL_TEST": "01"[data]}
    command = [
        sys.executable, "-m", "pytest", "-p", "pyg_names", "-p", "no:cacheprovider", "--rootdir", folder,
        "--confcutdir", folder, "-rf", "-q", "--tb=short", "-W", "ignore", "--basetemp", str(tmp_path / "own"),
        *(os.path.join(folder, path) for path in paths), *([] if data else ["-k", "not cora"]),
    ]
    run = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    out = run.stdout
    failed = set(re.findall(r"^FAILED \S+?::(\S+)", out, re.MULTILINE))
    passed = re.search(r"(\d+) passed", out)
    assert not failed and passed and int(passed[1]) >= least - NEED_CORA[files] * (
        not data), f"{sorted(failed)}\n{out[-4000:]}"
