"""PyG's NeighborSampler and BidirectionalNeighborSampler: samples of given seeds, one call at a time."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import torch
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput
from torch_geometric.sampler import neighbor_sampler as pyg
from torch_geometric.sampler.base import DataType, NumNeighbors, SubgraphType

from .._peers.arguments import check_options, combined
from ..torch import random_seed
from .neighbor import _ARGUMENTS
from .structure import structure_of


class NeighborSampler(pyg.NeighborSampler):  # type: ignore[misc]
    """torch_geometric.sampler.NeighborSampler: for sample_from_nodes and sample_from_edges.

    The first call opens a khop.Sampler, which answers this and later ones in this process, from any thread. For an
    epoch use NeighborLoader or LinkNeighborLoader, which make batches ahead. seed keys what is drawn, call after call.
    """

    def __init__(
        self, data: Any, num_neighbors: Any, subgraph_type: Any = "directional", replace: bool = False,
        disjoint: bool = False, temporal_strategy: str = "uniform", time_attr: Optional[str] = None,
        weight_attr: Optional[str] = None, is_sorted: bool = False, share_memory: bool = False, directed: bool = True,
        sample_direction: str = "forward", *, seed: Optional[int] = None, options: Optional[Mapping[str, Any]] = None,
    ) -> None:
        if sample_direction not in ("forward", "backward"):
            raise ValueError(f"sample_direction={sample_direction!r}: must be 'forward' or 'backward'")
        if sample_direction == "backward" and time_attr is not None:
            raise NotImplementedError("time_attr: sampling by time goes forward, up to the time of the seed")
        self.structure = structure = structure_of(
            data, weight=weight_attr, time=time_attr, backward=sample_direction == "backward")
        self.data_type = DataType.homogeneous if structure.node_types == [None] else DataType.heterogeneous
        self.sample_direction = sample_direction
        self.node_types, self.edge_types = structure.node_types, structure.edge_types
        whole = structure.data
        counts = {of: (whole if of is None else whole[of]).num_nodes for of in structure.node_types}
        self.num_nodes = counts if self.is_hetero else counts[None]
        self.node_time = self.edge_time = None
        if time_attr is not None and not structure.dataset:
            times = whole.collect(time_attr) if self.is_hetero else whole[time_attr]
            self.node_time, self.edge_time = (None, times) if structure.time_of_edges else (times, None)
        self.perm = None
        self.num_neighbors = num_neighbors
        self.replace, self.disjoint = replace, disjoint
        self.subgraph_type = SubgraphType(subgraph_type if directed else "induced")
        self.temporal_strategy, self.keep_orig_edges = temporal_strategy, False
        check_options(options)
        self._seed, self._calls = random_seed(combined({"seed": seed}, options)["seed"]), 0
        self._how = combined(
            dict(replace=replace, induced=self.subgraph_type == SubgraphType.induced,
                 **structure.sampled_by(weight_attr, time_attr, temporal_strategy)), options, _ARGUMENTS)
        self._time = None if "as_of" in self._how else time_attr

    @property
    def num_neighbors(self) -> Any:
        return self._num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, given: Any) -> None:
        self._num_neighbors = given if isinstance(given, NumNeighbors) else NumNeighbors(given)

    def _sample(self, seed: Any, seed_time: Any = None, **kwargs: Any) -> Any:
        structure = self.structure
        seeds = seed if isinstance(seed, dict) else {None: seed}
        times = seed_time if isinstance(seed_time, dict) else {None: seed_time}
        number = sum(map(len, seeds.values()))
        if self._time is not None and seed_time is None:
            for of, ids in seeds.items():
                if len(ids):
                    structure.check_times(self._time, of)
        values = self.num_neighbors.get_values(None if not self.is_hetero else self.edge_types)
        if not number:
            return self._nothing(self.num_neighbors.num_hops)
        fanouts = structure.by_edge_type(values) if isinstance(values, dict) else list(values)
        key, self._calls = self._calls, (self._calls + 1) % (1 << 32)
        batch = structure.ask(seeds, None if seed_time is None else times, None, key,
                              **self._how, fanouts=fanouts, disjoint=self.disjoint, seed=self._seed)
        return structure.output(batch, None)

    def _nothing(self, hops: int) -> Any:
        """The sample of no seeds."""
        none = torch.empty(0, dtype=torch.int64)
        trees = none if self.disjoint else None
        if not self.is_hetero:
            return SamplerOutput(node=none, row=none, col=none, edge=none, batch=trees,
                                 num_sampled_nodes=[0] * (hops + 1), num_sampled_edges=[0] * hops)
        nodes, edges = dict.fromkeys(self.node_types, none), dict.fromkeys(self.edge_types, none)
        return HeteroSamplerOutput(
            node=nodes, row=edges, col=dict(edges), edge=dict(edges), batch=None if trees is None else dict(nodes),
            num_sampled_nodes={of: [0] * (hops + 1) for of in nodes},
            num_sampled_edges={of: [0] * hops for of in edges})

    def close(self) -> None:
        """Removes the temporary dataset."""
        self.structure.close()


class BidirectionalNeighborSampler(pyg.BidirectionalNeighborSampler):  # type: ignore[misc]
    """torch_geometric.sampler.BidirectionalNeighborSampler, made of two samplers of khop."""

    def __init__(
        self, data: Any, num_neighbors: Any, subgraph_type: Any = "directional", replace: bool = False,
        disjoint: bool = False, temporal_strategy: str = "uniform", time_attr: Optional[str] = None,
        weight_attr: Optional[str] = None, is_sorted: bool = False, share_memory: bool = False, directed: bool = True,
        *, seed: Optional[int] = None, options: Optional[Mapping[str, Any]] = None,
    ) -> None:
        values = num_neighbors.values if isinstance(num_neighbors, NumNeighbors) else num_neighbors
        if isinstance(values, dict):
            raise RuntimeError("num_neighbors: BidirectionalNeighborSampler takes a list, not numbers by edge type")
        self.forward_sampler, self.backward_sampler = (
            NeighborSampler(
                data, num_neighbors, subgraph_type, replace, disjoint, temporal_strategy, time_attr, weight_attr,
                directed=directed, sample_direction=direction, seed=seed, options=options)
            for direction in ("forward", "backward"))
        self.num_neighbors = num_neighbors
        self.subgraph_type = SubgraphType(subgraph_type)
        self.keep_orig_edges = False
        self.num_nodes, self.node_time = self.forward_sampler.num_nodes, None  # which PyG's own lacks, for links

    def close(self) -> None:
        """Removes the temporary datasets."""
        self.forward_sampler.close()
        self.backward_sampler.close()
