"""Graphs with the names of DGL's, where DGL is not installed."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from .._batch.blocks import NID, OfType, OfTypes, Space


class Graph:
    """Edges between nodes, with ids and data: the names of DGL's graphs that describe structure and data."""

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

    @property
    def device(self) -> Any:
        return next(iter(self._nodes.values()))[NID].device

    def _etype(self, etype: Any) -> Any:
        found = [e for e in self._pairs if etype is None or etype in (e, e[1])]
        if len(found) != 1:
            raise KeyError(f"edge type {etype!r}: there are {', '.join(map(str, self._pairs))}")
        return found[0]

    @property
    def edges(self) -> Any:
        """Sources and targets as positions in the nodes, when called: edges(). edges[type].data has the columns."""
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

    def in_degrees(self, v: Any = None, etype: Any = None) -> Any:
        """Counts the in-edges of each target node, or of those in v."""
        return self._degrees(1, v, etype)

    def out_degrees(self, u: Any = None, etype: Any = None) -> Any:
        """Counts the out-edges of each source node, or of those in u."""
        return self._degrees(0, u, etype)

    def _degrees(self, end: int, of: Any, etype: Any) -> Any:
        e = self._etype(etype)
        degrees = self._pairs[e][end].long().bincount(minlength=self.num_nodes((e[0], e[2])[end]))
        return degrees if of is None else degrees[of]

    @property
    def ndata(self) -> Any:
        return OfTypes(self._nodes, len(self._nodes) == 1)

    @property
    def edata(self) -> Any:
        return OfTypes(self._edata, len(self._edata) == 1)

    def to(self, device: Any, non_blocking: bool = False) -> Graph:
        """Returns the graph with all arrays on a device."""
        def move(values: Mapping[Any, dict[str, Any]]) -> dict[Any, dict[str, Any]]:
            return {t: {k: v.to(device, non_blocking=non_blocking) for k, v in data.items()}
                    for t, data in values.items()}
        out = Graph({e: p.to(device, non_blocking=non_blocking) for e, p in self._pairs.items()}, {})
        out._nodes, out._edata = move(self._nodes), move(self._edata)
        return out

    def __repr__(self) -> str:
        return f"Graph(num_nodes={self.num_nodes()}, num_edges={self.num_edges()})"


def graph_of(pairs: Mapping[Any, Any], nodes: Mapping[str, Any]) -> Any:
    """Makes a graph of DGL, or without DGL a Graph, of edges [2, n] as positions in the nodes, and the ids of the
    nodes."""
    try:
        import dgl
    except ImportError:
        return Graph(pairs, nodes)
    ids = next(iter(nodes.values()))
    graph = dgl.heterograph({e: (p[0].to(ids.dtype), p[1].to(ids.dtype)) for e, p in pairs.items()},
                            {t: len(ids) for t, ids in nodes.items()}, idtype=ids.dtype, device=ids.device)
    for t, ids in nodes.items():
        graph.nodes[t].data[NID] = ids
    return graph
