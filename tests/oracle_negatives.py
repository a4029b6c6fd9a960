"""Epochs over edges with negatives, by a second program: a part of oracle.py, written from docs/sampling.md alone.

"Items" and "Negatives", one negative after another. Of the samplers only neighbour sampling.
"""
import math

import numpy as np

from oracle import batch_key, bounded, column, draw, parse_fanouts, permutation, sample, stage_key, stream

TARGET, SOURCE, EITHER, BOTH = "target", "source", "either", "both"


def power(x, alpha):
    """x^alpha, by products and roots."""
    c, p = round(alpha * 2**32), 1.0
    if c == 2**32:
        return x
    for digit in range(32):
        p = math.sqrt(p * x if c >> digit & 1 else p)
    return p


class Drawer:
    """Draws the negatives of the edges of a type. columns gives a column of nodes by type, or None; edges are
    sources, targets and times of the type's edges in the graph."""

    def __init__(self, g, e, a, columns, edges):
        self.a, self.e, self.same = a, e, g.source[e] == g.target[e]
        self.ends, self.counts = edges[:2], [g.node_types[t][1] for t in (g.source[e], g.target[e])]
        self.there = set(zip(*(x.tolist() for x in edges[:2])))
        self.born, self.kind, self.worth = ([columns(t, name) for t in (g.source[e], g.target[e])] for name in (
            a.negative_time, a.negative_type, a.negative_weight))
        self.past = [{}, {}]  # of each end: the edges of a node, (time, other end)
        if a.negative_history:
            for u, v, t in zip(*(x.tolist() for x in edges)):
                self.past[0].setdefault(u, []).append((t, v))
                self.past[1].setdefault(v, []).append((t, u))
        self.key = g.edge_keys[e]
        self.refuses = a.strict or a.negatives == "historical" or a.negatives == "batch" and bool(a.negative_time)
        self.weights = [self._weights(end) for end in (0, 1)]

    def _weights(self, end):
        n = self.counts[end]
        if self.a.negatives == "degree":
            degrees = np.bincount(self.ends[end], minlength=n).tolist()
            return [math.floor(65536 * power(float(x), self.a.negative_alpha)) for x in degrees]
        if self.a.negatives == "weight":
            w = [float(x) for x in self.worth[end]]
            s = min(52, 62 - n.bit_length()) - 1 - (math.frexp(max(w))[1] - 1)
            return [math.ceil(math.ldexp(x, s)) for x in w]
        return [1] * n

    def node(self, d, law, end, own, stays, when, batch):
        """The node that a draw stands for, or None."""
        d = int(d)
        if law == "historical":
            earlier = sorted(x for x in self.past[1 - end].get(stays, ()) if x[0] < when)
            return earlier[d * len(earlier) >> 64][1] if earlier else None
        born, kind = self.born[end], self.kind[end]
        if law == "batch":
            v = int(batch[d * len(batch) >> 64])
            return v if born is None or born[v] <= when else None
        can = [v for v in range(self.counts[end])
               if (born is None or born[v] <= when) and (kind is None or kind[v] == kind[own])]
        if born is not None:
            can.sort(key=lambda v: born[v])
        total = sum(self.weights[end][v] for v in can)
        x = d * total >> 64
        for v in can:
            x -= self.weights[end][v]
            if x < 0:
                return v
        return None

    def negative(self, s, number, law, edge, when, batch):
        """One try, or None where it is refused."""
        a, (u, v) = self.a, edge
        end = a.corrupt
        if end == EITHER:
            end = (SOURCE, TARGET)[int(bounded(draw(s, number), 2))]
        x, y = u, v
        if end != TARGET:
            x = self.node(draw(s, number + 1), law, 0, u, v, when, batch[:, 0])
        if end != SOURCE:
            y = self.node(draw(s, number + 2), law, 1, v, u, when, batch[:, 1])
        if x is None or y is None:
            return None
        if a.negatives == "historical" and ((x, y) == (u, v) or (when, y) in self.past[0].get(x, ())):
            return None
        if a.strict and ((x, y) in self.there or self.same and x == y or (x, y) == (u, v)):
            return None
        return x, y

    def all(self, K, batch, items, times):
        """The negatives of a batch: ends [m, 2], the edge of each, and how many were missed."""
        a, ends, group, missed = self.a, [], [], 0
        tries = a.negative_tries if self.refuses else 1
        most = 2 * tries if a.negative_fill else tries
        for i, (edge, item) in enumerate(zip(batch.tolist(), items)):
            s = stream(stage_key(K, self.key, 2, 0), item)
            for j in range(math.floor((i + 1) * a.negative_ratio) - math.floor(i * a.negative_ratio)):
                for r in range(most):
                    law = a.negatives if r < tries else "uniform"
                    found = self.negative(s, 3 * (j * most + r), law, tuple(edge),
                                          None if times is None else int(times[i]), batch)
                    if found:
                        break
                missed += not found
                if found or a.triplets:
                    ends.append(found or tuple(edge))
                    group.append(i)
        return np.array(ends, np.int64).reshape(-1, 2), np.array(group, np.int64), missed


