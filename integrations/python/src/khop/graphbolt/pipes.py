"""Pipelines: descriptions of what a khop server shall do."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any, Callable, Iterator, Optional, Sequence

import torch

from .. import names
from ..sources import Source
from ..torch import random_seed
from .data import SamplingGraph
from .described import Described
from .items import SECTION, HeteroItemSet, ItemSet
from .minibatch import DataLoader, of_items


class Datapipe(Described):
    """A pipeline: where items come from, options of khop.Loader, and what is done with each minibatch."""

    def _in(self, graph: Any) -> None:
        self.graph = graph if isinstance(graph, SamplingGraph) else SamplingGraph(graph)

    def sample_neighbor(self, graph: Any, fanouts: Sequence[Any], **kwargs: Any) -> Datapipe:
        return NeighborSampler(self, graph, fanouts, **kwargs)

    def sample_layer_neighbor(self, graph: Any, fanouts: Sequence[Any], **kwargs: Any) -> Datapipe:
        return LayerNeighborSampler(self, graph, fanouts, **kwargs)

    def temporal_sample_neighbor(self, graph: Any, fanouts: Sequence[Any], **kwargs: Any) -> Datapipe:
        return TemporalNeighborSampler(self, graph, fanouts, **kwargs)

    def sample_in_subgraph(self, graph: Any) -> Datapipe:
        return NeighborSampler(self, graph, [-1])

    def sample_uniform_negative(self, graph: Any, negative_ratio: int) -> Datapipe:
        return UniformNegativeSampler(self, graph, negative_ratio)

    def exclude_seed_edges(
        self, include_reverse_edges: bool = False, reverse_etypes_mapping: Any = None, **kwargs: Any,
    ) -> Datapipe:
        return Datapipe(self, exclude_seeds="reverse" if include_reverse_edges else "seeds")

    def fetch_feature(
        self, feature_store: Any, node_feature_keys: Any = None, edge_feature_keys: Any = None, **kwargs: Any,
    ) -> Datapipe:
        return FeatureFetcher(self, feature_store, node_feature_keys, edge_feature_keys)

    def copy_to(self, device: Any, **kwargs: Any) -> Datapipe:
        return CopyTo(self, device)

    def transform(self, fn: Callable[[Any], Any]) -> Datapipe:
        """Does fn with each minibatch; so does map. exclude_seed_edges, alone or in a partial, the server does."""
        what = fn.func if isinstance(fn, partial) else fn
        if what is exclude_seed_edges:
            return self.exclude_seed_edges(*getattr(fn, "args", ()), **getattr(fn, "keywords", {}))
        out = Datapipe(self)
        out.after.append(fn)
        return out

    map = transform

    def __iter__(self) -> Iterator[Any]:
        return iter(DataLoader(self)) if self.graph is not None else of_items(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        known = [n for n in dir(Datapipe) if not n.startswith("_")]
        try:
            names.check("a pipeline of khop.graphbolt", [name], known, SECTION)
        except TypeError as e:
            raise AttributeError(str(e)) from None


def exclude_seed_edges(minibatch: Any, *args: Any, **kwargs: Any) -> Any:
    """dgl.graphbolt.exclude_seed_edges, for transform(): what khop samples has no such edges."""
    raise TypeError("exclude_seed_edges: khop leaves edges out when it samples: give this function to transform() of a "
                    f'pipeline, alone or in a partial (docs/migrating.md, "{SECTION}")')


class ItemSampler(Datapipe):
    """dgl.graphbolt.ItemSampler. seed decides order and draws; without it torch's random numbers do."""

    def __init__(
        self, item_set: Any, batch_size: int, minibatcher: Any = None, drop_last: bool = False, shuffle: bool = False,
        seed: Optional[int] = None, **unknown: Any,
    ) -> None:
        names.check("ItemSampler", unknown, inspect.signature(ItemSampler).parameters, SECTION)
        if minibatcher is not None:
            raise TypeError("minibatcher: khop makes minibatches itself: transform() changes them "
                            f'(docs/migrating.md, "{SECTION}")')
        super().__init__(batch_size=batch_size, drop_last=drop_last, shuffle=shuffle, seed=random_seed(seed), rank=0,
                         world_size=1)
        self.items = item_set if isinstance(item_set, (ItemSet, HeteroItemSet)) else ItemSet(item_set)


class DistributedItemSampler(ItemSampler):
    """dgl.graphbolt.DistributedItemSampler: each process gets its share. seed must be the same in all."""

    def __init__(
        self, item_set: Any, batch_size: int, minibatcher: Any = None, drop_last: bool = False, shuffle: bool = False,
        drop_uneven_inputs: bool = False, seed: Optional[int] = None, **unknown: Any,
    ) -> None:
        super().__init__(item_set, batch_size, minibatcher, drop_last, shuffle, seed or 0, **unknown)
        self.how.update(remainder="drop" if drop_uneven_inputs else "short", rank=None, world_size=None)


