"""Folders of parts, as Spark, Dask, polars and DuckDB write tables, are what pyarrow.dataset makes of them."""
import urllib.parse

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from test_sources import Dataset, ordered


def write(table, path, kind):
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "csv":
        pa.csv.write_csv(table, path.with_suffix(".csv"))
    elif kind == "arrow":
        pa.feather.write_feather(table, str(path.with_suffix(".arrow")), compression="uncompressed")
    else:
        pq.write_table(table, path.with_suffix(".parquet"))


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow"])
def test_folders_with_keys(khop, tmp_path, kind):
    """Keys of folders are columns: of numbers, of which some are missing, and of text with signs that names forbid.
    A part has no value in a column, another has no row, and programs left files beside them."""
    rng = np.random.default_rng(5)
    regions = ["a/b", "c d", "é%", "x=y", None]
    year, region = rng.integers(1990, 1993, 900), rng.integers(0, len(regions), 900)
    users = pa.table({"id": rng.permutation(9000)[:900], "x": rng.random(900)})
    root = tmp_path / "users"
    for y in (1990, 1991, 1992):
        for r, name in enumerate(regions):
            value = "__HIVE_DEFAULT_PARTITION__" if name is None else urllib.parse.quote(name, safe="")
            part = users.filter(pa.array((year == y) & (region == r)))
            if (y, r) == (1991, 2) and kind != "csv":
                part = part.set_column(1, "x", pa.nulls(len(part)))
            for i in range(0, len(part) + 1, 7):
                write(part.slice(i, 7), root / f"year={y}" / f"region={value}" / f"part-{i // 7}", kind)
    (root / "_SUCCESS").write_text("")
    (root / ".part-0.crc").write_text("crc")
    follows = pa.table({"src": users["id"].take(rng.integers(0, 900, 4000)),
                        "dst": users["id"].take(rng.integers(0, 900, 4000)), "w": rng.random(4000)})
    for i in range(0, 4000, 350):
        write(follows.slice(i, 350), tmp_path / "follows" / f"data_{i // 350}", kind)
    (tmp_path / "graph.yaml").write_text("nodes: {user: {file: users/, label: region, columns: [x, year]}}\n"
                                         "edges: {follows: {file: follows, weight: w}}")
    d = Dataset(khop, tmp_path / "graph.yaml", tmp_path / "g.khop")

    schema = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("year", pa.int32()), ("region", pa.string())])
    want = pa.dataset.dataset(root, schema, format=kind, partitioning="hive").to_table()
    order, mine = want["id"].to_numpy().argsort(), d.column("user", "id").argsort()
    want = want.take(pa.array(order))
    assert len(want) == 900 and np.array_equal(d.column("user", "id")[mine], want["id"])
    np.testing.assert_array_equal(d.column("user", "x")[mine], want["x"].to_numpy(zero_copy_only=False))
    assert np.array_equal(d.column("user", "year")[mine], want["year"])
    names = np.append(np.array(d.names("class"), object), None)
    assert names[d.column("user", "label")[mine]].tolist() == want["region"].to_pylist()

    number = {key: i for i, key in enumerate(d.column("user", "id").tolist())}
    src, dst = ([number[v.as_py()] for v in follows[end]] for end in ("src", "dst"))
    at = ordered(np.array(src), np.array(dst))
    got, where = d.edges("user", "follows", "user")
    assert np.array_equal(got, np.stack((src, dst))[:, at])
    weight = np.sort(d.column("edges", "weight")[where])
    np.testing.assert_array_equal(weight, np.sort(follows["w"].to_numpy()))


def test_a_folder_of_parts_of_edges(khop, tmp_path):
    """It needs no mapping; parts are read in the order in which people count, and 0, 1, .. are the nodes."""
    rng = np.random.default_rng(6)
    edges = pa.table({"src": rng.integers(0, 50, 600), "dst": rng.integers(0, 50, 600), "n": np.arange(600)})
    for i in range(12):
        write(edges.slice(50 * i, 50), tmp_path / "knows" / f"day={i % 2}" / f"data_{i}", "parquet")
    d = Dataset(khop, tmp_path / "knows", tmp_path / "g.khop")
    got, where = d.edges("node", "edge", "node")
    want = pa.dataset.dataset(tmp_path / "knows", partitioning="hive").to_table()
    key = d.column("edges", "n")[where].argsort()
    want = want.take(pa.array(want["n"].to_numpy().argsort()))
    assert np.array_equal(got[:, key], np.stack((want["src"], want["dst"])))
    assert np.array_equal(d.column("edges", "day")[where][key], want["day"])


def test_decimals_of_parts_have_their_own_scale(khop, tmp_path):
    """Parts of one table may write decimals with different numbers of digits."""
    from decimal import Decimal
    for i, scale in enumerate((2, 4)):
        price = pa.array([Decimal("1.25"), Decimal("-3.5")], pa.decimal128(9, scale))
        write(pa.table({"src": [0, 1], "dst": [1, 0], "price": price}), tmp_path / "edges" / f"part-{i}", "parquet")
    d = Dataset(khop, tmp_path / "edges", tmp_path / "g.khop")
    assert sorted(d.column("edges", "price")) == [-3.5, -3.5, 1.25, 1.25]
