#!/usr/bin/env python3
"""The batches that khop must make, by a second program.

Written from docs/sampling.md, docs/digest.md and docs/format.md alone; it shares no code with khop. Prints what
`khop sample DATASET --digest` must print: a line a batch, number, topology digest, full digest.

    oracle.py DATASET --fanouts 15,10,5 --batch-size 1024 --seed 7 --shuffle --batches 20
"""
import argparse
import json
import os
import sys

import numpy as np
import pyarrow as pa
import xxhash

np.seterr(over="ignore")  # 64-bit arithmetic is modulo 2^64
G = np.uint64(0x9E3779B97F4A7C15)
U = np.uint64
LOW = U(0xFFFFFFFF)


# --- random draws (docs/sampling.md, "Notation", "Keys", "Choices") ---------------------------------------------------

def mix64(z):
    z = np.asarray(z, U)
    z = (z ^ (z >> U(30))) * U(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> U(27))) * U(0x94D049BB133111EB)
    return z ^ (z >> U(31))


def philox(c, k):
    (c0, c1, c2, c3), (k0, k1) = c, k
    for _ in range(10):
        p, q = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (q >> 32) ^ c1 ^ k0, q & 0xFFFFFFFF, (p >> 32) ^ c3 ^ k1, p & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def batch_key(seed, epoch, batch, instance=0):
    seed %= 1 << 64  # a signed seed is taken as its two's complement
    w = philox((epoch, batch & 0xFFFFFFFF, batch >> 32, instance), (seed & 0xFFFFFFFF, seed >> 32))
    return w[0] | w[1] << 32


def type_key(*names):
    return xxhash.xxh3_64_intdigest("\0".join(names).encode())


def stage_key(K, T, purpose, hop):
    return mix64(K ^ T ^ (purpose << 56 | hop << 48))


def stream(a, index):
    return mix64(a + np.asarray(index).astype(U) * G)


def draw(s, i):
    return mix64(s + (np.asarray(i).astype(U) + U(1)) * G)


def bounded(d, n):
    """floor(d * n / 2^64), by 32-bit halves."""
    n = np.asarray(n).astype(U)
    dh, dl, nh, nl = d >> U(32), d & LOW, n >> U(32), n & LOW
    mid = dh * nl + (dl * nl >> U(32))
    return (dh * nh + (mid >> U(32)) + ((dl * nh + (mid & LOW)) >> U(32))).astype(np.int64)


def picks(s, n, k, replace):
    """Picks of k of n[i] from stream s[i]: a matrix, and the mask of those that are there."""
    width = int(n.max(initial=0)) if k < 0 else k
    t = np.broadcast_to(np.arange(width), (len(n), width)).copy()
    if k < 0 or len(n) == 0:
        return t, t < n[:, None]
    if replace:
        return bounded(draw(s[:, None], t), n[:, None]), np.broadcast_to(n[:, None] > 0, t.shape)
    some = n > k
    for j in range(k):  # Floyd's method, a column at a time
        i = n[some] - k + j
        c = bounded(draw(s[some], j), i + 1)
        t[some, j] = np.where((t[some, :j] == c[:, None]).any(axis=1), i, c)
    t[some] = np.sort(t[some], axis=1)
    return t, t < n[:, None]


