"""Graphs to sample in: datasets of khop, and graphs as tensors."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import torch

from .._peers.graph_source import Source
from . import shared
from .base import (
    ORIGINAL_EDGE_ID, CSCFormatBase, applied, etype_str_to_tuple, etype_tuple_to_str, generator, moved, require,
)
from .picking import Draw, in_edges
from .subgraph import SampledSubgraphImpl


class SamplingGraph:
    """dgl.graphbolt.SamplingGraph: a graph to sample in. graph is the path of a dataset, a graph of DGL, or what
    khop.write takes. DataLoader samples in it."""

    def __init__(self, graph: Any, edge_columns: Sequence[str] = ()) -> None:
        self._source = graph if isinstance(graph, Source) else Source(graph, edge_columns)

    on_disk = True
    """Whether the graph lies in a dataset, so that khop makes all minibatches of it."""

    @property
    def source(self) -> Source:
        """The dataset that khop samples in."""
        return self._source

    @property
    def plain(self) -> bool:
        """Whether the graph has no types, so that values are not by type."""
        return self.source.plain

    @property
    def edge_types(self) -> Sequence[str]:
        """Edge types in the order of fan-outs."""
        return [":".join(e) for e in self.source.edge_types]

    def edge_ids(self, ids: Any) -> Any:
        """Returns the ids that minibatches have for edges of the dataset."""
        return ids

    @property
    def num_nodes(self) -> Any:
        """The number of nodes, by type if there are several."""
        return self.total_num_nodes if self.source.plain else dict(self.source.counts)

    @property
    def num_edges(self) -> Any:
        """The number of edges, by type if there are several."""
        return self.total_num_edges if self.source.plain else {
            ":".join(e): t["count"] for e, t in zip(self.source.edge_types, self.source.about["edge_types"])}

    @property
    def total_num_nodes(self) -> int:
        """The number of nodes of all types."""
        return sum(self.source.counts.values())

    @property
    def total_num_edges(self) -> int:
        """The number of edges of all types."""
        return int(self.source.about["edges"])

    def attribute(self, name: str, of_edges: bool) -> str:
        """Returns the column of the dataset that has an attribute of edges or nodes."""
        return self.source.column(name, of_edges)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source.path!r}, {self.total_num_nodes:,} nodes, " \
            f"{self.total_num_edges:,} edges)"


_TENSORS = ("csc_indptr", "indices", "node_type_offset", "type_per_edge")
_NAMES = ("node_type_to_id", "edge_type_to_id")
_ATTRIBUTES = ("node_attributes", "edge_attributes")
FIELDS = (*_TENSORS, *_NAMES, *_ATTRIBUTES)
"""What a graph in tensors consists of, in the order of fused_csc_sampling_graph's arguments."""


