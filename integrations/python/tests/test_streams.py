"""Arrow streams into khop, from whatever library is here, and out of it. None of it needs pyarrow."""
import errno
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

import khop
import khop.relational
from conftest import PATIENCE
from khop._native import arrow, producer

EVERY = ["polars", "duckdb", "pyarrow", "pandas"]


class Columns:
    """A table of NumPy arrays, by khop's own producer."""

    def __init__(self, columns):
        self.columns = columns

    def __arrow_c_stream__(self, requested_schema=None):
        return producer.stream(self.columns)


class OneArray(Columns):
    """The same as one array, as some libraries hand tables out."""

    __arrow_c_stream__ = property()

    def __arrow_c_array__(self, requested_schema=None):
        schema = producer._described("+s", "", [producer._schema(n, v) for n, v in self.columns.items()])
        return (arrow.capsule(arrow.move(arrow.Schema, schema), arrow.SCHEMA),
                arrow.capsule(producer._batch(self.columns), arrow.ARRAY))


@pytest.fixture(params=EVERY)
def library(request):
    if request.param == "pandas":  # hands out no stream without pyarrow
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return pytest.importorskip(request.param, reason=f"{request.param} is not installed")


def read(library, file):
    """The table of a Parquet file."""
    if library.__name__ == "duckdb":
        return library.connect().sql(f"from '{file}'")
    if library.__name__ == "pyarrow":
        return pytest.importorskip("pyarrow.parquet").read_table(file)
    return library.read_parquet(file)


@pytest.fixture
def duckdb():
    return pytest.importorskip("duckdb", reason="duckdb is not installed").connect()


@pytest.fixture
def tables(duckdb, tmp_path):
    """Parquet files of a small shop, of types and missing values of many kinds."""
    duckdb.sql("""create table users as select 'u'||range as name, 20+range%50 as age,
        ['A','B',null][1+range%3] as city, (range%7=0) as member,
        [range, range+1.5]::float[2] as emb,
        case when range%9=3 then null else timestamp '2020-01-01' + interval (range) day end as since,
        range::decimal(9,2) as spent, case when range%5=0 then null else range end as points from range(100)""")
    duckdb.sql("""create table orders as select 'u'||(range%97) as buyer, 'u'||(range*7%100) as seller,
        range/2 as price, timestamptz '2021-01-01 00:00:00+02' + interval (range) hour as at,
        date '2021-01-01' as day, (range*1000003)::uinteger as code from range(900)""")
    files = {}
    for name in ("users", "orders"):
        files[name] = str(tmp_path / f"{name}.parquet")
        duckdb.sql(f"copy {name} to '{files[name]}'")
    return files


def content(path):
    """What a dataset holds: its manifest, with checksums of all arrays."""
    manifest = json.loads(pathlib.Path(path, "dataset.json").read_text())["content"]
    return manifest


def as_graph(users, orders):
    return {"nodes": {"user": {"file": users, "id": "name", "label": "city", "features": ["age", "emb", "spent"],
                               "time": "since", "columns": ["member"]}},
            "edges": {"sold": {"file": orders, "src": "seller", "dst": "buyer", "columns": ["price", "at", "code"]}}}


@pytest.mark.filterwarnings("ignore::khop.KhopWarning")
def test_a_graph_of_streams_is_that_of_parquet(library, tables, program, tmp_path):
    khop.write(tmp_path / "a.khop", as_graph(*[read(library, f) for f in tables.values()]))
    khop.write(tmp_path / "b.khop", as_graph(*tables.values()))
    assert content(tmp_path / "a.khop") == content(tmp_path / "b.khop")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.khop", "b.khop", "orders.parquet", "users.parquet"]


def of_shop(make, tables):
    return {name: make(file) for name, file in tables.items()}, {
        "primary_keys": {"users": "name"}, "keys": {"orders": {"buyer": "users", "seller": "users"}},
        "times": {"orders": "at"}, "test_timestamp": "2021-01-20", "tasks": {"spends": {
            "task_type": "regression", "entity_table": "users", "entity_col": "buyer", "time_col": "at",
            "target_col": "price", "train": make(tables["orders"])}}}


