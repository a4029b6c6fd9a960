"""Neighbours by weight and time, by a second program: a part of oracle.py, written from docs/sampling.md alone.

"Edges that may be followed", "By weight", "Time" and "Trees kept apart", one destination after another.
"""
import math
from dataclasses import dataclass
from typing import Optional

import numpy as np

from oracle import (
    G, U, batch_key, bounded, column, draw, lists_of, mix64, parse_fanouts, permutation, picks, seeds_of, stage_key,
    stream,
)


NO_TIME = -2**63  # a first time that bounds nothing


def log(x):
    """"Arithmetic" of "By weight": FreeBSD's e_log.c, each operation rounded once."""
    b = np.asarray(x, np.float64).view(np.int64)
    n = (b - 0x3FE6A09E00000000) >> 52
    f = (b - (n << 52)).view(np.float64) - 1
    s = f / (2 + f)
    z = s * s
    w = z * z
    R = z * (6.666666666666735130e-01 + w * (
        2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)))
    R = R + w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    h, n = (0.5 * f) * f, n.astype(np.float64)
    return n * 6.93147180369123816490e-01 - ((h - (s * (h + R) + n * 1.90821492927058770002e-10)) - f)


@dataclass
class Choice:
    """What may be followed, and how it is picked. Columns are those of a Graph: weight, mask and time of the edges,
    born of the nodes by type."""

    weight: Optional[np.ndarray] = None
    mask: Optional[np.ndarray] = None
    share: float = 0
    replace: bool = False
    new: bool = False
    disjoint: bool = False
    timed: bool = False
    time: Optional[np.ndarray] = None
    born: tuple = ()
    rules: tuple = ()  # a list for each edge type: a rule a hop, and a window
    windows: tuple = ()
    recent: bool = False
    half_life: float = 0
    chain: bool = False
    as_of: Optional[int] = None

    def past(self, hop, e, x, t, first):
        """Which of the times x may be followed as of t, over edges of a type, from a first time on."""
        rule, window = ((list[e] or [default])[min(hop, max(len(list[e]) - 1, 0))] for list, default in (
            (self.rules, "not-after"), (self.windows, 0)))
        if rule == "any":
            return np.ones(len(x), bool)
        ok = (x >= first) & (x <= t if rule == "not-after" else x < t)
        return ok & (x >= t - window) if window and t - window >= -2**63 else ok

    def steps(self, src, pos, sources, t):
        """Times of the steps over edges."""
        if self.time is not None:
            return self.time[pos]
        return self.born[src][sources] if self.born and self.born[src] is not None else np.full(len(pos), t)

    def picks(self, K, T, hop, k, index, t, begin, e, src, first, sources):
        """Of the in-edges of a destination, the ones that it takes: their numbers. begin is the first time of its
        item."""
        n = len(sources)
        i, pos = np.arange(n), first + np.arange(n)
        may = np.ones(n, bool)
        if self.mask is not None:
            may &= self.mask[pos] != 0
        if self.weight is not None:
            w = self.weight[pos].astype(np.float64)
            may &= w > 0
        if self.timed:
            may &= self.time is None or self.past(hop, e, self.time[pos], t, begin)
            if self.born and self.born[src] is not None:
                may &= self.past(hop, e, self.born[src][sources], t, begin)
        i, replace = i[may], self.replace and k >= 0
        if self.share:
            most = -(-round(self.share * 2**32) * len(i) // 2**32)
            k = most if k < 0 else min(k, most)
        if k == 0 or len(i) == 0 or k < 0 or k >= len(i) and not replace:
            return i[:0] if k == 0 else i
        at = lambda purpose: (lambda s: mix64(s + U(t % 2**64) * G) if self.timed else s)(
            stream(stage_key(K, T, purpose, hop), index))
        step = self.steps(src, pos, sources, t)
        if self.recent:
            return np.sort(i[np.lexsort((i, step[i]))[-k:]])
        if self.weight is None and not self.half_life:
            chosen, _ = picks(at(0).reshape(1), np.array([len(i)]), k, replace)
            return i[chosen[0]]
        if replace:
            e = math.frexp(float(w[i].max()))[1] - 1
            q = [int(math.floor(math.ldexp(x, 61 - n.bit_length() - e))) for x in w[i].tolist()]
            sums = np.cumsum(q, dtype=np.uint64)
            return i[np.searchsorted(sums.astype(np.int64), bounded(draw(at(7), np.arange(k)), sums[-1]), "right")]
        u = ((draw(at(7), i) >> U(11)).astype(np.float64) + 0.5) * 2.0**-53
        with np.errstate(divide="ignore"):
            if self.half_life:
                d = 0.6931471805599453 / self.half_life
                key = np.where(u == 1, -np.inf, log(np.where(u == 1, 1.0, -log(u))))
                if self.weight is not None:
                    key = key - np.where(w[i] < 2.0**-1022, log(w[i] * 2.0**54) - 37.42994775023705, log(w[i]))
                key = key + np.array([float(t - int(x)) for x in step[i]]) * d
            else:
                key = -log(u) / w[i]
        return np.sort(i[np.lexsort((i, key))[:k]])


def sample(g, items, fanouts, c, K):
    """The arrays of a batch without its columns. items: (edge type or None, ends [(node type, id)], time or None,
    first time), numbered as "Items" says."""
    hops = max(map(len, fanouts))
    lists, where, out = [[] for _ in g.node_types], {}, {}

    def add(t, entry):
        if (t, entry) not in where:
            where[t, entry] = len(lists[t])
            lists[t].append(entry)
        return where[t, entry]

    def time_of(t, v, time):
        if not c.timed or time is not None:
            return time or 0
        return int(c.born[t][v]) if c.born and c.born[t] is not None else c.as_of

    seeds = [[] for _ in g.node_types]
    for kind in (None, *range(len(g.edge_types))):
        for end in (0, 1):
            for item, (e, ends, time, _) in enumerate(items):
                if e == kind and end < len(ends):
                    t, v = ends[end]
                    seeds[t].append(add(t, (item if c.disjoint else 0, int(v), time_of(t, v, time))))
    num_nodes = [list(map(len, lists))]
    done = [0] * len(lists)
    kept = [([], [], []) for _ in g.edge_types]
    for h in range(hops):
        began = list(map(len, lists))
        for e, (src, dst) in enumerate(zip(g.source, g.target)):
            k = fanouts[e][h] if h < len(fanouts[e]) else 0
            if not c.new:
                kept[e] = ([], [], [])
            for tree, v, t in lists[dst][done[dst] if c.new else 0:began[dst]]:
                first, n = (int(x[v + g.offset[dst]]) for x in g.runs[e])
                sources = g.indices[first:first + n].astype(np.int64) - g.offset[src]
                index = tree * g.node_types[dst][1] + v
                begin = items[tree][3] if c.disjoint else NO_TIME
                chosen = c.picks(K, g.edge_keys[e], h, k, index, t, begin, e, src, first, sources)
                steps = c.steps(src, first + np.arange(n), sources, t) if c.chain else np.full(n, t)
                kept[e][0].append(len(chosen))
                kept[e][1].extend(add(src, (tree, int(sources[i]), int(steps[i]))) for i in chosen)
            block = f"block/{hops - 1 - h}/{':'.join(g.edge_types[e])}/"
            out[block + "indptr"] = np.concatenate(([0], np.cumsum(kept[e][0]))).astype(np.int64)
            out[block + "indices"] = np.array(kept[e][1], np.int64)
        done = began
        num_nodes.append(list(map(len, lists)))
    for (name, _), entries, local in zip(g.node_types, lists, seeds):
        columns = np.array(entries, np.int64).reshape(-1, 3).T
        out[f"nodes/{name}"], out[f"seeds/{name}"] = columns[1].copy(), np.array(local, np.int64)
        if c.disjoint:
            out[f"sample/tree/{name}"] = columns[0].astype(np.int32)
        if c.timed:
            out[f"sample/time/{name}"] = columns[2].copy()
    out["num_nodes"] = np.array(num_nodes, np.int64)
    return out


def columns(root, content, g, a):
    """The Choice that options name."""
    by_name = {(x["owner"], x["name"]): x for x in content["columns"]}
    of = lambda owner, name: np.asarray(column(root, by_name[owner, name])) if name and (
        owner, name) in by_name else None
    timed = a.sampler == "temporal"
    born = tuple(of(f"nodes/{t}", a.node_time) for t in range(len(g.node_types))) if timed and a.node_time else ()
    return Choice(of("edges", a.weight), of("edges", a.mask), a.share, a.replace, a.frontier == "new", a.disjoint,
                  timed,
                  of("edges", None if a.time == "none" or not timed else a.time), born,
                  lists_of(a.time_rules, g.edge_types, str), lists_of(a.window, g.edge_types, int), a.recent,
                  a.half_life, a.chain, a.as_of)


def items_of(g, content, a):
    """What an epoch goes over: kinds (node type, or number of node types + edge type), ends [n, 1 or 2], times or None,
    first times or None."""
    if a.seeds == "all-edges":  # of a graph with one edge type
        times = [column(a.dataset, x) for x in content["columns"] if (x["owner"], x["name"]) == ("edges", a.link_time)]
        ends = np.stack((g.indices.astype(np.int64), np.repeat(np.arange(len(g.runs[0][1])), g.runs[0][1])), axis=1)
        return np.full(len(ends), len(g.node_types)), ends, np.asarray(times[0]) if times else None, None
    times, first = None, None
    if a.seeds.startswith("window@"):
        with open(a.seeds[7:], encoding="utf-8") as f:
            times, first = np.array([list(map(int, line.split()[-2:])) for line in f]).T
    sets = seeds_of(a.dataset, content, g, a.seeds, a.split)
    return np.concatenate([np.full(len(ids), t) for t, ids in sets]), np.concatenate(
        [ids for _, ids in sets])[:, None], times, first


def epoch(g, content, a):
    """As oracle.epoch, for options of the command."""
    kind, ends, times, first = items_of(g, content, a)
    c, fanouts, n, types = columns(a.dataset, content, g,
                                   a), parse_fanouts(a.fanouts, g.edge_types), len(kind), len(g.node_types)
    kinds = np.unique(kind)
    T = [*g.node_keys, *g.edge_keys][kinds[0]] if len(kinds) == 1 else 0
    total = -(-n // a.batch_size)
    for b in range(a.first, total if a.batches is None else min(total, a.first + a.batches)):
        at = np.arange(b * a.batch_size, min((b + 1) * a.batch_size, n))
        if a.shuffle:
            at = permutation(stream(stage_key(batch_key(a.seed, a.epoch, 0, a.instance), T, 1, 0), 0), n, at)
        at = at[np.argsort(kind[at], kind="stable")]
        items = []
        for i in at:
            e = int(kind[i]) - types
            when = None if times is None else int(times[i]), NO_TIME if first is None else int(first[i])
            items.append((None, [(int(kind[i]), ends[i, 0])], *when) if e < 0 else
                         (e, [(g.source[e], ends[i, 0]), (g.target[e], ends[i, 1])], *when))
        arrays = sample(g, items, fanouts, c, batch_key(a.seed, a.epoch, b, a.instance))
        if kinds[0] >= types:
            link = f"link/{':'.join(g.edge_types[0])}/"
            arrays |= {link + "counts": np.array([len(at), 0, 0]), link + "label": np.ones(len(at), np.int64),
                       link + "group": np.arange(len(at))}
            if times is not None:
                arrays[link + "time"] = times[at].astype(np.int64)
        yield b, arrays
