"""khop convert keeps every element: each real graph equals what NumPy, SciPy and the standard library read from the
source."""
import csv
import gzip
import json
import os

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import oracle
from conftest import GENERATED, REAL, run, source

EDGES = {  # directed edges in the dataset
    "tolokers": 1_038_000, "minesweeper": 78_804, "actor": 53_318, "squirrel_filtered": 93_996,
    "cora_ml": 8_416, "citeseer": 4_715, "musae-facebook-page": 341_825, "CollegeMsg": 59_835, "ogbl-ddi": 1_067_911,
    "cnr-2000": 3_216_152,
}


class Source:
    """A graph read without khop. edges: [m, 2] source and destination in the source's order; features dense or sparse;
    names: the lists of strings that come with it."""

    def __init__(self, nodes, edges, undirected=False, features=None, labels=None, splits=None, names=None):
        self.nodes, self.edges, self.undirected = nodes, np.asarray(edges, np.int64), undirected
        self.features, self.labels, self.splits, self.names = features, labels, splits or {}, names or {}

    def csc(self):
        """indptr, sources, and which edge of the source each position is."""
        src, dst = self.edges.T
        number = np.arange(len(src))
        if self.undirected:  # both directions, a self-loop once
            back = src != dst
            src, dst, number = (np.concatenate(x) for x in ((src, dst[back]), (dst, src[back]), (number, number[back])))
        order = np.lexsort((src, dst))  # stable: parallel edges stay in the source's order
        return np.concatenate(([0], np.cumsum(np.bincount(dst, minlength=self.nodes)))), src[order], number[order]


def read_heterophilous(path):
    z = np.load(path)
    splits = {(name, i): np.flatnonzero(mask) for name in ("train", "val", "test") for i,
              mask in enumerate(z[name + "_masks"])}
    return Source(len(z["node_labels"]), z["edges"], True, z["node_features"], z["node_labels"], splits)


def rows_to_edges(indptr, indices):
    """Row i, column j of a CSR adjacency matrix is the edge i -> j."""
    return np.stack((np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), indices), axis=1)


def read_citation(path):
    z = np.load(path, allow_pickle=True)
    edges = rows_to_edges(z["adj_matrix.indptr"], z["adj_matrix.indices"])
    features = sp.csr_matrix((z["attr_matrix.data"], z["attr_matrix.indices"], z["attr_matrix.indptr"]),
                             z["attr_matrix.shape"])
    names = {"id": z["node_names"].tolist(), "class": z["class_names"].tolist()}
    return Source(len(z["labels"]), edges, False, features, z["labels"], names=names)


def read_csr(path):
    z = np.load(path)
    return Source(len(z["indptr"]) - 1, rows_to_edges(z["indptr"], z["indices"]))


def read_facebook(path):
    edges = np.loadtxt(os.path.join(path, "facebook_edges.csv"), np.int64, delimiter=",", skiprows=1)
    with open(os.path.join(path, "facebook_features.json"), encoding="utf-8") as f:
        bags = {int(k): sorted(set(v)) for k, v in json.load(f).items()}
    with open(os.path.join(path, "facebook_target.csv"), encoding="utf-8", newline="") as f:
        pages = {int(row["id"]): row for row in csv.DictReader(f)}
    n = len(pages)
    kinds, labels = np.unique([pages[i]["page_type"] for i in range(n)], return_inverse=True)
    names = {"class": kinds.tolist(), "name": [pages[i]["page_name"] for i in range(n)]}
    bags = [bags.get(i, []) for i in range(n)]
    indptr = np.concatenate(([0], np.cumsum([len(b) for b in bags])))
    indices = np.concatenate([np.array(b, np.int64) for b in bags])
    features = sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), (n, int(indices.max()) + 1))
    return Source(n, edges, True, features, labels, names=names)


