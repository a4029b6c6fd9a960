"""PyTorch Geometric's NeighborLoader and LinkNeighborLoader with khop's sampling: PyG's signatures and form of batches.

    from khop.pyg import NeighborLoader   # in place of torch_geometric.loader

The structure of the graph goes to a khop server once. Attributes of nodes and edges stay where they are, and PyG itself
takes their rows, so no feature is copied but those of a batch. Batches are those of khop.Loader: seed= decides them, or
torch.manual_seed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from functools import partial
from typing import Any, Callable, Iterator, Mapping, Optional

import torch
from torch_geometric.data import Data, HeteroData, remote_backend_utils
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.loader.utils import get_edge_label_index
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, SamplerOutput
from torch_geometric.sampler.base import NegativeSampling, NumNeighbors, SubgraphType

from .batch import Batch
from .errors import ServerError
from .loader import Loader
from .write import adjacency, write

_OF_WORKERS = frozenset({
    "persistent_workers", "prefetch_factor", "worker_init_fn", "multiprocessing_context", "timeout", "pin_memory",
    "pin_memory_device", "generator",
})
"""Options of torch's DataLoader for its worker processes, of which there are none."""


class _Served:
    """What loaders of nodes and of links share: a server that begins with the first iteration."""

    _loader: Optional[Loader]
    _how: dict[str, Any]

    def _batches(self, load: Callable[..., Loader]) -> Iterator[Batch]:
        if self._loader is None:
            self._loader = load(**self._how)
        return iter(self._loader.restart())

    def _khop(self) -> KhopSampler:
        raise NotImplementedError

    def close(self) -> None:
        """Ends the server, and removes the dataset. Using the loader after that is a ServerError."""
        if self._loader is not None:
            self._loader.close()
            self._loader = None
        self._khop().close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NeighborLoader(_Served, NodeLoader):  # type: ignore[misc]
    """torch_geometric.loader.NeighborLoader, see there; docs/migrating.md says what differs.

    data is a Data, a HeteroData, or a feature store and a graph store. seed decides what is drawn; without it, torch's
    random numbers do when the loader is made. num_workers and other options of worker processes are taken and have no
    meaning: a khop server makes batches ahead. options are further ones of khop.Loader, such as max_memory. TypeError
    or ValueError for what khop does not have.

    One iteration runs at a time: beginning another ends it. close() ends the server, and so does the loader's end.
    """

    def __init__(
        self, data: Any, num_neighbors: Any, input_nodes: Any = None, input_time: Any = None, replace: bool = False,
        subgraph_type: Any = "directional", disjoint: bool = False, temporal_strategy: str = "uniform",
        time_attr: Optional[str] = None, weight_attr: Optional[str] = None,
        transform: Optional[Callable[..., Any]] = None, transform_sampler_output: Optional[Callable[..., Any]] = None,
        is_sorted: bool = False, filter_per_worker: Optional[bool] = None, neighbor_sampler: Any = None,
        directed: bool = True, *, batch_size: int = 1, shuffle: bool = False, drop_last: bool = False,
        num_workers: int = 0, seed: Optional[int] = None, options: Optional[Mapping[str, Any]] = None, **kwargs: Any,
    ) -> None:
        if input_time is not None and time_attr is None:
            raise ValueError("input_time: times of seeds are for sampling by time: give time_attr as well")
        self._loader = None
        self._how = dict(batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, seed=_seed(seed))
        sampler = KhopSampler(
            data, num_neighbors, replace=replace, subgraph_type=subgraph_type, disjoint=disjoint,
            temporal_strategy=temporal_strategy, time_attr=time_attr, weight_attr=weight_attr, seed=self._how["seed"],
            options=options, instead_of=neighbor_sampler)
        super().__init__(
            data=data, node_sampler=sampler, input_nodes=input_nodes, input_time=input_time, transform=transform,
            transform_sampler_output=transform_sampler_output, filter_per_worker=False, batch_size=batch_size,
            shuffle=shuffle, drop_last=drop_last, **_without_workers(kwargs))

    def _khop(self) -> KhopSampler:
        sampler: KhopSampler = self.node_sampler
        return sampler

    def __iter__(self) -> Iterator[Any]:
        given, sampler = self.input_data, self._khop()
        for batch in self._batches(partial(sampler.load, given)):
            items = batch[sampler.node_type(given.input_type)].input_id
            ids = items if given.input_id is None else given.input_id[items]
            times = None if given.time is None else given.time[items]
            yield self.filter_fn(sampler.output(batch, (ids, times)))


