"""khop.graphbolt: GraphBolt's names, without DGL, and its folders as they are."""
import functools
import pathlib
import shutil

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import khop  # noqa: E402
import khop.graphbolt as gb  # noqa: E402
from conftest import run  # noqa: E402
from graph_of_dgl import random_graph  # noqa: E402

TYPED = pathlib.Path(__file__).parents[3] / "formats/internal/foreign/graphbolt/testdata/typed"


@pytest.fixture
def folder(dataset, program, tmp_path):
    """sbm as a folder of GraphBolt."""
    run(program, "export", dataset("sbm"), tmp_path / "bolt", "--to", "graphbolt")
    return tmp_path / "bolt"


def check(minibatch, ends):
    for s, b in zip(minibatch.sampled_subgraphs, minibatch.blocks):
        target = torch.repeat_interleave(torch.arange(len(s.original_column_node_ids)), s.sampled_csc.indptr.diff())
        assert torch.equal(s.original_row_node_ids[s.sampled_csc.indices], ends[0][s.original_edge_ids])
        assert torch.equal(s.original_column_node_ids[target], ends[1][s.original_edge_ids])
        assert b.num_edges() == len(s.original_edge_ids) and b.num_src_nodes() == len(s.original_row_node_ids)


def test_a_folder_of_graphbolt_opens_as_it_is(folder, dataset):
    data = gb.OnDiskDataset(folder).load()
    task = data.tasks[0]
    assert task.metadata["num_classes"] == 5 and data.feature.size("node", None, "feature") == (16,)
    with khop.Loader(dataset("sbm"), [5, 3], frontier="all", seeds="train", batch_size=200, seed=4, shuffle=True,
                     framework="torch") as loader:
        want = [(b.n_id.tolist(), b.x.sum().item(), b.y.tolist()) for b in loader]
    pipe = gb.ItemSampler(task.train_set, batch_size=200, shuffle=True, seed=4)
    pipe = pipe.sample_neighbor(data.graph,
                                [3, 5]).fetch_feature(data.feature, node_feature_keys=["feature"]).copy_to("cpu")
    got = [(m.input_nodes.tolist(), m.node_features["feature"].sum().item(), m.labels.tolist())
           for m in gb.DataLoader(pipe)]
    assert got == want
    nodes, labels = task.train_set._items
    whole = data.feature.read("node", None, "label")
    assert len(nodes) == len(task.train_set) and torch.equal(whole[nodes.long(), 0], labels) and task.train_set[3] == (
        nodes[3], labels[3])
    before = (folder / "khop.graphbolt").stat()
    again = gb.OnDiskDataset(folder)  # takes what was converted
    assert again.graph.total_num_nodes == 3000
    assert before.st_ino == (folder / "khop.graphbolt").stat().st_ino


@pytest.mark.parametrize("process", ["auto", "server"])
def test_all_minibatches_may_be_kept(process, folder):
    data = gb.OnDiskDataset(folder).load()
    pipe = gb.ItemSampler(data.tasks[0].train_set, batch_size=20).sample_neighbor(data.graph, [3, 5])
    pipe = pipe.fetch_feature(data.feature, node_feature_keys=["feature"])

    def told(m):
        return m.seeds.tolist(), m.input_nodes.tolist(), m.labels.tolist(), m.node_features["feature"].sum(1).tolist()
    one_by_one, together = (gb.DataLoader(pipe, options={"process": process, "seed": 5}) for _ in range(2))
    want, kept = [told(m) for m in one_by_one], list(together)
    assert len(want) > 16 and [told(m) for m in kept] == want
    one_by_one.close()
    together.close()


