"""khop.pyg beside NeighborLoader: HGTLoader, ShaDow, GraphSAINT, Cluster-GCN, NeighborSampler, and datasets by path."""
import os
import tempfile

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pyg = pytest.importorskip("torch_geometric.data", reason="torch_geometric is not installed")

import khop  # noqa: E402
from khop.pyg import (  # noqa: E402
    ClusterData, ClusterLoader, GraphSAINTEdgeSampler, GraphSAINTNodeSampler, GraphSAINTRandomWalkSampler, HGTLoader,
    LinkNeighborLoader, NeighborLoader, NeighborSampler, ShaDowKHopSampler,
)

N, M = 120, 700


@pytest.fixture
def data(program):
    g = torch.Generator().manual_seed(3)
    return pyg.Data(x=torch.arange(N)[:, None].float(), y=torch.arange(N) % 5, edge_attr=torch.arange(M),
                    edge_index=torch.randint(0, N, (2, M), generator=g))


def subgraph_of(data, nodes, edge_index, edge_attr):
    """Checks that edges are all those between the nodes, of which each is there once."""
    at = torch.full((data.num_nodes,), -1)
    at[nodes] = torch.arange(len(nodes))
    source, target = at[data.edge_index]
    want = ((source >= 0) & (target >= 0)).nonzero()[:, 0]
    assert sorted(edge_attr.tolist()) == want.tolist()
    assert torch.equal(nodes[edge_index], data.edge_index[:, edge_attr])


def test_shadow_has_a_subgraph_for_each_root(data):
    roots = torch.tensor([5, 7, 5, 90])
    (b,) = ShaDowKHopSampler(data, depth=2, num_neighbors=3, node_idx=roots, batch_size=4, seed=1)
    assert len(b) == 4 and b.x[b.root_n_id, 0].tolist() == roots.tolist() and torch.equal(b.y, data.y[roots])
    for g in range(4):
        nodes = slice(b.ptr[g], b.ptr[g + 1])
        ids, edges = b.x[nodes, 0].long(), b.batch[b.edge_index[0]] == g
        assert (ids.diff() > 0).all() and (b.batch[nodes] == g).all()
        subgraph_of(data, ids, b.edge_index[:, edges] - b.ptr[g], b.edge_attr[edges])


@pytest.mark.parametrize("make", [
    lambda d, **k: GraphSAINTNodeSampler(d, 40, **k), lambda d, **k: GraphSAINTEdgeSampler(d, 24, **k),
    lambda d, **k: GraphSAINTRandomWalkSampler(d, 16, 2, **k),
], ids=["node", "edge", "walk"])
def test_saint_has_pygs_norms(make, data):
    loader = make(data, num_steps=300, sample_coverage=300, seed=2)
    nodes, edges, norms = torch.zeros(N), torch.zeros(M), torch.zeros(M)
    of_nodes = torch.zeros(N)
    for b in loader:
        ids = b.x[:, 0].long()
        subgraph_of(data, ids, b.edge_index, b.edge_attr)
        nodes[ids] += 1
        edges[b.edge_attr] += 1
        norms[b.edge_attr], of_nodes[ids] = b.edge_norm, b.node_norm
    often = edges > 40
    assert often.sum() > 20 and len(loader) == 300
    want = nodes[data.edge_index[0]] / edges  # PyG: how often the source is drawn, for each time that the edge is
    assert ((norms / want)[often].log().abs() < 0.5).float().mean() > 0.95
    assert abs((norms / want)[often].log().mean()) < 0.06
    mean = (of_nodes * nodes)[nodes > 60] * N / 300  # PyG: the number of subgraphs / how often the node is in one / N
    assert abs(mean.mean() - 1) < 0.06


def test_saint_walks_follow_edges(program):
    data = pyg.Data(x=torch.arange(60.0)[:, None], edge_index=torch.stack([torch.arange(59), torch.arange(1, 60)]))
    for b in GraphSAINTRandomWalkSampler(data, 1, 3, num_steps=30, seed=1):
        ids = b.x[:, 0].tolist()
        assert ids == [ids[0] + i for i in range(len(ids))] and (len(ids) == 4 or ids[-1] == 59)


