"""khop.dgl's samplers of subgraphs: ShaDow, Cluster-GCN and GraphSAINT, beside what DGL 2.1 draws."""
import os
import pickle
import tempfile

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from graph_of_dgl import Graph, random_graph  # noqa: E402
from khop import dgl  # noqa: E402

# What DGL 2.1 makes of random_graph(): the mean nodes and edges of 4,000 graphs a sampler (of walks 1,000), and the
# graph of all neighbours of seeds: nodes, edges, and the sums of the numbers of both.
DGL_DREW = {("node", 40): (37.15, 34.45), ("edge", 30): (54.32, 90.27), ("walk", (20, 3)): (68.66, 150.74)}
DGL_REACHED = [3, 9, 200], (88, 224, 13220, 230600)


def check(subgraph, g):
    """What DGL promises of a subgraph: all edges between its nodes, each once, and the data of both."""
    source, target = g.edges()
    ids, edges = subgraph.ndata[dgl.NID], subgraph.edata[dgl.EID]
    at = torch.full((g.num_nodes("_N"),), -1)
    at[ids] = torch.arange(len(ids))
    between = ((at[source] >= 0) & (at[target] >= 0)).nonzero()[:, 0]
    assert sorted(edges.tolist()) == between.tolist() and subgraph.num_edges() == len(between)
    s, t = subgraph.edges()
    assert torch.equal(ids[s], source[edges]) and torch.equal(ids[t], target[edges])
    assert torch.equal(subgraph.ndata["feat"][:, 0].long(), ids) and torch.equal(subgraph.ndata["label"], ids % 7)
    assert torch.equal(subgraph.edata["w"], (edges % 2).float())
    assert torch.equal(subgraph.in_degrees(), t.bincount(minlength=len(ids)))
    assert torch.equal(subgraph.out_degrees(), s.bincount(minlength=len(ids)))
    return set(ids.tolist())


def reached(g, seeds, hops):
    """The nodes from which in-edges lead to the seeds within this number of hops."""
    source, target = g.edges()
    nodes = set(seeds)
    for _ in range(hops):
        nodes |= set(source[torch.isin(target, torch.tensor(sorted(nodes)))].tolist())
    return nodes


def test_shadow_has_one_graph_for_the_seeds_of_a_batch(program):
    g, seen = random_graph(), []
    loader = dgl.DataLoader(g, torch.arange(100), dgl.ShaDowKHopSampler([-1, -1]), batch_size=3, shuffle=True, seed=1)
    for inputs, outputs, subgraph in loader:
        assert torch.equal(subgraph.ndata[dgl.NID], inputs) and torch.equal(inputs[:len(outputs)], outputs)
        assert check(subgraph, g) == reached(g, outputs.tolist(), 2)
        seen += outputs.tolist()
    assert sorted(seen) == list(range(100))
    loader.close()
    seeds, facts = DGL_REACHED
    ids, _, subgraph = dgl.ShaDowKHopSampler([-1, -1]).sample(g, torch.tensor(seeds))
    assert (len(ids), subgraph.num_edges(), ids.sum().item(), subgraph.edata[dgl.EID].sum().item()) == facts
    few = dgl.ShaDowKHopSampler([2, 5], prob="w", prefetch_node_feats=["label"], prefetch_edge_feats=[])
    inputs, outputs, subgraph = few.sample(g, torch.arange(10))
    assert 10 < len(inputs) <= 10 * 6 * 3 and set(subgraph.ndata) == {dgl.NID, "label"} and set(subgraph.edata) == {
        dgl.EID}
    assert os.listdir(tempfile.gettempdir()) == []


def test_shadow_of_edges(program):
    g, ids = random_graph(), torch.arange(0, 60, 3)
    shadow = dgl.ShaDowKHopSampler([-1])
    sampler = dgl.as_edge_prediction_sampler(shadow, negative_sampler=dgl.negative_sampler.Uniform(1))
    for inputs, pairs, against, subgraph in dgl.DataLoader(g, ids, sampler, batch_size=10):
        assert against.num_edges() == pairs.num_edges() == 10 and torch.equal(subgraph.ndata[dgl.NID], inputs)
        assert check(subgraph, g) == reached(g, pairs.ndata[dgl.NID].tolist(), 1)
    with pytest.raises(TypeError, match="takes all edges between the nodes"):
        dgl.as_edge_prediction_sampler(shadow, exclude="self")


def test_shadow_of_a_typed_dataset_has_its_columns(dataset):
    sampler = dgl.ShaDowKHopSampler([{"cites": 2, "writes": 1}] * 2, prefetch_node_feats={"paper": ["feat"]})
    inputs, outputs, subgraph = next(
        iter(dgl.DataLoader(dataset("typed"), {"paper": torch.arange(20)}, sampler, batch_size=20)))
    assert outputs["paper"].tolist() == list(range(20)) and subgraph.num_nodes("author") == len(inputs["author"]) > 0
    assert subgraph.nodes["paper"].data["feat"].shape[0] == subgraph.num_nodes("paper") > 20
    source, target = subgraph.edges(etype="writes")
    assert source.max() < subgraph.num_nodes("author") and target.max() < subgraph.num_nodes("paper")