def read_edge_list(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        edges = np.loadtxt(f, np.int64, delimiter="," if ".csv" in path else None, usecols=(0, 1))
    return Source(int(edges.max()) + 1, edges)


def read(name):
    path = source(name)
    if "heterophilous" in path:
        return read_heterophilous(path)
    if "citation" in path:
        return read_citation(path)
    if path.endswith("csr.npz"):
        return read_csr(path)
    return read_facebook(path) if name == "musae-facebook-page" else read_edge_list(path)


@pytest.fixture(scope="module")
def converted(dataset):
    """The source and the dataset's graph and manifest, read by pyarrow."""
    held = {}

    def converted(name):
        if name not in held:
            held.clear()
            held[name] = (read(name), *oracle.load(dataset(name)), dataset(name))
        return held[name]
    return converted


each = pytest.mark.parametrize("name", REAL)


@each
def test_edges(name, converted):
    want, g, content, path = converted(name)
    indptr, indices, number = want.csc()
    assert g.node_types == [("node", want.nodes)] and len(g.edge_types) == 1
    assert content["edge_types"][0]["count"] == len(g.indices) == EDGES[name]
    first, count = g.runs[0]
    assert np.array_equal(first, indptr[:-1]) and np.array_equal(count, np.diff(indptr))
    assert np.array_equal(g.indices, indices)
    for c in content["columns"]:
        if (c["owner"], c["name"]) == ("graph", "edge_id"):
            assert np.array_equal(oracle.column(path, c), number)


@each
def test_features(name, converted):
    want, g, _, _ = converted(name)
    if want.features is None:
        assert not any(c == "feature" for _, c in g.columns)
        return
    got = g.columns["node", "feature"]
    assert got.shape == want.features.shape
    if sp.issparse(want.features):
        assert not want.features.has_canonical_format or len(want.features.data) == want.features.nnz
        for row in range(0, len(got), 4096):
            assert np.array_equal(got[row:row + 4096], want.features[row:row + 4096].toarray())
    else:
        assert got.dtype == want.features.dtype and got.tobytes() == np.ascontiguousarray(want.features).tobytes()


@each
def test_labels_and_names(name, converted):
    want, g, content, path = converted(name)
    if want.labels is None:
        assert not any(c == "label" for _, c in g.columns)
    else:
        assert np.array_equal(g.columns["node", "label"], want.labels)
    tables = {c["name"]: c["parts"][0]["path"] for c in content["columns"] if c["dtype"] == "utf8"}
    assert {name: pa.ipc.open_file(pa.memory_map(str(path / file))).get_batch(0).column(0).to_pylist()
            for name, file in tables.items()} == want.names


@each
def test_splits(name, converted):
    want, _, content, path = converted(name)
    got = {(s["name"], s["index"]): oracle.column(path, s["sets"][0]) for s in content["splits"]}
    assert got.keys() == want.splits.keys()
    for split in got:
        assert np.array_equal(got[split], want.splits[split]), split


@pytest.mark.parametrize("name", [*GENERATED, *REAL])
def test_pyarrow_reads_every_file_in_place(name, dataset):
    files = sorted(dataset(name).rglob("*.arrow"))
    manifest = json.loads((dataset(name) / "dataset.json").read_text())["content"]
    parts = [p for array in [*manifest["columns"], *(s for split in manifest["splits"] for s in split["sets"])]
             for p in array["parts"]]
    assert sorted(str(f.relative_to(dataset(name))) for f in files) == sorted(p["path"] for p in parts)
    rows = {p["path"]: p["rows"] for p in parts}
    for file in files:
        allocated = pa.total_allocated_bytes()
        table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
        assert pa.total_allocated_bytes() == allocated, file
        table.validate(full=True)
        assert table.num_columns == 1 and table.column(0).null_count == 0
        assert table.num_rows == rows[str(file.relative_to(dataset(name)))]


@pytest.mark.parametrize("name", [*GENERATED, *REAL])
def test_check_finds_nothing(name, khop, dataset):
    run(khop, "check", dataset(name))


def test_symmetrised_graph_has_both_directions_once(khop, tmp_path):
    want = read_citation(source("cora_ml"))
    run(khop, "convert", source("cora_ml"), tmp_path / "both.khop", "--symmetrise")
    g, _ = oracle.load(tmp_path / "both.khop")
    src, dst = want.edges.T
    a = sp.csr_matrix((np.ones(len(src)), (dst, src)), (want.nodes, want.nodes))
    a = (a + a.T).tocsr()
    a.sort_indices()
    assert np.array_equal(g.runs[0][0], a.indptr[:-1]) and np.array_equal(g.indices, a.indices)


def test_columns_of_an_edge_list_follow_their_edges(khop, tmp_path):
    want = read("CollegeMsg")
    run(khop, "convert", source("CollegeMsg"), tmp_path / "c.khop", "--columns", "src,dst,time")
    g, content = oracle.load(tmp_path / "c.khop")
    (entry,) = [c for c in content["columns"] if (c["owner"], c["name"]) == ("edges", "time")]
    _, indices, number = want.csc()
    assert np.array_equal(g.indices, indices)
    time = np.loadtxt(source("CollegeMsg"), np.int64, usecols=2)
    assert np.array_equal(oracle.column(tmp_path / "c.khop", entry), time[number])


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
                                   ">f4", "bool"])
@pytest.mark.parametrize("order", "CF")
def test_features_of_every_dtype(dtype, order, khop, sample, tmp_path):
    rng = np.random.default_rng(3)
    edges, features = rng.integers(0, 40, (150, 2)), np.asarray(rng.integers(0, 100, (41, 3)), dtype, order=order)
    np.savetxt(tmp_path / "edges.txt", np.vstack((edges, [[40, 40]])), "%d")
    np.save(tmp_path / "x.npy", features)
    np.save(tmp_path / "y.npy", rng.integers(0, 4, 41).astype(np.int32))
    path = tmp_path / "out.khop"
    run(khop, "convert", tmp_path / "edges.txt", path, "--features", tmp_path / "x.npy", "--labels", tmp_path / "y.npy")
    run(khop, "check", path)
    g, _ = oracle.load(path)
    got = g.columns["node", "feature"]
    assert np.array_equal(got,
                          features) and got.dtype == (np.uint8 if dtype == "bool" else features.dtype.newbyteorder("<"))
    options = ["--fanouts", "3,2", "--batch-size", "10", "--seed", "1", "--seeds", "all"]
    assert [f"{n} {d}" for n, d in sample(path, *options)] == [
        " ".join(line.split()[::2]) for line in oracle.main([str(path), *options])]
