"""khop.sparse.patch with the layers of PyG and DGL: results and gradients as before, and khop's kernels make them."""
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from khop import _library  # noqa: E402

pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")

import khop.sparse  # noqa: E402
from khop import products  # noqa: E402
from test_sparse import compared, drawn, ids, unpatched  # noqa: E402, F401

NODES, EDGES, WIDTH = 30, 200, 8


@torch.jit.script
def scripted(x: torch.Tensor):
    return x * x + 1


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


def in_place(x):
    y = x + 0
    y *= 2
    return y


# What a layer of somebody's may do with rows, and how many products khop makes of it, forward and backward.
MESSAGES = {
    "rows": (lambda x, other, w: x, 2),
    "weighted": (lambda x, other, w: w[:, None] * x, 3),
    "weighted from the right": (lambda x, other, w: x * w[:, None], 3),
    "weighted twice": (lambda x, other, w: x * w[:, None] * 2, 0),
    "differences": (lambda x, other, w: x - other, 0),
    "both": (lambda x, other, w: torch.cat([x, other], -1), 0),
    "a method": (lambda x, other, w: x.relu(), 0),
    "a function of autograd": (lambda x, other, w: Tripled.apply(x), 0),
    "a scripted function": (lambda x, other, w: scripted(x), 0),
    "in place": (lambda x, other, w: in_place(x), 0),
    "parts": (lambda x, other, w: x[:, :4] * x.shape[0] / x.size(0) if isinstance(x, torch.Tensor) else None, 0),
    "a list": (lambda x, other, w: torch.stack([x, x * w[:, None]]).sum(0), 0),
    "without gradient": (lambda x, other, w: x * x.detach().norm(), 0),
    "elements": (lambda x, other, w: x * w[:, None].expand(-1, WIDTH), 0),
}


@pytest.fixture
def layers():
    return pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")


def trained(layer, *arguments, learned=()):
    """What a layer returns, and the gradients of all that has one."""
    def run():
        x = drawn(4, NODES, WIDTH).requires_grad_()
        given = [a.clone().requires_grad_() if i in learned else a for i, a in enumerate(arguments)]
        layer.zero_grad()
        y = layer(x, *given)
        (y * drawn(5, *y.shape)).sum().backward()
        return [y.detach(), x.grad, *(given[i].grad for i in learned), *(p.grad for p in layer.parameters())]
    return run


@pytest.mark.parametrize("aggr", ["sum", "mean", "max"])
@pytest.mark.parametrize("name", MESSAGES)
def test_messages_of_ones_own(layers, name, aggr):
    message, operations = MESSAGES[name]

    @khop.sparse.fuse
    class Own(layers.MessagePassing):
        def __init__(self):
            super().__init__(aggr=aggr)

        def forward(self, x, edge_index, w):
            return self.propagate(edge_index, x=x, w=w)

        def message(self, x_j, x_i, w):
            return message(x_j, x_i, w)
    edges, w = ids(1, NODES, 2, EDGES), drawn(2, EDGES)
    if aggr == "mean":
        operations += operations == 3  # degrees
    if aggr == "max":
        operations = 3 if name == "rows" else 0  # with the count of winners; learned weights are not taken over
    compared(trained(Own(), edges, w, learned=(1,)), (name, aggr), operations, 1e-3)
    if aggr == "max" and name.startswith("weighted") and name != "weighted twice":
        compared(trained(Own(), edges, w), (name, "not learned"), 3, 1e-3)


@pytest.mark.parametrize("name, how, operations", [
    ("GCNConv", {}, 2), ("GCNConv", {"cached": True}, 2), ("SAGEConv", {}, 2), ("SAGEConv", {"aggr": "max"}, 3),
    ("GATConv", {"heads": 2}, 3), ("GATv2Conv", {"heads": 2}, 3), ("GraphConv", {}, 2), ("TAGConv", {}, 6),
    ("SGConv", {"K": 2}, 4), ("ChebConv", {"K": 3}, 4), ("TransformerConv", {}, 3), ("ResGatedGraphConv", {}, 0),
])
def test_layers_of_pyg(layers, name, how, operations):
    torch.manual_seed(1)
    layer = getattr(layers, name)(WIDTH, 4, **how)
    compared(trained(layer, ids(1, NODES, 2, EDGES)), (name, how), operations, 1e-3)
    if name in ("GCNConv", "GraphConv") and not how:
        compared(trained(layer, ids(1, NODES, 2, EDGES), drawn(2, EDGES).abs(), learned=(1,)), (name, "weights"), 3,
                 1e-3)


