"""GraphSAGE in plain PyTorch, fed by khop, or by PyG's NeighborLoader: the same model, graph, splits and settings.

    khop convert tolokers.npz tolokers.khop
    khop convert cora_ml.npz cora_ml.khop --symmetrise
    python graphsage_torch.py tolokers.npz tolokers.khop --loader khop
    python graphsage_torch.py tolokers.npz tolokers.khop --loader pyg         # needs torch_geometric and torch_sparse
    or pyg_lib

The archive gives both the whole graph for evaluation, so that only the training batches differ. It prints a line a
seed, and the mean and standard deviation: ROC AUC where there are two classes, else accuracy, on the test nodes, at the
best epoch on the validation nodes.
"""
import argparse
import os
import statistics
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


# --- data -------------------------------------------------------------------------------------------------------------

class Graph:
    """A whole graph: x [n, f], y [n], edge_index [2, e] with both directions of every edge, and splits."""

    def __init__(self, path):
        with np.load(path) as f:
            self.archive = {k: f[k] for k in f.files
                            if not k.startswith(("edge_attr", "metadata", "node_names", "class_names", "attr_names"))
                            } if "adj_matrix.indptr" in f.files else dict(f)
        a = self.archive
        if "adj_matrix.indptr" in a:  # a sparse archive: rows are CSR
            n = a["adj_matrix.shape"][0]
            x = np.zeros(a["attr_matrix.shape"], np.float32)
            rows = np.repeat(np.arange(n), np.diff(a["attr_matrix.indptr"]))
            x[rows, a["attr_matrix.indices"]] = a["attr_matrix.data"]
            edges = np.stack([np.repeat(np.arange(n), np.diff(a["adj_matrix.indptr"])), a["adj_matrix.indices"]])
            y = a["labels"]
        else:
            x, y, edges = a["node_features"], a["node_labels"], a["edges"].T
        both = np.concatenate([edges, edges[::-1]], axis=1).astype(np.int64)
        both = np.unique(both[0] * len(y) + both[1])
        self.edge_index = torch.from_numpy(np.stack([both // len(y), both % len(y)]))
        self.x, self.y = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.int64))
        self.classes = int(self.y.max()) + 1

    def split(self, seed):
        """Train, validation and test nodes: the archive's own split, else 20 nodes a class, 500, and the rest."""
        if "train_masks" in self.archive:
            return [
                torch.from_numpy(np.flatnonzero(self.archive[k + "_masks"][seed])) for k in ("train", "val", "test")]
        order = np.random.default_rng(seed).permutation(len(self.y))
        y = self.y.numpy()[order]
        train = np.concatenate([order[y == c][:20] for c in range(self.classes)])
        rest = order[~np.isin(order, train)]
        return [torch.from_numpy(np.sort(part)) for part in (train, rest[:500], rest[500:])]


# --- model ------------------------------------------------------------------------------------------------------------

class Layer(nn.Module):
    """GraphSAGE's mean: W x + V mean of the in-neighbours' x."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.own, self.neighbours = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x, edge_index):
        source, target = edge_index
        total = torch.zeros_like(x).index_add_(0, target, x[source])
        degree = torch.zeros(len(x), dtype=x.dtype).index_add_(0, target, torch.ones(len(target), dtype=x.dtype))
        return self.own(x) + self.neighbours(total / degree.clamp(min=1).unsqueeze(1))


class Model(nn.Module):
    def __init__(self, inputs, hidden, classes, layers, dropout):
        super().__init__()
        widths = [inputs] + [hidden] * (layers - 1) + [classes]
        self.layers = nn.ModuleList(Layer(a, b) for a, b in zip(widths, widths[1:]))
        self.dropout = dropout

    def forward(self, x, edge_index):
        for i, layer in enumerate(self.layers):
            x = layer(x, edge_index)
            if i < len(self.layers) - 1:
                x = F.dropout(F.relu(x), self.dropout, self.training)
        return x


def score(logits, y):
    """ROC AUC of two classes, else accuracy."""
    if logits.shape[1] > 2:
        return float((logits.argmax(1) == y).float().mean())
    margin = (logits[:, 1] - logits[:, 0]).double().numpy()
    values, inverse, counts = np.unique(margin, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # ties share their mean rank
    positive = y.numpy() == 1
    p, n = positive.sum(), (~positive).sum()
    return float((rank[positive].sum() - p * (p + 1) / 2) / (p * n))


# --- loaders ----------------------------------------------------------------------------------------------------------

def khop_loader(args, graph, seed, train):
    import khop

    with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as f:
        f.write("\n".join(map(str, train.tolist())))
    try:
        return khop.Loader(args.dataset, num_neighbors=args.fanouts, batch_size=args.batch_size,
                           seeds="@" + f.name, shuffle=True, seed=seed)
    finally:
        os.unlink(f.name)


def pyg_loader(args, graph, seed, train):
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    data = Data(x=graph.x, y=graph.y, edge_index=graph.edge_index)
    return NeighborLoader(data, num_neighbors=args.fanouts, batch_size=args.batch_size, input_nodes=train, shuffle=True)


# --- training ---------------------------------------------------------------------------------------------------------

def run(args, graph, seed):
    """Returns the test score at the best validation epoch, and the seconds that training took."""
    torch.manual_seed(seed)
    train, val, test = graph.split(seed)
    model = Model(graph.x.shape[1], args.hidden, graph.classes, len(args.fanouts), args.dropout)
    optimiser = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    loader = (khop_loader if args.loader == "khop" else pyg_loader)(args, graph, seed, train)
    best, began = (-1.0, -1.0), time.perf_counter()
    for _ in range(args.epochs):
        model.train()
        for batch in loader:
            optimiser.zero_grad()
            out = model(batch.x, batch.edge_index)[:batch.batch_size]
            F.cross_entropy(out, batch.y[:batch.batch_size]).backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            logits = model(graph.x, graph.edge_index)
        best = max(best, (score(logits[val], graph.y[val]), score(logits[test], graph.y[test])), key=lambda s: s[0])
    seconds = time.perf_counter() - began
    if args.loader == "khop":
        loader.close()
    return best[1], seconds


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("archive", help="NumPy archive of the graph")
    p.add_argument("dataset", help="the same graph, converted by khop")
    p.add_argument("--loader", choices=("khop", "pyg"), default="khop")
    p.add_argument("--seeds", type=int, default=5, help="repetitions, seeds 0, 1, ..; a split each")
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--fanouts", type=lambda s: [int(k) for k in s.split(",")], default=[10, 10])
    p.add_argument("--batch-size", type=int, default=512)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--dropout", type=float, default=0.2)
    p.add_argument("--lr", type=float, default=0.01)
    p.add_argument("--weight-decay", type=float, default=0.0)
    p.add_argument("--threads", type=int, default=1)
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    graph = Graph(args.archive)
    metric = "ROC AUC" if graph.classes == 2 else "accuracy"
    scores = []
    for seed in range(args.seeds):
        result, seconds = run(args, graph, seed)
        scores.append(result)
        print(f"seed {seed}  {metric} {result:.4f}  {seconds:.1f} s", flush=True)
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    print(f"{args.loader}: {metric} {statistics.mean(scores):.4f} +- {spread:.4f} over {len(scores)} seeds")


if __name__ == "__main__":
    main()