class LinkNeighborLoader(_Served, LinkLoader):  # type: ignore[misc]
    """torch_geometric.loader.LinkNeighborLoader, see there; docs/python.md says what differs. Else as NeighborLoader.

    khop draws the negatives. Their weights are those of the targets for triplets, and the same for both ends of binary
    ones.
    """

    def __init__(
        self, data: Any, num_neighbors: Any, edge_label_index: Any = None, edge_label: Any = None,
        edge_label_time: Any = None, replace: bool = False, subgraph_type: Any = "directional", disjoint: bool = False,
        temporal_strategy: str = "uniform", neg_sampling: Any = None, neg_sampling_ratio: Any = None,
        time_attr: Optional[str] = None, weight_attr: Optional[str] = None,
        transform: Optional[Callable[..., Any]] = None, transform_sampler_output: Optional[Callable[..., Any]] = None,
        is_sorted: bool = False, filter_per_worker: Optional[bool] = None, neighbor_sampler: Any = None,
        directed: bool = True, *, batch_size: int = 1, shuffle: bool = False, drop_last: bool = False,
        num_workers: int = 0, seed: Optional[int] = None, options: Optional[Mapping[str, Any]] = None, **kwargs: Any,
    ) -> None:
        if (edge_label_time is None) != (time_attr is None):
            missing = "edge_label_time" if edge_label_time is None else "time_attr"
            raise ValueError(f"'{missing}' is not set: sampling by time needs both edge_label_time and time_attr")
        self._loader = None
        self._how = dict(batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, seed=_seed(seed))
        negatives = NegativeSampling.cast(neg_sampling)
        if neg_sampling_ratio:
            negatives = NegativeSampling("binary", neg_sampling_ratio)
        sampler = KhopSampler(
            data, num_neighbors, replace=replace, subgraph_type=subgraph_type, disjoint=disjoint,
            temporal_strategy=temporal_strategy, time_attr=time_attr, weight_attr=weight_attr, seed=self._how["seed"],
            options=options, links=get_edge_label_index(data, edge_label_index)[0], negatives=negatives,
            instead_of=neighbor_sampler)
        super().__init__(
            data=data, link_sampler=sampler, edge_label_index=edge_label_index, edge_label=edge_label,
            edge_label_time=edge_label_time, neg_sampling=negatives, transform=transform,
            transform_sampler_output=transform_sampler_output, filter_per_worker=False, batch_size=batch_size,
            shuffle=shuffle, drop_last=drop_last, **_without_workers(kwargs))

    def _khop(self) -> KhopSampler:
        sampler: KhopSampler = self.link_sampler
        return sampler

    def __iter__(self) -> Iterator[Any]:
        given, sampler = self.input_data, self._khop()
        for batch in self._batches(partial(sampler.load_links, given)):
            yield self.filter_fn(sampler.output(batch, sampler.about_links(batch, given)))


