"""Writes small graphs laid out as MAG240M and IGB are, and what ogb.lsc reads of the first, as sourcetest.Spell writes
it. Run it in this folder; needs ogb and torch."""
import hashlib
import os
import shutil

import numpy as np
import torch
from ogb.lsc import MAG240MDataset


def save(path, a):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    np.save(path, a)


def array(a):
    return "[" + ",".join(repr(float(v)).removesuffix(".0") for v in np.asarray(a, np.float64).ravel()) + "]"


def brief(line):
    return line if len(line) < 240 else f"{line[:100]}... sha256 {hashlib.sha256(line.encode()).hexdigest()[:16]}"


def pairs(e):
    return " ".join(f"{s}>{d}" for s, d in zip(*e.tolist()))


shutil.rmtree("mag", ignore_errors=True)
shutil.rmtree("igb", ignore_errors=True)
mag = "mag/mag240m_kddcup2021/"
save(mag + "processed/paper/node_feat.npy", np.arange(12).reshape(4, 3).astype(np.float16) / 2)
save(mag + "processed/paper/node_label.npy", np.array([1, np.nan, 0, 2], np.float32))
save(mag + "processed/paper/node_year.npy", np.array([2001, 2002, 2003, 2004]))
save(mag + "processed/author___writes___paper/edge_index.npy", np.array([[0, 1, 1], [0, 2, 3]]))
save(mag + "processed/author___affiliated_with___institution/edge_index.npy", np.array([[0, 1, 2], [0, 0, 0]]))
save(mag + "processed/paper___cites___paper/edge_index.npy", np.array([[3, 2, 1], [0, 1, 0]]))
torch.save({"paper": 4, "author": 3, "institution": 1, "num_classes": 3}, mag + "meta.pt")
torch.save({"train": np.array([0]), "valid": np.array([2]), "test-whole": np.array([3, 1]), "test-dev": np.array([3]),
            "test-challenge": np.array([1])}, mag + "split_dict.pt")
open(mag + "RELEASE_v1.txt", "w").close()
d = MAG240MDataset("mag")
assert d.num_authors == 3 and d.num_institutions == 1
text = "4 paper, 3 classes\n"
text += "  feature float16[3]: [" + " ".join(f"{v:x}" for v in d.paper_feat.view(np.uint16).ravel()) + "]\n"
text += f"  label int64[]: {array(np.nan_to_num(d.paper_label, nan=-1))}\n  year int64[]: {array(d.paper_year)}\n"
text += f"{d.num_authors} author\n{d.num_institutions} institution\n"
for t in (("author", "affiliated_with", "institution"), ("author", "writes", "paper"), ("paper", "cites", "paper")):
    text += ":".join(t) + " " + pairs(d.edge_index(*t)) + "\n"
for key, name in (("train", "train"), ("valid", "val"), ("test-whole", "test")):
    text += f"{name} 0 of paper: [{' '.join(map(str, d.get_idx_split(key)))}]\n"
with open("mag.txt", "w", newline="\n") as f:
    f.write(text)

# As igb.dataloader maps them: edges by numpy.load, the rest of the largest sizes without a header.
feat = (np.arange(3 * 1024) % 251).astype(np.float32).reshape(3, 1024)
os.makedirs("igb/processed/paper")
feat.tofile("igb/processed/paper/node_feat.npy")
np.array([4, 0, 18], np.float32).tofile("igb/processed/paper/node_label_19.npy")
np.array([400, 7, 0], np.float32).tofile("igb/processed/paper/node_label_2K.npy")
save("igb/processed/paper__cites__paper/edge_index.npy", np.array([[0, 1], [2, 1], [1, 0]]))
read = np.memmap("igb/processed/paper/node_feat.npy", dtype="float32", mode="r", shape=(3, 1024))
text = "3 paper, 19 classes\n" + brief(f"  feature float32[1024]: {array(read)}") + "\n  label int64[]: [4,0,18]\n"
text += "  node_label_2K float32[]: [400,7,0]\npaper:cites:paper 0>1 2>1 1>0\n"
with open("igb.txt", "w", newline="\n") as f:
    f.write(text)
