"""Unified tensors on a device, with the simulated one, whose memory ctypes can make tensors of: they stand in for
torch's on CUDA. Each test is a process of its own, whose library is built for devices."""
import os

import pytest

pytest.importorskip("torch")
from stand_in import needs_device, run  # noqa: E402

pytestmark = needs_device


def test_rows_of_device_ids_are_gathered_there_and_equal_those_of_the_cpu():
    run('''
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int64):
        for row in ((), (1,), (3,), (100,), (4, 5)):
            plain = numbers(dtype, 300, *row)
            u = khop.unified(plain)
            for ids in (torch.from_numpy(draw.integers(0, 300, 200)), torch.arange(5, dtype=torch.int32),
                        torch.arange(12).view(3, 4)):
                there = put(ids)
                got = [u[there]] + ([torch.index_select(u, 0, there)] if ids.dim() == 1 else [])
                got += [torch.nn.functional.embedding(there, u)] if len(row) == 1 else []
                wait()
                for rows in got:
                    assert Simulated.ordinal(rows) == 0 and torch.equal(rows, plain[ids.long()]), (dtype, row)
    assert set(asked) == {0}
    assert Simulated.ordinal(u[torch.arange(3)]) is None  # ids on the CPU
    ''')


def test_hot_rows_are_read_in_the_devices_memory():
    """What the caller changes of them afterwards is not seen, as it is of the others."""
    run('''
    plain = numbers(torch.float32, 300, 32)
    u = khop.unified(plain, hot=[7, 200, 7])
    ids = put(torch.tensor([7, 8, 200]))
    before = plain[[7, 8, 200]].clone()
    first = u[ids]
    wait()
    assert torch.equal(first, before)
    plain[[7, 8, 200]] += 1
    second = u[ids]
    wait()
    assert torch.equal(second[[0, 2]], before[[0, 2]]) and torch.equal(second[1], before[1] + 1)
    ''')


def test_an_id_that_is_no_row_is_told_by_a_later_call():
    run('''
    u = khop.unified(numbers(torch.float32, 300, 32))
    u[put(torch.tensor([1, 300]))]
    wait()
    try:
        u[put(torch.tensor([1]))]
    except IndexError as e:
        assert "ids[1] is 300, but the column has 300 rows" in str(e), e
    else:
        raise AssertionError("nothing was told")
    ''')


def test_a_memmap_is_page_locked_where_it_is(tmp_path):
    run('''
    table = np.arange(60000, dtype=np.float32).reshape(-1, 100)
    table.tofile(sys.argv[1])
    mapped = np.memmap(sys.argv[1], np.float32, "r", shape=table.shape)
    u = khop.unified(mapped)
    rows = u[put(torch.tensor([599, 0]))]
    wait()
    assert np.array_equal(rows.numpy(), table[[599, 0]])
    assert u.on("cuda:0").data_ptr() == mapped.ctypes.data
    ''', tmp_path / "rows.bin")


def test_mixed_operands_run_where_the_rule_says():
    run('''
    plain = numbers(torch.float32, 300, 32)
    u, weight = khop.unified(plain), numbers(torch.float32, 32, 4)
    where = []
    view = Simulated.view
    Simulated.view = staticmethod(lambda *of: where.append(of[2]) or view(*of))
    assert torch.equal(u @ weight, plain @ weight) and where == []  # a tensor on the CPU
    assert torch.equal(u @ put(weight), plain @ weight) and where == [0]  # one on the device
    assert torch.equal(u + 1, plain + 1) and where == [0]  # device="cpu", as torch has none
    v = khop.unified(plain, device="cuda:0")
    assert torch.equal(v + 1, plain + 1) and where == [0, 0]
    assert v.shape == plain.shape and v.numpy().shape == (300, 32) and where == [0, 0]  # nothing is computed
    ''')


def test_a_library_that_is_not_built_for_devices_says_so():
    """Of ids on a device. The one beside the program is."""
    library = os.environ.get("KHOP_LIBRARY")
    if not library:
        pytest.skip("KHOP_LIBRARY names no library")
    run('''
    u = khop.unified(numbers(torch.float32, 300, 32))
    try:
        u[put(torch.tensor([1]))]
    except khop.ServerError as e:
        assert "cuda:0: no CUDA device" in str(e) and "this build has no CUDA" in str(e), e
    else:
        raise AssertionError("gathered")
    ''', KHOP_LIBRARY=library)
