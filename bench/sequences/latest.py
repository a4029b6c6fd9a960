"""The latest 20 neighbours of each seed as [seeds, 20], khop beside TGM, PyG and pyg-lib: milliseconds a batch.

    python bench/sequences/latest.py WORK/wiki      # what graphs.py made

It needs torch, torch_geometric, pyg-lib (bench/peers/pyg_lib_build.py makes it), and TGM's sources on PYTHONPATH
(tgm-team/tgm at 5183dc9d); and KHOP_LIBRARY.

A batch is 200 events: 600 seeds, the sources, targets and one random node for each, which see the events of earlier
batches. Each contestant takes the same windows of the stream in turn, round after round; those that keep a state have
seen all that was before, and their insertion of a batch counts. --check reports the share of the seeds whose neighbours
equal those of a plain function over the stream.

    khop temporal        khop.Sampler, sampler temporal, recent: blocks, scattered to [seeds, 20] in torch
    khop sequence        the same with sequence=20: the batch has rows [seeds, 20]
    khop loader          the same as an epoch of khop.Loader over all seeds of a window
    TGM hook             RecencyNeighborHook alone, given each batch
    TGM hook unchecked  the same without its look at the least time of all nodes' buffers, which takes most of it
    TGM loader           DGDataLoader with it and with the hook of random negatives
    PyG                  TemporalDataLoader with LastNeighborLoader, as in PyG's example of TGN
    pyg-lib              neighbor_sample, disjoint, temporal, "last", scattered to [seeds, 20] in torch
"""
import argparse
import json
import pathlib
import statistics
import time
import warnings

import numpy as np
import torch

import khop

K, EVENTS, SPAN = 20, 200, 1 << 33
warnings.filterwarnings("ignore")


