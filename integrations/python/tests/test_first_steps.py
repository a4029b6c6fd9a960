"""What a newcomer writes first, and what khop answers: modules on access, options beside arguments, values of wrong
kinds, names of splits, a second iterator."""
import subprocess
import sys

import numpy as np
import pytest

import khop


@pytest.mark.parametrize("name", ["cluster", "embedding", "profiling", "relational", "torch", "sparse", "dgl", "pyg"])
def test_modules_come_with_the_first_use(name):
    pytest.importorskip("torch")
    if name == "pyg":
        pytest.importorskip("torch_geometric")
    code = (f"import sys, khop\nassert not {{'torch', 'torch_geometric'}} & set(sys.modules)\n"
            f"print(khop.{name}.__name__)\ntry:\n    khop.nosuch\nexcept AttributeError as e:\n    print(e)")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.stdout == f"khop.{name}\nmodule 'khop' has no attribute 'nosuch'\n", said.stderr


@pytest.mark.parametrize("name, value", [
    ("shuffle", "yes"), ("drop_last", "no"), ("shuffle", 2), ("batch_size", "64"), ("seed", "7"), ("alpha", "0.5")])
def test_texts_are_no_numbers_and_no_truth_values(dataset, name, value):
    with pytest.raises(khop.OptionError, match=f"{name}={value!r}: must be"):
        khop.Loader(dataset("sbm"), [3], **{name: value})
    if name not in ("shuffle", "drop_last"):
        with pytest.raises(khop.OptionError, match=f"{name}={value!r}: must be"):
            khop.Sampler(dataset("sbm"), [3], **{name: value})


def test_truth_values_and_numbers_of_numpy_are_taken(dataset):
    with khop.Loader(dataset("sbm"), [3], seeds="train", shuffle=np.bool_(True), drop_last=0,
                     batch_size=np.int32(64), framework="numpy") as loader:
        assert next(iter(loader)).batch_size == 64


def test_a_second_loop_begins_a_new_epoch(dataset):
    with khop.Loader(dataset("sbm"), [3], seeds="train", batch_size=100, framework="numpy") as loader:
        first = iter(loader)  # which a notebook keeps, as after an error in the loop
        next(first)
        second = [b.epoch for b in loader]
        assert second == [1] * len(loader)
        with pytest.raises(khop.BusyError, match="of epoch 0, ended when another one of its loader began"):
            next(first)
        with pytest.raises(khop.BusyError, match="make a second loader"):
            for _ in zip(loader, loader):  # two at once
                pass


# --- loaders with peers' names ---

@pytest.fixture
def pyg():
    pytest.importorskip("torch_geometric")
    return khop.pyg


@pytest.fixture
def loaders(pyg, dataset):
    """Loaders of each kind, by functions of further arguments; of the order of their seeds."""
    import torch
    from torch_geometric.data import Data

    data = Data(x=torch.rand(50, 2), edge_index=torch.randint(0, 50, (2, 400)), num_nodes=50)
    path = dataset("sbm")
    return {
        "NeighborLoader": lambda **how: pyg.NeighborLoader(data, [3], **how),
        "NeighborLoader of a dataset": lambda **how: pyg.NeighborLoader(path, [3], "train", **how),
        "LinkNeighborLoader": lambda **how: pyg.LinkNeighborLoader(data, [3], **how),
        "HGTLoader": lambda **how: pyg.HGTLoader(dataset("typed"), [8], ("paper", torch.arange(90)), **how),
        "ShaDowKHopSampler": lambda **how: pyg.ShaDowKHopSampler(data, 1, 3, **how),
        "ClusterLoader": lambda **how: pyg.ClusterLoader(pyg.ClusterData(path, 8, log=False), **how),
        "DataLoader of DGL": lambda **how: khop.dgl.DataLoader(path, "train", khop.dgl.NeighborSampler([3]), **how),
    }


KINDS = ["NeighborLoader", "NeighborLoader of a dataset", "LinkNeighborLoader", "HGTLoader", "ShaDowKHopSampler",
         "ClusterLoader", "DataLoader of DGL"]


def numbers(loader):
    """Nodes of an epoch's batches."""
    nodes = []
    for batch in loader:
        of = batch[0] if isinstance(batch, (tuple, list)) else batch
        if hasattr(of, "n_id") and not hasattr(of, "node_types"):
            of = of.n_id
        elif hasattr(of, "node_types"):
            of = of["paper"].n_id
        elif not hasattr(of, "tolist"):
            of = of.edge_index.flatten()
        nodes.append(of.tolist())
    loader.close()
    return nodes


