"""khop.write of graphs of NetworkX, igraph, rustworkx, and of sparse tensors, compared with what they say."""
import datetime

import numpy as np
import pytest

import khop

from conftest import run
from test_write import edges_of, listed, whole

quiet = pytest.mark.filterwarnings("ignore::khop.KhopWarning", "ignore:Sparse CS. tensor support")


def matrices(batch, n):
    """Adjacency matrices of a batch that is the whole graph: how many edges there are, and the sum of their weights."""
    ids, weights = np.asarray(batch.n_id), batch._edge()["weight"]
    count, total = np.zeros((n, n)), np.zeros((n, n))
    for matrix, value in ((count, 1), (total, weights)):
        np.add.at(matrix, tuple(ids[batch.edge_index]), value)
    return count, total


def names(program, path, list="id"):
    out = f"{path}.arrays"
    run(program, "export", path, out, "--to", "numpy", "--force")
    return np.load(f"{out}/names_{list}.npy").tolist()


def drawn(seed):
    """Some kind of graph: nodes in any order, and edges with self-loops, of which some have no weight."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(2, 30), rng.integers(1, 90)
    edges = zip(*rng.integers(0, n, (2, m)).tolist(), [1, *rng.integers(1, 9, m).tolist()])
    return rng.permutation(int(n)).tolist(), [(u, v, {"weight": w} if w < 8 else {}) for u, v, w in edges]


@quiet
@pytest.mark.parametrize("seed", range(50))
def test_drawn_graphs_have_the_matrices_of_networkx(seed, program, tmp_path):
    networkx = pytest.importorskip("networkx")
    kind = (networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph)[seed % 4]
    name = (lambda i: i, lambda i: f"n{i}", lambda i: (i, "é"), lambda i: 7 * i)[seed // 4 % 4]
    nodes, edges = drawn(seed)
    graph = kind([(name(u), name(v), data) for u, v, data in edges])
    graph.add_nodes_from(map(name, nodes if seed % 3 else sorted(nodes)))
    khop.write(tmp_path / "g.khop", graph)
    count, total = matrices(whole(tmp_path / "g.khop", edge_columns=["weight"]), len(nodes))
    assert (count == networkx.to_numpy_array(graph, weight="none of that name")).all()
    assert (total == networkx.to_numpy_array(graph)).all()
    if list(graph) != sorted(nodes):
        assert names(program, tmp_path / "g.khop") == [str(v) for v in graph]


@quiet
@pytest.mark.parametrize("seed", range(50))
def test_drawn_graphs_have_the_edges_of_igraph(seed, program, tmp_path):
    igraph = pytest.importorskip("igraph")
    nodes, edges = drawn(seed)
    graph = igraph.Graph(len(nodes), [(u, v) for u, v, _ in edges], directed=bool(seed % 2))
    graph.es["weight"] = [data.get("weight") for *_, data in edges]
    if seed % 3:
        graph.vs["name"] = [f"n{i}" for i in nodes]
    khop.write(tmp_path / "g.khop", graph)
    count, total = matrices(whole(tmp_path / "g.khop", edge_columns=["weight"]), len(nodes))
    graph.es["weight"] = [1 if w is None else w for w in graph.es["weight"]]
    ones = np.array(graph.get_adjacency().data)
    twice = np.eye(len(nodes)) + 1 if not graph.is_directed() else 1  # a self-loop, in igraph's matrix
    assert (count == ones / twice).all()
    sums = np.zeros_like(total)
    for edge in graph.es:
        for u, v in {edge.tuple, edge.tuple if graph.is_directed() else edge.tuple[::-1]}:
            sums[u, v] += edge["weight"]
    assert (total == sums).all()
    if seed % 3:
        assert names(program, tmp_path / "g.khop") == graph.vs["name"]


@quiet
@pytest.mark.parametrize("seed", range(50))
def test_drawn_graphs_have_the_matrix_of_rustworkx(seed, program, tmp_path):
    rustworkx = pytest.importorskip("rustworkx")
    nodes, edges = drawn(seed)
    graph = (rustworkx.PyGraph, rustworkx.PyDiGraph)[seed % 2](multigraph=bool(seed // 2 % 2))
    payload = (lambda i: i, lambda i: f"n{i}", lambda i: {"rank": 7 * i}, lambda i: None)[seed // 4 % 4]
    graph.add_nodes_from([payload(i) for i in range(len(nodes))])
    attributes = seed // 16 % 2
    graph.add_edges_from([(u, v, data if attributes else float(data.get("weight", 1))) for u, v, data in edges])
    gone = [] if seed % 3 or len(nodes) < 4 else [1]  # whose edges go, too
    graph.remove_nodes_from(gone)
    graph.add_edge(0, 0, {"weight": 3} if attributes else 3.0)
    khop.write(tmp_path / "g.khop", graph)
    batch = whole(tmp_path / "g.khop", edge_columns=["weight"])
    weight = (lambda data: float(data.get("weight", 1))) if attributes else float
    matrix = rustworkx.adjacency_matrix(graph, weight)
    loops = [(list(graph.node_indices()).index(u), weight(data)) for u, v, data in graph.weighted_edge_list() if u == v]
    np.fill_diagonal(matrix, 0)  # it has a second self-loop of an undirected graph twice
    for u, w in loops:
        matrix[u, u] += w
    assert (matrices(batch, len(matrix))[1] == matrix).all()
    if isinstance(payload(0), str):
        assert names(program, tmp_path / "g.khop") == graph.nodes()
    elif gone:
        assert names(program, tmp_path / "g.khop") == list(map(str, graph.node_indices()))


def test_names_of_rustworkx(program, tmp_path):
    rustworkx, networkx = pytest.importorskip("rustworkx"), pytest.importorskip("networkx")
    graph = rustworkx.networkx_converter(networkx.Graph([("ann", "bob"), ("bob", "cid")]), keep_attributes=True)
    khop.write(tmp_path / "g.khop", graph)
    assert names(program, tmp_path / "g.khop") == ["ann", "bob", "cid"]
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from(range(3))  # their numbers, which need no column
    graph.add_edges_from_no_data([(0, 1), (1, 2)])
    khop.write(tmp_path / "g.khop", graph, force=True)
    said = run(program, "info", tmp_path / "g.khop")
    assert "node type  node: 3\n" in said and "edge type  node:to:node: 2, by source\n" in said


@quiet
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_sparse_tensors_have_an_edge_for_each_entry(layout, program):
    torch = pytest.importorskip("torch")
    for seed in range(10):
        dense = torch.from_numpy(np.random.default_rng(seed).integers(0, 4, (20, 20))) * (torch.rand(20, 20) < .2)
        dense[0, 1] = 2
        batch = whole(getattr(dense.float(), "to_sparse_" + layout)(), edge_columns=["weight"])
        assert (matrices(batch, 20)[1] == dense.numpy()).all()
    ones = whole(getattr((dense != 0).float(), "to_sparse_" + layout)())
    assert edges_of(ones) == listed(*dense.numpy().nonzero())
    with pytest.raises(khop.OptionError, match='no column "weight"'):
        whole(getattr((dense != 0).float(), "to_sparse_" + layout)(), edge_columns=["weight"])


@quiet
def test_sparse_tensors_of_other_forms(program):
    torch = pytest.importorskip("torch")
    twice = torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]]), torch.tensor([2., 3.]), (2, 2))
    assert edges_of(whole(twice, edge_columns=["weight"]), "weight") == [[0, 0], [1, 1], [2, 3]]
    rows = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[2., 3.], [4., 5.]]), (2, 2, 2))
    batch = whole(rows, edge_columns=["feature"])
    assert sorted(np.asarray(batch._edge()["feature"]).tolist()) == [[2, 3], [4, 5]]
    for given, says in ((torch.ones(2, 3).to_sparse(), r"shape \(2, 3\): must be square"),
                        (torch.ones(2).to_sparse(), r"shape \(2,\): must be square"),
                        (torch.ones(2, 2).to_sparse_bsr((1, 1)), "sparse_bsr: must be COO")):
        with pytest.raises(ValueError, match=says):
            khop.write("g.khop", given)


@quiet
def test_attributes_become_columns(program, tmp_path):
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    utc, day = datetime.timezone.utc, datetime.datetime(2020, 1, 1)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    for i, name in enumerate(["ann", "bob", "cid", "dan"]):
        graph.add_node(name, x=[i, i / 2], y=i % 2, age=30 + i, train_mask=i < 2, town=name[0],
                       born=(day + datetime.timedelta(i)).replace(tzinfo=(utc, zone)[i % 2]))
    graph.add_edge("ann", "bob", weight=.5, since=datetime.date(2001, 2, 3), strong=True)
    graph.add_edge("bob", "cid", weight=2., since=datetime.date(2001, 2, 4), strong=False)
    graph.add_edge("dan", "dan", weight=3., since=datetime.date(2001, 2, 5), strong=True)
    khop.write(tmp_path / "g.khop", graph)
    of_nodes, of_edges = ["feature", "age", "born"], ["weight", "since", "strong"]
    batch = whole(tmp_path / "g.khop", node_columns=of_nodes, edge_columns=of_edges)
    ids, days = batch.n_id, 86400
    assert (batch.x == np.stack([ids, ids / 2], 1)).all() and (batch["node"]["age"] == 30 + ids).all()
    assert (batch["node"]["born"] == 1577836800 + days * ids - 7200 * (ids % 2)).all()
    first = 981158400  # 2001-02-03
    assert edges_of(batch, *of_edges) == listed(
        [0, 1, 1, 2, 3], [1, 0, 2, 1, 3], [.5, .5, 2, 2, 3], first + days * np.array([0, 0, 1, 1, 2]), [1, 1, 0, 0, 1])
    assert names(program, tmp_path / "g.khop") == list(graph)
    assert names(program, tmp_path / "g.khop", "town") == list("abcd")
    with khop.Loader(tmp_path / "g.khop", framework="numpy", seeds="train") as loader:
        batch = next(iter(loader))
        assert sorted(batch.n_id[:batch.batch_size]) == [0, 1]
    khop.write(tmp_path / "g.khop", graph, force=True, label="town")
    assert whole(tmp_path / "g.khop").y.tolist() == [0, 1, 2, 3]


@pytest.mark.filterwarnings("error::khop.KhopWarning")
@pytest.mark.parametrize("attributes, says", [
    (dict(nodes={0: {"a": {}}}), "nodes: 'a' is left out: its values are not numbers"),
    (dict(nodes={0: {"a": [1, 2]}, 1: {"a": [1]}}), "nodes: 'a' is left out"),
    (dict(nodes={0: {"a": 1}, 1: {"a": "1"}}), "nodes: 'a' is left out"),
    (dict(nodes={0: {"a": 1 << 70}}), "nodes: 'a' is left out"),
    (dict(nodes={0: {"a": 1 << 63}, 1: {"a": -1}}), "nodes: 'a' is left out"),
    (dict(nodes={0: {"a": "\ud800"}, 1: {"a": "b"}}), "nodes: 'a' is left out: texts are too long, or not UTF-8"),
    (dict(nodes={0: {7: 1}}), "nodes: 7 is left out: attributes need other names"),
    (dict(nodes={0: {"num_nodes": 1}}), "nodes: 'num_nodes' is left out"),
    (dict(nodes={0: {"a": 1}}), "nodes: 1 of 2 have no 'a': it is nan there"),
    (dict(nodes={0: {"a": "b"}}), "nodes: 1 of 2 have no 'a': it is '' there"),
    (dict(edge={"kind": "road"}), "edges: 'kind' is left out: columns of edges have no text"),
    (dict(edge={"weight": 2.}), "edges: 1 of 2 have no 'weight': it is 1 there"),
    (dict(graph={"place": "Zachary's"}), "graph: 'place' is left out"),
    (dict(key="road"), "keys of parallel edges are left out"),
    (dict(names="ab", nodes={"a": {"id": 1}}), "nodes: 'id' is left out: the names of the nodes are called so"),
])
def test_what_is_left_out_is_said(attributes, says, program, tmp_path):
    networkx = pytest.importorskip("networkx")
    graph = networkx.MultiGraph(**attributes.get("graph", {}))
    u, v = attributes.get("names", range(2))
    graph.add_nodes_from([u, v])
    graph.add_edge(u, v, attributes.get("key"))
    graph.add_edge(v, v, **attributes.get("edge", {}))
    networkx.set_node_attributes(graph, attributes.get("nodes", {}))
    with pytest.raises(khop.KhopWarning, match=says):
        khop.write(tmp_path / "g.khop", graph)
