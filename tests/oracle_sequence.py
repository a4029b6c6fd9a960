"""Sequences, by a second program: a part of oracle.py, written from "Sequences" of docs/sampling.md alone.

Picks are those of oracle_choose; walks, scores and negatives are here, one node, walk and edge after another.
"""
import collections
import copy
import dataclasses

import numpy as np

import oracle_choose
from oracle import Graph, batch_key, bounded, draw, parse_fanouts, permutation, stage_key, stream
from oracle_choose import NO_TIME

SEED = dict(edge=-1, edge_type=-1, hop=0)  # what a seed that is a token has
DTYPES = {"_age": np.int64, "_weight": np.float32}  # others are int32, as are ids and positions below 2^31


def double(d):
    return int(d >> np.uint64(11)) * 2.0**-53


def edges_of(g):
    """Types, sources and targets of all edges, as fused ids, by position."""
    types, targets = np.zeros(len(g.indices), np.int64), np.zeros(len(g.indices), np.int64)
    for e, (first, n) in enumerate(g.runs):
        at = np.repeat(first - np.cumsum(n) + n, n) + np.arange(n.sum())
        types[at], targets[at] = e, np.repeat(np.arange(len(n)), n)
    return types, g.indices.astype(np.int64), targets


class Columns:
    """The in-edges of a fused id: all of them, or those of an edge type."""

    def __init__(self, g):
        self.g = g
        self.counts = sum(n for _, n in g.runs)
        self.first = np.cumsum(self.counts) - self.counts

    def __call__(self, v, e=None):
        first, n = (self.first[v], self.counts[v]) if e is None else (x[v] for x in self.g.runs[e])
        return self.g.indices[int(first):int(first + n)].tolist()


