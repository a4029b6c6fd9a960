"""dgl.dataloading.DataLoader: khop's batches in the form that a sampler describes."""

from __future__ import annotations

import inspect
from typing import Any, Iterator, Mapping, Optional, Sequence

from .._config import unknown_names
from .._batch.batch import Batch
from .._batch.blocks import EID, blocks_of
from .._peers.arguments import combined, epochs
from .._batch.schema import EdgeType
from .._native.scratch import Scratch
from .._peers.graph_source import OverSource, Source
from .described import SECTION, Drawn, EdgeSampler, Sampler
from .graphs import graph_of

_OF_WORKERS = frozenset({
    "num_workers", "persistent_workers", "prefetch_factor", "worker_init_fn", "multiprocessing_context", "timeout",
    "pin_memory", "generator", "use_prefetch_thread", "use_alternate_streams", "pin_prefetcher", "use_uva",
    "use_cpu_worker_affinity",
})
_INSTEAD = {
    "gpu_cache": "khop chooses what a device keeps (device_cache of khop serve)",
    "negative_sampler": "give it to as_edge_prediction_sampler",
    "exclude": "give it to as_edge_prediction_sampler",
    "collate_fn": "batches are made by the server: change them in the loop",
}


class DataLoader(OverSource):
    """dgl.dataloading.DataLoader. indices are nodes, edges, or mappings of types to them; with a dataset also the name
    of a split, "all", or pairs [2, n] for seeds that are edges.

    Options of workers and devices are accepted and have no effect, but for device, to which batches are copied. seed
    decides what is drawn; without it torch's random numbers do. options are further ones of khop.Loader: one decides
    where the argument that means the same keeps its default; where both are given and differ, the loader is refused.
    With use_ddp each process gets its share of the batches, and ddp_seed, which all must have alike, is the default of
    seed.

    Iterations may run at the same time. state_dict, load_state_dict and set_epoch are those of khop.Loader. close()
    ends the server, as does the end of the loader object, or of "with".
    """

    def __init__(
        self, graph: Any, indices: Any, graph_sampler: Any, device: Any = None, use_ddp: bool = False, *,
        batch_size: int = 1, drop_last: bool = False, shuffle: bool = False, seed: Optional[int] = None,
        ddp_seed: int = 0, options: Optional[Mapping[str, Any]] = None, **kwargs: Any,
    ) -> None:
        own = inspect.signature(DataLoader).parameters
        unknown_names.check("khop.dgl.DataLoader", kwargs, [*own, *_OF_WORKERS], SECTION, _INSTEAD)
        if not isinstance(graph_sampler, (Sampler, EdgeSampler)):
            what = type(graph_sampler).__name__
            raise TypeError(f"graph_sampler: {what}: must be a sampler of khop.dgl, such as NeighborSampler, or "
                            f'as_edge_prediction_sampler of one (khop docs migrating, "{SECTION}")')
        if use_ddp and seed is None and "seed" not in (options or {}):
            seed = ddp_seed
        how = epochs(options, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, seed=seed)
        self._scratch: Optional[Scratch] = None
        self._edges = isinstance(graph_sampler, EdgeSampler)
        sampler: Sampler = graph_sampler.sampler if isinstance(graph_sampler, EdgeSampler) else graph_sampler
        self.graph, self.graph_sampler, self.batch_size = graph, graph_sampler, how["batch_size"]
        self._sampler, self._device = sampler, device or sampler.output_device
        self._backward = isinstance(sampler, Drawn) and sampler.backward and hasattr(graph, "canonical_etypes")
        self._source = source = Source(graph, [c for c in (sampler.prob, sampler.mask) if c], self._backward)
        self._numbers: dict[EdgeType, tuple[int, Any]] = {}  # of the seeds that are edges: those before, and their own
        given = dict(graph_sampler.how)
        for option, name in (("weight", sampler.prob), ("mask", sampler.mask)):
            if name is not None:
                given[option] = source.column(name, of_edges=True)
        items = self._items(indices, how["drop_last"])
        given.update((name, value) for name, value in items.items() if name not in how)
        self._how = {
            **how, "framework": "torch",
            "index_dtype": str(getattr(source.memory, "idtype", "int64")).rpartition(".")[2],
            **self._columns(), **combined(given, options, {"weight": "prob", "exclude_seeds": "exclude"}),
        }
        self._how.update((name, value) for name, value in items.items() if name in how)
        if not use_ddp:
            self._how.update(rank=0, world_size=1)

    def _items(self, indices: Any, drop_last: bool) -> dict[str, Any]:
        """Options of khop.Loader for what an epoch goes over."""
        sampler = self._sampler
        if not isinstance(sampler, Drawn):
            fanouts = self._fanouts(sampler.fanouts)
            return {"fanouts": fanouts, **self._seeds(indices)}
        if not self._source.plain:
            raise TypeError(f"{type(sampler).__name__}: takes a graph with one type of nodes and of edges")
        self._scratch = Scratch("khop-dgl-")
        return sampler.items(indices, self.batch_size, drop_last, self._scratch.path)

    def _fanouts(self, fanouts: Sequence[Any]) -> Any:
        """khop's fan-outs: the first out of the seeds."""
        hops = fanouts[::-1]
        if not any(isinstance(k, Mapping) for k in hops):
            return [int(k) for k in hops]
        hops = [{self._source.edge_type(e): int(n) for e, n in k.items()} if isinstance(k, Mapping) else
                dict.fromkeys(self._source.edge_types, int(k)) for k in hops]
        return {":".join(e): [k.get(e, 0) for k in hops] for e in self._source.edge_types}

    def _columns(self) -> dict[str, Any]:
        """What comes with the batches: of a graph of DGL nothing, for its features lie in memory."""
        source, sampler = self._source, self._sampler
        self._named: dict[str, str] = {}
        how: dict[str, Any] = {}
        if source.memory is not None:
            return {"node_columns": [], "seed_columns": [], "edge_columns": ["edge_id"]}
        wishes = {"node_columns": sampler.prefetch_node_feats, "seed_columns": sampler.prefetch_labels}
        if not sampler.blocks:  # DGL has the rows of all nodes there
            wishes = {"node_columns": source.columns if sampler.prefetch_node_feats is None else
                      sampler.prefetch_node_feats, "seed_columns": []}
        for option, wanted in wishes.items():
            flat = _flat(wanted)
            if flat is not None:
                how[option] = [source.column(name) for name in flat]
                self._named.update(zip(how[option], flat))
        edges = _flat(sampler.prefetch_edge_feats) or []
        how["edge_columns"] = [source.column(name, of_edges=True) for name in edges]
        if "edge_id" in source.edge_columns:
            how["edge_columns"].append("edge_id")
        else:
            how["edge_pos"] = True
        return {k: v for k, v in how.items() if v or k in ("node_columns", "seed_columns")}

    def _seeds(self, indices: Any) -> dict[str, Any]:
        source = self._source
        if isinstance(indices, str):
            return {"seeds": "all-edges" if self._edges and indices == "all" else indices}
        if not self._edges:
            of = indices if isinstance(indices, Mapping) else {None: indices}
            return {"seeds": {source.node_type(t): ids for t, ids in of.items()}}
        pairs, first = indices if isinstance(indices, Mapping) else {None: indices}, 0
        for e, ids in pairs.items():
            ids = _tensor(ids)
            if ids.dim() == 1:
                self._numbers[source.edge_type(e)] = first, ids
            first += ids.shape[-1]
        return {"edge_label_index": {source.edge_type(e): self._pairs(e, ids) for e, ids in pairs.items()}}

    def _pairs(self, of: Any, ids: Any) -> Any:
        """Sources and targets of edges that are given by their numbers, or as they are."""
        import torch

        ids = _tensor(ids)
        if ids.dim() == 2:
            return ids
        if self._source.memory is None:
            raise TypeError("indices: edges of a dataset are pairs [2, n] of sources and targets, a split, or \"all\"; "
                            "only a graph of DGL knows edges by their numbers")
        return torch.stack(self._source.memory.find_edges(ids, etype=of))

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches():
            if self._device is not None:
                batch = batch.to(self._device)
            if isinstance(self._sampler, Drawn):
                yield self._graph(batch, self._sampler.in_order)
                continue
            blocks: Any
            if self._sampler.blocks:
                blocks = blocks_of(batch)
                self._fill(batch, blocks)
            else:
                blocks = self._graph(batch)
            heads = {t: batch[t].n_id for t in batch.node_types}
            seeds = {t: heads[t][:batch[t].batch_size] for t in batch.node_types}
            if self._edges:
                yield (self._joined(heads), *self._pair_graphs(batch, seeds), blocks)
            else:
                yield self._joined(heads), self._joined(seeds), blocks

    def _graph(self, batch: Batch, in_order: bool = False) -> Any:
        """All edges between the nodes of a batch, with the columns of both, as a graph of the types' own names."""
        memory, ids, order = self._source.memory, {}, {}
        for t in batch.node_types:
            ids[t] = batch[t].n_id
            if in_order:
                order[t] = ids[t].argsort()
                ids[t] = ids[t][order[t]]
        pairs = {e: self._ends(batch, e, order) for e in batch.edge_types}
        nodes = dict(zip(memory.ntypes if memory is not None else ids, ids))
        edges = {(e if memory is None else self._source.names[e]): e for e in pairs}
        graph = graph_of({of: pairs[e] for of, e in edges.items()}, {of: ids[t] for of, t in nodes.items()})
        sampler = self._sampler
        for of, t in nodes.items():
            data = graph.nodes[of].data
            if memory is not None:
                _take(memory.nodes[of].data, sampler.prefetch_node_feats, of, ids[t], data)
                continue
            for column in batch[t].columns():
                rows = batch[t][column]
                data[self._named.get(column, column)] = rows[order[t]] if in_order else rows
        for of, e in edges.items():
            data, view = graph.edges[of].data, batch[e]
            data[EID] = view.e_id.to(next(iter(ids.values())).dtype)
            if memory is not None:
                _take(memory.edges[of].data, sampler.prefetch_edge_feats, of, data[EID], data)
                continue
            for column in view.columns():
                data[column] = view[column]
        return graph

    def _ends(self, batch: Batch, of: EdgeType, order: Mapping[str, Any]) -> Any:
        """Sources and targets of edges in the graph's direction, as places in the nodes in their order."""
        index = batch[of].edge_index
        for end, t in enumerate((of[0], of[2])) if order else ():
            place = order[t].new_empty(len(order[t]))
            place[order[t]] = place.new_ones(len(place)).cumsum(0) - 1
            index[end] = place[index[end].long()]
        return index.flip(0) if self._backward else index

    def _joined(self, of: Mapping[str, Any]) -> Any:
        """Values by node type, or those of the only one."""
        return next(iter(of.values())) if len(of) == 1 else dict(of)

    def _fill(self, batch: Batch, blocks: list[Any]) -> None:
        """Features of the nodes furthest from the seeds, labels of the seeds."""
        memory = self._source.memory
        if memory is None:
            for t in batch.node_types:
                view = batch[t]
                for column in view.columns():
                    of_seeds = f"node/{t}/{column}" not in batch
                    at = blocks[-1].dstnodes[t].data if of_seeds else blocks[0].srcnodes[t].data
                    at[self._named.get(column, column)] = view[column]
            return
        sampler = self._sampler
        every = sampler.prefetch_node_feats is None and sampler.prefetch_labels is None
        for name, t in zip(memory.ntypes, batch.node_types):
            data, ids = memory.nodes[name].data, batch[t].n_id
            features, labels = None if every else sampler.prefetch_node_feats or [], sampler.prefetch_labels or []
            _take(data, features, name, ids, blocks[0].srcnodes[t].data)
            _take(data, None if every else labels, name, ids[:blocks[-1].num_dst_nodes(t)], blocks[-1].dstnodes[t].data)

    def _pair_graphs(self, batch: Batch, seeds: Mapping[str, Any]) -> list[Any]:
        """The graph of the seeds, with their numbers, and that of their negatives if there are any."""
        some = next(iter(seeds.values())).new_empty(2, 0)
        ends = {e: batch[e].edge_label_index if sum(batch[e].num_links[:2]) else some for e in batch.edge_types}
        graphs = [graph_of({e: pairs[:, :batch[e].num_links[0]] for e, pairs in ends.items()}, seeds)]
        for e in batch.edge_types if self._numbers else ():
            first, ids = self._numbers.get(e, (0, some[0]))
            at = batch[e].input_id.long() - first if batch[e].num_links[0] else some[0].long()
            graphs[0].edges[e].data[EID] = ids[at.to(ids.device)].to(some.dtype).to(some.device)
        if getattr(self.graph_sampler, "negatives", None) is not None:
            graphs.append(graph_of({e: pairs[:, batch[e].num_links[0]:] for e, pairs in ends.items()}, seeds))
        return graphs

    def close(self) -> None:
        """Ends the server, and removes the temporary dataset."""
        super().close()
        if self._scratch is not None:
            self._scratch.close()
        self._source.close()


def _tensor(values: Any) -> Any:
    import torch

    return torch.as_tensor(values)


def _flat(wanted: Any) -> Optional[list[str]]:
    """Names of columns, of all types together."""
    if wanted is None:
        return None
    lists = wanted.values() if isinstance(wanted, Mapping) else [wanted]
    return list(dict.fromkeys(name for unknown_names in lists for name in unknown_names))


def _take(data: Mapping[str, Any], wanted: Any, of: Any, ids: Any, to: Any) -> None:
    """Puts rows of a type's data into that of a batch: those of the names wanted, which may be by type; None is all."""
    if isinstance(wanted, Mapping):
        wanted = wanted.get(of, wanted.get(of[1], []) if isinstance(of, tuple) else [])
    for name in list(data) if wanted is None else wanted:
        if name in data:
            to[name] = data[name][ids.long().to(data[name].device)].to(ids.device)
