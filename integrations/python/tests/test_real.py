"""Real graphs, from the files that people have to batches: what batches say is true of the files, which NumPy reads
here."""
import gzip
import io
import itertools
import json
import os
import pathlib
import pickle
import tarfile

import numpy as np
import pytest

import khop
from conftest import run


@pytest.fixture
def convert(program, tmp_path):
    """Converts a real graph; returns where it lies, and the dataset."""
    def convert(name, *options):
        if not os.environ.get("KHOP_TESTDATA"):
            pytest.skip("KHOP_TESTDATA is not set: no real graphs")
        source = pathlib.Path(os.environ["KHOP_TESTDATA"]) / name
        run(program, "convert", source, tmp_path / "data.khop", *options)
        return source, tmp_path / "data.khop"
    return convert


def batches(dataset, count=None, **options):
    """The first batches, which are the same whether one worker makes them or three."""
    pytest.importorskip("xxhash")
    with khop.Loader(dataset, workers=1, **options) as one, khop.Loader(dataset, workers=3, **options) as three:
        for a, b in itertools.islice(zip(one, three), count):
            assert (a.number, *a.digests()) == (b.number, *b.digests())
            yield a


def edges(batch, edge_type="node:edge:node"):
    """Of each hop, the seeds' first: its number, the edges, sources and destinations as positions in the node list, and
    the destinations."""
    for hop, layer in enumerate(reversed(range(batch.schema.layers))):
        indptr = np.asarray(batch.array(f"block/{layer}/{edge_type}/indptr"))
        yield hop, layer, np.asarray(batch.array(f"block/{layer}/{edge_type}/indices")), np.repeat(
            np.arange(len(indptr) - 1), np.diff(indptr)), np.diff(indptr)