class Neighbors:
    """Tokens of the picks of neighbor and temporal."""

    def __init__(self, g, content, a):
        self.a, self.c = a, oracle_choose.columns(a.dataset, content, g, a)
        self.fanouts = parse_fanouts(a.fanouts, g.edge_types)
        self.hops, self.positions = max(map(len, self.fanouts)), np.arange(len(g.indices))
        self.edges(g, *edges_of(g))
        if a.direction == "in":
            return
        types, sources, targets = edges_of(g)  # "Directions"
        out = np.arange(len(types)) if a.direction == "out" else np.flatnonzero(sources != targets)
        every = np.arange(0 if a.direction == "out" else len(types))
        self.edges(g, *(np.concatenate(x) for x in (
            (types[every], types[out]), (sources[every], targets[out]), (targets[every], sources[out]),
            (every, out))))

    def edges(self, g, types, sources, targets, which=None):
        """Makes of some edges the graph that is followed; which of those before they were, in the order of picks."""
        order = np.lexsort((types, targets))
        indptr = np.concatenate(([0], np.cumsum(np.bincount(targets, minlength=g.offset[-1]))))
        self.g, self.types = Graph(indptr, sources[order], types[order], g.node_types, g.edge_types), types[order]
        if which is not None:
            cut = lambda column: None if column is None else column[which[order]]
            self.positions, c = cut(self.positions), self.c
            self.c = dataclasses.replace(c, weight=cut(c.weight), mask=cut(c.mask), time=cut(c.time))

    def without(self, links, reverse):
        """The same of the graph that lacks edges (type, source, target), perhaps their reverses, too: "Edges left
        out"."""
        g, out = self.g, set(links)
        for e, u, v in links if reverse else ():
            s, r, t = g.edge_types[e]
            back = (s, r, t) if s == t else (t, "rev_" + r, s)
            out |= {(g.edge_types.index(back), v, u)} if back in g.edge_types else set()
        types, sources, targets = edges_of(g)
        own = lambda kinds, ids: (ids - g.offset[np.array(kinds)[types]]).tolist()
        triples = zip(types.tolist(), own(g.source, sources), own(g.target, targets))
        keep = np.flatnonzero([each not in out for each in triples])
        other = copy.copy(self)
        other.edges(g, types[keep], sources[keep], targets[keep], keep)
        return other

    def time_of(self, kind, v, time, edge):
        """The time of a row: that of its item."""
        if not self.c.timed or time is not None:
            return time or 0
        born = self.c.born[kind] if self.c.born and not edge else None
        return self.c.as_of if born is None else int(born[v])

    def reached(self, K, row, begin, hop, kind, v, t):
        """The picks of a node as of t, edge type by edge type: (node type, id, time as of which it is viewed), and
        what led there."""
        g, picks = self.g, []
        if self.a.together:  # without times of nodes
            at = v + int(g.offset[kind])
            first, n = int(g.runs[0][0][at]), int(sum(n[at] for _, n in g.runs))
            k = self.fanouts[0][hop]
            index, sources = row * g.node_types[kind][1] + v, g.indices[first:first + n]
            chosen = self.c.picks(K, g.node_keys[kind], hop, k, index, t, begin, 0, 0, first, sources).tolist()
            picks = [(first + i, int(self.types[first + i])) for i in sorted(chosen)]
        for e, dst in enumerate(() if self.a.together else g.target):
            k = self.fanouts[e][hop] if hop < len(self.fanouts[e]) else 0
            if dst == kind and k:
                first, n = (int(x[v + g.offset[dst]]) for x in g.runs[e])
                sources = g.indices[first:first + n] - g.offset[g.source[e]]
                index = row * g.node_types[dst][1] + v
                chosen = self.c.picks(K, g.edge_keys[e], hop, k, index, t, begin, e, g.source[e], first, sources)
                picks += [(first + i, e) for i in chosen.tolist()]
        for at, e in picks:
            src = g.source[e]
            u = int(g.indices[at] - g.offset[src])
            step = int(self.c.steps(src, np.array([at]), np.array([u]), t)[0])
            yield (src, u, step if self.c.chain else t), dict(
                edge=self.positions[at], edge_type=e, hop=hop + 1, step=step)

    def tokens(self, K, row, kind, v, t, begin):
        seed = ((kind, v, t), SEED)
        if self.hops == 1:
            picked = list(self.reached(K, row, begin, 0, kind, v, t))
            if self.c.timed:
                picked = sorted(picked[::-1], key=lambda p: -p[1]["step"])
            found = [seed, *picked] if self.a.seed_first else picked
        else:
            tree, place = [seed], {seed[0]}
            for node, said in tree:  # it grows behind
                for source, led in self.reached(K, row, begin, said["hop"], *node) if said["hop"] < self.hops else ():
                    if source not in place:
                        place.add(source)
                        tree.append((source, led))
            found = tree if self.a.seed_first else tree[1:]
        for (kind, v, _), said in found:
            yield kind, v, {**said, "age": t - said["step"] if "step" in said else 0}

    def arrays(self):
        names = ["edge"] + ["hop"] * (self.hops > 1) + ["edge_type"] * (len(self.g.edge_types) > 1)
        return names + ["age"] * self.c.timed


class Scores:
    """Tokens of the neighbours of ppr and pinsage."""

    def __init__(self, g, a):
        self.g, self.a, self.into, self.known = g, a, Columns(g), {}

    def tokens(self, K, row, kind, v, t, begin):
        begins, count = int(self.g.offset[kind]), self.g.node_types[kind][1]
        scores = self.scores(K, kind, v)
        best = sorted(((-p, u - begins) for u, p in scores.items() if begins <= u < begins + count and p > 0))
        best = best[:self.a.sequence]
        total = float(sum(-p for p, _ in best))
        found = [(u, -p / total) for p, u in best]
        if self.a.seed_first:
            found = [(v, dict(found).get(v, 0.0)), *[each for each in found if each[0] != v]]
        for u, weight in found:
            yield kind, u, {"weight": weight}

    def arrays(self):
        return ["weight"]

    def time_of(self, kind, v, time, edge):
        return 0


class Pages(Scores):
    def scores(self, K, kind, v):
        if (kind, v) in self.known:
            return self.known[kind, v]
        A, E = int(self.a.alpha * 2**32), int(self.a.epsilon * 2**52)
        s = v + int(self.g.offset[kind])
        p, r = collections.Counter(), collections.Counter({s: 2**52})
        least = lambda u: max(1, int(self.into.counts[u])) * E
        queue, queued = collections.deque([s] if 2**52 >= least(s) else []), {s}
        while queue:
            u = queue.popleft()
            queued.discard(u)
            R, r[u] = r[u], 0
            sources = self.into(u)
            if not sources:
                p[u] += R
                continue
            share = (R - (R * A >> 32)) // len(sources)
            p[u] += R - share * len(sources)
            for w in sources if share > 0 else ():
                r[w] += share
                if w not in queued and r[w] >= least(w):
                    queued.add(w)
                    queue.append(w)
        self.known[kind, v] = p
        return p


