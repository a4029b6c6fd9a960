"""NeighborLoader and LinkNeighborLoader, and the samplers behind them."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import Any, Callable, Iterator, Mapping, Optional

import torch
from torch_geometric.data import Data
from torch_geometric import loader as of_pyg
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.loader.utils import get_edge_label_index
from torch_geometric.sampler import BaseSampler, SamplerOutput
from torch_geometric.sampler.base import NegativeSampling, NumNeighbors, SubgraphType
from torch_geometric.sampler.neighbor_sampler import edge_sample

from .._batch.batch import Batch
from .._peers.arguments import combined, epochs
from .._loader.loader import Loader
from ..relational import tables_of
from .repeats import Repeats
from .rows import Rows, wide, without
from .served import Listed, Served, check_ids, without_workers
from .structure import OfDataset, structure_of


class _Filtered(Served):
    """What loaders of nodes and of links share: PyG takes the rows of a batch from the data."""

    data: Any
    transform: Optional[Callable[..., Any]]
    transform_sampler_output: Optional[Callable[..., Any]]
    filter_fn: Callable[..., Any]
    _order: Any = None  # a sampler of torch that draws the seeds of each epoch

    def _check_state(self) -> None:
        if self._order is not None:
            raise TypeError("state_dict: the seeds are drawn by a sampler of torch's, whose place khop does not know")

    @cached_property
    def _rows(self) -> Rows:
        return Rows()

    @contextlib.contextmanager
    def enable_cpu_affinity(self, loader_cores: Any = None) -> Iterator[None]:
        """Takes what PyG takes, and does nothing: there are no workers to bind to cores."""
        yield

    @contextlib.contextmanager
    def enable_multithreading(self, worker_threads: Optional[int] = None) -> Iterator[None]:
        """Takes what PyG takes, and does nothing: khop's threads are the option workers of khop.Loader."""
        yield

    def _made(self, batch: Batch, out: Any, repeats: Optional[Repeats] = None) -> Any:
        """PyG's object of a batch: with attributes of the data, or with the columns of a dataset."""
        of_dataset = self._structure.dataset
        nodes = out.node if isinstance(out.node, dict) else {None: out.node}
        given = self.transform_sampler_output is not None  # then out is for that, too
        taken = [] if of_dataset or given else list(wide(self.data, nodes))
        ends = None if given else _ends_apart(out, self.data)
        if not of_dataset and not taken and ends is None:
            return self.filter_fn(out)
        view: Any = object.__new__(type(self))  # threads may use one loader: it stays as it is
        view.__dict__.update(self.__dict__, transform=None)
        if taken:
            view.data = without(self.data, taken)
        data = view.filter_fn(out)
        if ends is not None:
            data.edge_index = ends
        if of_dataset:
            self._structure.add_columns(batch, data, repeats)
        for of, name, values in taken:
            (data if of is None else data[of])[name] = self._rows.take(values, nodes[of])
        return data if self.transform is None else self.transform(data)


def _ends_apart(out: Any, data: Any) -> Any:
    """Takes the ends of edges out of a sample of a Data, if they are one array, which PyG would copy. Else None."""
    if not isinstance(out, SamplerOutput) or type(data) is not Data or "edge_index" not in data:
        return None
    ends = out.row._base
    if ends is None or out.col._base is not ends or ends.shape != (2, len(out.row)) or not ends.is_contiguous():
        return None
    if out.row.data_ptr() != ends.data_ptr() or out.col.data_ptr() == out.row.data_ptr():
        return None
    out.row = out.col = ends[0, :0]
    return ends


