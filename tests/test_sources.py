"""khop convert reads what the reference libraries of other formats read."""
import datetime
import os
import pickle
import shutil
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.io

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

    def names(self, name):
        """A list of strings."""
        (part,) = [c["parts"][0] for c in self.content["columns"] if (c["dtype"], c["name"]) == ("utf8", name)]
        return pa.ipc.open_file(pa.memory_map(str(self.root / part["path"]))).get_batch(0).column(0).to_pylist()

    def edges(self, *edge_type):
        """The edges of a type as pairs, and where they are in the dataset, whose order is by target, then by source."""
        g, e = self.g, self.g.edge_types.index(edge_type)
        first, count = g.runs[e]
        at = np.concatenate([np.arange(f, f + c) for f, c in zip(first, count)] + [np.zeros(0, np.int64)]).astype(
            np.int64)
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
    assert pairs.shape[1] == edges and (
        x.sum(1) == 0)[~np.isin(np.arange(nodes), test) & (np.arange(nodes) >= n)].sum() == holes
    assert np.array_equal(d.column("node", "feature"), x) and np.array_equal(d.column("node", "label"), y)
    assert np.array_equal(d.edges("node", "edge", "node")[0], pairs[:, ordered(*pairs)])
    train = len(load("y"))
    for split, ids in {"train": np.arange(train), "val": np.arange(train, train + 500), "test": np.sort(test)}.items():
        assert np.array_equal(d.split(split), ids)


def links(d, name):
    """A split of links of the only edge type: sources, targets, labels."""
    (s,) = [s for s in d.content["splits"] if (s["task"], s["name"]) == ("link", name)]
    return [oracle.column(d.root, x) for end in ("source", "target", "label") for x in s["sets"] if x["end"] == end]


@pytest.mark.parametrize("name", ["bcsstk13", "jagmesh7", "karate", "cryg2500", "west0067", "lp_afiro"])
def test_matrix_market(khop, tmp_path, name):
    """As SciPy reads it: entry (i, j) is the edge i -> j, whose value is a column unless it is a pattern."""
    path = os.path.join(data(), "suitesparse-mtx", name + ".mtx")
    m = scipy.io.mmread(path).tocoo()
    d = Dataset(khop, path, tmp_path / "g.khop")
    (edge_type,) = d.g.edge_types
    order = ordered(m.row, m.col)
    pairs, at = d.edges(*edge_type)
    assert [dict(d.g.node_types)[t] for t in (edge_type[0], edge_type[2])] == list(m.shape)
    assert np.array_equal(pairs, np.stack((m.row, m.col))[:, order])
    columns = [c["name"] for c in d.content["columns"] if c["owner"] == "edges"]
    assert columns == ([] if "pattern" in scipy.io.mminfo(path) else ["weight" if m.data.min() >= 0 else "value"])
    for column in columns:
        assert np.array_equal(d.column("edges", column)[at], m.data[order])


@pytest.mark.parametrize("name", ["FB15k-237", "WN18RR"])
def test_knowledge_graphs(khop, tmp_path, name):
    """Names as they are written, slashes and leading zeros among them; the triples of train are edges, the others
    links."""
    archive = os.path.join(data(), name, name + ".tar.gz")
    with tarfile.open(archive) as files:
        lines = {part: [line.split("\t") for line in files.extractfile(part + ".txt").read().decode().splitlines()]
                 for part in ("train", "valid", "test")}
    d = Dataset(khop, archive, tmp_path / "g.khop")
    entity, relation = ({text: i for i, text in enumerate(d.names(list))} for list in ("id", "relation"))

    def numbers(part):
        return np.array([(entity[h], relation[r], entity[t]) for h, r, t in lines[part]]).T

    src, kind, dst = numbers("train")
    order = ordered(src, dst)
    pairs, at = d.edges(*d.g.edge_types[0])
    assert np.array_equal(pairs, np.stack((src, dst))[:, order])
    assert np.array_equal(d.column("edges", "relation")[at], kind[order])
    for split, part in ("val", "valid"), ("test", "test"):
        src, kind, dst = numbers(part)
        assert all(np.array_equal(a, b) for a, b in zip(links(d, split), (src, dst, kind)))


def test_links_of_the_open_graph_benchmark(khop, tmp_path):
    """Edges both ways, and links with the negatives that are given, of pickles that hold NumPy's arrays."""
    folder = os.path.join(data(), "ogbl-ddi")
    d = Dataset(khop, folder, tmp_path / "g.khop")
    src, dst = np.loadtxt(os.path.join(folder, "raw", "edge.csv.gz"), np.int64, delimiter=",").T
    src, dst = np.concatenate((src, dst)), np.concatenate((dst, src))
    assert np.array_equal(d.edges(*d.g.edge_types[0])[0], np.stack((src, dst))[:, ordered(src, dst)])
    for split, file in ("val", "valid"), ("test", "test"):
        with open(os.path.join(folder, "split", "target", file + ".pt"), "rb") as f:
            for _ in range(3):  # torch wrote its number, its version and its system before
                pickle.load(f)
            given = pickle.load(f)
        src, dst = np.concatenate((given["edge"], given["edge_neg"])).T
        label = np.repeat((1, 0), (len(given["edge"]), len(given["edge_neg"])))
        assert all(np.array_equal(a, b) for a, b in zip(links(d, split), (src, dst, label)))


