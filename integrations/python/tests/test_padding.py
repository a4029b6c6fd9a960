"""Padded batches: shapes repeat, and nothing real changes."""
import pickle

import numpy as np
import pytest

import khop
from khop._batch.arrays import OwnArrays
from khop._batch.frameworks import framework
from khop.padding import Sizes, most
from khop._batch.schema import Schema

NEW = Schema(("paper", "author"), (500, 300), (("paper", "cites", "paper"), ("author", "writes", "paper")), (4000, 900),
             2, new_nodes=False)


def random_batch(seed, schema=NEW, kind="numpy"):
    """A batch of the schema, of random counts, as a sampler could have made it."""
    rng = np.random.default_rng(seed)
    counts = np.cumsum(rng.integers(1, 9, (schema.layers + 1, len(schema.node_types))), axis=0)
    counts[0, 1] = 0  # the seeds are papers
    arrays = {"num_nodes": counts}
    for t, name in enumerate(schema.node_types):
        n = counts[-1, t]
        arrays[f"nodes/{name}"] = rng.permutation(schema.node_counts[t])[:n]
        arrays[f"seeds/{name}"] = np.arange(counts[0, t])
        arrays[f"input/{name}"] = arrays[f"nodes/{name}"][:counts[0, t]]
        arrays[f"item/{name}"] = np.arange(counts[0, t])
        arrays[f"node/{name}/feature"] = rng.random((n, 3)).astype(np.float32)
        arrays[f"seed/{name}/label"] = rng.integers(0, 4, counts[0, t])
    for layer in range(schema.layers):
        hop = schema.layers - 1 - layer
        for source, relation, target in schema.edge_types:
            degree = rng.integers(0, 4, counts[hop, schema.node(target)])
            prefix = f"block/{layer}/{source}:{relation}:{target}/"
            arrays[prefix + "indptr"] = np.concatenate(([0], np.cumsum(degree)))
            arrays[prefix + "indices"] = rng.integers(0, counts[hop + 1, schema.node(source)], degree.sum())
            arrays[prefix + "edge_pos"] = rng.integers(0, 4000, degree.sum())
            arrays[f"edge/{layer}/{source}:{relation}:{target}/weight"] = rng.random(degree.sum())
    return khop.Batch(schema, khop.Info(0, seed, False, seed + 1),
                      OwnArrays(arrays, {n: a.dtype.name for n, a in arrays.items()}),
                      framework(kind), "int64")


def mean_of_sources(batch, layers):
    """A small network over blocks: every layer adds up sources' rows."""
    rows = {t: batch[t].x for t in batch.node_types}
    for layer in range(layers):
        out = {}
        for edge_type in batch.edge_types:
            b = batch[edge_type].blocks[layer]
            source, target = b.edge_index
            total = np.zeros((b.num_dst, 3), np.float64)
            np.add.at(total, target, rows[edge_type[0]][source])
            out[edge_type[2]] = out.get(edge_type[2], 0) + total + rows[edge_type[2]][:b.num_dst]
        rows = {t: out.get(t, rows[t][:batch._counts[layers - 1 - layer][i]]) for i, t in enumerate(batch.node_types)}
    return rows


@pytest.mark.parametrize("seed", range(20))
def test_padding_changes_nothing_that_is_real(seed):
    batch = random_batch(seed)
    padded = batch.pad("pow2")
    for t in batch.node_types:
        n, m = batch[t].num_nodes, padded[t].num_nodes
        assert m > n and m & (m - 1) == 0
        assert padded.node_mask_of(t).tolist() == [True] * n + [False] * (m - n)
        np.testing.assert_array_equal(padded[t].x[:n], batch[t].x)
        assert not padded[t].x[n:].any()
    k = batch["paper"].batch_size
    np.testing.assert_array_equal(padded["paper"].y[:k], batch["paper"].y)
    assert padded.seed_mask_of("paper").sum() == k
    want, got = mean_of_sources(batch, 2)["paper"], mean_of_sources(padded, 2)["paper"]
    np.testing.assert_array_equal(got[:k], want)
    for edge_type in batch.edge_types:
        mask = padded.edge_mask_of(edge_type)
        np.testing.assert_array_equal(padded[edge_type].edge_index[:, mask], batch[edge_type].edge_index)
        np.testing.assert_array_equal(padded[edge_type]["weight"][mask], batch[edge_type]["weight"])
        assert (padded[edge_type].edge_index[0][~mask] >= [batch[edge_type[0]].num_nodes]).all() or not (
            ~mask).any() or batch.schema.layers > 1
    assert padded.real == batch._counts
    with pytest.raises(TypeError, match="no digest"):
        padded.digest()


