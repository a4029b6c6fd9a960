"""Replaces ids of the graph by places in the nodes of a batch, as GraphBolt's samplers do with picked edges."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Mapping, Optional

import torch

from .base import CSCFormatBase, etype_str_to_tuple, expand_indptr, require

_PLAIN = "_N:_E:_N"


def _numbered(ids: Any, kept: int) -> tuple[Any, Any]:
    """ids without repetition, in the order in which they come first, and the place of each there. The first kept stay
    as they are, also where they repeat."""
    ordered, order = ids.sort(stable=True)
    begins = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
    begins[1:] = ordered[1:] != ordered[:-1]
    first, inverse = order[begins], torch.empty_like(order)
    inverse[order] = begins.cumsum(0) - 1
    fresh = first >= kept
    later = first[fresh].sort()[0]
    place = first.clone()
    place[fresh] = kept + torch.searchsorted(later, first[fresh])
    return torch.cat([ids[:kept], ids[later]]), place[inverse].to(ids.dtype)


def _parts(whole: Any, like: Any) -> list[Any]:
    """A tensor in pieces that are as long as those of like."""
    ends = list(accumulate(map(len, like), initial=0))
    return [whole[begin:end] for begin, end in zip(ends, ends[1:])]


def unique_and_compact(nodes: Any) -> Any:
    """dgl.graphbolt.unique_and_compact: returns the distinct nodes of several tensors, and the tensors as places there.
    By type if nodes is a mapping."""
    if isinstance(nodes, Mapping):
        each = {t: unique_and_compact(of) for t, of in nodes.items()}
        return {t: e[0] for t, e in each.items()}, {t: e[1] for t, e in each.items()}
    unique, places = _numbered(torch.cat(list(nodes)), 0)
    return unique, _parts(places, nodes)


def compact_temporal_nodes(nodes: Any, nodes_timestamp: Any) -> Any:
    """Returns nodes and times of several tensors one after another, each as a node of its own."""
    if isinstance(nodes, Mapping):
        each = {t: compact_temporal_nodes(of, nodes_timestamp[t]) for t, of in nodes.items()}
        return tuple({t: e[i] for t, e in each.items()} for i in range(3))
    whole = torch.cat(list(nodes))
    places = torch.arange(len(whole), dtype=whole.dtype, device=whole.device)
    return whole, torch.cat(list(nodes_timestamp)), _parts(places, nodes)


def _by_type(csc_formats: Any, *more: Any) -> tuple[bool, Any, tuple[Any, ...]]:
    """Whether the graph has types; edges and values of nodes by type."""
    if isinstance(csc_formats, Mapping):
        return True, csc_formats, more
    for value in more:
        require(value is None or isinstance(value, torch.Tensor), "Edge type not supported in homogeneous graph.")
    return False, {_PLAIN: csc_formats}, tuple(None if m is None else {"_N": m} for m in more)


def unique_and_compact_csc_formats(csc_formats: Any, unique_dst_nodes: Any) -> Any:
    """dgl.graphbolt.unique_and_compact_csc_formats: returns the nodes of the edges, destinations first, and the edges
    between places there."""
    typed, edges, (targets,) = _by_type(csc_formats, unique_dst_nodes)
    sources: dict[str, list[Any]] = {}
    for etype, csc in edges.items():
        _check_columns(etype, csc, targets)
        sources.setdefault(etype_str_to_tuple(etype)[0], []).append(csc.indices)
    nodes, places = {}, {}
    for t, parts in sources.items():
        kept = targets.get(t, parts[0][:0])
        nodes[t], all_places = _numbered(torch.cat([kept.to(parts[0].dtype), *parts]), len(kept))
        places[t] = _parts(all_places[len(kept):], parts)
    compacted = {e: CSCFormatBase(csc.indptr, places[etype_str_to_tuple(e)[0]].pop(0)) for e, csc in edges.items()}
    return (nodes, compacted) if typed else (nodes["_N"], compacted[_PLAIN])


def compact_csc_format(csc_formats: Any, dst_nodes: Any, dst_timestamps: Optional[Any] = None) -> Any:
    """dgl.graphbolt.compact_csc_format: the same with each edge's source as a node of its own. With times of the
    destinations it returns those of the nodes, too."""
    typed, edges, (targets, times) = _by_type(csc_formats, dst_nodes, dst_timestamps)
    nodes, compacted = dict(targets), {}
    node_times = dict(times or {})
    for etype, csc in edges.items():
        _check_columns(etype, csc, targets)
        source, _, target = etype_str_to_tuple(etype)
        before = nodes.get(source, csc.indices[:0])
        compacted[etype] = CSCFormatBase(csc.indptr, torch.arange(
            len(before), len(before) + len(csc.indices), dtype=csc.indices.dtype, device=csc.indices.device))
        nodes[source] = torch.cat([before, csc.indices])
        if times is not None:
            of = expand_indptr(csc.indptr, node_ids=times[target], output_size=len(csc.indices))
            node_times[source] = torch.cat([node_times.get(source, of[:0]), of])
    found = [nodes, compacted] + ([] if times is None else [node_times])
    return tuple(found) if typed else tuple(next(iter(f.values())) for f in found)


def _check_columns(etype: str, csc: Any, targets: Any) -> None:
    columns = len(targets.get(etype_str_to_tuple(etype)[2], ()))
    require(columns + 1 == len(csc.indptr), "The seed nodes should correspond to indptr.")
