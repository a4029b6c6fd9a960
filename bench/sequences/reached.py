"""Nodes around each seed as [seeds, L], by hops and by PPR: khop beside GiGL and pyg-lib, milliseconds a batch.

    python bench/sequences/reached.py hops WORK/cnr.khop
    python bench/sequences/reached.py ppr WORK/cnr.khop --gigl GIGL

GIGL is a checkout of Snapchat/GiGL (fee4ba50): its functions of graph_transformer.py that make sequences are read from
there, and its kernel of PPR (gigl-core) is built. Its own loaders need a cluster: here pyg-lib samples for them, and
neighbours come from the CSC in memory, in torch. Contestants take the same seeds in turn, round after round; ids of all
nodes, -1 behind the end, are the result. Without --gigl it does without GiGL.

hops, 1,024 seeds, fan-outs [10, 10], L = 64:
    khop sequence      khop.Sampler with sequence=L, whose batch has rows [seeds, L]: by one thread
    khop loader        the same as an epoch of khop.Loader over the seeds of a round
    khop trees         khop.Sampler, disjoint: nodes of trees, scattered in torch
    pyg-lib            neighbor_sample, disjoint: the same
    GiGL               pyg-lib's sample of all seeds together, then GiGL's k-hop reachability: L of the smallest ids
    GiGL by hops       the same by hops until a row is full, as pull request 759 says, in torch (nothing of it copied)

ppr, 1,024 seeds, L = 50, and GiGL's alpha of 0.5 and epsilon of 1e-4 unless given:
    khop sequence, khop loader, khop blocks     the sampler ppr, with rows, and with blocks, scattered in torch
    GiGL               its kernel, neighbours from the CSC, its layout of edges; the same law of nodes and scores
    GiGL topped up     with its default, which fills rows with nodes that have a residual only
"""
import argparse
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import types

import numpy as np
import torch

import khop

SEEDS = 1024


class Graph:
    def __init__(self, dataset):
        self.dataset = dataset
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([khop_program(), "export", dataset, folder + "/out", "--to", "numpy"], check=True,
                           capture_output=True)
            edges = torch.from_numpy(np.load(folder + "/out/edge_index.npy").astype(np.int64))
            self.nodes = int(np.load(folder + "/out/num_nodes.npy"))
        order = torch.argsort(edges[1], stable=True)
        self.row = edges[0][order].contiguous()
        into = torch.bincount(edges[1], minlength=self.nodes)
        self.colptr = torch.cat([torch.zeros(1, dtype=torch.int64), into.cumsum(0)])
        self.degree = into.int()


def khop_program():
    import os
    return os.environ.get("KHOP_BIN", "khop")


def laid_out(of, ids, rows, length):
    """[rows, length] of ids, which `of` puts into rows, in the order in which they are listed."""
    order = torch.argsort(of, stable=True)
    of, ids = of[order], ids[order]
    count = torch.bincount(of, minlength=rows)
    place = torch.arange(len(of)) - (count.cumsum(0) - count)[of]
    table = torch.full((rows, length), -1, dtype=torch.int64)
    keep = place < length
    table[of[keep], place[keep]] = ids[keep]
    return table


