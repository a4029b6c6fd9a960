"""khop convert keeps every element: each real graph equals what NumPy, SciPy and the standard library read from the source."""
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
}


class Source:
    """A graph read without khop. edges: [m, 2] source and destination in the source's order; features dense or sparse."""

    def __init__(self, nodes, edges, undirected=False, features=None, labels=None, splits=None, first_id=0):
        self.nodes, self.edges, self.undirected = nodes, np.asarray(edges, np.int64) - first_id, undirected
        self.features, self.labels, self.splits = features, labels, splits or {}

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
    splits = {(name, i): np.flatnonzero(mask) for name in ("train", "val", "test") for i, mask in enumerate(z[name + "_masks"])}
    return Source(len(z["node_labels"]), z["edges"], True, z["node_features"], z["node_labels"], splits)


def read_citation(path):
    z = np.load(path, allow_pickle=True)
    adj, attr = (sp.csr_matrix((z[m + ".data"], z[m + ".indices"], z[m + ".indptr"]), z[m + ".shape"]) for m in ("adj_matrix", "attr_matrix"))
    edges = np.stack((np.repeat(np.arange(adj.shape[0]), np.diff(adj.indptr)), adj.indices), axis=1)
    return Source(adj.shape[0], edges, False, attr, z["labels"])


def read_facebook(path):
    edges = np.loadtxt(os.path.join(path, "facebook_edges.csv"), np.int64, delimiter=",", skiprows=1)
    with open(os.path.join(path, "facebook_features.json"), encoding="utf-8") as f:
        bags = {int(k): sorted(set(v)) for k, v in json.load(f).items()}
    with open(os.path.join(path, "facebook_target.csv"), encoding="utf-8", newline="") as f:
        kinds = {int(row["id"]): row["page_type"] for row in csv.DictReader(f)}
    n = len(kinds)
    bags = [bags.get(i, []) for i in range(n)]
    indptr = np.concatenate(([0], np.cumsum([len(b) for b in bags])))
    indices = np.concatenate([np.array(b, np.int64) for b in bags])
    features = sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), (n, int(indices.max()) + 1))
    return Source(n, edges, True, features, np.array([kinds[i] for i in range(n)]))


def read_edge_list(path, **options):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        edges = np.loadtxt(f, np.int64, delimiter="," if ".csv" in path else None, usecols=(0, 1))
    return Source(int(edges.max()) + 1, edges, **options)


def read(name):
    path = source(name)
    if "heterophilous" in path:
        return read_heterophilous(path)
    if "citation" in path:
        return read_citation(path)
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
def test_labels(name, converted):
    want, g, content, path = converted(name)
    if want.labels is None:
        assert not any(c == "label" for _, c in g.columns)
        return
    got = g.columns["node", "label"]
    if want.labels.dtype.kind == "U":
        names = strings(path, content, "class_names")
        got = np.array(names)[got]
    assert np.array_equal(got, want.labels)


def strings(path, content, name):
    (entry,) = [c for c in content["columns"] if c["dtype"] == "utf8" and c["name"] == name]
    return pa.ipc.open_file(pa.memory_map(str(path / entry["parts"][0]["path"]))).get_batch(0).column(0).to_pylist()


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
    parts = [p for array in [*manifest["columns"], *(s for split in manifest["splits"] for s in split["sets"])] for p in array["parts"]]
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