def test_types_too(tmp_path, program):
    data = gb.OnDiskDataset(shutil.copytree(TYPED, tmp_path / "typed")).load()
    assert data.graph.num_nodes == {"author": 3, "paper": 5} and data.graph.num_edges["paper:cites:paper"] == 5
    items = gb.HeteroItemSet(
        {"paper": gb.ItemSet((torch.tensor([4, 1]), torch.tensor([7, 8])), names=("seeds", "labels"))})
    pipe = gb.ItemSampler(items, batch_size=2).sample_neighbor(data.graph, [torch.tensor([-1, -1])])
    pipe = pipe.fetch_feature(data.feature, node_feature_keys={"paper": ["feat"], "author": ["age"]})
    (m,) = gb.DataLoader(pipe)
    assert m.seeds["paper"].tolist() == [4, 1] and m.labels["paper"].tolist() == [7, 8]
    assert m.node_features["paper", "feat"].shape == (len(m.input_nodes["paper"]), 2)
    assert torch.equal(m.node_features["author", "age"],
                       data.feature.read("node", "author", "age")[m.input_nodes["author"]])
    assert set(m.sampled_subgraphs[0].original_edge_ids) == {"author:writes:paper", "paper:cites:paper"}
    assert "seeds={'paper': tensor([4, 1])}" in repr(m)


def test_items_and_features_in_memory(program):
    g = random_graph()
    source, target = g.edges()
    order = torch.sort(target, stable=True)[1]
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), target.bincount(minlength=300).cumsum(0)])
    graph = gb.fused_csc_sampling_graph(indptr, source[order], edge_attributes={"w": (torch.arange(2000) % 2).float()})
    ends = source[order], target[order]
    store = gb.BasicFeatureStore({("node", None, "feat"): gb.TorchBasedFeature(torch.arange(300)[:, None]),
                                  ("edge", None, "number"): gb.TorchBasedFeature(torch.arange(2000)[:, None])})
    items = gb.ItemSet((torch.tensor([5, 5, 200, 9]), torch.tensor([1, 2, 3, 4])), names=("seeds", "labels"))
    pipe = gb.ItemSampler(items, batch_size=4).sample_neighbor(graph, [4, 2], prob_name="w")
    pipe = pipe.fetch_feature(store, node_feature_keys=["feat"], edge_feature_keys=["number"])
    (m,) = gb.DataLoader(pipe.transform(lambda m: m), num_workers=2, overlap_graph_fetch=True)
    check(m, ends)
    assert m.seeds.tolist() == [5, 5, 200, 9] and m.labels.tolist() == [1, 2, 3, 4]
    assert m.input_nodes[m.compacted_seeds].tolist() == m.seeds.tolist()
    assert torch.equal(m.node_features["feat"][:, 0], m.input_nodes)
    for s, features in zip(m.sampled_subgraphs, m.edge_features):
        assert torch.equal(features["number"][:, 0], s.original_edge_ids) and (s.original_edge_ids % 2 == 1).all()
    whole = [m.seeds.tolist() for m in gb.DataLoader(gb.ItemSampler(300, batch_size=100).sample_in_subgraph(graph))]
    assert sum(whole, []) == list(range(300))


def test_links_with_negatives(program):
    g = random_graph()
    graph, pairs = gb.from_dglgraph(g, True, True), torch.stack(g.edges(), 1)[:90]
    pipe = gb.ItemSampler(gb.ItemSet(pairs, names="seeds"), batch_size=40)
    pipe = pipe.sample_uniform_negative(graph,
                                        3).sample_neighbor(graph, [2]).exclude_seed_edges(include_reverse_edges=True)
    seen = 0
    for m in gb.DataLoader(pipe):
        n = len(m.seeds) // 4
        assert torch.equal(m.seeds[:n], pairs[seen:seen + n]) and torch.equal(m.input_nodes[m.compacted_seeds], m.seeds)
        assert m.labels.tolist() == [1] * n + [0] * 3 * n
        assert m.indexes.tolist() == [*range(n), *torch.arange(n).repeat_interleave(3).tolist()]
        assert torch.equal(m.seeds[n:, 0], m.seeds[:n, 0].repeat_interleave(3))
        check(m, g.edges())
        assert not {*map(tuple, pairs[seen:seen + n].tolist())} & {
            *zip(*(end[m.sampled_subgraphs[0].original_edge_ids].tolist() for end in g.edges()))}
        seen += n
    assert seen == 90


