"""Typed nodes and edges: the venue of a paper by a Heterogeneous Graph Transformer, with HGT's own sampling.

It needs torch and torch_geometric: python typed_hgt.py
"""
import torch
import torch.nn.functional as F
from torch_geometric.data import HeteroData
from torch_geometric.nn import HGTConv, Linear

from khop.pyg import HGTLoader

torch.manual_seed(2)
PAPERS, AUTHORS, VENUES = 1500, 500, 3
venue, habit = torch.randint(0, VENUES, (PAPERS,)), torch.randint(0, VENUES, (AUTHORS,))
pairs = torch.stack([torch.randint(0, AUTHORS, (20_000,)), torch.randint(0, PAPERS, (20_000,))])
fits = (habit[pairs[0]] == venue[pairs[1]]) | (torch.rand(pairs.shape[1]) < 0.1)  # most write for one venue
pairs = pairs[:, fits]
data = HeteroData()
data["paper"].x, data["author"].x = torch.randn(PAPERS, 8), torch.randn(AUTHORS, 8) + 2 * F.one_hot(habit, 8)
data["paper"].y, data["paper"].train_mask = venue, torch.rand(PAPERS) < 0.4
data["author", "writes", "paper"].edge_index = pairs
data["paper", "written_by", "author"].edge_index = pairs.flip(0)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.ModuleDict({t: Linear(8, 32) for t in data.node_types})
        self.conv, self.last = HGTConv(32, 32, data.metadata(), heads=2), Linear(32, VENUES)

    def forward(self, x, edge_index):
        return self.last(self.conv({t: self.first[t](v).relu() for t, v in x.items()}, edge_index)["paper"])


model = Model()
optimizer = torch.optim.Adam(model.parameters(), 0.01)
loader = HGTLoader(data, num_samples=[256, 256], input_nodes=("paper", data["paper"].train_mask), batch_size=128,
                   shuffle=True, seed=1)
for epoch in range(6):
    for batch in loader:
        n = batch["paper"].batch_size
        loss = F.cross_entropy(model(batch.x_dict, batch.edge_index_dict)[:n], batch["paper"].y[:n])
        optimizer.zero_grad(), loss.backward(), optimizer.step()
with torch.no_grad():
    right = model(data.x_dict, data.edge_index_dict).argmax(1) == venue
accuracy = right[~data["paper"].train_mask].float().mean()
print(f"accuracy {accuracy:.2f}, must be above 0.8")
assert accuracy > 0.8