@pytest.mark.filterwarnings("ignore::khop.KhopWarning")
def test_a_database_of_streams_is_that_of_parquet(library, tables, program, tmp_path):
    for name, make in (("a", lambda file: read(library, file)), ("b", str)):
        data, about = of_shop(make, tables)
        khop.relational.write(tmp_path / f"{name}.khop", data, **about)
    assert content(tmp_path / "a.khop") == content(tmp_path / "b.khop")
    about = khop.info(tmp_path / "a.khop")
    assert [s["name"] for s in about["splits"]] == ["spends:train"]
    assert {e["relation"] for e in about["edge_types"]} == {
        "f2p_buyer", "rev_f2p_buyer", "f2p_seller", "rev_f2p_seller"}


@pytest.mark.parametrize("wrong, error, says", [
    ({"keys": {"orders": {"buyer": "people"}}}, ValueError, r"keys\['orders'\]\['buyer'\]: there is no table 'people'"),
    ({"times": {"sales": "at"}}, ValueError, "times: there is no table 'sales'; there are: users, orders"),
    ({"times": {"orders": "when"}}, khop.WriteError, "orders.parquet: .*when"),
    ({"keys": {}}, khop.WriteError, "no table has a foreign key"),
])
def test_what_is_wrong_with_a_database_is_named(wrong, error, says, tables, program, tmp_path):
    data, about = of_shop(str, tables)
    with pytest.raises(error, match=says):
        khop.relational.write(tmp_path / "a.khop", data, **{**about, **wrong})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["orders.parquet", "users.parquet"]


def test_tables_may_have_any_names(program, tmp_path):
    users = Columns({"id": np.arange(3)})
    orders = Columns({"user": np.arange(3), "friend": np.array([1, 2, 0])})
    khop.relational.write(tmp_path / "a.khop", {"my users": users, "my_users": users, "my/users": orders},
                          primary_keys={"my users": "id", "my_users": "id"},
                          keys={"my/users": {"user": "my users", "friend": "my_users"}})
    types = {n["name"]: n["count"] for n in khop.info(tmp_path / "a.khop")["node_types"]}
    assert types == {"my users": 3, "my_users": 3, "my/users": 3}


def test_a_table_that_is_no_table_is_refused(program, tmp_path):
    with pytest.raises(TypeError, match="users: int is not a table"):
        khop.relational.write(tmp_path / "a.khop", {"users": 3})
    with pytest.raises(khop.WriteError, match="users: there is no file .*nobody"):
        khop.relational.write(tmp_path / "a.khop", {"users": "nobody.parquet"})


@pytest.mark.skipif(not os.environ.get("KHOP_TESTDATA"), reason="KHOP_TESTDATA is not set: no real graphs")
@pytest.mark.filterwarnings("ignore::khop.KhopWarning")
def test_a_real_database_is_the_same_from_every_library(library, program, tmp_path):
    yaml = pytest.importorskip("yaml")
    source = pathlib.Path(os.environ["KHOP_TESTDATA"], "nycflights13")
    about = yaml.safe_load((source / "manifest.yaml").read_text())
    of = about["tables"]

    def write(path, make):
        tasks = {}
        for folder in sorted((source / "tasks").iterdir()):
            task = yaml.safe_load((folder / "manifest.yaml").read_text())
            tasks[task["name"]] = {**task, **{s: make(folder / f"{s}.parquet") for s in ("train", "val", "test")}}
        khop.relational.write(
            path, {name: make(source / "db" / f"{name}.parquet") for name in of}, tasks=tasks,
            primary_keys={n: t["pkey"] for n, t in of.items()}, keys={n: t["fkeys"] for n, t in of.items()},
            times={n: t["time_col"] for n, t in of.items() if t["time_col"]},
            val_timestamp=about["val_timestamp"], test_timestamp=about["test_timestamp"])
    write(tmp_path / "a.khop", lambda file: read(library, file))
    khop_of_folder = tmp_path / "b.khop"
    subprocess.run([program, "convert", source, khop_of_folder], check=True, capture_output=True)
    assert content(tmp_path / "a.khop") == content(khop_of_folder)