class NeighborLoader(_Filtered, of_pyg.NeighborLoader):  # type: ignore[misc]
    """torch_geometric.loader.NeighborLoader; docs/migrating.md lists what differs.

    data is a Data, a HeteroData, a feature store and a graph store, or the path of a dataset of khop. A dataset's
    columns come with the batches, and input_nodes may name one of its splits. seed keys what is drawn; without it,
    torch's random numbers do when the loader is made. num_workers and other options of worker processes are accepted
    and have no effect: khop makes batches ahead. sampler, one of torch's such as PyG's ImbalancedSampler, draws the
    seeds of each epoch before it begins. options are further ones of khop.Loader, such as max_memory: one decides where
    the argument that means the same keeps its default; where both are given and differ, the loader is refused.
    TypeError or ValueError for what khop does not have.

    Iterations that run at the same time have a server each. state_dict, load_state_dict and set_epoch are as in
    torchdata. close() ends the servers, as does the end of the loader object.
    """

    def __init__(
        self, data: Any, num_neighbors: Any, input_nodes: Any = None, input_time: Any = None, replace: bool = False,
        subgraph_type: Any = "directional", disjoint: bool = False, temporal_strategy: str = "uniform",
        time_attr: Optional[str] = None, weight_attr: Optional[str] = None,
        transform: Optional[Callable[..., Any]] = None, transform_sampler_output: Optional[Callable[..., Any]] = None,
        is_sorted: bool = False, filter_per_worker: Optional[bool] = None, neighbor_sampler: Any = None,
        directed: bool = True, *, batch_size: int = 1, shuffle: bool = False, drop_last: bool = False,
        num_workers: int = 0, seed: Optional[int] = None, options: Optional[Mapping[str, Any]] = None,
        temporal_comparison: Optional[str] = None, input_start_time: Any = None, input_end_time: Any = None,
        **kwargs: Any,
    ) -> None:
        self._how = epochs(options, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, seed=seed)
        if input_end_time is not None and input_time is not None:
            raise TypeError("input_time and input_end_time are the same: give one")
        input_time = input_end_time if input_time is None else input_time
        if input_time is not None and time_attr is None:
            raise ValueError("input_time: times of seeds are for sampling by time: give time_attr as well")
        kwargs = without_workers(
            NeighborLoader, {**kwargs, "neighbor_sampler": neighbor_sampler}, ("custom_cls", "input_id", "sampler"))
        sampler = KhopSampler(
            data, num_neighbors, replace=replace, subgraph_type=subgraph_type if directed else "induced",
            disjoint=disjoint, temporal_strategy=temporal_strategy, time_attr=time_attr, weight_attr=weight_attr,
            seed=self._how["seed"], options=options, temporal_comparison=temporal_comparison)
        self._structure = sampler.structure
        if self._structure.tables is not None and input_time is not None:
            self._structure.tables.check_times("input_time", input_time)
        if time_attr is not None and input_time is None and not {"as_of", "time", "node_time"} & set(options or ()):
            self._structure.check_times(time_attr, input_nodes)
        self._begin(sampler, data, input_nodes, input_time=input_time, transform=transform,
                    transform_sampler_output=transform_sampler_output, **kwargs)
        sampler.begins("input_start_time", input_start_time, self.input_data)

    def _begin(self, sampler: KhopSampler, data: Any, input_nodes: Any, /, **kwargs: Any) -> None:
        """What PyG's loader of nodes sets up. Seeds that are a split of a dataset or all nodes the server lists."""
        structure, self._order = self._structure, kwargs.get("sampler")
        typed = isinstance(input_nodes, tuple)
        of, name = input_nodes if typed else (None, input_nodes)
        if isinstance(structure, OfDataset):
            data = structure.data
            if isinstance(name, str) and (typed or name not in structure.node_types):
                structure.check_split("input_nodes", name)
                if name not in structure.node_types:
                    input_nodes = self._split(structure, sampler, of, name)
        elif structure.node_types != [None]:
            type_of = of if typed else name
            if not isinstance(type_of, str) or type_of not in structure.node_types:
                there_are = ", ".join(map(repr, structure.node_types))
                raise ValueError(f"input_nodes: must name a node type, alone or before ids or a mask: {there_are}")
        if name is not None and not isinstance(name, str):
            check_ids("input_nodes", name, structure.num_nodes(of if typed else structure.node_types[0]))
        NodeLoader.__init__(
            self, data=data, node_sampler=sampler, input_nodes=input_nodes, filter_per_worker=False,
            **{name: self._how[name] for name in ("batch_size", "shuffle", "drop_last")}, **kwargs)
        given = self.input_data
        if name is not None and not isinstance(name, str):
            _check_range(given.node, structure.num_nodes(given.input_type))
        elif self._order is None and "seeds" not in self._how and given.time is None:
            self._how["seeds"] = f"all:{structure.node_type(given.input_type)}"

    def _split(self, structure: OfDataset, sampler: KhopSampler, of: Optional[str], name: str) -> Any:
        """input_nodes for seeds that are a split, of which PyG learns the number alone."""
        if self._order is not None:
            raise TypeError("sampler: the seeds are a split, which only the server lists: give input_nodes ids")
        self._how["seeds"], sampler.only_counted = name, True
        ids = torch.zeros(1, dtype=torch.int64).expand(structure.splits[name])
        return ids if structure.plain else (of or structure.node_types[0], ids)

    def _khop(self) -> KhopSampler:
        sampler: KhopSampler = self.node_sampler
        return sampler

    def __iter__(self) -> Iterator[Any]:
        given = self.input_data
        if self._order is not None:
            given = given[_numbers(self._order)]
        if not len(given.node):
            return
        listed = self._order is not None
        for batch in self._listed_batches(given) if listed else self._batches():
            items = batch[self._structure.node_type(given.input_type)].input_id
            ids = items if given.input_id is None else given.input_id[items]
            yield self.made(batch, given.input_type, ids, None if given.time is None else given.time[items])

    def __call__(self, index: Any) -> Any:
        """The batch of some of the seeds."""
        return self.answer(self.input_data[index])

    def answer(self, inputs: Any, key: int = 0) -> Any:
        """Returns the batch of these seeds, PyG's NodeSamplerInput. key separates the draws of calls."""
        return self.made(self.ask(inputs, key), inputs.input_type, inputs.input_id, inputs.time)

    def ask(self, inputs: Any, key: int) -> Batch:
        """Returns khop's batch of a request. Any thread may call it."""
        return self._khop().ask(inputs, key)

    def made(self, batch: Batch, of: Any, ids: Any, times: Any) -> Any:
        """Returns PyG's object of a batch with seeds of a type, which have these numbers and times."""
        sampler, tables = self._khop(), self._structure.tables
        repeats = self._structure.repeats(batch, of)
        plain = repeats is None and self.transform_sampler_output is None
        if tables is None or not plain or sampler.subgraph_type == SubgraphType.bidirectional:
            return self._made(batch, sampler.output(batch, (ids, times), repeats), repeats)
        data = tables.to_pyg(batch)
        data[of]._mapping.update(input_id=ids, seed_time=times, batch_size=len(ids))
        return data if self.transform is None else self.transform(data)

    def _listed_batches(self, given: Any) -> Iterator[Batch]:
        """Batches of these seeds, which a sampler of torch has drawn for an epoch."""
        of, load = self._structure.seed_type(given.input_type), self._khop().load
        with self._lent("listed", Listed) as listed:
            yield from listed.batches(
                [(of, given.node, given.time, self._khop().start_of(given))], None,
                lambda seeds: load(given, **{**self._how, "seeds": seeds}))

    def _open(self) -> Loader:
        return self._khop().load(self.input_data, **self._how)


