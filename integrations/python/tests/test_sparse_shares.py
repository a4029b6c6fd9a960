"""khop.sparse.patch(backward_budget=..) of several layers: which share of its work each one's gradient does."""
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from khop import _library  # noqa: E402

pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")

import khop.sparse  # noqa: E402
from khop import draws, products  # noqa: E402
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
        s = products.of_edges(NODES, NODES, to, of)
        for _ in range(count):
            x = drawn(6, NODES, widths[0]).requires_grad_()
            h = products.aggregate(s, "sum", None, x) @ first
            products.aggregate(s, "mean", None, h).matmul(second).backward(dy)
            found.append(x.grad)
    return found


@pytest.fixture
def shares(monkeypatch):
    """What each product kept, in order; every gradient is drawn."""
    monkeypatch.setattr(khop.sparse, "SAMPLED_GAIN", 0.0)
    kept, multiply = [], products.Structure.multiply

    def noted(self, transposed, reduce, values, heads, x, stamp, share=0, seed=0):
        if seed:
            kept.append((x.size(1), share))
        return multiply(self, transposed, reduce, values, heads, x, stamp, share, seed)
    monkeypatch.setattr(products.Structure, "multiply", noted)
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
            s = products.of_edges(NODES, NODES, to, of)
            for _ in range(4):
                x = drawn(6, NODES, 4).requires_grad_()
                products.aggregate(s, "sum", None, x).backward(drawn(5, NODES, 4))
    assert len(shares) == 12 and {share for _, share in shares} == {SHARE}


def test_a_pass_that_fails_leaves_the_next_ones_right(shares):
    with khop.sparse.patched(backward_budget=SHARE):
        s = products.of_edges(NODES, NODES, ids(1, NODES, EDGES), ids(2, NODES, EDGES))
        for fails in (True, False, False, False):
            x = drawn(6, NODES, 4).requires_grad_()
            h = products.aggregate(s, "sum", None, x)
            if fails:
                h.register_hook(lambda grad: 1 / 0)
            y = products.aggregate(s, "sum", None, h)
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
        exact.setattr(draws.Draws, "takes", lambda *given: False)
        want = steps(1)[0].double()
    count = 1200
    errors = {}
    for every in (10, 1 << 30):  # shares of layers, and equal ones
        monkeypatch.setattr(draws, "EVERY", every)
        if every > 10:
            monkeypatch.setattr(draws, "allot", lambda share, sites: [])
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
        sites.append((draws._Site(n, size / degrees.double().sqrt() / width ** 0.5, degrees * width), size))
    work = [float(site.costs.sum()) for site, _ in sites]

    def variance(shares):
        total = 0.0
        for n, ((site, size), share, whole) in enumerate(zip(sites, shares, work)):
            chances = draws._chances(site.weights, site.costs.double(), share * whole)
            assert abs(float((chances * site.costs).sum()) - share * whole) < 1e-6 * whole
            total += (len(sites) - n) * float((size ** 2 * (1 / chances - 1)).sum())
        return total
    allotted = draws.allot(SHARE, [site for site, _ in sites])
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
