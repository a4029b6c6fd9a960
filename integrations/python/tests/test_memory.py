"""Small graphs in memory have the batches, states and errors that they have by way of a dataset on disk."""
import gc
import os
import pickle
import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data, HeteroData  # noqa: E402

import khop  # noqa: E402
from khop import pyg  # noqa: E402
from khop._data import memory  # noqa: E402
from khop._native import library as _library  # noqa: E402

pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")
SEED = int(os.environ.get("KHOP_SEED", "20261130"))


@pytest.fixture
def on_disk(program, monkeypatch):
    """Makes a loader of the dataset on disk that larger graphs become."""
    def make(kind, *arguments, **options):
        with monkeypatch.context() as m:
            m.setattr(memory, "SMALL", -1)
            loader = kind(*arguments, **options)
        assert not graph_of(loader).handle
        return loader
    return make


def graph_of(loader):
    return loader._structure.path


def plain(nodes=60, edges=300, **more):
    draw = torch.Generator().manual_seed(4)
    return Data(x=torch.rand(nodes, 3, generator=draw), edge_index=torch.randint(nodes, (2, edges), generator=draw),
                **more)


def tensors(batch):
    """All of a batch of PyG, by name."""
    found = {}
    for store in batch.stores:
        for name, value in store.items():
            found[str(store._key), name] = value
    return found


def assert_same(loaders):
    batches = [list(loader) for loader in loaders]
    assert len(batches[0]) == len(batches[1])
    for mine, other in zip(*batches):
        mine, other = tensors(mine), tensors(other)
        assert mine.keys() == other.keys()
        for name, value in mine.items():
            if isinstance(value, torch.Tensor):
                assert value.dtype == other[name].dtype and torch.equal(value, other[name]), name
            else:
                assert value == other[name], name


def drawn(r):
    """Data of PyG, with options that read it."""
    draw = torch.Generator().manual_seed(r.randrange(1 << 30))

    def edges(source, target, into):
        m = r.randrange(200)
        into.edge_index = torch.stack([torch.randint(source, (m,), generator=draw),
                                       torch.randint(target, (m,), generator=draw)])
        if weighted:
            dtype = r.choice([torch.float32, torch.float64, torch.bfloat16])
            into.w = torch.randint(9, (m,), generator=draw).to(dtype)
        if timed:
            into.at = torch.randint(50, (m,), generator=draw)
    weighted, timed = r.random() < .4, False
    options = {"disjoint": r.random() < .3, "replace": r.random() < .3, "shuffle": r.random() < .5,
               "subgraph_type": r.choice(["directional", "induced"])}
    if weighted:
        options.update(weight_attr="w", subgraph_type="directional")
    elif r.random() < .5:
        timed = True
        options.update(time_attr="at", disjoint=True, replace=False, subgraph_type="directional")
    if r.random() < .5:
        data = Data(num_nodes=r.randrange(1, 60))
        edges(data.num_nodes, data.num_nodes, data)
        seeds = torch.randint(data.num_nodes, (r.randrange(1, 40),), generator=draw)
        fanouts = [3, 2]
    else:
        data, types = HeteroData(), [f"type {i}" for i in range(r.randrange(1, 4))]
        for name in types:
            data[name].num_nodes = r.randrange(1, 60)
        for i in range(r.randrange(1, 4)):
            of = r.choice(types), f"to {i}", r.choice(types)
            edges(data[of[0]].num_nodes, data[of[2]].num_nodes, data[of])
        seeds = types[0], torch.randint(data[types[0]].num_nodes, (r.randrange(1, 40),), generator=draw)
        fanouts = {of: [3, 2] for of in data.edge_types}
    if timed:
        options["input_time"] = torch.randint(50, (len(seeds[1] if isinstance(seeds, tuple) else seeds),),
                                              generator=draw)
    return data, fanouts, {**options, "input_nodes": seeds, "batch_size": r.randrange(1, 9), "seed": r.randrange(99)}


def test_drawn_graphs_have_the_batches_of_datasets(on_disk):
    print(f"KHOP_SEED={SEED}")
    r = random.Random(SEED)
    for _ in range(40):
        data, fanouts, options = drawn(r)
        with pyg.NeighborLoader(data, fanouts, **options) as mine, \
                on_disk(pyg.NeighborLoader, data, fanouts, **options) as other:
            assert graph_of(mine).handle, options
            assert_same([mine, other])
            assert mine.state_dict() == other.state_dict()


def test_links_and_single_requests_are_those_of_a_dataset(on_disk):
    data = plain(60, 300)
    for options in ({"neg_sampling": "binary"}, {"disjoint": True}, {}):
        options = {"edge_label_index": data.edge_index[:, :50], "batch_size": 8, "seed": 5, **options}
        with pyg.LinkNeighborLoader(data, [3, 2], **options) as mine, \
                on_disk(pyg.LinkNeighborLoader, data, [3, 2], **options) as other:
            assert_same([mine, other])
    with pyg.NeighborLoader(data, [3, 2], seed=1) as mine, on_disk(pyg.NeighborLoader, data, [3, 2], seed=1) as other:
        assert tensors(mine([4, 9, 4])).keys() == tensors(other([4, 9, 4])).keys()
        assert torch.equal(mine([4, 9, 4]).n_id, other([4, 9, 4]).n_id)