def names(dataset, column):
    """Names of a dataset (docs/format.md, "Strings")."""
    (c,) = [c for c in json.loads((dataset / "dataset.json").read_text())["content"]["columns"] if c["name"] == column
            and c["owner"] == "nodes/0"]
    (part,) = c["parts"]
    body = (dataset / part["path"]).read_bytes()[part["body_offset"]:]
    ends, n = np.frombuffer(body, np.int64, part["rows"] + 1), part["rows"]
    text = body[-(-ends.nbytes // 64) * 64:]
    return {text[ends[i]:ends[i + 1]].decode(): i for i in range(n)}


def triples(archive, part, dataset):
    """Triples of a knowledge graph: heads, names of relations, tails, as the dataset numbers entities."""
    number = names(dataset, "id")
    with tarfile.open(next(archive.glob("*.tar.gz"))) as files:
        lines = [line.split("\t") for line in files.extractfile(part).read().decode().splitlines()]
    return np.array([number[h] for h, _, _ in lines]), [r for _, r,
                                                        _ in lines], np.array([number[t] for _, _, t in lines])


def among(values, ascending):
    """Whether all values are in an ascending list."""
    return np.array_equal(ascending[np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)], values)


def fairly(counts, expected, variance):
    """Whether counts deviate from their expectation no more than by chance, in deviations of their sum of squares."""
    assert abs(((counts - expected) ** 2 / variance).sum() - (len(counts) - 1)) < 5 * np.sqrt(2 * (len(counts) - 1))


@pytest.mark.parametrize("options", [
    dict(time_rules=["before"]), dict(recent=True), dict(recent=True, time_rules=["before", "not-after"], chain=True),
    dict(half_life=86400.0), dict(window=7 * 86400, disjoint=True)], ids=str)
def test_a_message_sees_what_was_sent_before_it(options, convert):
    source, data = convert("CollegeMsg-temporal/CollegeMsg.txt", "--columns", "src,dst,time")
    src, dst, sent = np.loadtxt(source, np.int64).T
    begin, fanouts = sent.min(), [5, 3]
    received = np.sort(dst << 32 | sent - begin)  # by who received it, then by time
    messages, seen, cut = np.sort((src * 2000 + dst) << 25 | sent - begin), 0, 0
    for b in batches(data, 2, seeds="all-edges", link_time="time", sampler="temporal", fanouts=fanouts, frontier="all",
                     batch_size=700, shuffle=True,
                     edge_columns=["time"], **options):
        ids, as_of = np.asarray(b.n_id, np.int64), np.asarray(b.array("sample/time/node"))
        u, v = np.asarray(b.edge_label_index)
        assert among((ids[u] * 2000 + ids[v]) << 25 | np.asarray(b.edge_label_time) - begin, messages)
        assert np.array_equal(as_of[u], b.edge_label_time) and np.array_equal(as_of[v], b.edge_label_time)
        for hop, layer, u, v, taken in edges(b):
            when = np.asarray(b.array(f"edge/{layer}/node:edge:node/time"))
            assert among((ids[u] * 2000 + ids[v]) << 25 | when - begin, messages)
            rules = options.get("time_rules", ["not-after"])
            last = as_of - (rules[min(hop, len(rules) - 1)] == "before")
            assert (when <= last[v]).all() and (when >= as_of[v] - options.get("window", 1 << 40)).all()
            assert np.array_equal(as_of[u], when if options.get("chain") else as_of[v])
            nodes, earliest = ids[:len(taken)] << 32, np.maximum(
                as_of - options.get("window", 1 << 31), begin)[:len(taken)]
            first, end = np.searchsorted(received, nodes | earliest - begin), np.searchsorted(
                received, nodes + (last[:len(taken)] - begin), "right")
            end = np.maximum(first, end)  # nothing may be followed before the first message
            assert np.array_equal(taken, np.minimum(end - first, fanouts[hop]))
            seen, cut = seen + len(u), cut + (end - first > fanouts[hop]).sum()
            if options.get("recent"):
                at = np.repeat(end - np.concatenate(([0], np.cumsum(taken)))[1:], taken) + np.arange(len(u))
                assert np.array_equal(np.sort(ids[v] << 32 | when - begin), np.sort(received[at]))
    assert seen > 2000 and cut > 500


def test_relations_are_edge_types(convert):
    source, data = convert("FB15k-237", "--relations-as-types")
    train, valid = triples(source, "train.txt", data), triples(source, "valid.txt", data)
    relations, fanouts, met, drawn = {r: i for i, r in enumerate(sorted(set(train[1])))}, [2, 1], [], 0
    code = lambda h, r, t: (np.array([relations[x] for x in r]) * 20000 + h) * 20000 + t
    true, degree = np.sort(code(*train)), np.zeros((len(relations), 20000), np.int64)
    np.add.at(degree, ([relations[x] for x in train[1]], train[2]), 1)
    for b in batches(data, seeds="val", fanouts=fanouts, frontier="all", batch_size=9000, negatives="uniform",
                     corrupt="either", strict=True, shuffle=True):
        ids = np.asarray(b.n_id)
        for edge_type in b.schema.edge_types:
            r = edge_type[1]
            for hop, _, u, v, taken in edges(b, ":".join(edge_type)):
                assert among(code(ids[u], [r], ids[v]), true)
                assert np.array_equal(taken, np.minimum(degree[relations[r], ids[:len(taken)]], fanouts[hop]))
                drawn += len(u)
            view = b[edge_type]
            seeds, negatives, missed = view.num_links
            if seeds + negatives:
                ends, group, label = ids[np.asarray(view.edge_label_index)], np.asarray(
                    view.edge_label_group), np.asarray(view.edge_label)
                links = code(ends[0], [r], ends[1])
                met.append(links[:seeds])
                at = np.minimum(np.searchsorted(true, links[seeds:]), len(true) - 1)
                assert negatives + missed == seeds and not (true[at] == links[seeds:]).any()
                assert not label[seeds:].any()
                assert ((ends[:, seeds:] == ends[:, group[seeds:]]).sum(axis=0) == 1).all()  # one end was replaced
    assert np.array_equal(np.sort(np.concatenate(met)), np.sort(code(*valid))) and drawn > 100_000


def test_a_relation_to_learn_is_not_seen(convert):
    source, data = convert("WN18RR")
    heads, relation, tails = triples(source, "train.txt", data)
    number, pair = names(data, "relation"), lambda h, t: np.asarray(h, np.int64) * 50_000 + t
    labels = np.array([number[r] for r in relation])
    true, met, left_out, fanouts = np.sort(pair(heads, tails) * 11 + labels), [], 0, [4, 3]
    for b in batches(data, 3, seeds="all-edges", link_label="relation", exclude_seeds="reverse", fanouts=fanouts,
                     frontier="all", batch_size=2000,
                     shuffle=True, edge_columns=["relation"]):
        ids = np.asarray(b.n_id, np.int64)
        a, z = ids[np.asarray(b.edge_label_index)]
        met.append(pair(a, z) * 11 + np.asarray(b.edge_label))
        hidden = np.concatenate((pair(a, z), pair(z, a)))
        stays = ~np.isin(pair(heads, tails), hidden)
        degree, all_of = np.bincount(tails[stays], minlength=50_000), np.bincount(tails, minlength=50_000)
        for hop, layer, u, v, taken in edges(b):
            assert among(pair(ids[u], ids[v]) * 11 + np.asarray(b.array(f"edge/{layer}/node:edge:node/relation")), true)
            assert not np.isin(pair(ids[u], ids[v]), hidden).any()
            assert np.array_equal(taken, np.minimum(degree[ids[:len(taken)]], fanouts[hop]))
            left_out += (degree < all_of)[ids[:len(taken)]].sum()
    met = np.concatenate(met)
    assert len(met) == 6000 and np.isin(met, true).all() and left_out > 3000
    assert (np.unique(met, return_counts=True)[1] <= np.unique(
        true, return_counts=True)[1][np.searchsorted(np.unique(true), np.unique(met))]).all()


def test_walks_follow_links_and_hubs_are_drawn_fairly(convert):
    source, data = convert("cnr-2000-webgraph/cnr-2000.graph")
    arrays = np.load(source.parent / "derived/cnr-2000.csr.npz")
    indptr, targets = arrays["indptr"], arrays["indices"]
    n = len(indptr) - 1
    links = np.repeat(np.arange(n), np.diff(indptr)) * n + targets  # ascending
    degree, steps = np.bincount(targets, minlength=n), 0
    for b in batches(data, 2, seeds="all", sampler="walk", length=8, walks=2, batch_size=5000, shuffle=True):
        ids = np.asarray(b.n_id, np.int64)
        walk = np.asarray(b.array("sample/walk")).reshape(-1, 9)
        assert np.array_equal(ids[walk[:, 0]], np.repeat(ids[:5000], 2))
        at, to, goes = ids[walk[:, :-1]], ids[walk[:, 1:]], walk[:, 1:] >= 0
        found = links[np.minimum(np.searchsorted(links, (to * n + at)[goes]), len(links) - 1)]
        assert np.array_equal(found, (to * n + at)[goes])
        ends = ~goes & (np.pad(goes, ((0, 0), (1, 0)), constant_values=True)[:, :-1])
        assert (degree[at[ends]] == 0).all()  # a walk ends where no link leads to
        steps += goes.sum()
    assert steps > 20_000

    hub = degree.argmax()
    into, d = np.flatnonzero(np.isin(np.arange(n), links[links % n == hub] // n)), int(degree[hub])
    assert d == len(into) > 10_000
    first = [np.asarray(b.n_id)[np.asarray(b.array("sample/walk"))[..., -1].ravel()]
             for b in batches(data, seeds=[hub] * 200, batch_size=1, sampler="walk", length=1, walks=256)]
    assert np.isin(first, into).all() and np.size(first) == 200 * 256
    fairly(np.bincount(np.ravel(first), minlength=n)[into], 200 * 256 / d, 200 * 256 / d)
    (b,) = batches(data, seeds=[hub] * 500, fanouts=[300], disjoint=True)
    ids = np.asarray(b.n_id)
    for _, _, u, _, taken in edges(b):
        counts, p = np.bincount(ids[u], minlength=n), 300 / d
        assert (taken == 300).all() and counts.sum() == counts[into].sum()
        fairly(counts[into], 500 * p, 500 * p * (1 - p) * d / (d - 1))


class Arrays(pickle.Unpickler):
    """Reads the pickles of OGB, of NumPy's arrays alone."""

    def find_class(self, module, name):
        if (module, name) == ("_codecs", "encode") or module.startswith("numpy") and name in (
                "_reconstruct", "ndarray", "dtype", "scalar"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name}")


def test_given_negatives_are_seeds(convert):
    source, data = convert("ogbl-ddi")
    with open(source / "split/target/valid.pt", "rb") as file:
        given = [Arrays(file).load() for _ in range(4)][3]  # behind a number, a version and sizes of types
    positive, negative = (np.asarray(given[k], np.int64) for k in ("edge", "edge_neg"))
    with gzip.open(source / "raw/edge.csv.gz") as file:
        pairs = np.loadtxt(io.BytesIO(file.read()), np.int64, delimiter=",")
    pairs = np.concatenate((pairs, pairs[:, ::-1]))
    pair = lambda a, b: np.asarray(a, np.int64) * 5000 + b
    true, degree = np.sort(pair(*pairs.T)), np.bincount(pairs[:, 1], minlength=5000)
    links, labels, fanouts = [], [], [3, 2]
    for b in batches(data, seeds="val", fanouts=fanouts, frontier="all", batch_size=1 << 16):
        ids = np.asarray(b.n_id, np.int64)
        links.append(ids[np.asarray(b.edge_label_index)])
        labels.append(np.asarray(b.edge_label))
        for hop, _, u, v, taken in edges(b):
            assert among(pair(ids[u], ids[v]), true)
            assert np.array_equal(taken, np.minimum(degree[ids[:len(taken)]], fanouts[hop]))
    links, labels = np.concatenate(links, axis=1).T, np.concatenate(labels)
    assert np.array_equal(links[labels == 1], positive) and np.array_equal(links[labels == 0], negative)
    assert not np.isin(pair(*negative.T), true).any() and (labels == 0).sum() == 101_882
