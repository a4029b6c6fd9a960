"""Iterations of khop.pyg's loaders: several at a time, states, epochs, and what making a loader refuses."""
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch_geometric.data import Data  # noqa: E402
from torch_geometric.loader import NodeLoader  # noqa: E402

from khop import StateError, WriteError, binary  # noqa: E402
from khop._native import library as _library  # noqa: E402
from khop.pyg import LinkNeighborLoader, NeighborLoader, NeighborSampler  # noqa: E402


@pytest.fixture(scope="module")
def data():
    draw = torch.Generator().manual_seed(1)
    return Data(x=torch.rand(500, 8, generator=draw), edge_index=torch.randint(500, (2, 4000), generator=draw))


def made(data, links, **how):
    how = dict(batch_size=64, shuffle=True, seed=3, **how)
    if links:
        return LinkNeighborLoader(data, [3, 2], data.edge_index[:, :300], neg_sampling="binary", **how)
    return NeighborLoader(data, [3, 2], **how)


def told(batch):
    return batch.n_id.tolist(), batch.e_id.tolist(), batch.input_id.tolist()


@pytest.mark.parametrize("links", [False, True])
def test_iterations_at_a_time_are_epochs_of_their_own(data, links, program):
    apart = made(data, links)
    epochs = [[told(b) for b in apart] for _ in range(6)]
    apart.close()
    assert len({str(e) for e in epochs}) == 6
    loader = made(data, links)
    assert [list(map(told, pair)) for pair in zip(loader, loader)] == [list(pair) for pair in zip(*epochs[:2])]
    inner = []
    for i, batch in enumerate(loader):  # epoch 2, around 3 and 4
        assert told(batch) == epochs[2][i]
        if i < 2:
            inner.append([told(b) for b in loader])
    assert inner == epochs[3:5]
    assert [told(b) for b in loader] == epochs[5]
    loader.close()


@pytest.mark.parametrize("links", [False, True])
def test_a_state_goes_on_after_its_batch(data, links, program):
    loader = made(data, links)
    loader.set_epoch(4)
    whole, state = [], None
    for i, batch in enumerate(loader):
        whole.append(told(batch))
        if i == 2:
            state = json.loads(json.dumps(loader.state_dict()))
    following = [told(b) for b in loader]
    other = made(data, links)
    before = other.state_dict()
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert [told(b) for b in other] == whole[3:] and [told(b) for b in other] == following
    other.load_state_dict(before)
    first = [told(b) for b in other]
    other.set_epoch(0)
    assert [told(b) for b in other] == first
    with pytest.raises(StateError, match="sampler is"):
        made(data, links, replace=True).load_state_dict({**state, "seed": "7"})
    with pytest.raises(ValueError, match="whole number"):
        other.set_epoch(-1)
    loader.close()
    other.close()


@pytest.mark.parametrize("how, error, says", [
    (dict(input_nodes=torch.ones(499, dtype=torch.bool)), ValueError, "a mask of 499 for 500 nodes"),
    (dict(input_nodes=np.ones(501, bool)), ValueError, "a mask of 501 for 500 nodes"),
    (dict(input_nodes=torch.rand(5)), TypeError, "input_nodes: torch.float32: must be whole numbers"),
    (dict(input_nodes=torch.tensor([500])), ValueError, "must be in 0 .. 499"),
    (dict(options={"worker": 3}), TypeError, "workers"),
    (dict(shuffle="yes"), TypeError, "shuffle='yes': must be True or False"),
    (dict(batch_size="64"), TypeError, "batch_size='64': must be a whole number"),
    (dict(batch_size=0), ValueError, "at least 1"),
    (dict(batch_size=2.5), TypeError, "must be a whole number"),
    (dict(drop_last="no"), TypeError, "drop_last='no'"),
])
def test_what_is_wrong_is_refused_where_the_loader_is_made(how, error, says, data, program):
    with pytest.raises(error, match=says):
        NeighborLoader(data, [3], **{"batch_size": 64, **how})


@pytest.mark.parametrize("where", ["inside", "server", "dataset", "links"])
def test_all_batches_may_be_kept(where, data, program, dataset):
    """One after the other they have the same contents."""
    options = {"process": "server"} if where in ("server", "dataset") else None
    source = dataset("sbm") if where == "dataset" else data

    def loader():
        if where == "links":
            return LinkNeighborLoader(source, [3, 2], data.edge_index[:, :300], neg_sampling="binary", batch_size=10,
                                      seed=3)
        return NeighborLoader(source, [3, 2], range(0, 500, 3), batch_size=5, seed=3, options=options)
    one_by_one, together = loader(), loader()
    want = [(told(b), b.x.sum(1).tolist()) for b in one_by_one]
    kept = list(together)
    together.close()  # what is kept outlives the loader
    assert len(want) > 16 and [(told(b), b.x.sum(1).tolist()) for b in kept] == want
    one_by_one.close()


def test_data_without_features_has_none(data, program):
    loader = NeighborLoader(Data(edge_index=data.edge_index, num_nodes=500), [2], batch_size=50)
    assert next(iter(loader)).x is None
    loader.close()


def test_times_of_edges_are_compared_as_cugraph_says(program):
    path = Data(edge_index=torch.tensor([[1, 2], [0, 1]]), time=torch.tensor([5, 5]), num_nodes=3)

    def edges(time, **how):
        loader = NeighborLoader(path, [2, 2], input_nodes=torch.tensor([0]), input_time=torch.tensor([time]),
                                time_attr="time", **how)
        (batch,) = loader
        loader.close()
        return batch.num_edges
    for comparison, at_10, at_5 in ((None, 2, 2), ("monotonically_decreasing", 2, 2), ("strictly_decreasing", 1, 0),
                                    ("strictly decreasing", 1, 0), ("last", 2, 2)):
        assert (edges(10, temporal_comparison=comparison), edges(5, temporal_comparison=comparison)) == (at_10, at_5)
    for how, says in [(dict(temporal_comparison="less"), "must be one of strictly_decreasing"),
                      (dict(temporal_comparison="last", time_attr=None, input_time=None), "give time_attr as well"),
                      (dict(input_time=None), "time_attr='time': is of edges.*give input_time")]:
        how = {"time_attr": "time", "input_time": torch.tensor([1]), **how}
        with pytest.raises(ValueError, match=says):
            NeighborLoader(path, [2], input_nodes=torch.tensor([0]), **how)
    with pytest.raises(ValueError, match="time_attr='time': is of edges.*give input_time"):
        next(iter(NodeLoader(path, NeighborSampler(path, [2], time_attr="time"))))


@pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")
@pytest.mark.parametrize("links", [False, True])
def test_small_graphs_start_no_program_and_have_the_same_batches(links, data, program, monkeypatch):
    loader = made(data, links, options={"process": "server"})
    by_server = [told(b) for b in loader]
    state = loader.state_dict()
    loader.close()
    with monkeypatch.context() as patched:
        patched.setattr(binary, "find", lambda *_: pytest.fail("a program was started"))
        loader = made(data, links)
        assert [told(b) for b in loader] == by_server and loader.state_dict() == state
        loader.close()
        with pytest.raises(WriteError, match="edge_index: edge .* is not below 500 nodes"):
            NeighborLoader(Data(edge_index=data.edge_index + 1, num_nodes=500), [2])
