"""khop.sparse.patch and what layers change in place: forward and gradients are torch's, whatever is changed."""
import collections
import functools
import inspect

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from khop._native import library as _library  # noqa: E402

pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")

import khop.sparse  # noqa: E402
from conftest import by_night  # noqa: E402
from test_sparse import drawn, ids, unpatched  # noqa: E402, F401

NODES, EDGES, WIDTH = 9, 40, 4
F = torch.nn.functional
METHODS = sorted({
    name for name in dir(torch.Tensor)
    if name.endswith("_") and not name.startswith("_") or name.startswith("__i") and name not in (
        "__init__", "__init_subclass__", "__int__", "__index__", "__invert__", "__iter__")} | {"__setitem__"})
"""The operators of torch that change a tensor in place."""
OUT = sorted(name for name in dir(torch) if not name.startswith("_") and "out=" in str(getattr(torch, name).__doc__)
             and callable(getattr(torch, name)))
INPLACE = sorted(name for name in dir(F) if not name.startswith("_") and inspect.isfunction(getattr(F, name)) and
                 "inplace" in inspect.signature(getattr(F, name)).parameters)
UNSAFE = {"apply_", "map_", "map2_", "share_memory_", "pin_memory_", "module_load", "set_", "sparse_resize_",
          "sparse_resize_and_clear_"}
"""Of no values that can be compared, or that make torch itself end the process with some arguments."""


def arguments(t, state):
    """Arguments that one or another operator takes: those that torch takes are used."""
    small = state(torch.rand(t.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).to(t.dtype)
    rows = torch.arange(t.shape[0]) % 3
    index = rows.view(-1, *(1,) * (t.dim() - 1)).expand(t.shape)
    mask = (torch.arange(t.numel()).view(t.shape) % 3 == 0)
    last = t.dim() - 1
    return [(), (0.5,), (small,), (1,), (0.5, 0.25), (small, small), (0, 1), (0, rows, small), (0, index, small),
            (0, index, 0.5), (mask, 0.5), (mask, small), (rows, small[:1]), ((rows,), small), (2, 0, 1), (0,),
            (small.flatten()[:1].squeeze(), ), (last, 2, 0), (torch.arange(3), t.detach()[:3] * 2),
            (small.flatten().round().int(),), (1, 0), (0, rows, small, "mean"), (0, index, small, "amax"),
            (tuple(t.shape),), (tuple(t.shape), tuple(t.stride())), (0, rows, 2.0), (small, small, 1), ([0], 1.0),
            ((slice(None), 0), 3.0), (0, 0, last), (t.detach() * 3,)]


class Own(nn.MessagePassing):
    """One whose message a test gives, once for all: PyG writes a propagate for each class."""

    def __init__(self, aggr):
        super().__init__(aggr=aggr)
        self.act = None

    def forward(self, x, edge_index, w):
        return self.propagate(edge_index, x=x, w=w)

    def message(self, x_j, x_i, w):
        return self.act(x_j, x_i, w)


@khop.sparse.fuse
class Fused(Own):
    def message(self, x_j, x_i, w):
        return self.act(x_j, x_i, w)


TARGETS = {
    "x_j": lambda x_j, x_i, w: (x_j, lambda: x_j),
    "x_i": lambda x_j, x_i, w: (x_i, lambda: x_i + x_j),
    "a view": lambda x_j, x_i, w: (x_j[:, :2], lambda: x_j),
    "transposed": lambda x_j, x_i, w: (x_j.t(), lambda: x_j),
    "a message": lambda x_j, x_i, w: (lambda m: (m, lambda: m))(x_j * w.view(-1, 1)),
    "a view of a message": lambda x_j, x_i, w: (lambda m: (m[1:], lambda: m))(w.view(-1, 1) * x_j),
    "x_j after a message": lambda x_j, x_i, w: (lambda m: (x_j, lambda: m))(x_j * w.view(-1, 1)),
    "weights": lambda x_j, x_i, w: (lambda v: (v, lambda: x_j * v))((w * 2).view(-1, 1)),
    "weights of a message": lambda x_j, x_i, w: (lambda v: (lambda m: (v, lambda: m))(x_j * v))((w * 2).view(-1, 1)),
}
BY_DAY = {"x_j", "a view", "a view of a message", "weights of a message"}
COPIED = {
    "weights of a message": lambda x_j, x_i, w: (
        lambda v: (lambda m: (v, lambda: m))(x_j * v.clone()))((w * 2).view(-1, 1)),
}


def outcome(layer, act, dtype, learned):
    """What a layer with a message returns, its gradients, or the kind of its error."""
    x, w = drawn(4, NODES, WIDTH).to(dtype), drawn(2, EDGES).to(dtype)
    x.requires_grad_(learned), w.requires_grad_(learned)
    torch.manual_seed(3)
    layer.act = act
    try:
        y = layer(x, ids(1, NODES, 2, EDGES), w)
    except Exception as e:
        return "message", type(e), str(e)
    if not learned:
        return "values", y.detach()
    try:
        if y.requires_grad:
            (y * drawn(5, *y.shape).to(dtype)).sum().backward()
    except Exception as e:
        return "gradient", y.detach(), type(e), str(e)
    return "values", y.detach(), x.grad, w.grad


def same(a, b):
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, atol=1e-4, rtol=1e-4, equal_nan=True)


