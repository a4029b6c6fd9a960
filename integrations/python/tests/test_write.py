"""khop.write, and loaders of graphs in memory: every array comes back as it was."""
import os
import tempfile

import numpy as np
import pytest

import khop

from conftest import run

N, M = 50, 400
RNG = np.random.default_rng(4)
EDGES = RNG.integers(0, N, (2, M))
X = RNG.random((N, 3), np.float32)
Y = RNG.integers(0, 4, N)
W = RNG.random(M, np.float32)
MASK = np.arange(N) % 2 == 0


def whole(data, **options):
    """All of a graph, as one batch."""
    options = dict(fanouts=[-1], seeds="all", batch_size=20 * N, framework="numpy", edge_pos=True, **options)
    with khop.Loader(data, **options) as loader:
        batch = next(iter(loader))
        return batch.copy()


def edges_of(batch, *columns):
    """Edges with their columns, in an order that does not depend on how they are stored."""
    ids = np.asarray(batch.n_id)
    rows = np.stack([ids[batch.edge_index[0]], ids[batch.edge_index[1]], *(batch._edge()[c] for c in columns)])
    return rows[:, np.lexsort(rows)].tolist()


def listed(*rows):
    rows = np.stack(rows)
    return rows[:, np.lexsort(rows)].tolist()


def test_arrays_come_back_as_they_were(program, tmp_path):
    data = {"edge_index": EDGES, "x": X, "y": Y, "train_mask": MASK, "edge_weight": W, "age": np.arange(N)}
    path = tmp_path / "d.khop"
    khop.write(path, data)
    assert os.listdir(tmp_path) == ["d.khop"]
    batch = whole(path, node_columns=["feature", "age"], edge_columns=["weight"])
    assert edges_of(batch, "weight") == listed(*EDGES, W)
    assert (batch.x == X[batch.n_id]).all() and (batch["node"]["age"] == batch.n_id).all()
    with khop.Loader(path, framework="numpy") as loader:
        batch = next(iter(loader))
        assert sorted(batch.n_id[:batch.batch_size]) == np.flatnonzero(MASK).tolist()
        assert (batch.y == Y[batch.n_id[:batch.batch_size]]).all()
    with pytest.raises(khop.WriteError, match="force"):
        khop.write(path, data)
    khop.write(path, {"edge_index": EDGES[:, :7]}, force=True, symmetrise=True)
    assert len(edges_of(whole(path))[0]) > 7


def test_times_and_names_are_arrays(program, tmp_path):
    times = np.datetime64("2020-01-01", "s") + np.arange(M)
    khop.write(tmp_path / "d.khop", {"edge_index": EDGES, "time": times, "num_nodes": N,
                                     "names_id": np.array([f"n{i}" for i in range(N)], "S")})
    batch = whole(tmp_path / "d.khop", edge_columns=["time"])
    assert edges_of(batch, "time") == listed(*EDGES, times.astype(int))
    said = run(program, "info", tmp_path / "d.khop")
    assert "id utf8" in said and "time int64 in s" in said


@pytest.mark.parametrize("rows, columns", [(N, 3), (7, 1 << 20)], ids=["small", "in blocks"])
def test_columns_may_lie_together_in_memory(rows, columns, program, tmp_path):
    x = np.asfortranarray(np.arange(rows * columns, dtype=np.float32).reshape(rows, columns))
    edges = EDGES[:, (EDGES < rows).all(0)]
    for given in (x, x[:, ::2]):  # the second is neither way in one piece
        batch = whole({"edge_index": edges, "x": given, "num_nodes": rows})
        assert (batch.x == given[batch.n_id]).all() and batch.x.shape[1] == given.shape[1]


def test_rows_may_have_a_stride(program, tmp_path):
    khop.write(tmp_path / "d.khop", {"edge_index": EDGES, "x": X}, row_stride=64)
    batch = whole(tmp_path / "d.khop")
    assert batch.x.shape[1] == 16 and (batch.x[:, :3] == X[batch.n_id]).all() and not batch.x[:, 3:].any()


