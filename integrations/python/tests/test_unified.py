"""Unified tensors: rows are gathered where the ids are, and are what torch gathers."""
import gc
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import khop
from khop._native import library as _library, page_pool
from khop._unified import tensor as unified_tensor
from khop._unified.tensor import UnifiedTensor, placement

pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason=_library.why_not())
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int64, torch.bool]


def numbers(dtype, *shape, seed=0):
    draw = np.random.default_rng(seed).integers(0, 2 if dtype == torch.bool else 100, shape)
    return torch.from_numpy(draw).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("row", [(), (1,), (3,), (100,), (4, 5)], ids=str)
def test_rows_are_those_that_torch_gathers(dtype, row):
    plain = numbers(dtype, 500, *row)
    u = khop.unified(plain)
    for ids in (torch.arange(499, -1, -1), torch.tensor([7, 7, 0], dtype=torch.int32),
                torch.empty(0, dtype=torch.int64), torch.arange(40).reshape(4, 10), torch.arange(0, 500, 3)[::2]):
        got = u[ids]
        assert type(got) is torch.Tensor and got.dtype == dtype
        assert torch.equal(got, plain[ids.long()])
        if ids.dim() == 1:
            assert torch.equal(torch.index_select(u, 0, ids), plain[ids.long()])
            assert torch.equal(u.index_select(-u.dim(), ids), plain[ids.long()])
        if len(row) == 1:
            assert torch.equal(torch.nn.functional.embedding(ids, u), plain[ids.long()])


def test_khop_gathers_and_not_torch(monkeypatch):
    u, gathered = khop.unified(numbers(torch.float32, 50, 8)), []
    calls = unified_tensor._calls()
    gather = calls.gather
    monkeypatch.setattr(calls, "gather", lambda *a: gathered.append(a[2]) or gather(*a))
    ids = torch.arange(10)
    u[ids], torch.index_select(u, 0, ids), u.index_select(0, ids), torch.nn.functional.embedding(ids, u)
    assert gathered == [10] * 4


