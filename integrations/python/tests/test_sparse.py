"""khop.sparse: products of torch, PyG and DGL by khop's kernels give what they gave before, and so do gradients."""
import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from khop._native import library as _library  # noqa: E402

pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")

import khop.sparse  # noqa: E402
from khop._ops import spmm  # noqa: E402


@pytest.fixture(autouse=True)
def unpatched():
    yield
    khop.sparse.unpatch()


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ids(seed, most, *shape):
    return torch.randint(0, most, shape, generator=torch.Generator().manual_seed(seed))


def close(a, b, what, tolerance=1e-4):
    if a is None or b is None:
        assert not any(t is not None and t.any() for t in (a, b)), what
        return
    a, b = (t.to_dense() if t.layout != torch.strided else t for t in (a, b))
    assert a.dtype == b.dtype and torch.allclose(a, b, atol=tolerance, rtol=tolerance), (what, (a - b).abs().max())


def compared(run, what, operations, tolerance=1e-4):
    """Runs something without and with khop, and compares what it returns; khop must have computed this number of
    products."""
    before = run()
    with khop.sparse.patched():
        first = khop.sparse.operations()
        after = run()
        counted = khop.sparse.operations() - first
    for i, (a, b) in enumerate(zip(before, after)):
        close(a, b, (what, i), tolerance)
    assert counted == operations, (what, f"{counted} products by khop, not {operations}")


def matrix(layout, dtype=torch.float32):
    coo = torch.sparse_coo_tensor(torch.stack([ids(1, 30, 200), ids(2, 20, 200)]), drawn(3, 200).to(dtype), (30, 20))
    return {"repeated": lambda: coo, "coo": coo.coalesce, "csr": lambda: coo.coalesce().to_sparse_csr(),
            "csc": lambda: coo.coalesce().to_sparse_csc()}[layout]()


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("layout", ["repeated", "coo", "csr", "csc"])
def test_products_of_torch(layout, learned):
    if layout == "csc" and learned:
        return  # torch has no such gradient
    for width in (0, 1, 7, 16):
        for x in (drawn(4, 20, width), drawn(4, width, 20).t(), drawn(4, 20, 2 * width)[:, ::2]):
            def run():
                a = matrix(layout).requires_grad_() if learned else matrix(layout)
                b = x.detach().requires_grad_()
                y = torch.sparse.mm(a, b)
                (y * drawn(5, 30, width)).sum().backward()
                return y.detach(), b.grad, a.grad
            compared(run, (layout, width, x.stride()), 0 if learned and layout == "repeated" else 2 + learned)


def test_means_of_torch():
    a, x = matrix("csr"), drawn(4, 20, 8)
    counts = torch.zeros(30).index_add_(0, matrix("coo").indices()[0], torch.ones(a.values().numel()))
    with khop.sparse.patched():
        close(torch.sparse.mm(a, x, "mean"), torch.sparse.mm(a, x) / counts.clamp(min=1)[:, None], "mean")


