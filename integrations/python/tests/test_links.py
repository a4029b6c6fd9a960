"""Seeds that are edges: labels, times, negatives, exclusion."""
import numpy as np
import pytest

import khop
from conftest import run
from khop._config.configuration import Configuration, LoaderOptions, SamplerOptions

OPTIONS = [
    ("sbm", dict(seeds="all-edges", negatives="uniform", strict=True),
     ["--seeds=all-edges", "--negatives=uniform", "--strict"]),
    ("sbm", dict(seeds="all-edges", negatives="degree", negative_ratio=0.5, corrupt="both", exclude_seeds="reverse"),
     ["--seeds=all-edges", "--negatives=degree", "--negative-ratio=0.5", "--corrupt=both", "--exclude-seeds=reverse"]),
    ("sbm", dict(seeds="all-edges", negatives="degree", negative_alpha=0.3, negative_type="label"),
     ["--seeds=all-edges", "--negatives=degree", "--negative-alpha=0.3", "--negative-type=label"]),
    ("typed", dict(seeds="all-edges:cites,writes", negatives="batch", negative_ratio=2, triplets=True, disjoint=True),
     ["--seeds=all-edges:cites,writes", "--negatives=batch", "--negative-ratio=2", "--triplets", "--disjoint"]),
]


@pytest.mark.parametrize("name, options, flags", [pytest.param(*c, id=" ".join([c[0], *c[2]])) for c in OPTIONS])
def test_batches_are_those_of_khop_sample(name, options, flags, dataset, sample):
    pytest.importorskip("xxhash")
    with khop.Loader(dataset(name), fanouts=[2, 1], batch_size=8000, seed=5, shuffle=True, **options) as loader:
        want = sample(dataset(name), "--batch-size=8000", "--fanouts=2,1", "--seed=5", "--shuffle", *flags)
        assert [(b.number, *b.digests()) for b in loader] == want and len(want) > 2


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_pairs_come_back_with_labels_and_times(index_dtype, dataset):
    rng = np.random.default_rng(3)
    pairs, label, time = rng.integers(0, 3000, (2, 250)), rng.integers(1, 4, 250), rng.integers(0, 99, 250)
    options = dict(fanouts=[3], batch_size=100, index_dtype=index_dtype, edge_label_index=pairs, edge_label=label,
                   edge_label_time=time, edge_label_start_time=time - 9, times="ignore")
    with khop.Loader(dataset("sbm"), negatives="uniform", negative_ratio=3, corrupt="source", **options) as loader:
        for b in loader:
            item = np.asarray(b.input_id)
            ends = np.asarray(b.n_id)[np.asarray(b.edge_label_index)]
            n = len(item)
            assert np.array_equal(item, np.arange(100 * b.number, 100 * b.number + n))
            assert np.array_equal(ends[:, :n], pairs[:, item]) and np.array_equal(b.edge_label[:n], label[item])
            assert np.array_equal(b.edge_label_time[:n],
                                  time[item]) and str(b.edge_label_index.dtype).endswith(index_dtype)
            assert np.array_equal(b.edge_label_start_time, np.asarray(b.edge_label_time) - 9)
            group = np.asarray(b.edge_label_group)
            assert np.array_equal(group[n:], np.repeat(np.arange(n), 3)) and not np.asarray(b.edge_label)[n:].any()
            assert np.array_equal(ends[1, n:], pairs[1, item][group[n:]])
            assert np.array_equal(np.asarray(b.n_id)[b.src_neg_index].ravel(), ends[0, n:])
            assert np.array_equal(np.asarray(b.n_id)[b.src_index], pairs[0, item])
            assert np.array_equal(np.asarray(b.n_id)[b.dst_pos_index], pairs[1, item])


def test_edges_of_several_types(dataset):
    edges = {"cites": [[0, 1, 2], [3, 4, 5]], ("author", "writes", "paper"): [[7, 7], [0, 1]]}
    with khop.Loader(dataset("typed"), fanouts=[2], batch_size=5, edge_label_index=edges,
                     negatives="uniform") as loader:
        (b,) = loader
        for edge_type in ("paper", "cites", "paper"), ("author", "writes", "paper"):
            view = b[edge_type]
            want = np.asarray(edges[edge_type if edge_type in edges else edge_type[1]])
            n = want.shape[1]
            assert view.num_links == (n, n, 0)
            ends = view.edge_label_index
            assert np.array_equal(np.asarray(b[edge_type[0]].n_id)[ends[0]], np.tile(want[0], 2))
            assert np.array_equal(np.asarray(b[edge_type[2]].n_id)[ends[1][:n]], want[1])
        with pytest.raises(AttributeError, match="several types"):
            b.edge_label_index
        with pytest.raises(AttributeError, match="edges of another type"):
            b["paper", "rev_writes", "author"].edge_label
        assert np.array_equal(b["paper", "cites", "paper"].input_id, [0, 1, 2])


