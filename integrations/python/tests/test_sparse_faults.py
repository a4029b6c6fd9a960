"""khop.sparse.patch where it differed from torch, or from PyG, once."""
import contextlib
import inspect
import os
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from khop._native import library as _library  # noqa: E402

pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")

import khop.sparse  # noqa: E402
from khop._ops import spmm  # noqa: E402
from test_sparse import close, drawn, ids, matrix, unpatched  # noqa: E402, F401

NODES, EDGES, WIDTH = 30, 200, 8


@pytest.fixture
def nn():
    return pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")


def edges():
    return ids(1, NODES, 2, EDGES)


def program(text):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_later_wrapper_stays_and_calls_what_was_there():
    before, calls = torch.sparse.mm, []
    khop.sparse.patch()
    ours = torch.sparse.mm

    def wrapper(*args):
        calls.append(1)
        return ours(*args)
    torch.sparse.mm = wrapper
    try:
        khop.sparse.unpatch()
        assert torch.sparse.mm is wrapper
        first = khop.sparse.operations()
        want = torch.sparse.mm(matrix("csr"), drawn(4, 20, 8))
        assert khop.sparse.operations() == first and calls == [1]
        with khop.sparse.patched():
            close(torch.sparse.mm(matrix("csr"), drawn(4, 20, 8)), want, "patched around a wrapper")
            assert khop.sparse.operations() == first + 1
        assert torch.sparse.mm is wrapper
    finally:
        torch.sparse.mm = before


def test_blocks_of_threads_end_as_they_began():
    """One begins while another is in force, and ends after it."""
    before, first, second = torch.sparse.mm, threading.Event(), threading.Event()

    def other():
        with khop.sparse.patched(backward_budget=0.5):
            first.set()
            second.wait(60)
    thread = threading.Thread(target=other)
    with khop.sparse.patched():
        thread.start()
        first.wait(60)
        assert spmm.draws is not None
    assert torch.sparse.mm is not before  # the other's block goes on
    assert spmm.draws is not None
    second.set()
    thread.join()
    assert torch.sparse.mm is before and spmm.draws is None


def test_a_block_leaves_what_was_there_before_whatever_was_called_inside():
    before = torch.sparse.mm
    with khop.sparse.patched():
        khop.sparse.unpatch()
        assert torch.sparse.mm is before
        khop.sparse.patch(backward_budget=0.5)
        assert spmm.draws is not None
    assert torch.sparse.mm is before and spmm.draws is None
    khop.sparse.patch()
    with khop.sparse.patched(backward_budget=0.5):
        khop.sparse.unpatch()
    assert torch.sparse.mm is not before and spmm.draws is None


def test_an_error_of_khop_is_none_of_torch(monkeypatch):
    def broken(*given):
        raise TypeError("a fault of khop's")
    monkeypatch.setattr(spmm, "multiply", broken)
    with khop.sparse.patched(), pytest.raises(TypeError, match="a fault of khop's"):
        torch.sparse.mm(matrix("csr"), drawn(4, 20, 8))


@pytest.mark.parametrize("wrong", [(), (1,), ("csr", "x", "sum", 3), ("csr", "x", ["sum"]), ("csr", "x", None)])
def test_wrong_arguments_are_torchs_errors(wrong):
    given = [{"csr": matrix("csr"), "x": drawn(4, 20, 8)}.get(a, a) if isinstance(a, str) else a for a in wrong]
    with pytest.raises(TypeError):
        torch.sparse.mm(*given)
    with khop.sparse.patched(), pytest.raises(TypeError):
        torch.sparse.mm(*given)


def test_patching_before_pyg_is_imported_replaces_once():
    pytest.importorskip("torch_geometric")
    program("""
import torch, khop.sparse
khop.sparse.patch(reassociate=True)
from torch_geometric.nn import GCNConv, SAGEConv
assert not hasattr(GCNConv.forward.__wrapped__, "__wrapped__"), "it was replaced twice"
x, e = torch.randn(5, 3), torch.tensor([[0, 1, 2], [1, 2, 3]])
first = khop.sparse.operations()
y = GCNConv(3, 9)(x, e)
assert khop.sparse.operations() == first + 1
""")


