"""What loaders under PyG's, DGL's and GraphBolt's names do alike: epochs, states, several iterations, options."""
import json

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import khop  # noqa: E402
import khop.graphbolt as gb  # noqa: E402
from conftest import run  # noqa: E402
from khop import dgl  # noqa: E402


def of_pyg(path, program, tmp_path, **more):
    pytest.importorskip("torch_geometric", reason="PyG is not installed")
    from khop import pyg

    return pyg.NeighborLoader(path, [5, 3], input_nodes="train", batch_size=200, shuffle=True, seed=4, **more), \
        lambda b: b.n_id.tolist()


def of_dgl(path, program, tmp_path, **more):
    return dgl.DataLoader(path, "train", dgl.NeighborSampler([3, 5]), batch_size=200, shuffle=True, seed=4, **more), \
        lambda b: b[0].tolist()


def of_graphbolt(path, program, tmp_path, **more):
    folder = tmp_path / "bolt"
    if not folder.exists():
        run(program, "export", path, folder, "--to", "graphbolt")
    data = gb.OnDiskDataset(folder).load()
    pipe = gb.ItemSampler(data.tasks[0].train_set, batch_size=200, shuffle=True, seed=4)
    return gb.DataLoader(pipe.sample_neighbor(data.graph, [3, 5]), **more), lambda b: b.input_nodes.tolist()


@pytest.fixture(params=[of_pyg, of_dgl, of_graphbolt], ids=lambda f: f.__name__)
def make(request, dataset, program, tmp_path):
    return lambda **more: request.param(dataset("sbm"), program, tmp_path, **more)


def test_iterations_at_a_time_give_what_they_give_alone(make):
    with make()[0] as alone:
        ids = make()[1]
        want = [[ids(b) for b in alone] for _ in range(2)]
    assert want[0] != want[1]
    with make()[0] as loader:
        first, second = iter(loader), iter(loader)
        got = [[], []]
        for a, b in zip(first, second):
            got[0].append(ids(a))
            got[1].append(ids(b))
        assert got == want and len(loader) == len(want[0])
        loader.set_epoch(1)
        assert [ids(b) for b in loader] == want[1]


def test_a_state_is_gone_on_from_in_another_loader(make):
    loader, ids = make()
    with loader:
        whole = [ids(b) for b in loader]
        loader.set_epoch(0)
        batches = iter(loader)
        begun = [ids(next(batches))]
        state = json.loads(json.dumps(loader.state_dict()))
    with make()[0] as other:
        other.load_state_dict(state)
        assert begun + [ids(b) for b in other] == whole
        with pytest.raises(khop.StateError):
            other.load_state_dict({**state, "seed": "7"})


def test_after_the_end_of_with_there_is_no_server(make):
    with make()[0] as loader:
        next(iter(loader))
    with pytest.raises(khop.KhopError):
        loader.state_dict()


def test_names_that_are_no_options_and_values_that_differ_are_type_errors(make):
    with pytest.raises(TypeError, match="fan_outs"):
        make(fan_outs=[3])
    with pytest.raises(TypeError, match="workerz"):
        make(options={"workerz": 3})
    with pytest.raises(TypeError, match="differ"):
        make(options={"batch_size": 7})
