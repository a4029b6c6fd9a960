"""Batches as torch tensors, and khop under torch's own DataLoader."""
import gc
import pickle

import numpy as np
import pytest

import khop
import khop._batch.frameworks
from khop._feed.feed import Feed
from khop._loader.loader import Connection

import fake as f
from conftest import PATIENCE
import test_padding

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.utils.data  # noqa: E402

import khop.torch  # noqa: E402


@pytest.fixture
def start():
    made = []

    def start(script=lambda s: s.serve(batches=8), **options):
        server = f.Fake(script)
        loader = Connection(Feed(server.client, timeout=PATIENCE), framework="torch", **options)
        made.append((server, loader))
        return loader
    yield start
    for server, loader in made:
        loader.close()
        server.close()


def test_tensors_share_the_slot_and_keep_it(start):
    loader = start()
    ring = loader._feed.ring
    epoch = iter(loader)
    batch = next(epoch)
    x, address = batch.x, batch._arrays().numpy("node/node/feature")[0].ctypes.data
    assert x.data_ptr() == address  # no copy
    x[0, 0] = 42
    assert batch._arrays().numpy("node/node/feature")[0][0, 0] == 42
    kept = x.view(-1)[3:].t().detach()
    del batch, x
    gc.collect()
    assert len(ring.held) == 1
    for _ in range(5):
        next(epoch)
    assert kept.tolist() == list(range(3, 21))
    del kept
    gc.collect()
    assert len(ring.held) == 0


def test_autograd_keeps_what_it_needs(start):
    loader = start()
    w = torch.ones(3, 1, requires_grad=True)
    losses = []
    for batch in loader:
        out = torch.zeros(batch.num_nodes, 1).index_add_(0, batch.edge_index[1], (batch.x @ w)[batch.edge_index[0]])
        losses.append(out[:batch.batch_size].sum())
        losses[-1].backward()
    assert w.grad is not None and float(w.grad.sum()) > 0


def test_every_dtype_of_the_feed_has_a_tensor_or_says_that_it_has_none(start):
    arrays = {"num_nodes": np.array([[1], [2]], np.int64), "nodes/node": np.arange(2), "seeds/node": np.arange(1),
              "input/node": np.arange(1), "item/node": np.arange(1),
              "block/0/node:edge:node/indptr": np.array([0, 1]), "block/0/node:edge:node/indices": np.array([1])}
    for dtype in f.CODES:
        raw = np.array([[1], [2]], "uint16") if dtype == "bfloat16" else np.array([[1], [2]], dtype)
        arrays[f"node/node/{dtype}"] = (dtype, raw)

    def script(s):
        run = s.begun()
        s.put(run, 0, 0, arrays)
        s.receive(f.BYE)
    batch = next(iter(start(script)))
    for dtype in f.CODES:
        if hasattr(torch, dtype):
            assert batch["node"][dtype].dtype == getattr(torch, dtype)
        else:
            with pytest.raises(TypeError, match=f"no dtype {dtype}"):
                batch["node"][dtype]
    assert batch["node"]["bfloat16"].view(torch.int16).flatten().tolist() == [1, 2]
    again = pickle.loads(pickle.dumps(batch))
    assert again["node"]["bfloat16"].dtype == torch.bfloat16


def test_moving_to_the_cpu_changes_nothing(start):
    batch = next(iter(start()))
    assert batch.to("cpu") is batch and batch.to("cpu", non_blocking=True) is batch
    batch.record_stream(None)
    assert batch.pin_memory() is batch or torch.cuda.is_available()


def test_moving_to_a_device_moves_all_arrays(start):
    batch = next(iter(start()))
    moved = batch.to("meta")  # the only other device that every torch has
    assert moved.x.device.type == "meta" and moved.edge_index.shape == (2, 5) and moved.batch_size == 4


@pytest.mark.parametrize("frontier", ["all", "new"])
def test_edge_index_equals_that_of_numpy(frontier):
    numpy, tensors = test_padding.random_batch(3), test_padding.random_batch(3, kind="torch")
    for edge_type in numpy.edge_types:
        np.testing.assert_array_equal(tensors[edge_type].edge_index.numpy(), numpy[edge_type].edge_index)
        assert tensors[edge_type].edge_index.is_contiguous()


# --- torch.utils.data ---

def test_a_dataloader_passes_batches_on(start):
    loader = start()
    data = torch.utils.data.DataLoader(khop.torch.Dataset(loader), batch_size=None)
    assert len(data) == 8
    for epoch in range(2):
        assert [(b.epoch, b.number) for b in data] == [(epoch, i) for i in range(8)]


def test_a_pass_that_is_kept_gives_way_to_the_next_one(start):
    data = torch.utils.data.DataLoader(khop.torch.Dataset(start()), batch_size=None)
    kept = iter(data)  # as Lightning does, after its sanity check
    next(kept)
    assert [b.number for b in data] == list(range(8))
    with pytest.raises(khop.BusyError, match="one iterator at a time"):
        next(kept)


def test_workers_are_refused_with_the_way_out(start):
    data = torch.utils.data.DataLoader(khop.torch.Dataset(start()), batch_size=None, num_workers=1)
    with pytest.raises(RuntimeError, match="num_workers=0"):
        list(data)


def test_a_dataset_does_not_travel(start):
    with pytest.raises(RuntimeError, match="num_workers=0"):
        pickle.dumps(khop.torch.Dataset(start()))


def test_pinning_is_done_once_a_segment_and_undone(monkeypatch):
    calls = []

    class Runtime:  # stands for torch.cuda.cudart()
        def cudaHostRegister(self, address, size, flags):
            calls.append(("register", address, size))
            return 0

        def cudaHostUnregister(self, address):
            calls.append(("unregister", address))
            return 0
    monkeypatch.setattr(torch.cuda, "cudart", lambda: Runtime())
    server = f.Fake(lambda s: s.serve(batches=4))
    loader = Connection(Feed(server.client, timeout=PATIENCE), framework="torch", pin=True)
    batch = None
    for batch in loader:
        pass
    assert [c[0] for c in calls] == ["register"] and calls[0][2] == 4 * server.SLOT
    x, ids = batch.x, batch.n_id.clone()
    loader.close()  # a batch is still there: its pages become this process's, which locked ones cannot
    assert [c[0] for c in calls] == ["register", "unregister"] and torch.equal(batch.n_id, ids) and len(x)
    del loader, batch, x
    gc.collect()
    assert [c[0] for c in calls] == ["register", "unregister"] and calls[1][1] == calls[0][1]
    server.close()


def test_a_slot_is_kept_until_the_copies_from_it_are_done(start, monkeypatch):
    done = []

    class OnDevice:  # stands for a tensor on a GPU
        is_cuda = True

    class Event:
        def record(self):
            pass

        def query(self):
            return bool(done)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(khop._batch.frameworks.Torch, "to", lambda self, array, device, non_blocking: OnDevice())
    loader = start()
    ring = loader._feed.ring
    epoch = iter(loader)
    next(epoch).to("cuda", non_blocking=True)
    next(epoch).release()
    gc.collect()
    assert len(ring.held) == 1  # the copies may still read it
    done.append(True)
    next(epoch).release()
    assert len(ring.held) == 0
