"""khop.pyg.NeighborLoader beside PyG's own: batches a second with features, and what a PyG GraphSAGE learns from them.

    python bench/peers/pyg_names.py speed                 # a graph of the shape of ogbn-products, [15, 10, 5] x 1024
    python bench/peers/pyg_names.py first                 # a loader of 500 nodes made, to its first batch
    python bench/peers/pyg_names.py train FOLDER          # tolokers and facebook-page of FOLDER, ten random seeds
    python bench/peers/pyg_names.py page FOLDER           # both, and the section of docs/results/cpu.md on them

It needs torch, torch_geometric and the khop package (PYTHONPATH=integrations/python/src, and KHOP_BIN). PyG's own
loader runs where torch-sparse or pyg-lib is installed (setup.sh makes such an environment); without them khop's runs
alone, and the report says so. Ways take turns, round after round, so that what else the machine does falls on all of
them. Graphs lie in --work.
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import torch
import torch_geometric
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader as Own
from torch_geometric.nn import SAGEConv

import khop
from khop.pyg import NeighborLoader

warnings.filterwarnings("ignore")
PYG_SAMPLES = torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE
BACKEND = "pyg-lib" if torch_geometric.typing.WITH_PYG_LIB else "torch-sparse" if PYG_SAMPLES else None
KHOP = os.environ.get("KHOP_BIN", "khop")


def program(*arguments):
    subprocess.run([KHOP, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def arrays(dataset):
    """A dataset's arrays as files of NumPy, made once."""
    folder = dataset.with_suffix(".numpy")
    if not folder.exists():
        program("export", dataset, folder, "--to", "numpy")
    return {f.stem: np.load(f) for f in folder.glob("*.npy")}


# --- speed ---

ALONE = "`khop bench`, without Python"