class Labor:
    """Picks of LABOR (docs/sampling.md): which in-edges a destination takes, by the variates of their sources."""

    def __init__(self, poisson=False, layer_dependent=False, batch_dependency=1):
        self.poisson, self.same_hop, self.stays = poisson, layer_dependent, batch_dependency

    def batch(self, key_of, number):
        """For a batch; key_of(b) is the batch key of batch b of the epoch."""
        self.key_of, self.number = key_of, number
        return self

    def variates(self, T, hop, ids):
        hop = 0 if self.same_hop else hop
        draws = lambda b: draw(stream(stage_key(self.key_of(b), T, 4, hop), ids), 0)
        if self.stays == 1:
            return draws(self.number)
        phase = bounded(draw(stream(stage_key(self.key_of(0), T, 8, 0), ids), 0), self.stays)
        group = (self.number + phase) // self.stays
        u = np.zeros(ids.shape, U)
        for b in np.unique(group):
            u = np.where(group == b, draws(int(b)), u)
        return u

    def picks(self, g, src, hop, first, n, k):
        """As the function picks: a matrix, and the mask of those that are there."""
        t = np.broadcast_to(np.arange(int(n.max(initial=0))), (len(n), int(n.max(initial=0))))
        there, some = t < n[:, None], (n > k)[:, None] & (k >= 0)
        ids = g.indices[np.where(there, first[:, None] + t, 0)] - g.offset[src] if there.any() else t
        u = self.variates(g.node_keys[src], hop, ids.astype(np.int64))
        if self.poisson:
            return t, there & (~some | (bounded(u, n[:, None]) < k))
        order = np.where(there, u, U(2**64 - 1)).argsort(axis=1, kind="stable")  # what is not there comes later
        return t, there & (~some | (order.argsort(axis=1) < k))


def permutation(s, n, positions):
    """p(i) for the positions i of an order of n items, from the stream s."""
    if n <= 65536:
        p = list(range(n))
        swaps = bounded(draw(s, np.arange(n)), np.arange(n, 0, -1)).tolist()
        for i in range(n - 1, 0, -1):
            j = swaps[n - 1 - i]
            p[i], p[j] = p[j], p[i]
        return np.array(p, np.int64)[positions]
    w = ((n - 1).bit_length() + 1) // 2
    x, again = np.asarray(positions).astype(U), np.ones(len(positions), bool)
    while again.any():  # cycle walking
        L, R = x[again] >> U(w), x[again] & U((1 << w) - 1)
        for k in draw(s, np.arange(8)):
            L, R = R, L ^ (mix64(k + R * G) >> U(64 - w))
        x[again] = L << U(w) | R
        again = x >= U(n)
    return x.astype(np.int64)


# --- graphs -----------------------------------------------------------------------------------------------------------

class Graph:
    """One CSC over fused ids, columns a node type. node_types: [(name, count)], edge_types: [(source, relation,
    target)]."""

    def __init__(self, indptr, indices, type=None, node_types=None, edge_types=None, columns=None, dtypes=None):
        self.node_types = node_types or [("node", len(indptr) - 1)]
        self.edge_types = edge_types or [("node", "edge", "node")]
        # (type, column) -> rows, name of the dtype if not NumPy's.
        self.columns, self.dtypes = columns or {}, dtypes or {}
        names = [t for t, _ in self.node_types]
        self.source = [names.index(s) for s, _, _ in self.edge_types]
        self.target = [names.index(t) for _, _, t in self.edge_types]
        self.offset = np.cumsum([0] + [n for _, n in self.node_types])
        self.node_keys = [type_key(t) if len(names) > 1 else 0 for t in names]
        self.edge_keys = [type_key(*e) if len(self.edge_types) > 1 else 0 for e in self.edge_types]
        self.indices, self.runs = indices, []
        indptr = np.asarray(indptr)
        for e in range(len(self.edge_types)):  # where the in-edges of type e of each node begin and how many they are
            if type is None:
                self.runs.append((indptr[:-1], np.diff(indptr)))
                continue
            below, equal = (np.cumsum(np.concatenate(([0], x)))[indptr] for x in (np.less(type, e), np.equal(type, e)))
            self.runs.append((indptr[:-1] + np.diff(below), np.diff(equal)))


