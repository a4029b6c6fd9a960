"""Which class has a node? PyG's loop with khop's loader, over a graph on disk.

It needs torch and torch_geometric: python nodes.py [SOURCE]. SOURCE is what "khop convert" reads, with features, labels
and splits: of the folder planetoid-cora it reaches an accuracy of 0.76. Without it a graph of communities is made.
"""
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv

import khop
from khop.binary import find
from khop.pyg import NeighborLoader


class Model(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.a, self.b = SAGEConv(features, 64), SAGEConv(64, classes)

    def forward(self, x, edge_index):
        x = F.dropout(x, 0.5, self.training)
        return self.b(F.dropout(self.a(x, edge_index).relu(), 0.5, self.training), edge_index)


def right(model, loader):
    """The share of the loader's seeds whose class the model tells."""
    model.eval()
    hits = seeds = 0
    with torch.no_grad():
        for batch in loader:
            n = batch.batch_size
            hits += int((model(batch.x, batch.edge_index)[:n].argmax(1) == batch.y[:n]).sum())
            seeds += n
    return hits / seeds


def train(path):
    torch.manual_seed(1)
    info = khop.info(path)
    model = Model(info["feature_dim"], info["classes"])
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)
    loader = NeighborLoader(path, num_neighbors=[10, 10], input_nodes="train", batch_size=64, shuffle=True, seed=1)
    validation, test = (NeighborLoader(path, num_neighbors=[-1, -1], input_nodes=split, batch_size=512)
                        for split in ("val", "test"))
    best = (0.0, 0.0)
    for _ in range(8):
        model.train()
        for batch in loader:
            n = batch.batch_size
            loss = F.cross_entropy(model(batch.x, batch.edge_index)[:n], batch.y[:n].long())
            optimizer.zero_grad(), loss.backward(), optimizer.step()
        best = max(best, (right(model, validation), right(model, test)))
    return best[1]


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "graph.khop")
    make = ["convert", sys.argv[1], path] if sys.argv[1:] else [
        "generate", "sbm", path, "--nodes", "2000", "--edges", "20000", "--features", "16", "--classes", "4"]
    subprocess.run([find(), *make], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    accuracy = train(path)
    print(f"test accuracy {accuracy:.3f} after the best epoch, must be at least 0.76")
    assert accuracy >= 0.76
