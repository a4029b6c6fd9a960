#!/usr/bin/env python3
"""Trains the same models with khop and with PyTorch on the same splits, and compares test accuracy over seeds.

    KHOP_TESTDATA=... .bench/dgl/bin/python bench/ops/accuracy.py --khop dist/khop >> runs.jsonl
    python3 bench/ops/accuracy.py --table runs.jsonl

The first prints a line of JSON a run; the second makes a table of such lines, mean and standard deviation a dataset and
model. The models of PyTorch are written out here: GCN, GraphSAGE (mean) and GAT as in their papers, with Glorot's
weights, Adam with weight decay, dropout, and the accuracy on the test split after the epoch that was best on the
validation split. Both compute on one thread, and both keep features that are mostly zero in a sparse matrix.
"""
import argparse
import csv
import io
import json
import os
import pathlib
import pickle
import subprocess
import tempfile

import numpy as np

PLANETOID = {  # model: hidden, heads, dropout, rate
    "gcn": (16, 1, 0.5, 0.01),
    "sage": (16, 1, 0.5, 0.01),
    "gat": (8, 8, 0.6, 0.005),
}
LARGER = {
    "gcn": (32, 1, 0.2, 0.01),
    "sage": (32, 1, 0.2, 0.01),
    "gat": (8, 2, 0.2, 0.01),
}
DECAY = 5e-4
DATASETS = {  # settings, epochs, features divided by their sum
    "cora": (PLANETOID, 200, True),
    "citeseer": (PLANETOID, 200, True),
    "tolokers": (LARGER, 50, False),
    "facebook-page": (LARGER, 40, True),
}


class Arrays(pickle.Unpickler):
    """Reads pickles of arrays, and executes nothing else."""

    def find_class(self, module, name):
        if name in ("csr_matrix", "ndarray", "dtype", "_reconstruct", "scalar", "defaultdict",
                    "list") or (module, name) == ("_codecs", "encode"):
            import collections
            import scipy.sparse
            from numpy.core import multiarray
            import builtins
            import codecs
            return {"csr_matrix": scipy.sparse.csr_matrix, "ndarray": np.ndarray, "dtype": np.dtype,
                    "defaultdict": collections.defaultdict,
                    "_reconstruct": multiarray._reconstruct, "scalar": multiarray.scalar, "list": builtins.list,
                    "encode": codecs.encode}[name]
        raise pickle.UnpicklingError(f"{module}.{name}")


def planetoid(folder, name):
    """Features, labels, edges and masks of a Planetoid dataset; nodes of the test split that have no row get zeros and
    class 0."""
    def part(kind):
        data = (folder / f"ind.{name}.{kind}").read_bytes()
        return Arrays(io.BytesIO(data), encoding="latin1").load()
    x, y = part("x"), part("y")
    tx, ty, allx, ally, graph = (part(k) for k in ("tx", "ty", "allx", "ally", "graph"))
    test = np.loadtxt(folder / f"ind.{name}.test.index", dtype=np.int64)
    n = len(graph)
    features, labels = np.zeros((n, allx.shape[1]), np.float32), np.zeros((n, ally.shape[1]), np.float32)
    features[:allx.shape[0]], labels[:allx.shape[0]] = allx.toarray(), ally
    features[test], labels[test] = tx.toarray(), ty
    edges = {(min(a, int(b)), max(a, int(b))) for a, bs in graph.items() for b in bs if a != int(b)}
    masks = np.zeros((3, n), bool)
    masks[0, :len(y)], masks[1, len(y):len(y) + 500], masks[2, test] = True, True, True
    return features, labels.argmax(1).astype(np.int64), np.array(sorted(edges), np.int64), masks


def tolokers(folder):
    """The first of the ten splits that come with the graph."""
    with np.load(folder / "tolokers.npz") as z:
        masks = np.stack([z[f"{name}_masks"][0] for name in ("train", "val", "test")])
        edges = np.unique(np.sort(z["edges"].astype(np.int64), 1), axis=0)
        edges = edges[edges[:, 0] != edges[:, 1]]
        return z["node_features"].astype(np.float32), z["node_labels"].astype(np.int64), edges, masks