class Stream:
    """The events, and the seeds of a batch: [source, target, random], which see what is before the batch."""

    def __init__(self, folder):
        self.folder = folder
        self.source, self.target, self.time = (
            torch.from_numpy(np.load(folder / f"{n}.npy")) for n in ("source", "target", "time"))
        self.nodes = int(max(self.source.max(), self.target.max())) + 1
        self.batches = -(-len(self.source) // EVENTS)
        draw = torch.Generator().manual_seed(0)
        self.history = History(self)
        self.random = torch.randint(self.nodes, (len(self.source),), generator=draw)

    def cut(self, batch):
        return slice(batch * EVENTS, min((batch + 1) * EVENTS, len(self.source)))

    def seeds(self, batch):
        cut = self.cut(batch)
        return torch.cat([self.source[cut], self.target[cut], self.random[cut]])


class History:
    """Each node's events, oldest first."""

    def __init__(self, stream):
        self.stream = stream
        node, event = torch.cat([stream.target, stream.source]), torch.arange(len(stream.source)).repeat(2)
        self.key = (node * SPAN + event).sort().values

    def table(self, seeds, before):
        """[seeds, K] of their latest events before an event, oldest first, -1 behind the end; and how many there
        are."""
        first, end = (torch.searchsorted(self.key, seeds * SPAN + t) for t in (0, before))
        first = torch.maximum(first, end - K)
        place = first[:, None] + torch.arange(K)
        table = self.key[place.clamp(max=len(self.key) - 1)] % SPAN
        return table.masked_fill(place >= end[:, None], -1), end - first

    def others(self, table, seeds):
        """The other end of each event of such a table."""
        event = table.clamp(min=0)
        source, target = self.stream.source[event], self.stream.target[event]
        return torch.where(source == seeds[:, None], target, source).masked_fill(table < 0, -1)


def scatter(of, ids, seeds):
    """[seeds, K] of neighbours, -1 behind the end: ids in the order of their seeds, of which `of` names each one's."""
    count = torch.bincount(of, minlength=seeds)
    place = torch.arange(len(of)) - (count.cumsum(0) - count)[of]
    table = torch.full((seeds, K), -1, dtype=torch.int64)
    table[of, place] = ids
    return table


class Contestant:
    """begin(first) makes it ready for batches first, first + 1, ..; batch(i) gives [seeds, K], in any order of a row,
    or None where it gives another form."""

    def __init__(self, stream):
        self.stream = stream

    def begin(self, first, count):
        pass

    def before(self, i):
        """The event before which each seed's neighbours are."""
        return torch.full_like(self.stream.seeds(i), i * EVENTS)


class KhopTemporal(Contestant):
    options = dict(sampler="temporal", recent=True, disjoint=True, fanouts=[K], time_rules="before")

    def __init__(self, stream):
        super().__init__(stream)
        self.sampler = khop.Sampler(f"{stream.folder}.khop", batch_size=3 * EVENTS, workers=torch.get_num_threads(),
                                    **self.options)

    def batch(self, i):
        seeds = self.stream.seeds(i)
        batch = self.sampler.sample(seeds, torch.full_like(seeds, i * EVENTS))
        block = batch.blocks[0]
        count = block.indptr.diff()
        of = torch.repeat_interleave(torch.arange(len(count)), count)
        table = scatter(of, batch.n_id[block.indices], len(count))
        return table[batch["node"].seeds]


class KhopSequence(KhopTemporal):
    options = dict(sampler="temporal", recent=True, fanouts=[K], time_rules="before", sequence=K)

    def batch(self, i):
        seeds = self.stream.seeds(i)
        return self.sampler.sample(seeds, torch.full_like(seeds, i * EVENTS)).sequences.ids


class KhopLoader(Contestant):
    options = KhopSequence.options

    def begin(self, first, count):
        seeds = torch.cat([self.stream.seeds(i) for i in range(first, first + count)])
        whole = torch.arange(first, first + count).repeat_interleave(3 * EVENTS)[:len(seeds)]
        loader = khop.Loader(f"{self.stream.folder}.khop", input_nodes=seeds, input_time=whole * EVENTS,
                             workers=torch.get_num_threads(), batch_size=3 * EVENTS, process="inside", **self.options)
        self.loader, self.epoch = loader, iter(loader)

    def batch(self, i):
        return next(self.epoch).sequences.ids


class TGMHook(Contestant):
    def __init__(self, stream):
        super().__init__(stream)
        from tgm import DGBatch, DGraph
        from tgm.data import DGData
        from tgm.hooks import RecencyNeighborHook
        self.ids = [t.int() for t in (stream.source, stream.target, stream.random)]
        graph = DGData.from_raw(stream.time, torch.stack(self.ids[:2], 1))
        self.kind, self.graph, self.small = DGBatch, DGraph(graph), DGraph(DGData.from_raw(
            stream.time[:1], torch.stack(self.ids[:2], 1)[:1]))
        self.make = lambda: RecencyNeighborHook(
            stream.nodes, [K], ["edge_src", "edge_dst", "neg"], ["edge_time", "edge_time", "neg_time"])
        self.hook, self.seen = self.make(), 0

    def before(self, i):
        """Events of its own time do not count either, though they were in an earlier batch."""
        return torch.searchsorted(self.stream.time, self.stream.time[self.stream.cut(i)]).repeat(3).clamp(
            max=i * EVENTS)

    def given(self, cut):
        batch = self.kind(self.ids[0][cut], self.ids[1][cut], self.stream.time[cut])
        batch.neg, batch.neg_time = self.ids[2][cut], batch.edge_time
        return batch

    def begin(self, first, count):
        self.hook._initialize_nbr_feats_if_needed(self.small)
        if self.seen != first * EVENTS:  # its buffers as if it had seen all batches before
            table, count = self.stream.history.table(torch.arange(self.stream.nodes),
                                                      torch.tensor(first * EVENTS))
            time = self.stream.time[table.clamp(min=0)] * (table >= 0)
            self.hook._nbr_times[:], self.hook._write_pos[:] = time, count
            self.hook._nbr_ids[:] = self.stream.history.others(table, torch.arange(self.stream.nodes))

    def batch(self, i):
        cut = self.stream.cut(i)
        self.seen = cut.stop
        return self.hook(self.small, self.given(cut)).nbr_nids[0]


class TGMWithout(TGMHook):
    def begin(self, first, count):
        super().begin(first, count)
        self.hook._nbr_times.min = lambda: 0


class TGMLoader(TGMHook):
    def begin(self, first, count):
        from tgm.data import DGDataLoader
        from tgm.hooks import HookManager, RandomNegativeEdgeSamplerHook
        super().begin(first, count)
        manager = HookManager(keys=["all"])
        manager.register("all", RandomNegativeEdgeSamplerHook(0, self.stream.nodes))
        manager.register("all", self.hook)
        manager.set_active_hooks("all")
        self.loader = DGDataLoader(self.graph, batch_size=EVENTS, hook_manager=manager)

    def batch(self, i):
        self.seen = self.stream.cut(i).stop
        self.loader([i * EVENTS])  # what its iterator does for a batch; it can only begin at the stream's begin


class PyG(Contestant):
    def __init__(self, stream):
        super().__init__(stream)
        from torch_geometric.data import TemporalData
        from torch_geometric.loader import TemporalDataLoader
        from torch_geometric.nn.models.tgn import LastNeighborLoader
        self.last, self.seen, self.loader = LastNeighborLoader(stream.nodes, K), 0, TemporalDataLoader
        self.data = TemporalData(src=stream.source, dst=stream.target, t=stream.time)

    def begin(self, first, count):
        while self.seen < first * EVENTS:
            end = min(self.seen + 100_000, first * EVENTS)
            self.last.insert(self.stream.source[self.seen:end], self.stream.target[self.seen:end])
            self.seen = end
        part = self.data[first * EVENTS:self.stream.cut(first + count - 1).stop]
        self.iterator = iter(self.loader(part, batch_size=EVENTS, neg_sampling_ratio=1.0))

    def batch(self, i):
        batch = next(self.iterator)
        self.found = self.last(batch.n_id)
        self.last.insert(batch.src, batch.dst)
        self.seen = self.stream.cut(i).stop


class PygLib(Contestant):
    def __init__(self, stream):
        super().__init__(stream)
        import pyg_lib
        self.sample = pyg_lib.sampler.neighbor_sample
        key = stream.history.key
        self.event = key % SPAN
        self.row = torch.where(stream.source[self.event] == key // SPAN, stream.target[self.event],
                               stream.source[self.event])
        into = torch.bincount(torch.cat([stream.target, stream.source]), minlength=stream.nodes)
        self.colptr = torch.cat([torch.zeros(1, dtype=torch.int64), into.cumsum(0)])

    def batch(self, i):
        seeds = self.stream.seeds(i)
        before = torch.full_like(seeds, i * EVENTS - 1)  # its rule is not-after
        row, col, node, edge, *_ = self.sample(
            self.colptr, self.row, seeds, [K], edge_time=self.event, seed_time=before, csc=True, disjoint=True,
            temporal_strategy="last")
        return scatter(col, node[row, 1], len(seeds))


CONTESTANTS = {"khop temporal": KhopTemporal, "khop sequence": KhopSequence, "khop loader": KhopLoader,
               "TGM hook": TGMHook, "TGM hook unchecked": TGMWithout, "TGM loader": TGMLoader, "PyG": PyG,
               "pyg-lib": PygLib}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(CONTESTANTS), help="contestants, with commas")
    parser.add_argument("--threads", type=int, default=2, help="of torch and of pyg-lib, and khop's workers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=200, help="of each round")
    parser.add_argument("--first", type=int, help="the batch to begin with; default: the middle of the stream")
    parser.add_argument("--check", type=int, default=5, help="batches a contestant whose neighbours are compared")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    stream = Stream(args.folder)
    first = stream.batches // 2 if args.first is None else args.first
    contestants = {name: CONTESTANTS[name](stream) for name in args.only.split(",")}
    took, busy, whole = ({name: [] for name in contestants} for _ in range(3))
    for number in range(args.rounds):
        begin = first + number * args.batches
        count = min(args.batches, stream.batches - begin)
        for name, contestant in contestants.items():
            started = time.perf_counter()
            contestant.begin(begin, count)
            ready, work = time.perf_counter(), time.process_time()
            for i in range(begin, begin + count):
                contestant.batch(i)
            took[name].append((time.perf_counter() - ready) / count * 1e3)
            busy[name].append((time.process_time() - work) / count * 1e3)
            whole[name].append(ready - started)
    report = {}
    begin = first + args.rounds * args.batches
    for name, contestant in contestants.items():
        right = seeds = 0
        if args.check and begin + args.check < stream.batches and name not in ("PyG", "TGM loader"):
            contestant.begin(begin, args.check)
            for i in range(begin, begin + args.check):
                asked, found = stream.seeds(i), contestant.batch(i)
                true = stream.history.others(stream.history.table(asked, contestant.before(i))[0], asked)
                right += int((true.sort(1).values == found.sort(1).values).all(1).sum())
                seeds += len(asked)
        report[name] = {"ms": statistics.median(took[name]), "rounds": took[name], "begin_seconds": whole[name],
                        "processor_ms": statistics.median(busy[name]), "right": right / seeds if seeds else None}
        share = f", {right / seeds:.2%} of the seeds have the right neighbours" if seeds else ""
        print(f"{name}: {report[name]['ms']:.3f} ms a batch ({min(took[name]):.3f} to {max(took[name]):.3f}), "
              f"{report[name]['processor_ms']:.3f} of processors{share}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
