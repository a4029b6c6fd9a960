"""DGL's samplers and DataLoader with khop's sampling: what dgl.dataloading has, by its names.

    from khop.dgl import DataLoader, NeighborSampler   # in place of dgl.dataloading

    loader = DataLoader(graph, train_nids, NeighborSampler([5, 10, 15]), batch_size=1024, shuffle=True)
    for input_nodes, output_nodes, blocks in loader:
        blocks[0].srcdata["feat"], blocks[-1].dstdata["label"]

graph is a graph of DGL, the path of a dataset of khop, or what khop.write takes. Blocks are DGL's where it is
installed, else khop.blocks.Block. docs/migrating.md, "From DGL", says what differs.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional, Sequence

from . import names
from .batch import Batch
from .blocks import EID, NID, Block, OfType, OfTypes, Space, blocks_of
from .schema import EdgeType
from .sources import OverSource, Source
from .torch import random_seed

_SECTION = "From DGL"
_OF_WORKERS = frozenset({
    "num_workers", "persistent_workers", "prefetch_factor", "worker_init_fn", "multiprocessing_context", "timeout",
    "pin_memory", "generator", "use_prefetch_thread", "use_alternate_streams", "pin_prefetcher", "use_uva",
    "use_cpu_worker_affinity", "ddp_seed",
})
_INSTEAD = {
    "gpu_cache": "khop chooses what a device keeps (device_cache of khop serve)",
    "negative_sampler": "give it to as_edge_prediction_sampler",
    "exclude": "give it to as_edge_prediction_sampler",
    "collate_fn": "batches are made by the server: change them in the loop",
}


class NeighborSampler:
    """dgl.dataloading.NeighborSampler: fanouts as DGL has them, the furthest from the seeds first.

    A fan-out is a number, or a mapping of edge types to numbers. prob and mask name columns of the edges.
    """

    def __init__(
        self, fanouts: Sequence[Any], edge_dir: str = "in", prob: Optional[str] = None, mask: Optional[str] = None,
        replace: bool = False, prefetch_node_feats: Any = None, prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None, output_device: Any = None, fused: bool = True, **unknown: Any,
    ) -> None:
        names.check(type(self).__name__, unknown, inspect.signature(NeighborSampler).parameters, _SECTION)
        self.fanouts, self.prob, self.mask, self.output_device = list(fanouts), prob, mask, output_device
        self.prefetch_node_feats, self.prefetch_labels = prefetch_node_feats, prefetch_labels
        self.prefetch_edge_feats = prefetch_edge_feats
        self.how: dict[str, Any] = {"frontier": "all"}
        if replace:
            self.how["replace"] = True
        if edge_dir != "in":
            self.how["direction"] = edge_dir

    def sample(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Input nodes, output nodes and blocks of these seeds: a server for one batch. For an epoch take DataLoader."""
        if exclude_eids is not None:
            raise TypeError("exclude_eids: khop excludes a batch's seeds: as_edge_prediction_sampler(exclude='self') "
                            f'(docs/migrating.md, "{_SECTION}")')
        number = sum(map(len, seed_nodes.values())) if isinstance(seed_nodes, Mapping) else len(seed_nodes)
        loader = DataLoader(g, seed_nodes, self, batch_size=max(number, 1))
        try:
            return next(iter(loader))
        finally:
            loader.close()


MultiLayerNeighborSampler = NeighborSampler


class MultiLayerFullNeighborSampler(NeighborSampler):
    """dgl.dataloading.MultiLayerFullNeighborSampler: all neighbours, in num_layers layers."""

    def __init__(self, num_layers: int, **kwargs: Any) -> None:
        super().__init__([-1] * num_layers, **kwargs)