@pytest.mark.parametrize("name", ["GCNConv", "GraphConv"])
def test_what_changes_is_computed_anew(layers, name):
    """Norms, structures and values that were kept would show in results and gradients."""
    torch.manual_seed(1)
    model = getattr(layers, name)(WIDTH, 4)

    def run():
        results, edges, w = [], ids(1, NODES, 2, EDGES), drawn(2, EDGES).abs()
        for change in range(4):
            if change == 1:
                edges[0, 3] = (edges[0, 3] + 1) % NODES
            if change == 2:
                w.mul_(torch.arange(EDGES))
            if change == 3:
                edges.copy_(edges.flip(0))
            for _ in range(2):
                x = drawn(4, NODES, WIDTH).requires_grad_()
                y = model(x, edges, w)
                y.sum().backward()
                results += [y.detach(), x.grad]
        return results
    compared(run, name, 16, 1e-3)


def test_a_change_between_messages_and_gradient_is_an_error(layers):
    torch.manual_seed(1)
    model = layers.GraphConv(WIDTH, 4)
    for change in range(2):
        edges, w = ids(1, NODES, 2, EDGES), drawn(2, EDGES).requires_grad_()
        with khop.sparse.patched():
            y = model(drawn(4, NODES, WIDTH).requires_grad_(), edges, w)
        with torch.no_grad():
            (edges if change else w).mul_(0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_a_traced_layer_has_none_of_khop(layers):
    torch.manual_seed(1)
    layer, x, edges = layers.GraphConv(WIDTH, 4), drawn(4, NODES, WIDTH), ids(1, NODES, 2, EDGES)
    with khop.sparse.patched():
        first = khop.sparse.operations()
        traced = torch.jit.trace(layer, (x, edges), check_trace=False)
        assert khop.sparse.operations() == first
    assert torch.allclose(traced(x * 2, edges), layer(x * 2, edges), atol=1e-4)


def test_sparse_tensors_in_pyg(layers):
    torch.manual_seed(1)
    coo = torch.sparse_coo_tensor(ids(1, NODES, 2, EDGES), drawn(2, EDGES).abs(), (NODES, NODES)).coalesce()
    for layer in (layers.SAGEConv(WIDTH, 4), layers.GraphConv(WIDTH, 4)):
        for a in (coo, coo.to_sparse_csr()):
            run = trained(layer, a)
            try:
                run()
            except (RuntimeError, TypeError):
                continue  # not in this torch
            compared(run, (layer, a.layout), 2, 1e-3)


def test_ids_out_of_range_are_errors_as_before(layers):
    layer, edges = layers.SAGEConv(WIDTH, 4), ids(1, NODES, 2, EDGES)
    for at, wrong in ((0, NODES), (0, -1), (1, NODES)):
        bad = edges.clone()
        bad[at, 7] = wrong
        errors = []
        for use in (khop.sparse.unpatch, khop.sparse.patch):
            use()
            with pytest.raises(Exception) as e:
                layer(drawn(4, NODES, WIDTH), bad)
            errors.append((e.type, str(e.value)[:60]))
        assert errors[0] == errors[1]


def test_scripts_are_made_of_what_was_there(layers):
    class Compiled(layers.GCNConv):
        """PyG keeps the source of its methods in the test's temporary folder."""
    torch.manual_seed(1)
    layer, x, edges = Compiled(WIDTH, 4), drawn(4, NODES, WIDTH), ids(1, NODES, 2, EDGES)
    with khop.sparse.patched():
        first = khop.sparse.operations()
        script = torch.jit.script(layer)
        assert torch.allclose(script(x, edges), layer(x, edges), atol=1e-5)
        assert khop.sparse.operations() == first + 1


def graphs(dgl, dtype):
    g = dgl.add_self_loop(dgl.graph((ids(1, NODES, EDGES), ids(2, NODES, EDGES)), num_nodes=NODES).astype(dtype))
    first = torch.arange(10).to(dtype)
    return g, dgl.to_block(dgl.in_subgraph(g, first), first)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
@pytest.mark.parametrize("message", ["copy_u", "u_mul_e", "copy_e"])
def test_messages_of_dgl(message, reduce):
    dgl = pytest.importorskip("dgl", reason="dgl is not installed")
    made = getattr(dgl.function, message)(*{"copy_u": "hm", "u_mul_e": "hwm", "copy_e": "wm"}[message])
    for g in (*graphs(dgl, torch.int32), *graphs(dgl, torch.int64)):
        for parts in ((1,), (WIDTH,)):
            def run():
                x, w = drawn(4, g.num_src_nodes(),
                             WIDTH).requires_grad_(), drawn(5, g.num_edges(), *parts).requires_grad_()
                with g.local_scope():
                    g.srcdata["h"], g.edata["w"] = x, w
                    g.update_all(made, getattr(dgl.function, reduce)("m", "o"))
                    y = g.dstdata["o"]
                y.square().sum().backward()
                return [y.detach(), x.grad, w.grad]
            operations = 0 if reduce == "max" else {"copy_u": 2, "u_mul_e": 3, "copy_e": 0}[message]
            fresh = int(message == "u_mul_e" and reduce == "mean")  # degrees, once a graph and patch
            compared(run, (message, reduce, parts, g.idtype), operations + fresh, 1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("aggr", ["max", "min"])
@pytest.mark.parametrize("name", ["SAGEConv", "GraphConv", "GINConv", "csr", "dgl"])
def test_extremes_share_their_gradients_as_before(layers, name, aggr, dtype):
    """Features are -1, 0 and 1, so that nearly every extreme has several edges, and many are 0."""
    torch.manual_seed(1)
    edges = ids(1, NODES, 2, EDGES)
    edges[1][edges[1] == 3] = 4  # a node without messages
    edges = edges[:, edges[1].argsort(stable=True)]
    ptr = torch.searchsorted(edges[1], torch.arange(NODES + 1))
    if name == "dgl":
        dgl = pytest.importorskip("dgl", reason="dgl is not installed")
        g = dgl.graph((edges[0], edges[1]), num_nodes=NODES)
    else:
        layer = {"SAGEConv": lambda: layers.SAGEConv(WIDTH, 4, aggr=aggr),
                 "GraphConv": lambda: layers.GraphConv(WIDTH, 4, aggr=aggr),
                 "GINConv": lambda: layers.GINConv(torch.nn.Linear(WIDTH, 4), aggr=aggr)}.get(name, torch.nn.Identity)()
        layer = layer.to(dtype)

    def value(x):
        if name == "csr":
            a = torch.sparse_csr_tensor(ptr, edges[0], torch.ones(EDGES, dtype=dtype))
            return torch.sparse.mm(a, x, "a" + aggr)
        if name == "dgl":
            return dgl.ops.gspmm(g, "copy_lhs", aggr, x, None)
        return layer(x, edges)

    def run():
        x = (ids(4, 3, NODES, WIDTH) - 1).to(dtype).requires_grad_()
        y = value(x)
        first, = torch.autograd.grad((y * drawn(5, *y.shape).to(dtype)).sum(), x, create_graph=True)
        return y.detach(), first.detach()
    try:
        run()
    except (RuntimeError, TypeError, AttributeError):
        pytest.skip("this torch has none")
    compared(run, (name, aggr), {"csr": 1, "dgl": 0}.get(name, 3), 1e-5)


def test_layers_of_dgl():
    nn = pytest.importorskip("dgl.nn", reason="dgl is not installed")
    import dgl
    g, _ = graphs(dgl, torch.int64)
    torch.manual_seed(1)
    for layer, operations in ((nn.GraphConv(WIDTH, 4), 2), (nn.SAGEConv(WIDTH, 4, "mean"), 2),
                              (nn.GATConv(WIDTH, 4, 2), 3)):
        compared(trained(lambda_of(layer, g)), type(layer).__name__, operations, 1e-3)


def lambda_of(layer, g):
    """The layer with its graph, called as those of PyG are."""
    class With(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(g, x)
    return With()


class OfTorchSparse:
    """What khop asks of torch_sparse.SparseTensor."""

    def __init__(self, rowptr, col, value, sizes):
        self.parts, self.sizes, self.requires_grad = (rowptr, col, value), sizes, lambda: None

    def csr(self):
        return self.parts

    def sparse_sizes(self):
        return self.sizes


def matrices(value=True):
    dense = (drawn(1, NODES, NODES) > 0.7).float() * drawn(2, NODES, NODES).abs()
    csr = dense.to_sparse_csr()
    given = csr.crow_indices(), csr.col_indices(), csr.values() if value else None
    return dense if value else (dense > 0).float(), OfTorchSparse(*given, (NODES, NODES))


@pytest.mark.parametrize("value", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_matrices_of_torch_sparse_are_multiplied(layers, value, reduce):
    import torch_geometric.utils as utils

    dense, a = matrices(value)
    if value:
        a.parts[2].requires_grad_()
    x = drawn(3, NODES, WIDTH).requires_grad_()
    with khop.sparse.patched():
        before = khop.sparse.operations()
        y = utils.spmm(a, x, reduce)
        (y * drawn(4, *y.shape)).sum().backward()
        assert khop.sparse.operations() > before + 1
    got, x.grad = x.grad, None
    learned = dense.clone().requires_grad_()
    want = learned @ x
    if reduce == "mean":
        want = want / (dense != 0).sum(1, keepdim=True).clamp(min=1)
    (want * drawn(4, *want.shape)).sum().backward()
    torch.testing.assert_close(y, want)
    torch.testing.assert_close(got, x.grad)
    if value:
        torch.testing.assert_close(a.parts[2].grad, learned.grad[dense != 0])


@pytest.mark.parametrize("form", ["csr", "coo"])
def test_norms_of_matrices_are_kept_until_these_change(layers, form):
    dense, _ = matrices()
    a = dense.to_sparse_csr() if form == "csr" else dense.to_sparse_coo().coalesce()
    layer, x = layers.GCNConv(WIDTH, 3), drawn(3, NODES, WIDTH)
    plain = [layer(x, a)]
    a.values()[5] *= 3
    plain.append(layer(x, a))
    a.values()[5] /= 3
    assert not torch.allclose(*plain)
    with khop.sparse.patched():
        for _ in range(3):
            torch.testing.assert_close(layer(x, a), plain[0])
        kept, number = khop.sparse._norms._all, len(khop.sparse._norms._all)
        assert number == 1 and len(products.structures._all) == 1
        norm = next(iter(kept.values()))[2][0]
        layer(x, a)
        assert next(iter(kept.values()))[2][0] is norm  # nobody has computed it again
        a.values()[5] *= 3
        torch.testing.assert_close(layer(x, a), plain[1])
        next(reversed(kept.values()))[2][0].values().zero_()  # a result that somebody has changed
        torch.testing.assert_close(layer(x, a), plain[1])





@pytest.mark.parametrize("form", ["edges", "csr", "both sides"])
@pytest.mark.parametrize("wide, out", [(4, 24), (24, 4), (8, 8)])
@pytest.mark.parametrize("name, how", [
    ("GCNConv", {}), ("GCNConv", {"cached": True}), ("GCNConv", {"improved": True, "bias": False}), ("SAGEConv", {}),
    ("SAGEConv", {"aggr": "sum", "root_weight": False}), ("SAGEConv", {"project": True, "normalize": True}),
    ("SAGEConv", {"aggr": "max"}), ("GraphConv", {}), ("GraphConv", {"aggr": "mean", "bias": False}),
    ("GINConv", {"nn": "Linear"}), ("GINConv", {"nn": "Sequential", "train_eps": True}), ("SGConv", {"K": 2}),
    ("SGConv", {"K": 2, "cached": True}), ("GATConv", {}), ("GATConv", {"heads": 3, "concat": False, "bias": False}),
    ("GATConv", {"heads": 2, "add_self_loops": False, "residual": True, "aggr": "mean"}),
    ("GATConv", {"heads": 2, "two sides": True}), ("GATConv", {"aggr": "max"}),
])
def test_layers_give_the_same_whichever_way_they_multiply(layers, name, how, wide, out, form, monkeypatch):
    """In float64 to its rounding, with the gradients of inputs and parameters; each way is taken in turn."""
    from khop import reassociate
    torch.manual_seed(1)
    how = dict(how)
    if "nn" in how:
        linear = torch.nn.Linear(wide, out)
        how["nn"] = linear if how["nn"] == "Linear" else torch.nn.Sequential(linear, torch.nn.ReLU(), torch.nn.Linear(
            out, out))
        layer = getattr(layers, name)(**how).double()
    else:
        layer = getattr(layers, name)((wide, wide) if how.pop("two sides", False) else wide, out, **how).double()
    edges = ids(1, NODES, 2, EDGES)
    a = edges
    if form == "csr":
        coo = torch.sparse_coo_tensor(edges.flip(0), torch.ones(EDGES).double(), (NODES, NODES))
        a = coo.coalesce().to_sparse_csr()
    if form == "both sides":
        if name in ("GCNConv", "SGConv"):
            pytest.skip("it has one side")
        a = torch.stack([edges[0], edges[1] % 7])

    def run():
        x, learned = drawn(4, NODES, wide).double().requires_grad_(), [*layer.parameters()]
        for name in ("_cached_edge_index", "_cached_adj_t", "_cached_x"):
            if hasattr(layer, name):
                setattr(layer, name, None)
        y = layer((x, x[:7]) if form == "both sides" else x, a)
        y = layer((x, x[:7]) if form == "both sides" else x, a)  # of what was cached
        gradients = torch.autograd.grad((y * drawn(5, *y.shape).double()).sum(), [x, *learned], allow_unused=True)
        return [y, *(torch.zeros(()) if g is None else g for g in gradients)]
    try:
        want = run()
    except (ImportError, RuntimeError, TypeError, ValueError, AttributeError):
        pytest.skip("not in this torch")
    linear = how.get("aggr") != "max" and not (name == "SGConv" and how.get("cached"))
    multiplied, usual = [], reassociate._copy
    monkeypatch.setattr(reassociate, "_copy", lambda *given, **named: (multiplied.append(1), usual(*given, **named))[1])
    with khop.sparse.patched(reassociate=True):
        for first in (True, False):
            for rule in ("weight_first", "weight_first_of_heads"):
                monkeypatch.setattr(reassociate, rule, lambda *given: first)
            multiplied.clear()
            have = run()
            for i, (one, other) in enumerate(zip(want, have)):
                torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12, msg=lambda m: f"{name}, {i}: {m}")
            assert len(multiplied) == (2 if linear and first != (name in ("GCNConv", "GATConv")) else 0)


def test_the_weight_comes_where_sums_are_narrower(layers, monkeypatch):
    """By the columns that khop sums, forward and backward."""
    from khop.reassociate import weight_first
    for edges, rows, cols, inputs, outputs, learns, learns_x, first in (
        (100, 9, 9, 8, 4, False, False, True), (100, 9, 9, 4, 8, False, False, False),
        (100, 9, 9, 6, 4, True, False, False),  # no gradient reaches the sums of an input
        (100, 9, 9, 9, 4, True, False, True), (100, 9, 9, 6, 4, True, True, True),
        (100, 9, 900, 64, 32, True, True, False),  # a block has many more sources than targets
    ):
        assert weight_first(edges, rows, cols, inputs, outputs, learns, learns_x) == first, (edges, rows, cols, inputs)
    widths, select = [], layers.MessagePassing._index_select
    monkeypatch.setattr(layers.MessagePassing, "_index_select",
                        lambda self, x, i: (widths.append(x.size(-1)), select(self, x, i))[1])
    edges = ids(1, NODES, 2, EDGES)
    for name, wide, out, sums in (("GCNConv", 4, 24, 4), ("GCNConv", 24, 4, 4), ("SAGEConv", 24, 4, 4),
                                  ("GraphConv", 4, 24, 4)):
        layer, widths[:] = getattr(layers, name)(wide, out), []
        with khop.sparse.patched(reassociate=True):
            layer(drawn(4, NODES, wide).requires_grad_(), edges)
        assert widths == [sums], name


def test_layers_that_somebody_looks_into_stay_as_they_are(layers, monkeypatch):
    from khop import reassociate
    monkeypatch.setattr(reassociate, "weight_first", lambda *given: True)
    monkeypatch.setattr(reassociate, "_copy", lambda *given, **named: pytest.fail("it was copied"))

    class OwnMessage(layers.SAGEConv):  # PyG keeps one propagate for all classes of a name and module
        def message(self, x_j):
            return x_j.relu()
    x, edges = drawn(4, NODES, 24), ids(1, NODES, 2, EDGES)
    monkeypatch.setattr(reassociate, "weight_first_of_heads", lambda *given: False)

    class OwnAttention(layers.GATConv):
        pass
    hooked, looked, lazy = layers.SAGEConv(24, 4), layers.GraphConv(24, 4), layers.SAGEConv(-1, 4)
    attentive, watched = layers.GATConv(24, 4), layers.GATConv(24, 4)
    hooked.lin_l.register_forward_hook(lambda *given: None)
    looked.register_message_forward_hook(lambda *given: None)
    attentive.lin.register_forward_hook(lambda *given: None)
    watched.register_edge_update_forward_hook(lambda *given: None)
    with khop.sparse.patched(reassociate=True):
        for layer in (OwnMessage(24, 4), OwnAttention(24, 4), hooked, looked, lazy, attentive, watched,
                      layers.GATConv(-1, 4), layers.GATv2Conv(24, 4)):
            layer(x, edges)
    assert "forward" not in OwnMessage.__dict__


def test_attention_has_the_same_weights_dropout_and_edges_whichever_way_it_multiplies(layers, monkeypatch):
    from khop import reassociate
    torch.manual_seed(1)
    layer = layers.GATConv(4, 16, heads=2, edge_dim=3, dropout=0.5)
    x, edges, attributes = drawn(4, NODES, 4), ids(1, NODES, 2, EDGES), drawn(5, EDGES, 3)

    def run():
        torch.manual_seed(2)  # of dropout
        given = x.clone().requires_grad_()
        y, (both, attention) = layer(given, edges, attributes, return_attention_weights=True)
        gradients = torch.autograd.grad((y * drawn(6, *y.shape)).sum(), [given, *layer.parameters()])
        return [y, both, attention, *gradients, layer(given, edges, attributes, size=(NODES, NODES))]
    want = run()
    monkeypatch.setattr(reassociate, "weight_first_of_heads", lambda *given: False)
    with khop.sparse.patched(reassociate=True):
        before = khop.sparse.operations()
        have = run()
        assert khop.sparse.operations() - before == 8  # of two heads: sums twice, and gradients of x and of attention
    for i, (one, other) in enumerate(zip(want, have)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4, msg=lambda m: f"{i}: {m}")


def test_the_weight_of_attention_comes_where_the_work_is_least():
    from khop.reassociate import weight_first_of_heads
    for edges, rows, cols, inputs, outputs, heads, learns, learns_x, first in (
        (2_000, 500, 500, 4, 64, 4, True, True, True),  # the calls for heads take longer than the sums
        (400_000, 20_000, 20_000, 8, 256, 4, True, False, False), (400_000, 20_000, 20_000, 8, 256, 4, False, False,
                                                                   False),
        (200_000, 20_000, 20_000, 64, 64, 4, True, False, True),  # each head reads all columns of the input
        (40_000, 2_000, 20_000, 64, 64, 4, True, True, False),  # a block has many more sources than targets
    ):
        assert weight_first_of_heads(edges, rows, cols, inputs, outputs, heads, learns, learns_x) == first, (
            edges, inputs, heads)
