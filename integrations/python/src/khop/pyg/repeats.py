"""Repeated seeds of a batch in PyG's form: PyG gives each a node of its own, khop one for all of them."""

from __future__ import annotations

from typing import Any, Optional

import torch


class Repeats:
    """The new places of nodes and edges when each seed gets a node of its own. These are the first nodes, in the order
    of the seeds. Each has all in-edges that khop drew for the seed; only the first one has its out-edges."""

    def __init__(self, of: Optional[str], seeds: Any, num_nodes: int) -> None:
        """seeds is the place of each seed, a node of the given type, among the batch's distinct ones. First places
        ascend."""
        self.of = of
        self.distinct = int(seeds.max()) + 1
        self.more = len(seeds) - self.distinct  # nodes that the batch gets
        later: Any = torch.arange(self.distinct, num_nodes)
        self.nodes = torch.cat([seeds, later])
        """The node of the batch that each new one is."""
        self.edges: dict[Any, Any] = {}
        """The edge of the batch that each new one is, by type, after give."""
        self._copies = torch.argsort(seeds, stable=True)  # the new nodes of the first distinct seed, of the second, ..
        self._count = torch.bincount(seeds)
        self._first = self._count.cumsum(0) - self._count
        self._place = torch.cat([self._copies[self._first], later + self.more])

    @classmethod
    def find(cls, of: Optional[str], seeds: Any, num_nodes: int) -> Optional[Repeats]:
        """Returns the repeats, or None if no seed is repeated."""
        seeds = seeds.long()
        return cls(of, seeds, num_nodes) if len(seeds) and int(seeds.max()) + 1 < len(seeds) else None

    def give(self, nodes: dict[Any, Any], edges: dict[Any, Any], of_nodes: Any, of_edges: Any) -> None:
        """Changes a sample: nodes by type; ends [2, edges] and numbers of edges by edge type; and unless these are
        None, how many nodes and edges each hop has."""
        nodes[self.of] = nodes[self.of][self.nodes]
        if of_nodes is not None:
            of_nodes[self.of][0] += self.more
        for of, ((row, col), number) in edges.items():
            source, target = (of[0], of[2]) if of is not None else (None, None)
            index = torch.arange(len(row))
            if target == self.of:
                index, col, hops = self._to_each(col, None if of_edges is None else of_edges[of])
                if of_edges is not None:
                    of_edges[of] = hops
            row = row[index]
            self.edges[of] = index
            edges[of] = torch.stack([self._place[row] if source == self.of else row, col]), number[index]

    def _to_each(self, col: Any, hops: Optional[list[int]]) -> tuple[Any, Any, Optional[list[int]]]:
        """Which edges lead to a node or a copy of one, to which, and how many each hop has. Those of the first hop are
        by their targets, as they were."""
        seed = torch.where(col < self.distinct, col, 0)
        times = torch.where(col < self.distinct, self._count[seed], 1)
        end = times.cumsum(0)
        edge = torch.repeat_interleave(torch.arange(len(col)), times)
        copy = torch.arange(len(edge)) - (end - times)[edge]
        own = self._copies[self._first[seed[edge]] + copy]
        new = torch.where(col[edge] < self.distinct, own, self._place[col[edge]])
        if hops:
            ends = torch.cat([torch.zeros(1, dtype=torch.int64), end])[torch.tensor([0, *hops]).cumsum(0)]
            hops = ends.diff().tolist()
        order = torch.arange(len(edge))
        first = hops[0] if hops else len(edge)
        order[:first] = torch.argsort(new[:first], stable=True)
        return edge[order], new[order], hops
