"""Sequences of khop sample are those of the independent program, under random options (oracle_sequence.py)."""
import os

import numpy as np
import pytest

import oracle
from oracle_sequence import edges_of
from test_golden import by_type

WITHIN = {"shop": ("item", "like"), "typed": ("paper", "cites")}  # a node type, and one of edges within it
PATHS = {"shop": "bought,bought_by", "typed": "writes,rev_writes"}  # from it to itself
NODE_TIMES = {"shop": ["--node-time", "time"]}


def write_seeds(path, g, rng, kinds, links, times):
    """Writes nodes, or edges of which most are in the graph; kinds are their types. Returns the name of the source."""
    types, sources, targets = edges_of(g)
    lines = []
    for _ in range(rng.integers(1, 30)):
        kind, t = rng.choice(kinds), rng.integers(300)
        line = [kind] if len(g.edge_types if links else g.node_types) > 1 else []
        if links:
            e = [names[1] for names in g.edge_types].index(kind)
            ends = [rng.integers(g.node_types[g.source[e]][1]), rng.integers(g.node_types[g.target[e]][1])]
            if rng.integers(4):
                i = rng.choice(np.flatnonzero(types == e))
                ends = [sources[i] - g.offset[g.source[e]], targets[i] - g.offset[g.target[e]]]
            line += [*ends, rng.integers(3)]
        else:
            line.append(rng.integers(dict(g.node_types)[kind]))
        first = rng.choice([-2**63, 2**63 - 1, t + 1, t - 1, *(t - rng.integers(0, 200, 6))])
        lines.append([*line, *[[], [t], [t, first]][times]])
    path.write_text("".join(" ".join(map(str, line)) + "\n" for line in lines))
    return ("edges@" if links else ["@", "timed@", "window@"][times]) + str(path)


def options_of(name, g, rng, path):
    """Drawn options of a sampler of sequences and its seeds."""
    relations, tables = [names[1] for names in g.edge_types], name in ("events", "shop")
    node_type, edge_type = WITHIN.get(name, (g.node_types[0][0], relations[0]))
    some = lambda *options, one_in=2: list(options) if rng.integers(one_in) == 0 else []
    scores, links, timed = rng.integers(4) == 0, rng.integers(3) == 0, tables and rng.integers(3) > 0
    if scores:
        seeds = write_seeds(path, g, rng, [edge_type if links else node_type], links, 0)
    else:
        kinds = relations if links else [t for t, _ in g.node_types]
        seeds = write_seeds(path, g, rng, kinds, links, rng.integers(3) if timed else 0)
    options = ["--sequence", rng.integers(1, 41), *some("--seed-first"), "--batch-size", rng.integers(1, 30),
               "--seed", rng.integers(2**63), "--epoch", rng.integers(2**32), "--batches", 2, *some("--shuffle"),
               "--seeds", seeds]
    if links:
        options += some("--negatives", "uniform", "--negative-ratio", rng.choice([0.5, 1, 2.7]), *some("--strict"),
                        "--corrupt", rng.choice(["source", "target", "either", "both"]), "--negative-tries",
                        rng.integers(1, 5))
    if scores:
        options += ["--edge-type", edge_type] if len(relations) > 1 else []
        if rng.integers(2):
            return [*options, "--sampler", "ppr", "--alpha", rng.choice([0.1, 0.5, 0.85]), "--epsilon",
                    rng.choice([1e-3, 0.01, 0.3])]
        return [*options, "--sampler", "pinsage", "--walks", rng.integers(1, 14), "--length", rng.integers(1, 6),
                "--restart", rng.choice([0, 0.3]), "--stop", rng.choice([0, 0.2]),
                *some("--metapath", PATHS.get(name, edge_type))]
    together, replace, how = rng.random() < 0.2, rng.random() < 0.25, rng.choice(["", "weight", "recent", "age"])
    lists = lambda values: by_type("" if together else name, rng, lambda: ",".join(
        map(str, rng.choice(values, rng.integers(1, 4)))))
    options += ["--fanouts=" + lists([-1, 1, 2, 5, 8, 40] if tables else [0, 1, 2, 5, 8]),
                *(["--together"] if together else []), *(["--replace"] if replace else [])]
    if len(relations) == 1 and rng.integers(4) == 0:
        options += ["--direction", rng.choice(["out", "both"])]
    elif links and not together:
        options += ["--exclude-seeds", rng.choice(["none", "seeds", "reverse"])]
    if tables:
        options += [*(["--weight", "weight"] if how == "weight" else []), *some("--mask", "mask", one_in=3),
                    *some("--share", rng.choice([0.1, 0.5, 1]), one_in=3)]
    if not timed:
        return options
    nodes = [] if together else NODE_TIMES.get(name, [])
    return [*options, "--sampler", "temporal", "--as-of", rng.integers(300), *nodes,
            "--time", rng.choice(["time", "none"], p=[0.7, 0.3]) if nodes else "time", *some("--chain"),
            "--time-rules", lists(["not-after", "not-after", "before", "any"]), "--window", lists([0, 30, 100]),
            *(["--recent"] if how == "recent" and not replace else []),
            *(["--half-life", rng.choice([3.5, 60]), *some("--weight", "weight")]
              if how == "age" and not replace else [])]


@pytest.mark.parametrize("name", ["events", "shop", "sbm", "typed"])
@pytest.mark.parametrize("number", range(int(os.environ.get("KHOP_SEQUENCES", 6))))
def test_sequences_equal_the_oracle_under_random_options(name, number, dataset, sample, tmp_path):
    """KHOP_SEQUENCES draws more of them."""
    file = tmp_path / "seeds.txt"
    options = [str(o) for o in options_of(name, oracle.load(dataset(name))[0], np.random.default_rng(number), file)]
    want = [(int(line.split()[0]), line.split()[-1]) for line in oracle.main([str(dataset(name)), *options])]
    assert sample(dataset(name), *options) == want, f"{' '.join(options)}\n{file.read_text()}"
