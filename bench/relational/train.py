"""RelBench's models, tasks and metrics on batches of khop and on those of PyG's loaders, seed by seed.

    python train.py FOLDER DATASET.khop --task plane_late --seeds 5

FOLDER is a database in RelBench's form, DATASET.khop what `khop convert` makes of it. Tasks of entities train as
RelBench's gnn_entity does, those of recommendation as gnn_recommendation: "pyg" with the loaders of these scripts,
"lines" with khop's of the same names and signatures, the two lines of Lines below, and "khop" with khop.Loader. Prints
a line of JSON for each run, then the means. PyG's loaders need pyg-lib: without it RelBench's trees are not those of
each row's time. Times of FOLDER that are not in nanoseconds are brought to that in a copy: RelBench takes them so.
"""
import argparse
import json
import os
import pathlib
import shutil
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from relbench import load_dataset
from relbench.base import TaskType
from relbench.modeling.graph import get_link_train_table_input, get_node_train_table_input, make_pkey_fkey_graph
from relbench.modeling.loader import LinkNeighborLoader
from relbench.modeling.nn import HeteroEncoder, HeteroGraphSAGE, HeteroTemporalEncoder
from relbench.modeling.utils import get_stype_proposal
from torch_frame import stype
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import MLP
from torch_geometric.seed import seed_everything

import khop
import khop.pyg
import khop.pyg.relbench
import khop.relational

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("dataset")
parser.add_argument("--task", required=True)
parser.add_argument("--seeds", type=int, default=5)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--steps", type=int, default=30, help="batches of an epoch, at most")
parser.add_argument("--channels", type=int, default=32)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--fanouts", type=int, nargs="+", default=[16, 8])
parser.add_argument("--lr", type=float, default=0.005)
parser.add_argument("--loaders", nargs="+", default=["khop", "lines", "pyg"])
parser.add_argument("--only-load", action="store_true", help="time the loaders alone")
args = parser.parse_args()
torch.set_num_threads(1)


def in_nanoseconds(folder, copy):
    """A copy of a database whose times are in nanoseconds."""
    shutil.copytree(folder, copy)
    for path in pathlib.Path(copy).rglob("*.parquet"):
        table = pq.read_table(path)
        types = [pa.timestamp("ns") if pa.types.is_timestamp(f.type) else f.type for f in table.schema]
        pq.write_table(table.cast(pa.schema(list(zip(table.schema.names, types)))), path)
    return copy


scratch = tempfile.TemporaryDirectory()
dataset = load_dataset(in_nanoseconds(args.folder, f"{scratch.name}/db"))
task = dataset.load_task(args.task)
recommends = task.task_type == TaskType.RECOMMENDATION
tables = khop.relational.Tables(args.dataset)


class Model(torch.nn.Module):
    """The model of RelBench's examples, of its own parts; data is what it looks at before a batch."""

    def __init__(self, data, col_stats, out, norm, shallow=()):
        super().__init__()
        self.encoder = HeteroEncoder(args.channels, {t: data[t].tf.col_names_dict for t in data.node_types}, col_stats,
                                     torch_frame_model_kwargs={"channels": args.channels, "num_layers": 2})
        self.temporal = HeteroTemporalEncoder([t for t in data.node_types if "time" in data[t]], args.channels)
        self.gnn = HeteroGraphSAGE(data.node_types, data.edge_types, args.channels, "sum", len(args.fanouts))
        self.head = MLP(args.channels, out_channels=out, norm=norm, num_layers=1)
        self.shallow = torch.nn.ModuleDict({t: torch.nn.Embedding(data[t].num_nodes, args.channels) for t in shallow})
        for embedding in self.shallow.values():
            torch.nn.init.normal_(embedding.weight, std=0.1)

    def forward(self, batch, table):
        seed_time = batch[table].seed_time
        x = self.encoder(batch.tf_dict)
        for t, rel in self.temporal(seed_time, batch.time_dict, batch.batch_dict).items():
            x[t] = x[t] + rel
        for t, embedding in self.shallow.items():
            x[t] = x[t] + embedding(batch[t].n_id)
        return self.head(self.gnn(x, batch.edge_index_dict)[table][:seed_time.size(0)])


class Khop:
    """Batches of khop."""

    data, stats = property(lambda self: tables.data), property(lambda self: tables.col_stats)

    def loader(self, **options):
        return khop.Loader(args.dataset, args.fanouts, sampler="temporal", time="", node_time="time",
                           batch_size=args.batch_size, process="inside", **options)

    def entity(self, split, seed):
        with self.loader(seeds=f"task:{args.task}:{split}", disjoint=True, shuffle=split == "train",
                         seed=seed) as batches:
            for batch in batches:
                yield tables.to_pyg(batch)

    def ends(self, seed):
        with self.loader(seeds=f"task:{args.task}:train", same_time=1, shuffle=True, drop_last=True, seed=seed,
                         negatives="uniform", triplets=True) as batches:
            for batch in batches:
                data = tables.to_pyg(batch)

                def ends(model, data=data):
                    source, target = model(data, task.src_entity_table), model(data, task.dst_entity_table)
                    return source[data.src_index], target[data.dst_pos_index], target[data.dst_neg_index[:, 0]]
                yield ends

    def rows(self, table, ids, at):
        options = tables.at(table, at) if ids is None else {"input_nodes": (table, ids),
                                                            "input_time": np.full(len(ids), at)}
        with self.loader(**options, disjoint=True) as batches:
            for batch in batches:
                yield tables.to_pyg(batch, seed_time=at)


