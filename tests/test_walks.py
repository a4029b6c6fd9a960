"""Walks and drawn subgraphs by a second program, written from docs/sampling.md alone, against khop sample."""
import numpy as np
import pytest

import oracle
from conftest import run

U = oracle.U


def variate(draws):
    return (draws >> U(11)).astype(np.float64) * 2.0**-53


def lists(seeds, ids):
    """The node list of seeds and then of ids (negative ones mean no node), and the local ids of both."""
    everything = np.concatenate((seeds, ids.ravel()))
    there = everything >= 0
    values, first, inverse = np.unique(everything[there], return_index=True, return_inverse=True)
    rank = np.empty(len(values), np.int64)
    rank[np.argsort(first)] = np.arange(len(values))
    local = np.full(len(everything), -1)
    local[there] = rank[inverse]
    return values[np.argsort(first)], local[: len(seeds)], local[len(seeds):].reshape(ids.shape)


def walks(indptr, indices, K, roots, length, count, restart=0.0, stop=0.0):
    """"Random walks": fused ids [walks, length + 1], and -1 behind the end."""
    rows = []
    for w in range(count):
        steps = oracle.stream(oracle.stage_key(K, 0, 3, w), roots)
        goes = oracle.stream(oracle.stage_key(K, 0, 10, w), roots)
        at, alive, path = roots.copy(), np.ones(len(roots), bool), [roots]
        for i in range(length):
            first, n = indptr[at], indptr[at + 1] - indptr[at]
            u = variate(oracle.draw(goes, i))
            jump = (u >= stop) & (u < stop + restart)
            if restart:
                jump |= (u >= stop) & (n == 0) & (at != roots)
            alive &= (u >= stop) & (jump | (n > 0))
            pick = first + oracle.bounded(oracle.draw(steps, i), np.maximum(n, 1))
            to = indices[np.minimum(pick, len(indices) - 1)].astype(np.int64)
            at = np.where(alive, np.where(jump, roots, to), at)
            path.append(np.where(alive, at, -1))
        rows.append(np.stack(path, axis=1))
    return np.stack(rows, axis=1).reshape(len(roots) * count, length + 1)


def walk_batches(g, indptr, batch_size, batches, seed, length, count, restart, stop):
    n = len(indptr) - 1
    order = oracle.stream(oracle.stage_key(oracle.batch_key(seed, 0, 0), 0, 1, 0), 0)
    for b in range(batches):
        seeds = oracle.permutation(order, n, np.arange(b * batch_size, min((b + 1) * batch_size, n)))
        rows = walks(indptr, g.indices, oracle.batch_key(seed, 0, b), seeds, length, count, restart, stop)
        nodes, seed_local, local = lists(seeds, rows)
        (name, _), edge = g.node_types[0], ":".join(g.edge_types[0])
        yield oracle.digest({
            "num_nodes": np.array([[len(seeds)], [len(nodes)]]), f"nodes/{name}": nodes, f"seeds/{name}": seed_local,
            f"block/0/{edge}/indptr": np.zeros(len(seeds) + 1, np.int64),
            f"block/0/{edge}/indices": np.zeros(0, np.int64),
            "sample/walk": local.astype(np.int32),
        })


@pytest.mark.parametrize("length, count, restart, stop", [(12, 2, 0.0, 0.0), (8, 1, 0.15, 0.05)])
@pytest.mark.parametrize("name", ["sbm", "rmat", "cnr-2000"])
def test_walks_are_those_of_the_document(name, length, count, restart, stop, khop, dataset):
    path = dataset(name)
    g, _ = oracle.load(path)
    indptr = np.concatenate((g.runs[0][0], [len(g.indices)]))
    want = list(walk_batches(g, indptr, 500, 4, 9, length, count, restart, stop))
    options = ["--seeds", "all", "--shuffle", "--batch-size", 500, "--batches", 4, "--seed", 9, "--digest"]
    flags = ["--length", length, "--walks", count, "--restart", restart, "--stop", stop]
    got = run(khop, "sample", path, "--sampler", "walk", *options, *flags)
    assert [line.split()[1] for line in got.splitlines()] == want


@pytest.mark.parametrize("name", ["sbm", "cnr-2000"])
def test_drawn_subgraphs_are_those_of_the_document(name, khop, dataset):
    path = dataset(name)
    g, _ = oracle.load(path)
    indptr = np.concatenate((g.runs[0][0], [len(g.indices)]))
    want, n = [], len(indptr) - 1
    for b in range(2):  # "GraphSAINT", edge
        s = oracle.stream(oracle.stage_key(oracle.batch_key(4, 0, b), 0, 12, 0), np.arange(300))
        v = oracle.bounded(oracle.draw(s, 0), n)
        degree = indptr[v + 1] - indptr[v]
        drawn = oracle.bounded(oracle.draw(s, 1), np.maximum(degree, 1))
        source = g.indices[np.minimum(indptr[v] + drawn, len(g.indices) - 1)]
        pairs = np.stack((v, source.astype(np.int64)), axis=1)[degree > 0]
        nodes, _, _ = lists(np.zeros(0, np.int64), pairs)
        where = np.full(n, -1)
        where[nodes] = np.arange(len(nodes))
        columns = [where[g.indices[indptr[u] : indptr[u + 1]]] for u in nodes]
        columns = [c[c >= 0] for c in columns]
        (kind, _), edge = g.node_types[0], ":".join(g.edge_types[0])
        want.append(oracle.digest({
            "num_nodes": np.array([[len(nodes)], [len(nodes)]]), f"nodes/{kind}": nodes,
            f"seeds/{kind}": np.zeros(0, np.int64),
            f"block/0/{edge}/indptr": np.concatenate(([0], np.cumsum([len(c) for c in columns]))).astype(np.int64),
            f"block/0/{edge}/indices": np.concatenate(columns).astype(np.int64),
        }))
    got = run(khop, "sample", path, "--sampler", "saint-edge", "--budget", 300, "--coverage", 0, "--steps", 2, "--seed",
              4, "--digest")
    assert [line.split()[1] for line in got.splitlines()] == want