def test_what_there_is_not_names_what_there_is(program, tmp_path):
    graph = gb.SamplingGraph({"edge_index": torch.tensor([[0, 1], [1, 0]])})
    items = gb.ItemSampler(2, batch_size=1)
    for use, says in [
        (lambda: gb.ItemSampler(2, batch_size=1, shufle=True), "did you mean 'shuffle'.*From GraphBolt"),
        (lambda: gb.DataLoader(gb.ItemSampler(2, 1, minibatcher=len).sample_neighbor(graph, [1])), "a minibatcher"),
        (lambda: items.sample_neighbour(graph, [1]), "did you mean 'sample_neighbor'"),
        (lambda: gb.DataLoader(items.sample_neighbor(graph, [1], deduplicate=False)), "a node is in a batch once"),
        (lambda: gb.DataLoader(items.sample_layer_neighbor(graph, [1], prob_name="w")), "without replace and prob"),
        (lambda: gb.DataLoader(items.sample_neighbor(graph, [1], prob_name="w")), "no column 'w' of edges; there are"),
        (lambda: gb.DataLoader(items, options={"workers": 1}), "add sample_neighbor"),
        (lambda: gb.DataLoader(items.sample_neighbor(graph, [1]), overlap_grap_fetch=True), "overlap_graph_fetch"),
        (lambda: gb.ItemSet((torch.arange(2), torch.arange(3))), "all need as many rows"),
        (lambda: gb.OnDiskDataset(tmp_path / "none").load(), "Invalid dataset path.*none"),
    ]:
        with pytest.raises((TypeError, ValueError, KeyError, AttributeError, RuntimeError), match=says):
            use()


def test_times_of_items_bound_the_edges(program):
    g = random_graph()
    g.edges["_N", "_E", "_N"].data["stamp"] = torch.arange(2000) % 100
    items = gb.ItemSet((torch.arange(60), torch.arange(60) + 20), names=("seeds", "timestamp"))
    pipe = gb.ItemSampler(items, batch_size=1).temporal_sample_neighbor(
        gb.from_dglgraph(g, True, True), [5, 5], edge_timestamp_attr_name="stamp")
    taken = 0
    for m in gb.DataLoader(pipe):
        for s in m.sampled_subgraphs:
            assert (g.edges["_N", "_E", "_N"].data["stamp"][s.original_edge_ids] < 20 + int(m.seeds[0])).all()
            taken += len(s.original_edge_ids)
    assert taken > 300