def _check_range(nodes: Any, num_nodes: int) -> None:
    """A ValueError for the first of these seeds that is no node."""
    bad = (nodes < 0) | (nodes >= num_nodes)
    if bad.any():
        at = int(bad.nonzero()[0])
        raise ValueError(f"input_nodes: {int(nodes[at])}, number {at}: must be in 0 .. {num_nodes - 1}")


def _numbers(order: Any) -> Any:
    """What a sampler of torch draws: places in a loader's list of seeds."""
    return torch.tensor(list(order), dtype=torch.int64)


class LinkNeighborLoader(_Filtered, of_pyg.LinkNeighborLoader):  # type: ignore[misc]
    """torch_geometric.loader.LinkNeighborLoader; docs/python.md lists what differs. Otherwise as NeighborLoader. With
    sampler each epoch has a server of its own, unless trees are kept apart.

    khop draws the negatives. Their weights are those of the targets for triplets, and the same for both ends of binary
    ones. If trees are kept apart (disjoint, times) and data is in memory, PyG draws the negatives, for an epoch at a
    time.
    """

    def __init__(
        self, data: Any, num_neighbors: Any, edge_label_index: Any = None, edge_label: Any = None,
        edge_label_time: Any = None, replace: bool = False, subgraph_type: Any = "directional", disjoint: bool = False,
        temporal_strategy: str = "uniform", neg_sampling: Any = None, neg_sampling_ratio: Any = None,
        time_attr: Optional[str] = None, weight_attr: Optional[str] = None,
        transform: Optional[Callable[..., Any]] = None, transform_sampler_output: Optional[Callable[..., Any]] = None,
        is_sorted: bool = False, filter_per_worker: Optional[bool] = None, neighbor_sampler: Any = None,
        directed: bool = True, *, batch_size: int = 1, shuffle: bool = False, drop_last: bool = False,
        num_workers: int = 0, seed: Optional[int] = None, options: Optional[Mapping[str, Any]] = None,
        temporal_comparison: Optional[str] = None, edge_label_start_time: Any = None, **kwargs: Any,
    ) -> None:
        self._how = epochs(options, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, seed=seed)
        if (edge_label_time is None) != (time_attr is None):
            missing = "edge_label_time" if edge_label_time is None else "time_attr"
            raise ValueError(f"'{missing}' is not set: sampling by time needs both edge_label_time and time_attr")
        kwargs = without_workers(
            LinkNeighborLoader, {**kwargs, "neighbor_sampler": neighbor_sampler}, ("custom_cls", "input_id", "sampler"))
        negatives = NegativeSampling.cast(neg_sampling)
        if neg_sampling_ratio:
            negatives = NegativeSampling("binary", neg_sampling_ratio)
        of_path = tables_of(data) is not None or not hasattr(data, "stores") and not isinstance(data, tuple)
        links = _type_of_links(edge_label_index) if of_path else get_edge_label_index(data, edge_label_index)[0]
        sampler = KhopSampler(
            data, num_neighbors, replace=replace, subgraph_type=subgraph_type if directed else "induced",
            disjoint=disjoint, temporal_strategy=temporal_strategy, time_attr=time_attr, weight_attr=weight_attr,
            seed=self._how["seed"], options=options, links=links, negatives=negatives,
            temporal_comparison=temporal_comparison)
        self._structure, self._order = sampler.structure, kwargs.get("sampler")
        if isinstance(self._structure, OfDataset):
            data = self._structure.data
            edge_label_index = self._edges_of(self._structure, sampler, links, edge_label_index, edge_label)
        LinkLoader.__init__(
            self, data=data, link_sampler=sampler, edge_label_index=edge_label_index, edge_label=edge_label,
            edge_label_time=edge_label_time, neg_sampling=negatives, transform=transform,
            transform_sampler_output=transform_sampler_output, filter_per_worker=False,
            **{name: self._how[name] for name in ("batch_size", "shuffle", "drop_last")}, **kwargs)
        if edge_label_start_time is not None and sampler.trees_of_ends:
            raise TypeError("edge_label_start_time: PyG draws negatives for data in memory, and each end has a tree: "
                            "give the path of a dataset, or take khop.Loader")
        sampler.begins("edge_label_start_time", edge_label_start_time, self.input_data)

    def _edges_of(self, structure: OfDataset, sampler: KhopSampler, links: Any, given: Any, labels: Any) -> Any:
        """edge_label_index for a dataset. All its edges are counted alone: the server knows them."""
        pairs = given[1] if isinstance(given, (tuple, list)) and len(given) == 2 and links is not None else given
        if isinstance(pairs, str):
            structure.check_edge_type("edge_label_index", pairs)
        if pairs is None or isinstance(pairs, (str, tuple)):
            if self._order is not None:
                raise TypeError("sampler: the seeds are all edges, which only the server lists: give edge_label_index")
            if labels is not None:
                raise TypeError('edge_label: of all edges of a dataset is a column: options={"link_label": NAME}')
            if links is None and not structure.plain:
                raise ValueError("edge_label_index: of which edge type? There are several")
            self._how["seeds"], sampler.only_counted = f"all-edges:{':'.join(structure.edge_type(links))}", True
            pairs = torch.zeros(2, 1, dtype=torch.int64).expand(2, structure.num_edges[links])
        return pairs if links is None else (links, pairs)

    def _khop(self) -> KhopSampler:
        sampler: KhopSampler = self.link_sampler
        return sampler

    def __iter__(self) -> Iterator[Any]:
        given, sampler = self.input_data, self._khop()
        if sampler.trees_of_ends:
            key = self._key()
            with self._lent("ends", lambda: Ends(sampler)) as ends:
                for batch, out in ends.samples(list(self._parts(key)), key):
                    yield self._made(batch, out)
            return
        if self._order is not None:
            given = given[_numbers(self._order)]
        if not len(given.row):
            return
        for batch in self._ordered_batches(given) if self._order is not None else self._batches():
            yield self._made(batch, sampler.output_links(batch, given))

    def __call__(self, index: Any) -> Any:
        """The batch of some of the links."""
        return self._made(*self._khop().answer_links(self.input_data[index]))

    def _key(self) -> int:
        """Of the draws of an epoch that begins."""
        return hash((self._how["seed"], self._next_epoch() + 1))

    def _ordered_batches(self, given: Any) -> Iterator[Batch]:
        """Batches of these links, which a sampler of torch has drawn for an epoch."""
        with self._khop().load_links(given, **{**self._how, "seed": self._key() % (1 << 63)}) as loader:
            yield from iter(loader).kept()

    def _open(self) -> Loader:
        return self._khop().load_links(self.input_data, **self._how)

    def _check_state(self) -> None:
        super()._check_state()
        if self._khop().trees_of_ends:
            raise TypeError("state_dict: each end of a link has a tree of its own, and PyG draws the negatives: take "
                            "disjoint=False and no times, or khop.Loader")

    def _parts(self, key: int) -> Iterator[Any]:
        """The links of each batch of an epoch."""
        given, size = self.input_data, self._how["batch_size"]
        numbers = torch.arange(len(given.row))
        if self._order is not None:
            numbers = _numbers(self._order)
        elif self._how["shuffle"]:
            numbers = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(key))
        end = len(numbers) // size * size if self._how["drop_last"] else len(numbers)
        for first in range(0, end, size):
            yield given[numbers[first:min(first + size, end)]]


