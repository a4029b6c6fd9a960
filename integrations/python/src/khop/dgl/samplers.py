"""The samplers of dgl.dataloading that khop has."""

from __future__ import annotations

import contextlib
import inspect
import os
import pickle
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from .._config import unknown_names
from .._native.scratch import Scratch
from .._peers.graph_source import Source, partition
from .described import SECTION, Drawn, EdgeSampler, Negatives, Sampler
from .loading import DataLoader


class NeighborSampler(Sampler):
    """dgl.dataloading.NeighborSampler: fanouts as in DGL, the furthest from the seeds first.

    A fan-out is a number, or a mapping of edge types to numbers. prob and mask name columns of the edges. Hops expand
    all nodes reached so far, as in DGL (frontier="all"; khop.Loader's own default is "new").
    """

    def __init__(
        self, fanouts: Sequence[Any], edge_dir: str = "in", prob: Optional[str] = None, mask: Optional[str] = None,
        replace: bool = False, prefetch_node_feats: Any = None, prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None, output_device: Any = None, fused: bool = True, **unknown: Any,
    ) -> None:
        unknown_names.check(type(self).__name__, unknown, inspect.signature(NeighborSampler).parameters, SECTION)
        super().__init__({"frontier": "all"}, prefetch_node_feats, prefetch_labels, prefetch_edge_feats, output_device)
        self.fanouts, self.prob, self.mask = list(fanouts), prob, mask
        if replace:
            self.how["replace"] = True
        if edge_dir != "in":
            self.how["direction"] = edge_dir

    def sample(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Returns input nodes, output nodes and blocks of these seeds. It starts a server for this one batch: use
        DataLoader for an epoch."""
        if exclude_eids is not None:
            raise TypeError("exclude_eids: khop excludes a batch's seeds: as_edge_prediction_sampler(exclude='self') "
                            f'(khop docs migrating, "{SECTION}")')
        number = sum(map(len, seed_nodes.values())) if isinstance(seed_nodes, Mapping) else len(seed_nodes)
        return _one(g, seed_nodes, self, max(number, 1))


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
                            f'(khop docs migrating, "{SECTION}")')
        super().__init__(fanouts, edge_dir, **kwargs)
        self.how.update(sampler="labor", poisson=True)
        if layer_dependency:
            self.how["layer_dependent"] = True
        if batch_dependency != 1:
            self.how["batch_dependency"] = batch_dependency


class ShaDowKHopSampler(NeighborSampler):
    """dgl.dataloading.ShaDowKHopSampler: input nodes, output nodes, and one graph of all edges between the input nodes.

    fanouts and prob are as in NeighborSampler. The seeds of a batch share one graph, as in DGL.
    """

    blocks = False

    def __init__(
        self, fanouts: Sequence[Any], replace: bool = False, prob: Optional[str] = None,
        prefetch_node_feats: Any = None, prefetch_edge_feats: Any = None, output_device: Any = None, **unknown: Any,
    ) -> None:
        unknown_names.check("ShaDowKHopSampler", unknown, inspect.signature(ShaDowKHopSampler).parameters, SECTION)
        super().__init__(
            fanouts, prob=prob, replace=replace, prefetch_node_feats=prefetch_node_feats,
            prefetch_edge_feats=prefetch_edge_feats, output_device=output_device)
        self.how["induced"] = True


class ClusterGCNSampler(Drawn):
    """dgl.dataloading.ClusterGCNSampler, with khop's partition. DataLoader's indices are the numbers of all parts.

    cache_path is a file in DGL's form, which DGL and khop both read. mode is accepted and has no effect.
    """

    def __init__(
        self, g: Any, k: int, cache_path: Any = "cluster_gcn.pkl", balance_ntypes: Any = None,
        balance_edges: bool = False, mode: str = "k-way", prefetch_ndata: Any = None, prefetch_edata: Any = None,
        output_device: Any = None,
    ) -> None:
        if balance_ntypes is not None or balance_edges:
            raise TypeError("ClusterGCNSampler: khop's parts have as many nodes each: leave out balance_ntypes and "
                            f'balance_edges (khop docs migrating, "{SECTION}")')
        super().__init__({"sampler": "cluster"}, prefetch_ndata, None, prefetch_edata, output_device)
        import torch

        if os.path.exists(cache_path):
            try:
                with open(cache_path, "rb") as cache:
                    offset, nodes = pickle.load(cache)
            except (EOFError, TypeError, ValueError, pickle.UnpicklingError):
                raise ValueError(f"cache_path: {cache_path} is not what ClusterGCNSampler writes: remove it, or name "
                                 "another") from None
            if len(offset) != k + 1:
                raise ValueError(f"cache_path: {cache_path} has {len(offset) - 1} parts, not {k}: remove it, or name "
                                 "another")
        else:
            of = _divided(g, k)
            nodes = torch.from_numpy(np.argsort(of, kind="stable"))
            offset = torch.from_numpy(np.insert(np.cumsum(np.bincount(of, minlength=k)), 0, 0))
            with open(cache_path, "wb") as cache:
                pickle.dump((offset, nodes), cache)
        self.partition_offset, self.partition_node_ids = offset, nodes

    def items(self, indices: Any, batch_size: int, drop_last: bool, folder: str) -> dict[str, Any]:
        offset, nodes = np.asarray(self.partition_offset), np.asarray(self.partition_node_ids)
        parts, given = len(offset) - 1, np.asarray(indices)
        if sorted(given.tolist()) != list(range(parts)):
            raise TypeError(f"indices: khop uses all parts: give the numbers 0 to {parts - 1}, each once "
                            f'(khop docs migrating, "{SECTION}")')
        place = np.empty(parts, np.int64)  # in the order of an epoch that is not shuffled
        place[given] = np.arange(parts)
        of = np.empty(len(nodes), np.int64)
        of[nodes] = np.repeat(place, np.diff(offset))
        file = os.path.join(folder, "parts")
        np.savetxt(file, of, "%d")
        return {"partition": file, "clusters": batch_size, "drop_last": drop_last}

    def sample(self, g: Any, partition_ids: Any) -> Any:
        """Returns the graph of these parts. It starts a server for this one batch: use DataLoader for an epoch."""
        import torch

        first = self.partition_offset.tolist()
        nodes = torch.cat([self.partition_node_ids[first[i]:first[i + 1]] for i in np.asarray(partition_ids).tolist()])
        return _one(g, nodes, _Induced(self), 1)


class SAINTSampler(Drawn):
    """dgl.dataloading.SAINTSampler. Only the number of DataLoader's indices counts: each batch of them is one graph.

    mode "walk" has a budget of (roots, length); walks of a dataset follow edges from target to source. cache is
    accepted and has no effect.
    """

    in_order = True

    def __init__(
        self, mode: str, budget: Any, cache: bool = True, prefetch_ndata: Any = None, prefetch_edata: Any = None,
        output_device: Any = "cpu",
    ) -> None:
        if mode not in ("node", "edge", "walk"):
            raise ValueError(f"Expect mode to be 'node', 'edge' or 'walk', got {mode}.")
        self.budget, self.backward = budget, mode == "walk"
        numbers = tuple(budget) if isinstance(budget, (tuple, list)) else (budget,)
        if len(numbers) != 1 + self.backward:
            form = "roots and length, (3000, 4)" if self.backward else "a number, 6000"
            raise ValueError(f"budget={budget!r}: of mode {mode!r} it is {form}")
        how = {"sampler": f"saint-{mode}", "coverage": 0, **dict(zip(("budget", "length"), map(int, numbers)))}
        super().__init__(how, prefetch_ndata, None, prefetch_edata, output_device)

    def items(self, indices: Any, batch_size: int, drop_last: bool, folder: str) -> dict[str, Any]:
        full, rest = divmod(len(indices), batch_size)
        return {"steps": full + (rest > 0 and not drop_last), "batch_size": 1}

    def sample(self, g: Any, indices: Any = None) -> Any:
        """Returns a graph. It starts a server for this one batch: use DataLoader for an epoch."""
        return _one(g, [0], self, 1)


class _Induced(Drawn):
    """The nodes given, and all edges between them."""

    def __init__(self, of: Sampler) -> None:
        super().__init__(
            {"sampler": "induced"}, of.prefetch_node_feats, None, of.prefetch_edge_feats, of.output_device)

    def items(self, indices: Any, batch_size: int, drop_last: bool, folder: str) -> dict[str, Any]:
        return {"seeds": indices, "batch_size": max(len(indices), 1)}


def _one(g: Any, indices: Any, sampler: Any, batch_size: int) -> Any:
    """The first batch of a loader."""
    with contextlib.closing(DataLoader(g, indices, sampler, batch_size=batch_size)) as loader:
        return next(iter(loader))


def _divided(g: Any, parts: int) -> Any:
    """The part of each node."""
    with contextlib.closing(Source(g)) as source, contextlib.closing(Scratch("khop-parts-")) as scratch:
        if not source.plain:
            raise TypeError("ClusterGCNSampler: takes a graph with one type of nodes and of edges")
        file = scratch.file("parts")
        partition(source.path, parts, file)
        return np.loadtxt(file, dtype=np.int64, ndmin=1)


class negative_sampler:
    """The samplers of dgl.dataloading.negative_sampler that khop has."""

    @staticmethod
    def Uniform(k: int) -> Negatives:
        """Draws k targets for each source, uniformly."""
        return Negatives(k, {"corrupt": "target"})

    PerSourceUniform = Uniform

    @staticmethod
    def GlobalUniform(k: int, exclude_self_loops: bool = True, replace: bool = False) -> Negatives:
        """Draws k pairs for each edge uniformly, of those that are not edges of the graph."""
        return Negatives(k, {"corrupt": "both", "strict": True})


class _EdgeSampler(EdgeSampler):
    def sample(self, g: Any, seed_edges: Any) -> Any:
        """Returns input nodes, the graph of these edges, that of their negatives if there are any, and blocks. It
        starts a server for this one batch: use DataLoader for an epoch."""
        sets = seed_edges.values() if isinstance(seed_edges, Mapping) else [seed_edges]
        return _one(g, seed_edges, self, max(sum(np.shape(of)[-1] for of in sets), 1))


def as_edge_prediction_sampler(
    sampler: NeighborSampler, exclude: Any = None, reverse_eids: Any = None, reverse_etypes: Any = None,
    negative_sampler: Any = None, prefetch_labels: Any = None,
) -> EdgeSampler:
    """dgl.dataloading.as_edge_prediction_sampler: makes the sampler load edges in place of nodes.

    khop finds reverse edges by their ends, so reverse_eids has no effect. The reverse of edge type R is rev_R, and
    reverse_etypes may name no other.
    """
    for of, reverse in (reverse_etypes or {}).items() if exclude == "reverse_types" else ():
        one, other = (e if isinstance(e, str) else e[1] for e in (of, reverse))
        if one != other and one != f"rev_{other}" and other != f"rev_{one}":
            raise TypeError(f"reverse_etypes: {other!r} of {one!r}: khop finds reverse edges by their type's name: "
                            f"call it 'rev_{one}' (khop docs migrating, \"{SECTION}\")")
    if negative_sampler is not None and not isinstance(negative_sampler, Negatives):
        raise TypeError("negative_sampler: must be one of khop.dgl.negative_sampler: Uniform, PerSourceUniform or "
                        f'GlobalUniform (khop docs migrating, "{SECTION}")')
    if not isinstance(sampler, NeighborSampler):
        raise TypeError(f"sampler: {type(sampler).__name__}: must be a sampler of neighbours, for seeds that are edges "
                        f'(khop docs migrating, "{SECTION}")')
    return _EdgeSampler(sampler, exclude, negative_sampler)
