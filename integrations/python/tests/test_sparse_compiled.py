"""khop.sparse under torch.compile and under transforms of torch.func: its products are operations that these keep, with
the results and gradients of torch."""
import os
import signal

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from khop._native import library as _library  # noqa: E402

pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")

import khop.sparse  # noqa: E402
from khop._ops import spmm, torch_library, traced  # noqa: E402

if not torch_library.AVAILABLE:
    pytest.skip("not in this torch", allow_module_level=True)

N, EDGES, WIDTH = 60, 400, 6
LAYERS = {
    "GCNConv": lambda: nn.GCNConv(WIDTH, 4), "SAGEConv": lambda: nn.SAGEConv(WIDTH, 4),
    "GATConv": lambda: nn.GATConv(WIDTH, 4, heads=2), "GATv2Conv": lambda: nn.GATv2Conv(WIDTH, 4, heads=2),
    "TransformerConv": lambda: nn.TransformerConv(WIDTH, 4, heads=3), "GraphConv": lambda: nn.GraphConv(WIDTH, 4),
    "GINConv": lambda: nn.GINConv(torch.nn.Linear(WIDTH, 4)), "SumConv": lambda: nn.SAGEConv(WIDTH, 4, aggr="sum"),
    "TAGConv": lambda: nn.TAGConv(WIDTH, 4, K=2), "AGNNConv": lambda: nn.AGNNConv(),
    "ChebConv": lambda: nn.ChebConv(WIDTH, 4, K=2),
}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(3)
    yield
    khop.sparse.unpatch()
    assert not traced._compiled and not traced._noted.gathered  # what messages do not need is not kept


def edges(seed=1):
    return torch.randint(0, N, (2, EDGES), generator=torch.Generator().manual_seed(seed))


def results(layer, f, x, *rest):
    """What f returns, and the gradients of x and the parameters of a layer."""
    x = x.clone().requires_grad_()
    layer.zero_grad()
    y = f(x, *rest)
    (y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum().backward()
    return [y.detach(), x.grad, *(p.grad.clone() for p in layer.parameters() if p.grad is not None)]


def same(before, after, what=""):
    assert len(before) == len(after), what
    for i, (a, b) in enumerate(zip(before, after)):
        torch.testing.assert_close(b, a, atol=1e-4, rtol=1e-4, msg=lambda m: f"{what} {i}: {m}")


def counted(run):
    """What run returns, and how many products khop computed."""
    first = khop.sparse.operations()
    result = run()
    return result, khop.sparse.operations() - first


@pytest.mark.parametrize("name", LAYERS)
def test_compiled_layers_keep_khop_and_break_no_more_than_without(name):
    layer, x, ends = LAYERS[name](), torch.randn(N, WIDTH), edges()
    expected = results(layer, layer, x, ends)

    def breaks():
        torch._dynamo.reset()
        explained = torch._dynamo.explain(layer)(x, ends)
        torch._dynamo.reset()
        return explained.graph_break_count, explained.graph_count
    without = breaks()
    khop.sparse.patch()
    assert breaks() <= without
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=without[0] == 0)
    got, products_of_khop = counted(lambda: results(layer, compiled, x, ends))
    same(expected, got, name)
    assert products_of_khop >= 2  # forward, and backward
    ends = edges(2)
    same(results(layer, layer, x, ends), results(layer, compiled, x, ends), name)


def test_compiled_messages_are_not_gathered():
    layer, x, ends = LAYERS["TransformerConv"](), torch.randn(N, WIDTH), edges()
    graphs = []

    def backend(graph, inputs):
        from torch._dynamo.backends.common import aot_autograd
        return aot_autograd(fw_compiler=lambda g, _: graphs.append(g) or g)(graph, inputs)
    khop.sparse.patch()
    with torch.no_grad():
        torch.compile(layer, backend=backend)(x, ends)
    called = [str(n.target) for g in graphs for n in g.graph.nodes if n.op == "call_function"]
    assert sum("khop.multiply" in c for c in called) == 1, called
    assert sum("aten.index_select" in c for c in called) == 4, called  # of query and key, and two of softmax


def test_inductor_keeps_khop_and_changes_in_place_are_seen():
    layer, x, ends = LAYERS["TransformerConv"](), torch.randn(N, WIDTH), edges()
    khop.sparse.patch()
    compiled = torch.compile(layer)
    for step in range(4):
        got, products_of_khop = counted(lambda: results(layer, compiled, x, ends))
        assert products_of_khop > 0
        with khop.sparse.patched():
            khop.sparse.unpatch()
            same(results(layer, layer, x, ends), got, step)
        x.mul_(1.5)
        ends[:, step] = torch.tensor([step, step + 7])
        ends.data[0, step + 9] = 2  # what torch does not count


def test_edges_made_by_compiled_code_are_told_apart():
    """Compiled code uses memory again, without a word: a structure is that of contents."""
    layer, x = nn.SAGEConv(WIDTH, 4, aggr="sum"), torch.randn(N, WIDTH)

    def f(x, ends, shift):
        return layer(x, (ends + shift) % N)
    expected = [results(layer, f, x, edges(), shift) for shift in range(6)]
    khop.sparse.patch()
    compiled = torch.compile(f, dynamic=True)
    for shift in range(6):
        same(expected[shift], results(layer, compiled, x, edges(), shift), shift)


