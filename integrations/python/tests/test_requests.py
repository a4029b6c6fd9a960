"""Single requests to a server: khop serve --seeds on-request."""
import threading

import numpy as np
import pytest

import khop

pytest.importorskip("xxhash")
HOW = dict(fanouts=[6, 4], batch_size=64, framework="numpy", seed=7)


@pytest.fixture
def serving(dataset, tmp_path):
    """A server of requests, and its socket."""
    made = []

    def serving(name="sbm", **options):
        path = tmp_path / "asked.sock"
        made.append(khop.Loader(dataset(name), seeds="on-request", socket=path, **{**HOW, **options}))
        return made[-1], path
    yield serving
    for loader in made:
        loader.close()


def loaded(path, seeds, **options):
    """The digest of the only batch of a loader."""
    with khop.Loader(path, seeds=seeds, **{**HOW, **options}) as loader:
        (batch,) = list(loader)
        return batch.digest()


def test_processes_ask_a_server_at_a_time(serving, dataset):
    own, path = serving()
    want = {ids: loaded(dataset("sbm"), np.array(ids)) for ids in ((17, 4, 17, 2999), (5,), (8, 9))}
    wrong = []

    def ask():
        with khop.connect(path, framework="numpy") as connection:
            for _ in range(5):
                wrong.extend(ids for ids in want if connection.sample(list(ids)).digest() != want[ids])
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and own.sample([5]).digest() == want[5,]
    other = own.sample([5], epoch=3, number=2)
    assert (other.epoch, other.number) == (3, 2) and other.digest() != want[5,]
    with pytest.raises(khop.ServerError, match="come with requests"):
        next(iter(own))
    with khop.connect(path, rank=0, framework="numpy") as connection:
        assert connection.rank_reason == "0 of 1: it was asked for"


def test_requests_are_of_types_as_of_times(serving, dataset, tmp_path):
    khop.write(tmp_path / "timed.khop", {
        "a": {"num_nodes": 9}, "b": {"num_nodes": 4, "time": np.arange(4)},
        ("b", "to", "a"): {"src": np.arange(4), "dst": np.zeros(4, int)}})
    with khop.Loader(tmp_path / "timed.khop", [-1], sampler="temporal", node_time="time", disjoint=True,
                     seeds="on-request", framework="numpy") as asked:
        batch = asked.sample(("a", [0, 3, 0]), [2, 9, 0])
        assert batch["a"].n_id[batch["a"].seeds].tolist() == [0, 3, 0]
        assert sorted(batch["b"].n_id.tolist()) == [0, 0, 1, 2]
        for wrong, says in ((([1], None), "of which node type"), ((("a", [1]), [1, 2]), "2 for 1"),
                            ((("a", np.arange(5000)), np.arange(5000)), "a message has room for")):
            with pytest.raises(ValueError, match=says):
                asked.sample(*wrong)
        with pytest.raises(khop.ServerError, match='nodes of type "a" are 0 to 8'):
            asked.sample(("a", [9]), [1])
        assert asked.sample({"b": [1]}, {"b": [0]})["b"].n_id.tolist() == [1]
        batch = asked.sample(("a", [0, 0]), [2, 9], start_times=[1, -2**63])
        trees = np.asarray(batch.array("sample/tree/b"))
        assert [sorted(batch["b"].n_id[trees == tree].tolist()) for tree in (0, 1)] == [[1, 2], [0, 1, 2, 3]]


def test_answers_in_use_are_no_more_than_the_server_gives(serving):
    own, path = serving()
    connection = khop.connect(path, framework="numpy", hold=2)
    kept = [connection.sample([i]) for i in range(2)]
    with pytest.raises(khop.SlotsHeldError, match="batch 0 of epoch 0"):
        connection.sample([3])
    ids = kept.pop().n_id.tolist()
    assert ids[0] == 1 and connection.sample([3]).n_id[0] == 3
    connection.close()
    assert kept[0].n_id[0] == 0  # it has memory of its own now
    with pytest.raises(khop.ServerError, match="closed"):
        connection.sample([1])


def test_a_server_of_epochs_answers_no_requests(dataset):
    with khop.Loader(dataset("sbm"), **HOW) as loader:
        with pytest.raises(TypeError, match="on-request"):
            loader.sample([1])
