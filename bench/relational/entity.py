"""Batches a second of the loader that RelBench's entity script trains on: PyG's, and khop's, of the same database.

    python bench/relational/entity.py FOLDER TASK [--rounds 5] [--fanouts 128,64] [--batch-size 512]

FOLDER is a database as RelBench keeps it. PyG's NeighborLoader samples the HeteroData that relbench makes of it, with
the tensor frames in memory; khop samples the dataset that it converts, and hands out HeteroData with tensor frames
(khop.relational.Tables). Both have fan-outs of two hops, trees apart, times of rows, batches of shuffled rows of the
task; each makes --batches of them, in turns. Without pyg-lib PyG has no such sampler, and khop runs alone. It prints
milliseconds a batch: median, least and most of the rounds, and how many nodes a batch had.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch_frame
import torch_geometric
from relbench import load_dataset
from relbench.modeling.graph import get_node_train_table_input, make_pkey_fkey_graph
from relbench.modeling.utils import get_stype_proposal
from torch_geometric.loader import NeighborLoader

import khop
from khop.relational import Tables


def of_pyg(folder, name, args):
    """The loader of examples/gnn_entity.py."""
    dataset = load_dataset(str(folder))
    task = dataset.load_task(name)
    db = dataset.get_db()
    kinds = {table: {column: kind for column, kind in of.items() if kind != torch_frame.text_embedded}
             for table, of in get_stype_proposal(db).items()}  # khop's batches have no text
    data, _ = make_pkey_fkey_graph(db, kinds)
    table = get_node_train_table_input(table=task.get_table("train"), task=task)
    return NeighborLoader(
        data, num_neighbors=args.fanouts, time_attr="time", input_nodes=table.nodes, input_time=table.time,
        transform=table.transform, batch_size=args.batch_size, temporal_strategy="uniform", shuffle=True,
        num_workers=args.workers, persistent_workers=args.workers > 0)


class OfKhop:
    """The same on khop."""

    def __init__(self, path, name, args):
        self.tables = Tables(path)
        self.loader = khop.Loader(
            path, args.fanouts, sampler="temporal", node_time="time", disjoint=True, seeds=f"task:{name}:train",
            batch_size=args.batch_size, shuffle=True, process="auto")

    def __iter__(self):
        return map(self.tables.to_pyg, self.loader)


def timed(loader, batches):
    """Seconds and nodes a batch, after the first."""
    made = iter(loader)
    next(made)
    begin, nodes, count = time.perf_counter(), 0, 0
    for batch in made:
        nodes, count = nodes + batch.num_nodes, count + 1
        if count == batches:
            break
    return (time.perf_counter() - begin) / count, nodes / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("task")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--workers", type=int, default=0, help="worker processes of PyG's loader")
    parser.add_argument("--fanouts", default="128,64")
    args = parser.parse_args()
    args.fanouts = [int(f) for f in args.fanouts.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/db.khop"
        subprocess.run([os.environ.get("KHOP_BIN", "khop"), "convert", args.folder, path], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ways = {"khop": OfKhop(path, args.task, args)}
        if torch_geometric.typing.WITH_PYG_LIB:
            ways["PyG"] = of_pyg(args.folder, args.task, args)
        seen = {name: [] for name in ways}
        for _ in range(args.rounds):
            for name, loader in ways.items():
                seen[name].append(timed(loader, args.batches))
    print(f"PyG {torch_geometric.__version__}, torch {torch.__version__}, {os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.1f}\n| | ms a batch | nodes a batch |\n|---|---|---|")
    for name, took in seen.items():
        seconds, nodes = zip(*took)
        print(f"| {name} | {statistics.median(seconds) * 1e3:,.1f} ({min(seconds) * 1e3:,.1f}-"
              f"{max(seconds) * 1e3:,.1f}) | {statistics.mean(nodes):,.0f} |")


if __name__ == "__main__":
    sys.exit(main())