def sample(g, seeds, fanouts, replace, new, K, edge_keys=None, labor=None):
    """The arrays of a batch without its columns. seeds: ids, a node type each. fanouts: a list, an edge type each."""
    hops = max(map(len, fanouts))
    lists, seen, out = [], [np.full(n, -1) for _, n in g.node_types], {}

    def append(t, ids):  # those not in the list yet, in order of first appearance
        fresh = ids[seen[t][ids] < 0]
        fresh = fresh[np.sort(np.unique(fresh, return_index=True)[1])]
        seen[t][fresh] = len(lists[t]) + np.arange(len(fresh))
        lists[t] = np.concatenate((lists[t], fresh))

    for t, (name, _) in enumerate(g.node_types):
        lists.append(np.zeros(0, np.int64))
        append(t, seeds[t])
        out[f"seeds/{name}"] = seen[t][seeds[t]]
    num_nodes = [[len(x) for x in lists]]
    done = [0] * len(lists)  # with frontier new, how many of each list were destinations
    kept = [([], [], []) for _ in g.edge_types]  # picks a destination, sources, positions
    for h in range(hops):
        began = [len(x) for x in lists]
        for e, (src, dst) in enumerate(zip(g.source, g.target)):
            k = fanouts[e][h] if h < len(fanouts[e]) else 0
            v = lists[dst][done[dst] if new else 0:began[dst]]
            first, n = (x[v + g.offset[dst]] for x in g.runs[e])
            a = stage_key(K, (edge_keys or g.edge_keys)[e], 0, h)
            t, there = labor.picks(g, src, h, first, n, k) if labor else picks(stream(a, v), n, k, replace)
            pos = (first[:, None] + t)[there]
            ids = g.indices[pos].astype(np.int64) - g.offset[src]
            append(src, ids)
            if not new:
                kept[e] = ([], [], [])
            for held, array in zip(kept[e], (there.sum(axis=1), seen[src][ids], pos)):
                held.append(array)
            counts, local, where = (np.concatenate(x).astype(np.int64) for x in kept[e])
            block = f"block/{hops - 1 - h}/{':'.join(g.edge_types[e])}/"
            out[block + "indptr"] = np.concatenate(([0], np.cumsum(counts)))
            out[block + "indices"], out[block + "edge_pos"] = local, where
        done = began
        num_nodes.append([len(x) for x in lists])
    for (name, _), x in zip(g.node_types, lists):
        out[f"nodes/{name}"] = x
    out["num_nodes"] = np.array(num_nodes, np.int64)
    return out


# --- digests (docs/digest.md) -----------------------------------------------------------------------------------------

def digest(arrays, dtypes={}):
    h, word = xxhash.xxh3_64(), lambda n: int(n).to_bytes(8, "little")
    for name in sorted(arrays, key=str.encode):
        x, dtype = arrays[name], dtypes.get(name, str(arrays[name].dtype))
        h.update(word(len(name.encode())) + name.encode() + word(len(dtype)) + dtype.encode())
        h.update(b"".join(map(word, (x.ndim, *x.shape))))
        h.update(np.ascontiguousarray(x, x.dtype.newbyteorder("<")).tobytes())
    return h.hexdigest()


def with_columns(g, arrays):
    """arrays and the default columns: feature of all nodes, label of the seeds; and the dtypes that NumPy does not
    name."""
    out, dtypes = dict(arrays), {}
    for t, (name, _) in enumerate(g.node_types):
        for prefix, column, rows in (("node", "feature", None), ("seed", "label", arrays["num_nodes"][0][t])):
            if (name, column) in g.columns:
                out[f"{prefix}/{name}/{column}"] = g.columns[name, column][arrays[f"nodes/{name}"][:rows]]
                if (name, column) in g.dtypes:
                    dtypes[f"{prefix}/{name}/{column}"] = g.dtypes[name, column]
    return out, dtypes


# --- epochs ("Order of an epoch") -------------------------------------------------------------------------------------

