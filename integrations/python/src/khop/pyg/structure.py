"""A graph's structure as a dataset of khop: a temporary one for a graph in memory, or an existing one."""

from __future__ import annotations

import copy
import os
from typing import Any, Mapping, Optional

import torch
from torch_geometric.data import Data, HeteroData, remote_backend_utils
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from .._batch.batch import Batch
from ..errors import ServerError, WriteError
from .._data.info import info
from .._loader.loader import Loader, on_host
from ..relational import Tables, tables_of
from .._batch.schema import EDGE_NAMES, NODE_NAMES
from .._loader.request_sampler import Sampler
from .._data.stage import located
from .._data.memory import Graph
from .._data.write import adjacency
from .asked import Asked
from .repeats import Repeats


class Structure:
    """Node types and edge types of a graph, by PyG's names, and a dataset of khop that has its edges."""

    data: Any  # a Data or HeteroData
    path: Any  # of the dataset
    node_types: list[Any]  # [None] is the one type of a Data
    edge_types: list[Any]
    own_edge_types: int  # of edge_types: behind them is one that only seeds have
    dataset = True  # its columns come with the batches, and data has counts alone
    tables: Optional[Tables] = None  # of a database, whose columns come as tensor frames
    time_of_edges = False
    backward = False  # all edges are reversed

    def __init__(self) -> None:
        self.options: dict[str, Any] = {"framework": "torch"}
        self._closed = False
        self._asked = Asked(self)

    def node_type(self, of: Optional[str]) -> str:
        """Returns the dataset's name of a node type."""
        raise NotImplementedError

    def edge_type(self, of: Any) -> tuple[str, str, str]:
        """Returns the dataset's name of an edge type."""
        raise NotImplementedError

    def check_times(self, time: str, input_nodes: Any) -> None:
        """Raises ValueError for seeds without times, if there are times and none are given."""

    def store(self, of: Any) -> Any:
        """Returns the part of data that a type of nodes or edges has."""
        return self.data if of is None else self.data[of]

    def num_nodes(self, of: Optional[str]) -> int:
        return int(self.store(of).num_nodes)

    def seed_type(self, of: Optional[str]) -> str:
        """Returns the name of a node type in a list of seeds, which may be left out if there is only one."""
        return "" if len(self.node_types) == 1 else self.node_type(of)

    def sampled_by(self, weight: Optional[str], time: Optional[str], strategy: str) -> dict[str, Any]:
        """Returns options that sample by the attributes weight and time."""
        options: dict[str, Any] = {}
        if weight is not None:
            options["weight"] = weight if self.dataset else "weight"
        if time is not None:
            name = time if self.dataset else "time"
            options.update(sampler="temporal", recent=strategy == "last",
                           **({"time": name} if self.time_of_edges else {"time": "none", "node_time": name}))
        return options

    def by_edge_type(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        """Returns values of edge types as in khop's mappings."""
        return {":".join(self.edge_type(of)): v for of, v in values.items()}

    # --- batches ---

    def open(self, **how: Any) -> Loader:
        """Returns a loader of the structure."""
        if self._closed:
            raise ServerError("the loader is closed: make another")
        alone = {"rank": 0, "world_size": 1}  # PyG gives each process all seeds that it names
        return on_host(self.path, **{**self.options, **alone, **how})

    def sampler(self, **how: Any) -> Sampler:
        """Returns a sampler of the structure."""
        return Sampler(self.path, **{**self.options, **how})

    def ask(
        self, seeds: Mapping[Any, Any], times: Optional[Mapping[Any, Any]], start: Optional[Mapping[Any, Any]],
        key: int, **how: Any,
    ) -> Batch:
        """Returns the batch of these seeds, by PyG's types, with their times and first times. key separates the draws
        of calls. how are options of a loader."""
        if self._closed:
            raise ServerError("the loader is closed: make another")
        some = [of for of, ids in seeds.items() if len(ids)]
        ids = {self.node_type(of): seeds[of].long() for of in some}
        at, since = (None if list is None else {self.node_type(of): list[of] for of in some} for list in (times, start))
        return self._asked.sample(ids, at, since, key, how)

    def edges(self, batch: Batch, of: Any) -> tuple[Any, Any]:
        """Returns sources and targets as positions in the nodes [2, edges], in the graph's direction, and numbers of
        the edges."""
        view = batch[self.edge_type(of)]
        index = view.edge_index
        return (index.flip(0) if self.backward else index), view.e_id

    def repeats(self, batch: Batch, of: Optional[str]) -> Optional[Repeats]:
        """Returns the Repeats that give repeated seeds of this node type nodes of their own; None if no seed is
        repeated."""
        view = batch[self.node_type(of)]
        return Repeats.find(of, view.seeds, view.num_nodes)

    def output(self, batch: Batch, metadata: Any, repeats: Optional[Repeats] = None, counts: bool = True) -> Any:
        """Returns a batch in PyG's form. Without counts it leaves out how many nodes and edges each hop added."""
        heads = {of: batch[self.node_type(of)] for of in self.node_types}
        edges = {of: self.edges(batch, of) for of in self.edge_types}  # with a type that seeds alone have
        views = {of: batch[self.edge_type(of)] for of in self.edge_types}
        trees = {of: batch.array(f"sample/tree/{v.type}").long() for of, v in heads.items()
                 if f"sample/tree/{v.type}" in batch} or None
        nodes = {of: v.n_id for of, v in heads.items()}
        of_nodes = {of: v.num_sampled_nodes for of, v in heads.items()} if counts else None
        of_edges = {of: v.num_sampled_edges for of, v in views.items()} if counts else None
        if repeats is not None:
            repeats.give(nodes, edges, of_nodes, of_edges)
        if self.node_types == [None]:
            (row, col), edge = edges[None]
            return SamplerOutput(
                node=nodes[None], row=row, col=col, edge=edge, batch=trees and trees[None],
                num_sampled_nodes=of_nodes and of_nodes[None], num_sampled_edges=of_edges and of_edges[None],
                metadata=metadata)
        return HeteroSamplerOutput(
            node=nodes, row={of: e[0][0] for of, e in edges.items()}, col={of: e[0][1] for of, e in edges.items()},
            edge={of: e[1] for of, e in edges.items()}, batch=trees, num_sampled_nodes=of_nodes,
            num_sampled_edges=of_edges, metadata=metadata)

    def add_columns(self, batch: Batch, out: Any, repeats: Optional[Repeats] = None) -> None:
        """Adds a dataset's columns of the batch's nodes and edges to a Data or HeteroData."""
        if self.tables is not None:
            self.tables.add_rows(batch, out)
            return
        for of in self.node_types:
            view, store = batch[self.node_type(of)], out if of is None else out[of]
            for column in view.columns():
                rows = view[column]
                if repeats is not None and repeats.of == of:
                    rows = rows[repeats.nodes]
                store[NODE_NAMES.get(column, column)] = rows
        for of in self.edge_types:
            edges, store = batch[self.edge_type(of)], out if of is None else out[of]
            for column in edges.columns():
                rows = edges[column]
                store[EDGE_NAMES.get(column, column)] = rows if repeats is None else rows[repeats.edges[of]]

    def close(self) -> None:
        """Ends what answers requests. A temporary dataset is removed."""
        self._closed = True
        self._asked.close()


class OfDataset(Structure):
    """The structure of a dataset that lies in a path, or of a database (khop.relational.graph)."""

    def __init__(
        self, path: Any, weight: Optional[str], time: Optional[str], links: Any, tables: Optional[Tables],
    ) -> None:
        super().__init__()
        self.path, self.tables = path, tables
        about = info(path)
        nodes, edges = about["node_types"], about["edge_types"]
        types = [(e["source"], e["relation"], e["target"]) for e in edges]
        if links is not None and links not in types:
            there_are = ", ".join(map(str, types))
            raise ValueError(f"edge_label_index: there is no edge type {links!r}; there are {there_are}")
        self.plain = len(nodes) == len(edges) == 1
        self._names = ([t["name"] for t in nodes], types)
        self.node_types = [None] if self.plain else self._names[0]
        self.edge_types = [None] if self.plain else types
        self.own_edge_types = len(types)
        self.num_edges = {of: e["count"] for of, e in zip(self.edge_types, edges)}
        self.splits = {s["name"]: s["count"] for s in about["splits"] if not s["index"]}
        self.data = Data() if self.plain else HeteroData()
        for of, t in zip(self.node_types, nodes):
            self.store(of).num_nodes = t["count"]
        for of in self.edge_types:
            self.store(of).edge_index = torch.empty(2, 0, dtype=torch.int64)
        self._take_columns(about, weight, time)

    def _take_columns(self, about: Mapping[str, Any], weight: Optional[str], time: Optional[str]) -> None:
        """Has all columns delivered, and checks that those of weights and times are there."""
        of_nodes = (c for t in about["node_types"] for c in t["columns"])
        columns = list(dict.fromkeys(c["name"] for c in of_nodes if c["dtype"] != "utf8"))
        of_edges = [c["name"] for c in about["edge_columns"]]
        self.time_of_edges = time in of_edges
        for name, wanted, there in (("weight_attr", weight, of_edges), ("time_attr", time, of_edges + columns)):
            if wanted is not None and wanted not in there:
                raise ValueError(f"{name}: {self.path} has no column {wanted!r}; it has: {', '.join(there) or 'none'}")
        self.options.update(node_columns=columns, seed_columns=[], edge_columns=of_edges or None)
        if "edge_id" not in of_edges:
            self.options["edge_pos"] = True

    def node_type(self, of: Optional[str]) -> str:
        return str(self._names[0][self.node_types.index(of)])

    def edge_type(self, of: Any) -> tuple[str, str, str]:
        source, relation, target = self._names[1][self.edge_types.index(of)]
        return source, relation, target

    def check_split(self, argument: str, name: str) -> None:
        """Refuses the name of a split that the dataset does not have."""
        if name not in self.splits:
            raise ValueError(f"{argument}: there is no split {name!r}; there are: {', '.join(self.splits) or 'none'}")

    def check_edge_type(self, argument: str, name: str) -> None:
        """Refuses a text that is no edge type of the dataset."""
        types = self._names[1]
        if name not in (*(of[1] for of in types), *map(":".join, types)):
            there_are = ", ".join(map(":".join, types))
            raise ValueError(f"{argument}: there is no edge type {name!r}; there are: {there_are}; khop.Loader takes "
                             "links of a split, seeds=NAME")


class InMemory(Structure):
    """The structure of a graph in memory, of which a temporary dataset is made: in memory, or on disk. Its types have
    numbers for names: PyG's may be any text."""

    dataset = False

    def __init__(
        self, data: Any, weight: Optional[str], time: Optional[str], links: Any, negative_weight: Any, backward: bool,
        inside: bool,
    ) -> None:
        super().__init__()
        self.data, self.backward = data, backward
        self.node_types = data.node_types if isinstance(data, HeteroData) else [None]
        self.edge_types = list(data.edge_types) if isinstance(data, HeteroData) else [None]
        self.own_edge_types = len(self.edge_types)
        if links is not None and links not in self.edge_types:
            self.edge_types.append(links)
        if time is not None:
            stores = [data.edge_attrs()] if isinstance(data, Data) else data.edge_stores
            self.time_of_edges = any(time in s for s in stores)
        self.options.update(node_columns=[], seed_columns=[], edge_columns=["edge_id"])
        self._check_attributes(weight, time)
        parts: dict[Any, Any] = {self.node_type(of): self._nodes(of, time) for of in self.node_types}
        parts.update((self.edge_type(of), self._edges(of, weight, time)) for of in self.edge_types)
        if negative_weight is not None:
            parts[self.edge_type(links)[2]]["negative_weight"] = negative_weight
        self._write(parts, inside)

    def _write(self, parts: dict[Any, Any], inside: bool) -> None:
        """Makes the dataset. An error names PyG's types, not the dataset's."""
        try:
            self.path = Graph("khop-pyg-", parts, inside)
        except WriteError as e:
            said = str(e).replace("the graph: ", "")
            for of in self.edge_types:
                for file in ("src", "dst"):
                    path = f"edges/{'__'.join(self.edge_type(of))}/{file}.npy"
                    said = said.replace(path, "edge_index" if of is None else f"edge_index of {of}")
            raise WriteError(said) from None

    def _check_attributes(self, weight: Optional[str], time: Optional[str]) -> None:
        if weight is not None and not any(weight in s for s in self.data.stores):
            raise ValueError(f"weight_attr: no edges have an attribute {weight!r}")
        if time is not None and not any(time in s for s in self.data.stores):
            raise ValueError(f"time_attr: no nodes or edges have an attribute {time!r}")

    def _nodes(self, of: Optional[str], time: Optional[str]) -> dict[str, Any]:
        """What the dataset has of a node type."""
        store = self.data._store if of is None else self.data[of]
        part = {"num_nodes": store.num_nodes}
        if time is not None and time in store and (of is not None or self.data.is_node_attr(time)):
            part["node_time"] = store[time]
        return part

    def _edges(self, of: Any, weight: Optional[str], time: Optional[str]) -> dict[str, Any]:
        """What the dataset has of an edge type: no edges where it is that of seeds alone."""
        data = self.data
        store = data._store if of is None else data[of] if of in data.edge_types else {}
        values = adjacency({k: store[k] for k in ("edge_index", "adj_t") if k in store}, of)
        values = values or {"edge_index": torch.empty(2, 0, dtype=torch.int64)}
        source, target = values["edge_index"] if "edge_index" in values else (values["src"], values["dst"])
        if self.backward:
            source, target = target, source
        part = {"src": source, "dst": target, "edge_id": torch.arange(len(source))}
        if weight is not None:
            part["edge_weight"] = _weights(weight, store, len(source))
        if time is not None and time in store and (of is not None or data.is_edge_attr(time)):
            part["edge_time"] = store[time]
        return part

    def node_type(self, of: Optional[str]) -> str:
        return f"n{self.node_types.index(of)}"

    def edge_type(self, of: Any) -> tuple[str, str, str]:
        if of is None:
            return "n0", "e0", "n0"
        ends = (of[2], of[0]) if self.backward else (of[0], of[2])
        return self.node_type(ends[0]), f"e{self.edge_types.index(of)}", self.node_type(ends[1])

    def check_times(self, time: str, input_nodes: Any) -> None:
        of = input_nodes if isinstance(input_nodes, str) else (
            input_nodes[0] if isinstance(input_nodes, tuple) else self.node_types[0])
        if self.time_of_edges:
            raise ValueError(f"time_attr={time!r}: is of edges, so that seeds have no times: give input_time")
        if time not in self.store(of):
            raise ValueError(
                f"time_attr: {of!r} has no attribute {time!r}, so that seeds have no times: give input_time")

    def close(self) -> None:
        super().close()
        self.path.close()


def structure_of(
    data: Any, *, weight: Optional[str] = None, time: Optional[str] = None, links: Any = None,
    negative_weight: Any = None, backward: bool = False, inside: bool = True,
) -> Structure:
    """Returns the structure of what PyG's loaders take: a Data, a HeteroData, a feature store and a graph store, the
    path of a dataset, or a database (khop.relational.graph).

    weight and time are attributes for sampling. links is the edge type of seeds that are edges; data need not have
    edges of it. negative_weight are weights of its targets. backward reverses all edges. inside allows loaders in this
    process.
    """
    tables = tables_of(data)
    data = data if tables is None else tables.path
    if isinstance(data, (str, bytes, os.PathLike)):
        if negative_weight is not None:
            raise TypeError("neg_sampling: weights of a dataset's nodes are a column of it: "
                            'options={"negatives": "weight", "negative_weight": NAME}')
        if backward:
            raise NotImplementedError('sample_direction="backward": edges of datasets are followed from their targets: '
                                      'give the graph itself, or take khop.Loader with direction="out"')
        return OfDataset(located(data), weight, time, links, tables)
    if isinstance(data, tuple):
        if weight is not None:
            raise NotImplementedError("weight_attr: stores of features and graphs have none; take a HeteroData")
        features, graph = data
        data = _of_stores(features, graph, time)
    if not isinstance(data, (Data, HeteroData)):
        what = type(data).__name__
        raise TypeError(f"data: {what}: must be a Data, a HeteroData, a feature store and a graph store, or the "
                        "path of a dataset")
    return InMemory(data, weight, time, links, negative_weight, backward, inside)


def _weights(name: str, store: Any, edges: int) -> Any:
    """The weights of edges of a type, which are equal where it has none."""
    if name not in store:
        return torch.ones(edges)
    weights = store[name]
    bad = ~((weights >= 0) & (weights < float("inf")))
    if bad.any():
        at = int(bad.reshape(-1).nonzero()[0])
        weight = weights.reshape(-1)[at].item()
        raise ValueError(f"weight_attr: {name}[{at}] is {weight}: must be finite and not negative")
    return weights


def _of_stores(features: Any, graph: Any, time: Optional[str]) -> Any:
    """The structure of a graph store, as a Data or HeteroData, with the times of nodes or edges alone."""
    sources, targets, _ = graph.coo()
    plain = isinstance(sources, torch.Tensor)
    if plain:
        rows = [features.get_tensor_size(a)[0] for a in features.get_all_tensor_attrs()]
        sizes = [n for a in graph.get_all_edge_attrs() for n in a.size or () if n is not None]
        data = Data(edge_index=torch.stack([sources, targets]), num_nodes=max(sizes or rows, default=None))
    else:
        data = HeteroData()
        for of in sources:
            for end in (of[0], of[2]):
                data[end].num_nodes = remote_backend_utils.num_nodes(features, graph, end)
            data[of].edge_index = torch.stack([sources[of], targets[of]])
    for attribute in map(copy.copy, features.get_all_tensor_attrs()):
        if attribute.attr_name == time:
            attribute.index = None
            values = features.get_tensor(attribute)
            if not plain:
                data[attribute.group_name][time] = values
            elif time == "time":  # as PyG tells times of nodes from those of edges
                data[time] = values
            else:
                data.edge_stores[0][time] = values
    return data
