"""A graph of several types in tables of Arrow: keys of text, parallel edges, splits, columns. For tests of engines."""
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet

USERS, ITEMS, BUYS = 120, 80, 3000


def tables():
    """Node and edge types as in a mapping, with tables in place of files; "row" is the number of an edge."""
    rng = np.random.default_rng(5)
    users = pa.table({
        "name": [f"u{i}" for i in rng.permutation(USERS)], "label": rng.integers(0, 4, USERS),
        "split": [["train", "val", "test"][i % 3] for i in range(USERS)],
        "x": pa.array(rng.random((USERS, 3), np.float32).tolist(), pa.list_(pa.float32()))})
    buys = pa.table({
        "user": [f"u{i}" for i in rng.integers(0, USERS, BUYS)],
        "item": [f"i{i}" for i in rng.integers(0, ITEMS, BUYS)],
        "weight": rng.random(BUYS), "row": np.arange(BUYS)})
    likes = pa.table({
        "src": [f"u{i}" for i in rng.integers(0, USERS, 200)], "dst": [f"u{i}" for i in rng.integers(0, USERS, 200)],
        "weight": rng.random(200), "row": np.arange(200)})
    nodes = {"user": {"file": users, "id": "name", "label": "label", "split": "split", "features": ["x"]}}
    edges = {("user", "buys", "item"): {"file": buys, "src": "user", "dst": "item", "columns": ["row"]},
             ("user", "likes", "user"): {"file": likes, "columns": ["row"]}}
    return nodes, edges


def swap(of, make):
    """The same with something else in place of each table; make may add to its description."""
    new = {name: dict(table) for name, table in of.items()}
    for table in new.values():
        table["file"] = make(table["file"], table)
    return new


def plain():
    """Edges between nodes with numbers, and a weight."""
    rng = np.random.default_rng(7)
    ends = rng.integers(0, 500, (2, 8000))
    return {}, {("node", "to", "node"): {"file": pa.table(
        {"src": ends[0], "dst": ends[1], "weight": rng.random(8000, np.float32), "row": np.arange(8000)}),
        "columns": ["row"]}}


def write(folder, nodes, edges, parts=3):
    """Writes tables as folders of Parquet, and returns the mapping's path."""
    def files(table, entry):
        at = folder / f"t{len(list(folder.iterdir()))}"
        at.mkdir()
        step = -(-table.num_rows // parts)
        for i in range(parts):
            pyarrow.parquet.write_table(table[i * step:(i + 1) * step], at / f"{i}.parquet", row_group_size=step // 3)
        return f"{at.name}/*.parquet"

    folder.mkdir()
    path = folder / "graph.json"
    path.write_text(mapping(*(swap(of, files) for of in (nodes, edges))))
    return path


def mapping(nodes, edges):
    return json.dumps({"nodes": nodes, "edges": {":".join(name): table for name, table in edges.items()}})