@pytest.mark.parametrize("form", [Columns, OneArray])
def test_a_table_of_any_library_makes_a_graph(form, program):
    rng = np.random.default_rng(3)
    ends = rng.integers(0, 50, (2, 300))
    columns = {"src": ends[0], "dst": ends[1].astype(np.uint16), "weight": rng.random(300)}
    with khop.Loader(form(columns), [-1], batch_size=50, framework="numpy", edge_columns=["weight"]) as loader:
        batch = next(iter(loader))
    got = zip(*batch.n_id[batch.edge_index], batch["node", "to", "node"]["weight"])
    assert sorted(map(tuple, got)) == sorted(zip(*ends, columns["weight"]))


def test_arrays_may_be_streams(program):
    """Of a graph's arrays, seeds and their times."""
    seeds = Columns({"id": np.array([5, 3, 4], np.uint8)})
    graph = {"node": {"x": Columns({"x": np.arange(6.)}), "time": np.arange(6)},
             ("node", "to", "node"): {"edge_index": np.array([[0, 1, 2], [3, 4, 5]])}}
    with khop.Loader(graph, [-1], batch_size=3, seeds=seeds, framework="numpy", sampler="temporal", node_time="time",
                     input_time=Columns({"t": np.array([9, 9, 9])})) as loader:
        batch = next(iter(loader))
    assert batch.n_id[:3].tolist() == [5, 3, 4] and batch.x[:3].ravel().tolist() == [5, 3, 4]


@pytest.mark.parametrize("columns, says", [
    ({"id": producer.Sparse(np.arange(3), np.array([True, False, False]))}, "2 of 3 numbers are missing"),
    ({"id": ["a", "b"]}, "does not hold numbers"),
    ({"id": np.arange(3), "other": np.arange(3)}, "a table of 2 columns"),
])
def test_streams_that_are_no_seeds_are_refused(columns, says, program):
    with pytest.raises(ValueError, match=says):
        khop.Loader({"edge_index": np.array([[0, 1], [1, 2]])}, [2], seeds=Columns(columns))


def test_a_stream_can_be_read_once(program, tmp_path):
    class Spent(Columns):
        def __init__(self, columns):
            self.capsule = producer.stream(columns)

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule
    table = Spent({"src": np.arange(3), "dst": np.arange(3)})
    khop.write(tmp_path / "a.khop", table)
    with pytest.raises(khop.WriteError, match="^edges.to: the stream was read already"):
        khop.write(tmp_path / "b.khop", table)


def test_a_column_that_is_not_read_is_named(program, tmp_path, monkeypatch):
    monkeypatch.setitem(producer.FORMATS, "f8", "d:9,2,32")  # a decimal of 32 bits
    with pytest.raises(khop.WriteError, match='edges.to: the column "price" is of Arrow\'s type "d:9,2,32"'):
        khop.write(tmp_path / "a.khop", Columns({"src": np.arange(3), "dst": np.arange(3), "price": np.arange(3.)}))
    assert not list(tmp_path.iterdir())


def test_a_column_alone_is_no_table(program, tmp_path):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    with pytest.raises(khop.WriteError, match="that of a table: this is a single column"):
        khop.write(tmp_path / "a.khop", {"nodes": {}, "edges": {"to": {"file": polars.Series([1, 2])}}})


class Failing(Columns):
    """Batch after batch, until one fails."""

    def __init__(self, columns, batches):
        super().__init__(columns)
        self.left = batches

    def __arrow_c_stream__(self, requested_schema=None):
        capsule = producer.stream(self.columns)
        stream = arrow.Stream.from_address(arrow.pointer(capsule, arrow.STREAM))

        def get_next(_, out):
            self.left -= 1
            if self.left < 0:
                return errno.EIO
            out[0] = arrow.move(arrow.Array, producer._batch(self.columns))
            return 0
        self.get_next = arrow.GetNext(get_next)
        stream.get_next = self.get_next
        return capsule


