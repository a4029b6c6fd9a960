"""khop.pyg.NeighborLoader: PyG's signature and results, khop's batches."""
import os
import tempfile

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pyg = pytest.importorskip("torch_geometric.data", reason="torch_geometric is not installed")

import khop  # noqa: E402
from conftest import run  # noqa: E402
from khop.pyg import LinkNeighborLoader, NeighborLoader  # noqa: E402

N, M = 120, 900


@pytest.fixture
def data(program):
    g = torch.Generator().manual_seed(3)
    edges = torch.randint(0, N, (2, M), generator=g)
    return pyg.Data(x=torch.arange(N)[:, None].float(), y=torch.arange(N) % 5, edge_index=edges,
                    edge_attr=torch.arange(M), weight=torch.rand(M, generator=g),
                    time=torch.randint(0, 9, (N,), generator=g))


def check(batch, data):
    """What PyG's loaders promise of a batch, of any graph."""
    assert torch.equal(batch.x[:, 0].long(), batch.n_id) and torch.equal(batch.y, data.y[batch.n_id])
    source, target = data.edge_index[:, batch.e_id]
    assert torch.equal(batch.n_id[batch.edge_index[0]], source) and torch.equal(batch.n_id[batch.edge_index[1]], target)
    assert torch.equal(batch.edge_attr, batch.e_id)


def test_batches_are_those_of_a_khop_loader(data):
    edges = {"edge_index": data.edge_index, "num_nodes": N}
    options = dict(batch_size=32, shuffle=True, seed=5)
    with khop.Loader(edges, fanouts=[4, 3], seeds="all", framework="torch", **options) as loader:
        want = [(b.n_id.tolist(), b.edge_index.tolist()) for b in loader]
    loader = NeighborLoader(data, [4, 3], num_workers=4, persistent_workers=True, **options)
    got = list(loader)
    assert [(b.n_id.tolist(), b.edge_index.tolist()) for b in got] == want and len(loader) == len(want)
    for b in got:
        check(b, data)
        assert b.batch_size == len(b.input_id) and torch.equal(b.n_id[:b.batch_size], b.input_id)
        assert sum(b.num_sampled_nodes) == b.num_nodes
    assert [b.n_id.tolist() for b in loader] != [n for n, _ in want]  # another epoch
    loader.close()
    assert os.listdir(tempfile.gettempdir()) == []
    for use in (lambda: list(loader), lambda: loader([0])):
        with pytest.raises(khop.ServerError, match="closed"):
            use()


def test_torch_decides_where_no_seed_is_given(data):
    def first():
        torch.manual_seed(1)
        return next(iter(NeighborLoader(data, [4], batch_size=10, shuffle=True))).n_id.tolist()
    assert first() == first()


def test_leaving_and_beginning_again(data):
    loader = NeighborLoader(data, [4], input_nodes=torch.arange(120) < 50, batch_size=10)
    for _ in loader:
        break
    assert [b.batch_size for b in loader] == [10] * 5
    one = loader([7, 3])
    check(one, data)
    assert one.n_id[:2].tolist() == [7, 3]


@pytest.mark.parametrize("options", [
    dict(weight_attr="weight"), dict(time_attr="time"), dict(time_attr="time", temporal_strategy="last"),
    dict(replace=True), dict(disjoint=True), dict(subgraph_type="induced"),
], ids=str)
def test_options_reach_the_sampler(options, data):
    for b in NeighborLoader(data, [4, 3], batch_size=24, **options):
        check(b, data)
        if "time_attr" in options:
            assert (b.time <= b.time[b.batch]).all()  # the first nodes are the seeds, tree after tree
        if "disjoint" in options:
            assert torch.equal(b.batch[b.edge_index[0]], b.batch[b.edge_index[1]])


def test_seeds_have_times_of_their_own(data):
    data.stamp = torch.arange(M) % 50
    when = torch.arange(N) % 60
    for b in NeighborLoader(data, [5, 4], batch_size=24, time_attr="stamp", input_time=when):
        check(b, data)
        assert torch.equal(b.seed_time, when[b.input_id])
        assert (b.stamp <= b.seed_time[b.batch[b.edge_index[1]]]).all()