def edges_of(g, content, root):
    """Type, ends and position of each edge of the graph."""
    nodes = g.offset[-1]
    kinds, ends = np.zeros(len(g.indices), np.int64), np.zeros((len(g.indices), 2), np.int64)
    for e, (first, n) in enumerate(g.runs):
        at = np.repeat(first, n) + np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
        kinds[at] = e
        ends[at, 0] = g.indices[at].astype(np.int64) - g.offset[g.source[e]]
        ends[at, 1] = np.repeat(np.arange(nodes), n) - g.offset[g.target[e]]
    return kinds, ends


def epoch(g, content, a):
    """As oracle.epoch, for options of the command."""
    by_name = {(x["owner"], x["name"]): x for x in content["columns"]}
    of = lambda owner, name: column(a.dataset, by_name[owner, name]) if name and (owner, name) in by_name else None
    kinds, ends = edges_of(g, content, a.dataset)
    history, label = of("edges", a.negative_history), of("edges", a.link_label)
    times = of("edges", a.link_time)
    at = np.arange(len(kinds))
    if a.seeds != "all-edges":
        at = at[kinds == [":".join(x) for x in g.edge_types].index(a.seeds[len("all-edges:"):])]
    some = np.unique(kinds[at])
    drawers = {}
    for e in some:
        own = kinds == e
        past = np.zeros(own.sum(), np.int64) if history is None else history[own]
        drawers[e] = Drawer(g, e, a, lambda t, name: of(f"nodes/{t}", name), (*ends[own].T, past))
    T, n = g.edge_keys[some[0]] if len(some) == 1 else 0, len(at)
    total = -(-n // a.batch_size)
    for b in range(a.first, total if a.batches is None else min(total, a.first + a.batches)):
        K = batch_key(a.seed, a.epoch, b, a.instance)
        items = np.arange(b * a.batch_size, min((b + 1) * a.batch_size, n))
        if a.shuffle:
            items = permutation(stream(stage_key(batch_key(a.seed, a.epoch, 0, a.instance), T, 1, 0), 0), n, items)
        seeds, link = [[] for _ in g.node_types], {}
        for e in some:
            own = items[kinds[at[items]] == e]
            pos = at[own]
            more, group, missed = drawers[e].all(K, ends[pos], own, None if times is None else times[pos])
            whole = np.concatenate((ends[pos], more))
            seeds[g.source[e]].append(whole[:, 0])
            seeds[g.target[e]].append(whole[:, 1])
            name = f"link/{':'.join(g.edge_types[e])}/"
            group = np.concatenate((np.arange(len(own)), group))
            link[name + "counts"] = np.array([len(own), len(more), missed])
            true = np.ones(len(own), np.int64) if label is None else label[pos].astype(np.int64)
            link[name + "label"] = np.concatenate((true, np.zeros(len(more), np.int64)))
            link[name + "group"] = group
            if times is not None:
                link[name + "time"] = times[pos].astype(np.int64)[group]
        seeds = [np.concatenate(x) if x else np.zeros(0, np.int64) for x in seeds]
        arrays = sample(g, seeds, parse_fanouts(a.fanouts, g.edge_types), a.replace, a.frontier == "new", K)
        yield b, {k: v for k, v in (arrays | link).items() if not k.endswith("/edge_pos")}
