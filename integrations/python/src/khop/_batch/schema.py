"""The types and columns of a dataset: the part that every batch of a loader shares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Mapping, Sequence, Tuple

if TYPE_CHECKING:
    from .._feed.ring import SlotArrays

# The columns that mean something to khop have these names: the roles of graph/schema.go.
FEATURE, LABEL, TIME, WEIGHT = "feature", "label", "time", "weight"
NODE_NAMES = {FEATURE: "x", LABEL: "y"}
"""PyG's names for columns of nodes."""
EDGE_NAMES = {FEATURE: "edge_attr", WEIGHT: "edge_weight", "edge_id": "e_id"}
"""PyG's names for columns of edges."""

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
    def _positions(self) -> dict[Any, int]:
        """Of node types and of edge types."""
        return {t: i for types in (self.node_types, self.edge_types) for i, t in enumerate(types)}

    @cached_property
    def block_names(self) -> tuple[tuple[str, ...], ...]:
        """How the names of a block's arrays begin [edge type][layer]."""
        return tuple(tuple(f"block/{layer}/{text(e)}/" for layer in range(self.layers)) for e in self.edge_types)

    def node(self, name: str) -> int:
        """Returns the position of a node type."""
        try:
            return self._positions[name]
        except KeyError:
            raise KeyError(f"no node type {name!r}; there are: {', '.join(self.node_types)}") from None

    def edge(self, name: EdgeType) -> int:
        """Returns the position of an edge type."""
        try:
            return self._positions[tuple(name)]
        except KeyError:
            have = ", ".join(map(repr, self.edge_types))
            raise KeyError(f"no edge type {tuple(name)!r}; there are: {have}") from None


def text(edge_type: EdgeType) -> str:
    """Returns an edge type's name in the names of arrays."""
    return ":".join(edge_type)


@lru_cache(maxsize=8)
def columns_of(names: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
    """Returns the rest of the names of arrays, by their beginning, up to any slash: columns by "node/paper/"."""
    columns: dict[str, list[str]] = {}
    for name in names:
        at = name.find("/")
        while at >= 0:
            columns.setdefault(name[:at + 1], []).append(name[at + 1:])
            at = name.find("/", at + 1)
    return columns


def schema_of(arrays: SlotArrays, about: Mapping[str, Any]) -> Schema:
    """Returns the schema of a server's batches: that of WELCOME, completed by the names of a batch's arrays."""
    nodes, edges = arrays.layout.node_types, arrays.layout.edge_types
    layers = arrays.layout.layers_of(arrays.shape("num_nodes"))
    return Schema(
        node_types=nodes, node_counts=_counts(about.get("node_types"), nodes),
        edge_types=tuple((s, r, t) for s, r, t in (e.split(":") for e in edges)),
        edge_counts=_counts(about.get("edge_types"), edges), layers=layers, new_nodes=about.get("frontier") == "new",
    )


def _counts(told: Any, names: Sequence[str]) -> tuple[int, ...]:
    """How many there are in the dataset, where the server tells: a list of objects with a count."""
    if isinstance(told, list) and len(told) == len(names) and all(
            isinstance(t, dict) and isinstance(t.get("count"), int) for t in told):
        return tuple(t["count"] for t in told)
    return tuple(-1 for _ in names)