class Visits(Scores):
    def scores(self, K, kind, v):
        g, a, s = self.g, self.a, v + int(self.g.offset[kind])
        path = [next(e for e, names in enumerate(g.edge_types) if each in (names[1], ":".join(names)))
                for each in a.metapath.split(",")] if a.metapath else [None]
        visits = collections.Counter()
        for w in range(a.walks):
            steps = {e: stream(stage_key(K, 0 if e is None else g.edge_keys[e], 3, w), v) for e in set(path)}
            ends, at, k = stream(stage_key(K, 0, 10, w), v), s, 0
            for i in range(a.length):
                u = double(draw(ends, i)) if a.restart or a.stop else 1.0
                if u < a.stop:
                    break
                e = path[k % len(path)]
                sources = self.into(at, e)
                if u < a.stop + a.restart or not sources and a.restart and at != s:
                    at, k = s, 0
                    continue
                if not sources:
                    break
                at, k = sources[int(bounded(draw(steps[e], i), len(sources)))], k + 1
                visits[at] += 1
        return visits


def links_of(g, a):
    """The edges of a file: types, ends, labels, times or None, first times or None."""
    with open(a.seeds[len("edges@"):], encoding="utf-8") as f:
        lines = [line.split() for line in f]
    names = [e[1] for e in g.edge_types]
    kinds = [names.index(line[0]) if len(names) > 1 else 0 for line in lines]
    rows = [list(map(int, line[len(names) > 1:])) for line in lines]
    at = lambda i: np.array([row[i] for row in rows]) if len(rows[0]) > i else None
    return np.array(kinds), np.array([row[:2] for row in rows]), at(2) if at(2) is not None else np.ones(
        len(rows), int), at(3), at(4)


def negatives(g, K, e, number, i, n, ends, a):
    """The negatives of edge i of n of a batch, which is item number, and how many were missed: "Negatives", by the law
    uniform."""
    s, found, missed, tries = stream(stage_key(K, g.edge_keys[e], 2, 0), number), [], 0, a.negative_tries
    tries = tries if a.strict else 1
    most = [g.node_types[t][1] for t in (g.source[e], g.target[e])]
    for j in range(int(np.floor((i + 1) * a.negative_ratio) - np.floor(i * a.negative_ratio))):
        for r in range(tries):
            b = 3 * (j * tries + r)
            which = {"source": (0,), "target": (1,), "both": (0, 1), "either": (int(bounded(draw(s, b), 2)),)}
            try_ = list(ends)
            for end in which[a.corrupt]:
                try_[end] = int(bounded(draw(s, b + 1 + end), most[end]))
            if a.strict:
                sources = Columns(g)(try_[1] + int(g.offset[g.target[e]]), e)
                if try_[0] + int(g.offset[g.source[e]]) in sources or try_ == list(ends) or (
                        g.source[e] == g.target[e] and try_[0] == try_[1]):
                    continue
            found.append(try_)
            break
        else:
            missed += 1
    return found, missed