class LaborSampler(NeighborSampler):
    """dgl.dataloading.LaborSampler, without prob and importance sampling."""

    def __init__(
        self, fanouts: Sequence[Any], edge_dir: str = "in", prob: Optional[str] = None, importance_sampling: int = 0,
        layer_dependency: bool = False, batch_dependency: int = 1, **kwargs: Any,
    ) -> None:
        if prob is not None or importance_sampling:
            raise TypeError('LaborSampler: khop has LABOR-0 without weights: leave out prob and importance_sampling '
                            f'(docs/migrating.md, "{_SECTION}")')
        super().__init__(fanouts, edge_dir, **kwargs)
        self.how.update(sampler="labor", poisson=True)
        if layer_dependency:
            self.how["layer_dependent"] = True
        if batch_dependency != 1:
            self.how["batch_dependency"] = batch_dependency


@dataclass
class _Negatives:
    k: int
    how: Mapping[str, Any]


class negative_sampler:
    """The samplers of dgl.dataloading.negative_sampler that khop has."""

    @staticmethod
    def Uniform(k: int) -> _Negatives:
        """k targets for each source, uniformly."""
        return _Negatives(k, {"corrupt": "target"})

    PerSourceUniform = Uniform

    @staticmethod
    def GlobalUniform(k: int, exclude_self_loops: bool = True, replace: bool = False) -> _Negatives:
        """k pairs for each edge that are none of the graph, uniformly."""
        return _Negatives(k, {"corrupt": "both", "strict": True})


class _EdgeSampler:
    """What as_edge_prediction_sampler makes: a sampler for seeds that are edges."""

    def __init__(self, sampler: NeighborSampler, exclude: Any, negatives: Optional[_Negatives]) -> None:
        self.sampler, self.how, self.negatives = sampler, dict(sampler.how), negatives
        kinds = {None: None, "self": "seeds", "reverse_id": "reverse", "reverse_types": "reverse"}
        if callable(exclude) or exclude not in kinds:
            raise TypeError(f"exclude={exclude!r}: must be 'self', 'reverse_id', 'reverse_types' or None "
                            f'(docs/migrating.md, "{_SECTION}")')
        if exclude is not None:
            self.how["exclude_seeds"] = kinds[exclude]
        if negatives is not None:
            self.how.update(negatives="uniform", negative_ratio=float(negatives.k), **negatives.how)


def as_edge_prediction_sampler(
    sampler: NeighborSampler, exclude: Any = None, reverse_eids: Any = None, reverse_etypes: Any = None,
    negative_sampler: Any = None, prefetch_labels: Any = None,
) -> _EdgeSampler:
    """dgl.dataloading.as_edge_prediction_sampler.

    khop finds reverses by their ends, so that reverse_eids has no meaning, and the reverse of edge type R in rev_R:
    reverse_etypes may say so, and nothing else.
    """
    for of, reverse in (reverse_etypes or {}).items() if exclude == "reverse_types" else ():
        one, other = (e if isinstance(e, str) else e[1] for e in (of, reverse))
        if one != other and one != f"rev_{other}" and other != f"rev_{one}":
            raise TypeError(f"reverse_etypes: {other!r} of {one!r}: khop finds reverse edges by their type's name: "
                            f"call it 'rev_{one}' (docs/migrating.md, \"{_SECTION}\")")
    if negative_sampler is not None and not isinstance(negative_sampler, _Negatives):
        raise TypeError("negative_sampler: must be one of khop.dgl.negative_sampler: Uniform, PerSourceUniform or "
                        f'GlobalUniform (docs/migrating.md, "{_SECTION}")')
    return _EdgeSampler(sampler, exclude, negative_sampler)


