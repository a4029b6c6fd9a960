"""No answer in a batch: drawn graphs, splits of links and ways to load them, and no batch follows a link that it is to
predict, or that a later split is to, in either direction.

The splits that "khop split --links" writes are held against the edges as they were given. KHOP_DRAWS says how many
cases are drawn, and KHOP_DRAW_SEED from what.
"""
import os
import random
import warnings

import numpy as np
import pytest

import khop
from conftest import run
from khop._native import library as _library

DRAWS = int(os.environ.get("KHOP_DRAWS", "40"))
SEED = int(os.environ.get("KHOP_DRAW_SEED", "20261129"))
CASES = 10  # of each graph
SPLITS = "train", "val", "test"
BUYS = "user", "buys", "item"
DOORS = ["server"] if _library.why_not() else ["inside", "server"]


def both_ways(draw, edges):
    """The edges, some or all of them reversed as well, in any order."""
    share = draw.choice([0, .5, 1])
    edges = edges + [(v, u) for u, v in edges if draw.random() < share]
    draw.shuffle(edges)
    return edges


def write_graph(path, draw):
    """A graph of one type, or of buyers and what they bought with the way back. Returns what to give "khop split", the
    name of the way back ("" for one type), and whether the split is not to know that it reverses some links."""
    n, m = draw.randint(4, 40), draw.randint(10, 200)
    edges = [(draw.randrange(n), draw.randrange(n)) for _ in range(m)]
    if draw.random() < .5:
        edges = both_ways(draw, edges)
        khop.write(path, {"edge_index": np.array(edges).T, "num_nodes": n}, symmetrise=draw.random() < .3)
        return [], "", False
    back = [(v, u) for u, v in edges]
    draw.shuffle(back)
    part = draw.random() < .5
    if part:
        back = back[:draw.randint(1, m - 1)]
    name = draw.choice(["rev_buys", "bought"])
    nodes = {"user": {"num_nodes": n}, "item": {"num_nodes": n}}
    khop.write(path, {**nodes, BUYS: {"edge_index": np.array(edges).T},
                      ("item", name, "user"): {"edge_index": np.array(back).T}})
    named = ["--reverse", name] if draw.random() < .5 else []
    return ["--type", "buys", *named], name, part and not named


def split(program, path, draw, arguments):
    """Splits links, and returns the notes."""
    if draw.random() < .3:
        arguments = [*arguments, "--disjoint", "0.4"]
    done = khop._native.program.call(["split", path, "--links", "--val", str(draw.choice([.1, .3])), "--test", "0.2",
                              "--seed", str(draw.randrange(99)), *arguments], program)
    done.check()
    return done.notes()


def pair(kind, u, v):
    """What a link is, whichever way it is stored: of one type the smaller id is first."""
    source, _, target = kind
    if source == target:
        return min(u, v), max(u, v)
    return (u, v) if (source, target) == (BUYS[0], BUYS[2]) else (v, u)


def ends(batch, kind, index):
    """Both ends of edges of a batch, as the graph knows them."""
    nodes = [batch.array(f"nodes/{of}") for of in (kind[0], kind[2])]
    return zip(nodes[0][index[0]].tolist(), nodes[1][index[1]].tolist())