def test_seeds_have_windows_of_their_own(data):
    data.stamp = torch.arange(M) % 50
    when = torch.arange(N) % 60
    start = when - torch.arange(N) % 11
    window = dict(time_attr="stamp", input_start_time=start, batch_size=24, seed=3)
    plain, order = NeighborLoader(data, [5, 4], input_end_time=when, **window), Drawn([5, 0, 5, 59, 7])
    drawn = NeighborLoader(data, [5, 4], input_time=when, sampler=order, **window)
    edges = 0
    for b in (*plain, *drawn, plain([5, 80, 3])):
        check(b, data)
        link = b.batch[b.edge_index[1]]
        assert torch.equal(b.seed_time, when[b.input_id]) and (b.stamp <= b.seed_time[link]).all()
        assert (b.stamp >= start[b.input_id][link]).all()
        edges += len(link)
    assert edges > 100
    with pytest.raises(TypeError, match="are the same: give one"):
        NeighborLoader(data, [5], input_time=when, input_end_time=when, time_attr="stamp")
    with pytest.raises(ValueError, match="input_start_time: .* beside the time of each seed"):
        NeighborLoader(data, [5], input_start_time=start[:3], input_time=when, time_attr="stamp")
    with pytest.raises(TypeError, match="give the path of a dataset"):
        LinkNeighborLoader(data, [5], edge_label_index=data.edge_index[:, :N], edge_label_time=when, time_attr="stamp",
                           edge_label_start_time=start)


def test_links_with_negatives(data):
    pairs, labels = data.edge_index[:, :100], torch.arange(100) % 3 + 1
    loader = LinkNeighborLoader(data, [4, 3], edge_label_index=pairs, edge_label=labels, neg_sampling_ratio=2.0,
                                batch_size=30, seed=1)
    seen = 0
    for b in loader:
        check(b, data)
        n = len(b.input_id)
        ends = b.n_id[b.edge_label_index]
        assert torch.equal(ends[:, :n], pairs[:, b.input_id]) and ends.shape == (2, 3 * n)
        assert torch.equal(b.edge_label[:n], labels[b.input_id]) and not b.edge_label[n:].any()
        seen += n
    assert seen == 100 and len(loader) == 4
    one = loader([5])
    assert torch.equal(one.n_id[one.edge_label_index[:, 0]], pairs[:, 5])


def test_triplets_by_weight_and_time(data):
    pairs, when = data.edge_index[:, :200], torch.arange(200) % 9
    weight = (torch.arange(N) < 10).float()
    loader = LinkNeighborLoader(data, [4], edge_label_index=pairs, edge_label_time=when, time_attr="time",
                                batch_size=40, neg_sampling=dict(mode="triplet", amount=2, dst_weight=weight))
    for b in loader:
        assert torch.equal(b.n_id[b.src_index], pairs[0, b.input_id])
        assert torch.equal(b.n_id[b.dst_pos_index], pairs[1, b.input_id])
        assert b.dst_neg_index.shape == (len(b.input_id), 2) and torch.equal(b.seed_time, when[b.input_id])
        against = b.n_id[b.dst_neg_index]
        assert (against < 10).all() and (data.time[against] <= b.seed_time[:, None]).all()  # they exist by then
        assert torch.equal(b.batch[b.src_index], torch.arange(len(b.input_id)))
        assert torch.equal(b.batch[b.dst_neg_index], torch.arange(len(b.input_id))[:, None].expand(-1, 2))


