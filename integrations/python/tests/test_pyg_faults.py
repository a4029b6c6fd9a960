"""What each class of khop.pyg hands out is the data's, whole, and a fault planted into it is noticed."""
import copy
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.sampler import EdgeSamplerInput, NodeSamplerInput  # noqa: E402

from khop import pyg  # noqa: E402

NODES, EDGES = 90, 500
TYPES = {("a", "to", "b"): 300, ("b", "to", "a"): 300}


@pytest.fixture(scope="module")
def data():
    draw = torch.Generator().manual_seed(2)
    pairs = torch.randperm(NODES * NODES, generator=draw)[:EDGES]  # no pair twice
    return Data(x=torch.rand(NODES, 4, generator=draw), nid=torch.arange(NODES), num_nodes=NODES,
                edge_index=torch.stack([pairs // NODES, pairs % NODES]), edge_no=torch.arange(EDGES))


@pytest.fixture(scope="module")
def typed():
    draw = torch.Generator().manual_seed(3)
    data = HeteroData()
    for t in "ab":
        data[t].x, data[t].nid, data[t].num_nodes = torch.rand(60, 4, generator=draw), torch.arange(60), 60
    for e, number in TYPES.items():
        pairs = torch.randperm(3600, generator=draw)[:number]
        data[e].edge_index, data[e].edge_no = torch.stack([pairs // 60, pairs % 60]), torch.arange(number)
    return data


def check(part, whole, ends, columns=None):
    """A store of nodes and edges of a batch. ends are the stores of its sources and targets. All in-edges of columns,
    or all edges between the nodes, must be there."""
    (source, sources), (target, targets) = ends
    for store, of in ends:
        assert torch.equal(store.x, of.x[store.nid]), "rows of other nodes"
    pairs = torch.stack([source.nid[part.edge_index[0]], target.nid[part.edge_index[1]]])
    assert torch.equal(pairs, whole.edge_index[:, part.edge_no]), "ends of other edges"
    assert len(part.edge_no.unique()) == len(part.edge_no), "an edge is there twice"
    wanted = torch.isin(whole.edge_index[1], target.nid if columns is None else columns)
    if columns is None:
        wanted &= torch.isin(whole.edge_index[0], source.nid)
    assert sorted(part.edge_no.tolist()) == wanted.nonzero().view(-1).tolist(), "an edge is missing, or one too many"


def check_plain(batch, data, columns=None):
    check(batch, data, [(batch, data)] * 2, columns)


def plain_faults(batch):
    def changed(change):
        bad = copy.copy(batch)
        change(bad)
        return bad

    def node(bad):
        bad.nid = (bad.nid + 1) % NODES

    def row(bad):
        bad.x = bad.x.clone()
        bad.x[-1] += 1

    def lost_edge(bad):
        bad.edge_index, bad.edge_no = bad.edge_index[:, :-1], bad.edge_no[:-1]

    def edge_id(bad):
        bad.edge_no = bad.edge_no.clone()
        bad.edge_no[0] = (bad.edge_no[0] + 1) % EDGES

    def source(bad):
        bad.edge_index = bad.edge_index.clone()
        bad.edge_index[0, 0] = (bad.edge_index[0, 0] + 1) % len(bad.nid)
    return {f.__name__: changed(f) for f in (node, row, lost_edge, edge_id, source)}


def clusters(data):
    return pyg.ClusterLoader(pyg.ClusterData(data, 4, log=False), batch_size=2)


MADE = {  # and whether the in-edges of the seeds are asked for, in place of all edges between the nodes
    "NeighborLoader": (lambda d: pyg.NeighborLoader(d, [-1], batch_size=8), True),
    "NeighborLoader induced": (lambda d: pyg.NeighborLoader(d, [3], subgraph_type="induced", batch_size=8), False),
    "LinkNeighborLoader": (lambda d: pyg.LinkNeighborLoader(d, [-1], d.edge_index[:, :40], batch_size=8), True),
    "ShaDowKHopSampler": (lambda d: pyg.ShaDowKHopSampler(d, 1, 5, batch_size=1), False),
    "GraphSAINTNodeSampler": (lambda d: pyg.GraphSAINTNodeSampler(d, batch_size=40, num_steps=3, log=False), False),
    "GraphSAINTEdgeSampler": (lambda d: pyg.GraphSAINTEdgeSampler(d, batch_size=40, num_steps=3, log=False), False),
    "GraphSAINTRandomWalkSampler": (lambda d: pyg.GraphSAINTRandomWalkSampler(
        d, batch_size=10, walk_length=2, num_steps=3, log=False), False),
    "ClusterLoader": (clusters, False),
}


@pytest.mark.parametrize("name", MADE)
def test_faults_of_loaders_are_noticed(name, data, program):
    make, of_seeds = MADE[name]
    number = 0
    for batch in make(data):
        columns = None
        if of_seeds:
            ends = batch.edge_label_index.unique() if "Link" in name else torch.arange(batch.batch_size)
            columns = batch.nid[ends]
        check_plain(batch, data, columns)
        number += 1
    assert number
    if not len(batch.edge_no):
        pytest.skip("a batch without edges")
    for fault, bad in plain_faults(batch).items():
        with pytest.raises((AssertionError, IndexError)):
            check_plain(bad, data, columns)
            pytest.fail(f"nobody noticed a changed {fault}", pytrace=False)


@pytest.mark.parametrize("name", ["HGTLoader", "NeighborLoader"])
def test_faults_of_types_are_noticed(name, typed, program):
    if name == "HGTLoader":
        loader = pyg.HGTLoader(typed, [200, 200], input_nodes="a", batch_size=60)
    else:
        loader = pyg.NeighborLoader(typed, [-1], input_nodes="a", batch_size=10)
    e = ("b", "to", "a")

    def whole(batch):
        ends = [(batch[t], typed[t]) for t in "ba"]
        check(batch[e], typed[e], ends, batch["a"].nid[:batch["a"].batch_size] if name != "HGTLoader" else None)
    for batch in loader:
        whole(batch)
    for change in (lambda b: b["b"].x[:1].add_(1), lambda b: b["b"].nid[:1].add_(1), lambda b: b[e].edge_no[:1].add_(1),
                   lambda b: b[e].__setitem__("edge_no", b[e].edge_no[1:])):
        bad = copy.deepcopy(batch)
        change(bad)
        with pytest.raises((AssertionError, IndexError, RuntimeError)):
            whole(bad)
            pytest.fail("nobody noticed", pytrace=False)


def check_sample(out, data, columns, both=False):
    """A sample of one of the samplers. both ways it follows edges from the seeds, too."""
    pairs = torch.stack([out.node[out.row], out.node[out.col]])
    assert torch.equal(pairs, data.edge_index[:, out.edge]), "ends of other edges"
    wanted = torch.isin(data.edge_index[1], columns)
    if both:
        wanted |= torch.isin(data.edge_index[0], columns)
    wanted = wanted.nonzero().view(-1)
    assert sorted(out.edge.tolist()) == wanted.tolist(), "an edge is missing, or one too many"


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("links", [False, True])
def test_faults_of_samplers_are_noticed(links, both, data, program):
    sampler = (pyg.BidirectionalNeighborSampler if both else pyg.NeighborSampler)(data, [-1])
    if links:
        out = sampler.sample_from_edges(EdgeSamplerInput(None, *data.edge_index[:, :6]))
        columns = data.edge_index[:, :6].unique()
    else:
        columns = torch.tensor([3, 40, 7])
        out = sampler.sample_from_nodes(NodeSamplerInput(None, columns))
    check_sample(out, data, columns, both)
    for field in ("node", "row", "col", "edge"):
        for change in (lambda v: torch.cat([(v[:1] + 1) % 20, v[1:]]), lambda v: v[:-1]):
            bad = copy.copy(out)
            setattr(bad, field, change(getattr(out, field)))
            with pytest.raises((AssertionError, IndexError, RuntimeError)):
                check_sample(bad, data, columns, both)
                pytest.fail(f"nobody noticed a changed {field}", pytrace=False)


def test_threads_over_one_loader_leave_it_as_it_is(data, program):
    """The first goes into filter_fn before the second, and comes out before it."""
    wide = copy.copy(data)
    wide.x = torch.rand(NODES, 8192)
    inside, out = threading.Event(), threading.Event()

    class Slow(pyg.NeighborLoader):
        def filter_fn(self, out_of):
            first = not inside.is_set()
            (inside.set(), second.wait(60)) if first else (second.set(), out.wait(60))
            return super().filter_fn(out_of)

    def transform(batch):
        batch.transformed = True
        return batch
    second, made = threading.Event(), []
    loader = Slow(wide, [-1], batch_size=NODES, transform=transform, seed=1)
    threads = [threading.Thread(target=lambda: made.append(loader(torch.arange(NODES)))) for _ in range(2)]
    threads[0].start()
    inside.wait(60)
    threads[1].start()
    threads[0].join()
    out.set()
    threads[1].join()
    assert loader.data is wide and loader.transform is transform
    for batch in made:
        assert batch.transformed and torch.equal(batch.x, wide.x[batch.n_id])
    assert len(made) == 2
    loader.close()