def test_an_interrupt_ends_a_long_stream_and_leaves_nothing(duckdb, program, tmp_path):
    """In a process of its own, whose signals nobody else handles. 200 million rows are 3 GB."""
    code = ("import signal, sys, duckdb, khop\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "khop.write(sys.argv[1], duckdb.sql('select range as src, range as dst from range(200000000)'))\n")
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path / "a.khop"], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not any(
            file.stat().st_size > 10 << 20 for file in tmp_path.glob(".*/*.arrow")):
        pass
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=PATIENCE)[1] and process.returncode
    assert not list(tmp_path.iterdir())


def test_a_stream_that_fails_says_so_and_leaves_nothing(program, tmp_path):
    table = Failing({"src": np.arange(9), "dst": np.arange(9)}, 3)
    with pytest.raises(khop.WriteError, match="edges.to: the stream has failed: input/output error"):
        khop.write(tmp_path / "a.khop", table)
    assert not list(tmp_path.iterdir())


def test_what_a_stream_refers_to_is_freed(program, tmp_path):
    table = {"src": np.arange(9), "dst": np.arange(9), "x": ["a"] * 9}
    gc.collect()
    before = len(producer._held), len(arrow._structs)
    for i in range(3):
        khop.write(tmp_path / f"{i}.khop", Columns({**table, "x": np.arange(9)}))
        producer.stream(table)  # which nobody reads
    gc.collect()
    assert (len(producer._held), len(arrow._structs)) == before


# --- out ---

@pytest.fixture
def shop(tables, program, tmp_path):
    with pytest.warns(khop.KhopWarning):
        khop.write(tmp_path / "shop.khop", as_graph(*tables.values()))
    return khop.Dataset(tmp_path / "shop.khop")


def lists(library, table):
    """A stream's columns, as lists, by a library."""
    if library.__name__ == "polars":
        return library.DataFrame(table).to_dict(as_series=False)
    if library.__name__ == "duckdb":
        got = library.connect().sql("from table_of").fetchall() if (table_of := table) else []
        return {name: [row[i] for row in got] for i, name in enumerate(khop._native.streams.names(table))}
    if library.__name__ == "pandas":
        library = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = library.table(table)
    table.validate(full=True)
    return table.to_pydict()


def test_libraries_read_the_nodes_and_edges_of_a_dataset(library, shop, duckdb, tables):
    got = lists(library, shop.nodes("user"))
    want = duckdb.sql(f"select name, age, emb, spent, since, member from '{tables['users']}'").fetchall()
    assert got["n_id"] == list(range(100)) and got["id"] == [r[0] for r in want]
    assert [list(f) for f in got["feature"]] == [[float(r[1]), *r[2], float(r[3])] for r in want]
    assert [t and t.replace(tzinfo=None) for t in got["time"]] == [r[4] for r in want]
    edges = lists(library, shop.edges("user", "sold", "user"))
    names = got["id"]
    rows = duckdb.sql(f"select seller, buyer, price, code from '{tables['orders']}'").fetchall()
    assert sorted(zip((names[i] for i in edges["src"]), (names[i] for i in edges["dst"]), edges["price"],
                      edges["code"])) == sorted(rows)
    assert shop.nodes().column_names == [*got] and len(shop.edges("sold")) == len(rows)


def test_libraries_read_the_columns_of_a_dataset(library, shop):
    got = lists(library, shop.columns)
    assert {*zip(got["owner"], got["name"], got["dtype"], got["shape"])} >= {
        ("user", "feature", "float32", "4"), ("user", "time", "int64", ""), ("user:sold:user", "price", "float64", "")}


