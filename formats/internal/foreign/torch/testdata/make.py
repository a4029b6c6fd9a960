"""Writes graphs by PyTorch Geometric, and what it reads of them, as sourcetest.Spell writes it. Run it in this folder."""
import numpy as np
import torch
from torch_geometric.data import Data, HeteroData, InMemoryDataset

NAMES = {"x": "feature", "y": "label", "edge_attr": "feature", "edge_weight": "weight", "edge_time": "time", "time": "time"}


def value(v):
    return "NaN" if v != v else repr(float(v)).removesuffix(".0")


def array(t):
    return "[" + ",".join(value(v) for v in t.double().flatten().tolist()) + "]"


def shape(t):
    return "[" + " ".join(str(n) for n in t.shape[1:] if t.shape[1:].numel() > 1) + "]"


def dtype(t):
    return "uint8" if t.dtype == torch.bool else str(t.dtype).removeprefix("torch.")


def nodes(name, store, skip=()):
    out = f"{store.num_nodes} {name}" + (f", {int(store.y.max()) + 1} classes" if "y" in store else "") + "\n"
    for k in sorted(k for k, v in store.items() if torch.is_tensor(v) and not k.startswith(("edge", "train", *skip))):
        out += f"  {NAMES.get(k, k)} {dtype(store[k])}{shape(store[k])}: {array(store[k])}\n"
    return out


def edges(store, columns, fill):
    rows = []
    for i in range(store.edge_index.shape[1]):
        row = "%d>%d" % tuple(store.edge_index[:, i])
        for c in columns:
            row += ":" + (",".join(value(v) for v in store[c][i].double().flatten().tolist()) if c in store else fill[c])
        rows.append(row)
    return " ".join(rows)


def write(name, graph, text):
    with open(name + ".txt", "w", encoding="utf-8", newline="\n") as f:
        f.write(text)


torch.manual_seed(1)
plain = Data(
    x=torch.randint(-64, 64, (9, 3)) / 8, y=torch.arange(9) % 4, edge_index=torch.randint(0, 9, (20, 2)).t(),
    edge_attr=(torch.randint(0, 9, (20, 4)) / 2)[:, 1:3], edge_weight=torch.rand(20).half().double(), pos=torch.arange(18.).view(2, 9).t(),
    train_mask=torch.rand(9, 2) > .5, name="plain", num_things=3)
torch.save(plain, "data.pt")
torch.save(plain, "old.pt", _use_new_zipfile_serialization=False)
InMemoryDataset.save([plain], "processed.pt")
torch.save(InMemoryDataset.collate([plain]), "collated.pt")
back = torch.load("data.pt")
text = nodes("node", back)
text += "edge feature float32[2]\nedge weight float64[]\nnode:edge:node " + edges(back, ["edge_attr", "edge_weight"], {}) + "\n"
for i in range(2):
    text += f"train {i} of node: [{' '.join(str(v) for v in back.train_mask[:, i].nonzero().flatten().tolist())}]\n"
for name in ("data", "old", "processed", "collated"):
    write(name, back, text)

typed = HeteroData()
typed["paper"].x = torch.randint(-64, 64, (6, 2)) / 8
typed["paper"].y = torch.tensor([2, 0, 1, 1, 0, 2])
typed["paper"].train_mask = torch.tensor([True, False, False, True, True, False])
typed["author"].num_nodes = 5
typed["author"].age = torch.arange(5, dtype=torch.int32)
typed["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 4, 4], [5, 0, 1, 1]])
typed["author", "writes", "paper"].edge_weight = torch.tensor([.5, 1, 2, 4])
typed["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1, 2], [3, 4, 5]])
typed["paper", "cites", "paper"].time = torch.tensor([3, 4, 5])
torch.save(typed, "hetero.pt")
InMemoryDataset.save([typed], "hetero-processed.pt")
back = torch.load("hetero.pt")
columns = {"edge_weight": "1", "time": "-9.223372036854776e+18"}
text = nodes("paper", back["paper"]) + nodes("author", back["author"]) + "edge weight float32[]\nedge time int64[]\n"
for e in back.edge_types:
    text += ":".join(e) + " " + edges(back[e], columns, columns) + "\n"
text += "train 0 of paper: [0 3 4]\n"
for name in ("hetero", "hetero-processed"):
    write(name, back, text)
