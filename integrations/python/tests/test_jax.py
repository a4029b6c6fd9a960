"""Batches as JAX arrays: padded shapes compile once."""
import numpy as np
import pytest

import khop

jax = pytest.importorskip("jax", reason="jax is not installed")


@pytest.mark.parametrize("pad, most", [("max", 1), ("pow2", 8)])
def test_padded_batches_compile_few_times_and_give_what_numpy_gives(pad, most, dataset):
    traces = []

    @jax.jit
    def layer(x, edge_index, w):
        traces.append(x.shape)
        source, target = edge_index
        return jax.ops.segment_sum((x @ w)[source], target, num_segments=x.shape[0])

    w = np.random.default_rng(1).random((16, 4)).astype(np.float32)
    options = dict(fanouts=[4, 3], batch_size=128, frontier="new", seed=5)
    padded = khop.Loader(dataset("sbm"), pad=pad, framework="jax", **options)
    plain = khop.Loader(dataset("sbm"), framework="numpy", **options)
    for p, b in zip(padded, plain):
        assert isinstance(p.x, jax.Array) and p.edge_index.dtype == np.int32  # JAX's integers
        got = np.asarray(layer(p.x, p.edge_index, w))
        want = np.zeros((b.num_nodes, 4), np.float32)
        np.add.at(want, b.edge_index[1], (b.x @ w)[b.edge_index[0]])
        np.testing.assert_allclose(got[:b.num_nodes], want, rtol=1e-4, atol=1e-4)
        assert np.asarray(p.node_mask).sum() == b.num_nodes
    assert len(traces) <= most
    padded.close()
    plain.close()


def test_arrays_that_jax_holds_keep_their_slot(dataset):
    with khop.Loader(dataset("sbm"), fanouts=[3], batch_size=64, framework="jax") as loader:
        epoch = iter(loader)
        x = next(epoch).x
        before = np.array(x)
        for _ in range(10):
            next(epoch)
        np.testing.assert_array_equal(np.asarray(x), before)
