"""khop.sparse: memory of results is used again once nobody has them, within the bound that patch is given."""
import gc
import os
import re
import signal
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from khop._native import library as _library  # noqa: E402

pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")

import khop.sparse  # noqa: E402
from khop._ops import spmm
from khop._native import page_pool  # noqa: E402
from khop.errors import OptionError  # noqa: E402

N, WIDTH = 2000, 256


@pytest.fixture(autouse=True)
def unpatched():
    yield
    khop.sparse.unpatch()


def matrix(seed=1):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, N, (2, 5 * N), generator=generator)
    return torch.sparse_coo_tensor(ends, torch.rand(5 * N, generator=generator), (N, N)).coalesce().to_sparse_csr()


def rows(seed=2):
    return torch.rand(N, WIDTH, generator=torch.Generator().manual_seed(seed))


def test_memory_of_results_is_used_again_when_nobody_has_them():
    a, x = matrix(), rows()
    khop.sparse.patch()
    first = torch.sparse.mm(a, x)
    at, part, expected = first.data_ptr(), first[7:], first.clone()
    del first
    gc.collect()
    second = torch.sparse.mm(a, x * 2)
    assert second.data_ptr() != at  # a view has it
    assert torch.equal(part, expected[7:])
    del part
    gc.collect()
    assert torch.sparse.mm(a, x).data_ptr() == at


def test_what_a_gradient_needs_keeps_its_memory():
    a, x, w = matrix(), rows(), rows(3)
    khop.sparse.patch()

    def gradient(others):
        leaf = w.detach().requires_grad_()
        y = (torch.sparse.mm(a, leaf) * torch.sparse.mm(a, x)).sum()
        gc.collect()
        for _ in range(others):
            torch.sparse.mm(a, w + 1)
        y.backward()
        return leaf.grad
    assert torch.equal(gradient(0), gradient(5))


@pytest.mark.parametrize("most", [0, 5 << 20, 1 << 30])
def test_no_more_is_kept_than_the_bound(most):
    a, x = matrix(), rows()
    khop.sparse.patch(result_memory=most)
    held = [torch.sparse.mm(a, x) for _ in range(5)]
    assert spmm.rooms.held() == 0
    del held
    gc.collect()
    kept = spmm.rooms.held()
    assert kept <= most and (kept > 0) == (most > 0)
    if most == 0:  # then it is torch's own
        torch.sparse.mm(a, x).resize_(N + 1, WIDTH)
    khop.sparse.clear()
    assert spmm.rooms.held() == 0


def test_unpatch_gives_memory_back():
    a, x = matrix(), rows()
    with khop.sparse.patched():
        y = torch.sparse.mm(a, x)
        torch.sparse.mm(a, x)
        gc.collect()
        assert spmm.rooms.held() > 0
    assert spmm.rooms.held() == 0
    del y
    gc.collect()
    assert spmm.rooms.held() == 0


def lazily_free():
    with open("/proc/self/smaps_rollup") as f:
        return int(re.search(r"LazyFree:\s+(\d+)", f.read())[1]) << 10


def test_what_is_kept_is_the_systems_when_it_needs_memory():
    a, x = matrix(), torch.rand(N, 2048)
    khop.sparse.patch()
    before = lazily_free()
    torch.sparse.mm(a, x)
    gc.collect()
    assert lazily_free() - before >= (N * 2048 * 4) // 2


def test_threads_never_share_the_memory_of_results():
    matrices, x = [matrix(seed) for seed in range(4)], rows()
    expected = [torch.sparse.mm(a, x) for a in matrices]
    khop.sparse.patch()
    wrong = []

    def work(i):
        for _ in range(30):
            y = torch.sparse.mm(matrices[i], x)
            z = torch.sparse.mm(matrices[i], x * 2)
            if not (torch.allclose(y, expected[i], atol=1e-4) and torch.allclose(z, expected[i] * 2, atol=1e-4)):
                wrong.append(i)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_forked_process_is_not_held_up_by_a_thread_that_had_the_lock():
    pool = page_pool.Rooms()
    lent = pool.take(1 << 20)
    has, done = threading.Event(), threading.Event()

    def hold():
        with pool._lock:
            has.set()
            done.wait()
    t = threading.Thread(target=hold)
    t.start()
    has.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        del lent
        os._exit(0 if pool.held() > 0 else 1)
    _, status = os.waitpid(child, 0)
    done.set()
    t.join()
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("value", [-1, 1.5, True, "1G", None])
def test_the_bound_is_a_number_of_bytes(value):
    with pytest.raises(OptionError, match="result_memory is a number of bytes"):
        khop.sparse.patch(result_memory=value)
