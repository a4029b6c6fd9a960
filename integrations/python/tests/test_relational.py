"""A database's tasks in Python, and its tables as in PyTorch Frame."""
import datetime
import decimal
import subprocess

import numpy as np
import pytest

import khop
from conftest import run
from khop._native import library as _library

MANIFEST = """name: shop
val_timestamp: '2024-01-05'
test_timestamp: '2024-01-08'
tables:
  users: {pkey: user, time_col: null, fkeys: {}}
  orders: {pkey: order, time_col: at, fkeys: {user: users}}
"""
TASK = """name: churn
kind: external
task_type: binary_classification
entity_table: users
entity_col: user
target_col: gone
time_col: timestamp
"""
NEXT = """name: next
kind: external
task_type: recommendation
src_entity_table: users
src_entity_col: user
dst_entity_table: orders
dst_entity_col: order
eval_k: 2
time_col: timestamp
"""
USERS, DAYS = 7, 5


def seconds(day):
    return int(datetime.datetime(2024, 1, day, tzinfo=datetime.timezone.utc).timestamp())


def targets(day, user):
    """The orders that a row of the task recommends."""
    return [(3 * day + user + i) % 20 for i in range(1 + (day + user) % 3)]


@pytest.fixture(scope="module")
def shop(program, tmp_path_factory):
    """A dataset, and the (user, day) of each order."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop/tasks/churn").mkdir(parents=True)
    draw = np.random.default_rng(20261126)
    orders = [(int(draw.integers(USERS)), 1 + int(draw.integers(9))) for _ in range(60)]
    orders.sort(key=lambda order: order[1])
    rows = [(day, user, (3 * user + day) % 5) for day in range(2, 2 + DAYS) for user in range(USERS)]
    for name, text in {
        "manifest.yaml": MANIFEST, "tasks/churn/manifest.yaml": TASK,
        "users.csv": "user,age\n" + "".join(f"u{user},{'' if user == 2 else 20 + user}\n" for user in range(USERS)),
        "orders.csv": "order,user,at,price\n" + "".join(
            f"{i},u{u},2024-01-{d:02},{u + d}.5\n" for i, (u, d) in enumerate(orders)),
        "tasks/churn/train.csv": "timestamp,user,gone\n" + "".join(f"2024-01-{d:02},u{u},{g}\n" for d, u, g in rows),
    }.items():
        (folder / "shop" / name).write_text(text)
    (folder / "shop/tasks/next").mkdir()
    (folder / "shop/tasks/next/manifest.yaml").write_text(NEXT)
    (folder / "shop/tasks/next/train.csv").write_text("timestamp,user,order\n" + "".join(
        f"2024-01-{d:02},u{u},{'|'.join(map(str, targets(d, u)))}\n" for d, u, _ in rows))
    run(program, "convert", folder / "shop", folder / "shop.khop")
    return folder / "shop.khop", orders, rows


def loader(shop, **options):
    return khop.Loader(shop[0], [-1], sampler="temporal", node_time="time", disjoint=True, seeds="task:churn:train",
                       batch_size=8, shuffle=True, framework="numpy", **options)


@pytest.mark.parametrize("process", [
    "server", pytest.param("inside", marks=pytest.mark.skipif(bool(_library.why_not()), reason="no shared library"))])
def test_rows_of_a_task_have_their_labels_and_see_no_later_order(shop, process):
    _, orders, rows = shop
    seen = []
    with loader(shop, process=process) as batches:
        for batch in batches:
            assert len(batch.label) == len(batch.seed_time) == len(batch["users"].input_id)
            times, tree = batch["orders"]["time"], batch.array("sample/tree/orders")
            for i, (label, time, row) in enumerate(zip(batch.label, batch.seed_time, batch["users"].input_id)):
                day, user, gone = rows[row]
                seen.append(int(row))
                assert (label, time) == (gone, seconds(day))
                before = sorted(seconds(d) for u, d in orders if u == user and d <= min(day, 8))
                assert sorted(times[tree == i].tolist()) == before, (user, day)
    assert sorted(seen) == list(range(len(rows)))


def test_columns_lie_side_by_side_with_what_they_mean(shop):
    users, orders = khop.info(shop[0])["node_types"]
    by_name = {c["name"]: c for c in users["columns"] + orders["columns"]}
    age = users["columns"][0]["fields"][0]
    assert (age["name"], age["kind"], age["missing"]) == ("age", "numerical", 1)
    ages = [20 + u for u in range(USERS) if u != 2]
    assert np.isclose(age["mean"], np.mean(ages)) and np.isclose(age["std"], np.std(ages))
    assert np.allclose(age["quantiles"], np.quantile(ages, [0, .25, .5, .75, 1]))
    assert by_name["time"]["fields"][0]["name"] == "at" and by_name["time"]["unit"] == "s"


@pytest.mark.parametrize("native", [True, False])
def test_calendar_is_that_of_datetime(native, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from khop.relational import calendar

    if not native:
        monkeypatch.setattr(_library, "_loaded", None)
    elif not _library.why_not():
        _library.load()
    draw = np.random.default_rng(20261127)
    times = np.concatenate([draw.integers(-2**35, 2**35, 3000), [0, -1, 951782400, 951868800, -62135596800]])
    rows = torch.from_numpy(times)[:, None]
    got = calendar(rows).numpy()[:, 0]
    usual = np.abs(times) < 2**31  # whose dates are looked up, where there are no others
    assert (calendar(rows[usual]).numpy()[:, 0] == got[usual]).all()
    for time, parts in zip(times, got):
        at = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=int(time))
        want = [at.year, at.month - 1, at.day - 1, at.weekday(), at.hour, at.minute, at.second]
        assert parts.tolist() == want, (time, at)
    assert calendar(torch.tensor([[-2**63]])).tolist() == [[[-1] * 7]]
    several = calendar(rows, torch.stack([rows[:, 0], rows.flip(0)[:, 0]], dim=1)[:, :2]).numpy()
    assert (several == np.stack([got, got, got[::-1]], axis=1)).all()


def test_tensor_frames_are_those_of_the_rows(shop):
    pytest.importorskip("torch_frame", reason="torch_frame is not installed")
    import torch
    from torch_frame import stype

    from khop.relational import Tables

    tables = Tables(shop[0])
    assert tables.col_names["users"] == {stype.numerical: ["age"]}
    with khop.Loader(shop[0], [-1], sampler="temporal", node_time="time", disjoint=True, seeds="task:churn:train",
                     batch_size=8) as batches:
        for batch in batches:
            data = tables.to_pyg(batch)
            ages = data["users"].tf.feat_dict[stype.numerical][:, 0]
            assert torch.equal(torch.nan_to_num(ages, nan=22.), 20. + batch["users"].n_id)
            assert torch.equal(data["users"].y, batch.label) and torch.equal(data["users"].seed_time, batch.seed_time)


@pytest.mark.parametrize("disjoint", [False, True])
def test_a_batch_has_source_destination_and_negatives_of_each_row(shop, disjoint):
    pytest.importorskip("torch_frame", reason="torch_frame is not installed")
    from khop.relational import Tables

    path, _, rows = shop
    tables, seen = Tables(path), []
    with khop.Loader(path, [-1, -1], sampler="temporal", node_time="time", disjoint=disjoint, batch_size=3,
                     shuffle=True, seeds="task:next:train", same_time=0 if disjoint else 1, negatives="uniform",
                     negative_ratio=2, triplets=True) as batches:
        for batch in batches:
            data = tables.to_pyg(batch)
            assert data.metadata() == tables.data.metadata()
            users, orders = data["users"], data["orders"]
            assert data.dst_neg_index.shape == (len(data.src_index), 2)
            assert len(users.seed_time) >= users.batch_size and int(data.dst_neg_index.max()) < orders.batch_size
            for i, row in enumerate(batch["users", "next", "orders"].input_id):
                day, user, _ = rows[row]
                seen.append(int(row))
                assert users.n_id[data.src_index[i]] == user
                assert orders.n_id[data.dst_pos_index[i]] in targets(day, user)
                for end, at in ((users, data.src_index[i]), (orders, data.dst_pos_index[i])):
                    assert end.seed_time[end.batch[at]] == seconds(day)
            later = users.seed_time[orders.batch] < orders.time
            later[:orders.batch_size] = False  # what is recommended may be of any time
            assert not later.any()
    assert sorted(seen) == list(range(len(rows)))


def test_all_rows_of_a_table_and_all_sources_are_seeds_as_of_a_time(shop):
    pytest.importorskip("torch_frame", reason="torch_frame is not installed")
    from khop.relational import Tables

    path, orders, rows = shop
    tables, options = Tables(path), dict(sampler="temporal", node_time="time", batch_size=4)
    with khop.Loader(path, [-1], **tables.at("users", seconds(4)), **options) as batches:
        for batch in batches:
            data = tables.to_pyg(batch, seed_time=seconds(4))
            assert data["users"].seed_time.tolist() == [seconds(4)] * data["users"].batch_size
            assert data["orders"].num_nodes == sum(
                d <= 4 for u, d in orders if u in data["users"].n_id.tolist())
    with khop.Loader(path, [-1], seeds="task:next:train:source", **options) as batches:
        assert [int(u) for b in batches for u in b["users"].input_node] == [user for _, user, _ in rows]


def graph_of(shop):
    """The data of models and loaders, and the rows of the task as in RelBench's scripts."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    pytest.importorskip("torch_frame", reason="PyTorch Frame is not installed")
    from khop import relational

    data, stats = relational.graph(shop[0])
    assert set(stats) == set(data.node_types) == {"users", "orders"}
    nodes = torch.tensor([user for _, user, _ in shop[2]])
    return data, nodes, torch.tensor([seconds(day) for day, _, _ in shop[2]])


