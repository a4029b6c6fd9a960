"""What a graph transformer learns on khop's sequences, beside a GNN that khop's loader and PyG's feed.

    python bench/sequences/learn_nodes.py SOURCE [--seeds 5] [--epochs 20]

SOURCE is what "khop convert" reads, with features, labels and splits: planetoid-cora, planetoid-citeseer,
minesweeper.npz, tolokers.npz. It prints the figure of the test after the epoch that does best on the validation: mean,
least and most of the seeds, and seconds an epoch with its validation and test. The figure is accuracy, of two classes
the area under the ROC curve. It needs torch, torch_geometric and pyg-lib; KHOP_LIBRARY and KHOP_BIN.

    GNN, khop               GraphSAGE of two layers, fan-outs [10, 10], khop.Loader
    GNN, PyG                the same model, NeighborLoader
    Transformer, PPR        one layer over the seed and the 31 nodes of highest PageRank
    Transformer, hops       the same over the seed's tree of fan-outs [10, 10], by hops, up to 64 tokens
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE

import khop

WIDTH, SPLITS, SIZE = 64, ("train", "val", "test"), (64, 512, 512)
warnings.filterwarnings("ignore")


class GNN(GraphSAGE):
    def __init__(self, features, classes):
        super().__init__(features, WIDTH, 2, classes, dropout=0.5)

    def forward(self, batch):
        return super().forward(batch.x, batch.edge_index)[:batch.batch_size]


class Transformer(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.node, self.score = torch.nn.Linear(features, WIDTH), torch.nn.Linear(1, WIDTH)
        self.hop = torch.nn.Embedding(4, WIDTH)
        self.attend = torch.nn.MultiheadAttention(WIDTH, 4, 0.5, batch_first=True)
        self.out = torch.nn.Linear(WIDTH, classes)

    def forward(self, batch):
        row = batch.sequences
        place = self.hop(row.hop.long() + 1) if row.hop is not None else self.score(row.weight[..., None])
        tokens = row.rows(self.node(batch.x)) + place
        x = tokens[:, :1] + self.attend(tokens[:, :1], tokens, tokens, ~row.mask, need_weights=False)[0]
        return self.out(F.dropout(x[:, 0].relu(), 0.5, self.training))


def figure(logits, y):
    """Accuracy; of two classes the area under the ROC curve."""
    if logits.shape[1] > 2:
        return float((logits.argmax(1) == y).float().mean())
    score = (logits[:, 1] - logits[:, 0]).double()
    each, place, count = score.unique(return_inverse=True, return_counts=True)
    rank = count.cumsum(0) - (count - 1) / 2
    true = int(y.sum())
    return float((rank[place][y == 1].sum() - true * (true + 1) / 2) / (true * (len(y) - true)))


def learn(model, loaders, epochs):
    optimizer, best = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4), (0, 0)
    for _ in range(epochs):
        figures = []
        for loader in loaders:
            model.train(loader is loaders[0])
            seen = []
            for batch in loader:
                with torch.set_grad_enabled(model.training):
                    logits, y = model(batch), batch.y[:batch.batch_size].long()
                if model.training:
                    optimizer.zero_grad(), F.cross_entropy(logits, y).backward(), optimizer.step()
                seen.append((logits.detach(), y.clone()))
            figures.append(figure(*map(torch.cat, zip(*seen))))
        best = max(best, tuple(figures[1:]))
    return best[1]


def whole(path):
    """The dataset as PyG's Data, and the ids of its splits."""
    with khop.Loader(path, [-1], seeds="all", batch_size=khop.info(path)["nodes"], process="inside") as loader:
        batch = next(iter(loader)).copy()
    x, y = torch.empty_like(batch.x), torch.empty_like(batch.y)
    x[batch.n_id], y[batch.n_id] = batch.x, batch.y
    ids = []
    for split in SPLITS:
        with khop.Loader(path, [0], seeds=split, batch_size=len(x), process="inside") as loader:
            ids.append(next(iter(loader)).n_id.clone())
    return Data(x=x, y=y, edge_index=batch.n_id[batch.edge_index]), ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.khop")
        subprocess.run([os.environ["KHOP_BIN"], "convert", args.source, path], check=True, capture_output=True)
        info, (data, ids) = khop.info(path), whole(path)

        def khops(**options):
            return lambda seed: [khop.Loader(path, seeds=split, batch_size=size, shuffle=split == "train", seed=seed,
                                             process="inside", workers=1, **options)
                                 for split, size in zip(SPLITS, SIZE)]

        def pyg(seed):
            return [NeighborLoader(data, [10, 10], input_nodes=nodes, batch_size=size, shuffle=size == SIZE[0])
                    for nodes, size in zip(ids, SIZE)]
        ways = {"GNN, khop": (GNN, khops(fanouts=[10, 10])), "GNN, PyG": (GNN, pyg),
                "Transformer, PPR": (Transformer, khops(sampler="ppr", neighbors=32, sequence=32, seed_first=True)),
                "Transformer, hops": (Transformer, khops(fanouts=[10, 10], sequence=64, seed_first=True))}
        reached, took = ({way: [] for way in ways} for _ in range(2))
        for seed in range(args.seeds):
            for way, (kind, loaders) in ways.items():
                torch.manual_seed(seed)
                model, begin = kind(info["feature_dim"], info["classes"]), time.perf_counter()
                reached[way].append(learn(model, loaders(seed), args.epochs))
                took[way].append((time.perf_counter() - begin) / args.epochs)
    for way, figures in reached.items():
        print(f"{pathlib.Path(args.source).stem}: {way}: {np.mean(figures):.3f} ({min(figures):.3f} to "
              f"{max(figures):.3f}), {statistics.median(took[way]):.2f} s an epoch", flush=True)


if __name__ == "__main__":
    main()