@pytest.mark.parametrize("options, ends_of", [
    (dict(drop_last=True), 2), (dict(neg_sampling=dict(mode="binary", amount=0.5)), 3),
    (dict(neg_sampling="triplet"), 3),
], ids=["alone", "binary", "triplet"])
def test_the_ends_of_links_have_trees_of_their_own(data, options, ends_of):
    pairs = torch.cat([data.edge_index[:, :90], torch.arange(10).expand(2, 10)], 1)  # also from a node to itself
    how = dict(edge_label_index=pairs, disjoint=True, batch_size=40, shuffle=True, seed=5, **options)
    loader, again, epochs = LinkNeighborLoader(data, [3, 2], **how), LinkNeighborLoader(data, [3, 2], **how), []
    servers = set()
    for _ in range(2):
        epochs.append([(b.input_id.tolist(), b.n_id.tolist()) for b in loader])
        servers.add(loader._free["ends"][0]._listed._loader.server_pid)
    assert len(servers) == 1
    assert sorted(sum((i for i, _ in epochs[0]), [])) == list(range(100)) or options == dict(drop_last=True) and len(
        epochs[0]) == 2
    assert epochs[0] != epochs[1] and [(b.input_id.tolist(), b.n_id.tolist()) for b in again] == epochs[0]
    for b in loader:
        n, roots = len(b.input_id), b.num_sampled_nodes[0]
        check(b, data)
        ends = torch.stack([b.src_index, b.dst_pos_index]) if "src_index" in b else b.edge_label_index[:, :n]
        assert torch.equal(b.n_id[ends], pairs[:, b.input_id])
        assert roots == n * ends_of
        trees = torch.arange(len(b.n_id))  # the root of each node: edges lead from a tree to itself, so follow them
        for source, target in b.edge_index.t().tolist():
            assert trees[source] == trees[target] or trees[source] == source >= roots
            trees[source] = trees[target]
        assert (trees < roots).all() and len(trees.unique()) == roots
        assert torch.equal(b.batch, b.batch[trees]) and torch.equal(b.batch[ends[0]], torch.arange(n))
    one = loader([5, 95])
    assert one.num_sampled_nodes[0] >= 4 and torch.equal(one.input_id, torch.tensor([5, 95]))


def test_links_of_a_type_that_has_no_edges(program):
    data = pyg.HeteroData()
    data["a"].num_nodes, data["b"].num_nodes = 30, 20
    data["b", "to", "a"].edge_index = torch.randint(0, 20, (2, 50), generator=torch.Generator().manual_seed(1))
    pairs = torch.stack([torch.arange(20), torch.arange(20).flip(0)])
    for b in LinkNeighborLoader(data, [3], edge_label_index=(("a", "likes", "b"), pairs), batch_size=8):
        ends = b["a", "likes", "b"].edge_label_index
        assert torch.equal(b["a"].n_id[ends[0]], pairs[0, b["a", "likes", "b"].input_id])
        assert torch.equal(b["b"].n_id[ends[1]], pairs[1, b["a", "likes", "b"].input_id])


def test_types_may_have_any_names(program):
    data = pyg.HeteroData()
    data["a/b"].x, data["c__d"].num_nodes = torch.arange(N)[:, None].float(), 40
    g = torch.Generator().manual_seed(4)
    ends = torch.randint(0, 40, (M,), generator=g), torch.randint(0, N, (M,), generator=g)
    data["c__d", "to=1", "a/b"].edge_index = torch.stack(ends)
    data["a/b", "", "c__d"].edge_index = data["c__d", "to=1", "a/b"].edge_index.flip(0)
    fanouts = {("c__d", "to=1", "a/b"): [3, 2], ("a/b", "", "c__d"): [0, 2]}
    for b in NeighborLoader(data, fanouts, input_nodes="a/b", batch_size=50):
        assert torch.equal(b["a/b"].x[:, 0].long(), b["a/b"].n_id)
        edges = b["c__d", "to=1", "a/b"]
        source, target = data["c__d", "to=1", "a/b"].edge_index[:, edges.e_id]
        assert torch.equal(b["c__d"].n_id[edges.edge_index[0]], source)
        assert torch.equal(b["a/b"].n_id[edges.edge_index[1]], target)


@pytest.mark.parametrize("options, says", [
    (dict(input_time=torch.arange(N)), "input_time"), (dict(neighbor_sampler=1), "neighbor_sampler"),
    (dict(batch_sampler=[[1]]), "sampler"),
])
def test_what_khop_does_not_have_is_refused(options, says, data):
    with pytest.raises((TypeError, ValueError), match=says):
        NeighborLoader(data, [2], **options)
    with pytest.raises(TypeError, match="must be a Data"):
        NeighborLoader([1], [2])
    with pytest.raises(ValueError, match="'time_attr' is not set"):
        LinkNeighborLoader(data, [2], edge_label_time=torch.arange(M))
    with pytest.raises(TypeError, match="the same weights for both ends"):
        LinkNeighborLoader(data, [2], neg_sampling=dict(mode="binary", amount=1, dst_weight=torch.ones(N)))