class KhopSampler(BaseSampler):  # type: ignore[misc]
    """A graph's structure as a temporary dataset of khop, and samples of it in PyG's form."""

    edge_permutation = None

    def __init__(
        self, data: Any, num_neighbors: Any, *, replace: bool, subgraph_type: Any, disjoint: bool,
        temporal_strategy: str, time_attr: Optional[str], weight_attr: Optional[str], seed: int,
        options: Optional[Mapping[str, Any]], links: Any = None, negatives: Any = None, instead_of: Any = None,
    ) -> None:
        """links is the edge type of the seeds where they are edges, which need not have edges in data."""
        if instead_of is not None:
            raise TypeError("neighbor_sampler: khop samples itself; leave it out")
        if isinstance(data, tuple):
            if weight_attr is not None:
                raise TypeError("weight_attr: stores of features and graphs have no weights; take a HeteroData")
            features, graph = data
            data = _of_stores(features, graph, time_attr)
        if not isinstance(data, (Data, HeteroData)):
            what = type(data).__name__
            raise TypeError(f"data: {what}: must be a Data, a HeteroData, or a feature store and a graph store")
        self._seed = seed
        self._subgraph = SubgraphType(subgraph_type)
        self.node_types = data.node_types if isinstance(data, HeteroData) else [None]
        self.edge_types = list(data.edge_types) if isinstance(data, HeteroData) else [None]
        own = len(self.edge_types)
        if links is not None and links not in self.edge_types:
            self.edge_types.append(links)
        self._negatives = negatives
        self._options: dict[str, Any] = dict(
            fanouts=self._fanouts(num_neighbors, own), replace=replace, disjoint=disjoint,
            induced=self._subgraph == SubgraphType.induced,
            node_columns=[], seed_columns=[], edge_columns=["edge_id"], framework="torch",
        )
        if weight_attr is not None:
            self._options["weight"] = "weight"
        if time_attr is not None:
            stores = [data.edge_attrs()] if isinstance(data, Data) else data.edge_stores
            of_edges = any(time_attr in s for s in stores)
            self._options.update(sampler="temporal", disjoint=True, recent=temporal_strategy == "last",
                                 time="time" if of_edges else "none", **({} if of_edges else {"node_time": "time"}))
        weights = None
        if negatives is not None:
            triplets, weights, other = negatives.is_triplet(), negatives.dst_weight, negatives.src_weight
            same = weights is other or weights is not None and other is not None and torch.equal(weights, other)
            if not triplets and not same:
                raise TypeError("neg_sampling: binary negatives have the same weights for both ends (docs/python.md)")
            self._options.update(negatives="uniform", negative_ratio=float(negatives.amount), triplets=triplets,
                                 corrupt="target" if triplets else "both")
            if weights is not None:
                self._options.update(negatives="weight", negative_weight="negative_weight")
            if time_attr is not None and "node_time" in self._options:
                self._options["negative_time"] = "time"
        self._options.update(options or {})
        folder = tempfile.mkdtemp(prefix="khop-pyg-")
        self._end = weakref.finalize(self, shutil.rmtree, folder, True)
        self._path = os.path.join(folder, "data.khop")
        try:
            parts = self._structure(data, weight_attr, time_attr)
            if weights is not None:
                parts[self.edge_type(links)[2]]["negative_weight"] = weights
            write(self._path, parts)
        except BaseException:
            self._end()
            raise

    # Types have numbers for names in the dataset: PyG's may be any text.

    def node_type(self, of: Optional[str]) -> str:
        return f"n{self.node_types.index(of)}"

    def edge_type(self, of: Any) -> tuple[str, str, str]:
        if of is None:
            return "n0", "e0", "n0"
        return self.node_type(of[0]), f"e{self.edge_types.index(of)}", self.node_type(of[2])

    def _fanouts(self, num_neighbors: Any, own: int) -> Any:
        """Fan-outs of the data's own edge types; nobody follows the others."""
        given = num_neighbors if isinstance(num_neighbors, NumNeighbors) else NumNeighbors(num_neighbors)
        if self.edge_types == [None]:
            return list(given.get_values()) or [0]
        values = given.get_values(self.edge_types[:own]) if own else {}
        given.num_hops  # raises where edge types differ in their number of hops
        lists = [list(values[of] if isinstance(values, dict) else values) or [0] for of in self.edge_types[:own]]
        none = [0] * max(map(len, lists), default=1)
        lists += [none] * (len(self.edge_types) - own)
        return {self.edge_type(of)[1]: k for of, k in zip(self.edge_types, lists)}

    def _structure(self, data: Any, weight: Optional[str], time: Optional[str]) -> dict[Any, Any]:
        parts: dict[Any, Any] = {}
        for of in self.node_types:
            store = data._store if of is None else data[of]
            parts[self.node_type(of)] = {"num_nodes": store.num_nodes}
            if time is not None and time in store and (of is not None or data.is_node_attr(time)):
                parts[self.node_type(of)]["node_time"] = store[time]
        for of in self.edge_types:
            store = data._store if of is None else data[of] if of in data.edge_types else {}
            values = adjacency({k: store[k] for k in ("edge_index", "adj_t") if k in store})
            values = values or {"edge_index": torch.empty(2, 0, dtype=torch.int64)}
            edges = values["src"] if "src" in values else values["edge_index"][0]
            part = {k: v for k, v in values.items() if k in ("edge_index", "src", "dst")}
            part["edge_id"] = torch.arange(len(edges))
            if weight is not None:
                part["edge_weight"] = store[weight] if weight in store else torch.ones(len(edges))
            if time is not None and time in store and (of is not None or data.is_edge_attr(time)):
                part["edge_time"] = store[time]
            parts[self.edge_type(of)] = part
        return parts

    # --- samples ---

    def load(self, inputs: Any, **how: Any) -> Loader:
        """A loader whose seeds are these nodes, at their times."""
        of = self.node_type(inputs.input_type)
        times = None if inputs.time is None else {of: inputs.time}
        return self._open(seeds={of: inputs.node}, input_time=times, **how)

    def sample_from_nodes(self, inputs: Any, **kwargs: Any) -> Any:
        """A sample of its own, for loader(ids): a server for one batch."""
        with self.load(inputs, batch_size=max(len(inputs.node), 1), seed=self._seed) as loader:
            return self.output(next(iter(loader)).copy(), (inputs.input_id, inputs.time))

    def load_links(self, inputs: Any, **how: Any) -> Loader:
        """A loader whose seeds are these edges."""
        of = self.edge_type(inputs.input_type)
        times = None if inputs.time is None else {of: inputs.time}
        return self._open(edge_label_index={of: torch.stack([inputs.row, inputs.col])}, edge_label_time=times, **how)

    def _open(self, **how: Any) -> Loader:
        if not self._end.alive:
            raise ServerError("the loader is closed: make another")
        return Loader(self._path, **{**self._options, **how})

    def sample_from_edges(self, inputs: Any, **kwargs: Any) -> Any:
        with self.load_links(inputs, batch_size=max(len(inputs.row), 1), seed=self._seed) as loader:
            batch = next(iter(loader)).copy()
            return self.output(batch, self.about_links(batch, inputs))

    def about_links(self, batch: Batch, inputs: Any) -> Any:
        """What PyG's loader of links adds to a batch: the seeds' numbers, ends, labels and times."""
        view = batch[self.edge_type(inputs.input_type)]
        seeds, negatives, _ = view.num_links
        items = view.input_id.long()
        ids = items if inputs.input_id is None else inputs.input_id[items]
        times = None if inputs.time is None else inputs.time[items]
        if self._negatives is not None and self._negatives.is_triplet():
            negative = view.dst_neg_index
            negative = negative.squeeze(-1) if negative.shape[1] == 1 else negative
            return ids, view.src_index, view.dst_pos_index, negative, times
        labels = None if inputs.label is None else inputs.label[items]
        if self._negatives is not None:
            labels = torch.ones(seeds) if labels is None else labels
            labels = torch.cat([labels, labels.new_zeros(negatives, *labels.shape[1:])])
        return ids, view.edge_label_index, labels, None if times is None else times[view.edge_label_group.long()]

    def output(self, batch: Batch, metadata: Any) -> Any:
        """A batch in PyG's form."""
        heads = {of: batch[self.node_type(of)] for of in self.node_types}
        edges = {of: batch[self.edge_type(of)] for of in self.edge_types}  # with a type that seeds alone have
        index = {of: view.edge_index for of, view in edges.items()}
        trees = None
        if self._options["disjoint"]:
            trees = {of: batch.array(f"sample/tree/{view.type}").long() for of, view in heads.items()}
        out: Any
        if self.node_types == [None]:
            out = SamplerOutput(
                node=heads[None].n_id, row=index[None][0], col=index[None][1], edge=edges[None]["edge_id"],
                batch=None if trees is None else trees[None], num_sampled_nodes=heads[None].num_sampled_nodes,
                num_sampled_edges=edges[None].num_sampled_edges, metadata=metadata)
        else:
            out = HeteroSamplerOutput(
                node={of: v.n_id for of, v in heads.items()}, row={of: e[0] for of, e in index.items()},
                col={of: e[1] for of, e in index.items()},
                edge={of: v["edge_id"] for of, v in edges.items()}, batch=trees,
                num_sampled_nodes={of: v.num_sampled_nodes for of, v in heads.items()},
                num_sampled_edges={of: v.num_sampled_edges for of, v in edges.items()}, metadata=metadata)
        return out.to_bidirectional() if self._subgraph == SubgraphType.bidirectional else out

    def close(self) -> None:
        """Removes the dataset."""
        self._end()


def _of_stores(features: Any, graph: Any, time: Optional[str]) -> Any:
    """The structure of a graph store, as a Data or HeteroData, with the times of nodes alone."""
    sources, targets, _ = graph.coo()
    if isinstance(sources, torch.Tensor):
        rows = [features.get_tensor_size(a)[0] for a in features.get_all_tensor_attrs()]
        data = Data(edge_index=torch.stack([sources, targets]), num_nodes=max(rows, default=None))
    else:
        data = HeteroData()
        for of in sources:
            for end in (of[0], of[2]):
                data[end].num_nodes = remote_backend_utils.num_nodes(features, graph, end)
            data[of].edge_index = torch.stack([sources[of], targets[of]])
    for attribute in features.get_all_tensor_attrs():
        if attribute.attr_name == time:
            attribute.index = None
            store = data if isinstance(data, Data) else data[attribute.group_name]
            store[time] = features.get_tensor(attribute)
    return data


def _without_workers(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in _OF_WORKERS}


def _seed(seed: Optional[int]) -> int:
    return int(torch.empty((), dtype=torch.int64).random_().item()) if seed is None else seed
