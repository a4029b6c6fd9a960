"""Lists of negatives in TGB's files: as NumPy of any version pickles them, and as somebody would who means harm."""
import io
import os
import pickle
import struct

import numpy as np
import pytest

import khop


def edges(n, seed=1):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 50, n), rng.integers(50, 99, n), np.arange(n) * 7


def lists_of(columns, rng):
    return {tuple(edge): rng.integers(0, 99, rng.integers(1, 9)) for edge in zip(*columns)}


def saved(path, value, protocol):
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("dtype", ["int64", "int32", "float64", ">i8"])
def test_lists_are_those_that_tgb_reads(protocol, dtype, tmp_path):
    columns = edges(40)
    want = {k: v.astype(dtype) for k, v in lists_of(columns, np.random.default_rng(2)).items()}
    got = khop.tgb.negatives(saved(tmp_path / "ns.pkl", want, protocol), *columns)
    assert got.shape == (40, max(map(len, want.values()))) and got.dtype == np.int32
    for row, edge in zip(got, zip(*columns)):
        ids = want[tuple(edge)]
        assert np.array_equal(row[:len(ids)], ids) and (row[len(ids):] == -1).all()


def test_lists_of_heterogeneous_graphs_are_found_by_time_source_and_type(tmp_path):
    src, dst, t = edges(9)
    kind = np.arange(9) % 3
    want = {(int(b), int(a), int(k)): np.array([a, b]) for a, b, k in zip(src, t, kind)}
    got = khop.tgb.negatives(saved(tmp_path / "ns.pkl", want, 5), src, dst, t, kind)
    assert np.array_equal(got, np.stack([src, t], 1))


def test_an_epoch_has_tgbs_lists(dataset, tmp_path):
    src, dst, t = edges(30)
    want = lists_of((src, dst, t), np.random.default_rng(3))
    table = khop.tgb.negatives(saved(tmp_path / "ns.pkl", want, 5), src, dst, t)
    with khop.Loader(dataset("sbm"), [2], edge_label_index=[src, dst], edge_label_time=t, edge_label_negatives=table,
                     times="ignore", batch_size=8) as loader:
        for b in loader:
            n, group = len(b.input_id), np.asarray(b.edge_label_group)
            targets = np.asarray(b.n_id)[np.asarray(b.edge_label_index)[1]]
            for i, item in enumerate(np.asarray(b.input_id)):
                assert np.array_equal(targets[n:][group[n:] == i], want[src[item], dst[item], t[item]])


class Runs:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def with_names(*names):
    """A pickle that calls a function by its module and name."""
    out = io.BytesIO()
    for module, name in names:
        out.write(b"c" + module.encode() + b"\n" + name.encode() + b"\n")
    return out.getvalue() + b"."


SOME = np.array([1, 2])
HARM = {
    "a command": pickle.dumps({(1, 2, 3): Runs(os.system, ("touch harmed",))}),
    "a command by way of a class": with_names(("builtins", "eval")),
    "another function of NumPy": with_names(("numpy", "load")),
    "dotted": with_names(("numpy", "ndarray.tofile")),
    "objects": pickle.dumps({(1, 2, 3): np.array([SOME, None], dtype=object)}),
    "text": pickle.dumps({(1, 2, 3): np.array(["a"])}),
    "a list": pickle.dumps([1, 2]),
    "a number": pickle.dumps({(1, 2, 3): 4}),
    "two dimensions": pickle.dumps({(1, 2, 3): SOME.reshape(1, 2)}),
    "a fraction": pickle.dumps({(1, 2, 3): SOME + 0.5}),
    "a negative id": pickle.dumps({(1, 2, 3): -SOME}),
    "infinity": pickle.dumps({(1, 2, 3): np.array([np.inf])}),
    "another edge": pickle.dumps({(1, 2, 4): SOME}),
    "cut short": pickle.dumps({(1, 2, 3): SOME})[:-9],
    "none": b"",
    "a size beyond memory": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"x.",
    "a state of its own": with_names(("numpy", "dtype"))[:-1] + b"}(K\x01K\x02ub.",
    "nested without end": b"(" * 100_000 + b".",
}


@pytest.mark.parametrize("name", HARM)
def test_a_pickle_of_anything_else_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ns.pkl").write_bytes(HARM[name])
    with pytest.raises(ValueError, match="ns.pkl"):
        khop.tgb.negatives("ns.pkl", [1], [2], [3])
    assert os.listdir() == ["ns.pkl"]


def test_damaged_files_are_errors_and_nothing_else(tmp_path):
    rng, path = np.random.default_rng(5), tmp_path / "ns.pkl"
    columns = edges(3)
    whole = pickle.dumps(lists_of(columns, rng), protocol=5)
    for _ in range(2000):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            data[at] = rng.integers(0, 256)
        path.write_bytes(data)
        try:
            table = khop.tgb.negatives(path, *columns)
        except ValueError:
            continue
        assert len(table) == 3 and table.min() >= -1


def test_edges_have_all_columns(tmp_path):
    path = saved(tmp_path / "ns.pkl", {}, 4)
    with pytest.raises(ValueError, match="one for each edge"):
        khop.tgb.negatives(path, [1, 2], [3, 4], [5])
    assert khop.tgb.negatives(path, [], [], []).shape == (0, 0)
