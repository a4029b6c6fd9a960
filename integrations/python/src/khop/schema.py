"""What a dataset holds and how it is loaded: what every batch of a loader has in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Mapping, Sequence, Tuple

from .errors import ProtocolError

EdgeType = Tuple[str, str, str]
"""Source node type, relation, target node type."""


@dataclass(frozen=True)
class Schema:
    """Types of nodes and edges, in the dataset's order, and the shape of a sample."""

    node_types: tuple[str, ...]
    node_counts: tuple[int, ...]
    edge_types: tuple[EdgeType, ...]
    edge_counts: tuple[int, ...]
    layers: int
    new_nodes: bool = False
    """Frontier "new": each node is expanded once, and layers are the beginnings of one another."""

    @property
    def plain(self) -> bool:
        """Whether there is one node type and one edge type."""
        return len(self.node_types) == 1 and len(self.edge_types) == 1

    @cached_property
    def block_names(self) -> tuple[tuple[str, ...], ...]:
        """What the names of a block's arrays begin with [edge type][layer]."""
        return tuple(tuple(f"block/{layer}/{text(e)}/" for layer in range(self.layers)) for e in self.edge_types)

    def node(self, name: str) -> int:
        """The position of a node type."""
        try:
            return self.node_types.index(name)
        except ValueError:
            raise KeyError(f"no node type {name!r}; there are: {', '.join(self.node_types)}") from None

    def edge(self, name: EdgeType) -> int:
        """The position of an edge type."""
        try:
            return self.edge_types.index(tuple(name))
        except ValueError:
            have = ", ".join(map(repr, self.edge_types))
            raise KeyError(f"no edge type {tuple(name)!r}; there are: {have}") from None


def text(edge_type: EdgeType) -> str:
    """An edge type's name in the names of arrays."""
    return ":".join(edge_type)


def schema_of(arrays: Any, about: Mapping[str, Any]) -> Schema:
    """The schema of a server's batches: what WELCOME tells, completed by the names of a batch's arrays."""
    names = arrays.names()
    nodes = [n[len("nodes/"):] for n in names if n.startswith("nodes/")]
    edges = [n[len("block/0/"):-len("/indptr")] for n in names if n.startswith("block/0/") and n.endswith("/indptr")]
    layers = arrays.shape("num_nodes")[0] - 1
    return Schema(
        node_types=tuple(nodes), node_counts=_counts(about.get("node_types"), nodes), edge_types=tuple(_edge_type(e) for e in edges),
        edge_counts=_counts(about.get("edge_types"), edges), layers=layers, new_nodes=about.get("frontier") == "new",
    )


def _edge_type(name: str) -> EdgeType:
    parts = name.split(":")
    if len(parts) != 3:
        raise ProtocolError(f"an edge type that is called {name!r}: not of the form source:relation:target")
    return parts[0], parts[1], parts[2]


def _counts(told: Any, names: Sequence[str]) -> tuple[int, ...]:
    """How many there are in the dataset, where the server tells: a list of objects with a count."""
    if isinstance(told, list) and len(told) == len(names) and all(isinstance(t, dict) and isinstance(t.get("count"), int) for t in told):
        return tuple(t["count"] for t in told)
    return tuple(-1 for _ in names)
