"""Picks in-edges of nodes in tensors, for khop.graphbolt's graphs in memory.

Edges are places in the order by destination. A group has one fan-out: it is the in-edges of a node, or those of a node
and one edge type.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch

from .base import generator


def in_edges(indptr: Any, nodes: Any) -> tuple[Any, Any]:
    """Returns the places of the in-edges of nodes, and for each the number of its node in nodes."""
    nodes = nodes.long()
    begin = indptr[nodes].long()
    count = indptr[nodes + 1].long() - begin
    column = torch.arange(len(nodes), device=nodes.device).repeat_interleave(count)
    first = count.cumsum(0) - count
    return torch.arange(len(column), device=nodes.device) + (begin - first)[column], column


class Draw:
    """A rule to pick edges: up to fanouts of each group, and none of weight 0."""

    def __init__(self, fanouts: Sequence[int], replace: bool, layer: bool) -> None:
        """fanouts is one number, or one per edge type; -1 takes all. With layer, a source has one draw for a whole
        batch (LABOR), so that nodes share neighbours."""
        self.fanouts, self.replace, self.layer = list(fanouts), replace, layer

    def pick(self, column: Any, columns: int, source: Any, kind: Any, weight: Optional[Any]) -> Any:
        """Returns the numbers of the picked edges, ascending by column. kind is the type of each edge, if types
        differ."""
        candidates = torch.arange(len(column), device=column.device)
        if weight is not None:
            candidates = candidates[weight > 0]
        group, groups, most = column, columns, torch.full((columns,), self.fanouts[0], device=column.device)
        if len(self.fanouts) > 1:
            kinds = len(self.fanouts)
            group, groups = column * kinds + kind.long(), columns * kinds
            most = torch.tensor(self.fanouts, device=column.device).repeat(columns)
        group = group[candidates]
        source = source[candidates]
        weight = None if weight is None else weight[candidates].double()
        limit = most[group]
        whole = candidates[limit < 0]
        some = limit >= 0
        take = self._again if self.replace else self._once
        drawn = take(group[some], groups, most.clamp(min=0), source[some], None if weight is None else weight[some])
        taken = torch.cat([whole, candidates[some][drawn]]).sort()[0]
        return taken if (column.diff() >= 0).all() else taken[column[taken].sort(stable=True)[1]]

    def _once(self, group: Any, groups: int, most: Any, source: Any, weight: Any) -> Any:
        """Each edge at most once: those with the smallest keys of their group."""
        key = self._uniform(source)
        if weight is not None:
            # LABOR is sequential Poisson sampling; otherwise a race, in which the weight is the speed.
            key = key / weight if self.layer else -torch.log1p(-key) / weight
        order = key.sort()[1]
        order = order[group[order].sort(stable=True)[1]]
        count = group.bincount(minlength=groups)
        rank = torch.arange(len(order), device=group.device) - (count.cumsum(0) - count)[group[order]]
        return order[rank < most[group[order]]]

    def _again(self, group: Any, groups: int, most: Any, source: Any, weight: Any) -> Any:
        """As many draws as the fan-out from each group that has an edge, each from all of it."""
        if self.layer:  # one race for each draw, in which a source runs as fast for all nodes
            racing = Draw([1], False, True)
            each = [torch.zeros(0, dtype=torch.int64, device=group.device)]
            for i in range(int(most.max()) if len(most) else 0):
                key: Any = -torch.log1p(-racing._uniform(source)) / (1 if weight is None else weight)
                order = key.sort()[1]
                order = order[group[order].sort(stable=True)[1]]
                first = torch.ones_like(order, dtype=torch.bool)
                first[1:] = group[order].diff() != 0
                each.append(order[first & (most[group[order]] > i)])
            return torch.cat(each)
        order = group.sort(stable=True)[1]
        speed = torch.ones(len(order), dtype=torch.float64, device=group.device) if weight is None else weight[order]
        sums = speed.cumsum(0)
        count = group.bincount(minlength=groups)
        end = count.cumsum(0)
        begin = end - count
        sums = torch.cat([sums.new_zeros(1), sums])
        of = torch.arange(groups, device=group.device).repeat_interleave(torch.where(count > 0, most, 0))
        u = torch.rand(len(of), dtype=torch.float64, device=group.device, generator=generator(group.device))
        at: Any = torch.searchsorted(sums, sums[begin[of]] + u * (sums[end[of]] - sums[begin[of]]), right=True) - 1
        return order[torch.minimum(torch.maximum(at, begin[of]), end[of] - 1)]

    def _uniform(self, source: Any) -> Any:
        """A number in [0, 1) for each edge; in LABOR for each source."""
        of, inverse = source.unique(return_inverse=True) if self.layer else (source, None)
        u = torch.rand(len(of), dtype=torch.float64, device=source.device, generator=generator(source.device))
        return u if inverse is None else u[inverse]
