"""khop.sparse.patch(backward_budget=..) of several layers: which share of its work each one's gradient does."""
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from khop._native import library as _library  # noqa: E402

pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")

import khop.sparse  # noqa: E402
from khop._ops import sampled_gradients, spmm  # noqa: E402
from test_sparse import drawn, ids, unpatched  # noqa: E402, F401

NODES, EDGES, SHARE = 60, 600, 0.3


def steps(count, seed=1, widths=(4, 12), learned=False):
    """Gradients of two layers in several backward passes; the rows of the second one's gradient differ much."""
    to, of = ids(1, NODES, EDGES), ids(2, NODES, EDGES)
    first, second = (drawn(s, *shape) * shape[0] ** -0.5 for s, shape in ((3, widths), (4, widths[::-1])))
    rows = torch.cat([torch.full((4, 1), 30.0), torch.full((NODES - 4, 1), 0.1)])
    dy = rows * drawn(5, NODES, widths[0])
    found = []
    with khop.sparse.patched(backward_budget=SHARE, seed=seed):
        s = spmm.of_edges(NODES, NODES, to, of)
        for _ in range(count):
            x = drawn(6, NODES, widths[0]).requires_grad_()
            h = spmm.aggregate(s, "sum", None, x) @ first
            spmm.aggregate(s, "mean", None, h).matmul(second).backward(dy)
            found.append(x.grad)
    return found


@pytest.fixture
def shares(monkeypatch):
    """What each product kept, in order; every gradient is drawn."""
    monkeypatch.setattr(khop.sparse, "SAMPLED_GAIN", 0.0)
    monkeypatch.setattr(sampled_gradients, "EVERY", 10)
    kept, multiply = [], spmm.Structure.multiply

    def noted(self, transposed, reduce, values, heads, x, stamp, share=0, seed=0):
        if seed:
            kept.append((x.size(1), share))
        return multiply(self, transposed, reduce, values, heads, x, stamp, share, seed)
    monkeypatch.setattr(spmm.Structure, "multiply", noted)
    return kept


def test_layers_have_shares_of_their_own_from_the_third_pass_on(shares):
    steps(14)
    passes = [dict(shares[i:i + 2]) for i in range(0, len(shares), 2)]
    assert passes[0] == passes[1] == {12: SHARE, 4: SHARE}  # the second one weighs the rows
    assert passes[2] == passes[11] != passes[1]
    assert passes[2][12] < 0.8 * SHARE, "four rows have most of the gradient of the wide layer"
    work = 12 * passes[2][12] + 4 * passes[2][4]
    assert work <= (12 + 4) * SHARE * 1.06, passes[2]
    assert passes[12] == passes[13], "the twelfth pass has weighed them anew"


def test_other_matrices_and_single_gradients_have_the_usual_share(shares):
    for seed in range(3):  # as batches do
        to, of = ids(seed, NODES, EDGES), ids(seed + 7, NODES, EDGES)
        with khop.sparse.patched(backward_budget=SHARE):
            s = spmm.of_edges(NODES, NODES, to, of)
            for _ in range(4):
                x = drawn(6, NODES, 4).requires_grad_()
                spmm.aggregate(s, "sum", None, x).backward(drawn(5, NODES, 4))
    assert len(shares) == 12 and {share for _, share in shares} == {SHARE}


def test_a_pass_that_fails_leaves_the_next_ones_right(shares):
    with khop.sparse.patched(backward_budget=SHARE):
        s = spmm.of_edges(NODES, NODES, ids(1, NODES, EDGES), ids(2, NODES, EDGES))
        for fails in (True, False, False, False):
            x = drawn(6, NODES, 4).requires_grad_()
            h = spmm.aggregate(s, "sum", None, x)
            if fails:
                h.register_hook(lambda grad: 1 / 0)
            y = spmm.aggregate(s, "sum", None, h)
            try:
                y.backward(drawn(5, NODES, 4))
            except ZeroDivisionError:
                assert fails
            else:
                assert not fails
    assert len(shares) == 7


