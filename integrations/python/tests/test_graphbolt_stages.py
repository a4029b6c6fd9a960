"""Each sampler of khop.graphbolt, by khop and by the stages: every node, edge, id and row is the graph's, no edge is
missing, and a fault planted into a minibatch is noticed."""
import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import khop.graphbolt as gb  # noqa: E402

TYPES = {"a": 30, "b": 50}
EDGES = {"a:to:b": ("a", "b"), "b:to:b": ("b", "b"), "b:by:a": ("b", "a")}
FANOUT = 3


class Truth:
    """A drawn graph with types, or without, and features of its nodes and edges."""

    def __init__(self, typed, seed=3):
        draw = torch.Generator().manual_seed(seed)
        self.typed = typed
        counts = TYPES if typed else {None: 80}
        ends = EDGES if typed else {None: (None, None)}
        first, at = {}, 0
        for t, n in counts.items():
            first[t], at = at, at + n
        parts = []
        for i, (source, target) in enumerate(ends.values()):
            pairs = [torch.randint(counts[t], (400,), generator=draw) + first[t] for t in (source, target)]
            parts.append(torch.stack([*pairs, torch.full((400,), i), torch.arange(400)]))
        source, target, kind, number = torch.cat(parts, 1)
        order = target.sort(stable=True)[1]
        source, target, kind, number = source[order], target[order], kind[order], number[order]
        indptr = torch.zeros(at + 1, dtype=torch.int64)
        indptr[1:] = target.bincount(minlength=at).cumsum(0)
        self.edge_times, self.node_times = torch.arange(len(source)) % 50, torch.arange(at) % 50
        self.weight = (torch.rand(len(source), generator=draw) + 0.1) * (torch.arange(len(source)) % 3 > 0)
        self.graph = gb.fused_csc_sampling_graph(
            indptr, source, torch.tensor([*first.values(), at]) if typed else None, kind if typed else None,
            {t: i for i, t in enumerate(counts)} if typed else None,
            {e: i for i, e in enumerate(ends)} if typed else None, {"time": self.node_times},
            {"time": self.edge_times, "weight": self.weight, gb.ORIGINAL_EDGE_ID: number})
        self.source, self.target, self.kind, self.number, self.first = source, target, kind, number, first
        self.counts, self.ends = counts, ends
        self.store = gb.BasicFeatureStore({
            **{("node", t, "x"): gb.TorchBasedFeature(torch.rand(n, 2, generator=draw)) for t, n in counts.items()},
            **{("edge", e, "y"): gb.TorchBasedFeature(torch.rand(400, 2, generator=draw)) for e in ends}})

    def items(self, names, draw=7):
        """Nodes or pairs of one type, with labels and times."""
        rng = torch.Generator().manual_seed(draw)
        t, e = ("b", "b:to:b") if self.typed else (None, None)
        what = names[0]
        if what == "pairs":
            of = self.kind == (1 if self.typed else 0)
            seeds = torch.stack([self.source[of], self.target[of]], 1)[:24] - self.first[t]
        else:
            seeds = torch.randperm(self.counts[t], generator=rng)[:24]
        arrays = {"seeds": seeds, "pairs": seeds, "labels": torch.arange(24) % 5, "timestamp": 20 + torch.arange(24)}
        found = gb.ItemSet(tuple(arrays[n] for n in names), tuple("seeds" if n == "pairs" else n for n in names))
        return gb.ItemSetDict({e if what == "pairs" else t: found}) if self.typed else found


def by_type(value, typed):
    return value if typed else {None: value}