def facebook(folder):
    """The graph has no splits: a fifth of the nodes, drawn with seed 0, is for training, a fifth for validation."""
    edges = np.loadtxt(folder / "facebook_edges.csv", np.int64, delimiter=",", skiprows=1)
    edges = np.unique(np.sort(edges, 1), axis=0)
    lists = json.loads((folder / "facebook_features.json").read_text())
    n = len(lists)
    features = np.zeros((n, 1 + max(max(f) for f in lists.values() if f)), np.float32)
    for node, ids in lists.items():
        features[int(node), ids] = 1
    with open(folder / "facebook_target.csv", encoding="utf-8", newline="") as f:
        kinds = {int(row["id"]): row["page_type"] for row in csv.DictReader(f)}
    classes = sorted(set(kinds.values()))
    labels = np.array([classes.index(kinds[v]) for v in range(n)], np.int64)
    masks = np.zeros((3, n), bool)
    order = np.random.default_rng(0).permutation(n)
    for mask, part in zip(masks, np.split(order, [n // 5, 2 * n // 5])):
        mask[part] = True
    return features, labels, edges[edges[:, 0] != edges[:, 1]], masks


def read(data, name):
    """Features, labels, edges (each once, without loops) and masks."""
    if name == "tolokers":
        return tolokers(data / "heterophilous")
    if name == "facebook-page":
        return facebook(data / "musae-facebook-page")
    return planetoid(data / f"planetoid-{name}", name)


def convert(khop, work, name, data):
    features, labels, edges, masks = data
    path = work / f"{name}.npz"
    np.savez(path, node_features=features, node_labels=labels, edges=edges, train_masks=masks[:1], val_masks=masks[1:2],
             test_masks=masks[2:])
    subprocess.run([khop, "convert", path, work / f"{name}.khop", "--symmetrise"], check=True,
                   stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return work / f"{name}.khop"


def with_khop(khop, dataset, name, model, seed, epochs):
    settings, _, normalise = DATASETS[name]
    hidden, heads, dropout, rate = settings[model]
    out = subprocess.run([khop, "train", dataset, "--model", model, "--hidden", str(hidden), "--heads", str(heads),
                          "--dropout",
                          str(dropout), "--rate", str(rate), "--decay", str(DECAY), "--epochs", str(epochs), "--seed",
                          str(seed),
                          "--workers", "1", "--json"] + ["--row-normalise"] * normalise, check=True,
                         stdout=subprocess.PIPE,
                         text=True).stdout
    r = json.loads(out)
    return r["test_accuracy"], r["seconds"]


def with_torch(data, name, model, seed, epochs):
    import time
    import torch
    import torch.nn.functional as F
    features, labels, edges, masks = data
    settings, _, normalise = DATASETS[name]
    hidden, heads, dropout, rate = settings[model]
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    n = len(labels)
    classes = int(labels.max()) + 1
    x = torch.from_numpy(features / np.maximum(features.sum(1, keepdims=True), 1e-9) if normalise else features)
    mostly_zero = 10 * np.count_nonzero(features) < features.size
    where = x.nonzero().T if mostly_zero else None
    held = x[where[0], where[1]] if mostly_zero else None
    y = torch.from_numpy(labels)
    train, val, test = (torch.from_numpy(m) for m in masks)
    src = torch.from_numpy(np.concatenate([edges[:, 0], edges[:, 1]]))
    dst = torch.from_numpy(np.concatenate([edges[:, 1], edges[:, 0]]))
    if model != "sage":
        src, dst = torch.cat([src, torch.arange(n)]), torch.cat([dst, torch.arange(n)])
    degree = torch.zeros(n).index_add_(0, dst, torch.ones(len(dst)))
    weight = (degree[src] * degree[dst]) ** -0.5 if model == "gcn" else 1 / degree.clamp(min=1)[dst]
    adjacency = torch.sparse_coo_tensor(torch.stack([dst, src]), weight, (n, n)).coalesce()

    def glorot(rows, cols, fan=None):
        bound = (6 / sum(fan or (rows, cols))) ** 0.5
        return ((torch.rand(rows, cols) * 2 - 1) * bound).requires_grad_()
    layers, wide = [], x.shape[1]
    for last in (False, True):
        h = 1 if last or model != "gat" else heads
        out = classes if last else hidden * h
        layers.append({"w": glorot(wide, out), "own": glorot(wide, out), "s": glorot(1, out, (1, out // h)),
                       "t": glorot(1, out, (1, out // h)),
                       "b": torch.zeros(out, requires_grad=True), "heads": h})
        wide = out
    names = {"gcn": "wb", "sage": ("w", "own", "b"), "gat": "wstb"}[model]
    parameters = [layer[k] for layer in layers for k in names]
    adam = torch.optim.Adam(parameters, lr=rate, weight_decay=DECAY)

    def forward(training):
        z = x
        for i, layer in enumerate(layers):
            if i == 0 and mostly_zero:
                z = torch.sparse_coo_tensor(where, F.dropout(held, dropout, training), x.shape, is_coalesced=True)
            else:
                z = F.dropout(z, dropout, training)
            if model == "gat":
                h = (z @ layer["w"]).view(n, layer["heads"], -1)
                s, t = ((h * layer[k].view(1, layer["heads"], -1)).sum(-1) for k in "st")
                score = F.leaky_relu(s[src] + t[dst], 0.2)
                score = torch.exp(score - score.max())
                total = torch.zeros(n, layer["heads"]).index_add_(0, dst, score)
                alpha = F.dropout(score / total[dst], dropout, training)
                z = torch.zeros_like(h).index_add_(0, dst, alpha.unsqueeze(-1) * h[src]).view(n, -1) + layer["b"]
            elif model == "sage":
                z = torch.sparse.mm(adjacency, z @ layer["w"]) + z @ layer["own"] + layer["b"]
            else:
                z = torch.sparse.mm(adjacency, z @ layer["w"]) + layer["b"]
            if i == 0:
                z = F.elu(z) if model == "gat" else F.relu(z)
        return z
    best, result, seconds = -1, 0, 0
    for _ in range(epochs):
        start = time.perf_counter()
        adam.zero_grad()
        F.cross_entropy(forward(True)[train], y[train]).backward()
        adam.step()
        seconds += time.perf_counter() - start
        with torch.no_grad():
            right = forward(False).argmax(1) == y
        if right[val].float().mean() > best:
            best, result = right[val].float().mean(), right[test].float().mean().item()
    return result, seconds


def table(path):
    """A table in Markdown of lines that earlier calls printed: mean (standard deviation), median seconds."""
    runs = {}
    for line in path.read_text().splitlines():
        r = json.loads(line)
        runs.setdefault((r["dataset"], r["model"]), {}).setdefault(r["by"], {})[r["seed"]] = (r["accuracy"],
                                                                                              r["seconds"])
    print("| dataset | model | seeds | khop | PyTorch | khop s | PyTorch s |\n|---|---|---|---|---|---|---|")
    for (name, model), by in runs.items():
        cells, seconds = [], []
        for who in ("khop", "torch"):
            of = np.array(list(by.get(who, {}).values()))
            cells.append(f"{of[:, 0].mean():.3f} ({of[:, 0].std(ddof=1):.3f})" if len(of) > 1 else "")
            seconds.append(f"{np.median(of[:, 1]):.1f}" if len(of) else "")
        print("|", " | ".join([name, model, str(len(by.get("khop", {}))), *cells, *seconds]), "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--khop", default="khop")
    parser.add_argument("--seeds", type=int, nargs="*", default=range(10))
    parser.add_argument("--epochs", type=int, default=0, help="0: those of the dataset's settings")
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--models", default=",".join(PLANETOID))
    parser.add_argument("--by", default="khop,torch")
    parser.add_argument("--table", type=pathlib.Path, help="make a table of a file of results, and run nothing")
    args = parser.parse_args()
    if args.table:
        return table(args.table)
    data = pathlib.Path(os.environ["KHOP_TESTDATA"])
    with tempfile.TemporaryDirectory() as folder:
        for name in args.datasets.split(","):
            arrays = read(data, name)
            epochs = args.epochs or DATASETS[name][1]
            dataset = convert(args.khop, pathlib.Path(folder), name, arrays) if "khop" in args.by else None
            for model in args.models.split(","):
                for seed in args.seeds:
                    for by in args.by.split(","):
                        accuracy, seconds = (with_khop(args.khop, dataset, name, model, seed, epochs) if by == "khop"
                                             else
                                             with_torch(arrays, name, model, seed, epochs))
                        print(json.dumps({"dataset": name, "model": model, "seed": seed, "by": by, "epochs": epochs,
                                          "accuracy": accuracy, "seconds": seconds}), flush=True)


main()