def gigl_layouts(gigl):
    """GiGL's module of sequences, without the rest of its package."""
    for name in ("gigl", "gigl.src", "gigl.src.common", "gigl.src.common.types"):
        sys.modules.setdefault(name, types.ModuleType(name))
    data = types.ModuleType("gigl.src.common.types.graph_data")
    data.EdgeType = tuple
    sys.modules[data.__name__] = data
    spec = importlib.util.spec_from_file_location("gigl_layouts", gigl / "gigl/transforms/graph_transformer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gigl_kernel(gigl):
    from torch.utils import cpp_extension
    core = gigl / "gigl-core/core/sampling"
    return cpp_extension.load("gigl_ppr", [str(core / f) for f in ("ppr_forward_push.cpp",
                                                                   "python_ppr_forward_push.cpp")],
                              extra_cflags=["-O3", "-std=c++17"])  # as its CMakeLists.txt


class Epoch:
    """An epoch of khop.Loader for each round. It begins with the first batch."""

    def __init__(self, graph, args, **options):
        self.how = dict(options, batch_size=SEEDS, workers=args.threads, sequence=args.length, process="inside")
        self.dataset = graph.dataset

    def begin(self, batches):
        self.epoch, self.loader = None, khop.Loader(self.dataset, input_nodes=torch.cat(batches), **self.how)

    def __call__(self, seeds):
        self.epoch = self.epoch or iter(self.loader)
        return next(self.epoch).sequences.ids


# --- hops ---

FANOUTS = [10, 10]


def khop_rows(graph, args):
    sampler = khop.Sampler(graph.dataset, fanouts=FANOUTS, batch_size=SEEDS, workers=args.threads, sequence=args.length,
                           seed_first=True)
    return lambda seeds: sampler.sample(seeds).sequences.ids


def khop_epoch(graph, args):
    return Epoch(graph, args, fanouts=FANOUTS, seed_first=True)


def khop_trees(graph, args):
    sampler = khop.Sampler(graph.dataset, fanouts=FANOUTS, batch_size=SEEDS, workers=args.threads, disjoint=True)

    def batch(seeds):
        found = sampler.sample(seeds)
        return laid_out(found.array("sample/tree/node").long(), found.n_id, len(seeds), args.length)
    return batch


def pyg_trees(graph, args):
    import pyg_lib

    def batch(seeds):
        node = pyg_lib.sampler.neighbor_sample(graph.colptr, graph.row, seeds, FANOUTS, csc=True, disjoint=True)[2]
        return laid_out(node[:, 0], node[:, 1], len(seeds), args.length)
    return batch


def together(graph, seeds):
    """pyg-lib's sample of all seeds in one list: edges from a destination to its neighbour, by local ids, and ids."""
    import pyg_lib
    row, col, node, *_ = pyg_lib.sampler.neighbor_sample(graph.colptr, graph.row, seeds, FANOUTS, csc=True)
    return torch.stack([col, row]), node


def gigl_hops(graph, args):
    of = gigl_layouts(args.gigl)
    cpu = torch.device("cpu")

    def batch(seeds):
        edges, node = together(graph, seeds)
        anchors = torch.arange(len(seeds))
        reachable = of._get_k_hop_neighbors_sparse(anchors, edges, len(node), len(FANOUTS), cpu)
        rows, valid = of._build_sequence_layout_from_sparse_neighbors(reachable, anchors, args.length, True, cpu)
        return torch.where(valid, node[rows.clamp(min=0)], -1)
    return batch


def gigl_by_hops(graph, args):
    def batch(seeds):
        edges, node = together(graph, seeds)
        nodes, rows = len(node), len(seeds)
        adjacent = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (nodes, nodes)).coalesce()
        anchors = torch.arange(rows)
        table = torch.full((rows, args.length), -1, dtype=torch.int64)
        table[:, 0] = anchors
        filled = torch.ones(rows, dtype=torch.int64)
        key = anchors * nodes + anchors
        visited = key
        for _ in FANOUTS:
            current = torch.sparse_coo_tensor(torch.stack([key // nodes, key % nodes]), torch.ones(len(key)),
                                              (rows, nodes))
            reached = torch.sparse.mm(current, adjacent).coalesce().indices()
            key = reached[0] * nodes + reached[1]
            at = torch.searchsorted(visited, key).clamp(max=len(visited) - 1)
            key = key[(visited[at] != key) & (filled[key // nodes] < args.length)]
            if not len(key):
                break
            of, count = key // nodes, torch.bincount(key // nodes, minlength=rows)
            place = filled[of] + torch.arange(len(key)) - (count.cumsum(0) - count)[of]
            keep = place < args.length
            table[of[keep], place[keep]] = key[keep] % nodes
            filled += count
            visited = torch.cat([visited, key]).sort().values
        return torch.where(table < 0, -1, node[table.clamp(min=0)])
    return batch


# --- PPR ---

def khop_ppr(graph, args):
    sampler = khop.Sampler(graph.dataset, sampler="ppr", alpha=args.alpha, epsilon=args.epsilon, batch_size=SEEDS,
                           workers=args.threads, sequence=args.length)
    return lambda seeds: sampler.sample(seeds).sequences.ids


def khop_ppr_epoch(graph, args):
    return Epoch(graph, args, sampler="ppr", alpha=args.alpha, epsilon=args.epsilon)


def khop_blocks(graph, args):
    sampler = khop.Sampler(graph.dataset, sampler="ppr", alpha=args.alpha, epsilon=args.epsilon, batch_size=SEEDS,
                           workers=args.threads, neighbors=args.length)

    def batch(seeds):
        found = sampler.sample(seeds)
        block = found.blocks[0]
        of = torch.repeat_interleave(torch.arange(len(block.indptr) - 1), block.indptr.diff())
        return laid_out(of, found.n_id[block.indices], len(block.indptr) - 1, args.length)[found["node"].seeds]
    return batch


def gigl_ppr(graph, args, top_up=False):
    of, kernel = gigl_layouts(args.gigl), gigl_kernel(args.gigl)
    cpu = torch.device("cpu")

    def neighbours(nodes):
        first, count = graph.colptr[nodes], graph.degree[nodes].long()
        place = torch.arange(int(count.sum())) - (count.cumsum(0) - count).repeat_interleave(count)
        return kernel.NeighborFetchTensors(nodes, graph.row[first.repeat_interleave(count) + place], count)

    def batch(seeds):
        state = kernel.PPRForwardPush(seeds, 0, args.alpha, args.alpha * args.epsilon, [[0]], [0], [graph.degree])
        while (wanted := state.drain_queue()) is not None:
            state.push_residuals({kind: neighbours(nodes) for kind, nodes in wanted.items()})
        found = state.extract_top_k_with_residual_top_up(args.length, top_up)[0]
        anchors = torch.arange(len(seeds))
        edges = torch.stack([anchors.repeat_interleave(found.valid_counts), torch.arange(len(found.ids))])
        data = types.SimpleNamespace(edge_index=edges, edge_attr=found.weights[:, 0])
        rows, valid, _ = of._build_sequence_layout_from_ppr_edges(
            data, anchors, args.length, False, max(len(seeds), len(found.ids)), cpu)
        return torch.where(valid, found.ids[rows.clamp(min=0)], -1)
    return batch


CONTESTS = {
    "hops": {"khop sequence": khop_rows, "khop loader": khop_epoch, "khop trees": khop_trees, "pyg-lib": pyg_trees,
             "GiGL": gigl_hops, "GiGL by hops": gigl_by_hops},
    "ppr": {"khop sequence": khop_ppr, "khop loader": khop_ppr_epoch, "khop blocks": khop_blocks, "GiGL": gigl_ppr,
            "GiGL topped up": lambda graph, args: gigl_ppr(graph, args, True)},
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("contest", choices=CONTESTS)
    parser.add_argument("dataset")
    parser.add_argument("--gigl", type=pathlib.Path)
    parser.add_argument("--only", help="contestants, with commas")
    parser.add_argument("--length", type=int)
    parser.add_argument("--alpha", type=float, default=.5)
    parser.add_argument("--epsilon", type=float, default=1e-4)
    parser.add_argument("--threads", type=int, default=2, help="of torch and of pyg-lib, and khop's workers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    args.length = args.length or {"hops": 64, "ppr": 50}[args.contest]
    torch.set_num_threads(args.threads)
    graph = Graph(args.dataset)
    names = args.only.split(",") if args.only else [n for n in CONTESTS[args.contest] if args.gigl or "GiGL" not in n]
    ways = {name: CONTESTS[args.contest][name](graph, args) for name in names}
    draw = torch.Generator().manual_seed(1)
    took, busy, tokens, last = {n: [] for n in ways}, {n: [] for n in ways}, {n: [] for n in ways}, {}
    for _ in range(args.rounds + 1):
        batches = [torch.randperm(graph.nodes, generator=draw)[:SEEDS] for _ in range(args.batches)]
        for name, batch in ways.items():
            if isinstance(batch, Epoch):
                batch.begin(batches)
            begin, work = time.perf_counter(), time.process_time()
            for seeds in batches:
                last[name] = batch(seeds)
            took[name].append((time.perf_counter() - begin) / args.batches * 1e3)
            busy[name].append((time.process_time() - work) / args.batches * 1e3)
            tokens[name].append(float((last[name] >= 0).sum(1).float().mean()))
    report = {}
    first = next(iter(ways))
    for name in ways:
        rounds = took[name][1:]  # the first warms up
        same = [len(set(a.tolist()) & set(b.tolist()) - {-1}) / max(len(set(b.tolist()) - {-1}), 1)
                for a, b in zip(last[name], last[first])]
        report[name] = {"ms": statistics.median(rounds), "rounds": rounds,
                        "processor_ms": statistics.median(busy[name][1:]), "tokens": statistics.mean(tokens[name]),
                        "shared": statistics.mean(same)}
        print(f"{name}: {report[name]['ms']:.2f} ms a batch ({min(rounds):.2f} to {max(rounds):.2f}), "
              f"{report[name]['processor_ms']:.2f} of processors, "
              f"{report[name]['tokens']:.1f} tokens a row, {report[name]['shared']:.1%} of {first}'s", flush=True)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