def check(truth, m, allowed=None, replace=False, fanout=FANOUT, unique=True, without=(), together=True):
    """allowed(edges, time of the column) says which in-edges may be taken; without are pairs of fused ids."""
    typed, layers = truth.typed, m.sampled_subgraphs
    rows = by_type(layers[0].original_row_node_ids, typed)
    inputs = by_type(m.input_nodes, typed)
    for t in truth.counts:
        assert torch.equal(inputs[t], rows[t]), "input_nodes are not the nodes of the first layer"
        assert not unique or len(rows[t].unique()) == len(rows[t]), "a node is there twice"
        if m.node_features:
            got = m.node_features[t, "x"] if typed else m.node_features["x"]
            assert torch.equal(got, truth.store.read("node", t, "x")[inputs[t]]), "rows of other nodes"
    for before, after in zip(layers, layers[1:]):
        for t in truth.counts:
            assert torch.equal(by_type(before.original_column_node_ids, typed)[t],
                               by_type(after.original_row_node_ids, typed)[t]), "layers do not follow one another"
    for number, s in enumerate(layers):
        heads, columns = by_type(s.original_row_node_ids, typed), by_type(s.original_column_node_ids, typed)
        for t in truth.counts:
            assert torch.equal(heads[t][:len(columns[t])], columns[t]), "destinations do not come first"
        taken = {t: torch.zeros(len(columns[t]), dtype=torch.int64) for t in columns}
        for i, e in enumerate(truth.ends):
            csc, ids = by_type(s.sampled_csc, typed)[e], by_type(s.original_edge_ids, typed)[e]
            a, b = truth.ends[e]
            of = truth.kind == i
            place = torch.full((400,), -1)
            place[truth.number[of]] = of.nonzero().view(-1)
            edges = place[ids.long()]
            column = torch.arange(len(columns[b])).repeat_interleave(csc.indptr.diff().long())
            assert len(ids) == len(csc.indices) == len(column), "as many ids as edges"
            assert torch.equal(truth.source[edges], heads[a][csc.indices.long()] + truth.first[a]), "another source"
            assert torch.equal(truth.target[edges], columns[b][column] + truth.first[b]), "another target"
            pairs = torch.stack([column, edges], 1)
            assert replace or len(pairs.unique(dim=0)) == len(pairs), "an edge is there twice"
            assert allowed is None or allowed(edges).all(), "an edge that may not be taken"
            taken[b] += csc.indptr.diff()
            if m.edge_features:
                got = m.edge_features[number][(e, "y") if typed else "y"]
                assert torch.equal(got, truth.store.read("edge", e, "y")[ids.long()]), "rows of other edges"
        for t, count in taken.items():
            for place, node in enumerate((columns[t] + truth.first[t]).tolist()):
                edges = torch.arange(*truth.graph.csc_indptr[node:node + 2].tolist())
                there = edges if allowed is None else edges[allowed(edges)]
                there = [x for x in there.tolist() if (int(truth.source[x]), node) not in without]
                want = len(there) if fanout < 0 else fanout * bool(there) if replace else min(fanout, len(there))
                if not without or fanout < 0:
                    assert int(count[place]) == want, "an edge is missing, or one too many"


def seeds_of(truth, m):
    value = m.seeds["b"] if truth.typed else m.seeds
    return value, (m.labels["b"] if truth.typed else m.labels)


SAMPLERS = {
    "neighbor": (lambda p, g, **k: p.sample_neighbor(g, [FANOUT, FANOUT], **k), {}),
    "weighted": (lambda p, g, **k: p.sample_neighbor(g, [FANOUT, FANOUT], prob_name="weight", **k),
                 {"allowed": lambda truth: lambda edges: truth.weight[edges] > 0}),
    "again": (lambda p, g, **k: p.sample_neighbor(g, [FANOUT, FANOUT], True, **k), {"replace": True}),
    "weighted again": (lambda p, g, **k: p.sample_neighbor(g, [FANOUT, FANOUT], True, "weight", **k),
                       {"replace": True, "allowed": lambda truth: lambda edges: truth.weight[edges] > 0}),
    "labor": (lambda p, g, **k: p.sample_layer_neighbor(g, [FANOUT, FANOUT], **k), {}),
    "labor weighted again": (lambda p, g, **k: p.sample_layer_neighbor(g, [FANOUT, FANOUT], True, "weight", **k),
                             {"replace": True, "allowed": lambda truth: lambda edges: truth.weight[edges] > 0}),
    "all": (lambda p, g, **k: p.sample_neighbor(g, [-1, -1], **k), {"fanout": -1}),
    "in": (lambda p, g: p.sample_in_subgraph(g), {"fanout": -1}),
}


