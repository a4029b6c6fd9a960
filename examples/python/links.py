"""Recommendation: which item will a user take? Links of a bipartite graph, by PyG's loop with khop's loader.

Users like items of their own taste. The model sees half of the links, and must tell the other half from random pairs.
It needs torch and torch_geometric: python links.py
"""
import torch
import torch.nn.functional as F
from torch_geometric.data import HeteroData
from torch_geometric.nn import SAGEConv, to_hetero

from khop.pyg import LinkNeighborLoader

torch.manual_seed(3)
USERS, ITEMS, TASTES = 600, 200, 4
user_taste, item_taste = torch.randint(0, TASTES, (USERS,)), torch.randint(0, TASTES, (ITEMS,))
pairs = torch.stack([torch.randint(0, USERS, (30_000,)), torch.randint(0, ITEMS, (30_000,))])
pairs = pairs[:, user_taste[pairs[0]] == item_taste[pairs[1]]].unique(dim=1)
pairs = pairs[:, torch.randperm(pairs.shape[1])]
seen, hidden = pairs[:, :pairs.shape[1] // 2], pairs[:, pairs.shape[1] // 2:]

data = HeteroData()
data["user"].x, data["item"].x = torch.randn(USERS, 16), torch.randn(ITEMS, 16) + F.one_hot(item_taste, 16)
data["user", "takes", "item"].edge_index = seen
data["item", "taken_by", "user"].edge_index = seen.flip(0)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = SAGEConv((-1, -1), 32), SAGEConv((-1, -1), 32)

    def forward(self, x, edge_index):
        return self.b(self.a(x, edge_index).relu(), edge_index)


encoder = to_hetero(Encoder(), data.metadata())


def loader(links, negatives, shuffle=False):
    return LinkNeighborLoader(
        data, num_neighbors=[10, 10], edge_label_index=(("user", "takes", "item"), links), batch_size=512,
        neg_sampling_ratio=negatives, shuffle=shuffle, seed=1)


def score(batch):
    z, (u, i) = encoder(batch.x_dict, batch.edge_index_dict), batch["user", "takes", "item"].edge_label_index
    return (z["user"][u] * z["item"][i]).sum(1), batch["user", "takes", "item"].edge_label.float()


for batch in loader(seen, 1):  # makes the lazy parameters
    with torch.no_grad():
        score(batch)
    break
optimizer = torch.optim.Adam(encoder.parameters(), 0.01)
for epoch in range(5):
    for batch in loader(seen, 1, shuffle=True):
        loss = F.binary_cross_entropy_with_logits(*score(batch))
        optimizer.zero_grad(), loss.backward(), optimizer.step()
with torch.no_grad():
    parts = [score(batch) for batch in loader(hidden, 1)]
logits, labels = (torch.cat(p) for p in zip(*parts))
order = logits.argsort()
ranks = torch.empty(len(order)).scatter_(0, order, torch.arange(1., len(order) + 1))
n = labels.sum()
auc = (ranks[labels > 0].sum() - n * (n + 1) / 2) / (n * (len(labels) - n))
print(f"AUC of hidden links {auc:.2f}, must be above 0.75")
assert auc > 0.75
