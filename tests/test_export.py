"""khop export: each array equals what NumPy makes of the dataset's own files, which pyarrow reads."""

import json

import numpy as np
import pyarrow.ipc
import pyarrow.parquet as parquet
import pytest

from conftest import run


def column(data, path):
    table = pyarrow.ipc.open_file(str(data / path)).read_all()
    return np.array(table.column(0).to_pylist())


def own_edges(data):
    indptr, indices = column(data, "graph/indptr.arrow"), column(data, "graph/indices.arrow")
    return np.stack([indices, np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))])


@pytest.fixture(scope="module")
def plain(khop, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(1)
    (folder / "edges.txt").write_text("src dst time weight\n" + "".join(
        f"{a} {b} {t} {t / 8}\n" for a, b, t in zip(*rng.integers(0, 50, (3, 300)))))
    np.save(folder / "x.npy", rng.standard_normal((50, 3)).astype(np.float32))
    np.save(folder / "y.npy", rng.integers(0, 4, 50))
    run(khop, "convert", folder / "edges.txt", folder / "data.khop", "--features", folder / "x.npy", "--labels",
        folder / "y.npy")
    return folder / "data.khop"


def test_numpy(khop, plain, tmp_path):
    run(khop, "export", plain, tmp_path / "out", "--to", "numpy")
    read = lambda name: np.load(tmp_path / "out" / f"{name}.npy")
    assert np.array_equal(read("edge_index"), own_edges(plain))
    assert read("num_nodes") == 50
    for name, path in {"edge_time": "graph/time", "edge_weight": "graph/weight", "node_feat": "nodes/n0/feature",
                       "node_label": "nodes/n0/label"}.items():
        assert np.array_equal(read(name), column(plain, path + ".arrow")), name


def test_npz_by_the_names_of_pyg(khop, plain, tmp_path):
    run(khop, "export", plain, tmp_path / "out.npz", "--to", "npz")
    with np.load(tmp_path / "out.npz") as arrays:
        assert set(arrays) == {"edge_index", "num_nodes", "edge_time", "edge_weight", "x", "y"}
        assert np.array_equal(arrays["edge_index"], own_edges(plain)) and arrays["edge_index"].dtype == np.int64
        assert np.array_equal(arrays["x"], column(plain, "nodes/n0/feature.arrow"))


def test_types_and_names_and_small_floats(khop, tmp_path):
    (tmp_path / "edges.txt").write_text("u1 i1 5\nu2 i1 3\nu1 i2 1\n")
    run(khop, "convert", tmp_path / "edges.txt", tmp_path / "data.khop", "--columns", "src:user,dst:item,rating",
        "--ids", "names")
    run(khop, "export", tmp_path / "data.khop", tmp_path / "out", "--to", "numpy")
    read = lambda name: np.load(tmp_path / "out" / f"{name}.npy")
    users, items = read("nodes/user/names_id"), read("nodes/item/names_id")
    edges, rating = read("edges/user__edge__item/edge_index"), read("edges/user__edge__item/edge_rating")
    assert {(users[a], items[b], r) for a, b,
            r in zip(*edges, rating)} == {("u1", "i1", 5), ("u2", "i1", 3), ("u1", "i2", 1)}


def test_parquet(khop, plain, tmp_path):
    run(khop, "export", plain, tmp_path / "out", "--to", "parquet")
    nodes, edges = (
        parquet.read_table(tmp_path / "out" / f"{name}.parquet") for name in ("nodes_node", "edges_node__edge__node"))
    assert nodes.column_names == ["id", "feature", "label"] and edges.column_names == ["src", "dst", "time", "weight"]
    assert np.array_equal(np.stack([edges["src"], edges["dst"]]), own_edges(plain))
    assert np.array_equal(edges["weight"], column(plain, "graph/weight.arrow"))
    assert np.array_equal(np.array(nodes["feature"].to_pylist(), np.float32), column(plain, "nodes/n0/feature.arrow"))
    assert np.array_equal(nodes["label"], column(plain, "nodes/n0/label.arrow"))


def test_graphbolt(khop, plain, tmp_path):
    run(khop, "generate", "sbm", tmp_path / "sbm.khop", "--nodes", "200", "--edges", "900")
    run(khop, "export", tmp_path / "sbm.khop", tmp_path / "out", "--to", "graphbolt")
    meta = json.loads((tmp_path / "out/metadata.yaml").read_text())  # JSON is YAML
    read = lambda entry: np.load(tmp_path / "out" / entry["path"])
    assert meta["graph"]["nodes"] == [{"num": 200}]
    assert np.array_equal(read(meta["graph"]["edges"][0]), own_edges(tmp_path / "sbm.khop"))
    labels = column(tmp_path / "sbm.khop", "nodes/n0/label.arrow")
    assert {f["name"] for f in meta["feature_data"]} == {"feature", "label"}
    (task,) = meta["tasks"]
    for name, split in {"train_set": "train", "validation_set": "val", "test_set": "test"}.items():
        seeds, of = (read(d) for d in task[name][0]["data"])
        assert np.array_equal(seeds, column(tmp_path / "sbm.khop", f"splits/node/{split}.arrow"))
        assert np.array_equal(of, labels[seeds])


@pytest.mark.parametrize("to", ["numpy", "npz", "parquet", "graphar"])
def test_several_splits_come_back(khop, to, tmp_path):
    rng = np.random.default_rng(2)
    np.savez(tmp_path / "g.npz", edges=rng.integers(0, 50, (300, 2)),
             node_features=rng.standard_normal((50, 3)).astype(np.float32),
             node_labels=rng.integers(0, 4, 50),
             **{f"{name}_masks": rng.random((12, 50)) < 0.3 for name in ("train", "val", "test")})
    out = tmp_path / ("out.npz" if to == "npz" else "out")
    run(khop, "convert", tmp_path / "g.npz", tmp_path / "first.khop")
    run(khop, "export", tmp_path / "first.khop", out, "--to", to)
    run(khop, "convert", out, tmp_path / "again.khop")
    first, again = (json.loads((tmp_path / name / "dataset.json").read_text()) for name in ("first.khop", "again.khop"))
    assert again["id"] == first["id"] and len(again["content"]["splits"]) == 36


@pytest.mark.parametrize("options", [[], ["--relations-as-types"]])
def test_links_come_back_from_arrays(khop, options, tmp_path):
    """Triples to learn and to predict, as edges of one type with a column, and of several types."""
    (tmp_path / "g").mkdir()
    rng = np.random.default_rng(3)
    for name in ("train", "valid", "test"):
        rows = "".join(f"n{a}\tr{r}\tn{b}\n" for a, r, b in rng.integers(0, 6, (40, 3)))
        (tmp_path / "g" / f"{name}.txt").write_text(rows)
    run(khop, "convert", tmp_path / "g", tmp_path / "first.khop", *options)
    run(khop, "export", tmp_path / "first.khop", tmp_path / "out", "--to", "numpy")
    run(khop, "convert", tmp_path / "out", tmp_path / "again.khop")
    splits = []
    for name in ("first.khop", "again.khop"):
        content = json.loads((tmp_path / name / "dataset.json").read_text())["content"]
        types = content["edge_types"]
        splits.append({(s["name"], types[x["edge_type"]]["relation"],
                        x["end"]): column(tmp_path / name, x["parts"][0]["path"]).tolist()
                       for s in content["splits"] if s["task"] == "link" for x in s["sets"]})
    assert splits[0] == splits[1] and len(splits[0]) >= 4