class Pyg:
    """Batches of RelBench's and PyG's loaders."""

    nodes, links = NeighborLoader, LinkNeighborLoader

    def __init__(self):
        self.data, self.stats = self.graph()

    def graph(self):
        kinds = get_stype_proposal(dataset.get_db())
        text = {stype.text_embedded, stype.text_tokenized, stype.multicategorical}
        kinds = {t: {c: k for c, k in of.items() if k not in text} for t, of in kinds.items()}
        return make_pkey_fkey_graph(dataset.get_db(), kinds)

    def _loader(self, table, ids, at, **options):
        return self.nodes(self.data, args.fanouts, (table, ids), at, time_attr="time", batch_size=args.batch_size,
                          **options)

    def entity(self, split, seed):
        rows = get_node_train_table_input(task.get_table(split, mask_input_cols=False), task)
        return self._loader(*rows.nodes, rows.time, shuffle=split == "train", transform=rows.transform)

    def ends(self, seed):
        count = self.data[task.dst_entity_table].num_nodes
        rows = get_link_train_table_input(task.get_table("train"), task, count)
        for three in self.links(
                self.data, args.fanouts, rows.src_nodes, rows.dst_nodes, count, rows.src_time, share_same_time=True,
                time_attr="time", batch_size=args.batch_size):
            tables_of = (task.src_entity_table, task.dst_entity_table, task.dst_entity_table)
            yield lambda model, three=three: [model(batch, t) for batch, t in zip(three, tables_of)]

    def rows(self, table, ids, at):
        ids = torch.arange(self.data[table].num_nodes) if ids is None else torch.from_numpy(ids)
        return self._loader(table, ids, torch.full((len(ids),), at))


class Lines(Pyg):
    """The same with the two lines changed: where loaders come from, and what makes the graph."""

    nodes, links = khop.pyg.NeighborLoader, khop.pyg.relbench.LinkNeighborLoader

    def graph(self):
        return khop.relational.graph(args.dataset)


def loss_of(step, model):
    if not recommends:
        y = step[task.entity_table].y
        p = model(step, task.entity_table).view(-1)
        return F.binary_cross_entropy_with_logits(p, y.float()) if task.task_type == TaskType.BINARY_CLASSIFICATION \
            else F.l1_loss(p, y.float())
    source, positive, negative = step(model)
    return F.softplus(-((source * positive).sum(1, keepdim=True) - source @ negative.t())).mean()


@torch.no_grad()
def evaluate(source, model):
    model.eval()
    table = task.get_table("val")
    if not recommends:
        return task.evaluate(torch.cat([model(b, task.entity_table).view(-1).sigmoid()
                                        for b in source.entity("val", 0)]).numpy(), table)
    at = int(dataset.val_timestamp.timestamp())
    items = torch.cat([model(b, task.dst_entity_table) for b in source.rows(task.dst_entity_table, None, at)])
    ids = table.df[task.src_entity_col].values
    best = [torch.topk(model(b, task.src_entity_table) @ items.t(), task.eval_k, dim=1)[1]
            for b in source.rows(task.src_entity_table, ids, at)]
    return task.evaluate(torch.cat(best).numpy(), table)


def run(source, seed):
    seed_everything(seed)
    steps = source.ends if recommends else lambda seed: source.entity("train", seed)
    model = Model(source.data, source.stats, args.channels if recommends else 1,
                  "layer_norm" if recommends else "batch_norm", [task.dst_entity_table] if recommends else [])
    optimizer, began, loading, done = torch.optim.Adam(model.parameters(), args.lr), time.time(), 0., 0
    for epoch in range(args.epochs):
        model.train()
        last = time.time()
        for i, step in enumerate(steps(1000 * seed + epoch)):
            loading, done = loading + time.time() - last, done + 1
            if not args.only_load:
                loss = loss_of(step, model)
                optimizer.zero_grad(), loss.backward(), optimizer.step()
            last = time.time()
            if i + 1 == args.steps:
                break
    took = time.time() - began
    metrics = {} if args.only_load else evaluate(source, model)
    return {"train_s": round(took, 2), "load_ms_a_batch": round(1000 * loading / done, 2),
            **{k: round(float(v), 4) for k, v in metrics.items()}}


results = {}
for name in args.loaders:
    source = {"khop": Khop, "lines": Lines, "pyg": Pyg}[name]()
    for seed in range(args.seeds):
        results.setdefault(name, []).append(run(source, seed))
        print(json.dumps({"loader": name, "seed": seed, **results[name][-1]}), flush=True)
print(f"load {os.getloadavg()[0]:.1f}")
for name, of in results.items():
    print(name, json.dumps({
        k: f"{np.mean([r[k] for r in of]):.4f} +- {np.std([r[k] for r in of]):.4f}" for k in of[0]}))
