"""Graphs of icebug-disk, as Ladybug exports them, are what NumPy makes of their arrays."""
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import run
from test_sources import Dataset, ordered

SCHEMA = """
CREATE NODE TABLE `user` (`name` STRING, `age` INT64, PRIMARY KEY(`name`)) WITH (storage='out', format='icebug-disk');
CREATE NODE TABLE City(id INT64, population DOUBLE, PRIMARY KEY(id)) WITH (storage = '');
CREATE REL TABLE follows(FROM user TO user, since INT64, w DOUBLE, MANY_MANY) WITH (storage = '');
CREATE REL TABLE lives_in(FROM user TO City, since INT64);
"""


def csr(folder, name, rng, sources, targets, edges, ptr, target):
    """Writes edges of which a third of the sources has none, and returns them."""
    src = np.sort(rng.choice(rng.permutation(sources)[:2 * sources // 3], edges))
    dst, since, w = rng.integers(0, targets, edges), rng.integers(0, 1 << 50, edges), rng.random(edges)
    columns = {"target": pa.array(dst, target), "since": since} | ({"w": w} if name == "follows" else {})
    starts = np.searchsorted(src, np.arange(sources + 1))
    pq.write_table(pa.table({"ptr": pa.array(starts, ptr)}), folder / f"indptr_{name}.parquet", row_group_size=17)
    pq.write_table(pa.table(columns), folder / f"indices_{name}.parquet", row_group_size=23)
    return src, dst, since, w


@pytest.mark.parametrize("ptr", ["int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint64"])
def test_any_width_of_offsets_and_targets(khop, tmp_path, ptr, target):
    rng = np.random.default_rng(8)
    users, cities = 120, 11
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "schema.cypher").write_text(SCHEMA)
    age = pa.array([None if i % 3 == 0 else i for i in range(users)], pa.int64())
    names = [f"user {7 * i % users}" for i in range(users)]
    pq.write_table(pa.table({"name": names, "age": age}), tmp_path / "g" / "nodes_user.parquet")
    ids, population = rng.permutation(1000)[:cities], rng.random(cities)
    pq.write_table(pa.table({"id": ids, "population": population}), tmp_path / "g" / "nodes_city.parquet")
    want = {"follows": csr(tmp_path / "g", "follows", rng, users, users, 3000, ptr, target),
            "lives_in": csr(tmp_path / "g", "lives_in", rng, users, cities, 200, ptr, target)}

    d = Dataset(khop, tmp_path / "g", tmp_path / "g.khop", "--max-memory", "64MB")
    assert d.names("id") == names and np.array_equal(d.column("City", "id"), ids)
    np.testing.assert_array_equal(d.column("user", "age"), age.to_numpy(zero_copy_only=False))
    np.testing.assert_array_equal(d.column("City", "population"), population)
    for relation, end in (("follows", "user"), ("lives_in", "City")):
        src, dst, since, w = want[relation]
        got, at = d.edges("user", relation, end)
        assert np.array_equal(got, np.stack((src, dst))[:, ordered(src, dst)])
        have = np.lexsort((d.column("edges", "since")[at], *got))
        mine = np.lexsort((since, src, dst))
        assert np.array_equal(got[:, have], np.stack((src, dst))[:, mine])
        assert np.array_equal(d.column("edges", "since")[at][have], since[mine])
        if relation == "follows":
            assert np.array_equal(d.column("edges", "w")[at][have], w[mine])


def test_offsets_and_targets_that_do_not_fit(khop, tmp_path):
    """An error names the file and the row."""
    rng = np.random.default_rng(9)
    g = tmp_path / "g"
    g.mkdir()
    (g / "schema.cypher").write_text("CREATE NODE TABLE n(id INT64, PRIMARY KEY(id)); CREATE REL TABLE e(FROM n TO n);")
    pq.write_table(pa.table({"id": range(9)}), g / "nodes_n.parquet")
    csr(g, "e", rng, 9, 9, 40, "int64", "int64")
    starts, targets = (pq.read_table(g / f"{name}_e.parquet") for name in ("indptr", "indices"))

    def said(file, column, row, value):
        table = pq.read_table(g / f"{file}_e.parquet")
        values = table[column].to_numpy().copy()
        values[row] = value
        i = table.schema.get_field_index(column)
        pq.write_table(table.set_column(i, column, pa.array(values)), g / f"{file}_e.parquet")
        text = run(khop, "convert", g, tmp_path / "d", fails=True)
        pq.write_table(starts, g / "indptr_e.parquet")
        pq.write_table(targets, g / "indices_e.parquet")
        return text

    assert 'indices_e.parquet: column "target": row 25: 9 is not a node of "n"' in said("indices", "target", 25, 9)
    assert 'indices_e.parquet: column "target": row 3: -1 is not a node of "n"' in said("indices", "target", 3, -1)
    assert 'indptr_e.parquet: column "ptr": row 9: the last offset is 41' in said("indptr", "ptr", 9, 41)
    assert 'indptr_e.parquet: column "ptr": row 4: the offset 0 is below' in said("indptr", "ptr", 4, 0)
    assert not (tmp_path / "d").exists()
    run(khop, "convert", g, tmp_path / "d")