def test_khop_gathers_where_pyg_was_imported_before():
    """It puts a function of its own in the place of torch.index_select."""
    pytest.importorskip("torch_geometric")
    program = """
import torch, torch_geometric, khop
u = khop.unified(torch.zeros(5, 3))
try:
    torch.index_select(u, 0, torch.tensor([5]))
except IndexError as e:
    assert "ids[0] is 5, but the column has 5 rows" in str(e), e
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()


def test_rows_that_are_out_of_range_are_named():
    plain = numbers(torch.float32, 50, 8)
    u = khop.unified(plain)
    ids = torch.tensor([3, 50, -1])
    for gather in (lambda: u[ids], lambda: torch.index_select(u, 0, ids), lambda: u[torch.tensor([-51])],
                   lambda: torch.nn.functional.embedding(torch.tensor([-1]), u)):
        with pytest.raises(IndexError, match=r"ids\[\d\] is -?\d+, but the column has 50 rows"):
            gather()
    assert torch.equal(u[torch.tensor([-1, 0, -50])], plain[[-1, 0, 0]])  # counted from the end, as torch does


def test_other_operations_are_those_of_torch():
    plain = numbers(torch.float32, 50, 8)
    u = khop.unified(plain)
    assert isinstance(u, torch.Tensor) and u.shape == plain.shape and u.device.type == "cpu" and len(u) == 50
    for f in (lambda x: x[3], lambda x: x[2:9], lambda x: x[:, 1], lambda x: x[x[:, 0] > 50], lambda x: x + 1,
              lambda x: x @ torch.ones(8), lambda x: x.sum(), lambda x: torch.cat([x, x]), lambda x: x.numpy().sum(),
              lambda x: x[torch.arange(3), torch.arange(3)], lambda x: torch.index_select(x, 1, torch.arange(2)),
              lambda x: torch.nn.functional.embedding(torch.arange(3), x.clone(), max_norm=1.0)):
        assert np.array_equal(f(u), f(plain))
    assert type(u[3]) is type(u + 1) is torch.Tensor
    weight = khop.unified(plain.clone()).requires_grad_()
    torch.nn.functional.embedding(torch.tensor([1, 1]), weight).sum().backward()
    assert float(weight.grad.sum()) == 16


def test_a_tensor_is_seen_as_it_changes():
    plain = numbers(torch.float32, 50, 8)
    u = khop.unified(plain)
    plain[7] = -1
    assert torch.equal(u[torch.tensor([7])], torch.full((1, 8), -1.0))
    u[8] = -2
    assert float(plain[8].sum()) == -16
    u.share_memory_()  # which moves it
    assert torch.equal(u[torch.tensor([8])], torch.full((1, 8), -2.0))


def test_rows_go_where_out_says():
    plain = numbers(torch.float32, 50, 8)
    u, out = khop.unified(plain), torch.empty(5, 8)
    ids = torch.arange(5)
    assert torch.index_select(u, 0, ids, out=out) is out and torch.equal(out, plain[:5])
    for wrong in (torch.empty(5, 9), torch.empty(5, 8, dtype=torch.float64), torch.empty(8, 5).t()):
        with pytest.raises(khop.OptionError, match=r"out must be contiguous, torch.float32 \[5, 8\]"):
            torch.index_select(u, 0, ids, out=wrong)


def test_a_memmap_and_a_dataset_stay_where_they_are(tmp_path):
    table = np.arange(600, dtype=np.float32).reshape(100, 6)
    table.tofile(tmp_path / "rows.bin")
    mapped = np.memmap(tmp_path / "rows.bin", np.float32, "r", shape=(100, 6))
    u = khop.unified(mapped)
    assert u.data_ptr() == mapped.ctypes.data
    assert np.array_equal(u[torch.tensor([99, 1])], table[[99, 1]])
    with pytest.raises(khop.OptionError, match="for reading alone"):
        u[0] = 1
    with pytest.raises(khop.OptionError, match="for reading alone"):
        u.zero_()


def test_a_column_of_a_dataset(dataset):
    dataset = dataset("sbm")
    u = khop.unified(dataset, "feature")
    assert list(u.shape) == [3000, 16] and u.dtype == torch.float32
    batch = next(iter(khop.Loader(dataset, fanouts=[3], batch_size=100, process="server")))
    assert np.array_equal(u[torch.as_tensor(np.asarray(batch.n_id))], batch.x)
    assert khop.unified(dataset, "label", node_type="node").dtype == torch.int64
    for wrong, said in ((dict(column="features"), "node type \"node\" has no column \"features\""),
                        (dict(column="feature", node_type="paper"), "no node type \"paper\""), ({}, "column names")):
        with pytest.raises(khop.OptionError, match=said):
            khop.unified(dataset, **wrong)
    with pytest.raises(khop.ServerError, match="no such file"):
        khop.unified(dataset + "-", "feature")


@pytest.mark.parametrize("source, said", [
    (3, "not int"), (np.zeros((4, 4))[:, ::2], "ascontiguousarray"), (np.zeros(3, ">f4"), "big-endian"),
    (np.array(["a"]), "array of"), (torch.zeros(4, 4).t()[1:], r"\.contiguous\(\)"), (torch.tensor(1.0), "no rows"),
    (torch.zeros(3, 3).to_sparse(), "sparse"), (torch.zeros(3, 0), "no rows"),
], ids=lambda v: "" if isinstance(v, str) else type(v).__name__)
def test_what_is_no_source_is_refused(source, said):
    with pytest.raises(khop.OptionError, match=said):
        khop.unified(source)


def test_options_are_checked():
    plain = torch.zeros(3, 3)
    for wrong, said in ((dict(threads=0), "threads"), (dict(device="gpu"), "device"), (dict(column="x"), "folder")):
        with pytest.raises(khop.OptionError, match=said):
            khop.unified(plain, **wrong)


def test_rows_are_the_same_by_any_number_of_threads():
    plain = numbers(torch.float32, 3000, 700)
    ids = torch.from_numpy(np.random.default_rng(1).integers(0, 3000, 9000))
    for threads in (1, 2, 5):
        assert torch.equal(khop.unified(plain, threads=threads)[ids], plain[ids])


# --- memory ---

def test_memory_of_rows_comes_back_when_nothing_has_them():
    u = khop.unified(numbers(torch.float32, 1000, 256))
    ids = torch.arange(1000)
    first = u[ids]
    at, part = first.data_ptr(), first[5:]
    del first
    gc.collect()
    second = u[ids]
    assert second.data_ptr() != at  # part has it still
    assert torch.equal(part, u.plain[5:])
    del part
    gc.collect()
    assert u[ids].data_ptr() == at


def test_no_more_memory_is_kept_than_a_few_pieces():
    r = page_pool.Rooms(kept=2)
    held = [r.take(size) for size in (200_000, 300_000, 400_000, 5 << 20)]
    assert r.held() == 0
    sizes = [len(h) for h in held]
    assert all(s >= size for s, size in zip(sizes, (200_000, 300_000, 400_000, 5 << 20)))
    while held:
        held.pop()
    gc.collect()
    assert r.held() == sizes[0] + sizes[1]  # the last that came back
    assert len(r.take(180_000)) == sizes[0]
    assert len(r.take(60_000)) < sizes[1]  # not one that is many times as large


# --- processes ---

def _sum(queue, u, ids):
    queue.put((type(u).__name__, float(u[ids].sum()), u._column.plain.is_shared()))


def _fill(queue, u, ids):
    u[ids.tolist()[0]] = 5
    queue.put(None)


def test_processes_share_a_tensor_without_a_copy():
    spawn = torch.multiprocessing.get_context("spawn")
    u, ids, queue = khop.unified(torch.zeros(40, 8)), torch.tensor([3, 3]), spawn.Queue()
    u[3] = 2
    for work in (_fill, _sum):
        p = spawn.Process(target=work, args=(queue, u, ids))
        p.start()
        said = queue.get(timeout=60)
        p.join()
    assert said == ("UnifiedTensor", 80.0, True)
    assert float(u[ids].sum()) == 80  # what another process wrote


def test_a_pickled_memmap_or_column_is_opened_again(tmp_path, dataset):
    np.arange(600, dtype=np.float32).tofile(tmp_path / "rows.bin")
    mapped = np.memmap(tmp_path / "rows.bin", np.float32, "r", shape=(100, 6))
    for u in (khop.unified(mapped, hot=[1, 2], threads=3), khop.unified(dataset("sbm"), "feature")):
        data = pickle.dumps(u)
        assert len(data) < 2000
        v = pickle.loads(data)
        assert isinstance(v, UnifiedTensor) and torch.equal(v[torch.tensor([5])], u[torch.tensor([5])])
        assert v._threads == u._threads and (v._hot_rows is None) == (u._hot_rows is None)


def test_a_forked_child_gathers_by_torch():
    program = """