def test_loaders_are_pygs_to_pyg_itself(data):
    import torch_geometric.loader
    from torch_geometric.nn import GraphSAGE
    model = GraphSAGE(1, 8, num_layers=2, out_channels=3).eval()
    loader = NeighborLoader(data, [-1], batch_size=50)
    assert torch.allclose(model.inference(loader), model(data.x, data.edge_index), rtol=1e-4, atol=1e-4)
    assert loader.node_sampler.num_neighbors.get_values() == [-1]
    with loader.enable_cpu_affinity(), loader.enable_multithreading(2):
        assert len(list(loader)) == 3
    assert isinstance(LinkNeighborLoader(data, [2]), torch_geometric.loader.LinkNeighborLoader)


def sums(nodes, edges, hops):
    """Ids of nodes, summed along the edges of a sample as often as it has hops: what a model computes of each node."""
    x = nodes.double()
    for _ in range(hops):
        x = x + 3 * torch.zeros(len(x), dtype=torch.double).index_add_(0, edges[1], x[edges[0]])
    return x


@pytest.mark.parametrize("options", [{}, dict(replace=True), dict(subgraph_type="induced"), dict(disjoint=True)],
                         ids=str)
def test_repeated_seeds_have_nodes_of_their_own(options, data):
    g = torch.Generator().manual_seed(8)
    for turn in range(2):
        seeds = torch.randint(0, 12, (30,), generator=g)
        loader = NeighborLoader(data, [3, 4], input_nodes=seeds, batch_size=10, seed=turn, **options)
        edges, how = {"edge_index": data.edge_index,
                      "num_nodes": N}, {k: v for k, v in options.items() if k != "subgraph_type"}
        same = khop.Loader(edges, [3, 4], seeds=seeds, batch_size=10, seed=turn, framework="torch",
                           induced="subgraph_type" in options, **how)
        for b, want in zip(loader, same):
            check(b, data)
            assert b.batch_size == 10 and torch.equal(b.n_id[:10], seeds[b.input_id])
            assert b.num_sampled_nodes[0] == 10 and sum(b.num_sampled_nodes) == len(b.n_id)
            assert sum(b.num_sampled_edges) == len(b.e_id)
            ends = [0, *torch.tensor(b.num_sampled_nodes).cumsum(0).tolist()]
            for hop, targets in enumerate(b.edge_index[1].split(b.num_sampled_edges)):
                assert "subgraph_type" in options or ((targets >= ends[hop]) & (targets < ends[hop + 1])).all()
                assert hop or torch.equal(targets, targets.sort()[0])
            rows = want["node"].seeds.long()
            hops = 1 if "subgraph_type" in options else 2
            assert torch.equal(sums(b.n_id, b.edge_index, hops)[:10], sums(want.n_id, want.edge_index, hops)[rows])
        same.close()
        again = loader(seeds[:10])  # numbers in the list of seeds
        assert torch.equal(again.n_id[:10], seeds[seeds[:10]])


def test_repeated_seeds_of_types_and_of_a_dataset(program, tmp_path):
    whole = pyg.HeteroData()
    g = torch.Generator().manual_seed(4)
    whole["a"].x, whole["b"].x = torch.arange(N)[:, None].float(), torch.arange(40)[:, None].float()
    whole["b", "to", "a"].edge_index = torch.stack(
        [torch.randint(0, 40, (M,), generator=g), torch.randint(0, N, (M,), generator=g)])
    whole["a", "by", "b"].edge_index = whole["b", "to", "a"].edge_index.flip(0)
    whole["a", "on", "a"].edge_index = torch.randint(0, N, (2, M), generator=g)
    for of in whole.edge_types:
        whole[of].edge_id = torch.arange(M)
    path = str(tmp_path / "typed.khop")
    khop.write(path, whole)
    seeds = torch.tensor([5, 6, 5, 5, 7, 6, 9])
    for given in (whole, path):
        for b in NeighborLoader(given, [3, 2], input_nodes=("a", seeds), batch_size=4, seed=2):
            n = b["a"].batch_size
            assert torch.equal(b["a"].n_id[:n], seeds[b["a"].input_id]) and b["a"].num_sampled_nodes[0] == n
            for of in b.node_types:
                assert torch.equal(b[of].x.flatten().long(), b[of].n_id)
            for of in b.edge_types:
                source, target = whole[of].edge_index[:, b[of].e_id]
                assert torch.equal(b[of[0]].n_id[b[of].edge_index[0]], source)
                assert torch.equal(b[of[2]].n_id[b[of].edge_index[1]], target)
                assert sum(b[of].num_sampled_edges) == len(b[of].e_id)
                if of[2] == "a":
                    lists = [b[of].e_id[b[of].edge_index[1] == i].tolist() for i in range(n)]
                    for i in range(n):
                        assert lists[i] == lists[b["a"].n_id.tolist().index(int(b["a"].n_id[i]))]