class NeighborSampler(Datapipe):
    """dgl.graphbolt.NeighborSampler: fanouts as GraphBolt has them, the furthest from the seeds first.

    Hops expand all nodes so far, as GraphBolt's do (frontier="all", where khop's own default is "new").
    """

    def __init__(
        self, datapipe: Datapipe, graph: Any, fanouts: Sequence[Any], replace: bool = False,
        prob_name: Optional[str] = None, deduplicate: bool = True, **unknown: Any,
    ) -> None:
        ignored = ("overlap_fetch", "num_gpu_cached_edges", "gpu_cache_threshold", "cooperative", "asynchronous")
        names.check(type(self).__name__, unknown, [*inspect.signature(NeighborSampler).parameters, *ignored], SECTION)
        if not deduplicate:
            raise TypeError(f'deduplicate=False: a node is in a batch once (docs/migrating.md, "{SECTION}")')
        super().__init__(datapipe)
        self._in(graph)
        assert self.graph is not None
        self.how.update(_fanouts(self.graph.source, fanouts), frontier="all")
        if replace:
            self.how["replace"] = True
        if prob_name is not None:
            self.how["weight"] = self.graph.source.column(prob_name, of_edges=True)


class LayerNeighborSampler(NeighborSampler):
    """dgl.graphbolt.LayerNeighborSampler: LABOR."""

    def __init__(
        self, datapipe: Datapipe, graph: Any, fanouts: Sequence[Any], replace: bool = False,
        prob_name: Optional[str] = None, deduplicate: bool = True, layer_dependency: bool = False,
        batch_dependency: int = 1, **unknown: Any,
    ) -> None:
        if replace or prob_name is not None:
            raise TypeError("sample_layer_neighbor: khop has LABOR without replace and prob_name "
                            f'(docs/migrating.md, "{SECTION}")')
        super().__init__(datapipe, graph, fanouts, deduplicate=deduplicate, **unknown)
        self.how["sampler"] = "labor"
        if layer_dependency:
            self.how["layer_dependent"] = True
        if batch_dependency != 1:
            self.how["batch_dependency"] = batch_dependency


class TemporalNeighborSampler(NeighborSampler):
    """dgl.graphbolt.TemporalNeighborSampler: edges and nodes before the time of the item, which is named timestamp."""

    def __init__(
        self, datapipe: Datapipe, graph: Any, fanouts: Sequence[Any], replace: bool = False,
        prob_name: Optional[str] = None, node_timestamp_attr_name: Optional[str] = None,
        edge_timestamp_attr_name: Optional[str] = None, **unknown: Any,
    ) -> None:
        super().__init__(datapipe, graph, fanouts, replace, prob_name, **unknown)
        assert self.graph is not None
        source, edges, nodes = self.graph.source, edge_timestamp_attr_name, node_timestamp_attr_name
        self.how.update(sampler="temporal", time_rules=["before"],
                        time="none" if edges is None else source.column(edges, of_edges=True))
        if nodes is not None:
            self.how["node_time"] = source.column(nodes)


class UniformNegativeSampler(Datapipe):
    """dgl.graphbolt.UniformNegativeSampler: negative_ratio targets for each pair, uniformly."""

    def __init__(self, datapipe: Datapipe, graph: Any, negative_ratio: int) -> None:
        super().__init__(datapipe, negatives="uniform", negative_ratio=float(negative_ratio))


class FeatureFetcher(Datapipe):
    """dgl.graphbolt.FeatureFetcher. The store is a dataset's, whose features come with batches, or one in memory."""

    def __init__(
        self, datapipe: Datapipe, feature_store: Any, node_feature_keys: Any = None, edge_feature_keys: Any = None,
    ) -> None:
        super().__init__(datapipe)
        self.features, self.node_keys, self.edge_keys = feature_store, node_feature_keys, edge_feature_keys


class CopyTo(Datapipe):
    """dgl.graphbolt.CopyTo: minibatches go to a device."""

    def __init__(self, datapipe: Datapipe, device: Any) -> None:
        super().__init__(datapipe)
        self.after.append(lambda minibatch: minibatch.to(device))


def _fanouts(source: Source, fanouts: Sequence[Any]) -> dict[str, Any]:
    """khop's fan-outs: the first out of the seeds. A number alone is for all edge types together, as in GraphBolt."""
    hops = [torch.as_tensor(k).reshape(-1).tolist() for k in fanouts][::-1]
    if all(len(k) == 1 for k in hops):
        return {"fanouts": [k[0] for k in hops], **({} if source.plain else {"together": True})}
    if any(len(k) not in (1, len(source.edge_types)) for k in hops):
        types = ", ".join(map(str, source.edge_types))
        raise ValueError(f"fanouts: must be a number, or one for each of the edge types {types}")
    names_of = map(":".join, source.edge_types)
    return {"fanouts": {e: [k[i if len(k) > 1 else 0] for k in hops] for i, e in enumerate(names_of)}}