import os, torch, khop
u = khop.unified(torch.arange(12.0).reshape(4, 3))
u[torch.tensor([1])]
child = os.fork()
if child == 0:
    os._exit(0 if u[torch.tensor([1])].tolist() == [[3.0, 4.0, 5.0]] else 1)
raise SystemExit(os.waitpid(child, 0)[1])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


# --- where operations run: the table of Min et al. ---

class Operand:
    def __init__(self, device, dims):
        self.device, self.dims = device, dims

    def dim(self):
        return self.dims


class SomeDevices(unified_tensor.Devices):
    @staticmethod
    def ordinal(tensor):
        return tensor.device


CPU, NUMBER, GPU, OTHER = Operand(None, 2), Operand(None, 0), Operand(0, 2), Operand(1, 0)


@pytest.mark.parametrize("operands, propagates, keeps", [
    ([], 0, None), ([NUMBER], 0, None), ([CPU], None, None), ([CPU, NUMBER], None, None), ([GPU], 0, 0),
    ([OTHER], 1, 1), ([CPU, GPU], 0, 0), ([GPU, CPU], 0, 0), ([NUMBER, GPU], 0, 0),
], ids=["none", "number", "cpu", "cpu, number", "gpu", "number on gpu", "cpu, gpu", "gpu, cpu", "number, gpu"])
def test_where_an_operation_runs(monkeypatch, operands, propagates, keeps):
    monkeypatch.setattr(unified_tensor, "devices", SomeDevices)
    assert placement(operands, 0) == propagates  # device="cuda"
    assert placement(operands, None) == keeps  # device="cpu"


# --- what is mapped for reading alone ---

@torch.jit.script
def _scripted(x: torch.Tensor):
    return x.mul_(2)