@pytest.mark.parametrize("kind", KINDS)
def test_an_option_counts_where_the_argument_has_its_default(loaders, kind):
    load = loaders[kind]
    size = {} if kind == "ClusterLoader" else {"batch_size": 16}
    by_argument = numbers(load(shuffle=True, seed=7, **size))
    assert numbers(load(shuffle=True, **size, options={"seed": 7})) == by_argument
    assert numbers(load(options={"seed": 7, "shuffle": True, **size})) == by_argument
    assert numbers(load(shuffle=True, seed=7, **size, options={"seed": 7})) == by_argument
    with pytest.raises(TypeError, match=r"seed=8 and options=\{'seed': 7\} differ"):
        load(seed=8, options={"seed": 7})
    with pytest.raises(TypeError, match="has no option 'shuffel': did you mean 'shuffle'"):
        load(options={"shuffel": True})
    for name in ("seeds", "fanouts"):
        with pytest.raises(TypeError, match="arguments of the loader"):
            load(options={name: [1]})


def test_arguments_with_other_names_are_named(pyg):
    import torch
    from torch_geometric.data import Data

    data = Data(edge_index=torch.randint(0, 9, (2, 40)), edge_time=torch.arange(40), num_nodes=9)
    said = "time_attr, which means sampler='temporal', and options={'sampler': 'neighbor'} differ"
    with pytest.raises(TypeError, match=said):
        pyg.NeighborLoader(data, [2], input_nodes=torch.arange(9), input_time=torch.arange(9), time_attr="edge_time",
                           options={"sampler": "neighbor"})


@pytest.mark.parametrize("kind", KINDS)
def test_every_loader_refuses_values_of_wrong_kinds(loaders, kind):
    for name, value in {"shuffle": "yes", "drop_last": "no", "batch_size": "64"}.items():
        for how in ({name: value}, {"options": {name: value}}):
            with pytest.raises((TypeError, ValueError), match=f"{name}={value!r}: must be"):
                loaders[kind](**how)


def test_edge_index_of_pairs_is_refused_with_its_shape(pyg, tmp_path):
    import torch
    from torch_geometric.data import Data, HeteroData

    pairs, typed = torch.randint(0, 50, (400, 2)), HeteroData()
    data = Data(x=torch.rand(50, 2), edge_index=pairs, num_nodes=50)
    typed["a"].x, typed["a", "to", "a"].edge_index = torch.rand(50, 2), pairs
    said = r"edge_index: shape \(400, 2\): must be \[2, edges\].*edge_index.t\(\)"
    for make in (lambda: pyg.NeighborLoader(data, [3]), lambda: pyg.ClusterData(data, 2, log=False),
                 lambda: pyg.GraphSAINTNodeSampler(data, 6), lambda: khop.write(tmp_path / "g", data)):
        with pytest.raises(ValueError, match=said):
            make()
    for make in (lambda: pyg.NeighborLoader(typed, [3], "a"), lambda: khop.write(tmp_path / "g", typed)):
        with pytest.raises(ValueError, match=r"edge_index of \('a', 'to', 'a'\): shape \(400, 2\)"):
            make()


def test_a_typo_of_a_split_is_answered_with_the_splits(pyg, dataset):
    path = dataset("sbm")
    for make in (lambda: pyg.NeighborLoader(path, [3], "trian"), lambda: pyg.ShaDowKHopSampler(path, 2, 3, "trian"),
                 lambda: pyg.HGTLoader(dataset("typed"), [3], ("paper", "trian"))):
        with pytest.raises(ValueError, match="no split 'trian'; there are: train, val, test"):
            make()
    for make in (lambda: khop.Loader(path, [3], seeds="trian"),
                 lambda: len(khop.dgl.DataLoader(path, "trian", khop.dgl.NeighborSampler([3])))):
        with pytest.raises(khop.OptionError, match='no such split: "trian".*there are: train .*val .*test'):
            make()
    with pytest.raises(ValueError, match="no edge type 'trian'; there are: node:to:node"):
        pyg.LinkNeighborLoader(path, [3], "trian")