@pytest.mark.skipif(not hasattr(torch, "_segment_reduce"), reason="this torch has no extremes of sparse matrices")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("reduce", ["amax", "amin", "max"])
def test_extremes_of_torch(reduce, learned, dtype):
    def run():
        a, x = matrix("csr", dtype).requires_grad_(learned), (ids(4, 3, 20, 7) - 1).to(dtype).requires_grad_()
        y = torch.sparse.mm(a, x, reduce)
        (y * drawn(5, 30, 7).to(dtype)).sum().backward()
        return y.detach(), x.grad, a.grad
    compared(run, (reduce, learned), 1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_gradients_of_extremes(dtype, weighted):
    """By products of a dense matrix with whoever has the extreme."""
    _library.load()
    to, of = ids(1, 9, 40), ids(2, 7, 40)
    s = spmm.of_edges(9, 7, to, of)
    values = (ids(3, 3, 40) - 1).to(dtype) if weighted else None
    w = torch.ones(40, dtype=dtype) if values is None else values
    results = []
    for ours in (True, False):
        x = (ids(4, 3, 7, 5) - 1).to(dtype).requires_grad_()
        if ours:
            y = spmm.extreme(s, False, spmm.SHARED, values, x)
        else:
            messages = x[of] * w[:, None]
            y = torch.zeros(9, 5, dtype=dtype).scatter_reduce(
                0, to[:, None].expand(-1, 5), messages.detach(), "amax", include_self=False)
            won = (messages.detach() == y[to]).to(dtype)
            number = torch.zeros(9, 5, dtype=dtype).index_add(0, to, won)
            y = torch.zeros(9, 5, dtype=dtype).index_add(0, to, won / number[to] * messages)
        dy = drawn(5, 9, 5).to(dtype).requires_grad_()
        first, = torch.autograd.grad(y, x, dy, create_graph=True)
        second, = torch.autograd.grad((first ** 3).sum(), dy)
        results.append((y.detach(), first.detach(), second))
    for what, have, want in zip(("extremes", "gradient", "its gradient"), *results):
        close(have, want, what)


def test_an_extreme_that_is_not_a_number_has_such_a_gradient():
    _library.load()
    s = spmm.of_edges(2, 3, torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2]))
    x = torch.tensor([[float("nan")], [1.0], [2.0]]).requires_grad_()
    y = spmm.extreme(s, False, spmm.SHARED_WITH_ZERO, None, x)
    y.sum().backward()
    torch.testing.assert_close(y.detach(), torch.tensor([[float("nan")], [2.0]]), equal_nan=True)
    torch.testing.assert_close(x.grad, torch.tensor([[float("nan")], [float("nan")], [1.0]]), equal_nan=True)


def test_what_is_not_finite_and_what_is_empty():
    for rows, cols, edges in ((0, 3, 0), (3, 0, 0), (4, 3, 0), (4, 3, 5)):
        at = torch.stack([ids(1, max(rows, 1), edges), ids(2, max(cols, 1), edges)])
        for values in (torch.ones(edges), torch.zeros(edges)):  # 0 times NaN is NaN
            a, x = torch.sparse_coo_tensor(at, values, (rows, cols)).coalesce().to_sparse_csr(), drawn(3, cols, 2)
            for odd in (float("nan"), float("inf")):
                x[:1, :1] = odd
                want = torch.sparse.mm(a, x)
                assert edges == 0 or not want.isfinite().all()
                with khop.sparse.patched():
                    torch.testing.assert_close(torch.sparse.mm(a, x), want, equal_nan=True)


def test_halves():
    for dtype in (torch.float16, torch.bfloat16):
        a, x = matrix("csr", dtype), drawn(4, 20, 16).to(dtype).requires_grad_()
        with khop.sparse.patched():
            y = torch.sparse.mm(a, x)
        y.float().sum().backward()
        want = a.to(torch.float32).to_dense() @ x.detach().float()
        close(y.detach().float(), want, dtype, 0.05)
        assert y.dtype == x.grad.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("heads", [0, 1, 2])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("reduce", [spmm.SUM, spmm.MEAN, spmm.SPREAD])