WRITES = {
    "item": lambda u: u.__setitem__(0, 1.0), "in place": lambda u: u.mul_(2), "operator": lambda u: u.__iadd__(1),
    "out": lambda u: torch.add(torch.zeros(100, 6), torch.zeros(100, 6), out=u),
    "out of two": lambda u: torch.max(torch.zeros(100, 6, 2), 2, out=(u, torch.zeros(100, 6, dtype=torch.int64))),
    "foreach": lambda u: torch._foreach_add_([u], 1.0), "foreach list": lambda u: torch._foreach_add_(
        (torch.zeros(2), u), [torch.ones(2), torch.ones(100, 6)]),
    "keyword": lambda u: torch.nn.functional.relu(u, inplace=True),
    "position": lambda u: torch.nn.functional.dropout(u, 0.5, True, True),
    "copy": lambda u: u.copy_(torch.ones(100, 6)),
    "norms of an embedding": lambda u: torch.nn.functional.embedding(torch.tensor([1]), u, max_norm=0.1),
    "init": lambda u: torch.nn.init.zeros_(u), "random": lambda u: u.normal_(), "scatter": lambda u: u.scatter_(
        0, torch.zeros(1, 6, dtype=torch.int64), 1.0), "statistics": lambda u: torch.nn.functional.batch_norm(
        torch.ones(4, 6), u[0], u[1], training=True),
    "index_put": lambda u: torch.index_put_(u, (torch.tensor([1]),), torch.ones(6)),
    "script": lambda u: _scripted(u), "view": lambda u: u[3:7].add_(1), "row": lambda u: u[0].zero_(),
    "view of a view": lambda u: u.t()[1][3:].fill_(1), "data": lambda u: u.data.zero_(),
    "detach": lambda u: u.detach().relu_(), "split": lambda u: torch.split(u, 50)[1].zero_(), "unbind": lambda u: [
        r.zero_() for r in u.unbind()], "iteration": lambda u: [r.zero_() for r in u],
    "plain": lambda u: u.plain.zero_(),
    "script of a view": lambda u: _scripted(u[3:]), "numpy": lambda u: u.numpy().__setitem__(0, 1),
    "array": lambda u: np.asarray(u[2:]).__setitem__(0, 1), "parameter": lambda u: torch.optim.SGD(
        [_learned(u)], 0.1).step(),
}


def _learned(u):
    p = u[1:].requires_grad_()
    p.grad = torch.ones(99, 6)
    return p


def test_what_is_mapped_for_reading_alone_is_never_written(tmp_path):
    """In a process of its own, which a write to such memory ends."""
    table = np.arange(600, dtype=np.float32).reshape(100, 6)
    table.tofile(tmp_path / "rows.bin")
    program = """
import numpy as np, khop
from test_unified import WRITES
wrong = []
for name, write in WRITES.items():
    print(name, flush=True)
    u = khop.unified(np.memmap("rows.bin", np.float32, "r", shape=(100, 6)))
    try:
        write(u)
        wrong.append((name, "it was written to"))
    except Exception as e:
        if not any(said in str(e) for said in ("for reading alone", "read-only", "TorchScript interpreter")):
            wrong.append((name, repr(e)))
assert not wrong, wrong
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120,
                          cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))})
    assert done.returncode == 0, (done.returncode, done.stdout.split("\n")[-2:], done.stderr[-2000:])
    assert np.array_equal(np.fromfile(tmp_path / "rows.bin", np.float32).reshape(100, 6), table)
    u = khop.unified(np.memmap(tmp_path / "rows.bin", np.float32, "r", shape=(100, 6)))
    for read in (u[3:7] + 1, u[0].clone().zero_(), torch.cat([u, u]).mul_(2), u.relu(), u[2:].sum().add_(1),
                 torch.add(u, 1, out=torch.zeros(100, 6)), u.t().contiguous().zero_(), u.to(torch.float64).zero_(),
                 u[torch.arange(3)].zero_(), u.t()[:, 1].clone()):
        assert type(read) is torch.Tensor
    assert np.array_equal(u[3:7], table[3:7]) and np.array_equal(u.numpy(), table)
    assert torch.equal(pickle.loads(pickle.dumps(u[3:7])), u[3:7])


def test_unified_tensors_in_lists_and_keywords_are_placed(monkeypatch):
    """By the rule that holds for operands."""
    placed = []
    monkeypatch.setattr(UnifiedTensor, "on", lambda u, device: placed.append(device) or u._column.plain)

    class Somewhere(unified_tensor.Devices):
        @staticmethod
        def ordinal(tensor):
            return 0 if tensor is there else None
    there = torch.ones(4, 3)
    u = khop.unified(torch.zeros(4, 3), device="cpu")
    monkeypatch.setattr(unified_tensor, "devices", Somewhere)
    for run in (lambda: torch.cat([u, there]), lambda: torch.stack((there, u)), lambda: torch.add(there, other=u),
                lambda: torch.add(input=u, other=there), lambda: torch.where(there > 0, input=u, other=there)):
        placed.clear()
        try:
            run()
        except TypeError:
            continue  # not in this torch
        assert placed == ["cuda:0"]
    placed.clear()
    torch.cat([u, torch.ones(4, 3)])
    assert not placed