def _type_of_links(edge_label_index: Any) -> Any:
    """The edge type of PyG's edge_label_index where it names one in full."""
    given = edge_label_index
    if isinstance(given, (tuple, list)):
        if len(given) == 3 and all(isinstance(part, str) for part in given):
            return tuple(given)
        if len(given) == 2 and isinstance(given[0], (tuple, list)):
            return tuple(given[0])
    return None


def _negatives(given: Any, weighted: bool, time: Optional[str]) -> dict[str, Any]:
    """Options for PyG's NegativeSampling. time is the column of nodes' times, if negatives have to heed them."""
    triplets = given.is_triplet()
    options: dict[str, Any] = dict(negatives="weight" if weighted else "uniform", negative_ratio=float(given.amount),
                                   triplets=triplets, corrupt="target" if triplets else "both")
    if weighted:
        options["negative_weight"] = "negative_weight"
    return options if time is None else {**options, "negative_time": time}


class KhopSampler(BaseSampler):  # type: ignore[misc]
    """Samples a structure in PyG's form."""

    edge_permutation = None
    start: Any = None  # where the windows of the loader's seeds begin
    only_counted = False  # whether the loader has the number of its seeds alone, and the server lists them

    def __init__(
        self, data: Any, num_neighbors: Any, *, replace: bool = False, subgraph_type: Any = "directional",
        disjoint: bool = False, temporal_strategy: str = "uniform", time_attr: Optional[str] = None,
        weight_attr: Optional[str] = None, seed: int = 0, options: Optional[Mapping[str, Any]] = None,
        links: Any = None, negatives: Any = None, backward: bool = False, temporal_comparison: Optional[str] = None,
    ) -> None:
        """links is the edge type of seeds that are edges; data need not have edges of it."""
        weights = _weights_of(negatives)
        self.structure = structure = structure_of(
            data, weight=weight_attr, time=time_attr, links=links, negative_weight=weights, backward=backward,
            inside=(options or {}).get("process") != "server")
        self._seed = seed
        self._time = time_attr
        # What PyG and its users ask a sampler for.
        self.num_neighbors = num_neighbors if isinstance(num_neighbors, NumNeighbors) else NumNeighbors(num_neighbors)
        self.replace, self.disjoint, self.subgraph_type = replace, disjoint, SubgraphType(subgraph_type)
        self._negatives = negatives
        apart = disjoint or time_attr is not None
        self._given = options or {}
        self.trees_of_ends = apart and not structure.dataset and not _OF_LINKS & set(self._given)
        """Whether each end of a link has a tree of its own, as in PyG; else a link and its ends are one."""
        self._options: dict[str, Any] = dict(
            fanouts=self._fanouts(), replace=replace, disjoint=apart,
            induced=self.subgraph_type == SubgraphType.induced,
            **structure.sampled_by(weight_attr, time_attr, temporal_strategy))
        if temporal_comparison is not None:
            self._options.update(_compared(temporal_comparison, time_attr))
        if negatives is not None:
            self._options.update(_negatives(negatives, weights is not None, self._options.get("node_time")))
        self._options = combined(self._options, options, _ARGUMENTS)

    def _fanouts(self) -> Any:
        """Fan-outs of the data's own edge types; nobody follows the others."""
        types, own, given = self.structure.edge_types, self.structure.own_edge_types, self.num_neighbors
        if types == [None]:
            return list(given.get_values()) or [0]
        values = given.get_values(types[:own]) if own else {}
        given.num_hops  # raises where edge types differ in their number of hops
        lists = [list(values[of] if isinstance(values, dict) else values) or [0] for of in types[:own]]
        none = [0] * max(map(len, lists), default=1)
        lists += [none] * (len(types) - own)
        return self.structure.by_edge_type(dict(zip(types, lists)))

    def begins(self, name: str, start: Any, inputs: Any) -> None:
        """Takes the first times of all seeds of the loader."""
        if start is None:
            return
        start = torch.as_tensor(start)
        if inputs.time is None or start.shape != inputs.time.shape or start.is_floating_point():
            raise ValueError(f"{name}: {start.dtype} of shape {tuple(start.shape)}: must be a whole number beside the "
                             "time of each seed")
        self.start = start

    def start_of(self, inputs: Any) -> Any:
        """Returns the first times of some of the loader's seeds; None if they have none."""
        return self.start if self.start is None or inputs.input_id is None else self.start[inputs.input_id]

    # --- samples ---

    def load(self, inputs: Any, **how: Any) -> Loader:
        """Returns a loader whose seeds are these nodes, at their times, unless how gives others."""
        if "seeds" in how:
            return self._open(**how)
        of = self.structure.node_type(inputs.input_type)
        times, start = self._times_of(of, inputs)
        return self._open(seeds={of: inputs.node}, input_time=times, input_start_time=start, **how)

    def load_links(self, inputs: Any, **how: Any) -> Loader:
        """Returns a loader whose seeds are these edges, unless how gives others."""
        if "seeds" in how:
            return self._open(**how)
        of = self.structure.edge_type(inputs.input_type)
        times, start = self._times_of(of, inputs)
        return self._open(edge_label_index={of: torch.stack([inputs.row, inputs.col])}, edge_label_time=times,
                          edge_label_start_time=start, **how)

    def _times_of(self, of: Any, inputs: Any) -> tuple[Any, Any]:
        """Times and first times of seeds of a type, as khop.Loader takes them."""
        times, start = inputs.time, self.start_of(inputs)
        return None if times is None else {of: times}, None if start is None else {of: start}

    def sample_from_nodes(self, inputs: Any, **kwargs: Any) -> Any:
        return self.answer(inputs)[1]

    def answer(self, inputs: Any, key: int = 0) -> tuple[Batch, Any, Optional[Repeats]]:
        """Returns a single sample, for loader(ids), and its batch."""
        batch = self.ask(inputs, key)
        repeats = self.structure.repeats(batch, inputs.input_type)
        return batch, self.output(batch, (inputs.input_id, inputs.time), repeats), repeats

    def ask(self, inputs: Any, key: int) -> Batch:
        """Returns the batch of a single request."""
        self._one(0)
        of = inputs.input_type
        return self._ask({of: inputs.node}, *self._times_of(of, inputs), key)

    def sample_from_edges(self, inputs: Any, **kwargs: Any) -> Any:
        return self.answer_links(inputs)[1]

    def answer_links(self, inputs: Any) -> tuple[Batch, Any]:
        """Returns a single sample of links, by PyG's function for them, unless options of khop's are about links."""
        self._one(0)
        timed = self._time is not None and self.structure.dataset  # PyG draws negatives by times that data has
        if timed or _OF_LINKS & set(self._given):
            with self.load_links(inputs, **self._one(len(inputs.row))) as loader:
                batch = next(iter(loader)).copy()
                return batch, self.output_links(batch, inputs)
        asked = []

        def sample(seeds: Any, times: Any = None) -> Any:
            if not isinstance(seeds, dict):
                seeds, times = {None: seeds}, None if times is None else {None: times}
            asked.append(self._ask(seeds, times))
            return self.output(asked[0], None)
        out = self.edge_sample(inputs, hash((self._seed, 0)), sample)
        return asked[0], out

    def load_ends(self, seeds: str, most: int, key: int) -> Loader:
        """Returns a loader of batches of up to most seeds, which are ends of links."""
        return self.structure.open(**self._of_nodes(), batch_size=most, seed=key % (1 << 63), seeds=seeds)

    def _of_nodes(self) -> dict[str, Any]:
        return {k: v for k, v in self._options.items() if k not in _OF_LINKS}

    def _ask(
        self, seeds: Mapping[Any, Any], times: Optional[Mapping[Any, Any]], start: Optional[Mapping[Any, Any]] = None,
        key: int = 0,
    ) -> Batch:
        return self.structure.ask(seeds, times, start, key, **{**self._of_nodes(), "seed": self._seed % (1 << 63)})

    def ends(self, part: Any, key: int) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Returns the nodes, and their times, that PyG samples from for links: by type, with None for the only one."""
        asked: list[Any] = []

        def note(seeds: Any, times: Any = None) -> None:
            asked.extend((seeds, times))
            raise _Noted
        with contextlib.suppress(_Noted):
            self.edge_sample(part, key, note)
        seeds, times = asked
        if not isinstance(seeds, dict):
            return {None: seeds}, {None: times}
        return seeds, dict.fromkeys(seeds) if times is None else times

    def edge_sample(self, part: Any, key: int, sample: Callable[..., Any]) -> Any:
        """Returns PyG's sample of links, by a function that samples from nodes."""
        data, hetero = self.structure.data, self.structure.node_types != [None]
        times = None
        if self._time is not None and not self.structure.time_of_edges:
            times = data.collect(self._time) if hetero else data[self._time]
        counts = {of: data[of].num_nodes for of in self.structure.node_types} if hetero else data.num_nodes
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(key)
            return edge_sample(part, sample, counts, self._options["disjoint"], times, self._negatives)

    def _one(self, seeds: int) -> dict[str, Any]:
        if self.only_counted:
            raise TypeError("loader(ids): the seeds are a split, or all edges, of a dataset, and only the server lists "
                            "them: make a loader of these seeds")
        return {"batch_size": max(seeds, 1), "seed": self._seed}

    def _open(self, **how: Any) -> Loader:
        return self.structure.open(**{**self._options, **how})

    def output_links(self, batch: Batch, inputs: Any) -> Any:
        """Returns a batch of links in PyG's form. The tree of a negative counts as that of the link that it was drawn
        for."""
        out = self.output(batch, self._about_links(batch, inputs))
        if out.batch is not None:
            link = batch[self.structure.edge_type(inputs.input_type)].edge_label_group.long()
            hetero = isinstance(out.batch, dict)
            out.batch = {of: link[trees] for of, trees in out.batch.items()} if hetero else link[out.batch]
        return out

    def _about_links(self, batch: Batch, inputs: Any) -> Any:
        """What PyG's loader of links adds to a batch: the seeds' numbers, ends, labels and times."""
        view = batch[self.structure.edge_type(inputs.input_type)]
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

    def output(self, batch: Batch, metadata: Any, repeats: Optional[Repeats] = None) -> Any:
        """Returns a batch in PyG's form."""
        out = self.structure.output(batch, metadata, repeats)
        return out.to_bidirectional() if self.subgraph_type == SubgraphType.bidirectional else out

    def close(self) -> None:
        """Removes the dataset if it is a temporary one."""
        self.structure.close()