def test_ids_out_of_range_are_an_error_of_compiled_code():
    layer, x, ends = nn.SAGEConv(WIDTH, 4), torch.randn(N, WIDTH), edges()
    ends[0, 3] = N
    khop.sparse.patch()
    with pytest.raises(IndexError, match="khop.sparse|out of range|out of bounds"):
        torch.compile(layer, backend="aot_eager")(x, ends)


@pytest.mark.parametrize("name", ["GCNConv", "SAGEConv", "GATConv", "TransformerConv", "SumConv"])
def test_transforms_of_torch_func_keep_khop(name):
    layer, ends = LAYERS[name](), edges()
    xs = torch.randn(3, N, WIDTH)
    named = dict(layer.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(layer, parameters, (x, ends)).square().sum()

    def run():
        rows = torch.func.vmap(lambda x: layer(x, ends))(xs)
        gradient = torch.func.grad(loss, argnums=1)(named, xs[0])
        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(named, xs)
        jacobian = torch.func.jacrev(lambda x: layer(x, ends)[:3].sum(1))(xs[1])
        return [rows.detach(), gradient, *(g.detach() for g in each.values()), jacobian.detach()]
    expected = run()
    khop.sparse.patch()
    got, products_of_khop = counted(run)
    same(expected, got, name)
    assert products_of_khop > 0


@pytest.mark.parametrize("name", ["GCNConv", "SAGEConv", "GATConv", "TransformerConv"])
def test_batched_gradients_forward_mode_and_checkpoints_are_torchs(name):
    layer, ends, x = LAYERS[name](), edges(), torch.randn(N, WIDTH)

    def run():
        f = lambda x: layer(x, ends)[:4]  # noqa: E731
        batched = torch.autograd.functional.jacobian(f, x, vectorize=True)
        forward = torch.func.jvp(f, (x,), (torch.ones_like(x),))[1]
        leaf = x.clone().requires_grad_()
        torch.utils.checkpoint.checkpoint(f, leaf, use_reentrant=False).square().sum().backward()
        hessian = torch.autograd.functional.hvp(lambda x: f(x).square().sum(), x, torch.ones_like(x))[1]
        return [batched.detach(), forward.detach(), leaf.grad, hessian.detach()]
    expected = run()
    khop.sparse.patch()
    same(expected, run(), name)


def test_batched_gradients_are_one_product():
    layer, ends, x = nn.SAGEConv(WIDTH, 4, bias=False), edges(), torch.randn(N, WIDTH)
    khop.sparse.patch()
    _, products_of_khop = counted(lambda: torch.func.jacrev(lambda x: layer(x, ends))(x))
    assert products_of_khop == 2


def test_hooks_of_messages_are_called_under_transforms():
    layer, ends, called = nn.SAGEConv(WIDTH, 4), edges(), []
    layer.register_message_forward_hook(lambda module, given, messages: called.append(tuple(messages.shape)))
    khop.sparse.patch()
    torch.func.vmap(lambda x: layer(x, ends))(torch.randn(3, N, WIDTH))
    assert called == [(EDGES, WIDTH)]


@pytest.mark.parametrize("heads", [0, 1, 2])
@pytest.mark.parametrize("reduce", [spmm.SUM, spmm.MEAN, spmm.SPREAD])
@pytest.mark.parametrize("transposed", [False, True])
def test_operations_are_as_torch_library_wants_them(reduce, transposed, heads):
    ends = edges()
    edges_of = torch_library.structure(*ends, N, N), *ends, N, N
    x = torch.randn(N, WIDTH, requires_grad=True)
    values = torch.rand(EDGES, heads, requires_grad=True) if heads else None
    torch.library.opcheck(torch_library.multiply, (*edges_of, transposed, reduce, values, x))
    if heads and not transposed:
        torch.library.opcheck(torch_library.sample, (*edges_of, heads, x, x.detach().clone().requires_grad_()))


def test_what_a_message_returns_is_read_from_its_source():
    class Own(nn.MessagePassing):
        def twice(self, x_j):
            return x_j * x_j.view(-1, 1)

        def used(self, x_j, edge_weight):
            y = x_j.relu()
            return y.sum() * x_j

        def added(self, x_j, edge_weight):
            return edge_weight.view(-1, 1) + x_j

        def weighed(self, x_j, edge_weight):
            """Weighs."""
            return x_j * edge_weight.view(-1, 1)

        def perhaps(self, x_j, a):
            return x_j if a is None else a.relu().unsqueeze(-1) * x_j
    assert [traced.factor(f) for f in (Own.twice, Own.used, Own.added, Own.weighed, Own.perhaps, len)] == [
        "", "", "", "x_j", "x_j", ""]


def test_a_forked_process_computes_compiled_code_without_the_library():
    layer, x, ends = nn.GATConv(WIDTH, 4, add_self_loops=False), torch.randn(N, WIDTH), edges()
    khop.sparse.patch()
    compiled = torch.compile(layer, backend="aot_eager")
    expected = results(layer, compiled, x, ends)
    torch.set_num_threads(1)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        code = 1
        try:
            got = torch.autograd.grad(compiled(x.requires_grad_(), ends).sum(), x)
            with torch.no_grad():
                code = 0 if torch.allclose(compiled(x, ends), expected[0], atol=1e-4) and got[0].any() else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
