"""Modules of the package import one another one way, as Go's packages do (imports_test.go)."""

import ast
import graphlib
import pathlib
import pickle
import subprocess
import sys

import khop
import pytest
from khop import _moved

ROOT = pathlib.Path(khop.__file__).parent


def imports():
    """Which files each file imports, within functions and for type checkers too."""
    files = {path.relative_to(ROOT).with_suffix("").parts: path for path in ROOT.rglob("*.py")}
    found = {}
    for module, path in files.items():
        found[module] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            origin = module[:-node.level] + tuple((node.module or "").split(".") if node.module else ())
            for name in node.names:  # "from . import a" names a file, "from .a import b" one that has b
                own = origin + (name.name,)
                of = [m for m in (own, own + ("__init__",), origin, origin + ("__init__",)) if m in files]
                found[module].update(of[:1])
    return found


def test_modules_import_one_way():
    found = imports()
    assert sum(map(len, found.values())) > 100
    graphlib.TopologicalSorter(found).prepare()  # CycleError names the circle


def test_engines_are_imported_by_those_who_use_them():
    """None of them comes with khop, nor with what drives it, before an executor or a table is made."""
    code = ("import sys, khop, khop.cluster, khop.ray, khop.spark\n"
            "print(sorted({'ray', 'pyspark', 'dask', 'distributed', 'pyarrow.flight', 'grpc', "
            "'networkx', 'igraph', 'rustworkx'} & set(sys.modules)))")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


@pytest.mark.parametrize("old, new", sorted(_moved.MOVED.items()))
def test_a_path_that_a_module_had_gives_the_module(old, new):
    """In a process of its own each, as a user's first import."""
    code = (f"import khop, inspect\nthere = getattr(khop, {old!r})\nimport khop.{old}, khop.{new}, sys\n"
            f"assert sys.modules['khop.{old}'] is sys.modules['khop.{new}']\n"
            f"assert getattr(khop, {old!r}) is there, 'an import changed what khop.{old} is'\n")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pickles_of_old_paths_are_read():
    for function in (b"khop.unified_tensor\n_again", b"khop.loader\n_another"):
        assert callable(pickle.loads(b"c" + function + b"\n."))