def test_scripts_while_patched_leave_it_patched(nn):
    """Functions that were replaced, layers and operators of torch can be compiled, and caches stay."""
    utils = pytest.importorskip("torch_geometric.utils")
    a, x, index = matrix("csr"), drawn(4, 20, 8), ids(1, 9, 20)

    class CompiledSums(nn.SAGEConv):
        """PyG keeps the source of its methods in the test's temporary folder."""
    scriptable = []
    for f in (utils.softmax, utils.scatter):
        with contextlib.suppress(RuntimeError):  # a pyg_lib without softmax has none
            scriptable.append(f.__name__ if torch.jit.script(f) else "")
    assert scriptable
    for reassociate in (False, True):
        layer = CompiledSums(8, 3, aggr="mean")
        with khop.sparse.patched(reassociate=reassociate):
            torch.sparse.mm(a, x)
            kept = list(spmm.structures._all)
            ours = torch.sparse.mm, utils.softmax, utils.scatter
            for f, given in ((utils.softmax, (x, index)), (utils.scatter, (x, index))):
                if f.__name__ not in scriptable:
                    continue
                torch.testing.assert_close(torch.jit.script(f)(*given), f(*given))
            torch.testing.assert_close(torch.jit.script(layer)(x, edges() % 20), layer(x, edges() % 20))
            assert kept and list(spmm.structures._all)[:1] == kept
            assert (torch.sparse.mm, utils.softmax, utils.scatter) == ours


