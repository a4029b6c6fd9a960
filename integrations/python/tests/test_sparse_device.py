"""khop.sparse with tensors on a device. Torch's own operations with them run on the host, and what comes of tensors of
the device goes there: an operation of both places is an error, as it is with CUDA."""
import os
import textwrap

import pytest

pytest.importorskip("torch")
from stand_in import needs_device, run  # noqa: E402

pytestmark = needs_device
TORCH = '''
import warnings
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
import khop.sparse
from khop._ops import spmm


def lies_there(t):
    if t.layout != torch.strided:
        return all(map(lies_there, spmm.parts(t)))
    return type(t).__name__ == "Rows" or Simulated.ordinal(t) is not None


class Torch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = [t for t in tree_flatten((args, kwargs or {}))[0] if isinstance(t, torch.Tensor)]
        there = [lies_there(t) for t in given if t.numel() > 0]
        scalar = [t.dim() == 0 for t in given if t.numel() > 0]
        assert not any(there) or all(map(max, there, scalar)), f"{func} of tensors on the device and on the host"
        new = not given and (kwargs or {}).get("device") is not None  # of PyG, which says where its tensors are
        wait()
        result = func(*args, **kwargs or {})
        moves = lambda t: isinstance(t, torch.Tensor) and t.numel() > 0 and not lies_there(t)
        return tree_map(lambda t: put(t.contiguous()) if moves(t) else t, result) if new or any(there) else result


def both(run, *tensors, tolerance=0, operations):
    """What run returns for copies of tensors on the host and, with khop, on the device, are equal."""
    def leaves(move):
        return [move(t).detach().requires_grad_(t.requires_grad) for t in tensors]
    want = run(*leaves(torch.clone))
    with Torch(), khop.sparse.patched():
        first = khop.sparse.operations()
        got = run(*leaves(put))
        wait()
    assert khop.sparse.operations() - first == operations, (khop.sparse.operations() - first, operations)
    for g, w in zip(got, want):
        assert Simulated.ordinal(g) == 0 and g.dtype == w.dtype, "the result is on the host"
        assert torch.allclose(g, w, atol=tolerance, rtol=tolerance), (g - w).abs().max()


def floats(*shape):
    return torch.from_numpy(draw.standard_normal(shape)).float().requires_grad_()


def ids(most, n):
    return torch.from_numpy(draw.integers(0, most, n))
'''


def there(body, **environment):
    run(TORCH + textwrap.dedent(body), **environment)


def test_products_of_torch_have_their_gradients_there():
    """COO in any order, CSR and CSC, in 16 bits too."""
    there('''
    cells = torch.from_numpy(draw.permutation(600)[:200])  # CSR of torch has none twice
    row, col = torch.div(cells, 20, rounding_mode="floor"), cells % 20
    order = torch.argsort(cells)
    ptr = torch.searchsorted(row[order], torch.arange(31))
    for dtype, tolerance in (torch.float32, 1e-5), (torch.float16, 2e-2), (torch.bfloat16, 2e-1):
        def coo(row, col, values, x, g):
            a = torch.sparse_coo_tensor(torch.stack([row, col]), values.to(dtype), (30, 20))
            y = torch.sparse.mm(a, x.to(dtype))
            y.backward(g.to(dtype))
            return y.detach(), x.grad

        def csr(ptr, col, values, x, g):
            y = torch.sparse.mm(torch.sparse_csr_tensor(ptr, col, values, (30, 20)), x)
            y.backward(g)
            return y.detach(), x.grad
        values, x, g = floats(200).detach(), floats(20, 7), floats(30, 7).detach()
        # what the CPU has in 16 bits is computed by khop, too: torch has none
        compute = coo if dtype == torch.float32 else khop.sparse.patched()(coo)
        both(compute, row, col, values, x, g, tolerance=tolerance, operations=2)
    both(csr, ptr, col[order], values, x, g, tolerance=1e-5, operations=2)
    both(csr, ptr.int(), col[order].int(), values, x, g, tolerance=1e-5, operations=2)
    ''')


def test_layers_of_pyg_train_there():
    """Sums, means, weights an edge, attention with its softmax; gradients of features, weights and parameters."""
    pytest.importorskip("torch_geometric")
    there('''
    import copy
    import torch_geometric.nn as nn
    edges = torch.stack([ids(30, 200), ids(30, 200)])
    for layer, operations in (nn.SAGEConv(8, 4), 4), (nn.GCNConv(8, 4), 4), (nn.GATConv(8, 4, heads=3), 10), \\
            (nn.GraphConv(8, 4), 4):
        def learn(edges, x, *parameters):
            own = copy.deepcopy(layer)
            for (name, _), p in zip(list(layer.named_parameters()), parameters):
                of = own.get_submodule(name.rpartition(".")[0])
                del of._parameters[name.rpartition(".")[2]]
                setattr(of, name.rpartition(".")[2], p)
            own(own(x, edges)[:, :4].repeat(1, 2), edges).square().sum().backward()
            return [x.grad, *(p.grad for p in parameters)]
        both(learn, edges, floats(30, 8), *layer.parameters(), tolerance=1e-3, operations=operations)
    ''')


def test_ids_out_of_range_are_edges_that_are_not_there():
    """Torch would end the process's work with the device."""
    there('''
    targets, sources = torch.tensor([0, 5, 1, -1, 1, 0]), torch.tensor([1, 0, 0, 1, 9, -2])
    x, weights = floats(2, 3), floats(6, 1)
    with Torch(), khop.sparse.patched():
        s = spmm.of_edges(2, 2, put(targets), put(sources))
        a, w = put(x.detach()).requires_grad_(), put(weights.detach()).requires_grad_()
        y = spmm.multiply(s, False, spmm.SUM, w, a)
        y.sum().backward()
        wait()
    kept = torch.tensor([0, 2])
    assert torch.equal(y.detach(), (weights[kept] * x[sources[kept]]).detach())
    assert torch.equal(a.grad[sources[kept]], weights[kept].detach().expand(2, 3))
    assert w.grad[[1, 3, 4, 5]].eq(0).all() and w.grad[kept].ne(0).all()
    ''')


def test_a_library_that_is_not_built_for_devices_says_so_once():
    library = os.environ.get("KHOP_LIBRARY")
    if not library:
        pytest.skip("KHOP_LIBRARY names no library")
    there('''
    a, x = torch.eye(3).to_sparse(), floats(3, 2)
    with warnings.catch_warnings(record=True) as said, Torch(), khop.sparse.patched():
        warnings.simplefilter("always")
        first = khop.sparse.operations()
        there = torch.sparse_coo_tensor(put(a._indices()), put(a._values()), (3, 3))
        products = [torch.sparse.mm(there, put(x.detach())) for _ in range(2)]
    assert all(torch.equal(y, x) for y in products)
    assert khop.sparse.operations() == first
    said = [str(w.message) for w in said if "khop" in str(w.message)]
    assert len(said) == 1 and "leaves tensors on cuda:0 to torch" in said[0] and "no CUDA" in said[0], said
    ''', KHOP_LIBRARY=library)
