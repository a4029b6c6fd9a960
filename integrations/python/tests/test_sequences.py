"""khop.Batch.sequences: rows of tokens, against what NumPy makes of the same small graphs."""
import contextlib
import pickle

import numpy as np
import pytest

import khop
from khop._native import library as _library

NODES, EDGES, LENGTH = 40, 500, 6
INSIDE = pytest.param("inside", marks=pytest.mark.skipif(bool(_library.why_not()), reason="no shared library"))
ASKED = pytest.param("asked", marks=pytest.mark.skipif(bool(_library.why_not()), reason="no shared library"))
FRAMEWORKS = ["numpy", "torch", "jax"]


@pytest.fixture(scope="module")
def events(program, tmp_path_factory):
    """A path, and edges [source, target, time] of all of which the times differ."""
    rng, path = np.random.default_rng(20261201), tmp_path_factory.mktemp("events") / "events.khop"
    edges = np.stack([*rng.integers(0, NODES, (2, EDGES)), rng.permutation(EDGES)])
    khop.write(path, {"edge_index": edges[:2], "edge_time": edges[2], "num_nodes": NODES,
                      "x": np.arange(NODES * 3, dtype=np.float32).reshape(NODES, 3) + 1})
    return path, edges


@pytest.fixture(scope="module")
def shop(program, tmp_path_factory):
    """Users that buy items, and items that users bought: a path, and the pairs."""
    rng, path = np.random.default_rng(20261202), tmp_path_factory.mktemp("shop") / "shop.khop"
    pairs = np.stack([rng.integers(0, 20, 150), rng.integers(0, 9, 150), rng.permutation(150)])
    khop.write(path, {
        "user": {"num_nodes": 20, "x": rng.random((20, 2)).astype(np.float32)},
        "item": {"num_nodes": 9, "x": rng.random((9, 2)).astype(np.float32)},
        ("user", "buys", "item"): {"edge_index": pairs[:2], "time": pairs[2]},
        ("item", "bought_by", "user"): {"edge_index": pairs[[1, 0]], "time": pairs[2]}})
    return path, pairs


def latest(edges, seed, time, first=False):
    """ids and ages of the row of a seed: the latest events up to a time, the last one first."""
    source, _, when = edges[:, (edges[1] == seed) & (edges[2] <= time)]
    last = np.argsort(-when)
    ids, ages = source[last][:LENGTH - first], time - when[last][:LENGTH - first]
    ids, ages = (np.concatenate(([seed], ids)), np.concatenate(([0], ages))) if first else (ids, ages)
    none = LENGTH - len(ids)
    return np.pad(ids, (0, none), constant_values=-1), np.pad(ages, (0, none))