@pytest.mark.parametrize("name", ["4elt.graph", "test.mgraph"])
def test_metis(khop, tmp_path, name):
    """A line a node: neighbours from 1 on, each edge in both lines; "010 2" are two weights of each node before
    them."""
    path = os.path.join(data(), "metis", name)
    with open(path) as f:
        head, *rows = [[int(x) for x in line.split()] for line in f if not line.startswith("%")]
    weights = head[3] if len(head) > 3 else 0
    pairs = np.array([(v, u - 1) for v, row in enumerate(rows) for u in row[weights:]]).T
    d = Dataset(khop, path, tmp_path / "g.khop")
    assert np.array_equal(d.edges(*d.g.edge_types[0])[0], pairs[:, ordered(*pairs)]) and pairs.shape[1] == 2 * head[1]
    if weights:
        assert np.array_equal(d.column("node", "weight"), [row[:weights] for row in rows])


@pytest.mark.parametrize("name, options, use", [("CollegeMsg.txt", ("--columns", "src,dst,time"), (0, 1, 2)),
                                                ("ml_UCI-Msg.csv", ("--columns", "-,src,dst,time,-,-"), (1, 2, 3))])
def test_events(khop, tmp_path, name, options, use):
    path = os.path.join(data(), "CollegeMsg-temporal", name)
    src, dst, time = np.loadtxt(path, delimiter="," if "csv" in name else None, skiprows=int("csv" in name),
                                usecols=use).T.astype(np.int64)
    d = Dataset(khop, path, tmp_path / "g.khop", *options)
    order = ordered(src, dst)
    pairs, at = d.edges(*d.g.edge_types[0])
    assert np.array_equal(pairs,
                          np.stack((src, dst))[:, order]) and np.array_equal(d.column("edges", "time")[at], time[order])


def test_a_web_graph(khop, tmp_path):
    """The transpose of one that another decoder has read."""
    folder = os.path.join(data(), "cnr-2000-webgraph")
    z = np.load(os.path.join(folder, "derived", "cnr-2000.csr.npz"))
    dst, src = np.repeat(np.arange(len(z["indptr"]) - 1), np.diff(z["indptr"])), z["indices"]
    d = Dataset(khop, os.path.join(folder, "cnr-2000-t.graph"), tmp_path / "g.khop")
    assert np.array_equal(d.edges(*d.g.edge_types[0])[0], np.stack((src, dst))[:, ordered(src, dst)])


def test_a_database_in_two_parts_is_that_in_one(khop, tmp_path):
    """What has no time, and all before August 2013, is converted, and the rest added: all files are the same but for
    the numbers of categories, and so are batches."""
    whole, part, rows = os.path.join(data(), "nycflights13"), tmp_path / "part", []
    shutil.copytree(whole, part)
    for name in ("flights", "weather"):
        table = pq.read_table(os.path.join(whole, "db", f"{name}.parquet"))
        later = pa.compute.greater_equal(table["time"], pa.scalar(datetime.datetime(2013, 8, 1), table["time"].type))
        pq.write_table(table.filter(pa.compute.invert(later)), part / "db" / f"{name}.parquet")
        pq.write_table(table.filter(later), tmp_path / f"{name}.parquet", compression="zstd")
        rows += ["--rows", f"{name}={tmp_path / name}.parquet"]
    once, grown = Dataset(khop, whole, tmp_path / "once.khop", "--upto", "all"), tmp_path / "grown.khop"
    run(khop, "convert", part, grown, "--upto", "all")
    run(khop, "add", grown, *rows)
    different = [str(f.relative_to(once.root)) for f in once.root.glob("*/**/*.arrow") if "tasks" not in f.parts
                 if f.read_bytes() != (grown / f.relative_to(once.root)).read_bytes()]
    assert sorted(different) == ["nodes/n3/categorical.arrow", "nodes/n3/wind_dir.arrow"]

    def column(root, name):
        return pa.ipc.open_file(pa.memory_map(str(root / f"nodes/n3/{name}.arrow"))).get_batch(0).column(0)

    def wind(root):
        codes = np.asarray(column(root, "categorical").flatten())
        return np.append(column(root, "wind_dir").to_pylist(), "")[codes]

    assert np.array_equal(wind(once.root), wind(grown))
    def statistics(root):
        return [f for c in oracle.load(root)[1]["columns"] for f in c.get("fields", ())]

    for a, b in zip(statistics(once.root), statistics(grown), strict=True):
        assert (a["name"], a["missing"], a.get("times")) == (b["name"], b["missing"], b.get("times"))
        for key in ("mean", "std", "quantiles"):
            np.testing.assert_allclose(b.get(key, 0), a.get(key, 0), rtol=1e-6, err_msg=a["name"])
    sample = ("--seeds", "task:plane_late:train", "--sampler", "temporal", "--node-time", "time", "--fanouts", "10,10",
              "--digest")
    assert run(khop, "sample", once.root, *sample) == run(khop, "sample", grown, *sample)