def alone(dataset, args):
    """What khop's own loop takes for such batches, which nobody reads: seconds and nodes a batch."""
    out = subprocess.run([KHOP, "bench", str(dataset), "--fanouts", ",".join(map(str, args.fanouts)), "--frontier",
                          "new", "--shuffle",
                          "--batch-size", str(args.batch_size), "--batches", str(3 * args.batches), "--no-memcpy",
                          "--json"],
                         check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    report = json.loads(out)
    return report["seconds"] / report["batches"], report["nodes_per_batch"]


def speed(args):
    dataset = args.work / f"products-{args.nodes}.khop"
    if not dataset.exists():
        program("generate", "products", dataset, "--nodes", args.nodes)
    a = arrays(dataset)
    data = Data(x=torch.from_numpy(a["node_feat"]), y=torch.from_numpy(a["node_label"]),
                edge_index=torch.from_numpy(a["edge_index"].astype(np.int64)), num_nodes=int(a["num_nodes"]))
    how = dict(num_neighbors=args.fanouts, batch_size=args.batch_size, shuffle=True)
    train = torch.from_numpy(a["train_idx"].astype(np.int64)) if "train_idx" in a else None
    ways = {"khop.pyg, in memory": NeighborLoader(data, input_nodes=train, **how),
            "khop.pyg, dataset": NeighborLoader(str(dataset), input_nodes="train" if train is not None else None,
                                                **how)}
    if PYG_SAMPLES:
        ways = {f"PyG, {BACKEND}": Own(data, input_nodes=train, **how), **ways}
    seconds = {way: [] for way in ways}
    sizes = {way: [] for way in ways}
    for _ in range(args.rounds):
        for way, loader in ways.items():
            batches = itertools.chain.from_iterable(itertools.repeat(loader))
            for _ in range(args.warm):
                next(batches)
            begin = time.perf_counter()
            for _ in range(args.batches):
                batch = next(batches)
                batch.x.sum()  # every element is read once
                sizes[way].append(batch.num_nodes)
            seconds[way].append((time.perf_counter() - begin) / args.batches)
            del batches, batch
        seconds_alone, nodes = alone(dataset, args)
        seconds.setdefault(ALONE, []).append(seconds_alone)
        sizes.setdefault(ALONE, []).append(nodes)
    report = {way: {"seconds_a_batch": statistics.median(s), "rounds": s, "nodes_a_batch": statistics.mean(sizes[way])}
              for way, s in seconds.items()}
    first = next(iter(report.values()))["seconds_a_batch"]
    for way, r in report.items():
        times = f", {first / r['seconds_a_batch']:.1f} times PyG's" if PYG_SAMPLES else ""
        print(f"{way}: {1e3 * r['seconds_a_batch']:.2f} ms a batch of {r['nodes_a_batch']:,.0f} nodes{times}")
    return report


# --- the first batch ---

def resident():
    """MB of memory that this process has."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def takes(make):
    """MB more that a process has when it has made a loader and its first batch."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        before = resident()
        loader = make()
        batch = next(iter(loader))
        os.write(write, str(resident() - before).encode())
        os._exit(batch.batch_size != 64)
    os.close(write)
    with open(read) as said:
        more = float(said.read())
    os.waitpid(child, 0)
    return more


def first(args):
    """Milliseconds from a graph of 500 nodes in memory to the first batch, and the MB that it takes in a process that
    has made no other. Loaders are made in turn, after all others those of a server, whose end takes the caches."""
    draw = torch.Generator().manual_seed(0)
    data = Data(x=torch.randn(500, 32, generator=draw), edge_index=torch.randint(500, (2, 3000), generator=draw))
    ways = {"khop.pyg, in this process": (NeighborLoader, {}),
            "khop.pyg, by a server": (NeighborLoader, {"options": {"process": "server"}})}
    if PYG_SAMPLES:
        ways = {f"PyG, {BACKEND}": (Own, {}), **ways}
    *inside, server = ways
    make = lambda kind, how: kind(data, [10, 10], batch_size=64, shuffle=True, **how)
    memory = {way: takes(lambda way=way: make(*ways[way])) for way in ways}
    report = {way: [] for way in ways}
    for way in inside * args.rounds + [server] * args.rounds:
        begin = time.perf_counter()
        loader = make(*ways[way])
        batch = next(iter(loader))
        report[way].append(1e3 * (time.perf_counter() - begin))
        assert batch.batch_size == 64
        if hasattr(loader, "close"):
            loader.close()
    for way, ms in report.items():
        print(f"{way}: {ms[0]:.1f} ms at first, then {statistics.median(ms[1:]):.1f} ({min(ms[1:]):.1f} to "
              f"{max(ms[1:]):.1f}); {memory[way]:.1f} MB")
    return report


# --- training ---

class SAGE(torch.nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.first, self.second = SAGEConv(features, hidden), SAGEConv(hidden, classes)

    def forward(self, x, edge_index):
        return self.second(F.dropout(F.relu(self.first(x, edge_index)), 0.5, self.training), edge_index)


def graphs(args):
    for name, source, options in [
        ("tolokers", args.folder / "heterophilous/tolokers.npz", ["--symmetrise"]),
        ("facebook-page", args.folder / "musae-facebook-page", ["--symmetrise"]),
    ]:
        if args.graph not in (None, name):
            continue
        dataset = args.work / f"{name}.khop"
        if not dataset.exists():
            program("convert", source, dataset, *options)
        a = arrays(dataset)
        x = torch.from_numpy(a["node_feat"]).float()
        if x.shape[1] > 512:  # PyG's layer would make a row of this width for each edge
            x = x @ torch.randn(x.shape[1], 128, generator=torch.Generator().manual_seed(0))
        x, y = (x - x.mean(0)) / (x.std(0) + 1e-6), torch.from_numpy(a["node_label"]).long().view(-1)
        yield name, Data(x=x, y=y, edge_index=torch.from_numpy(a["edge_index"].astype(np.int64)))


def score(out, y, classes):
    """ROC AUC of two classes, else accuracy."""
    if classes > 2:
        return float((out.argmax(1) == y).float().mean())
    p = (out[:, 1] - out[:, 0]).numpy()
    ranks = np.empty(len(p))
    ranks[np.argsort(p, kind="stable")] = np.arange(1, len(p) + 1)
    positive = y.numpy() == 1
    n, m = positive.sum(), (~positive).sum()
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


def learn(data, make, seed, epochs):
    """The test score at the best epoch of validation."""
    torch.manual_seed(seed)
    order, n, classes = torch.randperm(data.num_nodes), data.num_nodes, int(data.y.max()) + 1
    train, val, test = order[:n // 2], order[n // 2:3 * n // 4], order[3 * n // 4:]
    model = SAGE(data.x.shape[1], 64, classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader, best = make(train, seed), (0.0, 0.0)
    for _ in range(epochs):
        model.train()
        for batch in loader:
            out = model(batch.x, batch.edge_index)[:batch.batch_size]
            optimizer.zero_grad()
            F.cross_entropy(out, batch.y[:batch.batch_size]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            out = model(data.x, data.edge_index)
        best = max(best, (score(out[val], data.y[val], classes), score(out[test], data.y[test], classes)))
    if hasattr(loader, "close"):
        loader.close()
    return best[1]


def train(args):
    report = {}
    for name, data in graphs(args):
        how = dict(num_neighbors=[10, 10], batch_size=512, shuffle=True)
        ways = {"khop.pyg": lambda nodes, seed: NeighborLoader(data, input_nodes=nodes, seed=seed, **how)}
        if PYG_SAMPLES:
            ways[f"PyG, {BACKEND}"] = lambda nodes, seed: Own(data, input_nodes=nodes, **how)
        else:  # the same training nodes, all neighbours, in PyG alone
            ways["all neighbours, PyG alone"] = lambda nodes, seed: list(whole(data, nodes))
        for seed in range(args.seeds):
            for way, make in ways.items():
                report.setdefault(f"{name}: {way}", []).append(learn(data, make, seed, args.epochs))
        for way in ways:
            scores = report[f"{name}: {way}"]
            deviation = statistics.stdev(scores) if len(scores) > 1 else 0
            print(f"{name}: {way}: {statistics.mean(scores):.4f} +- {deviation:.4f}", flush=True)
    return report


def whole(data, nodes):
    """Batches of 512 of the nodes with all their neighbours of two hops, as PyG's utilities find them."""
    from torch_geometric.utils import k_hop_subgraph
    for part in nodes.split(512):
        subset, edge_index, mapping, _ = k_hop_subgraph(
            part, 2, data.edge_index, relabel_nodes=True, num_nodes=data.num_nodes)
        others = torch.ones(len(subset), dtype=torch.bool).index_fill(0, mapping, False).nonzero()[:, 0]
        first = torch.cat([mapping, others])
        at = torch.empty_like(first).index_put((first,), torch.arange(len(first)))
        yield Data(x=data.x[subset[first]], y=data.y[subset[first]], edge_index=at[edge_index], batch_size=len(part))


# --- both ---

SECTION = """## khop.pyg beside PyG's own loader

`make bench-pyg PYTHON=...`, {date}, khop {commit}, PyG {pyg}, torch {torch}, {backend}, {cores} cores of an \
{processor}, load {load} before the start.

A graph as above of {nodes:,} nodes, and the same batches. The loop reads every element once (`x.sum()`). The ways \
take turns, {rounds} rounds of {batches} batches, {threads} threads of torch:

| | ms a batch, median (least to most) | nodes a batch | times PyG's speed |
|---|---|---|---|
{speed}

Test scores of PyG's GraphSAGE, two layers of 64, {epochs} epochs, half of the nodes to train on, at the epoch that \
validates best; means and deviations of {seeds} seeds (facebook-page's features projected to 128):

| | {ways} |
|---|{rule}|
{accuracy}
"""


def put(page, section):
    """Puts a section in the place of the one with its heading, up to the next."""
    wrap = lambda line: line if line[:1] in "|#" else textwrap.fill(line, 119, break_on_hyphens=False)
    section = "\n".join(map(wrap, section.splitlines())) + "\n"
    heading = section.splitlines()[0]
    before, found, rest = page.read_text(encoding="utf-8").partition(f"\n{heading}\n")
    if not found:
        raise SystemExit(f"{page} has no section {heading!r}; it would be\n\n{section}")
    after = rest.find("\n## ")
    page.write_text(f"{before}\n{section}{rest[after:] if after >= 0 else ''}", encoding="utf-8")


def commit():
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "of no repository"


def processor():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "unknown processor")


def page(args):
    load = os.getloadavg()[0]
    fast = speed(args)
    ways, rows, trained = [], [], {}
    runs = {}
    for graph in ("tolokers", "facebook-page"):
        out = args.work / f"train-{graph}.json"
        runs[graph] = out, subprocess.Popen([
            sys.executable, __file__, "train", str(args.folder), "--work", str(args.work), "--graph", graph,
            "--threads", "1",
            "--seeds", str(args.seeds), "--epochs", str(args.epochs), "--json", str(out)])
    for (graph, (out, run)), measure in zip(runs.items(), ("ROC AUC", "accuracy")):
        if run.wait():
            raise SystemExit(f"training on {graph} failed")
        scores = json.loads(out.read_text())["results"]
        trained.update(scores)
        ways = [key.partition(": ")[2] for key in scores]
        cells = [f"{statistics.mean(v):.4f} ± {statistics.stdev(v) if len(v) > 1 else 0:.4f}" for v in scores.values()]
        rows.append(f"| {graph}, {measure} | {' | '.join(cells)} |")
    first = next(iter(fast.values()))["seconds_a_batch"]
    lines = []
    for way, r in fast.items():
        ms = [1e3 * s for s in r["rounds"]]
        lines.append(f"| {way} | {statistics.median(ms):,.1f} ({min(ms):,.1f} to {max(ms):,.1f}) | "
                     f"{r['nodes_a_batch']:,.0f} | "
                     f"{first / r['seconds_a_batch']:.1f} |")
    put(args.page, SECTION.format(
        date=time.strftime("%Y-%m-%d"), commit=commit(), pyg=torch_geometric.__version__, torch=torch.__version__,
        backend=BACKEND, cores=os.cpu_count(), processor=processor(), load=f"{load:.1f}", nodes=args.nodes,
        threads=args.threads,
        rounds=args.rounds, batches=args.batches, speed="\n".join(lines), epochs=args.epochs, seeds=args.seeds,
        ways=" | ".join(ways), rule="|".join(["---"] * len(ways)), accuracy="\n".join(rows)))
    return {**fast, **trained}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "first", "train", "page"])
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=os.environ.get("KHOP_TESTDATA"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(os.environ.get("KHOP_BENCH_DIR", ".bench")))
    parser.add_argument("--nodes", type=int, default=500_000)
    parser.add_argument("--fanouts", type=lambda s: list(map(int, s.split(","))), default=[15, 10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--warm", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--graph", help="train on this one only")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path, default="docs/results/cpu.md", help="whose section is written")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    print(f"PyG {torch_geometric.__version__}, torch {torch.__version__}, khop {khop.__version__}, "
          f"{BACKEND or 'neither pyg-lib nor torch-sparse: PyG has no sampler here'}", file=sys.stderr)
    report = {"speed": speed, "first": first, "train": train, "page": page}[args.what](args)
    if args.json:
        args.json.write_text(json.dumps({"pyg": torch_geometric.__version__, "backend": BACKEND, "results": report},
                                        indent=1))


if __name__ == "__main__":
    main()