def test_hgt_takes_nodes_of_each_type(program):
    data, g = pyg.HeteroData(), torch.Generator().manual_seed(1)
    data["a"].x, data["b"].x = torch.arange(50), torch.arange(70)
    data["a", "b"].edge_index = torch.stack([torch.randint(0, n, (400,), generator=g) for n in (50, 70)])
    data["b", "a"].edge_index = data["a", "b"].edge_index.flip(0)
    for b in HGTLoader(data, {"a": [4], "b": [6]}, input_nodes=("a", torch.arange(10)), batch_size=5, seed=1):
        assert (b["a"].num_nodes, b["b"].num_nodes, b["a"].batch_size) == (5, 6, 5)  # sources of in-edges of a are b's
        assert torch.equal(b["a"].x, b["a"].n_id)
    with pytest.raises(ValueError, match="no node type 'c'; there are 'a', 'b'"):
        HGTLoader(data, {"c": [4]}, input_nodes="a")


def test_clusters_cover_the_graph(data, capfd):
    parts = ClusterData(data, num_parts=6, log=False)
    sizes = [parts[i].num_nodes for i in range(6)]
    assert sum(sizes) == N and max(sizes) <= 21  # METIS's bound: 3 percent above the mean
    seen = []
    for b in ClusterLoader(parts, batch_size=2, shuffle=True):
        ids = b.x[:, 0].long()
        seen += ids.tolist()
        subgraph_of(data, ids, b.edge_index, b.edge_attr)
    assert sorted(seen) == list(range(N))


def test_a_sampler_draws_anew_at_each_call(data):
    sampler = NeighborSampler(data, [2, 2], seed=4)
    seeds = pyg_input(torch.arange(30))
    first, second = sampler.sample_from_nodes(seeds), sampler.sample_from_nodes(seeds)
    assert first.node[:30].tolist() == list(range(30)) and not torch.equal(first.edge, second.edge)
    again = NeighborSampler(data, [2, 2], seed=4).sample_from_nodes(seeds)
    assert torch.equal(first.edge, again.edge) and torch.equal(first.node[first.row], data.edge_index[0, first.edge])


def pyg_input(nodes):
    from torch_geometric.sampler import NodeSamplerInput
    return NodeSamplerInput(input_id=None, node=nodes)


# --- datasets by their path ---

def test_a_datasets_batches_have_its_columns(dataset):
    path = dataset("sbm")
    with khop.Loader(path, [4, 3], seeds="train", batch_size=64, seed=5, shuffle=True, edge_pos=True,
                     node_columns=["feature", "label"], framework="torch") as loader:
        want = [(b.n_id.clone(), b.x.clone(), b["node"]["label"].clone() if "node" in b.node_types else None,
                 b.edge_index.clone(), b.e_id.clone()) for b in loader]
    loader = NeighborLoader(path, [4, 3], input_nodes="train", batch_size=64, seed=5, shuffle=True,
                            transform=lambda d: d.update({"seen": d.x.shape[0]}))
    assert len(loader) == len(want)
    for b, (n_id, x, y, edge_index, e_id) in zip(loader, want):
        assert torch.equal(b.n_id, n_id) and torch.equal(b.x, x) and torch.equal(b.edge_index, edge_index)
        assert torch.equal(b.e_id, e_id) and b.seen == len(x) == b.num_nodes
        assert b.y.shape == (b.num_nodes,) and (y is None or torch.equal(b.y, y)) and b.batch_size == len(b.input_id)
        del b
    with pytest.raises(TypeError, match="only the server lists them"):
        loader([0])
    assert next(iter(NeighborLoader(path, [2], input_nodes=torch.tensor([4, 9]), batch_size=2))).n_id[:2].tolist() == [
        4, 9]
    loader.close()
    assert os.path.exists(path) and os.listdir(tempfile.gettempdir()) == []


