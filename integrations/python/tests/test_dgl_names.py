"""khop.dgl: DGL's names, without DGL."""
import os
import tempfile

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import khop  # noqa: E402
from graph_of_dgl import random_graph  # noqa: E402
from khop import dgl  # noqa: E402


def check(input_nodes, output_nodes, blocks, ends):
    """What DGL promises of blocks; ends are sources and targets of the edges by their ids."""
    assert torch.equal(blocks[0].srcdata[dgl.NID],
                       input_nodes) and torch.equal(blocks[-1].dstdata[dgl.NID], output_nodes)
    for further, nearer in zip(blocks, blocks[1:]):
        assert torch.equal(further.dstdata[dgl.NID], nearer.srcdata[dgl.NID])
    for b in blocks:
        source, target = b.edges()
        assert torch.equal(b.srcdata[dgl.NID][source], ends[0][b.edata[dgl.EID]])
        assert torch.equal(b.dstdata[dgl.NID][target], ends[1][b.edata[dgl.EID]])
        assert torch.equal(b.in_degrees(), target.bincount(minlength=b.num_dst_nodes()))
        assert torch.equal(b.out_degrees(), source.bincount(minlength=b.num_src_nodes()))
        assert b.num_edges() == len(source) and torch.equal(b.adj_tensors("csc")[1], source)


def test_nodes_of_a_graph_in_memory(program):
    g = random_graph()
    ends = g.edges()
    loader = dgl.DataLoader(g, torch.arange(100), dgl.NeighborSampler([3, 5], prob="w"), batch_size=40, shuffle=True,
                            num_workers=4, use_uva=False, seed=3)
    seen = []
    for input_nodes, output_nodes, blocks in loader:
        check(input_nodes, output_nodes, blocks, ends)
        assert torch.equal(blocks[0].srcdata["feat"][:, 0].long(), input_nodes)
        assert torch.equal(blocks[-1].dstdata["label"], output_nodes % 7)
        # DGL's order: the last hop first.
        assert blocks[-1].in_degrees().max() == 5 and blocks[0].in_degrees().max() == 3
        assert all((b.edata[dgl.EID] % 2 == 1).all() for b in blocks)  # edges of weight 0 are not followed
        seen += output_nodes.tolist()
    assert sorted(seen) == list(range(100)) and len(loader) == 3
    loader.close()
    assert os.listdir(tempfile.gettempdir()) == []


def test_processes_that_share_an_epoch_agree_on_it_without_a_seed(program):
    def order(of_torch, **kwargs):
        torch.manual_seed(of_torch)  # each process of a script has its own
        with dgl.DataLoader(random_graph(), torch.arange(100), dgl.NeighborSampler([2]), batch_size=40, shuffle=True,
                            **kwargs) as loader:
            return [output_nodes.tolist() for _, output_nodes, _ in loader]

    assert order(1, use_ddp=True) == order(2, use_ddp=True) == order(3, use_ddp=True, ddp_seed=0)
    assert order(1, use_ddp=True) != order(1, use_ddp=True, ddp_seed=5)
    assert order(1, use_ddp=True, seed=7) == order(2, seed=7) == order(3, use_ddp=True, options={"seed": 7})
    assert order(1) != order(2)


def test_nodes_of_a_dataset(dataset):
    path = dataset("sbm")
    with khop.Loader(path, [5, 3], frontier="all", seeds="train", batch_size=256, seed=1, framework="torch") as loader:
        want = [(b.n_id.tolist(), b.x.sum().item(), b.y.tolist()) for b in loader]
    sampler = dgl.NeighborSampler([3, 5], prefetch_node_feats=["feat"], prefetch_labels=["label"])
    got = [(i.tolist(), b[0].srcdata["feat"].sum().item(), b[-1].dstdata["label"].tolist())
           for i, o, b in dgl.DataLoader(path, "train", sampler, batch_size=256, seed=1)]
    assert got == want


def test_types_have_their_own_fanouts(dataset):
    path = dataset("typed")
    fanouts = {"cites": 2, ("author", "writes", "paper"): 1}
    sampler = dgl.MultiLayerNeighborSampler([fanouts, fanouts])
    inputs, outputs, blocks = next(iter(dgl.DataLoader(path, {"paper": torch.arange(50)}, sampler, batch_size=50)))
    assert outputs["paper"].tolist() == list(range(50)) and set(inputs) == {"paper", "author", "institution"}
    b = blocks[-1]
    assert b.in_degrees(etype="cites").max() == 2 and b.in_degrees(etype="writes").max() == 1 and b.num_edges(
        "rev_writes") == 0
    assert b["cites"].num_edges() == b.num_edges(("paper", "cites", "paper")) and b.num_src_nodes("paper") >= 50
    assert blocks[0].srcnodes["paper"].data["feature"].shape[0] == len(inputs["paper"])
    assert b.to("cpu").srcdata[dgl.NID]["author"].tolist() == b.srcnodes["author"].data[dgl.NID].tolist()
    assert type(b) is not dgl.Block or "num_dst_nodes={'paper': 50" in repr(b)