def product(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.sparse.mm(a, x)


def test_a_script_of_a_product():
    a, x = matrix("coo"), drawn(4, 20, 8)
    want = torch.jit.script(product)(a, x)
    with khop.sparse.patched():
        torch.testing.assert_close(torch.jit.script(product)(a, x), want)


def test_replaced_functions_keep_their_signatures(nn):
    utils = pytest.importorskip("torch_geometric.utils")
    all_of = [(nn.GCNConv, "forward"), (nn.SAGEConv, "forward"), (nn.GINConv, "forward"), (utils, "softmax"),
              (utils, "scatter"), (utils, "spmm")]
    before = [(inspect.signature(getattr(*f)), getattr(*f).__doc__, getattr(*f).__name__) for f in all_of]
    with khop.sparse.patched(reassociate=True):
        after = [(inspect.signature(getattr(*f)), getattr(*f).__doc__, getattr(*f).__name__) for f in all_of]
        x = drawn(4, NODES, WIDTH)
        nn.GCNConv(WIDTH, 3)(edge_index=edges(), x=x)
        with pytest.raises(TypeError, match="forward.. missing 1 required positional argument: 'edge_index'"):
            nn.GCNConv(WIDTH, 3)(x)
    assert before == after


@pytest.mark.parametrize("reassociate", [False, True])
def test_several_reductions(nn, reassociate):
    torch.manual_seed(1)
    for aggr in (["mean", "max"], nn.MeanAggregation(), nn.MultiAggregation(["sum", "std"])):
        layer, x = nn.SAGEConv(WIDTH, 4, aggr=aggr), drawn(4, NODES, WIDTH)
        want = layer(x, edges())
        with khop.sparse.patched(reassociate=reassociate):
            close(layer(x, edges()).detach(), want.detach(), aggr)


@pytest.mark.parametrize("aggr", ["sum", "mean", "max"])
def test_features_that_change_after_a_layer_are_right_as_in_torch(nn, aggr):
    torch.manual_seed(1)
    layer, w = nn.GINConv(torch.nn.Linear(WIDTH, WIDTH), aggr=aggr), drawn(5, NODES, WIDTH)

    def run():
        x = drawn(4, NODES, WIDTH).requires_grad_()
        h = x * 2
        h += layer(h, edges())
        h *= w
        h.square().sum().backward()
        return h.detach(), x.grad
    want = run()
    with khop.sparse.patched():
        for a, b in zip(run(), want):
            close(a, b, aggr, 1e-3)


@pytest.mark.parametrize("reassociate", [False, True])
@pytest.mark.parametrize("name", ["GCNConv", "SAGEConv", "GraphConv", "GINConv", "SGConv", "GATConv"])
def test_autocast_gives_torchs_dtypes(nn, name, reassociate):
    torch.manual_seed(1)
    for wide, out in ((4, 24), (24, 4)):
        layer = getattr(nn, name)(*([torch.nn.Linear(wide, out)] if name == "GINConv" else [wide, out]))
        x = drawn(4, NODES, wide)

        def run():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return layer(x, edges())
        want = run()
        with khop.sparse.patched(reassociate=reassociate):
            have = run()
        close(have.detach(), want.detach(), (name, wide), 0.1)


def test_a_mean_of_an_uncoalesced_matrix_is_pygs():
    utils = pytest.importorskip("torch_geometric.utils")
    a = torch.sparse_coo_tensor(torch.tensor([[0, 0, 1], [1, 1, 0]]), torch.tensor([1.0, 2.0, 3.0]), (2, 2))
    x = torch.tensor([[1.0], [2.0]])
    for reduce in ("mean", "sum"):
        want = utils.spmm(a, x, reduce)
        with khop.sparse.patched():
            close(utils.spmm(a, x, reduce), want, reduce)


def batched(f, x):
    """Gradients with respect to x, several at once."""
    y = f(x)
    rows = torch.eye(y.numel()).reshape(-1, *y.shape)
    at_once, = torch.autograd.grad(y, x, rows, is_grads_batched=True, retain_graph=True)
    return at_once, torch.autograd.functional.jacobian(f, x.detach(), vectorize=True)


@pytest.mark.parametrize("name", ["csr", "coo", "SAGEConv", "GATConv", "GraphConv", "max", "mean", "amax"])
def test_gradients_of_vmap(name, nn):
    torch.manual_seed(1)
    e, w = ids(1, 5, 2, 20), drawn(3, 20).requires_grad_()
    a = torch.sparse_coo_tensor(e, drawn(2, 20), (5, 5)).coalesce()
    f = {
        "csr": lambda x: torch.sparse.mm(a.to_sparse_csr(), x), "coo": lambda x: torch.sparse.mm(a, x),
        "SAGEConv": nn.SAGEConv(3, 2).requires_grad_(), "GATConv": nn.GATConv(3, 2, heads=2), "max": nn.SAGEConv(
            3, 2, aggr="max"), "GraphConv": nn.GraphConv(3, 2), "mean": nn.SAGEConv(3, 2),
        "amax": lambda x: torch.sparse.mm(a.to_sparse_csr(), x, "amax"),
    }[name]
    of = f
    if isinstance(f, torch.nn.Module):
        f = (lambda x: of(x, e, w * 2)) if name == "GraphConv" else (lambda x: of(x, e))
    x = (ids(4, 3, 5, 3) - 1).float().requires_grad_()
    try:
        want = torch.stack([torch.autograd.grad(f(x).flatten()[i], x)[0] for i in range(f(x).numel())])
    except (RuntimeError, TypeError):
        pytest.skip("this torch has none")
    with khop.sparse.patched():
        first = khop.sparse.operations()
        for have in batched(f, x):
            close(have.reshape(want.shape), want, name)
        assert khop.sparse.operations() > first


def test_gradients_of_vmap_for_weights():
    """Of edges in any order, with heads and a mean, and the gradients of these gradients."""
    _library.load()
    to, of = ids(1, 5, 20), ids(2, 4, 20)
    s = [spmm.of_edges(5, 4, to, of)]
    order = to.argsort()
    ptr = torch.searchsorted(to[order].contiguous(), torch.arange(6))
    s.append(spmm.in_rows(5, 4, ptr, of[order].contiguous(), order))
    for of_edges in s:
        for reduce in (spmm.SUM, spmm.MEAN):
            for transposed in (False, True):
                w = drawn(3, 20, 2).requires_grad_()
                x = drawn(4, 5 if transposed else 4, 2, 3).requires_grad_()
                y = spmm.multiply(of_edges, transposed, reduce, w, x)
                given = drawn(5, 3, *y.shape)
                want = [torch.autograd.grad(y, [w, x], g, retain_graph=True) for g in given]
                have = torch.autograd.grad(y, [w, x], given, is_grads_batched=True, retain_graph=True)
                for i, one in enumerate(have):
                    close(one, torch.stack([g[i] for g in want]), (reduce, transposed, i))


def test_what_gradients_are_off_for_has_none(nn):
    """A product under no_grad has no gradient, though it is summed where gradients are on."""
    @khop.sparse.fuse
    class Constant(nn.MessagePassing):
        def forward(self, x, edge_index, w):
            return self.propagate(edge_index, x=x, w=w)

        def message(self, x_j, w):
            with torch.no_grad():
                return x_j * w.view(-1, 1)
    x, w = drawn(4, NODES, WIDTH).requires_grad_(), drawn(2, EDGES).requires_grad_()
    with khop.sparse.patched():
        assert not Constant()(x, edges(), w).requires_grad


def test_only_classes_that_are_named_are_fused(nn):
    class Own(nn.MessagePassing):
        def forward(self, x, edge_index):
            return self.propagate(edge_index, x=x)

        def message(self, x_j):
            assert (type(x_j) is torch.Tensor) is not type(self).fused
            return x_j
    Own.fused = False
    x = drawn(4, NODES, WIDTH)
    with khop.sparse.patched():
        first = khop.sparse.operations()
        Own()(x, edges())
        assert khop.sparse.operations() == first
        assert khop.sparse.fuse(Own) is Own
        Own.fused = True
        Own()(x, edges())
        assert khop.sparse.operations() == first + 1
    for wrong in (3, Own(), int):
        with pytest.raises(TypeError, match="fuse takes a class of layers"):
            khop.sparse.fuse(wrong)


def test_hooks_on_messages_see_rows_and_may_change_them(nn):
    torch.manual_seed(1)
    layer, x = nn.GraphConv(WIDTH, 4), drawn(4, NODES, WIDTH)
    layer.register_message_forward_pre_hook(lambda module, given: {**given[0], "x_j": given[0]["x_j"].mul_(2)})
    layer.register_message_forward_hook(lambda module, given, out: out.relu_())
    want = layer(x, edges())
    with khop.sparse.patched():
        close(layer(x, edges()).detach(), want.detach(), "hooks")


@torch.jit.script
def doubled(x: torch.Tensor):
    return x.mul_(2)


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return 2 * x * grad


@pytest.mark.parametrize("name", [
    "autograd", "autograd after a change", "autograd after a view", "script", "x", "hooked", "gathered"])
def test_where_khop_cannot_follow_is_an_error(nn, name):
    """What comes past torch's overrides is right, or an error; never wrong in silence."""
    def message(x_j, x, w):
        if name == "autograd after a change":
            x_j.mul_(3)
        if name == "autograd after a view":
            x_j[:, 0].mul_(3)
        if name == "hooked":
            x_j.register_hook(lambda g: g * 5)
        if name == "script":
            return doubled(x_j)
        if name == "x":
            x.mul_(2)
            return x_j
        if name == "gathered":
            return x_j.gather(1, torch.zeros(EDGES, 2, dtype=torch.int64))
        return Squared.apply(x_j)

    @khop.sparse.fuse
    class Beyond(nn.MessagePassing):
        def forward(self, x, edge_index, w):
            return self.propagate(edge_index, x=x * 1, w=w)

        def message(self, x_j, x, w):
            return message(x_j, x, w)

    def run():
        x = drawn(4, NODES, WIDTH).requires_grad_()
        y = Beyond()(x, edges(), drawn(2, EDGES))
        y.square().sum().backward()
        return y.detach(), x.grad
    want = run()
    with khop.sparse.patched():
        if name in ("script", "x", "autograd after a view"):
            with pytest.raises(RuntimeError, match="khop.sparse|TorchScript interpreter"):
                run()
            return
        for a, b in zip(run(), want):
            close(a, b, name, 1e-3)