def check_orders(shop, batch, table, ids):
    """A batch's orders are those of its users until each one's time, with their rows."""
    of = batch[table].batch.tolist()[:len(ids)] if table == "users" else []
    torch_frame = pytest.importorskip("torch_frame")
    price, days = batch["orders"].tf.feat_dict[torch_frame.numerical][:, 0], batch["orders"].time
    for order, tree, at, paid in zip(batch["orders"].n_id.tolist(), batch["orders"].batch, days, price):
        user, day = shop[1][order]
        assert (seconds(day), user + day + .5) == (at, paid) and at <= batch[table].seed_time[tree]
    for tree, user in zip(of, ids):
        owned = [o for o, t in zip(batch["orders"].n_id.tolist(), batch["orders"].batch.tolist()) if t == tree]
        until = batch[table].seed_time[tree]
        assert sorted(owned) == [o for o, (u, d) in enumerate(shop[1]) if u == user and seconds(d) <= until]


@pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")
def test_pygs_loader_takes_the_graph_of_a_database(shop):
    data, nodes, times = graph_of(shop)
    from khop.pyg import NeighborLoader

    loader = NeighborLoader(data, [-1], ("users", nodes), times, time_attr="time", batch_size=8, shuffle=True)
    seen = []
    for batch in loader:
        seen += batch["users"].input_id.tolist()
        check_orders(shop, batch, "users", nodes[batch["users"].input_id].tolist())
        assert batch.edge_types == data.edge_types
    assert sorted(seen) == list(range(len(nodes)))
    one = loader([3, 20])
    check_orders(shop, one, "users", nodes[[3, 20]].tolist())
    with pytest.raises(ValueError, match="seconds since 1970"):
        NeighborLoader(data, [-1], ("users", nodes), times // 1000, time_attr="time")


def test_the_graph_of_a_database_elsewhere_keeps_its_address(shop, monkeypatch):
    pytest.importorskip("torch_frame")
    structure = pytest.importorskip("khop.pyg.structure")
    monkeypatch.setattr(khop.relational, "info", lambda _: khop.info(shop[0]))
    monkeypatch.setattr(structure, "info", lambda _: khop.info(shop[0]))
    address = "s3://bucket/shop.khop"
    for data in address, khop.relational.graph(address)[0]:
        assert structure.structure_of(data).path == address


@pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")
def test_relbenchs_loader_of_links_takes_the_graph_of_a_database(shop):
    data, nodes, times = graph_of(shop)
    pytest.importorskip("relbench", reason="relbench is not installed")
    import torch
    from khop.pyg.relbench import LinkNeighborLoader

    rows = torch.tensor([[i, order] for i, (day, user, _) in enumerate(shop[2]) for order in targets(day, user)]).t()
    orders = data["orders"].num_nodes
    liked = torch.sparse_coo_tensor(rows, torch.ones(rows.shape[1]), (len(nodes), orders)).to_sparse_csr()
    for share in (True, False):
        loader = LinkNeighborLoader(data, [-1], ("users", nodes), ("orders", liked), orders, times, share,
                                    time_attr="time", batch_size=USERS)
        for left in loader:  # whoever leaves a loop early begins anew
            break
        kept = list(loader)  # more than there may be where they were made
        for sources, positives, negatives in kept:
            ids = sources["users"].n_id[:USERS].tolist()
            check_orders(shop, sources, "users", ids)
            assert not share or len(set(sources["users"].seed_time.tolist())) == 1
            for of in (positives, negatives):
                assert torch.equal(of["orders"].seed_time, sources["users"].seed_time)
            for user, order, at in zip(ids, positives["orders"].n_id.tolist(), sources["users"].seed_time.tolist()):
                assert any(order in targets(day, user) and seconds(day) == at for day in range(2, 2 + DAYS))
        assert len(kept) == DAYS
        loader.close()
    none = torch.sparse_csr_tensor(torch.zeros(len(nodes) + 1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64),
                                   torch.zeros(0), (len(nodes), orders))
    loader = LinkNeighborLoader(data, [-1], ("users", nodes), ("orders", none), orders, times, time_attr="time",
                                batch_size=USERS)
    with pytest.raises(ValueError, match="row 0 has no destination: leave it out"):
        next(iter(loader))
    loader.close()


def test_seeds_of_several_times_without_trees_are_an_error(shop):
    pytest.importorskip("torch_frame", reason="torch_frame is not installed")
    from khop.relational import Tables

    with khop.Loader(shop[0], [-1], sampler="temporal", node_time="time", seeds="task:next:train",
                     batch_size=30) as batches:
        with pytest.raises(ValueError, match="disjoint=True"):
            Tables(shop[0]).to_pyg(next(iter(batches)))


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("width", [None, 2, 5])
def test_the_most_recent_neighbours_are_rows_of_an_array(shop, framework, width):
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    path, orders, rows = shop
    with khop.Loader(path, [4], sampler="temporal", node_time="time", recent=True, disjoint=True, time_order=True,
                     seeds="task:churn:train", batch_size=6, framework=framework, edge_pos=True) as batches:
        last = 0
        for batch in batches:
            block = batch["orders", "f2p_user", "users"].blocks[0]
            sources, there, edges = block.rows(width)
            assert sources.shape == there.shape == edges.shape and width in (None, there.shape[1])
            for i, row in enumerate(batch["users"].input_id.tolist()):
                day, user, _ = rows[row]
                assert last <= day
                last = day
                recent = [k for k, (u, d) in enumerate(orders) if u == user and d <= day][-min(4, width or 4):]
                assert batch["orders"].n_id[sources[i][there[i]]].tolist() == recent
                picked = batch.array("block/0/orders:f2p_user:users/indices")[edges[i][there[i]]]
                assert picked.tolist() == sources[i][there[i]].tolist()


def test_one_is_scored_against_the_many_that_a_list_names(shop):
    path, _, rows = shop
    draw = np.random.default_rng(20261129)
    many = 5
    users = np.array([user for _, user, _ in rows])
    lists = np.stack([np.array([targets(day, user)[0], *draw.integers(20, size=many)]) for day, user, _ in rows])
    times = np.repeat([seconds(day) for day, _, _ in rows], 1 + many)
    pairs = np.stack([np.repeat(users, 1 + many), lists.ravel()])
    edge_type, seen = ("users", "next", "orders"), 0
    with khop.Loader(path, [2], sampler="temporal", node_time="time", disjoint=True, framework="numpy",
                     edge_label_index=(edge_type, pairs), edge_label_time=times,
                     batch_size=3 * (1 + many)) as batches:
        for batch in batches:
            view = batch[edge_type]
            source, target = view.edge_label_index.reshape(2, -1, 1 + many)
            for one, of in zip(source, target):
                assert set(batch["users"].n_id[one]) == {users[seen]}
                assert batch["orders"].n_id[of].tolist() == lists[seen].tolist()
                seen += 1
    assert seen == len(rows)


def test_texts_get_embeddings_all_at_once_or_not_at_all(program, shop, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_frame", reason="torch_frame is not installed")
    from torch_frame import stype
    from torch_frame.data.stats import StatType

    from khop.relational import Tables, embed_text

    notes = [f"{'no' * (i % 7)}te {i} über {i * i}" if i % 5 else "" for i in range(23)]
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/manifest.yaml").write_text(MANIFEST)
    (tmp_path / "shop/users.csv").write_text("user,age\nu0,1\n")
    (tmp_path / "shop/orders.csv").write_text("order,user,at,note\n" + "".join(
        f"{i},u0,2024-01-0{1 + i // 8},{note}\n" for i, note in enumerate(notes)))
    run(program, "convert", tmp_path / "shop", tmp_path / "shop.khop")
    told = []

    def embed(texts):
        return torch.tensor([[len(t), sum(map(ord, t)), 1.] for t in texts])
    for bad in (lambda texts: embed(texts)[:1], lambda texts: 1 / 0):
        with pytest.raises((ValueError, ZeroDivisionError)):
            embed_text(tmp_path / "shop.khop", "orders", "note", bad)
    with pytest.raises(KeyError, match="it has: note"):
        embed_text(tmp_path / "shop.khop", "orders", "notes", embed)
    assert Tables(tmp_path / "shop.khop").col_names["orders"] == {stype.timestamp: ["at"]}
    embed_text(tmp_path / "shop.khop", "orders", "note", embed, 10, lambda done, of: told.append((done, of)))
    assert told == [(10, 23), (20, 23), (23, 23)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["shop", "shop.khop"]
    tables = Tables(tmp_path / "shop.khop")
    assert tables.col_names["orders"][stype.embedding] == ["note"]
    assert tables.col_stats["orders"]["note"] == {StatType.EMB_DIM: 3}
    with khop.Loader(tmp_path / "shop.khop", [0], seeds="all:orders", batch_size=9) as batches:
        for batch in batches:
            rows = tables.tf(batch, "orders").feat_dict[stype.embedding]
            want = embed([notes[i] for i in batch["orders"].n_id.tolist()])
            assert torch.equal(rows.values, want) and rows.offset.tolist() == [0, 3]
    with pytest.raises(khop.ServerError, match="already"):
        embed_text(tmp_path / "shop.khop", "orders", "note", embed)
    embed_text(tmp_path / "shop.khop", "orders", "note", embed, force=True)


def test_several_categories_of_a_text_are_their_numbers(program, tmp_path):
    pytest.importorskip("torch_frame", reason="torch_frame is not installed")
    from torch_frame import stype
    from torch_frame.data.stats import StatType

    from khop.relational import Tables

    draw = np.random.default_rng(20261128)
    genres = [[f"g{g}" for g in draw.integers(6, size=draw.integers(4))] for _ in range(40)]
    places = [[f"p{g}" for g in draw.integers(3, size=draw.integers(3))] for _ in range(40)]
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/manifest.yaml").write_text(MANIFEST)
    (tmp_path / "shop/users.csv").write_text("user,age\nu0,1\n")
    (tmp_path / "shop/orders.csv").write_text("order,user,at,genre,place\n" + "".join(
        f"{i},u0,2024-01-01,{' | '.join(g)} unit{i},{'|'.join(p)}!{i}\n"
        for i, (g, p) in enumerate(zip(genres, places))))
    genres = [g[:-1] + [f"{g[-1]} unit{i}"] if g else [f"unit{i}"] for i, g in enumerate(genres)]
    run(program, "convert", tmp_path / "shop", tmp_path / "shop.khop")
    tables = Tables(tmp_path / "shop.khop", {"orders": {"place": "!", "genre": "|"}})
    places = [["|".join(p), str(i)] if p else [str(i)] for i, p in enumerate(places)]
    assert tables.col_names["orders"][stype.multicategorical] == ["place", "genre"]
    named = []
    for column, rows in (("place", places), ("genre", genres)):
        numbers, counts = tables.col_stats["orders"][column][StatType.MULTI_COUNT]
        every = [part for row in rows for part in row]
        order = sorted(dict.fromkeys(every), key=lambda part: -every.count(part))
        assert numbers == list(range(len(order))) and counts == [every.count(part) for part in order]
        named.append(order)
    with khop.Loader(tmp_path / "shop.khop", [0], seeds="all:orders", batch_size=9, shuffle=True) as batches:
        for batch in batches:
            frame = tables.tf(batch, "orders").feat_dict[stype.multicategorical]
            for i, node in enumerate(batch["orders"].n_id.tolist()):
                for k, rows in enumerate((places, genres)):
                    assert [named[k][v] for v in frame[i, k].tolist()] == rows[node]
    assert tables.data["orders"].tf.num_rows == 0


def parquet_of(at, **columns):
    """A table of orders, in the order of their times."""
    import pyarrow

    return pyarrow.table({"user": pyarrow.array(["u0", "u1", "u0", "u1"]), "at": at, **columns})


def written_orders():
    """Orders as engines write them to Parquet, with options of the writer, and their times and prices."""
    import pyarrow

    days = [datetime.datetime(1823, 5, 6), datetime.datetime(1969, 12, 31, 23, 59, 59, 1000), None,
            datetime.datetime(2024, 1, 3, 4, 5, 6, 789000)]
    late = [*days[:3], datetime.datetime(2500, 1, 3)]
    cents = pyarrow.array([decimal.Decimal(p) for p in ("1.25", "-2.50", "70368744177.67", "0.01")])
    floats = pyarrow.array([1.25, -2.5, 70368744177.67, .01])

    def stamps(days, unit, zone=None):
        return pyarrow.array(days, pyarrow.timestamp(unit, tz=zone))
    return {
        "ms": (parquet_of(stamps(late, "ms"), price=floats), {}, late),
        "us in a zone": (parquet_of(stamps(days, "us", "Europe/Rome"), price=floats), {"compression": "brotli"}, days),
        "spark": (parquet_of(stamps(days, "ns"), price=cents.cast(pyarrow.decimal128(18, 2))),
                  {"use_deprecated_int96_timestamps": True, "compression": "gzip"}, days),
        "wide decimals": (parquet_of(stamps(days, "us"), price=cents.cast(pyarrow.decimal128(38, 2))),
                          {"compression": "zstd", "data_page_version": "2.0"}, days),
        "decimals as integers": (parquet_of(stamps(days, "us"), price=cents.cast(pyarrow.decimal128(18, 2))),
                                 {"store_decimal_as_integer": True}, days),
        "bytes apart": (parquet_of(stamps(days, "us"), price=floats), {
            "compression": "lz4", "use_dictionary": False, "use_byte_stream_split": ["price"]}, days),
        "dictionary": (parquet_of(stamps(days, "us"), price=floats, note=pyarrow.array(list("abab"))
                                  .dictionary_encode()), {"use_dictionary": True, "data_page_size": 16}, days),
        "large_string": (parquet_of(stamps(days, "us"), price=floats, nested=pyarrow.array([{"a": [1]}] * 4))
                         .cast(pyarrow.schema([("user", pyarrow.large_string()), ("at", pyarrow.timestamp("us")),
                                               ("price", pyarrow.float64()),
                                               ("nested", pyarrow.struct([("a", pyarrow.list_(pyarrow.int64()))]))])),
                         {}, days),
    }


@pytest.mark.parametrize("engine", ["ms", "us in a zone", "spark", "wide decimals", "decimals as integers",
                                    "dictionary", "large_string", "bytes apart"])
def test_parquet_is_read_whoever_has_written_it(program, tmp_path, engine):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    (tmp_path / "shop/db").mkdir(parents=True)
    (tmp_path / "shop/manifest.yaml").write_text(MANIFEST.replace("pkey: order", "pkey: null"))
    (tmp_path / "shop/db/users.csv").write_text("user,age\nu0,1\nu1,2\n")
    table, options, at = written_orders()[engine]
    try:
        parquet.write_table(table, tmp_path / "shop/db/orders.parquet", **options)
    except TypeError as e:
        pytest.skip(f"pyarrow is too old: {e}")
    check_written(program, tmp_path, at)


def check_written(program, tmp_path, at, *more):
    """What khop makes of the orders that somebody has written has their times and prices."""
    run(program, "convert", tmp_path / "shop", tmp_path / "out.khop", "--upto", "all", "--reorder", "no", *more)
    with khop.Loader(tmp_path / "out.khop", [0], seeds="all:orders", node_columns=["time", "numerical"],
                     framework="numpy") as batches:
        batch = next(iter(batches))
        epoch = datetime.datetime(1970, 1, 1)
        want = [-2**63 if t is None else (t - epoch) // datetime.timedelta(seconds=1) for t in at]
        assert batch["orders"]["time"].tolist() == want
        assert np.array_equal(batch["orders"]["numerical"][:, 0],
                              np.array([1.25, -2.5, 70368744177.67, .01], np.float32))


def test_tables_of_tasks_may_lack_labels_and_targets(program, tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    (tmp_path / "shop/tasks/churn").mkdir(parents=True)
    (tmp_path / "shop/tasks/next").mkdir()
    (tmp_path / "shop/manifest.yaml").write_text(MANIFEST)
    (tmp_path / "shop/users.csv").write_text("user,age\nu0,1\nu1,2\n")
    (tmp_path / "shop/orders.csv").write_text("order,user,at\na,u0,2024-01-01\nb,u1,2024-01-02\n")
    (tmp_path / "shop/tasks/churn/manifest.yaml").write_text(TASK)
    (tmp_path / "shop/tasks/next/manifest.yaml").write_text(NEXT)
    rows = {"timestamp": pyarrow.array([0, 1], pyarrow.timestamp("s")), "user": ["u0", "u1"]}
    for path, column in {
        "churn/train": {"gone": [0, 1]}, "churn/test": {"gone": pyarrow.array([None, None], pyarrow.int64())},
        "next/train": {"order": [["a", "b"], ["b"]]}, "next/val": {"order": [["a", "x"], None]},
        "next/test": {"order": [["x"], []]},
    }.items():
        parquet.write_table(pyarrow.table({**rows, **column}), tmp_path / f"shop/tasks/{path}.parquet")
    run(program, "convert", tmp_path / "shop", tmp_path / "out.khop")
    listed = run(program, "info", tmp_path / "out.khop").split()
    for name, count in {"churn:train": 2, "churn:test": 2, "next:train": 2, "next:val": 1, "next:test": 0}.items():
        assert listed[listed.index(f"{name}:") + 1] == str(count)


@pytest.mark.parametrize("extension", ["parquet", "arrow"])
def test_keys_may_be_bytes_and_columns_of_other_bytes_are_left_out(program, tmp_path, extension):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import feather, parquet

    keys = pyarrow.array([b"\x00\xff" * 8, b"\x01\xfe" * 8], pyarrow.binary(16))
    (tmp_path / "shop/db").mkdir(parents=True)
    (tmp_path / "shop/manifest.yaml").write_text(MANIFEST.replace("pkey: order", "pkey: null"))
    for name, table in {
        "users": {"user": keys, "age": [1, 2], "picture": [b"\xff\xd8", b"\x89PNG"], "name": [b"ann", b"bob"]},
        "orders": {"user": keys.take(pyarrow.array([1, 0, 1])), "at": pyarrow.array([0, 1, 2], pyarrow.timestamp("s"))},
    }.items():
        path = tmp_path / f"shop/db/{name}.{extension}"
        (parquet.write_table if extension == "parquet" else feather.write_feather)(pyarrow.table(table), path)
    done = subprocess.run([program, "convert", tmp_path / "shop", tmp_path / "out.khop"], capture_output=True,
                          text=True)
    assert done.returncode == 0 and "picture (bytes that are no text)" in done.stderr, done.stderr
    with khop.Loader(tmp_path / "out.khop", [-1], seeds="all:users", framework="numpy") as batches:
        block = next(iter(batches))["orders", "f2p_user", "users"].blocks[0]
        assert [int(there.sum()) for there in block.rows()[1]] == [1, 2]
    listed = run(program, "info", tmp_path / "out.khop")
    assert "id utf8" in listed and "name utf8" in listed and "picture" not in listed
    kept = next((tmp_path / "out.khop").rglob("id.arrow")).read_bytes()
    assert b"00ff" * 8 + b"01fe" * 8 in kept


def test_uuids_are_written_as_such(program, tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    (tmp_path / "shop/db").mkdir(parents=True)
    (tmp_path / "shop/manifest.yaml").write_text(MANIFEST.replace("pkey: order", "pkey: null"))
    key = "0123abcd-89ef-4012-8345-67890abcdef0"
    for name, columns in {"users": "1 AS age", "orders": "'2024-01-01'::timestamp AS at"}.items():
        duckdb.sql(f"COPY (SELECT '{key}'::uuid AS user, {columns}) TO '{tmp_path}/shop/db/{name}.parquet'")
    run(program, "convert", tmp_path / "shop", tmp_path / "out.khop")
    assert key.encode() in next((tmp_path / "out.khop").rglob("id.arrow")).read_bytes()
    assert "f2p_user:users: 1" in run(program, "info", tmp_path / "out.khop")


@pytest.mark.parametrize("compression", ["uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_parquet_of_other_engines_is_read(program, tmp_path, engine, compression):
    module = pytest.importorskip(engine, reason=f"{engine} is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (tmp_path / "shop/db").mkdir(parents=True)
    (tmp_path / "shop/manifest.yaml").write_text(MANIFEST.replace("pkey: order", "pkey: null"))
    (tmp_path / "shop/db/users.csv").write_text("user,age\nu0,1\nu1,2\n")
    orders, _, at = written_orders()["us in a zone"]
    path = tmp_path / "shop/db/orders.parquet"

    def write(compression, version="V1"):
        if engine == "polars":
            module.from_arrow(orders).write_parquet(path, compression=compression)
        else:
            connection = module.connect()
            connection.register("orders", orders)
            connection.sql("SET TimeZone='UTC'")
            connection.sql(f"COPY orders TO '{path}' (FORMAT parquet, COMPRESSION {compression}, "
                           f"PARQUET_VERSION {version})")
    write("lz4_raw" if (engine, compression) == ("duckdb", "lz4") else compression)
    check_written(program, tmp_path, at)
    if (engine, compression) == ("duckdb", "zstd"):
        write(compression, "V2")  # BYTE_STREAM_SPLIT
        check_written(program, tmp_path, at, "--force")