def test_typed_arrays_make_a_typed_graph(program, tmp_path):
    path = tmp_path / "t.khop"
    khop.write(path, {"paper": {"x": X, "y": Y, "train_mask": MASK}, "author": {"num_nodes": 9},
                      ("author", "writes", "paper"): {"src": RNG.integers(0, 9, M), "dst": EDGES[1]},
                      ("paper", "cites", "paper"): {"edge_index": EDGES}})
    batch = whole(path)
    assert set(batch.edge_types) == {("author", "writes", "paper"), ("paper", "cites", "paper")}
    ids = batch["paper"].n_id
    cites = batch["paper", "cites", "paper"].edge_index
    assert listed(ids[cites[0]], ids[cites[1]]) == listed(*EDGES) and (batch["paper"].x == X[ids]).all()
    assert batch["author"].num_nodes <= 9


def test_a_node_type_may_have_the_name_of_an_array_of_edges(program, tmp_path):
    khop.write(tmp_path / "t.khop", {"row": {"num_nodes": N}, ("row", "cites", "row"): {"edge_index": EDGES}})
    assert whole(tmp_path / "t.khop").node_types == ("row",)


@pytest.mark.parametrize("data", [
    EDGES, EDGES.tolist(), {"src": EDGES[0], "dst": EDGES[1].astype(np.int32)},
], ids=["array", "list", "two"])
def test_a_loader_takes_a_graph_in_memory_and_leaves_nothing(data, program):
    assert edges_of(whole(data)) == listed(*EDGES)
    assert os.listdir(tempfile.gettempdir()) == []


def test_matrices_of_scipy(program):
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    seen = np.unique(EDGES, axis=1)
    weights = np.arange(1, seen.shape[1] + 1, dtype=np.float32)
    matrix = sparse.coo_matrix((weights, (seen[0], seen[1])), (N, N))
    for form in (matrix, matrix.tocsr(), matrix.tocsc()):
        assert edges_of(whole(form, edge_columns=["weight"]), "weight") == listed(*seen, weights)
    with pytest.raises(ValueError, match="must be square"):
        khop.Loader(matrix.tocsr()[:5])