def differs(want, have):
    """Whether a patched outcome differs from torch's."""
    if want[0] == "message":
        return have[0] != "message" or have[1] is not want[1]
    if want[0] == "gradient":
        return have[0] != "gradient" or not same(want[1], have[1])
    return have[0] != "values" or not all(map(same, want[1:], have[1:]))


def compare(layer, acts, dtype):
    """The outcomes that differ from torch's, and how many there are. Of weights that change between a product and its
    sum, torch's gradient is an error, or wrong where torch does not count the change: that of a copy serves too."""
    wanted = []
    for what, *all_of in acts:
        for learned in (False, True):
            want = [outcome(layer, act, dtype, learned) for act in all_of]
            if want[0][0] == "message" and not learned:
                break  # torch does not take these
            wanted.append((what, all_of[0], learned, want))
    wrong = []
    with khop.sparse.patched():
        for what, act, learned, want in wanted:
            have = outcome(layer, act, dtype, learned)
            if all(differs(one, have) for one in want):
                wrong.append((what, learned, want, have))
    return wrong, len(wanted)


def acts_of(target):
    """Messages that change a target by every operator, with the arguments that it takes."""
    def act(change):
        def message(make, x_j, x_i, w):
            changed, result = make(x_j, x_i, w)
            change(changed)
            return result()
        return [functools.partial(message, of[target]) for of in (TARGETS, COPIED) if target in of]

    probe = TARGETS[target](drawn(1, EDGES, WIDTH), drawn(2, EDGES, WIDTH), drawn(3, EDGES))[0]
    given = arguments(probe, lambda t: t * 0.5 + 0.2)

    def changes():
        for name in METHODS:
            for b in given:
                yield name, lambda t, n=name, b=b: getattr(t, n)(*of_dtype(b, t.dtype))
        for name in OUT:
            for b in given[:8]:
                yield "out " + name, lambda t, n=name, b=b: getattr(torch, n)(*of_dtype((t * 2, *b), t.dtype), out=t)
        for name in INPLACE:
            yield "inplace " + name, lambda t, n=name: getattr(F, n)(t, inplace=True)
    taken = collections.Counter()
    for name, change in changes():
        if name not in UNSAFE and (not taken[name] or name == "__setitem__") and takes(change, probe.clone()):
            taken[name] += 1
            yield (name, taken[name]), *act(change)
    for name, change in OTHERS.items():
        yield name, *act(change)


def of_dtype(arguments, dtype):
    return [v.to(dtype, copy=True) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in arguments]


def takes(change, t):
    try:
        change(t)
    except Exception:
        return False
    return True


OTHERS = {
    ".data": lambda t: t.data.mul_(2),
    ".data of a view": lambda t: t.data[0].zero_(),
    "detach": lambda t: t.detach().add_(1),
    "numpy": lambda t: t.detach().numpy().__setitem__(0, 7),
    "set data": lambda t: setattr(t, "data", t.detach() * 2),
    "a mask": lambda t: t.__setitem__(t > 0, 0),
    "a hook": lambda t: t.requires_grad and t.register_hook(lambda g: g * 3),
    "a hook of a change": lambda t: (t.mul_(2), t.requires_grad and t.register_hook(lambda g: g * 3)),
    "a view of views": lambda t: t.view(-1, 1)[1:][::2].squeeze(-1).mul_(3) if t.is_contiguous() else t[0].mul_(3),
    "split": lambda t: [part.mul_(k + 2) for k, part in enumerate(torch.chunk(t.detach(), 2))],
    "foreach": lambda t: torch._foreach_mul_([t], 2.0),
    "no_grad": lambda t: torch.no_grad()(lambda: t.mul_(2))(),
    "a list": lambda t: torch.stack([t, t]).sum(0).mul_(2),
    "requires_grad": lambda t: t.requires_grad_(),
    "detach_": lambda t: t.detach_(),
    "keywords": lambda t: torch.mul(input=t.detach(), other=2.0, out=t.detach()),
}


@pytest.mark.parametrize("target, fused, dtype", [
    *(pytest.param(t, True, torch.float32, marks=[] if t in BY_DAY else by_night) for t in TARGETS),
    *(pytest.param(t, f, torch.float64, marks=[] if (t, f) == ("a message", True) else by_night)
      for t in ("x_j", "a message") for f in (False, True)),
    ("x_j", False, torch.float32), pytest.param("weights of a message", False, torch.float32, marks=by_night)])
def test_every_operator_in_place(target, fused, dtype):
    layer = (Fused if fused else Own)("sum")
    wrong, number = compare(layer, acts_of(target), dtype)
    assert number > 150, number
    assert not wrong, (len(wrong), number, wrong[:5])


@pytest.mark.parametrize("aggr", ["mean", "max", "std", "median", "mul"])
def test_other_reductions(aggr):
    changes = {"x_j": lambda t: t.relu_(), "a view": lambda t: t[:, 0].zero_(),
               "a mask": lambda t: t.__setitem__(t > 0, 0)}
    for target in ("x_j", "a message"):
        def message(change, x_j, x_i, w):
            changed, result = TARGETS[target](x_j, x_i, w)
            change(changed)
            return result()
        acts = [(name, functools.partial(message, change)) for name, change in changes.items()]
        for dtype in (torch.float32, torch.float64):
            for layer in (Own(aggr), Fused(aggr)):
                wrong, _ = compare(layer, acts, dtype)
                assert not wrong, (target, wrong[:3])