def test_clusters_cover_the_graph_in_any_order(program, temporary_folder):
    g, cache = random_graph(), os.path.join(temporary_folder, "parts.pkl")
    sampler = dgl.ClusterGCNSampler(g, 6, cache_path=cache)
    assert os.listdir(temporary_folder) == ["parts.pkl"]
    with open(cache, "rb") as f:
        offset, nodes = pickle.load(f)  # as DGL reads it
    parts = [set(nodes[a:b].tolist()) for a, b in zip(offset, offset[1:])]
    assert check(sampler.sample(g, [4, 1]), g) == parts[1] | parts[4]
    assert sorted(n for p in parts for n in p) == list(range(300)) and max(map(len, parts)) <= 51
    again = dgl.ClusterGCNSampler(g, 6, cache_path=cache)
    order = [3, 1, 5, 0, 2, 4]
    got = [check(s, g) for s in dgl.DataLoader(g, torch.tensor(order), again, batch_size=2)]
    assert got == [parts[a] | parts[b] for a, b in zip(order[::2], order[1::2])]
    shuffled = [check(s, g) for s in dgl.DataLoader(g, range(6), again, batch_size=4, shuffle=True, seed=2)]
    assert len(shuffled) == 2 and len(shuffled[0] | shuffled[1]) == 300
    for use, says in [
        (lambda: dgl.ClusterGCNSampler(g, 5, cache_path=cache), "has 6 parts, not 5"),
        (lambda: dgl.ClusterGCNSampler(g, 5, balance_edges=True), "leave out balance_ntypes and balance_edges"),
        (lambda: dgl.DataLoader(g, [0, 1], again), "the numbers 0 to 5, each once"),
    ]:
        with pytest.raises((TypeError, ValueError), match=says):
            use()


@pytest.mark.parametrize("mode, budget", DGL_DREW)
def test_saint_draws_as_dgl_does(mode, budget, program):
    g = random_graph()
    loader = dgl.DataLoader(g, torch.arange(1001), dgl.SAINTSampler(mode, budget), batch_size=2, drop_last=True, seed=5)
    sizes = []
    for subgraph in loader:
        if len(sizes) % 20 == 0:
            check(subgraph, g)
        assert (subgraph.ndata[dgl.NID].diff() > 0).all()
        sizes.append([subgraph.num_nodes(), subgraph.num_edges()])
    assert len(sizes) == len(loader) == 500
    mean, error = torch.tensor(sizes).float().mean(0), torch.tensor(sizes).float().std(0) / 500 ** 0.5
    assert ((mean - torch.tensor(DGL_DREW[mode, budget])).abs() < 5 * error).all(), (mean, error)


def test_saint_walks_follow_edges(program):
    ends = torch.arange(59), torch.arange(1, 60)
    g = Graph({("_N", "_E", "_N"): ends}, {"_N": 60})
    for subgraph in dgl.DataLoader(g, range(30), dgl.SAINTSampler("walk", (1, 3)), seed=1):
        ids = subgraph.ndata[dgl.NID].tolist()
        assert ids == [ids[0] + i for i in range(len(ids))] and (len(ids) == 4 or ids[-1] == 59)
        assert subgraph.edges()[0].tolist() == list(range(len(ids) - 1))


def test_subgraphs_of_a_dataset_have_its_columns(dataset):
    path = dataset("sbm")
    subgraph = next(iter(dgl.DataLoader(path, [0], dgl.SAINTSampler("node", 50, prefetch_ndata=["feat", "labels"]))))
    assert subgraph.ndata["feat"].shape[0] == subgraph.num_nodes() == len(subgraph.ndata["labels"]) <= 50
    whole = dgl.SAINTSampler("node", 3000).sample(path)
    ids = whole.ndata[dgl.NID]
    assert torch.equal(whole.ndata["feature"][torch.searchsorted(ids, subgraph.ndata[dgl.NID][:1])][0],
                       subgraph.ndata["feat"][0]) or (
        subgraph.ndata[dgl.NID][0] not in ids)
    with pytest.raises(TypeError, match="SAINTSampler: takes a graph with one type"):
        dgl.DataLoader(dataset("typed"), [0], dgl.SAINTSampler("node", 50))
    for use, says in [
        (lambda: dgl.SAINTSampler("tree", 5), "'node', 'edge' or 'walk', got tree"),
        (lambda: dgl.SAINTSampler("walk", 5), "of mode 'walk' it is roots and length"),
        (lambda: dgl.SAINTSampler("node", (5, 2)), "of mode 'node' it is a number"),
        (lambda: dgl.ShaDowKHopSampler([5], repalce=True), "did you mean 'replace'"),
        (lambda: dgl.DataLoader(path, [0], dgl.SAINTSampler("node", 5), batch_size=0), "must be at least 1"),
    ]:
        with pytest.raises((TypeError, ValueError), match=says):
            use()