@pytest.fixture(params=[False, True], ids=["plain", "typed"])
def truth(request):
    return Truth(request.param)


def fetched(truth, pipe):
    nodes, edges = ({t: ["x"] for t in truth.counts}, {e: ["y"] for e in truth.ends}) if truth.typed else (["x"], ["y"])
    return pipe.fetch_feature(truth.store, nodes, edges)


def faults(truth, m):
    """The minibatch with one fault each."""
    def changed(change):
        bad = copy.deepcopy(m)
        change(bad)
        return bad
    e, t = ("b:to:b", "b") if truth.typed else (None, None)

    def part(value, key):
        return value[key] if truth.typed else value

    def put(holder, name, value, key):
        if truth.typed:
            getattr(holder, name)[key] = value
        else:
            setattr(holder, name, value)

    def node(bad):
        ids = part(bad.input_nodes, t)
        ids[-1] = (ids[-1] + 1) % truth.counts[t]

    def row(bad):
        rows = bad.node_features[t, "x"] if truth.typed else bad.node_features["x"]
        rows[-1] += 1

    def edge_row(bad):
        bad.edge_features[0][(e, "y") if truth.typed else "y"][0] += 1

    def lost_edge(bad):
        s = bad.sampled_subgraphs[0]
        csc, ids = part(s.sampled_csc, e), part(s.original_edge_ids, e)
        csc.indptr = csc.indptr.clamp(max=len(csc.indices) - 1)
        csc.indices = csc.indices[:-1]
        put(s, "original_edge_ids", ids[:-1], e)
        for rows in (bad.edge_features[0],):
            key = (e, "y") if truth.typed else "y"
            rows[key] = rows[key][:-1]

    def edge_id(bad):
        s = bad.sampled_subgraphs[-1]
        ids = part(s.original_edge_ids, e)
        ids[0] = (ids[0] + 1) % 400

    def source(bad):
        csc = part(bad.sampled_subgraphs[0].sampled_csc, e)
        csc.indices[0] = (csc.indices[0] + 1) % len(part(bad.sampled_subgraphs[0].original_row_node_ids, t))
    return {f.__name__: changed(f) for f in (node, row, edge_row, lost_edge, edge_id, source)}