class Drawn:
    """A sampler of torch: each epoch has a list of its own, repeats among them."""

    def __init__(self, *lists):
        self.lists, self.turns = lists, 0

    def __len__(self):
        return len(self.lists[0])

    def __iter__(self):
        self.turns += 1
        return iter(self.lists[(self.turns - 1) % len(self.lists)])


@pytest.mark.parametrize("times", [None, "time"])
def test_a_sampler_of_torch_draws_the_seeds_of_each_epoch(data, times):
    nodes = torch.arange(0, N, 2)
    when = None if times is None else data.time[nodes]
    order = Drawn([5, 0, 5, 59, 7], [1, 2, 3, 4, 4], [9, 8], [])
    loader = NeighborLoader(data, [3, 2], input_nodes=nodes, input_time=when, time_attr=times, batch_size=2, seed=1,
                            sampler=order)
    assert len(loader) == 3
    for drawn in order.lists:
        batches = list(loader)
        assert torch.cat([torch.empty(0), *(b.input_id for b in batches)]).tolist() == drawn
        for b in batches:
            check(b, data)
            assert b.batch_size == len(b.input_id) and torch.equal(b.n_id[:b.batch_size], nodes[b.input_id])
            if when is not None:
                assert torch.equal(b.seed_time, when[b.input_id])
    loader.close()
    assert os.listdir(tempfile.gettempdir()) == []
    with pytest.raises(ValueError, match="mutually exclusive with shuffle"):
        NeighborLoader(data, [3], sampler=order, shuffle=True)


@pytest.mark.parametrize("disjoint", [False, True])
def test_a_sampler_of_torch_draws_the_links_of_each_epoch(data, disjoint):
    order = Drawn([5, 0, 5, 59, 7], [1, 2, 3, 4, 4])
    loader = LinkNeighborLoader(data, [3], edge_label_index=data.edge_index[:, :60], neg_sampling_ratio=1.0,
                                batch_size=2,
                                seed=1, disjoint=disjoint, sampler=order)
    for drawn in order.lists:
        batches = list(loader)
        assert torch.cat([b.input_id for b in batches]).tolist() == drawn and len(batches) == len(loader)
        for b in batches:
            check(b, data)
            n = len(b.input_id)
            assert torch.equal(b.n_id[b.edge_label_index[:, :n]], data.edge_index[:, b.input_id])


