"""Options of khop.Loader are declared once, in Go: what Python says of them is made of what khop says."""
import ast
import inspect
import json
import pathlib
import re
import subprocess
import sys

import pytest

import khop
from conftest import ROOT, run
from khop._config.configuration import OPTIONS, LoaderOptions

SOURCES = pathlib.Path(khop.__file__).parent
GENERATOR = ROOT / "tools/options/options.py"
OF_CONSUMERS = {("connect", "hold"), ("connect", "device"), ("__init__", "hold")}
"""What a consumer says of itself, by function: how many batches it holds, and where it takes them."""


def test_they_are_what_khop_says(program):
    said = run(program, "options", "--json")
    p = subprocess.run([sys.executable, GENERATOR, "--check"], input=said, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr


def test_they_have_the_names_defaults_and_ranges_of_khop(program):
    said = {o["key"]: o for o in json.loads(run(program, "options", "--json"))["options"] if "serve" in o["doors"]}
    assert OPTIONS.keys() == LoaderOptions.__annotations__.keys() and len(OPTIONS) > 70
    for name, option in OPTIONS.items():
        of, default = said[name], option.default
        assert list(option.samplers) == of["samplers"] and list(option.choices) == of["choices"], name
        if isinstance(default, bool):
            assert str(default).lower() == (of["default"] or "false"), name
        elif isinstance(default, (int, float)):
            assert float(of["default"]) == default, name
        for ours, theirs in ((option.least, of["least"]), (option.most, of["most"])):
            assert ours == (float(theirs) if theirs else None), name


def modules():
    """The package's own modules. Those under a peer's name have the peer's signatures."""
    return [m for m in sorted({*SOURCES.glob("*.py"), *SOURCES.glob("_*/*.py")}) if m.name != "option_table.py"]


@pytest.mark.parametrize("module", modules(), ids=lambda m: m.name)
def test_none_is_declared_a_second_time(module):
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and hands_on(node):
            for name, default in defaults(node):
                assert name not in OPTIONS or (node.name, name) in OF_CONSUMERS or default is None, \
                    f"{module.name}:{node.lineno}: {node.name} has a default for {name}, which khop has"
        names = strings(node)
        assert len(names & OPTIONS.keys()) < 10, f"{module.name}:{node.lineno}: lists {sorted(names & OPTIONS.keys())}"


def hands_on(function):
    """Whether a function makes or opens loaders."""
    return function.args.kwarg is not None or any(
        isinstance(n, ast.Name) and n.id in ("Loader", "Configuration", "Feed") for n in ast.walk(function))


def defaults(function):
    """Parameters with the constants that are their defaults."""
    a = function.args
    pairs = [*zip(reversed(a.args), reversed(a.defaults)), *zip(a.kwonlyargs, a.kw_defaults)]
    return [(p.arg, d.value) for p, d in pairs if isinstance(d, ast.Constant)]


def strings(node):
    """The strings that a list, a set, a tuple or a mapping is made of; names that a class declares."""
    if isinstance(node, (ast.List, ast.Set, ast.Tuple)):
        return {e.value for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)}
    if isinstance(node, ast.Dict):
        return {k.value for k in node.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)}
    if isinstance(node, ast.ClassDef):
        return {n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    return set()


def test_help_says_what_each_means():
    for name, option in OPTIONS.items():
        assert f"    {name}" in khop.Loader.__doc__ and option.help


def test_the_manual_has_every_keyword():
    section = (ROOT / "docs/python.md").read_text().split("\n## Options\n")[1].split("\n## ")[0]
    there = set()
    for line in re.findall(r"^.* \| .*$", section, re.M):
        name, options = line.split(" | ")  # name | meaning, or sampler | options
        there |= set(re.findall(r"`(\w+)", options if re.fullmatch(r"(`\w+`(, )?)+|none", options) else name))
    assert there == set(inspect.signature(khop.Loader).parameters) - {"dataset"}