def epoch(g, sets, fanouts, batch_size=1024, seed=0, epoch=0, instance=0, shuffle=False, replace=False, new=False,
          batches=None, edge_pos=False, labor=None):
    """Yields batch number and arrays without columns. sets: (node type, ids), one after another; batches: which
    (default: all)."""
    kind = np.concatenate([np.full(len(ids), t) for t, ids in sets])
    ids = np.concatenate([ids for _, ids in sets]).astype(np.int64)
    kinds, n = np.unique(kind), len(ids)
    T = g.node_keys[kinds[0]] if len(kinds) == 1 else 0
    for b in range(-(-n // batch_size)) if batches is None else batches:
        items = np.arange(b * batch_size, min((b + 1) * batch_size, n))
        if shuffle:
            items = permutation(stream(stage_key(batch_key(seed, epoch, 0, instance), T, 1, 0), 0), n, items)
        seeds = [ids[items[kind[items] == t]] for t in range(len(g.node_types))]
        key_of = lambda number: batch_key(seed, epoch, number, instance)
        arrays = sample(g, seeds, fanouts, replace, new, key_of(b), labor=labor and labor.batch(key_of, b))
        yield b, {k: v for k, v in arrays.items() if edge_pos or not k.endswith("/edge_pos")}


# --- datasets (docs/format.md) and the command ------------------------------------------------------------------------

def column(root, entry, shape=()):
    """The elements of an array of the manifest, [rows, ...shape]: a view of the mapped file."""
    (part,) = entry["parts"]
    (batch,) = [pa.ipc.open_file(pa.memory_map(os.path.join(root, part["path"]))).get_batch(0)]
    values = batch.column(0)
    while pa.types.is_fixed_size_list(values.type):
        values = values.flatten()
    if pa.types.is_float16(values.type):
        values = values.view(pa.uint16())
        return values.to_numpy().view(np.float16).reshape(part["rows"], *shape)
    return values.to_numpy().reshape(part["rows"], *shape)


def load(root):
    """The graph of a dataset, and its manifest's content."""
    with open(os.path.join(root, "dataset.json"), encoding="utf-8") as f:
        content = json.load(f)["content"]
    nodes = [(n["name"], n["count"]) for n in content["node_types"]]
    edges = [(e["source"], e["relation"], e["target"]) for e in content["edge_types"]]
    owners = {f"nodes/{i}": name for i, (name, _) in enumerate(nodes)}
    arrays = {(c["owner"], c["name"]): c for c in content["columns"]}
    structure = [
        column(root, arrays["graph", x]) if ("graph", x) in arrays else None for x in ("indptr", "indices", "type")]
    columns, dtypes = {}, {}
    for (owner, name), c in arrays.items():
        if owner in owners and name in ("feature", "label"):
            columns[owners[owner], name] = column(root, c, c["shape"])
            dtypes[owners[owner], name] = c["dtype"]
    return Graph(*structure, nodes, edges, columns, dtypes), content


def parse_fanouts(text, edge_types):
    """A list of fan-outs an edge type: "15,10" for all, or "cites=15,10;writes=5;*=2"; 0 where no type is named."""
    return [each or [0] for each in lists_of(text, edge_types, int)]


def lists_of(text, edge_types, value):
    """A list of values an edge type, by its relation or full name; * is all others; empty where no type is named."""
    if "=" not in text:
        return [[value(k) for k in text.split(",")] for _ in edge_types]
    given = dict(part.split("=") for part in text.split(";"))
    lists = [given.get(":".join(e), given.get(e[1], given.get("*"))) for e in edge_types]
    return [[] if each is None else [value(k) for k in each.split(",")] for each in lists]


def seeds_of(root, content, g, name, index):
    """The sets (node type, ids) of a split, of all nodes (by default also where there is no train split) or of a
    file."""
    types = {t: i for i, (t, _) in enumerate(g.node_types)}
    kind, at, path = name.partition("@")
    if at:
        with open(path, encoding="utf-8") as f:
            lines = [line.split()[:-2 if kind == "window" else None] for line in f]
        return [(types[line[0]] if line[1:] else 0, np.array([int(line[-1])])) for line in lines]
    if name.startswith("all:"):
        return [(types[t], np.arange(g.node_types[types[t]][1])) for t in name[4:].split(",")]
    splits = [s for s in content["splits"] if s["name"] == name]
    if name == "all" or (name == "train" and not splits):
        return [(i, np.arange(n)) for i, (_, n) in enumerate(g.node_types)]
    (split,) = [s for s in splits if s["index"] == index]
    return [(s["node_type"], column(root, s)) for s in split["sets"]]


def main(arguments):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dataset")
    p.add_argument("--fanouts", default="15,10,5")
    p.add_argument("--frontier", choices=("new", "all"), default="new")
    p.add_argument("--seeds", default="train")
    for option, default in (("batch-size", 1024), ("seed", 0), ("epoch", 0), ("instance", 0), ("split", 0),
                            ("first", 0), ("batches", None)):
        p.add_argument("--" + option, type=int, default=default)
    p.add_argument("--sampler", choices=("neighbor", "labor", "temporal", "ppr", "pinsage"), default="neighbor")
    p.add_argument("--batch-dependency", type=int, default=1)
    for option in ("weight", "mask", "node-time", "link-time"):
        p.add_argument("--" + option)
    for option, kind, default in (("time", str, "time"), ("time-rules", str, "not-after"), ("share", float, 0),
                                  ("half-life", float, 0), ("window", str, "0"), ("sequence", int, 0),
                                  ("alpha", float, 0.15), ("epsilon", float, 0.0001), ("edge-type", str, ""),
                                  ("walks", int, 10), ("length", int, 2), ("restart", float, 0), ("stop", float, 0),
                                  ("metapath", str, ""), ("negative-ratio", float, 1), ("negative-alpha", float, 0.75),
                                  ("corrupt", str, "target"), ("negative-tries", int, 16),
                                  ("exclude-seeds", str, "none"), ("direction", str, "in")):
        p.add_argument("--" + option, type=kind, default=default)
    p.add_argument("--as-of", type=int)
    p.add_argument("--negatives", choices=("uniform", "degree", "weight", "batch", "historical"))
    for option in ("negative-weight", "negative-time", "negative-type", "negative-history", "link-label", "times"):
        p.add_argument("--" + option)
    for option in ("shuffle", "replace", "digest", "poisson", "layer-dependent", "disjoint", "recent", "chain",
                   "seed-first", "strict", "together", "triplets", "negative-fill"):
        p.add_argument("--" + option, action="store_true")
    a = p.parse_args(arguments)
    g, content = load(a.dataset)
    if a.sequence or a.negatives:
        import oracle_negatives
        import oracle_sequence

        for b, arrays in (oracle_sequence if a.sequence else oracle_negatives).epoch(g, content, a):
            yield f"{b} {digest(arrays)} {digest(*with_columns(g, arrays))}"
        return
    if a.sampler == "temporal" or a.weight or a.mask or a.share or a.disjoint:
        import oracle_choose

        for b, arrays in oracle_choose.epoch(g, content, a):
            yield f"{b} {digest(arrays)} {digest(*with_columns(g, arrays))}"
        return
    seeds = seeds_of(a.dataset, content, g, a.seeds, a.split)
    total = -(-sum(len(ids) for _, ids in seeds) // a.batch_size)
    batches = range(a.first, total if a.batches is None else min(total, a.first + a.batches))
    fanouts = parse_fanouts(a.fanouts, g.edge_types)
    options = a.batch_size, a.seed, a.epoch, a.instance, a.shuffle, a.replace, a.frontier == "new"
    labor = Labor(a.poisson, a.layer_dependent, a.batch_dependency) if a.sampler == "labor" else None
    for b, arrays in epoch(g, seeds, fanouts, *options, batches, labor=labor):
        yield f"{b} {digest(arrays)} {digest(*with_columns(g, arrays))}"


if __name__ == "__main__":
    for line in main(sys.argv[1:]):
        print(line, flush=True)