@pytest.mark.parametrize("make, says", [
    (lambda d, h: NeighborLoader(d, [2], input_nodes=torch.tensor([3, N])),
     r"input_nodes: 120, number 1: must be in 0 \.\. 119"),
    (lambda d, h: NeighborLoader(d, [2], input_nodes=torch.tensor([-1])), "input_nodes: -1, number 0"),
    (lambda d, h: NeighborLoader(h, [2]), "input_nodes: must name a node type, .*'a', 'b'"),
    (lambda d, h: NeighborLoader(h, [2], input_nodes=("c", torch.tensor([1]))), "input_nodes: must name a node type"),
    (lambda d, h: NeighborLoader(d, [2], weight_attr="wieght"), "weight_attr: no edges have an attribute 'wieght'"),
    (lambda d, h: NeighborLoader(h, [2], input_nodes="a", weight_attr="w"), "weight_attr: no edges"),
    (lambda d, h: NeighborLoader(d, [2], time_attr="tmie"), "time_attr: no nodes or edges"),
    (lambda d, h: NeighborLoader(pyg.Data(edge_index=d.edge_index, weight=1 - 2 * d.weight), [2], weight_attr="weight"),
     r"weight_attr: weight\[\d+\] is -0\.\d+: must be finite and not negative"),
    (lambda d, h: NeighborLoader(pyg.Data(edge_index=d.edge_index, num_nodes=9), [2]),
     r"^edge_index: edge \d+: \w+ \d+ is not below 9"),
    (lambda d, h: NeighborLoader(
        pyg.HeteroData({"a": {"num_nodes": 3}, ("a", "to", "a"): {"edge_index": d.edge_index}}), [2], "a"),
     r"^edge_index of \('a', 'to', 'a'\): edge \d+: .* below 3"),
])
def test_errors_name_what_pyg_names(make, says, data):
    hetero = pyg.HeteroData(
        {"a": {"num_nodes": 3}, "b": {"num_nodes": 3}, ("a", "to", "b"): {"edge_index": torch.tensor([[0], [1]])}})
    with pytest.raises((ValueError, khop.WriteError), match=says):
        make(data, hetero)


def test_no_seeds_are_no_batches(data):
    none = torch.zeros(N, dtype=torch.bool)
    for loader in (NeighborLoader(data, [2], input_nodes=none),
                   NeighborLoader(data, [2], input_nodes=none, sampler=Drawn([])),
                   LinkNeighborLoader(data, [2], edge_label_index=data.edge_index[:, :0]),
                   LinkNeighborLoader(data, [2], edge_label_index=data.edge_index[:, :0], disjoint=True)):
        assert len(loader) == 0 and list(loader) == []


def test_processes_of_one_job_load_what_each_asks_for(data, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert len(list(NeighborLoader(data, [2], input_nodes=torch.arange(60, 120), batch_size=20))) == 3


def test_memory_of_rows_is_used_again_and_never_under_a_tensor_that_is_kept(program):
    """Rows of a batch of a megabyte or more lie in memory that goes from batch to batch, with whatever holds it."""
    wide = torch.arange(1000 * 400).view(1000, 400)
    data = pyg.Data(x=wide.float(), half=wide.bfloat16(), y=torch.arange(1000),
                    edge_index=torch.randint(0, 1000, (2, 5000)))
    whole = NeighborLoader(data, [4, 3], batch_size=500, transform=lambda b: b)
    places, kept = [], []
    for epoch in range(3):
        for batch in whole:
            assert set(data.keys()) <= set(batch.keys()) and batch.y.tolist() == batch.n_id.tolist()
            places.append(batch.x.data_ptr())
            kept.append((batch.x[3:], batch.half, batch.n_id))
            if len(kept) > 2:
                del kept[0]
            for x, half, ids in kept:
                assert torch.equal(x, data.x[ids[3:]]) and torch.equal(half, data.half[ids])
    assert len(set(places)) < len(places)
    data.x = wide.float() + 1  # PyG's loader takes rows of what the data has now
    batch = next(iter(whole))
    assert torch.equal(batch.x, data.x[batch.n_id]) and data.x.shape == (1000, 400)
    whole.close()


@pytest.mark.parametrize("name, graph", [("sbm", pyg.Data), ("typed", pyg.HeteroData)])
def test_an_export_is_what_from_dict_takes(name, graph, program, dataset, sample, tmp_path):
    run(program, "export", dataset(name), tmp_path / "graph.pt", "--to", "pyg")
    data = graph.from_dict(torch.load(tmp_path / "graph.pt"))
    assert data.validate()
    khop.write(tmp_path / "again.khop", data)
    flags = "--seeds=all", "--fanouts=5,5"
    if name == "sbm":  # types have another order
        assert sample(tmp_path / "again.khop", *flags) == sample(dataset(name), *flags)
    splits = [[(s["name"], s["count"]) for s in khop.info(path)["splits"]]
              for path in (dataset(name), tmp_path / "again.khop")]
    assert splits[0] == splits[1]