@contextlib.contextmanager
def batches(path, way, seeds, times, **options):
    """Batches of a loader with a process or in this one, or answers of a server or of this process to requests."""
    options = dict(fanouts=[-1], sampler="temporal", batch_size=25, seed=3, sequence=LENGTH, **options)
    if way in ("asked", "on-request"):
        with khop.Sampler(path, **options) if way == "asked" else khop.Loader(path, seeds=way, **options) as sampler:
            ends = range(0, len(seeds), 25)
            yield (sampler.sample(seeds[i:i + 25], times[i:i + 25], number=i // 25) for i in ends)
        return
    with khop.Loader(path, process=way, seeds=seeds, input_time=times, **options) as loader:
        yield loader


def framework_or_skip(name):
    return name if name == "numpy" else pytest.importorskip(name, reason=f"{name} is not installed") and name


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("way", ["server", "on-request", INSIDE, ASKED])
@pytest.mark.parametrize("first", [False, True])
def test_rows_are_the_latest_events(events, way, framework, first):
    path, edges = events
    rng = np.random.default_rng(5)
    seeds, times, at = rng.integers(0, NODES, 60), rng.integers(0, EDGES, 60), 0
    with batches(path, way, seeds, times, framework=framework_or_skip(framework), seed_first=first) as loader:
        for batch in loader:
            s, x = batch.sequences, np.asarray(batch.x)
            n = len(s)
            want = [latest(edges, *k, first) for k in zip(seeds[at:at + n], times[at:at + n])]
            ids, ages = (np.stack(column) for column in zip(*want))
            np.testing.assert_array_equal(np.asarray(s.ids), ids)
            np.testing.assert_array_equal(np.asarray(s.mask), ids >= 0)
            np.testing.assert_array_equal(np.asarray(s.age), ages)
            index = np.asarray(s.index)
            np.testing.assert_array_equal(np.where(ids < 0, -1, np.asarray(batch.n_id)[index]), ids)
            np.testing.assert_array_equal(np.asarray(s.edge) >= 0, (ids >= 0) & ~(first & (np.arange(LENGTH) == 0)))
            np.testing.assert_array_equal(np.asarray(s.rows(batch.x)),
                                          np.where(ids[..., None] < 0, 0, ids[..., None] * 3 + np.arange(1, 4)))
            np.testing.assert_array_equal(np.asarray(s.rows(batch.x[:, 0])), np.where(ids < 0, 0, ids * 3 + 1))
            assert s.hop is None and s.edge_type is None and s.node_type is None and s.weight is None
            assert f"{n} x {LENGTH} tokens" in repr(s) and len(x) == batch.num_nodes
            at += n
    assert at == 60


def test_edges_lead_to_their_tokens(events):
    path, edges = events
    with batches(path, "server", np.arange(NODES), np.full(NODES, EDGES)) as loader:
        place = {}  # of an edge in the dataset: its source and time
        for batch in loader:
            s = batch.sequences
            for at, source, age in zip(*(np.asarray(a)[np.asarray(s.mask)] for a in (s.edge, s.ids, s.age))):
                place[int(at)] = (int(source), EDGES - int(age))
    assert set(place.values()) <= set(zip(edges[0].tolist(), edges[2].tolist()))
    assert len(set(place.values())) == len(place)


def test_gradients_flow_back_to_the_rows_of_tokens(events):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    path, _ = events
    with batches(path, "server", np.arange(25), np.full(25, EDGES // 8)) as loader:
        (batch,) = loader
        s, x = batch.sequences, batch.x.clone().requires_grad_()
        scale = torch.arange(s.ids.numel(), dtype=torch.float32).view(*s.ids.shape, 1)
        assert 0 < int((~s.mask).sum()) < s.mask.numel()
        (s.rows(2 * x) * scale).sum().backward()
        want = np.zeros(len(x), np.float32)
        np.add.at(want, s.index[s.mask].numpy(), 2 * scale[..., 0][s.mask].numpy())
        np.testing.assert_array_equal(x.grad.numpy(), np.repeat(want[:, None], 3, 1))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_tokens_of_several_types_have_the_rows_of_theirs(shop, framework):
    path, pairs = shop
    with khop.Loader(path, [-1, -1], sequence=30, seed_first=True, framework=framework_or_skip(framework),
                     seeds={"user": np.arange(20), "item": np.arange(9)}, batch_size=100) as loader:
        (batch,) = loader
        s, types = batch.sequences, list(batch.node_types)
        ids, kind, hop = (np.asarray(a) for a in (s.ids, s.node_type, s.hop))
        seeds = [(t, i) for t in range(2) for i in range({"user": 20, "item": 9}[types[t]])]
        for row, (t, seed) in enumerate(seeds):
            tokens = list(zip(kind[row], ids[row], hop[row]))
            near = {types.index("user"): pairs[1][pairs[0] == seed], types.index("item"): pairs[0][pairs[1] == seed]}[t]
            far = {types.index("user"): pairs[0][np.isin(pairs[1], near)],
                   types.index("item"): pairs[1][np.isin(pairs[0], near)]}[t]
            assert tokens[0] == (t, seed, 0)
            reached = {(1 - t, v, 1) for v in near.tolist()} | {(t, v, 2) for v in far.tolist() if v != seed}
            found = [(int(a), int(b), int(c)) for a, b, c in tokens[1:] if a >= 0]
            assert len(set(found)) == len(found) == min(29, len(reached)) and set(found) <= reached
            assert [h for _, _, h in found] == sorted(h for _, _, h in found)
        for t, name in enumerate(types):
            table = np.asarray(batch[name].x)
            rows = np.asarray(s.rows(batch[name].x, name))
            of = kind == t
            np.testing.assert_array_equal(rows[of], table[np.asarray(s.index)[of]])
            np.testing.assert_array_equal(np.asarray(batch[name].n_id)[np.asarray(s.index)[of]], ids[of])
            assert not rows[~of].any()
            bought = np.asarray(s.edge_type)[:, 1:][of[:, 1:]]
            assert {batch.edge_types[e][0] for e in bought.tolist()} == {name}
        with pytest.raises(ValueError, match=rf"which node type\? There are {', '.join(types)}"):
            s.rows(batch["user"].x)
        with pytest.raises(ValueError, match="which node type"):
            s.rows(batch["user"].x, "usr")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_types_without_nodes_have_rows_of_zeros(shop, framework):
    path, _ = shop
    with khop.Loader(path, [4], sampler="temporal", as_of=-1, sequence=3, seeds=("user", np.arange(5)),
                     framework=framework_or_skip(framework)) as loader:
        (batch,) = loader
        s = batch.sequences
        assert len(batch["item"].n_id) == 0 and not np.asarray(s.mask).any() and (np.asarray(s.ids) == -1).all()
        for name in "item", "user":
            rows = np.asarray(s.rows(batch[name].x, name))
            assert rows.shape == (5, 3, 2) and rows.dtype == np.float32 and not rows.any()


def test_seeds_that_are_edges_have_rows_of_sources_then_of_targets(events):
    path, edges = events
    options = dict(sampler="temporal", sequence=LENGTH, negatives="uniform", batch_size=30, framework="numpy")
    with khop.Loader(path, [-1], edge_label_index=edges[:2, :90], edge_label_time=edges[2, :90], **options) as loader:
        for batch in loader:
            s, ends = batch.sequences, batch.n_id[batch.edge_label_index]
            assert len(s) == ends.size == 120 and not batch.edge_label[30:].any()
            for row, (seed, time) in enumerate(zip(ends.ravel(), np.tile(batch.edge_label_time, 2))):
                ids, ages = latest(edges, seed, time)
                assert s.ids[row].tolist() == ids.tolist() and s.age[row].tolist() == ages.tolist()


@pytest.mark.parametrize("sampler", ["ppr", "pinsage"])
def test_scores_are_weights(events, sampler):
    path, _ = events
    with khop.Loader(path, sampler=sampler, sequence=8, seeds="all", batch_size=NODES, times="ignore",
                     framework="numpy") as loader, khop.Loader(
            path, sampler=sampler, neighbors=8, seeds="all", batch_size=NODES, times="ignore",
            framework="numpy") as plain:
        (batch,), (blocks,) = loader, plain
        s, block = batch.sequences, blocks.blocks[0]
        count = np.diff(block.indptr)
        weight = blocks.array("sample/weight/0")
        np.testing.assert_array_equal(s.mask, np.arange(8) < count[:, None])
        np.testing.assert_array_equal(s.ids[s.mask], blocks.n_id[block.indices])
        np.testing.assert_array_equal(s.weight[s.mask], weight)
        assert not s.weight[~s.mask].any() and s.edge is None and s.age is None and s.hop is None


def same(a, b):
    for name in ("ids", "index", "mask", "age", "edge"):
        np.testing.assert_array_equal(np.asarray(getattr(a.sequences, name)), np.asarray(getattr(b.sequences, name)))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_copies_keep_sequences(events, framework):
    path, _ = events
    with batches(path, "server", np.arange(25), np.full(25, 300), framework=framework_or_skip(framework)) as loader:
        (batch,) = loader
        for other in batch.copy(), pickle.loads(pickle.dumps(batch)), batch.to("cpu"):
            same(batch, other)
        copy = batch.copy()
        rows = np.array(np.asarray(batch.sequences.rows(batch.x)))
        batch.release()
        np.testing.assert_array_equal(np.asarray(copy.sequences.rows(copy.x)), rows)


@pytest.mark.parametrize("seeds", [{"user": [3, 4, 3], "item": [5, 5]}, {"item": [1]}, {"user": list(range(20))}])
def test_padded_batches_have_rows_of_padding_seeds(shop, seeds):
    path, _ = shop
    with khop.Loader(path, [4], sequence=5, seed_first=True, seeds={t: np.array(i) for t, i in seeds.items()},
                     batch_size=100, framework="numpy", sampler="temporal", as_of=100) as loader:
        (batch,) = loader
        real, padded, at, to = batch.sequences, batch.pad(), 0, 0
        for name in batch.node_types:
            n, more = len(batch[name].seeds), len(padded[name].seeds)
            for array in ("ids", "index", "node_type", "age", "edge"):
                rows = getattr(padded.sequences, array)
                np.testing.assert_array_equal(rows[to:to + n], getattr(real, array)[at:at + n])
                assert (rows[to + n:to + more] == (0 if array == "age" else -1)).all()
            at, to = at + n, to + more
        assert at == len(real) and to == len(padded.sequences)
        np.testing.assert_array_equal(padded.sequences.rows(padded["user"].x, "user")[padded.sequences.mask],
                                      real.rows(batch["user"].x, "user")[real.mask])


def test_what_has_no_sequences_says_so(events):
    path, _ = events
    with khop.Loader(path, [3], times="ignore", batch_size=NODES) as loader:
        with pytest.raises(AttributeError, match="give the loader sequence=LENGTH"):
            next(iter(loader)).sequences
    with pytest.raises(khop.OptionError, match="sequences of 0 tokens: they must be 1 to 65536"):
        khop.Loader(path, [3], seed_first=True)
    with pytest.raises(khop.OptionError, match="sequence is not for .*walk.* but for"):
        khop.Loader(path, sampler="walk", length=4, sequence=3)
    with pytest.raises(khop.OptionError, match="or with the frontier all: .* take the frontier new"):
        khop.Loader(path, [3], sequence=3, frontier="all")
    with pytest.raises(khop.OptionError, match="sequences of 2 hops of pinsage"):
        khop.Loader(path, sampler="pinsage", hops=2, sequence=3)
