"""Examples that people copy: each is short, and reaches the figure that it names."""
import os
import re
import subprocess
import sys

import pytest

from khop._native import library as _library
from conftest import PATIENCE, ROOT, by_night, run
from test_distributed import free_port

EXAMPLES = sorted((ROOT / "examples" / "python").glob("*.py"))
NEEDS = {"links": "torch_geometric", "nodes": "torch_geometric", "typed_hgt": "torch_geometric", "jax_nodes": "jax",
         "temporal": "torch", "windows": "torch", "transformer": "torch_geometric", "history": "torch"}
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_each_is_short_and_listed():
    programs = [p for p in (ROOT / "examples").rglob("*") if p.suffix in (".py", ".go") and p.name != "main_test.go"
                and p.parent.name in ("python", "unified", "machines", "train", "service")]
    assert len(programs) > 10
    listed = (ROOT / "docs" / "examples.md").read_text()
    assert not [p for p in programs if p.name != "sage.py" and f"`{p.parent.name}/{p.name}`" not in listed]
    assert not [p for p in programs if len(p.read_text().splitlines()) >= 80]


@pytest.mark.parametrize("example", [pytest.param(p, id=p.stem, marks=[by_night] if p.stem == "transformer" else [])
                                     for p in EXAMPLES])
def test_it_reaches_its_figure(program, example):
    if example.stem in NEEDS:
        module = NEEDS[example.stem]
        pytest.importorskip(module, reason=f"{module} is not installed")
    run(sys.executable, example, env=ENV)


@pytest.mark.parametrize("example, graph", [("nodes", "planetoid-cora"),
                                            ("windows", "CollegeMsg-temporal/CollegeMsg.txt"),
                                            pytest.param("history", "CollegeMsg-temporal/CollegeMsg.txt",
                                                         marks=by_night)])
def test_it_reaches_its_figure_on_a_real_graph(program, example, graph):
    pytest.importorskip(NEEDS[example], reason=f"{NEEDS[example]} is not installed")
    if not os.environ.get("KHOP_TESTDATA"):
        pytest.skip("KHOP_TESTDATA is not set: no real graphs")
    run(sys.executable, ROOT / f"examples/python/{example}.py", f"{os.environ['KHOP_TESTDATA']}/{graph}", env=ENV)


@pytest.mark.parametrize("example, module", [("pyg_nodes", "torch_geometric"), ("dgl_nodes", "dgl")])
def test_two_lines_make_features_unified(example, module, tmp_path):
    """The program without them, which knows nothing of khop, learns the same. DGL's own order varies between runs."""
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip(module, reason=f"{module} is not installed")
    if _library.why_not():
        pytest.skip(_library.why_not())
    changed = (ROOT / f"examples/unified/{example}.py").read_text()
    plain = re.sub(r"\n.*  # was not there\n", "\n\n", re.sub(r"( *)\S.*  # was: (.*)", r"\1\2", changed))
    lines = plain.splitlines(), changed.splitlines()
    assert [a != b for a, b in zip(*lines, strict=True)].count(True) == 2
    assert not re.search(r"^[^\"].*khop[. ]", plain.partition('"""\n')[2], re.M)
    (tmp_path / "plain.py").write_text(plain)
    said = [run(sys.executable, p, env=ENV) for p in (ROOT / f"examples/unified/{example}.py", tmp_path / "plain.py")]
    assert said[0] == said[1] or module == "dgl"


@pytest.fixture
def communities(program, tmp_path):
    """The graph that the examples of several machines name."""
    said = re.search(r'"khop (generate .*?)"', (ROOT / "examples/machines/train.py").read_text())[1]
    run(program, *said.split(), cwd=tmp_path)
    return tmp_path / "g.khop"


def ranks(count, *command, **options):
    """What rank 0 prints of count processes, which are started as torchrun starts them."""
    port, running = str(free_port()), []
    for r in map(str, range(count)):
        env = {**ENV, "RANK": r, "LOCAL_RANK": r, "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
               "MASTER_ADDR": "localhost", "MASTER_PORT": port}
        running.append(subprocess.Popen([sys.executable, *map(str, command)], env=env, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options))
    said = [p.communicate(timeout=PATIENCE) for p in running]
    assert not any(p.returncode for p in running), said
    return said[0][0]


def test_two_processes_train_and_one_goes_on(communities, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    program = [ROOT / "examples/machines/train.py", communities]
    assert "5 steps, the last of epoch" in ranks(2, *program, "--steps", 5, cwd=tmp_path)
    out = ranks(1, *program, cwd=tmp_path)
    assert float(re.search(r"accuracy ([\d.]+) of", out)[1]) > 0.9


def test_lightning_trains_two_processes(communities, tmp_path):
    pytest.importorskip("lightning", reason="lightning is not installed")
    env = dict(ENV)
    try:
        import torch.distributed._shard.sharded_tensor  # noqa: F401
    except ValueError:  # Python 3.11 refuses it of torch 1.13; Lightning has it add hooks, which do nothing here
        (tmp_path / "sitecustomize.py").write_text(
            "import sys, types\nm = sys.modules['torch.distributed._shard.sharded_tensor'] = types.ModuleType('m')\n"
            "m.state_dict_hook = m.pre_load_state_dict_hook = lambda *a, **k: None\n")
        env["PYTHONPATH"] = f"{tmp_path}:{ENV['PYTHONPATH']}"
    out = run(sys.executable, ROOT / "examples/machines/lightning_train.py", communities, 2, cwd=tmp_path, env=env)
    assert float(re.search(r"accuracy\W+([\d.]+)", out)[1]) > 0.9