def test_processes_of_one_job_load_what_each_asks_for(program, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    graph = gb.SamplingGraph({"edge_index": torch.tensor([[0, 1], [1, 0]]), "num_nodes": 40})
    pipe = gb.ItemSampler(40, batch_size=10).sample_neighbor(graph, [1])
    assert [m.seeds.tolist()[0] for m in gb.DataLoader(pipe)] == [0, 10, 20, 30]
    from khop import dgl
    loader = dgl.DataLoader({"edge_index": torch.tensor([[0], [1]]), "num_nodes": 40}, torch.arange(40),
                            dgl.NeighborSampler([1]), batch_size=10)
    assert len(loader) == 4


def test_names_of_graphbolt_2_1(program):
    ends = torch.stack(random_graph().edges())
    graph = gb.SamplingGraph({"edge_index": ends, "num_nodes": 300})
    nodes = gb.ItemSet((torch.arange(90), torch.arange(90) % 4), names=("seed_nodes", "labels"))
    for m in gb.DataLoader(gb.ItemSampler(nodes, batch_size=40, shuffle=True).sample_neighbor(graph, [2])):
        assert torch.equal(m.labels, m.seed_nodes % 4)
        assert torch.equal(m.input_nodes[:len(m.seed_nodes)].sort()[0], m.seed_nodes.sort()[0])
    items = gb.ItemSet(ends[:, :50].T, names="node_pairs")
    pipe = gb.ItemSampler(items, batch_size=50).sample_uniform_negative(graph, 2).sample_neighbor(graph, [-1])
    pipe = pipe.transform(functools.partial(gb.exclude_seed_edges, include_reverse_edges=True))
    (m,) = gb.DataLoader(pipe)
    pairs, labels = m.node_pairs_with_labels
    assert torch.equal(torch.stack(m.node_pairs), ends[:, :50]) and labels.tolist() == [1] * 50 + [0] * 100
    assert torch.equal(m.input_nodes[torch.stack(m.positive_node_pairs)], ends[:, :50])
    negative = torch.stack(m.negative_node_pairs).flatten(1)
    assert torch.equal(torch.cat([torch.stack(m.compacted_node_pairs), negative], 1), torch.stack(pairs))
    sources, targets = m.blocks[0].edges()
    followed = set(zip(m.input_nodes[sources].tolist(), m.input_nodes[targets].tolist()))
    asked = set(zip(*ends[:, :50].tolist()))
    assert followed and not followed & (asked | {(v, u) for u, v in asked})


def test_seed_decides_what_khop_draws_too(program):
    graph = gb.SamplingGraph({"edge_index": torch.stack(random_graph().edges()), "num_nodes": 300})

    def drawn():
        gb.seed(11)
        pipe = gb.ItemSampler(gb.ItemSet(300, "seeds"), 100, shuffle=True).sample_neighbor(graph, [2])
        return [[m.input_nodes.tolist() for m in gb.DataLoader(pipe)] for _ in range(2)]
    one, two = drawn()
    assert one != two and drawn() == [one, two]


def test_items_alone():
    pipe = gb.ItemSampler(gb.ItemSet((torch.arange(10), torch.arange(10) * 2), names=("seeds", "labels")), batch_size=4)
    assert [m.seeds.tolist() for m in pipe] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert all(
        torch.equal(m.labels, 2 * m.seeds) and m.num_layers() == 0 for m in pipe.transform(lambda m: m.to("cpu")))
    shuffled = gb.ItemSampler(gb.ItemSet(10, names="seeds"), batch_size=4, shuffle=True, drop_last=True, seed=1)
    assert len({i for m in shuffled for i in m.seeds.tolist()}) == 8
    both = gb.ItemSetDict(
        {"a": gb.ItemSet(torch.arange(3), names="seeds"), "b": gb.ItemSet(torch.arange(4), names="seeds")})
    assert both[5] == {"b": 2} and {k: v.tolist() for k, v in both[1:5].items()} == {"a": [1, 2], "b": [0, 1]}
    assert [{k: v.tolist() for k, v in m.seeds.items()} for m in gb.ItemSampler(both, batch_size=5)] == [
        {"a": [0, 1, 2], "b": [0, 1]}, {"b": [2, 3]}]
    feature = gb.TorchBasedFeature(torch.zeros(5, 2))
    feature.update(torch.ones(2, 2), torch.tensor([1, 3]))
    assert feature.read().sum() == 4
    with pytest.raises(ValueError, match="size of the feature"):
        feature.update(torch.ones(5, 3))


def test_an_option_counts_where_a_stage_has_the_default(folder):
    data = gb.OnDiskDataset(folder).load()

    def loader(options=None, **how):
        pipe = gb.ItemSampler(data.tasks[0].train_set, batch_size=20, shuffle=True, **how)
        return gb.DataLoader(pipe.sample_neighbor(data.graph, [3, 5]), options=options)

    def seeds(loader):
        try:
            return [m.seeds.tolist() for m in loader]
        finally:
            loader.close()
    assert seeds(loader({"seed": 5})) == seeds(loader(seed=5)) == seeds(loader({"seed": 5}, seed=5))
    for name, value in {"seed": 6, "batch_size": 30}.items():
        with pytest.raises(TypeError, match=rf"{name}=\d+ and options=\{{'{name}': {value}\}} differ"):
            loader({name: value}, seed=5)
    with pytest.raises(TypeError, match="arguments of the loader"):
        loader({"fanouts": [1]})