def links_of(path, split):
    """The links of a split."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", khop.KhopWarning)  # of edges that are links: these batches have no edges
        with khop.Loader(path, seeds=split, fanouts=[0], framework="numpy", process=DOORS[0], batch_size=99) as loader:
            return [pair(kind, u, v) for batch in loader for kind, u, v in seeds_of(batch)]


def seeds_of(batch):
    """The links that a batch is to predict."""
    for kind in batch.edge_types:
        if batch[kind].num_links[0]:
            for u, v in ends(batch, kind, np.asarray(batch[kind].edge_label_index)):
                yield kind, u, v


def edges_of(batch):
    """The edges that a batch follows."""
    for name in batch.names():
        if name.startswith("block/") and name.endswith("/indices"):
            _, _, of, _ = name.split("/")
            kind = next(kind for kind in batch.edge_types if ":".join(kind) == of)
            indptr = batch.array(name.replace("indices", "indptr"))
            targets = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
            for u, v in ends(batch, kind, (batch.array(name), targets)):
                yield kind, u, v


def draw_options(draw, plain):
    o = dict(fanouts=[draw.choice([-1, 1, 3, 9]) for _ in range(draw.randint(1, 3))], batch_size=draw.randint(1, 30),
             seed=draw.randrange(2**32), shuffle=draw.random() < .5, workers=draw.randint(1, 3))
    o.update(draw.choice([{}, {"replace": True}, {"induced": True}, {"disjoint": True}, {"frontier": "all"},
                          {"direction": draw.choice(["out", "both"])} if plain else {},
                          {"together": True}, {"share": .5}]))
    return o


def check(path, draw, links, back, unnamed):
    """Batches of a split, by some door."""
    split, options, door = draw.choice(SPLITS), draw_options(draw, not back), draw.choice(DOORS)
    if options.get("induced"):  # takes all edges between its nodes, and says so
        with pytest.warns(khop.KhopWarning, match=f"Induced.*{split}; links: {len(links[split])}"):
            khop.Loader(path, seeds=split, mask=f"{split}_graph", process=door, **options).close()
        return
    later = {link for name in SPLITS[SPLITS.index(split):] for link in links[name] if name != "train"}
    seen, leaves_out = [], split == "train" and not {"direction", "together"} & set(options)
    try:
        with warnings.catch_warnings(record=True) as heard:
            loader = khop.Loader(path, seeds=split, mask=f"{split}_graph", framework="numpy", process=door,
                                 exclude_seeds="reverse" if leaves_out else None, **options)
        unknown = leaves_out and back == "bought" and links["train"]  # that it holds the reverses
        assert [str(w.message) for w in heard] == [
            "edges that may reverse seeds are not left out: only those of the same relation with rev_ before it are; "
            "seeds: user:buys:item; stay: item:bought:user"][:bool(unknown)]
        with loader:
            for batch in loader:
                own = {pair(*link) for link in seeds_of(batch)}
                seen += [pair(*link) for link in seeds_of(batch)]
                edges = [(kind, pair(kind, u, v)) for kind, u, v in edges_of(batch)]
                leaks = {link for kind, link in edges if kind == BUYS or not unnamed} & later
                assert not leaks, ("links of val or test", leaks)
                leaks = {link for kind, link in edges if kind == BUYS or not unknown} & own
                assert not leaves_out or not leaks, ("links of the batch", leaks)
        assert sorted(seen) == sorted(links[split])
        if seen:
            with pytest.warns(khop.KhopWarning, match=f"{len(seen)}; mask: {split}_graph"):
                khop.Loader(path, seeds=split, framework="numpy", process=door, **options).close()
    except Exception as e:
        raise AssertionError(f"KHOP_DRAW_SEED={SEED}: {path}: {split} {door} {options}") from e


@pytest.mark.parametrize("part", range(2))
def test_no_batch_follows_its_answer(program, tmp_path, part):
    print(f"KHOP_DRAW_SEED={SEED}")
    for number in range(part, -(-DRAWS // CASES), 2):
        draw, path = random.Random(f"{SEED} {number}"), str(tmp_path / f"{number}.khop")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", khop.KhopWarning)  # of parallel edges and loops
            arguments, back, unnamed = write_graph(path, draw)
        notes = split(program, path, draw, arguments)
        if unnamed:
            assert any(f"reverse a link, and are followed: --reverse item:{back}:user" in note for note in notes), notes
        links = {name: links_of(path, name) for name in SPLITS}
        for a, b in ("train", "val"), ("train", "test"), ("val", "test"):
            assert not set(links[a]) & set(links[b]), (number, a, b)
        run(program, "check", path, "--deep")
        for _ in range(CASES):
            check(path, draw, links, back, unnamed)
