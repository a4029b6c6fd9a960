"""A plugin of pytest: TGM's tests get hooks whose neighbours and negatives khop draws.

A graph of TGM becomes a dataset in which each event is an edge to each node that sees it, and the column "time" is its
place in the stream: a seed sees what is before its time and before its batch, whichever comes first. TGM's buffers
forget all but the latest events of a node before the batch, so that is where a seed's window begins. What TGM checks of
seeds, and how it goes from hop to hop, stays TGM's.
"""
import functools
import os
import tempfile
import weakref

import torch

import khop
import tgm.hooks
import tgm.hooks.negatives
import tgm.hooks.neighbors

MOST = 4096  # seeds of a request


class Stream:
    """The events of a graph of TGM, for khop."""

    def __init__(self, data, directed):
        self.edges, self.features = data.edge_index.long(), data.edge_x
        self.times = data.time[data.edge_mask]
        source, target = self.edges.T
        edges, place = torch.stack([target, source]), 2 * torch.arange(len(self.edges))
        if not directed:  # a loop is twice what its node sees
            edges, place = torch.cat([edges, edges.flip(0)], 1), torch.cat([place, place + 1])
        self.nodes = int(self.edges.max()) + 1
        self.folder = tempfile.TemporaryDirectory()
        self.dataset = os.path.join(self.folder.name, "stream.khop")
        khop.write(self.dataset, {"edge_index": edges, "time": place, "num_nodes": self.nodes}, by_time=True)
        self.sampler = functools.lru_cache(self.sampler)

    def sampler(self, k, recent):
        return khop.Sampler(self.dataset, fanouts=[k], sampler="temporal", time_rules="before", recent=recent,
                            sequence=k, batch_size=MOST, hold=4)

    def begin(self, dg):
        """The place of the first event of a part of the graph."""
        first, _ = dg._storage._binary_search(dg._slice)
        return 2 * int(torch.searchsorted(dg._storage._data.edge_mask, first))

    def at(self, times):
        """The places of the first events of times, or of later ones."""
        return 2 * torch.searchsorted(self.times, times)

    def found(self, k, recent, nodes, before, first, left):
        """The places of k events of each node from one place to before another, and the nodes at their other ends:
        [nodes, k] each, padded with -1 on the left or the right."""
        places, others = (torch.full((len(nodes), k), -1) for _ in range(2))
        known = torch.nonzero((nodes >= 0) & (nodes < self.nodes)).flatten()
        for part in known.split(MOST):
            rows = self.sampler(k, recent).sample(nodes[part].long(), before[part], start_times=first[part]).sequences
            place = torch.where(rows.mask, before[part][:, None] - rows.age, -1)  # the latest come first
            count = torch.full((len(part), 1), k) if left else rows.mask.sum(1, keepdim=True)
            order = (count - 1 - torch.arange(k)) % k
            places[part], others[part] = place.gather(1, order), rows.ids.long().gather(1, order)
        return places, others

    def hop(self, places, others):
        """A hop's neighbours in TGM's form: ids, times and features."""
        empty, event = places < 0, places.clamp(min=0) // 2
        features = torch.zeros(*places.shape, 0) if self.features is None else self.features[event]
        return others.int(), self.times[event].masked_fill(empty, 0), features.masked_fill(empty[..., None], 0)


streams = {}


def stream_of(data, directed):
    key = id(data), directed
    if key not in streams:
        streams[key] = Stream(data, directed)
        weakref.finalize(data, streams.pop, key, None)
    return streams[key]


class Recency(tgm.hooks.RecencyNeighborHook):
    """Each node's latest events of earlier batches, of times before its own. There are no buffers to fill."""

    def __call__(self, dg, batch):
        data = dg._storage._data
        if getattr(self, "_of", data) is not data:
            raise ValueError("this hook has events of another graph: reset_state() first")
        self._of, self._stream = data, stream_of(data, self._directed)
        self._place = self._stream.begin(dg)
        return super().__call__(dg, batch)

    def reset_state(self):
        super().reset_state()
        self.__dict__.pop("_of", None)

    def _get_recency_neighbors(self, node_ids, query_times, k):
        batch, zero = torch.full_like(query_times, self._place), torch.zeros_like(query_times)
        kept, _ = self._stream.found(self._max_nbrs, True, node_ids, batch, zero, left=True)
        before = torch.minimum(self._stream.at(query_times), batch)
        return self._stream.hop(*self._stream.found(k, True, node_ids, before, kept[:, 0].clamp(min=0), left=True))

    def _update(self, batch):
        pass


class Uniform(tgm.hooks.NeighborSamplerHook):
    """Events of each node before its batch, drawn uniformly."""

    def __call__(self, dg, batch):
        storage, stream = dg._storage, stream_of(dg._storage._data, self._directed)

        def get_nbrs(seed_nodes, num_nbrs, slice, directed):
            before = stream.at(torch.full((len(seed_nodes),), slice.end_time + 1))
            return stream.hop(*stream.found(num_nbrs, False, seed_nodes, before, before * 0, left=False))

        storage.get_nbrs = get_nbrs
        try:
            return super().__call__(dg, batch)
        finally:
            del storage.get_nbrs


class Random(tgm.hooks.RandomNegativeEdgeSamplerHook):
    """Nodes drawn uniformly, as negatives of as many edges among the nodes of the range."""

    def __call__(self, dg, batch):
        batch = super().__call__(dg, batch)
        own = getattr(batch, f"neg_{self._id}" if self._id else "neg")
        if len(own):
            graph = {"edge_index": torch.zeros(2, 0, dtype=torch.int64), "num_nodes": self.high - self.low}
            edges = torch.zeros(2, len(own), dtype=torch.int64)
            with khop.Loader(graph, [0], edge_label_index=edges, negatives="uniform", batch_size=len(own),
                             process="inside", seed=stream_of(dg._storage._data, True).begin(dg)) as loader:
                for found in loader:
                    ends = found.n_id[found.edge_label_index[1, len(own):]]
                    self.add_batch_attribute(batch, "neg", (ends + self.low).to(own.dtype))
        return batch


class Historical(tgm.hooks.HistoricalNegativeEdgeSamplerHook):
    """A target that each event's source had before the batch; TGM takes one for all events of a source."""

    def _hist_sampling(self, dg, batch):
        stream, count = stream_of(dg._storage._data, True), len(batch.edge_src)
        edges = torch.stack([batch.edge_dst, batch.edge_src]).long()  # an edge leads to the event's source
        neg = torch.full((count,), -1, dtype=batch.edge_dst.dtype)
        with khop.Loader(stream.dataset, [0], sampler="temporal", edge_label_index=edges,
                         edge_label_time=[stream.begin(dg)] * count, negatives="historical", negative_history="time",
                         corrupt="source", batch_size=count, process="inside") as loader:
            for found in loader:
                neg[found.edge_label_group[count:]] = found.n_id[found.edge_label_index[0, count:]].to(neg.dtype)
        return neg


HOOKS = {"RecencyNeighborHook": Recency, "NeighborSamplerHook": Uniform,
         "RandomNegativeEdgeSamplerHook": Random, "HistoricalNegativeEdgeSamplerHook": Historical}
for name, kind in HOOKS.items():
    kind.__name__ = name
    kind._cls_requires, kind._cls_produces = kind.__mro__[1]._cls_requires, kind.__mro__[1]._cls_produces
    for module in (tgm.hooks, tgm.hooks.neighbors, tgm.hooks.negatives):
        if hasattr(module, name):
            setattr(module, name, kind)