class DataLoader(OverSource):
    """dgl.dataloading.DataLoader. indices are nodes, edges, or mappings of types to them; of a dataset also the name of
    a split, "all", or pairs [2, n] where seeds are edges.

    Options of workers and devices are taken, and have no meaning but device, to which batches are copied. seed decides
    what is drawn; without it torch's random numbers do. options are further ones of khop.Loader. With use_ddp each
    process gets its share of the batches.

    One iteration runs at a time: beginning another ends it. close() ends the server, and so does the loader's end.
    """

    def __init__(
        self, graph: Any, indices: Any, graph_sampler: Any, device: Any = None, use_ddp: bool = False, *,
        batch_size: int = 1, drop_last: bool = False, shuffle: bool = False, seed: Optional[int] = None,
        options: Optional[Mapping[str, Any]] = None, **kwargs: Any,
    ) -> None:
        own = inspect.signature(DataLoader).parameters
        names.check("khop.dgl.DataLoader", kwargs, [*own, *_OF_WORKERS], _SECTION, _INSTEAD)
        if not isinstance(graph_sampler, (NeighborSampler, _EdgeSampler)):
            what = type(graph_sampler).__name__
            raise TypeError(f"graph_sampler: {what}: must be a sampler of khop.dgl: NeighborSampler, "
                            'MultiLayerFullNeighborSampler, LaborSampler, or as_edge_prediction_sampler of one '
                            f'(docs/migrating.md, "{_SECTION}")')
        self._edges = isinstance(graph_sampler, _EdgeSampler)
        sampler = graph_sampler.sampler if isinstance(graph_sampler, _EdgeSampler) else graph_sampler
        self.graph, self.graph_sampler, self.batch_size = graph, graph_sampler, batch_size
        self._sampler, self._device = sampler, device or sampler.output_device
        self._source = source = Source(graph, [c for c in (sampler.prob, sampler.mask) if c])
        self._numbers: dict[EdgeType, tuple[int, Any]] = {}  # of the seeds that are edges: those before, and their own
        self._how = {
            **graph_sampler.how, "fanouts": self._fanouts(sampler.fanouts), "batch_size": batch_size,
            "drop_last": drop_last, "shuffle": shuffle, "seed": random_seed(seed), "framework": "torch",
            "index_dtype": str(getattr(source.memory, "idtype", "int64")).rpartition(".")[2],
            **self._columns(), **self._seeds(indices), **(options or {}),
        }
        if not use_ddp:
            self._how.update(rank=0, world_size=1)
        for option, name in (("weight", sampler.prob), ("mask", sampler.mask)):
            if name is not None:
                self._how[option] = source.column(name, of_edges=True)

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
        for batch in self._opened().restart():
            if self._device is not None:
                batch = batch.to(self._device)
            blocks = blocks_of(batch)
            self._fill(batch, blocks)
            heads = {t: batch[t].n_id for t in batch.node_types}
            seeds = {t: heads[t][:batch[t].batch_size] for t in batch.node_types}
            if self._edges:
                yield (self._joined(heads), *self._pair_graphs(batch, seeds), blocks)
            else:
                yield self._joined(heads), self._joined(seeds), blocks

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
            data, ids = memory.nodes[name].data, batch[t].n_id.long()
            for feature in list(data) if every else _of_type(sampler.prefetch_node_feats, name):
                if feature in data:
                    blocks[0].srcnodes[t].data[feature] = data[feature][ids.to(data[feature].device)].to(ids.device)
            seeds = ids[:blocks[-1].num_dst_nodes(t)]
            for feature in list(data) if every else _of_type(sampler.prefetch_labels, name):
                if feature in data:
                    blocks[-1].dstnodes[t].data[feature] = data[feature][seeds.to(data[feature].device)].to(ids.device)

    def _pair_graphs(self, batch: Batch, seeds: Mapping[str, Any]) -> list[Any]:
        """The graph of the seeds, with their numbers, and that of their negatives if there are any."""
        some = next(iter(seeds.values())).new_empty(2, 0)
        ends = {e: batch[e].edge_label_index if sum(batch[e].num_links[:2]) else some for e in batch.edge_types}
        graphs = [_pair_graph({e: pairs[:, :batch[e].num_links[0]] for e, pairs in ends.items()}, seeds)]
        for e in batch.edge_types if self._numbers else ():
            first, ids = self._numbers.get(e, (0, some[0]))
            at = batch[e].input_id.long() - first if batch[e].num_links[0] else some[0].long()
            graphs[0].edges[e].data[EID] = ids[at.to(ids.device)].to(some.dtype).to(some.device)
        if getattr(self.graph_sampler, "negatives", None) is not None:
            graphs.append(_pair_graph({e: pairs[:, batch[e].num_links[0]:] for e, pairs in ends.items()}, seeds))
        return graphs

    def close(self) -> None:
        """Ends the server, and removes the temporary dataset."""
        if self._loader is not None:
            self._loader.close()
        self._source.close()