_ARGUMENTS = {
    "weight": "weight_attr", "time": "time_attr", "node_time": "time_attr", "sampler": "time_attr",
    "induced": "subgraph_type", "recent": "temporal_strategy", "negatives": "neg_sampling",
    "negative_ratio": "neg_sampling", "triplets": "neg_sampling", "corrupt": "neg_sampling",
    "negative_weight": "neg_sampling", "negative_time": "time_attr", "chain": "temporal_comparison",
    "time_rules": "temporal_comparison",
}
"""PyG's arguments that stand for options of khop with other names."""

_OF_LINKS = frozenset({
    "negatives", "negative_ratio", "negative_weight", "negative_time", "negative_tries", "triplets", "corrupt",
    "strict", "exclude_seeds", "link_label", "link_time",
})
"""Options of khop.Loader that only seeds which are edges have."""


_COMPARISONS: dict[str, dict[str, Any]] = {
    "strictly_decreasing": {"chain": True, "time_rules": ["before"]},
    "monotonically_decreasing": {"chain": True, "time_rules": ["not-after"]},
    "last": {"recent": True},
}
"""What cuGraph-PyG calls ways to compare the time of an edge with that of the edge before it, or of the seed."""


def _compared(comparison: str, time_attr: Optional[str]) -> dict[str, Any]:
    name = str(comparison).replace(" ", "_")
    if time_attr is None:
        raise ValueError("temporal_comparison: compares times: give time_attr as well")
    if name not in _COMPARISONS:
        raise ValueError(f"temporal_comparison={comparison!r}: must be one of {', '.join(_COMPARISONS)}: khop follows "
                         "edges of the past")
    return _COMPARISONS[name]