class FusedCSCSamplingGraph(SamplingGraph):
    """dgl.graphbolt.FusedCSCSamplingGraph: in-edges of all nodes of all types, in tensors.

    Its own methods sample in the tensors. DataLoader writes a temporary dataset of them at the first use, and khop
    samples there; setting a field afterwards makes a new one.
    """

    csc_indptr: Any
    indices: Any
    node_type_offset: Any
    type_per_edge: Any
    node_type_to_id: Optional[Mapping[str, int]]
    edge_type_to_id: Optional[Mapping[str, int]]
    node_attributes: Optional[Mapping[str, Any]]
    edge_attributes: Optional[Mapping[str, Any]]

    def __init__(self, **fields: Any) -> None:
        for name in FIELDS:
            setattr(self, name, fields.get(name))

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__.pop("_source", None)  # it was written of what there was
        object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIELDS}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        FusedCSCSamplingGraph.__init__(self, **state)

    on_disk = False

    @property
    def plain(self) -> bool:
        """Whether the graph has no types."""
        return self.edge_type_to_id is None

    @property
    def edge_types(self) -> Sequence[str]:
        """Edge types in the order of fan-outs."""
        numbers = self.edge_type_to_id
        return sorted(numbers, key=numbers.__getitem__) if numbers else ["node:to:node"]

    @property
    def indices_dtype(self) -> Any:
        """The dtype of node ids."""
        return self.indices.dtype

    def edge_ids(self, ids: Any) -> Any:
        """Returns the original numbers of the edges at these places."""
        attributes = self.edge_attributes or {}
        return attributes[ORIGINAL_EDGE_ID][ids.long()] if ORIGINAL_EDGE_ID in attributes else ids

    @property
    def source(self) -> Source:
        """A temporary dataset of the tensors. Its column edge_id has the places of edges here."""
        if "_source" not in self.__dict__:
            self.__dict__["_source"] = Source(self._parts())
        return self._source

    def _parts(self) -> dict[Any, Any]:
        """The graph as khop.write takes it."""
        target = torch.arange(self.total_num_nodes).repeat_interleave(self.csc_indptr.diff().cpu().long())
        source, place = self.indices.cpu().long(), torch.arange(self.total_num_edges)
        of_edges = {_column(n): v for n, v in (self.edge_attributes or {}).items() if v.dim() == 1}
        of_nodes = {_column(n): v for n, v in (self.node_attributes or {}).items() if v.dim() == 1}
        parts: dict[Any, Any] = {}
        for t, (begin, end) in self._ranges().items():
            parts[t] = {"num_nodes": end - begin, **{n: v[begin:end] for n, v in of_nodes.items()}}
        ranges = self._ranges()
        for e, number in (self.edge_type_to_id or {"node:to:node": -1}).items():
            s, _, t = etype_str_to_tuple(e)
            of = slice(None) if self.edge_type_to_id is None else self.type_per_edge.cpu() == number
            parts[etype_str_to_tuple(e)] = {
                "src": source[of] - ranges[s][0], "dst": target[of] - ranges[t][0], "edge_id": place[of],
                **{n: v[of] for n, v in of_edges.items()}}
        return parts

    def attribute(self, name: str, of_edges: bool) -> str:
        """Returns the column of the temporary dataset that has an attribute."""
        attributes = (self.edge_attributes if of_edges else self.node_attributes) or {}
        if name not in attributes:
            there_are = ", ".join(attributes) or "none"
            raise KeyError(f"no column {name!r} of {'edges' if of_edges else 'nodes'}; there are: {there_are}")
        return _column(name)

    # --- sizes ---

    def _ranges(self) -> dict[str, tuple[int, int]]:
        """The nodes of each type."""
        if self.node_type_to_id is None:
            return {"node": (0, self.total_num_nodes)}
        return {t: (int(self.node_type_offset[i]), int(self.node_type_offset[i + 1]))
                for t, i in self.node_type_to_id.items()}

    @property
    def total_num_nodes(self) -> int:
        """The number of nodes of all types."""
        return len(self.csc_indptr) - 1

    @property
    def total_num_edges(self) -> int:
        """The number of edges of all types."""
        return len(self.indices)

    @property
    def num_nodes(self) -> Any:
        """The number of nodes, by type if there are types."""
        if self.node_type_offset is None or self.node_type_to_id is None:
            return self.total_num_nodes
        return {t: end - begin for t, (begin, end) in self._ranges().items()}

    @property
    def num_edges(self) -> Any:
        """The number of edges, by type if there are types."""
        if self.type_per_edge is None or self.edge_type_to_id is None:
            return self.total_num_edges
        most = max([*self.edge_type_to_id.values(), 0]) + 1
        count = self.type_per_edge.long().bincount(minlength=most).tolist()
        return {e: count[i] for e, i in self.edge_type_to_id.items()}

    # --- sampling ---

    def in_subgraph(self, nodes: Any) -> SampledSubgraphImpl:
        """Returns all in-edges of nodes, which must not repeat."""
        nodes, _ = self._fused(nodes)
        require(nodes.dim() == 1, "Nodes should be 1-D tensor.")
        require(len(nodes.unique()) == len(nodes), "Nodes cannot have duplicate values.")
        edges, column = in_edges(self.csc_indptr, nodes)
        return self._subgraph(nodes, edges, column)

    def sample_neighbors(self, nodes: Any, fanouts: Any, replace: bool = False, probs_name: Optional[str] = None,
                         ) -> SampledSubgraphImpl:
        """Samples up to fanouts in-edges of each node. fanouts is one number, or one per edge type."""
        return self._sampled(nodes, fanouts, replace, probs_name, layer=False)

    def sample_layer_neighbors(self, nodes: Any, fanouts: Any, replace: bool = False, probs_name: Optional[str] = None,
                               ) -> SampledSubgraphImpl:
        """Samples by LABOR: all nodes of a call draw the same number for a neighbour."""
        return self._sampled(nodes, fanouts, replace, probs_name, layer=True)

    def temporal_sample_neighbors(
        self, nodes: Any, input_nodes_timestamp: Any, fanouts: Any, replace: bool = False,
        probs_name: Optional[str] = None, node_timestamp_attr_name: Optional[str] = None,
        edge_timestamp_attr_name: Optional[str] = None,
    ) -> SampledSubgraphImpl:
        """Samples in-edges and neighbours whose times are before those of their nodes."""
        times = (input_nodes_timestamp, node_timestamp_attr_name, edge_timestamp_attr_name)
        return self._sampled(nodes, fanouts, replace, probs_name, layer=False, times=times)

    def temporal_sample_layer_neighbors(
        self, nodes: Any, input_nodes_timestamp: Any, fanouts: Any, replace: bool = False,
        probs_name: Optional[str] = None, node_timestamp_attr_name: Optional[str] = None,
        edge_timestamp_attr_name: Optional[str] = None,
    ) -> SampledSubgraphImpl:
        """Samples as temporal_sample_neighbors, by LABOR."""
        times = (input_nodes_timestamp, node_timestamp_attr_name, edge_timestamp_attr_name)
        return self._sampled(nodes, fanouts, replace, probs_name, layer=True, times=times)

    def _sampled(self, nodes: Any, fanouts: Any, replace: bool, probs_name: Optional[str], layer: bool,
                 times: Optional[tuple[Any, Optional[str], Optional[str]]] = None) -> SampledSubgraphImpl:
        nodes, at = self._fused(nodes, times[0] if times else None)
        self._check(nodes, fanouts, probs_name)
        edges, column = in_edges(self.csc_indptr, nodes)
        if times is not None:
            early = torch.ones(len(edges), dtype=torch.bool, device=edges.device)
            for name, attributes, of in ((times[1], self.node_attributes, self.indices.long()[edges]),
                                         (times[2], self.edge_attributes, edges)):
                if name is not None:
                    require(name in (attributes or {}), f"Unknown attribute of times '{name}'.")
                    assert attributes is not None
                    early &= attributes[name][of] < at[column]
            edges, column = edges[early], column[early]
        weight = None if not probs_name else (self.edge_attributes or {})[probs_name][edges]
        kind = None if self.type_per_edge is None else self.type_per_edge[edges]
        draw = Draw(self._by_number(fanouts), replace, layer)
        taken = draw.pick(column, len(nodes), self.indices[edges], kind, weight)
        return self._subgraph(nodes, edges[taken], column[taken])

    def _by_number(self, fanouts: Any) -> list[int]:
        """Fan-outs by the numbers of edge types, which may begin anywhere and leave some out."""
        given: list[int] = fanouts.tolist()
        numbers = list((self.edge_type_to_id or {}).values())
        if len(given) == 1 or sorted(numbers) == list(range(len(given))):
            return given
        each = [0] * (max(numbers) + 1)
        for number, fanout in zip(sorted(numbers), given):
            each[number] = fanout
        return each

    def _check(self, nodes: Any, fanouts: Any, probs_name: Optional[str]) -> None:
        require(nodes.dim() == 1, "Nodes should be 1-D tensor.")
        require(nodes.dtype == self.indices.dtype, "Data type of nodes must be consistent with "
                f"indices.dtype({self.indices.dtype}), but got {nodes.dtype}.")
        require(fanouts.dim() == 1, "Fanouts should be 1-D tensor.")
        types = len(self.edge_type_to_id or ()) or 1
        require(len(fanouts) in (1, types), "Fanouts should have the same number of elements as etypes or should have "
                "a length of 1.")
        require(len(fanouts) == 1 or self.type_per_edge is not None, "several fanouts need type_per_edge")
        require(bool((fanouts >= -1).all()), "Fanouts should consist of values that are either -1 or greater than or "
                "equal to 0.")
        if probs_name:
            require(probs_name in (self.edge_attributes or {}), f"Unknown edge attribute '{probs_name}'.")
            assert self.edge_attributes is not None
            weight = self.edge_attributes[probs_name]
            require(weight.dim() == 1 and len(weight) == self.total_num_edges,
                    "Probs should be 1-D tensor of as many elements as there are edges.")
            require(weight.dtype == torch.bool or weight.is_floating_point(),
                    "Probs should have a floating-point or boolean data type.")

    def _fused(self, nodes: Any, times: Any = None) -> tuple[Any, Any]:
        """Nodes by type as nodes of all types, and their times."""
        if not isinstance(nodes, Mapping):
            return nodes, times
        begin = {t: r[0] for t, r in self._ranges().items()}
        joined = torch.cat([ids + begin[t] for t, ids in nodes.items()])
        return joined, None if times is None else torch.cat([times[t] for t in nodes])

    def _subgraph(self, nodes: Any, edges: Any, column: Any) -> SampledSubgraphImpl:
        """The subgraph of edges, each of which leads to a column, the place of its target in nodes."""
        ids = edges.to(self.csc_indptr.dtype)
        if ORIGINAL_EDGE_ID in (self.edge_attributes or {}):
            assert self.edge_attributes is not None
            ids = self.edge_attributes[ORIGINAL_EDGE_ID][edges]
        sources = self.indices[edges]
        if self.type_per_edge is None or self.edge_type_to_id is None:
            return SampledSubgraphImpl(self._csc(column, len(nodes), sources), original_edge_ids=ids)
        kinds, csc, ids_of = self.type_per_edge[edges], {}, {}
        ranges = self._ranges()
        for e, number in self.edge_type_to_id.items():
            source, _, target = etype_str_to_tuple(e)
            of = (kinds == number).nonzero().view(-1)
            begin, end = ranges[target]
            to = (nodes >= begin) & (nodes < end)
            place = to.long().cumsum(0) - 1  # among the columns of the target's type
            csc[e] = self._csc(place[column[of]], int(to.sum()), sources[of] - ranges[source][0])
            ids_of[e] = ids[of]
        return SampledSubgraphImpl(csc, original_edge_ids=ids_of)

    def _csc(self, column: Any, columns: int, sources: Any) -> CSCFormatBase:
        indptr = torch.zeros(columns + 1, dtype=self.csc_indptr.dtype, device=column.device)
        indptr[1:] = column.bincount(minlength=columns).cumsum(0)
        return CSCFormatBase(indptr, sources)

    def _targets(self, edge_type: Optional[str]) -> int:
        return int(self.num_nodes[etype_str_to_tuple(edge_type)[2]]) if edge_type else self.total_num_nodes

    def sample_negative_edges_uniform(self, edge_type: Optional[str], node_pairs: Any, negative_ratio: int) -> Any:
        """Draws negative_ratio targets for each pair, from all nodes of their type. Pairs are sources and targets,
        whose result has None for the unchanged sources; or [n, 2], whose negatives follow the pairs."""
        if isinstance(node_pairs, torch.Tensor):
            source = node_pairs[:, 0].repeat_interleave(negative_ratio)
            return torch.cat([node_pairs, torch.stack([source, self._random(edge_type, source)], 1)])
        return None, self._random(edge_type, node_pairs[0].repeat_interleave(negative_ratio))

    sample_negative_edges_uniform_2 = sample_negative_edges_uniform

    def _random(self, edge_type: Optional[str], like: Any) -> Any:
        return torch.randint(self._targets(edge_type), (len(like),), dtype=like.dtype, device=like.device,
                             generator=generator(like.device))

    # --- memory ---

    def _changed(self, fn: Any) -> FusedCSCSamplingGraph:
        """The graph with fn applied to each tensor."""
        return FusedCSCSamplingGraph(**{
            n: getattr(self, n) if n in _NAMES else applied(
                getattr(self, n), lambda v: fn(v) if isinstance(v, torch.Tensor) else v)
            for n in FIELDS})

    def to(self, device: Any) -> FusedCSCSamplingGraph:
        """Returns the graph on a device, or in pinned memory ("pinned")."""
        return self._changed(lambda v: moved(v, device))

    def copy_to_shared_memory(self, shared_memory_name: str) -> FusedCSCSamplingGraph:
        """Makes a copy that other processes open by load_from_shared_memory. It ends with the returned graph, and with
        its process."""
        return FusedCSCSamplingGraph(**shared.create(shared_memory_name, {n: getattr(self, n) for n in FIELDS}))

    def pin_memory_(self) -> FusedCSCSamplingGraph:
        """Moves the graph to pinned memory."""
        for name, value in self.to("pinned").__getstate__().items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        fields = {"csc_indptr": self.csc_indptr, "indices": self.indices, "total_num_nodes": self.total_num_nodes,
                  "num_edges": self.num_edges}
        fields.update({n: getattr(self, n) for n in FIELDS[2:] if getattr(self, n) is not None})
        room = " " * (len(type(self).__name__) + 1)
        said: list[str] = []
        for name, value in fields.items():
            joined = ", " if name == "num_edges" else f",\n{room}"
            said.append((joined if said else "") + f"{name}=" + str(value).replace("\n", "\n" + room))
        return f"{type(self).__name__}({''.join(said)},)"


