"""Sampled subgraphs: one layer of a minibatch."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import torch

from .base import CSCFormatBase, called, etype_str_to_tuple, expand_indptr, isin, moved, require


class SampledSubgraph:
    """dgl.graphbolt.SampledSubgraph: the edges of one layer by destination, and the ids of its nodes and edges in the
    graph. For a graph of one type these are plain values, else mappings of types to values."""

    sampled_csc: Any = None
    original_column_node_ids: Any = None
    original_row_node_ids: Any = None
    original_edge_ids: Any = None

    def exclude_edges(self, edges: Any, assume_num_node_within_int32: bool = True) -> Any:
        """Returns the subgraph without the given edges, which are pairs [n, 2] or sources and targets."""
        require(assume_num_node_within_int32, "exclude_edges: ids of nodes must be below 2**31")
        typed = isinstance(self.sampled_csc, Mapping)
        require(typed == isinstance(edges, Mapping), "The sampled subgraph and the edges to exclude should be both "
                "homogeneous or both heterogeneous.")
        if not typed:
            kept = self._kept(self.sampled_csc, self.original_row_node_ids, self.original_column_node_ids, edges)
            return self._with(_sliced(self.sampled_csc, kept), _taken(self.original_edge_ids, kept))
        csc, ids = dict(self.sampled_csc), dict(self.original_edge_ids or {})
        for etype in csc:
            if etype in edges:
                source, _, target = etype_str_to_tuple(etype)
                rows, columns = self.original_row_node_ids or {}, self.original_column_node_ids or {}
                kept = self._kept(csc[etype], rows.get(source), columns.get(target), edges[etype])
                csc[etype] = _sliced(csc[etype], kept)
                if etype in ids:
                    ids[etype] = _taken(ids[etype], kept)
        return self._with(csc, None if self.original_edge_ids is None else ids)

    def _with(self, csc: Any, ids: Any) -> Any:
        return type(self)(csc, self.original_column_node_ids, self.original_row_node_ids, ids)  # type: ignore[call-arg]

    @staticmethod
    def _kept(csc: Any, rows: Optional[Any], columns: Optional[Any], edges: Any) -> Any:
        """Numbers of the edges that are not among those to exclude."""
        source = csc.indices if rows is None else rows[csc.indices.long()]
        target = expand_indptr(csc.indptr, source.dtype, columns, len(source))
        without = edges.T if isinstance(edges, torch.Tensor) else edges
        pairs, unwanted = (u.long() << 32 | v.long() for u, v in ((source, target), (without[0], without[1])))
        return (~isin(pairs, unwanted)).nonzero().view(-1)

    def to(self, device: Any) -> Any:
        """Moves the subgraph to a device."""
        for name in ("sampled_csc", "original_column_node_ids", "original_row_node_ids", "original_edge_ids"):
            setattr(self, name, moved(getattr(self, name), device))
        return self

    def __repr__(self) -> str:
        names = ("sampled_csc", "original_row_node_ids", "original_edge_ids", "original_column_node_ids")
        return called(type(self).__name__, {n: getattr(self, n) for n in names}, len(type(self).__name__))


class SampledSubgraphImpl(SampledSubgraph):
    """dgl.graphbolt.SampledSubgraphImpl; its name in 2.2 is FusedSampledSubgraphImpl."""

    def __init__(self, sampled_csc: Any = None, original_column_node_ids: Any = None, original_row_node_ids: Any = None,
                 original_edge_ids: Any = None) -> None:
        for etype, csc in sampled_csc.items() if isinstance(sampled_csc, Mapping) else ((None, sampled_csc),):
            require(etype is None or isinstance(etype, str) and len(etype_str_to_tuple(etype)) == 3,
                    "Edge type should be a string in format of str:str:str.")
            require(isinstance(csc.indptr, torch.Tensor) and isinstance(csc.indices, torch.Tensor),
                    "Nodes in pairs should be of type torch.Tensor.")
        self.sampled_csc, self.original_edge_ids = sampled_csc, original_edge_ids
        self.original_column_node_ids, self.original_row_node_ids = original_column_node_ids, original_row_node_ids


FusedSampledSubgraphImpl = SampledSubgraphImpl


def _sliced(csc: Any, kept: Any) -> CSCFormatBase:
    return CSCFormatBase(torch.searchsorted(kept, csc.indptr.long()).to(csc.indptr.dtype), csc.indices[kept])


def _taken(ids: Any, kept: Any) -> Any:
    return None if ids is None else ids[kept]