def test_typed_datasets_too(dataset):
    path = dataset("typed")
    loader = NeighborLoader(path, {("paper", "cites", "paper"): [2, 2], ("author", "writes", "paper"): [3, 0],
                                   ("paper", "rev_writes", "author"): [0, 2],
                                   ("author", "affiliated_with", "institution"): [0, 0]},
                            input_nodes=("paper", torch.arange(40)), batch_size=20)
    for b in loader:
        assert b["paper"].x.shape[0] == b["paper"].num_nodes == len(b["paper"].y) and b["paper"].batch_size == 20
        assert b["author", "writes", "paper"].e_id.shape[0] == b["author", "writes", "paper"].num_edges
        del b
    (b,) = NeighborLoader(path, [1], input_nodes=("paper", "val"), batch_size=10**6)
    assert b["paper"].batch_size == len(b["paper"].input_id) > 100
    for b in HGTLoader(path, [8], input_nodes=("paper", torch.arange(20)), batch_size=10):
        assert b["paper"].x.shape[0] == b["paper"].num_nodes > 10
        del b


def test_subgraphs_of_datasets(dataset):
    path = dataset("sbm")
    b = next(iter(ShaDowKHopSampler(path, 2, 3, node_idx="val", batch_size=8)))
    assert len(b) == 8 and b.x.shape[0] == b.num_nodes and b.y.shape == (8,)
    b = next(iter(GraphSAINTNodeSampler(path, 50, num_steps=2, sample_coverage=2)))
    assert b.x.shape[0] == b.num_nodes == len(b.node_norm) == len(b.y) and len(b.edge_norm) == b.num_edges
    parts = ClusterData(path, 10, log=False)
    b = next(iter(ClusterLoader(parts, batch_size=3)))
    assert b.x.shape[0] == len(b.y) == b.num_nodes and 800 < b.num_nodes < 1000
    (b,) = LinkNeighborLoader(path, [2], edge_label_index=torch.tensor([[1, 2], [3, 4]]), batch_size=2)
    assert b.n_id[b.edge_label_index].tolist() == [[1, 2], [3, 4]] and b.x.shape[0] == b.num_nodes
    loader = LinkNeighborLoader(path, [2], batch_size=4000, neg_sampling="binary")
    assert len(loader) == -(-khop.info(path)["edges"] // 4000)
    b = next(iter(loader))
    assert b.edge_label_index.shape == (2, 8000) and b.edge_label.sum() == 4000


def test_what_khop_does_not_have_names_what_there_is(data, dataset):
    for make, says in [
        (lambda: NeighborLoader(data, [2], num_neigbors=[3]),
         "no 'num_neigbors': did you mean 'num_neighbors'.* .khop docs migrating, .From PyG"),
        (lambda: NeighborLoader(data, [2], prefetch_facto=2), "did you mean 'prefetch_factor'"),
        (lambda: ShaDowKHopSampler(data, 2, 3, sampler=range(3)), "orders the seeds itself"),
        (lambda: NeighborLoader(dataset("sbm"), [2], input_nodes="train", sampler=range(3)), "only the server lists"),
        (lambda: ShaDowKHopSampler(data, 2, 3, batch_sampler=[]), "ShaDowKHopSampler has no 'batch_sampler'"),
        (lambda: ShaDowKHopSampler(dataset("typed"), 2, 3), "several types"),
        (lambda: ClusterData(dataset("sbm"), 10, log=False)[0], "have no index"),
        (lambda: NeighborSampler(data, [2], sample_direction="up"), "must be 'forward' or 'backward'"),
        (lambda: NeighborLoader(dataset("sbm"), [2], weight_attr="w"), "has no column 'w'; it has: none"),
    ]:
        with pytest.raises((TypeError, ValueError), match=says):
            make()
    with pytest.raises(NotImplementedError, match='followed from their targets.*direction="out"'):
        NeighborSampler(dataset("sbm"), [2], sample_direction="backward")  # it would follow edges the wrong way