@pytest.mark.parametrize("change, options", [
    (lambda d: d.edge_index[0].__setitem__(7, -1), {}),
    (lambda d: d.edge_index[1].__setitem__(7, 60), {}),
    (lambda d: d.__setattr__("edge_index", d.edge_index[:1]), {}),
    (lambda d: d.__setattr__("w", torch.rand(299)), {"weight_attr": "w"}),
    (lambda d: d.__setattr__("w", torch.full((300,), float("nan"))), {"weight_attr": "w"}),
], ids=["negative", "out of range", "shape", "fewer weights", "NaN"])
def test_errors_are_those_of_a_dataset(on_disk, change, options):
    data, said = plain(), []
    change(data)
    for make in (pyg.NeighborLoader, lambda *a, **o: on_disk(pyg.NeighborLoader, *a, **o)):
        with pytest.raises(Exception) as e:
            make(data, [3], **options)
        said.append((type(e.value), str(e.value)))
    assert said[0] == said[1]


def test_warnings_are_those_of_a_dataset(on_disk):
    data, said = plain(at=torch.rand(60, generator=torch.Generator().manual_seed(2)) * 9), []
    for make in (pyg.NeighborLoader, lambda *a, **o: on_disk(pyg.NeighborLoader, *a, **o)):
        with pytest.warns(khop.KhopWarning) as warned:
            make(data, [3], time_attr="at", disjoint=True, input_time=torch.arange(60)).close()
        said.append(sorted(str(w.message) for w in warned))
    assert said[0] == said[1] and "fractions" in said[0][0]


def test_changes_of_arrays_change_no_batch():
    data = plain(at=torch.arange(60))
    options = {"time_attr": "at", "disjoint": True, "input_time": torch.full((60,), 40), "seed": 3, "batch_size": 8}
    want = [b.edge_index.clone() for b in pyg.NeighborLoader(data, [3, 2], **options)]
    loader = pyg.NeighborLoader(data, [3, 2], **options)
    data.edge_index.zero_()
    data.at.zero_()
    path = os.fspath(graph_of(loader))  # what a server would read
    for own, other in zip(want, loader):
        assert torch.equal(own, other.edge_index)
    about = khop.info(path)
    assert about["edges"] == 300 and khop.Dataset(path).info["id"] == loader.state_dict()["dataset"]


def test_states_go_on_whichever_way(on_disk):
    data, options = plain(), {"batch_size": 8, "shuffle": True, "seed": 2}
    whole = [b.n_id for b in pyg.NeighborLoader(data, [3, 2], **options)]
    first, second = pyg.NeighborLoader(data, [3, 2], **options), on_disk(pyg.NeighborLoader, data, [3, 2], **options)
    run = iter(first)
    for _ in range(3):
        next(run)
    second.load_state_dict(first.state_dict())
    for own, other in zip(whole[3:], second):
        assert torch.equal(own, other.n_id)


def test_a_server_reads_the_same_from_disk():
    data, options = plain(), {"batch_size": 8, "seed": 2}
    with pyg.NeighborLoader(data, [3, 2], **options) as mine, \
            pyg.NeighborLoader(data, [3, 2], **options, options={"process": "server"}) as served:
        assert graph_of(mine).handle and not graph_of(served).handle
        assert_same([mine, served])


def test_a_forked_process_has_a_server(program):
    loader = pyg.NeighborLoader(plain(), [3, 2], seed=1)
    want = loader([5, 6]).n_id.tolist()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, repr(loader([5, 6]).n_id.tolist()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as said:
        assert said.read() == repr(want)
    assert os.waitpid(child, 0)[1] == 0
    assert loader([5, 6]).n_id.tolist() == want and not graph_of(loader)._path


def test_a_graph_ends_with_its_loader_and_folders_with_it():
    loader = pyg.NeighborLoader(plain(), [3], batch_size=8)
    run = iter(loader)
    next(run)
    graph = graph_of(loader)
    path, copy = os.fspath(graph), pickle.loads(pickle.dumps(graph))
    assert copy == path and os.path.isdir(path)
    loader.close()
    assert not os.path.exists(path)
    library, handle = _library.load(), graph.handle
    with pytest.raises(khop.ServerError, match="closed"):
        library.function("khop_close", _library.Handle)(handle)
    loader = pyg.NeighborLoader(plain(), [3])
    handle = graph_of(loader).handle
    del loader
    gc.collect()
    with pytest.raises(khop.ServerError, match="closed"):
        library.function("khop_close", _library.Handle)(handle)


def test_large_graphs_and_odd_numbers_are_on_disk(monkeypatch):
    data = plain()
    monkeypatch.setattr(memory, "SMALL", 3 * 8 * 300)
    assert not graph_of(pyg.NeighborLoader(data, [3])).handle
    monkeypatch.setattr(memory, "SMALL", 3 * 8 * 300 + 8)
    assert graph_of(pyg.NeighborLoader(data, [3])).handle