@pytest.mark.parametrize("by", ["khop", "stages"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_minibatches_are_the_graphs_and_faults_are_noticed(name, by, truth, program):
    sampler, how = SAMPLERS[name]
    how = {**how, "allowed": how["allowed"](truth) if "allowed" in how else None}
    items = gb.ItemSampler(truth.items(("seeds", "labels")), 8, shuffle=True, seed=1)
    pipe = fetched(truth, sampler(items, truth.graph))
    loader = gb.DataLoader(pipe) if by == "khop" else pipe
    by_stages = name == "labor weighted again" or name == "labor" and truth.typed
    assert by == "stages" or (loader.by == "khop") is not by_stages
    seen = []
    for m in loader:
        check(truth, m, **how)
        seeds, labels = seeds_of(truth, m)
        seen += zip(seeds.tolist(), labels.tolist())
        columns = by_type(m.sampled_subgraphs[-1].original_column_node_ids, truth.typed)["b" if truth.typed else None]
        assert torch.equal(columns, seeds) and m.num_layers() == (1 if name == "in" else 2)
    items = truth.items(("seeds", "labels"))
    items = items["b"] if truth.typed else items
    assert sorted(seen) == sorted(zip(*(i.tolist() for i in items[:])))
    notice(lambda bad: check(truth, bad, **how), faults(truth, m))


def notice(checked, bad):
    """Fails where one of the minibatches with a fault each passes."""
    for fault, m in bad.items():
        with pytest.raises((AssertionError, IndexError)):
            checked(m)
            pytest.fail(f"nobody noticed a changed {fault}", pytrace=False)


@pytest.mark.parametrize("layer", [False, True])
def test_temporal_samplers_take_what_was_before_and_faults_are_noticed(layer, truth):
    pipe = gb.ItemSampler(truth.items(("seeds", "timestamp")), 1)
    sample = pipe.temporal_sample_layer_neighbor if layer else pipe.temporal_sample_neighbor
    pipe = fetched(truth, sample(truth.graph, [FANOUT, FANOUT], node_timestamp_attr_name="time",
                                 edge_timestamp_attr_name="time"))

    def checked(m):
        time = int(m.timestamp["b"] if truth.typed else m.timestamp)
        check(truth, m, lambda edges: (truth.edge_times[edges] < time) & (
            truth.node_times[truth.source[edges]] < time), unique=False)
    made = list(pipe)
    for m in made:
        checked(m)
    assert len(made) == 24
    m = max(made, key=lambda m: len(by_type(m.sampled_subgraphs[1].original_edge_ids, truth.typed)[
        "b:to:b" if truth.typed else None]))
    early = copy.deepcopy(m)
    early.timestamp = {"b": torch.tensor([1])} if truth.typed else torch.tensor([1])
    notice(checked, {**faults(truth, m), "time": early})


@pytest.mark.parametrize("by", ["khop", "stages"])
def test_pairs_come_with_negatives_and_without_their_edges_and_faults_are_noticed(by, truth, program):
    pipe = gb.ItemSampler(truth.items(("pairs",)), 8)
    pipe = pipe.sample_uniform_negative(truth.graph, 2).sample_neighbor(truth.graph, [-1])
    mapping = {"b:to:b": "b:to:b"} if truth.typed else None
    pipe = pipe.exclude_seed_edges(include_reverse_edges=True, reverse_etypes_mapping=mapping)
    loader = gb.DataLoader(pipe) if by == "khop" else pipe
    assert by == "stages" or loader.by == "khop"
    e = "b:to:b" if truth.typed else None
    pairs = truth.items(("pairs",))
    pairs, made = pairs[e][:] if truth.typed else pairs[:], list(loader)
    assert len(made) == 3
    for number, m in enumerate(made):
        check_pairs(truth, m, pairs[8 * number:8 * number + 8])

    def changed(field, at):
        bad = copy.deepcopy(made[0])
        values = by_type(getattr(bad, field), truth.typed)[e]
        values[at] = ~values[at] if values.dtype == torch.bool else values[at] + 1 - 2 * (values[at] > 0)
        return bad
    bad = {f"{field} {at}": changed(field, at) for field, at in (
        ("seeds", (0, 0)), ("seeds", (3, 1)), ("seeds", (9, 0)), ("labels", 2), ("labels", 20), ("indexes", 5),
        ("indexes", 13), ("compacted_seeds", (1, 1)), ("compacted_seeds", (12, 1)))}
    bad["another node"] = copy.deepcopy(made[0])
    by_type(bad["another node"].input_nodes, truth.typed)["b" if truth.typed else None][3:] += 1
    bad["a node that is none"] = copy.deepcopy(made[0])
    by_type(bad["a node that is none"].seeds, truth.typed)[e][-1, 1] = 999
    bad["lost edge"] = copy.deepcopy(made[0])
    layer = bad["lost edge"].sampled_subgraphs[0]
    csc, ids = by_type(layer.sampled_csc, truth.typed)[e], by_type(layer.original_edge_ids, truth.typed)[e]
    csc.indices = csc.indices[:-1]
    for ends in [layer.original_edge_ids] if truth.typed else [vars(layer)]:
        ends["b:to:b" if truth.typed else "original_edge_ids"] = ids[:-1]
    notice(lambda m: check_pairs(truth, m, pairs[:8]), bad)


def check_pairs(truth, m, want):
    """A minibatch of 8 pairs of one type with two negatives each, and all edges but those of pairs."""
    e, t = ("b:to:b", "b") if truth.typed else (None, None)
    seeds, labels, indexes, places = (by_type(v, truth.typed)[e] for v in (
        m.seeds, m.labels, m.indexes, m.compacted_seeds))
    assert torch.equal(seeds[:8], want) and labels.tolist() == [1] * 8 + [0] * 16
    assert torch.equal(seeds[8:, 0], want[:, 0].repeat_interleave(2)) and (seeds[8:, 1] < truth.counts[t]).all()
    assert indexes.tolist() == [*range(8), *torch.arange(8).repeat_interleave(2).tolist()]
    assert torch.equal(by_type(m.input_nodes, truth.typed)[t][places], seeds)
    fused = [(u + truth.first[t], v + truth.first[t]) for u, v in seeds.tolist()]
    unwanted = {*fused, *((v, u) for u, v in fused)}
    found = 0
    for s in m.sampled_subgraphs:
        csc, ids = by_type(s.sampled_csc, truth.typed)[e], by_type(s.original_edge_ids, truth.typed)[e]
        assert len(csc.indices) == len(ids)
        of = (truth.kind == (1 if truth.typed else 0)).nonzero().view(-1)
        place = torch.empty(400, dtype=torch.int64)
        place[truth.number[of]] = of
        edges = place[ids.long()]
        taken = set(zip(truth.source[edges].tolist(), truth.target[edges].tolist()))
        columns = by_type(s.original_column_node_ids, truth.typed)[t] + truth.first[t]
        wanted = {(int(truth.source[x]), int(truth.target[x])) for x in of.tolist()
                  if int(truth.target[x]) in columns.tolist()} - unwanted
        assert taken == wanted, "an edge is missing, or one too many"
        found += len(taken)
    assert found


@pytest.mark.parametrize("even", [False, True])
def test_processes_share_all_items_and_faults_are_noticed(even, truth):
    """DistributedItemSampler of four processes, whose places are given to it here."""
    items, ranks = truth.items(("seeds", "labels")), 4
    whole = (items["b"] if truth.typed else items)[:]

    def check_shares(shares):
        got = sorted((s, label) for share in shares for m in share for s, label in zip(*(
            v.tolist() for v in (by_type(m.seeds, truth.typed)["b" if truth.typed else None],
                                 by_type(m.labels, truth.typed)["b" if truth.typed else None]))))
        assert set(got) <= set(zip(*(i.tolist() for i in whole))) and len(set(got)) == len(got)
        assert len(got) == 24 and (not even or len({len(share) for share in shares}) == 1)
    shares = []
    for rank in range(ranks):
        sampler = gb.DistributedItemSampler(items, 2, shuffle=True, drop_uneven_inputs=even, seed=5)
        sampler.share = rank, ranks, even
        shares.append(list(sampler))
    check_shares(shares)
    bad = {name: copy.deepcopy(shares) for name in ("lost batch", "label", "node", "batch twice")}
    bad["lost batch"][1].pop()
    bad["batch twice"][2].append(copy.deepcopy(shares[0][0]))
    for name, field in (("label", "labels"), ("node", "seeds")):
        values = by_type(getattr(bad[name][3][0], field), truth.typed)["b" if truth.typed else None]
        values[0] = (values[0] + 1) % 5
    notice(check_shares, bad)


def test_draws_follow_weights_and_labor_shares_neighbours():
    gb.seed(5)
    many = 4000  # nodes that have the same neighbours: four before them
    indptr = torch.cat([torch.zeros(4, dtype=torch.int64), torch.arange(many + 1) * 4])
    graph = gb.fused_csc_sampling_graph(indptr, torch.arange(4).repeat(many),
                                        edge_attributes={"w": torch.tensor([1.0, 2, 3, 4]).repeat(many)})
    nodes, k = torch.arange(4, 4 + many), torch.tensor([1])
    for replace in (False, True):
        drawn = graph.sample_neighbors(nodes, k, replace, "w").sampled_csc.indices
        share = drawn.bincount(minlength=4) / many
        assert (share - torch.tensor([0.1, 0.2, 0.3, 0.4])).abs().max() < 0.03
        uniform = graph.sample_neighbors(nodes, k, replace).sampled_csc.indices
        assert (uniform.bincount(minlength=4) / many - 0.25).abs().max() < 0.03
        for _ in range(20):
            one, two = graph.sample_layer_neighbors(nodes[:2], k, replace).sampled_csc.indices
            assert one == two
    gb.seed(7)
    once = [graph.sample_neighbors(nodes[:2], k).sampled_csc.indices.tolist() for _ in range(9)]
    gb.seed(7)
    assert once == [graph.sample_neighbors(nodes[:2], k).sampled_csc.indices.tolist() for _ in range(9)]
    assert len({tuple(picks) for picks in once}) > 1


def test_shared_memory_ends_with_its_graph(truth, tmp_path):
    import os
    import subprocess
    import sys

    name = f"test-{os.getpid()}"
    first = truth.graph.copy_to_shared_memory(name)
    second = gb.load_from_shared_memory(name)
    for field in ("csc_indptr", "indices"):
        getattr(first, field)[0] += 1
        assert torch.equal(getattr(first, field), getattr(second, field))
        assert not torch.equal(getattr(first, field), getattr(truth.graph, field))
    assert second.edge_type_to_id == truth.graph.edge_type_to_id
    assert torch.equal(second.edge_attributes["weight"], truth.weight)
    del first
    with pytest.raises(FileNotFoundError, match="has released it"):
        gb.load_from_shared_memory(name)
    assert len(second.indices) == len(truth.source)  # stays for who has it
    code = ("import os, signal, torch, khop.graphbolt as gb\n"
            "g = gb.fused_csc_sampling_graph(torch.tensor([0, 1]), torch.tensor([0])).copy_to_shared_memory('%s')\n"
            "print('made', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)" % name)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert "made" in done.stdout, done.stderr
    assert not os.path.exists(f"/dev/shm/khop-gb-{name}")  # the pipes ended, so the tracker has ended, too


def test_hyperlinks_and_items_that_are_no_tensors():
    graph = Truth(False).graph
    links = torch.arange(24).reshape(8, 3)
    for m in gb.ItemSampler(gb.ItemSet(links, "seeds"), 4).sample_neighbor(graph, [2]):
        assert m.seeds.shape == (4, 3) and torch.equal(m.input_nodes[m.compacted_seeds], m.seeds)
    texts = [m["x"] for m in gb.ItemSampler(gb.ItemSet(({"x": i} for i in range(5)), "seeds"), 2, minibatcher=(
        lambda batch, names: batch))]
    assert [t.tolist() for t in texts] == [[0, 1], [2, 3], [4]]


def test_caches_have_what_the_feature_has():
    rows = torch.rand(100, 3)
    feature = gb.CPUCachedFeature(gb.TorchBasedFeature(rows.clone()), 10 * 12)
    draw = torch.Generator().manual_seed(0)
    for _ in range(30):
        ids = torch.randint(100, (20,), generator=draw)
        assert torch.equal(feature.read(ids), rows[ids])
    assert 0 < feature.miss_rate < 1 and feature.size() == (3,)
    feature.update(torch.zeros(2, 3), torch.tensor([4, 5]))
    assert feature.read(torch.tensor([4, 6])).sum(1).tolist() == [0, rows[6].sum()]
    cache = gb.impl.CPUFeatureCache((3, 2), torch.int64, policy="lru")
    cache.replace(torch.tensor([1, 2, 3]), torch.tensor([[1, 1], [2, 2], [3, 3]]))
    values, missing, keys = cache.query(torch.tensor([3, 9, 1]))
    assert values[[0, 2]].tolist() == [[3, 3], [1, 1]] and missing.tolist() == [1] and keys.tolist() == [9]
    cache.replace(torch.tensor([9]), torch.tensor([[9, 9]]))  # in place of 2
    assert cache.query(torch.tensor([1, 2, 3, 9]))[2].tolist() == [2]


def test_shares_of_processes_are_all_items_once():
    from khop.graphbolt.internal import calculate_range

    for total in (24, 30, 53, 65):
        for ranks in (1, 4):
            for workers in (0, 2):
                at = 0
                for rank in range(ranks):
                    for worker in range(max(workers, 1)):
                        first, assigned, handed = calculate_range(
                            True, total, ranks, rank, workers, worker, 4, False, False)
                        assert first == at and handed == assigned
                        at += assigned
                assert at == total