def test_padded_batches_stay_padded_where_they_go():
    padded = random_batch(2).pad("pow2")
    again = pickle.loads(pickle.dumps(padded))
    assert type(again) is khop.Padded and again.real == padded.real
    np.testing.assert_array_equal(again.node_mask_of("paper"), padded.node_mask_of("paper"))
    moved = padded._with({n: padded.array(n) for n in padded.names()})  # as to() makes it
    assert type(moved) is khop.Padded and moved.real == padded.real


def shapes(batch):
    return {n: batch.array(n).shape for n in batch.names()}


def test_the_most_that_a_sampler_reaches_is_one_shape_for_all_batches():
    about = {"sampler": "neighbor fanouts=*=3,3;cites=4,3 replace=false frontier=all", "batch_size": 32}
    sizes = most(NEW, about)
    assert sizes.nodes[0] == (33, 33) and sizes.edges[1] == (32 * 4, 32 * 3)
    assert sizes.nodes[1] == (32 + 128 + 1, 32 + 96 + 1)
    assert len({tuple(shapes(random_batch(s).pad(sizes)).items()) for s in range(5)}) == 1
    unbounded = most(NEW, {**about, "sampler": "neighbor fanouts=-1,-1 replace=false frontier=all"})
    assert unbounded.nodes[2] == (501, 301) and unbounded.edges[0] == (4000, 900)
    with pytest.raises(ValueError, match="no bounds that khop knows"):
        most(NEW, {"sampler": "other"})


def test_a_batch_that_does_not_fit_says_which_list():
    batch = random_batch(1)
    sizes = Sizes(tuple(tuple(64 for _ in range(2)) for _ in range(3)), ((64, 64), (1, 64)), (64, 64))
    with pytest.raises(ValueError, match="edges of type paper:cites:paper in layer 1, the padded shape 1"):
        batch.pad(sizes)
    with pytest.raises(ValueError, match='must be "pow2"'):
        batch.pad("pow3")


def test_sequences_get_rows_without_tokens():
    schema = Schema(("node",), (40,), (("node", "edge", "node"),), (90,), 1, new_nodes=False)
    index = np.array([[0, 4, -1], [3, -1, -1], [0, 2, 1]], np.int32)
    arrays = {"num_nodes": np.array([[3], [5]]), "nodes/node": np.arange(5), "seeds/node": np.arange(3),
              "block/0/node:edge:node/indptr": np.zeros(4, np.int64),
              "block/0/node:edge:node/indices": np.empty(0, int), "sample/sequence": index,
              "sample/sequence_id": index, "sample/sequence_age": np.abs(index).astype(np.int64)}
    dtypes = {n: str(a.dtype) for n, a in arrays.items()}
    batch = khop.Batch(schema, khop.Info(0, 0, False, 1), OwnArrays(arrays, dtypes), framework("numpy"), "int64")
    about = {"sampler": "sequence sequence=3 of ppr neighbors=32", "batch_size": 8}
    for padded, rows, nodes in (batch.pad(), 4, 8), (batch.pad(most(schema, about)), 8, 33):
        tokens = padded.sequences
        assert tokens.index.shape == (rows, 3) and padded.num_nodes == nodes
        np.testing.assert_array_equal(tokens.index[:3], index)
        assert (tokens.index[3:] == -1).all() and (tokens.ids[3:] == -1).all() and (tokens.age[3:] == 0).all()