def test_gradients_with_shares_are_right_in_the_mean_and_nearer_than_with_equal_ones(monkeypatch):
    monkeypatch.setattr(khop.sparse, "SAMPLED_GAIN", 0.0)
    with monkeypatch.context() as exact:
        exact.setattr(sampled_gradients.Draws, "takes", lambda *given: False)
        want = steps(1)[0].double()
    count = 1200
    errors = {}
    for every in (10, 1 << 30):  # shares of layers, and equal ones
        monkeypatch.setattr(sampled_gradients, "EVERY", every)
        if every > 10:
            monkeypatch.setattr(sampled_gradients, "allot", lambda share, sites: [])
        all_of = torch.stack(steps(count)[2:]).double()
        error, deviation = all_of.mean(0) - want, all_of.std(0) / len(all_of) ** 0.5
        assert (error.abs() <= 5 * deviation + 1e-6 * want.abs().max()).all(), (error / deviation).abs().max()
        errors[every] = (all_of - want).square().mean().sqrt() / want.square().mean().sqrt()
    assert errors[10] < 0.9 * errors[1 << 30], errors


def test_no_other_shares_of_the_same_work_have_less_variance():
    """Of what one layer's rows and another's lose, by the chances that they are kept."""
    draw = torch.Generator().manual_seed(1)
    sites = []
    for n, (scale, width) in enumerate([(3.0, 8), (0.5, 2), (1.0, 32)]):
        degrees = torch.randint(1, 9, (50,), generator=draw)
        size = torch.rand(50, generator=draw).double().exp() ** scale  # of what a row adds to its gradient
        sites.append((sampled_gradients._Site(n, size / degrees.double().sqrt() / width ** 0.5, degrees * width), size))
    work = [float(site.costs.sum()) for site, _ in sites]

    def variance(shares):
        total = 0.0
        for n, ((site, size), share, whole) in enumerate(zip(sites, shares, work)):
            chances = sampled_gradients._chances(site.weights, site.costs.double(), share * whole)
            assert abs(float((chances * site.costs).sum()) - share * whole) < 1e-6 * whole
            total += (len(sites) - n) * float((size ** 2 * (1 / chances - 1)).sum())
        return total
    allotted = sampled_gradients.allot(SHARE, [site for site, _ in sites])
    shares = [share for _, share in allotted]
    assert [key for key, _ in allotted] == [0, 1, 2]
    assert abs(sum(s * w for s, w in zip(shares, work)) - SHARE * sum(work)) < 0.02 * sum(work)
    least = variance(shares)
    for one in range(3):
        for other in {0, 1, 2} - {one}:
            moved = list(shares)
            moved[one] *= 0.7
            moved[other] += 0.3 * shares[one] * work[one] / work[other]
            if moved[other] < 1:
                assert variance(moved) > least, (one, other)


@pytest.mark.parametrize("transposed", (False, True))
@pytest.mark.parametrize("form", ("edges", "rows", "rows in an order"))
def test_rows_are_weighed_by_the_values_that_they_have_now(form, transposed):
    to, of = ids(1, NODES, EDGES), ids(2, NODES, EDGES)
    order = None
    if form == "edges":
        s = spmm.of_edges(NODES, NODES, to, of)
    else:
        to = to.sort().values
        if form == "rows in an order":
            order = torch.randperm(EDGES, generator=torch.Generator().manual_seed(3))
        s = spmm.in_rows(NODES, NODES, torch.searchsorted(to, torch.arange(NODES + 1)), of, order)
    values = drawn(4, EDGES, 1)
    for _ in range(3):
        each = values.double().view(-1)[slice(None) if order is None else order].square()
        want = torch.zeros(NODES).double().index_add_(0, of if transposed else to, each)
        for _ in range(2):  # the second one is kept
            assert torch.allclose(s.squares(transposed, values, s.stamp(values)).double(), want)
        values *= 1.5
    kept = s.squares(transposed, values, s.stamp(values))
    assert s.squares(transposed, values, s.stamp(values)) is kept
    assert s.squares(transposed, values, 0) is not kept


@pytest.mark.parametrize("slow", (False, True))
def test_shares_that_take_as_long_as_exact_gradients_are_left(shares, monkeypatch, slow):
    """The narrow layer's share would be so great that it is exact, and has nearly all of the time."""
    monkeypatch.setattr(khop.sparse, "SAMPLED_GAIN", 1.2)

    def seconds(rows, edges, width, kept=None, fresh=False):
        cost = 100 if slow and width == 4 else 1
        return cost * (1 if kept is None else 0.1 + 2 * (kept > 1.1 * SHARE))
    monkeypatch.setattr(sampled_gradients, "seconds", seconds)
    monkeypatch.setattr(spmm.Structure, "heavy", lambda *given: 0)
    steps(4)
    third = shares[4:]
    if slow:
        assert third == shares[:2] * 2
    else:
        assert [width for width, _ in third] == [12, 12] and third[0][1] < SHARE