def _column(attribute: str) -> str:
    """A name of a column that khop.write keeps as it is, where an attribute's own might be one that stands for
    something."""
    return "attribute_" + attribute


def fused_csc_sampling_graph(
    csc_indptr: Any, indices: Any, node_type_offset: Any = None, type_per_edge: Any = None, node_type_to_id: Any = None,
    edge_type_to_id: Any = None, node_attributes: Any = None, edge_attributes: Any = None,
) -> FusedCSCSamplingGraph:
    """dgl.graphbolt.fused_csc_sampling_graph: makes a graph of tensors."""
    if node_type_to_id is not None and edge_type_to_id is not None:
        for what, numbers in (("Node", node_type_to_id), ("Edge", edge_type_to_id)):
            require(all(isinstance(n, str) for n in numbers), f"{what} type name should be string.")
            require(all(isinstance(i, int) for i in numbers.values()), f"{what} type id should be int.")
            require(len(set(numbers.values())) == len(numbers), f"{what} types must have different ids")
        for e in edge_type_to_id:
            source, _, target = etype_str_to_tuple(e)
            for t in (source, target):
                require(t in node_type_to_id, f"Unrecognized node type {t} in edge type {e}")
        if node_type_offset is not None:
            require(len(node_type_to_id) + 1 == len(node_type_offset),
                    "node_type_offset length should be |ntypes| + 1.")
    rows = ("node", node_attributes, len(csc_indptr) - 1), ("edge", edge_attributes, len(indices))
    for what, attributes, of in rows:
        for name, value in (attributes or {}).items():
            require(len(value) == of, f"the {what} attribute {name!r} has {len(value):,} rows of {of:,}")
    return FusedCSCSamplingGraph(
        csc_indptr=csc_indptr, indices=indices, node_type_offset=node_type_offset, type_per_edge=type_per_edge,
        node_type_to_id=node_type_to_id, edge_type_to_id=edge_type_to_id, node_attributes=node_attributes,
        edge_attributes=edge_attributes)


