"""The independent program against the known answers of docs/sampling.md."""
import json
import pathlib

import numpy as np
import pytest

import oracle

VECTORS = json.loads((pathlib.Path(__file__).parents[1] / "internal/rng/testdata/vectors.json").read_text())


def number(x):
    return int(x, 16)


@pytest.mark.parametrize("v", VECTORS["philox4x32_10"])
def test_philox(v):
    assert oracle.philox(map(number, v["counter"]), map(number, v["key"])) == tuple(map(number, v["out"]))


@pytest.mark.parametrize("v", VECTORS["batch_key"])
def test_batch_key(v):
    assert oracle.batch_key(number(v["seed"]), v["epoch"], number(v["batch"]), v["instance"]) == number(v["K"])


@pytest.mark.parametrize("v", VECTORS["type_key"])
def test_type_key(v):
    assert oracle.type_key(*v["types"]) == number(v["T"])


@pytest.mark.parametrize("v", VECTORS["stage_key"])
def test_stage_key(v):
    assert oracle.stage_key(number(v["K"]), number(v["T"]), v["purpose"], v["hop"]) == number(v["a"])


@pytest.mark.parametrize("v", VECTORS["draws"])
def test_draws(v):
    s = oracle.stream(number(v["a"]), number(v["index"]))
    assert s == number(v["s"])
    assert [int(oracle.draw(s, i)) for i in range(len(v["draws"]))] == [number(x) for x in v["draws"]]


@pytest.mark.parametrize("replace, v",
                         [(r, v) for r, name in ((False, "without_replacement"), (True, "with_replacement"))
                                        for v in VECTORS[name]])
def test_picks(replace, v):
    s = oracle.stream(number(v["a"]), [number(v["index"])])
    t, there = oracle.picks(s, np.array([v["n"]]), v["k"], replace)
    assert t[there].tolist() == v["picks"]


@pytest.mark.parametrize("v", VECTORS["shuffle"])
def test_shuffle(v):
    K = oracle.batch_key(number(v["seed"]), v["epoch"], 0, v["instance"])
    s = oracle.stream(oracle.stage_key(K, number(v["T"]), 1, 0), number(v["list"]))
    assert oracle.permutation(s, v["n"], v["positions"]).tolist() == v["items"]
    if "check" in v:
        i = np.arange(v["n"])
        p = oracle.permutation(s, v["n"], i)
        assert oracle.mix64(p.astype(np.uint64) + i.astype(np.uint64) * oracle.G).sum() == number(v["check"])


@pytest.mark.parametrize("v", VECTORS["batches"])
def test_batches(v):
    g = oracle.Graph(VECTORS["graph"]["indptr"], np.array(VECTORS["graph"]["indices"]))
    K = oracle.batch_key(number(v["seed"]), v["epoch"], number(v["batch"]), v["instance"])
    got = oracle.sample(g, [np.array(v["seeds"])], [v["fanouts"]], v["replace"], False, K, [number(v["T"])])
    assert got["nodes/node"].tolist() == v["nodes"]
    assert got["seeds/node"].tolist() == v["seed_local"]
    assert got["num_nodes"][1:, 0].tolist() == [b["num_src"] for b in v["blocks"]]
    for hop, block in enumerate(v["blocks"]):
        name = f"block/{len(v['blocks']) - 1 - hop}/node:edge:node/"
        assert len(got[name + "indptr"]) == block["num_dst"] + 1
        for ours, theirs in (("indptr", "indptr"), ("indices", "src"), ("edge_pos", "edge_pos")):
            assert got[name + ours].tolist() == block[theirs]