def test_edges_with_negatives(program):
    g = random_graph()
    ids = torch.arange(0, 2000, 3)
    sampler = dgl.as_edge_prediction_sampler(dgl.MultiLayerFullNeighborSampler(1), exclude="self",
                                             negative_sampler=dgl.negative_sampler.Uniform(2))
    loader, number = dgl.DataLoader(g, ids, sampler, batch_size=100, seed=2), 0
    for input_nodes, pairs, against, blocks in loader:
        nodes = pairs.ndata[dgl.NID]
        source, target = pairs.edges()
        want = ids[number:number + len(source)]
        assert torch.equal(nodes[source], g.edges()[0][want]) and torch.equal(nodes[target], g.edges()[1][want])
        assert against.num_edges() == 2 * pairs.num_edges() and torch.equal(against.ndata[dgl.NID], nodes)
        assert torch.equal(against.edges()[0], source.repeat_interleave(2))
        assert not set(blocks[0].edata[dgl.EID].tolist()) & set(want.tolist())
        assert torch.equal(input_nodes[:len(nodes)], nodes)
        assert torch.equal(pairs.edata[dgl.EID], want) and torch.equal(pairs.edges[pairs.etypes[0]].data[dgl.EID], want)
        assert torch.equal(pairs.nodes[pairs.ntypes[0]].data[dgl.NID], nodes)
        number += len(source)
    assert number == len(ids)


def test_ids_are_as_wide_as_those_of_the_graph(program):
    g = random_graph()
    g.idtype = torch.int32
    sampler = dgl.NeighborSampler([3, 3])
    for inputs, outputs, blocks in dgl.DataLoader(g, torch.arange(100, dtype=torch.int32), sampler, batch_size=50):
        for ids in (inputs, outputs, blocks[0].edata[dgl.EID], blocks[0].edges()[0]):
            assert ids.dtype == torch.int32
    for inputs, pairs, blocks in dgl.DataLoader(g, torch.arange(100), dgl.as_edge_prediction_sampler(sampler),
                                                batch_size=50):
        assert inputs.dtype == pairs.idtype == pairs.edata[dgl.EID].dtype == torch.int32


def test_a_sampler_alone(program):
    g = random_graph()
    inputs, outputs, blocks = dgl.LaborSampler([4, 4]).sample(g, torch.tensor([3, 9]))
    check(inputs, outputs, blocks, g.edges())
    assert outputs.tolist() == [3, 9]


def test_what_there_is_not_names_what_there_is(program, dataset):
    sampler = dgl.NeighborSampler([2])
    for use, says in [
        (lambda: dgl.DataLoader(random_graph(), [1], sampler, shufle=True), "did you mean 'shuffle'.*From DGL"),
        (lambda: dgl.DataLoader(random_graph(), [1], sampler, gpu_cache={}), "device_cache"),
        (lambda: dgl.NeighborSampler([2], repalce=True), "did you mean 'replace'"),
        (lambda: dgl.DataLoader(random_graph(), [1], [2]), "must be a sampler of khop.dgl"),
        (lambda: dgl.LaborSampler([2], prob="w"), "LABOR-0 without weights"),
        (lambda: dgl.as_edge_prediction_sampler(sampler, exclude=lambda e: e), "must be 'self'"),
        (lambda: dgl.as_edge_prediction_sampler(sampler, "reverse_types", reverse_etypes={"cites": "cited"}),
         "'rev_cites'"),
        (lambda: dgl.as_edge_prediction_sampler(sampler, negative_sampler=3),
         "Uniform, PerSourceUniform or GlobalUniform"),
        (lambda: dgl.DataLoader(dataset("sbm"), [1], dgl.as_edge_prediction_sampler(sampler)), "pairs .2, n."),
        (lambda: dgl.DataLoader(dataset("sbm"), [1], dgl.NeighborSampler([2], prefetch_node_feats=["age"])),
         "no column 'age' of nodes; there are: feature, label"),
        (lambda: dgl.DataLoader(dataset("typed"), {"papr": [1]}, sampler), "no node type 'papr'; there are paper"),
        (lambda: dgl.DataLoader(dataset("typed"), [1], sampler), "several node types: say which"),
    ]:
        with pytest.raises((TypeError, ValueError, KeyError), match=says):
            use()