def sample(g, of, items, a, K):
    """The arrays of a batch without its columns. items: (edge type or None, ends [(node type, id)], time or None, first
    time), numbered as "Items" says."""
    rows = [[] for _ in g.node_types]
    for kind in (None, *range(len(g.edge_types))):
        for end in (0, 1):
            for e, ends, time, begin in items:
                if e == kind and end < len(ends):
                    t, v = ends[end]
                    rows[t].append((t, int(v), of.time_of(t, int(v), time, kind is not None), begin))
    place, out = [{} for _ in g.node_types], {}
    add = lambda t, v: place[t].setdefault(v, len(place[t]))
    for (name, _), of_type in zip(g.node_types, rows):
        out[f"seeds/{name}"] = np.array([add(t, v) for t, v, _, _ in of_type], np.int64)
    num_nodes = [list(map(len, place))]
    names = ["", "_id", *["_type"] * (len(g.node_types) > 1), *("_" + name for name in of.arrays())]
    shape = (sum(map(len, rows)), a.sequence)
    held = {x: np.full(shape, 0 if x in DTYPES else -1, DTYPES.get(x, np.int32)) for x in names}
    for i, (t, v, time, begin) in enumerate(each for of_type in rows for each in of_type):
        for j, (kind, u, said) in zip(range(a.sequence), of.tokens(K, i, t, v, time, begin)):
            said = {"": add(kind, u), "_id": u, "_type": kind, **{f"_{x}": value for x, value in said.items()}}
            for x in names:
                held[x][i, j] = (said[x] + 2**63) % 2**64 - 2**63 if x == "_age" else said[x]
    out |= {f"sample/sequence{x}": array for x, array in held.items()}
    num_nodes.append(list(map(len, place)))
    for (name, _), ids in zip(g.node_types, place):
        out[f"nodes/{name}"] = np.array(list(ids), np.int64)
    for names, dst in zip(g.edge_types, g.target):
        block = f"block/0/{':'.join(names)}/"
        out[block + "indptr"] = np.zeros(num_nodes[0][dst] + 1, np.int64)
        out[block + "indices"] = np.zeros(0, np.int64)
    out["num_nodes"] = np.array(num_nodes, np.int64)
    return out


def epoch(g, content, a):
    """As oracle.epoch, for options of the command."""
    types, labels = len(g.node_types), ()
    if a.seeds.startswith("edges@"):
        kind, ends, labels, times, first = links_of(g, a)
        kind = kind + types
    elif a.seeds.startswith("timed@"):
        with open(a.seeds[6:], encoding="utf-8") as f:
            lines = [line.split() for line in f]
        names = [name for name, _ in g.node_types]
        kind = np.array([names.index(line[0]) if len(line) > 2 else 0 for line in lines])
        ends, times, first = np.array([[int(line[-2])] for line in lines]), np.array([int(x[-1]) for x in lines]), None
    else:
        kind, ends, times, first = oracle_choose.items_of(g, content, a)
        labels = np.ones(len(kind), int)
    of = Pages(g, a) if a.sampler == "ppr" else Visits(g, a) if a.sampler == "pinsage" else Neighbors(g, content, a)
    kinds, n = np.unique(kind), len(kind)
    T = [*g.node_keys, *g.edge_keys][kinds[0]] if len(kinds) == 1 else 0
    total = -(-n // a.batch_size)
    for b in range(a.first, total if a.batches is None else min(total, a.first + a.batches)):
        at, K = np.arange(b * a.batch_size, min((b + 1) * a.batch_size, n)), batch_key(a.seed, a.epoch, b, a.instance)
        if a.shuffle:
            at = permutation(stream(stage_key(batch_key(a.seed, a.epoch, 0, a.instance), T, 1, 0), 0), n, at)
        at = at[np.argsort(kind[at], kind="stable")]
        when = lambda i: (None if times is None else int(times[i]), NO_TIME if first is None else int(first[i]))
        items, links = [(None, [(int(kind[i]), ends[i, 0])], *when(i)) for i in at if kind[i] < types], {}
        for e in [int(k) - types for k in kinds if k >= types]:
            mine, both = at[kind[at] == e + types], (g.source[e], g.target[e])
            made, missed = [(labels[i], i, j, ends[i]) for j, i in enumerate(mine)], 0
            for j, i in enumerate(mine) if a.negatives == "uniform" else ():
                found, lost = negatives(g, K, e, int(i), j, len(mine), ends[i].tolist(), a)
                made, missed = made + [(0, i, j, each) for each in found], missed + lost
            items += [(e, list(zip(both, each)), *when(i)) for _, i, _, each in made]
            link = f"link/{':'.join(g.edge_types[e])}/"
            integers = lambda values: np.array(list(values), np.int64)
            links |= {link + "counts": integers((len(mine), len(made) - len(mine), missed)),
                      link + "label": integers(x[0] for x in made), link + "group": integers(x[2] for x in made)}
            links |= {link + "time": integers(times[x[1]] for x in made)} if times is not None else {}
            links |= {link + "from": integers(first[x[1]] for x in made)} if first is not None else {}
        own = [(int(kind[i]) - types, *ends[i].tolist()) for i in at if kind[i] >= types]
        it = of if a.exclude_seeds == "none" else of.without(own, a.exclude_seeds == "reverse")
        yield b, sample(g, it, items, a, K) | links