def test_graphs_of_pyg(program, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pyg = pytest.importorskip("torch_geometric.data", reason="torch_geometric is not installed")
    data = pyg.Data(x=torch.tensor(X), edge_index=torch.tensor(EDGES), y=torch.tensor(Y),
                    edge_attr=torch.tensor(W)[:, None], train_mask=torch.tensor(MASK), name="a graph")
    with pytest.warns(UserWarning, match="name is left out"):
        batch = whole(data, edge_columns=["feature"])
    assert (batch.x == X[batch.n_id]).all() and listed(batch.n_id[batch.edge_index[0]], batch.n_id[batch.edge_index[1]],
                                                       batch.edge_attr) == listed(*EDGES, W)
    hetero = pyg.HeteroData()
    hetero["paper"].x, hetero["paper"].train_mask, hetero["author"].num_nodes = torch.tensor(X), torch.tensor(MASK), N
    hetero["author", "writes", "paper"].edge_index = torch.tensor(EDGES)
    khop.write(tmp_path / "h.khop", hetero)
    batch = whole(tmp_path / "h.khop")
    assert set(batch.node_types) == {"author", "paper"} and list(batch.edge_types) == [("author", "writes", "paper")]
    edges = batch["author", "writes", "paper"].edge_index
    assert listed(batch["author"].n_id[edges[0]], batch["paper"].n_id[edges[1]]) == listed(*EDGES)
    hetero.made_at = torch.tensor(7)
    with pytest.warns(UserWarning, match="made_at is left out: it belongs to no type"):
        khop.write(tmp_path / "i.khop", hetero)


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_tables(library, program, tmp_path):
    tables = pytest.importorskip(library, reason=f"{library} is not installed")
    make = tables.DataFrame if library == "pandas" else tables.table
    table = make({"src": EDGES[0], "dst": EDGES[1], "weight": W.astype(np.float64)})
    batch = whole(table, edge_columns=["weight"])
    assert edges_of(batch)[0] and batch.num_nodes <= N
    assert sorted(batch._edge()["weight"].tolist()) == sorted(W.astype(np.float64).tolist())
    names = make({"id": [f"p{i}" for i in range(N)], "age": np.arange(N, dtype=np.float32)})
    cites = make({"from": [f"p{i}" for i in EDGES[0]], "to": [f"p{i}" for i in EDGES[1]]})
    edges = {"file": cites, "source": "paper", "target": "paper", "src": "from", "dst": "to"}
    batch = whole({"nodes": {"paper": {"file": names, "features": ["age"]}}, "edges": {"cites": edges}})
    assert edges_of(batch) == listed(*EDGES) and (batch.x[:, 0] == batch.n_id).all()
    few = make({"id": ["p0"], "age": np.zeros(1, np.float32)})
    with pytest.raises(khop.WriteError,
                       match=r'^edges\.cites\.\w+: column "from": row \d+: "p\d+" is not the id of a node of "paper"'):
        khop.write(tmp_path / "d.khop",
                   {"nodes": {"paper": {"file": few, "features": ["age"]}}, "edges": {"cites": edges}})


@pytest.mark.parametrize("data, error, says", [
    (7, TypeError, "builtins.int"),
    (np.zeros((3, 4)), ValueError, r"float64 of shape \(3, 4\)"),
    ({"x": X}, ValueError, "'x': must be edge_index"),
    ({"a__b": {"x": X}, ("a__b", "to", "a__b"): {"edge_index": EDGES}}, ValueError, "without '__'"),
    ({"edge_index": EDGES, "x": X[:3]}, khop.WriteError, "nodes"),
    ({"edge_index": np.array([[0, -1], [1, 1]])}, khop.WriteError, "edge_index.npy"),
], ids=["number", "shape", "no edges", "name", "rows", "negative"])
def test_what_makes_no_graph_is_refused(data, error, says, program, tmp_path):
    with pytest.raises(error, match=says):
        khop.write(tmp_path / "d.khop", data)
    assert os.listdir(tmp_path) == []
    with pytest.raises(khop.OptionError, match="^dedupe must be one of [^\n]*$"):
        khop.write(tmp_path / "a.khop", EDGES, dedupe="nosuch")
    with pytest.raises(khop.WriteError, match="No such file"):
        khop.write(tmp_path / "nowhere" / "d.khop", EDGES)


def drawn_name(rng):
    """A name as users, sources and attackers have them."""
    kinds = (
        lambda: "".join(chr(c) for c in rng.integers(1, 0x110000, rng.integers(1, 9)) if not 0xD800 <= c < 0xE000),
        lambda: str(rng.choice(["año", "an\u0303o", "\u212b", "\uac00", "\u1100\u1161", "ﬁ"])),
        lambda: str(rng.choice(["\u212a", "a\u200bb", "аbс", "e\u0301\u0323", "👩\u200d🔬"])),
        lambda: str(rng.choice(["שלום", "مرحبا", "\u202eabc", "א1ב"])),
        lambda: str(rng.choice(["", " ", ".", "..", "../a", "a/b", ".hidden"])),
        lambda: str(rng.choice(["\ud800", "a\0b", "\x1b[2J", "a\nb", "a;b"])),
        lambda: str(rng.choice(["con", "indptr", "id", "--force", "*", '"', "$HOME", "%s", "null"])),
        lambda: str(rng.choice(["名" * 50, "x" * 300])),
        lambda: f"n{rng.integers(1 << 30):x}",
    )
    return kinds[rng.integers(len(kinds))]() + (str(rng.integers(100)) if rng.random() < 0.3 else "")


def test_names_are_read_back_as_they_are_or_refused(program, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    rng, draws = np.random.default_rng(7), int(os.environ.get("KHOP_DRAWS", 20))
    path, taken = tmp_path / "d.khop", 0
    khop.write(path, {"edge_index": EDGES})
    for number in range(draws):
        name, typed = drawn_name(rng), number % 2 > 0
        arrays = {"num_nodes": N, name: np.arange(N)}
        data = {"other": {"num_nodes": N}, name: {"num_nodes": N}, ("other", "to", "other"): {"edge_index": EDGES}}
        if not typed:
            data = {"node": arrays, ("node", "to", "node"): {"edge_index": EDGES}}
        before = (path / "dataset.json").read_bytes()
        try:
            khop.write(path, data, force=True)
        except (ValueError, khop.WriteError):
            assert (path / "dataset.json").read_bytes() == before, repr(name)
            assert not (name.isascii() and name.isalnum() and len(name) < 60), repr(name)
            continue
        taken += 1
        types = khop.info(path)["node_types"]
        assert name in [t["name"] for t in (types if typed else types[0]["columns"])], repr(name)
        files = list(path.glob("nodes/*/*.arrow"))
        fields = [pyarrow.ipc.open_file(pyarrow.memory_map(str(f))).schema.names[0] for f in files]
        assert typed or fields == [name], repr(name)
    assert taken > draws / 4
    print(f"{draws} names, {taken} taken")
    assert sorted(os.listdir(tmp_path)) == ["d.khop"]