class Ends:
    """Samples of links in which each end has a tree of its own, as have the ends of negatives, which PyG draws. One
    server makes them; its seeds are the ends of an epoch's links."""

    def __init__(self, sampler: KhopSampler) -> None:
        self._sampler = sampler
        self._listed = Listed()

    def samples(self, parts: list[Any], key: int) -> Iterator[tuple[Batch, Any]]:
        """Yields the samples of an epoch, a batch of these links each."""
        if not parts:
            return
        sampler = self._sampler
        ends = [sampler.ends(part, hash((key, number))) for number, part in enumerate(parts)]
        most = max(1, *(sum(map(len, nodes.values())) for nodes, _ in ends))
        name = sampler.structure.seed_type
        seeds = ((name(of), ids, times[of], None) for nodes, times in ends for of, ids in nodes.items())
        batches = self._listed.batches(seeds, most, lambda listed: sampler.load_ends(listed, most, key))
        for number, (part, batch) in enumerate(zip(parts, batches)):
            out = sampler.output(batch, None)
            yield batch, sampler.edge_sample(part, hash((key, number)), lambda *_, out=out: out)

    def close(self) -> None:
        """Ends the server."""
        self._listed.close()


class _Noted(Exception):
    """What was asked for is known."""


def _weights_of(negatives: Any) -> Any:
    """Weights of the ends of negatives, None for uniform ones."""
    if negatives is None:
        return None
    weights, other = negatives.dst_weight, negatives.src_weight
    same = weights is other or weights is not None and other is not None and torch.equal(weights, other)
    if not negatives.is_triplet() and not same:
        raise TypeError("neg_sampling: binary negatives have the same weights for both ends (khop docs python)")
    return weights
