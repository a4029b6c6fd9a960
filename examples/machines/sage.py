"""The model that these examples train: GraphSAGE in plain torch."""
import torch


class Sage(torch.nn.Module):
    def __init__(self, features: int, classes: int, layers: int = 2, hidden: int = 64) -> None:
        super().__init__()
        widths = [features] + [hidden] * (layers - 1) + [classes]
        self.own = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.others = torch.nn.ModuleList(torch.nn.Linear(a, b, bias=False) for a, b in zip(widths, widths[1:]))

    def forward(self, batch):
        x, (source, target) = batch.x, batch.edge_index
        degree = torch.bincount(target, minlength=len(x)).clamp(min=1).unsqueeze(1)
        for i, (own, others) in enumerate(zip(self.own, self.others)):
            mean = torch.zeros_like(x).index_add(0, target, x[source]) / degree
            x = own(x) + others(mean)
            x = x.relu() if i + 1 < len(self.own) else x
        return x[:batch.batch_size]
