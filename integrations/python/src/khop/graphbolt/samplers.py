"""Stages that sample: subgraphs of nodes or pairs, and negatives of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Iterator, Optional, Sequence

import torch

from .base import etype_str_to_tuple, require
from .compact import (
    compact_csc_format, compact_temporal_nodes, unique_and_compact, unique_and_compact_csc_formats,
)
from .graph import FusedCSCSamplingGraph, SamplingGraph
from .items import SECTION
from .minibatch import MiniBatch, name_of_seeds
from .pipes import MiniBatchTransformer, Stage, checked, stage
from .plan import NotByKhop, Plan
from .subgraph import SampledSubgraphImpl


def _graph(graph: Any) -> SamplingGraph:
    return graph if isinstance(graph, SamplingGraph) else SamplingGraph(graph)


@stage("sample_subgraph")
class SubgraphSampler(Stage):
    """dgl.graphbolt.SubgraphSampler: base for a class of yours with sample_subgraphs."""

    def describe(self, plan: Plan) -> None:
        """Refuses: khop has no samplers written in Python."""
        raise NotByKhop(f"{type(self).__name__} samples in Python")

    def sample_subgraphs(self, seeds: Any, seeds_timestamp: Any) -> Any:
        """Returns the input nodes and the subgraphs of seeds, which do not repeat."""
        raise NotImplementedError

    def made(self) -> Iterator[Any]:
        """Yields minibatches with subgraphs, and with seeds as places in the nodes."""
        for minibatch in self.datapipe:
            seeds, times = _seeds(minibatch)
            minibatch.input_nodes, minibatch.sampled_subgraphs = self.sample_subgraphs(seeds, times)
            yield minibatch


def _seeds(minibatch: MiniBatch) -> tuple[Any, Any]:
    """The nodes that a minibatch asks for, and their times. With times nodes may repeat. Sets its compacted fields."""
    name, times = name_of_seeds(minibatch), getattr(minibatch, "timestamp", None)
    if name is None:
        raise ValueError(f"Invalid minibatch {minibatch}: One of `node_pairs`, `seed_nodes` and `seeds` should have a "
                         "value.")
    if name == "seed_nodes":
        return minibatch.seed_nodes, times
    gathered = _Gathered()
    fields: tuple[str, ...] = ("compacted_seeds",)
    if name == "node_pairs":
        minibatch.compacted_node_pairs = gathered.each(minibatch.node_pairs, times, gathered.pairs)
        minibatch.compacted_negative_srcs = gathered.each(minibatch.negative_srcs, times, gathered.sources)
        minibatch.compacted_negative_dsts = gathered.each(minibatch.negative_dsts, times, gathered.targets)
        fields = ("compacted_node_pairs", "compacted_negative_srcs", "compacted_negative_dsts")
    else:
        minibatch.compacted_seeds = gathered.each(minibatch.seeds, times, gathered.seeds)
    nodes, node_times = gathered.done()
    for field in fields:
        value = getattr(minibatch, field)
        if isinstance(value, Mapping):
            setattr(minibatch, field, {e: v() for e, v in value.items()})
        elif value is not None:
            setattr(minibatch, field, value())
    return nodes, node_times


class _Gathered:
    """Nodes of several arrays by type, which become one list of nodes. Gathering returns a function that returns the
    places of its nodes in that list, once it is done."""

    def __init__(self) -> None:
        self.nodes: dict[str, list[Any]] = {}
        self.times: dict[str, list[Any]] = {}
        self.places: dict[str, list[Any]] = {}
        self.typed = False

    def each(self, values: Any, times: Any, gather: Any) -> Any:
        """Gathers a value, or that of each edge type."""
        if isinstance(values, Mapping):
            self.typed = True
            found = {e: gather(e, v, None if times is None else times[e]) for e, v in values.items() if v is not None}
            return found or None
        return None if values is None else gather("_N:_E:_N", values, times)

    def _add(self, of: str, ids: Any, times: Any) -> Any:
        number = len(self.nodes.setdefault(of, []))
        self.nodes[of].append(ids.reshape(-1))
        if times is not None:
            # Negatives have the times of their pairs.
            self.times.setdefault(of, []).append(times.repeat_interleave(ids.numel() // max(len(times), 1)))
        return lambda: self.places[of][number].view(ids.shape)

    def pairs(self, etype: str, pair: Any, times: Any) -> Any:
        source, _, target = etype_str_to_tuple(etype)
        ends = self._add(source, pair[0], times), self._add(target, pair[1], times)
        return lambda: (ends[0](), ends[1]())

    def sources(self, etype: str, ids: Any, times: Any) -> Any:
        return self._add(etype_str_to_tuple(etype)[0], ids, times)

    def targets(self, etype: str, ids: Any, times: Any) -> Any:
        return self._add(etype_str_to_tuple(etype)[2], ids, times)

    def seeds(self, etype: str, ids: Any, times: Any) -> Any:
        """Nodes, pairs or hyperlinks, one a row; where there are more than times, negatives follow."""
        if times is not None and len(times) != len(ids):
            times = torch.cat([times, times.repeat_interleave(len(ids) // len(times) - 1)])
        if ids.dim() == 1:
            return self._add("_N" if etype == "_N:_E:_N" else etype, ids, times)
        if not self.typed:
            whole = None if times is None else times.repeat_interleave(ids.shape[1])
            return self._add("_N", ids, whole)
        types = etype.split(":")[::2]
        require(ids.dim() == 2 and ids.shape[1] == len(types),
                f"Only tensor with shape 1*N and N*{len(types)} is supported now, but got {ids.shape}.")
        columns = [self._add(t, ids[:, i], times) for i, t in enumerate(types)]
        return lambda: torch.stack([c() for c in columns], 1)

    def done(self) -> tuple[Any, Any]:
        """All nodes, and their times."""
        nodes: Any
        times: Any = None
        if self.times:
            nodes, times, self.places = compact_temporal_nodes(self.nodes, self.times)
        else:
            nodes, self.places = unique_and_compact(self.nodes)
        return (nodes, times) if self.typed else (nodes["_N"], None if times is None else times["_N"])


@stage("sample_in_subgraph")
class InSubgraphSampler(SubgraphSampler):
    """dgl.graphbolt.InSubgraphSampler: all in-edges of the seeds."""

    def __init__(self, datapipe: Any, graph: Any) -> None:
        super().__init__(datapipe)
        self.graph = _graph(graph)

    def describe(self, plan: Plan) -> None:
        """Plans neighbour sampling with all neighbours."""
        Stage.describe(self, plan)
        plan.sample(self.graph, fanouts=[-1], frontier="all")

    def sample_subgraphs(self, seeds: Any, seeds_timestamp: Any) -> Any:
        """Samples one layer."""
        found = _tensors(self.graph).in_subgraph(_whole(self.graph, seeds))
        subgraph = _compacted(found, _whole(self.graph, seeds), True)
        return subgraph.original_row_node_ids, [subgraph]


@stage("sample_neighbor")
class NeighborSampler(SubgraphSampler):
    """dgl.graphbolt.NeighborSampler: fanouts as in GraphBolt, the furthest from the seeds first.

    Hops expand all nodes reached so far, as in GraphBolt (frontier="all"; khop.Loader's own default is "new").
    """

    method = "sample_neighbors"

    def __init__(
        self, datapipe: Any, graph: Any, fanouts: Sequence[Any], replace: bool = False,
        prob_name: Optional[str] = None, deduplicate: bool = True, **unknown: Any,
    ) -> None:
        checked(type(self), unknown)
        super().__init__(datapipe)
        self.graph, self.replace, self.prob_name, self.deduplicate = _graph(graph), replace, prob_name, deduplicate
        self.fanouts = [k if isinstance(k, torch.Tensor) else torch.tensor([int(k)]) for k in fanouts]

    def describe(self, plan: Plan) -> None:
        """Plans khop's neighbour sampling."""
        Stage.describe(self, plan)
        if not self.deduplicate:
            raise NotByKhop("deduplicate=False: in khop a node is in a batch once")
        how: dict[str, Any] = {"frontier": "all"}
        if self.replace:
            how["replace"] = True
        if self.prob_name is not None:
            how["weight"] = self.graph.attribute(self.prob_name, True)
        plan.sample(self.graph, **_fanouts(self.graph, self.fanouts), **how)

    def sample_subgraphs(self, seeds: Any, seeds_timestamp: Any) -> Any:
        """Samples one layer after the other."""
        graph = _tensors(self.graph)
        subgraphs: list[SampledSubgraphImpl] = []
        seeds = _whole(graph, seeds)
        for fanout in reversed(self.fanouts):
            found = getattr(graph, self.method)(seeds, fanout, self.replace, self.prob_name)
            subgraphs.insert(0, _compacted(found, seeds, self.deduplicate))
            seeds = subgraphs[0].original_row_node_ids
        return seeds, subgraphs


@stage("sample_layer_neighbor")
class LayerNeighborSampler(NeighborSampler):
    """dgl.graphbolt.LayerNeighborSampler: LABOR."""

    method = "sample_layer_neighbors"

    def __init__(
        self, datapipe: Any, graph: Any, fanouts: Sequence[Any], replace: bool = False,
        prob_name: Optional[str] = None, deduplicate: bool = True, layer_dependency: bool = False,
        batch_dependency: int = 1, **unknown: Any,
    ) -> None:
        super().__init__(datapipe, graph, fanouts, replace, prob_name, deduplicate, **unknown)
        self.dependent = {**({"layer_dependent": True} if layer_dependency else {}),
                          **({"batch_dependency": batch_dependency} if batch_dependency != 1 else {})}

    def describe(self, plan: Plan) -> None:
        """Plans khop's LABOR."""
        if self.replace or self.prob_name is not None:
            raise NotByKhop("sample_layer_neighbor: khop has LABOR without replace and prob_name")
        super().describe(plan)
        if plan.how.pop("together", False):
            raise NotByKhop("sample_layer_neighbor: khop has LABOR with a fan-out for each edge type, and this is one "
                            "for all types")
        plan.how.update(sampler="labor", **self.dependent)

    def sample_subgraphs(self, seeds: Any, seeds_timestamp: Any) -> Any:
        """Samples with new draws in each layer of each batch."""
        if self.dependent:
            raise TypeError("layer_dependency and batch_dependency: by khop alone, and here the stages sample: "
                            f'give the pipeline to DataLoader (khop docs migrating, "{SECTION}")')
        return super().sample_subgraphs(seeds, seeds_timestamp)


@stage("temporal_sample_neighbor")
class TemporalNeighborSampler(NeighborSampler):
    """dgl.graphbolt.TemporalNeighborSampler: samples edges and nodes before the time of the item, whose name is
    timestamp."""

    method = "temporal_sample_neighbors"

    def __init__(
        self, datapipe: Any, graph: Any, fanouts: Sequence[Any], replace: bool = False,
        prob_name: Optional[str] = None, node_timestamp_attr_name: Optional[str] = None,
        edge_timestamp_attr_name: Optional[str] = None, **unknown: Any,
    ) -> None:
        super().__init__(datapipe, graph, fanouts, replace, prob_name, **unknown)
        self.times = node_timestamp_attr_name, edge_timestamp_attr_name

    def describe(self, plan: Plan) -> None:
        """Plans khop's temporal sampling."""
        super().describe(plan)
        nodes, edges = self.times
        plan.how.update(sampler="temporal", time_rules=["before"],
                        time="none" if edges is None else self.graph.attribute(edges, True))
        if nodes is not None:
            plan.how["node_time"] = self.graph.attribute(nodes, False)

    def sample_subgraphs(self, seeds: Any, seeds_timestamp: Any) -> Any:
        """Samples one layer after the other. Each pick is a node of its own, with the time of the node that it was
        picked for."""
        require(seeds_timestamp is not None, "temporal sampling needs items that are named timestamp")
        graph = _tensors(self.graph)
        subgraphs: list[SampledSubgraphImpl] = []
        seeds, times = _whole(graph, seeds), _whole(graph, seeds_timestamp)
        for fanout in reversed(self.fanouts):
            found = getattr(graph, self.method)(seeds, times, fanout, self.replace, self.prob_name, *self.times)
            rows, csc, times = compact_csc_format(found.sampled_csc, seeds, times)
            subgraphs.insert(0, SampledSubgraphImpl(csc, seeds, rows, found.original_edge_ids))
            seeds = rows
        return seeds, subgraphs


@stage("temporal_sample_layer_neighbor")
class TemporalLayerNeighborSampler(TemporalNeighborSampler):
    """dgl.graphbolt.TemporalLayerNeighborSampler: as TemporalNeighborSampler, by LABOR."""

    method = "temporal_sample_layer_neighbors"

    def describe(self, plan: Plan) -> None:
        """Refuses: khop has no LABOR with times."""
        raise NotByKhop("temporal_sample_layer_neighbor: khop has LABOR without times")


def _tensors(graph: SamplingGraph) -> FusedCSCSamplingGraph:
    if not isinstance(graph, FusedCSCSamplingGraph):
        raise TypeError(f'{graph!r}: only khop samples in a dataset (khop docs migrating, "{SECTION}")')
    return graph


def _whole(graph: Any, of: Any) -> Any:
    """Values of all node types; those that are not there are empty."""
    if not isinstance(of, Mapping) or not of:
        return of
    none = next(iter(of.values()))[:0]
    return {t: of.get(t, none) for t in graph.node_type_to_id}


def _compacted(found: Any, seeds: Any, deduplicate: bool) -> SampledSubgraphImpl:
    compact = unique_and_compact_csc_formats if deduplicate else compact_csc_format
    rows, csc = compact(found.sampled_csc, seeds)
    return SampledSubgraphImpl(csc, seeds, rows, found.original_edge_ids)


def _fanouts(graph: SamplingGraph, fanouts: Sequence[Any]) -> dict[str, Any]:
    """khop's fan-outs: the first out of the seeds. A number alone is for all edge types together, as in GraphBolt."""
    hops = [k.reshape(-1).tolist() for k in fanouts][::-1]
    if all(len(k) == 1 for k in hops):
        return {"fanouts": [k[0] for k in hops], **({} if graph.plain else {"together": True})}
    if any(len(k) not in (1, len(graph.edge_types)) for k in hops):
        raise ValueError("fanouts: must be a number, or one for each of the edge types " + ", ".join(graph.edge_types))
    if any(len(k) == 1 for k in hops):
        raise NotByKhop("some fan-outs are for all edge types together, others for each")
    return {"fanouts": {e: [k[i] for k in hops] for i, e in enumerate(graph.edge_types)}}


@stage("sample_negative")
class NegativeSampler(MiniBatchTransformer):
    """dgl.graphbolt.NegativeSampler: base for a class of yours with _sample_with_etype."""

    def __init__(self, datapipe: Any, negative_ratio: int) -> None:
        super().__init__(datapipe, self._sample)
        require(isinstance(negative_ratio, int) and negative_ratio > 0,
                f"negative_ratio={negative_ratio!r}: must be a whole number above 0")
        self.negative_ratio = negative_ratio

    def describe(self, plan: Plan) -> None:
        """Refuses: khop has no samplers written in Python."""
        raise NotByKhop(f"{type(self).__name__} draws negatives in Python")

    def _sample_with_etype(self, node_pairs: Any, etype: Optional[str] = None, use_seeds: bool = False) -> Any:
        raise NotImplementedError

    def _sample(self, minibatch: Any) -> Any:
        """Negatives in negative_srcs and negative_dsts, or behind the pairs in seeds."""
        pairs = minibatch.node_pairs if minibatch.seeds is None else minibatch.seeds
        require(pairs is not None, "negatives need pairs: items named node_pairs or seeds")
        each = pairs if isinstance(pairs, Mapping) else {None: pairs}
        if minibatch.seeds is None:
            found = {e: self._sample_with_etype(p, e) for e, p in each.items()}
            drawn = [{e: None if n[i] is None else n[i].view(-1, self.negative_ratio) for e, n in found.items()}
                     for i in (0, 1)]
            fields = dict(zip(("negative_srcs", "negative_dsts"), drawn))
        else:
            found = {e: self._sample_with_etype(p, e, use_seeds=True) for e, p in each.items()}
            fields = {f: {e: n[i] for e, n in found.items()} for i, f in enumerate(("seeds", "labels", "indexes"))}
        for field, of in fields.items():
            setattr(minibatch, field, of if isinstance(pairs, Mapping) else of[None])
        return minibatch


@stage("sample_uniform_negative")
class UniformNegativeSampler(NegativeSampler):
    """dgl.graphbolt.UniformNegativeSampler: draws negative_ratio targets for each pair, uniformly."""

    def __init__(self, datapipe: Any, graph: Any, negative_ratio: int) -> None:
        super().__init__(datapipe, negative_ratio)
        self.graph = _graph(graph)

    def describe(self, plan: Plan) -> None:
        """Has khop draw them while it samples."""
        Stage.describe(self, plan)
        if plan.negatives is not None or plan.graph is not None:
            raise NotByKhop("negatives are drawn twice, or after sampling")
        plan.negatives = self.graph, self.negative_ratio

    def _sample_with_etype(self, node_pairs: Any, etype: Optional[str] = None, use_seeds: bool = False) -> Any:
        graph = _tensors(self.graph)
        if not use_seeds:
            return graph.sample_negative_edges_uniform(etype, node_pairs, self.negative_ratio)
        require(node_pairs.ndim == 2 and node_pairs.shape[1] == 2,
                f"Only tensor with shape N*2 is supported for negative sampling, but got {node_pairs.shape}.")
        seeds = graph.sample_negative_edges_uniform(etype, node_pairs, self.negative_ratio)
        number = torch.arange(len(node_pairs), device=seeds.device)
        labels = torch.arange(len(seeds), device=seeds.device) < len(node_pairs)
        return seeds, labels, torch.cat([number, number.repeat_interleave(self.negative_ratio)])