def test_libraries_read_batches(library, shop):
    with khop.Loader(shop.path, [4, 3], batch_size=16, framework="numpy", edge_columns=["price"]) as loader:
        for batch in loader:
            got, edges = lists(library, batch), lists(library, batch["user", "sold", "user"])
            assert got["n_id"] == batch.n_id.tolist()
            assert np.array_equal(np.array(got["feature"], np.float32), batch.x)
            assert got["label"] == [*batch.y.tolist(), *[None] * (batch.num_nodes - batch.batch_size)]
            assert [edges["src"], edges["dst"]] == batch.n_id[batch.edge_index].tolist()
            assert edges["price"] == batch["user", "sold", "user"]["price"].tolist()


def test_a_batch_of_bfloat16_is_float32(program, tmp_path):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    khop.write(tmp_path / "a.khop", {"edge_index": np.array([[0, 1, 2], [3, 4, 5]]), "x": x}, feature_dtype="bfloat16")
    with khop.Loader(tmp_path / "a.khop", [2], batch_size=6, framework="numpy") as loader:
        table = polars.DataFrame(next(iter(loader)))
    assert np.array_equal(table["feature"].to_numpy(), x[table["n_id"].to_numpy()])
    assert np.array_equal(polars.DataFrame(khop.Dataset(tmp_path / "a.khop").nodes())["feature"].to_numpy(), x)


def test_a_batch_of_several_types_says_which_tables_it_has(dataset):
    with khop.Loader(dataset("typed"), [2], batch_size=8, framework="numpy") as loader:
        batch = next(iter(loader))
        with pytest.raises(AttributeError, match="say which"):
            batch.__arrow_c_stream__()
    with pytest.raises(KeyError, match="there is no node type 'nobody'; there are: "):
        khop.Dataset(dataset("typed")).nodes("nobody")
    with pytest.raises(KeyError, match="0 edge types are .'nobody',.; there are: "):
        khop.Dataset(dataset("typed")).edges("nobody")


def mapped(path):
    return sum(str(path) in line for line in open("/proc/self/maps"))


def test_a_dataset_is_mapped_as_long_as_somebody_reads_it(shop):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    nodes = polars.DataFrame(shop.nodes())
    feature = nodes["feature"]
    del nodes
    gc.collect()
    assert mapped(shop.path), "columns are no copies"
    assert feature.to_numpy()[7].tolist() == [27, 7, 8.5, 7]
    del feature
    polars.DataFrame(shop.edges())  # copies
    capsule = shop.nodes().__arrow_c_stream__()  # which nobody reads
    assert mapped(shop.path)
    del capsule
    gc.collect()
    assert not mapped(shop.path)


def test_strided_columns_are_read_as_they_are(program, tmp_path):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    x = np.random.default_rng(1).random((300, 5), np.float32)
    ends = np.random.default_rng(2).integers(0, 300, (2, 900))
    khop.write(tmp_path / "a.khop", {"edge_index": ends, "x": x}, row_stride=64)
    assert np.array_equal(polars.DataFrame(khop.Dataset(tmp_path / "a.khop").nodes())["feature"].to_numpy()[:, :5], x)


def test_a_damaged_dataset_is_an_error_of_its_stream(shop):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    file = next(p for p in pathlib.Path(shop.path).rglob("*") if p.is_file() and "feature" in p.name)
    data = bytearray(file.read_bytes())
    data[-200] ^= 1
    file.write_bytes(data)
    with pytest.raises(Exception, match="checksum|corrupt|damaged"):
        polars.DataFrame(shop.nodes())


def test_what_is_left_at_the_end_does_no_harm(shop):
    pytest.importorskip("polars", reason="polars is not installed")
    code = ("import sys, threading, khop, polars\n"
            "d = khop.Dataset(sys.argv[1])\n"
            "a, b, c = polars.DataFrame(d.nodes()), polars.DataFrame(d.columns), d.nodes().__arrow_c_stream__()\n"
            "loader = khop.Loader(sys.argv[1], [2], batch_size=8)\n"
            "e = polars.DataFrame(next(iter(loader)))\n"
            "threading.Thread(target=lambda: e.sum(), daemon=True).start()\n"
            "print(a.height + b.height)\n")
    done = subprocess.run([sys.executable, "-c", code, shop.path], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert int(done.stdout) == 100 + 8