def load_from_shared_memory(shared_memory_name: str) -> FusedCSCSamplingGraph:
    """dgl.graphbolt.load_from_shared_memory: opens the graph that copy_to_shared_memory made."""
    return FusedCSCSamplingGraph(**shared.load(shared_memory_name))


def from_dglgraph(
    g: Any, is_homogeneous: bool = False, include_original_edge_id: bool = False,
) -> FusedCSCSamplingGraph:
    """dgl.graphbolt.from_dglgraph: makes a graph of one of DGL, with all data of its nodes and edges as attributes."""
    types = {t: i for i, t in enumerate(g.ntypes)}
    begin = [0]
    for t in g.ntypes:
        begin.append(begin[-1] + g.num_nodes(t))
    ends, kinds, numbers = [], [], []
    for i, e in enumerate(g.canonical_etypes):
        source, target = g.edges(etype=e, order="eid")
        ends.append(torch.stack([source + begin[types[e[0]]], target + begin[types[e[2]]]]))
        kinds.append(torch.full((len(source),), i, dtype=torch.int32))
        numbers.append(torch.arange(len(source)))
    source, target = torch.cat(ends, 1)
    order = target.sort(stable=True)[1]
    indptr = torch.zeros(begin[-1] + 1, dtype=torch.int64)
    indptr[1:] = target.bincount(minlength=begin[-1]).cumsum(0)
    attributes = {"nodes": _of_all_types(g.nodes, g.ntypes), "edges": _of_all_types(g.edges, g.canonical_etypes)}
    attributes["edges"] = {n: v[order] for n, v in attributes["edges"].items()}
    if include_original_edge_id:
        attributes["edges"][ORIGINAL_EDGE_ID] = torch.cat(numbers)[order]
    return fused_csc_sampling_graph(
        indptr, source[order], None if is_homogeneous else torch.tensor(begin),
        None if is_homogeneous else torch.cat(kinds)[order], None if is_homogeneous else types,
        None if is_homogeneous else {etype_tuple_to_str(e): i for i, e in enumerate(g.canonical_etypes)},
        attributes["nodes"], attributes["edges"])


def _of_all_types(space: Any, types: Sequence[Any]) -> dict[str, Any]:
    """The data that all types of nodes or edges have, type after type."""
    names = [n for n in space[types[0]].data if all(n in space[t].data for t in types)] if types else []
    return {n: torch.cat([space[t].data[n] for t in types]) for n in names}