def test_dates_are_times_in_the_datasets_unit(program, tmp_path):
    import datetime

    edges, path = tmp_path / "e.csv", str(tmp_path / "g.khop")
    edges.write_text("src,dst,time\n0,1,1706572800\n1,2,1706659200\n2,3,1706702400\n3,0,1706745600\n")
    subprocess.run([program, "convert", edges, path, "--times-in", "s", "--time-unit", "ms"], check=True)
    noon = datetime.datetime(2024, 1, 31, 12)
    for process in ("server", "auto"):
        def edges_of(as_of, process=process):
            with khop.Loader(path, [3], sampler="temporal", as_of=as_of, seeds="all", batch_size=4, framework="numpy",
                             process=process) as loader:
                return next(iter(loader)).edge_index.shape[1]
        assert edges_of("2024-01-31") == edges_of(datetime.date(2024, 1, 31)) == edges_of(1706659200000) == 2
        for at in (noon, noon.replace(tzinfo=datetime.timezone.utc), np.datetime64(noon), np.datetime64(noon, "ns"),
                   "2024-01-31T12:00:00Z"):
            assert edges_of(at) == 3
        with pytest.raises(khop.OptionError, match='as_of is "soon": must be a whole number, or a date'):
            edges_of("soon")
    with khop.Sampler(path, [3], sampler="temporal", as_of="2024-01-31") as sampler:
        assert sampler.sample(np.arange(4)).edge_index.shape[1] == 2


def test_a_target_that_exists_names_the_argument(dataset, tmp_path):
    path, edges = tmp_path / "g", {"edge_index": np.array([[0, 1], [1, 0]])}
    khop.write(path, edges)
    with pytest.raises(khop.WriteError, match=r"target exists.*replace it \(force=True\)"):
        khop.write(path, edges)
    khop.write(path, edges, force=True)


@pytest.mark.parametrize("negatives", [None, 2])
def test_a_sampler_of_edges_of_dgl_samples_by_itself(program, negatives):
    torch = pytest.importorskip("torch")
    from graph_of_dgl import random_graph
    from khop import dgl

    g, ids = random_graph(), torch.arange(0, 60, 3)
    sampler = dgl.as_edge_prediction_sampler(
        dgl.NeighborSampler([3, 4]), exclude="self",
        negative_sampler=None if negatives is None else dgl.negative_sampler.Uniform(negatives))
    input_nodes, pairs, *against, blocks = sampler.sample(g, ids)
    nodes, (source, target) = pairs.ndata[dgl.NID], pairs.edges()
    assert torch.equal(pairs.edata[dgl.EID], ids) and len(blocks) == 2
    assert torch.equal(nodes[source], g.edges()[0][ids]) and torch.equal(nodes[target], g.edges()[1][ids])
    assert torch.equal(blocks[0].srcdata[dgl.NID], input_nodes)
    assert [n.num_edges() for n in against] == ([] if negatives is None else [2 * len(ids)])


@pytest.fixture
def relbench(monkeypatch):
    """RelBench's module of loaders, or what khop takes of it."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    try:
        import relbench.modeling.loader  # noqa: F401
    except ImportError:
        class Rows:
            def __init__(self, sources, liked, number, times):
                self.parts = sources, liked, number, times

        names = ("relbench", "relbench.modeling", "relbench.modeling.loader")
        modules = {name: type(sys)(name) for name in names}
        modules["relbench.modeling"].loader = modules["relbench.modeling.loader"]
        modules["relbench.modeling.loader"].CustomLinkDataset = type("CustomLinkDataset", (Rows,), {
            "__len__": lambda self: len(self.parts[0])})
        modules["relbench.modeling.loader"].TimestampSampler = object
        modules["relbench.modeling.loader"].LinkNeighborLoader = torch.utils.data.DataLoader
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.delitem(sys.modules, "khop.pyg.relbench", raising=False)
    import khop.pyg.relbench as loaders

    yield loaders
    sys.modules.pop("khop.pyg.relbench", None)


def test_relbenchs_links_bring_times_that_nodes_lack(program, relbench):
    import torch
    from torch_geometric.data import HeteroData

    rng, data = np.random.default_rng(7), HeteroData()
    data["buy"].time = torch.from_numpy(rng.integers(0, 100, 400))
    data["buy"].num_nodes = 400
    for end, count in (("user", 20), ("product", 30)):  # which have no times
        data[end].num_nodes = count
        data["buy", "f2p_" + end, end].edge_index = torch.from_numpy(
            np.stack([np.arange(400), rng.integers(0, count, 400)]))
        data[end, "rev_f2p_" + end, "buy"].edge_index = data["buy", "f2p_" + end, end].edge_index.flip(0)
    liked = torch.zeros(20, 30).index_put((torch.arange(20), torch.arange(20) + 5), torch.tensor(1.)).to_sparse_csr()
    loader = relbench.LinkNeighborLoader(
        data, [8, 8], ("user", torch.arange(20)), ("product", liked), 30, src_time=torch.arange(20) + 40,
        time_attr="time", batch_size=5)
    steps = list(loader)
    loader.close()
    assert len(steps) == 4
    for step in steps:
        for out, of in zip(step, ("user", "product", "product")):
            assert len(out[of].seed_time) == 5
            trees = out["buy"].batch
            assert len(trees) and not (out["buy"].time > out[of].seed_time[trees]).any()