def test_triplets_are_rows(dataset):
    with khop.Loader(dataset("sbm"), fanouts=[2], batch_size=64, seeds="all-edges", negatives="uniform",
                     negative_ratio=4, triplets=True) as loader:
        b = next(iter(loader))
        assert b.dst_neg_index.shape == (64, 4) and b.src_index.shape == b.dst_pos_index.shape == (64,)
        with pytest.raises(ValueError, match="not padded"):
            b.pad()
        assert loader.statistics()["loader"]["negatives"] >= 256


def test_torch_geometric_gets_labels(dataset):
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    pytest.importorskip("torch")
    with khop.Loader(dataset("sbm"), fanouts=[2], batch_size=64, seeds="all-edges", negatives="uniform",
                     framework="torch") as loader:
        data = next(iter(loader)).to_pyg()
        assert data.edge_label_index.shape == (2, 128) and data.edge_label.sum() == 64 and len(data.input_id) == 64


@pytest.mark.parametrize("options, error", [
    (dict(edge_label_index=[[0, 1]]), "must be whole numbers"),
    (dict(edge_label_index=[[0], [1]], edge_label=[1, 2]), "edge_label: int64 of shape"),
    (dict(edge_label_index=[[0], [1]], edge_label_time=[0.5]), "edge_label_time: float64"),
    (dict(edge_label_index=[[0], [1]], edge_label_negatives=[3]), "edge_label_negatives: int64 of shape"),
    (dict(edge_label_index=[[0], [1]], edge_label_negatives=[[3000]]), r"edge_label_negatives\[0\].*node 3000"),
    (dict(edge_label_index=[[0], [1]], edge_label_negatives=[[3]], negatives="uniform"), "negatives of their own"),
    (dict(seeds="all-edges", negatives="historical", negative_history="none"), "negatives"),
    (dict(edge_label_index=[[0], [1]], input_time=[3]), "edge_label_index are edge_label_time"),
    (dict(edge_label_index=[[0], [1]], input_start_time=[3]), "edge_label_index are edge_label_start_time"),
    (dict(edge_label_negatives=[[1]]), "belong to edge_label_index"),
    (dict(edge_label=[1]), "belong to edge_label_index"),
    (dict(edge_label_index=[[0], [1]], seeds="all"), "nodes or edges"),
    (dict(edge_label_index=[[0], [3000]]), "node 3000 is not in"),
    (dict(edge_label_index=("cites", [[0], [1]])), "no edge type"),
    (dict(seeds="all-edges", negatives="uniform", negative_ratio=-1), "ratio -1"),
    (dict(seeds="all-edges", strict=True), "is for negatives"),
    (dict(seeds="all-edges", negative="uniform"), "did you mean 'negatives'"),
])
def test_what_makes_no_sense_is_refused(options, error, dataset):
    with pytest.raises((TypeError, ValueError), match=error):
        khop.Loader(dataset("sbm"), **options)


def test_every_flag_of_links_has_a_name_in_python(program):
    flags = run(program, "serve", "--help")
    for name in set(LoaderOptions.__annotations__) - set(SamplerOptions.__annotations__):
        assert "--" + name.replace("_", "-") in flags


@pytest.mark.parametrize("labels", [{"cites": [1, 0], "wirtes": [1]}, {"writes": [1, 0]}, [1, 0]])
def test_labels_of_other_edge_types_are_refused(labels):
    """Labels under a key that no edges have are an error: they would do nothing."""
    with pytest.raises(ValueError, match="edge_label: .*keys of edge_label_index"):
        Configuration({}).edges({"cites": [[1, 2], [3, 4]]}, edge_label=labels)


def test_pairs_come_with_their_negatives(dataset):
    rng = np.random.default_rng(4)
    pairs, time = rng.integers(0, 3000, (2, 250)), rng.integers(0, 99, 250)
    lists = np.maximum(rng.integers(-900, 3000, (250, 6)), -1)
    for process in ("server", "inside"):
        with khop.Loader(dataset("sbm"), [3], edge_label_index=pairs, edge_label_time=time, edge_label_negatives=lists,
                         times="ignore", batch_size=100, shuffle=True, process=process) as loader:
            for b in loader:
                item, group = np.asarray(b.input_id), np.asarray(b.edge_label_group)
                n = len(item)
                there = lists[item] >= 0
                assert b[b.edge_types[0]].num_links == (n, there.sum(), (~there).sum())
                ends = np.asarray(b.n_id)[np.asarray(b.edge_label_index)]
                assert np.array_equal(ends[:, :n], pairs[:, item])
                assert np.array_equal(ends[1, n:], lists[item][there])
                assert np.array_equal(group[n:], np.repeat(np.arange(n), there.sum(1)))
                assert np.array_equal(ends[0, n:], pairs[0, item][group[n:]])
                assert np.array_equal(b.edge_label_time, time[item][group])
                assert np.array_equal(b.edge_label, np.arange(len(group)) < n)
    whole = np.abs(lists)
    with khop.Loader(dataset("sbm"), [3], edge_label_index=pairs, edge_label_negatives=whole, batch_size=100) as loader:
        for b in loader:
            assert np.array_equal(np.asarray(b.n_id)[b.dst_neg_index], whole[np.asarray(b.input_id)])