class PairGraph:
    """Edges over the distinct nodes that are their ends, where DGL is not installed: the names of DGL's pair_graph."""

    def __init__(self, pairs: Mapping[Any, Any], nodes: Mapping[str, Any]) -> None:
        self._pairs = dict(pairs)
        self._nodes: dict[str, dict[str, Any]] = {t: {NID: ids} for t, ids in nodes.items()}
        self._edata: dict[Any, dict[str, Any]] = {e: {} for e in self._pairs}

    @property
    def canonical_etypes(self) -> list[Any]:
        return list(self._pairs)

    @property
    def etypes(self) -> list[str]:
        return [e[1] for e in self._pairs]

    @property
    def ntypes(self) -> list[str]:
        return list(self._nodes)

    @property
    def idtype(self) -> Any:
        return next(iter(self._nodes.values()))[NID].dtype

    def _etype(self, etype: Any) -> Any:
        found = [e for e in self._pairs if etype is None or etype in (e, e[1])]
        if len(found) != 1:
            raise KeyError(f"edge type {etype!r}: there are {', '.join(map(str, self._pairs))}")
        return found[0]

    @property
    def edges(self) -> Any:
        """Sources and targets, as places in the nodes, when it is called; edges[type].data."""
        def ends(etype: Any = None) -> tuple[Any, Any]:
            source, target = self._pairs[self._etype(etype)]
            return source, target
        return Space(ends, lambda e: OfType(self._edata[self._etype(e)]))

    @property
    def nodes(self) -> Any:
        def places(ntype: Optional[str] = None) -> Any:
            ids = self._nodes[self.ntypes[0] if ntype is None else ntype][NID]
            return ids.new_ones(len(ids)).cumsum(0) - 1
        return Space(places, lambda t: OfType(self._nodes[t]))

    def num_edges(self, etype: Any = None) -> int:
        return sum(p.shape[1] for e, p in self._pairs.items() if etype is None or e == self._etype(etype))

    def num_nodes(self, ntype: Optional[str] = None) -> int:
        return sum(len(d[NID]) for t, d in self._nodes.items() if ntype in (None, t))

    @property
    def ndata(self) -> Any:
        return OfTypes(self._nodes, len(self._nodes) == 1)

    @property
    def edata(self) -> Any:
        return OfTypes(self._edata, len(self._edata) == 1)

    def __repr__(self) -> str:
        return f"PairGraph(num_nodes={self.num_nodes()}, num_edges={self.num_edges()})"


def _pair_graph(pairs: Mapping[Any, Any], nodes: Mapping[str, Any]) -> Any:
    """A graph of DGL, or without DGL a PairGraph."""
    try:
        import dgl
    except ImportError:
        return PairGraph(pairs, nodes)
    ids = next(iter(nodes.values()))
    graph = dgl.heterograph({e: (p[0].to(ids.dtype), p[1].to(ids.dtype)) for e, p in pairs.items()},
                            {t: len(ids) for t, ids in nodes.items()}, idtype=ids.dtype, device=ids.device)
    for t, ids in nodes.items():
        graph.nodes[t].data[NID] = ids
    return graph


def _tensor(values: Any) -> Any:
    import torch

    return torch.as_tensor(values)


def _flat(wanted: Any) -> Optional[list[str]]:
    """Names of columns, of all types together."""
    if wanted is None:
        return None
    lists = wanted.values() if isinstance(wanted, Mapping) else [wanted]
    return list(dict.fromkeys(name for names in lists for name in names))


def _of_type(wanted: Any, of: str) -> list[str]:
    return list((wanted.get(of, []) if isinstance(wanted, Mapping) else wanted) or [])


__all__ = [
    "EID", "NID", "Block", "DataLoader", "LaborSampler", "MultiLayerFullNeighborSampler", "MultiLayerNeighborSampler",
    "NeighborSampler", "PairGraph", "as_edge_prediction_sampler", "negative_sampler",
]