def test_gradients_of_gradients(reduce, transposed, heads, dtype):
    _library.load()
    to, of, n = ids(1, 9, 40).to(dtype), ids(2, 7, 40).to(dtype), heads or 1
    s = spmm.of_edges(9, 7, to, of)
    values = drawn(3, 40, heads).requires_grad_() if heads else None
    x = drawn(4, 9 if transposed else 7, 6).requires_grad_()
    where = torch.arange(n)[:, None], to.long()[None], of.long()[None]
    a = torch.zeros(n, 9, 7).index_put(where, values.t() if heads else torch.ones(1, 40), accumulate=True)
    counts = torch.zeros(9, 7).index_put((to.long(), of.long()), torch.ones(40), accumulate=True)
    if transposed:
        a, counts = a.transpose(1, 2), counts.t()
    if reduce == spmm.MEAN:
        a = a / counts.sum(1).clamp(min=1)[:, None]
    if reduce == spmm.SPREAD:
        a = a / counts.sum(0).clamp(min=1)
    want = torch.cat([a[h] @ x[:, 6 // n * h:6 // n * (h + 1)] for h in range(n)], 1)
    have = spmm.multiply(s, transposed, reduce, values, x)
    close(have, want, "product")
    inputs = (x,) if values is None else (x, values)
    firsts = [
        torch.autograd.grad((y.tanh() * drawn(5, *y.shape)).sum(), inputs, create_graph=True) for y in (have, want)]
    seconds = [torch.autograd.grad(sum((g ** 3).sum() for g in first), inputs) for first in firsts]
    for what, (one, other) in (("gradient", firsts), ("second gradient", seconds)):
        for a, b in zip(one, other):
            close(a, b, what, 1e-2)


def test_what_changes_is_computed_anew():
    """A transpose or values of before an in-place change would show in the gradient."""
    index, values, x = torch.stack([ids(1, 30, 200), ids(2, 20, 200)]), drawn(3, 200), drawn(4, 20, 8)

    def run():
        results = []
        csr, coo = matrix("csr"), torch.sparse_coo_tensor(index.clone(), values.clone(), (30, 20))
        for change in range(4):
            if change == 1:
                csr.values().mul_(2)
                coo._values().mul_(2)
            if change == 2:
                csr.col_indices().copy_(19 - csr.col_indices())
                coo._indices()[0].copy_(ids(7, 30, 200))
            if change == 3:
                csr.col_indices()[5] = 0
                coo._indices()[1, 5] = 0
            for a in (csr, coo):
                b = x.clone().requires_grad_()
                y = torch.sparse.mm(a, b)
                y.square().sum().backward()
                results += [y.detach(), b.grad]
        return results
    compared(run, "changed", 16)


def test_a_change_between_product_and_gradient_is_an_error():
    x = drawn(4, 20, 8)
    for part in (lambda a: a.values(), lambda a: a.col_indices()):
        a, b = matrix("csr"), x.clone().requires_grad_()
        with khop.sparse.patched():
            y = torch.sparse.mm(a, b)
            part(a)[0] = 0
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()


def test_a_structure_is_made_once(monkeypatch):
    calls, call = [], spmm.call
    monkeypatch.setattr(spmm, "call", lambda name, *arguments: (calls.append(name), call(name, *arguments)))
    a = matrix("csr")
    with khop.sparse.patched():
        for _ in range(3):
            x = drawn(4, 20, 8).requires_grad_()
            torch.sparse.mm(a, x).sum().backward()
        assert calls.count("rows") == 1 and calls.count("multiply") == 6
        kept = weakref.ref(next(iter(spmm.structures._all.values())))
        khop.sparse.clear()
        gc.collect()
        assert kept() is None, "what was cleared is still held"


@pytest.mark.parametrize("process", ["inside", "server"])
def test_products_of_batches_keep_no_slot(process, dataset):
    """Matrices over a block's arrays, as DGL's blocks are: each is another, though the next one often lies where the
    last one was."""
    with khop.Loader(dataset("sbm"), [5, 3], batch_size=64, process=process, framework="torch", hold=2) as loader:
        with khop.sparse.patched():
            for batch in loader:
                first = khop.sparse.operations()
                for layer, block in enumerate(batch.blocks):
                    indptr, indices = block.indptr, block.indices
                    x = drawn(1, int(indices.max()) + 1, 4).requires_grad_()
                    a = spmm.in_rows(len(indptr) - 1, len(x), indptr, indices)
                    y = spmm.multiply(a, False, spmm.SUM, None, x)
                    y.sum().backward()
                    to = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
                    close(y.detach(), torch.zeros_like(y).index_add(0, to, x.detach()[indices]), (batch.number, layer))
                    close(x.grad, torch.zeros_like(x).index_add(0, indices, torch.ones(len(indices), 4)), layer)
                assert khop.sparse.operations() - first == 4
                del batch, block, indptr, indices, a, to, y  # but not the cache


def test_checkpoints_that_compute_anew():
    """Without reentrance what is saved may be unpacked once: that computes it."""
    from torch.utils.checkpoint import checkpoint

    def run():
        a, x = matrix("csr").requires_grad_(), drawn(4, 20, 8).requires_grad_()
        y = checkpoint(lambda x: torch.sparse.mm(a, x * 2), x, use_reentrant=False)
        y.sum().backward()
        return y.detach(), x.grad, a.grad
    compared(run, "checkpoint", 4)


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="this torch compiles nothing")
def test_what_is_compiled_is_what_was_there():
    def run():
        a, x = matrix("csr"), drawn(4, 20, 8)
        return torch.compile(lambda x: torch.sparse.mm(a, x) + 1, backend="eager")(x),
    compared(run, "compiled", 0)


def test_what_khop_has_not_goes_where_it_went():
    a, x = matrix("csr"), drawn(4, 20, 8)
    before = torch.sparse.mm
    with khop.sparse.patched():
        first = khop.sparse.operations()
        assert torch.sparse.mm(a.to(torch.float64), x.double()).dtype == torch.float64
        assert torch.sparse.mm(matrix("coo"), matrix("coo").t().coalesce()).layout == torch.sparse_coo
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            try:
                torch.sparse.mm(matrix("coo"), dual)
            except (NotImplementedError, RuntimeError):
                pass  # as it may be without khop
        for wrong in ((a, drawn(1, 19, 8)), (a, None), (x, x[0])):
            with pytest.raises((RuntimeError, TypeError, IndexError, NotImplementedError)):
                torch.sparse.mm(*wrong)
        assert khop.sparse.operations() == first
    assert torch.sparse.mm is before


def test_patching_twice_and_within():
    before = torch.sparse.mm
    khop.sparse.patch()
    khop.sparse.patch()
    with khop.sparse.patched():
        pass
    assert torch.sparse.mm is not before
    khop.sparse.unpatch()
    khop.sparse.unpatch()
    assert torch.sparse.mm is before


def test_threads_compute_at_once():
    a, wrong = matrix("csr"), []
    want = torch.sparse.mm(a, drawn(4, 20, 32))

    def work():
        for _ in range(50):
            if not torch.allclose(torch.sparse.mm(a, drawn(4, 20, 32)), want, atol=1e-5):
                wrong.append(1)
    with khop.sparse.patched():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


def test_a_forked_child_computes_without_khop():
    program = """
import os, torch, khop.sparse
khop.sparse.patch()
a = torch.eye(5).to_sparse_csr()
torch.sparse.mm(a, torch.ones(5, 4))
pid = os.fork()
if pid == 0:
    ok = torch.equal(torch.sparse.mm(a, torch.ones(5, 4)), torch.ones(5, 4))
    khop.sparse.unpatch()
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
torch.sparse.mm(a, torch.ones(5, 4))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=600,
                   env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_sampled_gradients_are_right_in_the_mean(reduce, weighted, monkeypatch):
    """Of 1,600 gradients, with a row that has most edges. A bias of a third of the gradient's root mean square in any
    element would be found with a chance of 99 %: the elements of the mean have deviations of at most 0.045 of it, and 5
    of them are allowed, which chance exceeds in one of 14,000 cases of 120 elements."""
    monkeypatch.setattr(khop.sparse, "SAMPLED_GAIN", 0.0)
    to = torch.cat([ids(1, 30, 250), torch.full((150,), 3)])
    of, w = ids(2, 20, 400), drawn(3, 400).abs() if weighted else None
    dy = drawn(5, 30, 6)

    def gradient():
        x = drawn(4, 20, 6).requires_grad_()
        s = spmm.of_edges(30, 20, to, of)
        spmm.aggregate(s, reduce, w, x).backward(dy)
        return x.grad.double()
    with khop.sparse.patched():
        exact = gradient()
    with khop.sparse.patched(backward_budget=0.3, seed=7):
        all_of = torch.stack([gradient() for _ in range(1600)])
    with khop.sparse.patched(backward_budget=0.3, seed=7):
        assert torch.equal(gradient(), all_of[0]) and not torch.equal(gradient(), all_of[0])
    size = exact.square().mean().sqrt()
    error, deviation = all_of.mean(0) - exact, all_of.std(0) / 1600 ** 0.5
    assert deviation.max() <= 0.045 * size, (deviation.max(), size)
    assert (error.abs() <= 5 * deviation + 1e-6 * size).all(), (error / deviation).abs().max()
    assert (all_of - exact).square().mean().sqrt() > 0.05 * size, "nothing was left out"


def test_two_sampled_gradients_in_turn_are_right_in_the_mean(monkeypatch):
    """Draws of two products depend on nothing in common: else the gradient through both would be wrong in the mean."""
    monkeypatch.setattr(khop.sparse, "SAMPLED_GAIN", 0.0)
    to, of, dy = ids(1, 20, 300), ids(2, 20, 300), drawn(5, 20, 3).abs()

    def gradient():
        x = drawn(4, 20, 3).requires_grad_()
        s = spmm.of_edges(20, 20, to, of)
        spmm.aggregate(s, "sum", None, spmm.aggregate(s, "sum", None, x)).backward(dy)
        return x.grad.double()
    with khop.sparse.patched():
        exact = gradient()
    with khop.sparse.patched(backward_budget=0.4, seed=1):
        all_of = torch.stack([gradient() for _ in range(1500)])
    error, deviation = all_of.mean(0) - exact, all_of.std(0) / 1500 ** 0.5
    assert deviation.max() <= 0.02 * exact.abs().max()
    assert (error.abs() <= 5 * deviation).all(), (error / deviation).abs().max()


def test_gradients_are_exact_where_sampling_would_not_pay(monkeypatch):
    a, x = matrix("csr"), drawn(4, 20, 8)

    def gradient(**options):
        b = x.clone().requires_grad_()
        y = torch.sparse.mm(a, b)
        first, = torch.autograd.grad(y.square().sum(), b, **options)
        return first.detach()
    exact = gradient()
    with khop.sparse.patched(backward_budget=0.3):  # 200 edges of 30 rows
        close(gradient(), exact, "few edges a row")
    monkeypatch.setattr(khop.sparse, "SAMPLED_GAIN", 0.0)
    with khop.sparse.patched(backward_budget=0.3):
        close(gradient(create_graph=True), exact, "a gradient that is differentiated")
        with khop.sparse.patched():
            close(gradient(), exact, "patched anew inside")
        assert not torch.allclose(gradient(), exact)
    with khop.sparse.patched(backward_budget=1.0):
        close(gradient(), exact, "all rows")


@pytest.mark.parametrize("degree, width, hubs, drawn_rows", [
    (100, 64, 0, False),  # a draw takes as long as it saves, though a row adds 6,400 numbers
    (400, 64, 0, True), (400, 64, 2, False),  # two nodes have most edges, and are always kept
])
def test_the_degrees_decide_which_gradients_are_drawn(degree, width, hubs, drawn_rows):
    n = 2000
    to, of = ids(1, n, n * degree), ids(2, n, n * degree)
    if hubs:
        to[: n * degree * 6 // 10] = ids(3, hubs, n * degree * 6 // 10)
    dy = drawn(5, n, width)

    def gradient():
        x = drawn(4, n, width).requires_grad_()
        spmm.aggregate(spmm.of_edges(n, n, to, of), "sum", None, x).backward(dy)
        return x.grad
    with khop.sparse.patched():
        exact = gradient()
    with khop.sparse.patched(backward_budget=0.1):
        assert torch.allclose(gradient(), exact, atol=1e-3) != drawn_rows


@pytest.mark.parametrize("wrong", [
    {"backward_budget": 1.1}, {"backward_budget": -0.1}, {"backward_budget": "0.1"}, {"backward_budget": True},
    {"seed": -1}, {"seed": 1.5}, {"reassociate": "yes"},
])
def test_options_out_of_range_are_refused(wrong):
    before = torch.sparse.mm
    with pytest.raises(khop.OptionError, match=next(iter(wrong))):
        khop.sparse.patch(**wrong)
    assert torch.sparse.mm is before
