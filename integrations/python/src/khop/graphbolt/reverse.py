"""Excludes edges from a minibatch: its seeds, and their reverses."""

from __future__ import annotations

from functools import partial
from typing import Any, Mapping, Optional

import torch

from .._config import unknown_names
from .base import require
from .items import SECTION
from .pipes import IGNORED, MiniBatchTransformer, Stage, stage


def add_reverse_edges(edges: Any, reverse_etypes_mapping: Optional[Mapping[str, str]] = None) -> Any:
    """dgl.graphbolt.add_reverse_edges: returns edges and their reverses, as pairs [n, 2] or as sources and targets.
    With types, reverse_etypes_mapping maps an edge type to that of its reverses."""
    if not isinstance(edges, Mapping):
        return _joined(edges, _reversed(edges))
    found = dict(edges)
    for etype, reverse in (reverse_etypes_mapping or {}).items():
        if etype in edges:
            turned = _reversed(edges[etype])
            found[reverse] = _joined(found[reverse], turned) if reverse in found else turned
    return found


add_reverse_edges_2 = add_reverse_edges


def exclude_seed_edges(minibatch: Any, include_reverse_edges: bool = False,
                       reverse_etypes_mapping: Optional[Mapping[str, str]] = None) -> Any:
    """dgl.graphbolt.exclude_seed_edges: returns the minibatch without its seed edges, and without their reverses if
    include_reverse_edges."""
    edges = minibatch.node_pairs if minibatch.node_pairs is not None else minibatch.seeds
    if include_reverse_edges:
        edges = add_reverse_edges(edges, reverse_etypes_mapping)
    minibatch.sampled_subgraphs = [s.exclude_edges(edges) for s in minibatch.sampled_subgraphs]
    return minibatch


@stage("exclude_seed_edges")
def _without_seed_edges(datapipe: Any, include_reverse_edges: bool = False, reverse_etypes_mapping: Any = None,
                        **ignored: Any) -> Stage:
    """exclude_seed_edges as a stage."""
    unknown_names.check("exclude_seed_edges", ignored, IGNORED, SECTION)
    return MiniBatchTransformer(datapipe, partial(
        exclude_seed_edges, include_reverse_edges=include_reverse_edges, reverse_etypes_mapping=reverse_etypes_mapping))


def _reversed(edges: Any) -> Any:
    if isinstance(edges, torch.Tensor):
        require(edges.ndim == 2 and edges.shape[1] == 2,
                f"Only tensor with shape N*2 is supported now, but got {edges.shape}.")
        return edges.flip(1)
    return edges[1], edges[0]


def _joined(some: Any, more: Any) -> Any:
    if isinstance(some, torch.Tensor):
        return torch.cat([some, more])
    return torch.cat([some[0], more[0]]), torch.cat([some[1], more[1]])
