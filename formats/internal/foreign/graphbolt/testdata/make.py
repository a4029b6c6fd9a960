"""Writes a dataset in GraphBolt's layout and has GraphBolt preprocess it. Run it in this folder; needs dgl."""
import os
import shutil

import numpy as np
import pandas as pd
import yaml
from dgl import graphbolt as gb

shutil.rmtree("typed", ignore_errors=True)
os.makedirs("typed/data")
rng = np.random.default_rng(5)


def save(name, array, format="numpy"):
    np.save(f"typed/data/{name}.npy", array)
    return {"format": format, "path": f"data/{name}.npy"}


writes = np.array([[0, 1, 2, 2], [3, 0, 1, 4]])
np.savetxt("typed/data/cites.csv", [[0, 1], [1, 2], [4, 0], [3, 3], [1, 0]], "%d", ",")
meta = {
    "dataset_name": "typed",
    "graph": {
        "nodes": [{"type": "author", "num": 3}, {"type": "paper", "num": 5}],
        "edges": [{"type": "author:writes:paper", **save("writes", writes)},
                  {"type": "paper:cites:paper", "format": "csv", "path": "data/cites.csv"}]},
    "feature_data": [
        {"domain": "node", "type": "paper", "name": "feat", **save("feat", (rng.integers(-9, 9, (5, 2)) / 4).astype(np.float16))},
        {"domain": "node", "type": "author", "name": "age", **save("age", np.arange(3, dtype=np.int32))},
        {"domain": "edge", "type": "author:writes:paper", "name": "share", **save("share", np.array([.5, 1, .25, 2], np.float32))}],
    "tasks": [{"name": "topics", "num_classes": 3, **{
        split: [{"type": "paper", "data": [{"name": "seed_nodes", **save(split + "-nodes", np.array(nodes))},
                                           {"name": "labels", **save(split + "-labels", np.array(labels))}]}]
        for split, nodes, labels in (("train_set", [0, 4], [2, 1]), ("validation_set", [2], [0]), ("test_set", [1], [1]))}}]}
with open("typed/metadata.yaml", "w") as f:
    yaml.safe_dump(meta, f, sort_keys=False)
to_numpy = pd.Series.to_numpy
pd.Series.to_numpy = lambda s, *a, **k: to_numpy(s, *a, **k).copy()  # GraphBolt adds in place, which pandas 3 forbids
d = gb.OnDiskDataset("typed").load()


def array(t):
    return "[" + ",".join("NaN" if v != v else repr(float(v)).removesuffix(".0") for v in t.double().flatten().tolist()) + "]"


# What GraphBolt has loaded, as sourcetest.Spell writes it; edges are in the order of their targets.
g, read, task = d.graph, d.feature.read, d.tasks[0]
labels = np.full(5, -1)
for split in (task.train_set, task.validation_set, task.test_set):
    nodes, values = split._itemsets["paper"]._items
    labels[nodes] = values
half = " ".join(f"{v:x}" for v in read("node", "paper", "feat").numpy().view(np.uint16).flatten())
text = f"3 author\n  age int32[]: {array(read('node', 'author', 'age'))}\n5 paper, 3 classes\n  feature float16[2]: [{half}]\n"
text += "  label int64[]: [" + ",".join(map(str, labels)) + "]\n"
for i, name in enumerate(("author:writes:paper", "paper:cites:paper")):
    assert g.edge_type_to_id[name] == i
    src, dst = name.split(":")[::2]
    offset = g.node_type_offset
    pairs = [(int(g.indices[e]) - int(offset[g.node_type_to_id[src]]), v - int(offset[g.node_type_to_id[dst]]))
             for v in range(len(g.csc_indptr) - 1) for e in range(g.csc_indptr[v], g.csc_indptr[v + 1]) if g.type_per_edge[e] == i]
    text += name + " " + " ".join("%d>%d" % p for p in pairs) + "\n"
for name, split in (("train", task.train_set), ("val", task.validation_set), ("test", task.test_set)):
    text += f"{name} 0 of paper: [{' '.join(str(int(v)) for v in split._itemsets['paper']._items[0])}]\n"
with open("typed.txt", "w", encoding="utf-8", newline="\n") as f:
    f.write(text)
os.remove("typed/preprocessed/dataset_hash_value.txt")
