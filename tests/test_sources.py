"""khop convert reads what the reference libraries of other formats read."""
import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import oracle
from conftest import run


def data():
    """The folder of real graphs."""
    if not os.environ.get("KHOP_TESTDATA"):
        pytest.skip("KHOP_TESTDATA is not set: no real graphs")
    return os.environ["KHOP_TESTDATA"]


class Dataset:
    """A dataset as pyarrow reads it."""

    def __init__(self, khop, source, target, *options):
        run(khop, "convert", source, target, *options)
        self.root, (self.g, self.content) = target, oracle.load(target)
        self.owner = {name: f"nodes/{i}" for i, (name, _) in enumerate(self.g.node_types)}

    def column(self, owner, name):
        """A column of a node type, or of the edges ("edges")."""
        (c,) = [c for c in self.content["columns"] if (c["owner"], c["name"]) == (self.owner.get(owner, owner), name)]
        return oracle.column(self.root, c, c.get("shape"))

    def edges(self, *edge_type):
        """The edges of a type as pairs, and where they are in the dataset, whose order is by target, then by source."""
        g, e = self.g, self.g.edge_types.index(edge_type)
        first, count = g.runs[e]
        at = np.concatenate([np.arange(f, f + c) for f, c in zip(first, count)] + [np.zeros(0, np.int64)]).astype(np.int64)
        dst = np.repeat(np.arange(len(count)), count) - g.offset[g.target[e]]
        return np.stack((g.indices[at] - g.offset[g.source[e]], dst)), at

    def split(self, name, node_type=0, index=0):
        (s,) = [s for s in self.content["splits"] if (s["name"], s["index"]) == (name, index)]
        (ids,) = [x for x in s["sets"] if x["node_type"] == node_type]
        return oracle.column(self.root, ids)


def ordered(src, dst):
    """The order in which a dataset has edges."""
    return np.lexsort((src, dst))


def test_tables(khop, tmp_path):
    rng = np.random.default_rng(7)
    n, m = 3000, 20000
    key = rng.permutation(10 * n)[:n]
    nodes = pa.table({"id": key, "x": pa.array(list(rng.random((n, 6), np.float32)), pa.list_(pa.float32())),
                      "y": rng.integers(0, 9, n), "age": rng.random(n)})
    src, dst = key[rng.integers(0, n, m)], [f"item {i}" for i in rng.integers(0, 500, m)]
    bought = pa.table({"who": src, "what": dst, "at": rng.integers(0, 1 << 40, m)})
    pq.write_table(nodes, tmp_path / "users.parquet", row_group_size=700, compression="zstd", data_page_size=1000)
    pa.feather.write_feather(bought.slice(0, 9000), tmp_path / "bought-0.arrow", compression="zstd")
    pa.feather.write_feather(bought.slice(9000), tmp_path / "bought-1.arrow", compression="lz4", chunksize=100)
    (tmp_path / "graph.yaml").write_text("""
        nodes: {user: users.parquet}
        edges: {"user:bought:item": {file: bought-*.arrow, src: who, dst: what, time: at}}""")
    d = Dataset(khop, tmp_path / "graph.yaml", tmp_path / "g.khop")
    names = list(dict.fromkeys(dst))
    assert d.g.node_types == [("user", n), ("item", len(names))]
    assert np.array_equal(d.column("user", "feature"), np.stack(nodes["x"].to_numpy()))
    for mine, theirs in {"label": "y", "age": "age", "id": "id"}.items():
        assert np.array_equal(d.column("user", mine), nodes[theirs].to_numpy())
    row = {k: i for i, k in enumerate(key)}
    s, t = np.array([row[k] for k in src]), np.array([names.index(x) for x in dst])
    got, at = d.edges("user", "bought", "item")
    order = ordered(s, t)
    assert np.array_equal(got, np.stack((s, t))[:, order])
    assert np.array_equal(d.column("edges", "time")[at], bought["at"].to_numpy()[order])


@pytest.mark.parametrize("name, nodes, edges, holes", [("cora", 2708, 10556, 0), ("citeseer", 3327, 9104, 15)])
def test_planetoid(khop, tmp_path, name, nodes, edges, holes):
    """As PyTorch Geometric reads it, by NumPy and scipy alone; but a node without a label has none."""
    folder = os.path.join(data(), f"planetoid-{name}")

    def load(part):
        with open(os.path.join(folder, f"ind.{name}.{part}"), "rb") as f:
            return pickle.load(f, encoding="latin1")

    test = np.loadtxt(os.path.join(folder, f"ind.{name}.test.index"), np.int64)
    x, y = np.zeros((nodes, load("allx").shape[1]), np.float32), np.full(nodes, -1)
    n = load("allx").shape[0]
    x[:n], x[test] = load("allx").toarray(), load("tx").toarray()
    y[:n], y[test] = load("ally").argmax(1), load("ty").argmax(1)
    unlabelled = np.concatenate((load("ally"), load("ty"))).sum(1) == 0
    y[np.concatenate((np.arange(n), test))[unlabelled]] = -1
    pairs = np.unique([(s, t) for s, all in load("graph").items() for t in all if s != t], axis=0).T
    d = Dataset(khop, folder, tmp_path / "g.khop")
    assert pairs.shape[1] == edges and (x.sum(1) == 0)[~np.isin(np.arange(nodes), test) & (np.arange(nodes) >= n)].sum() == holes
    assert np.array_equal(d.column("node", "feature"), x) and np.array_equal(d.column("node", "label"), y)
    assert np.array_equal(d.edges("node", "edge", "node")[0], pairs[:, ordered(*pairs)])
    train = len(load("y"))
    for split, ids in {"train": np.arange(train), "val": np.arange(train, train + 500), "test": np.sort(test)}.items():
        assert np.array_equal(d.split(split), ids)
