"""The rows of tokens of a batch whose sampler has the option sequence."""

from __future__ import annotations

from typing import Optional

from .contents import Contents
from .frameworks import Array


class Sequences:
    """Rows of up to length tokens, one for each seed, repeats included, in the order of ``seeds``: nodes that the
    sampler reached from it, and what led to them. Behind the end of a row integers are -1; ages, weights and rows are
    0. Arrays are views of the loader's memory; ``mask`` and ``rows`` are made at each access.

    Seeds that are edges have a row for each source, then one for each target, negatives included.
    """

    __slots__ = ("_batch",)

    def __init__(self, batch: Contents) -> None:
        self._batch = batch
        _ = self.index  # an error where there are none

    @property
    def index(self) -> Array:
        """Each token's position in n_id, of its node type's where there are several [seeds, length]."""
        if "sample/sequence" not in self._batch:
            raise AttributeError("the batch has no sequences: give the loader sequence=LENGTH, with the sampler "
                                 "neighbor, temporal, ppr or pinsage")
        return self._batch.array("sample/sequence")

    def _array(self, name: str) -> Optional[Array]:
        return self._batch.array(f"sample/sequence_{name}") if f"sample/sequence_{name}" in self._batch else None

    @property
    def node_type(self) -> Optional[Array]:
        """The number of each token's node type, in the order of node_types; None with one type."""
        return self._array("type")

    @property
    def hop(self) -> Optional[Array]:
        """The hop that reached each token; None with one hop, and for scores."""
        return self._array("hop")

    @property
    def edge(self) -> Optional[Array]:
        """The position in the dataset of the edge that reached each token, -1 for a seed; None for scores."""
        return self._array("edge")

    @property
    def edge_type(self) -> Optional[Array]:
        """The number of that edge's type, in the order of edge_types; None with one type, and for scores."""
        return self._array("edge_type")

    @property
    def age(self) -> Optional[Array]:
        """The seed's time less that of the step, in the dataset's unit; None without times."""
        return self._array("age")

    @property
    def weight(self) -> Optional[Array]:
        """Scores of ppr and pinsage, divided by the sum of a seed's; None for other samplers."""
        return self._array("weight")

    @property
    def mask(self) -> Array:
        """Which places of a row have a token [seeds, length]."""
        return self.index >= 0

    @property
    def ids(self) -> Array:
        """Each token's id in the dataset, of its node type [seeds, length]: as wide as the dataset's ids."""
        return self._batch.array("sample/sequence_id")

    def rows(self, values: Array, node_type: Optional[str] = None) -> Array:
        """Returns a row of values for each token [seeds, length, ..], zeros behind the end. values has one for each
        node of n_id, such as x or what a layer made of it; with several node types say whose: tokens of others have
        zeros. Gradients flow back."""
        types = self._batch.schema.node_types
        if self.node_type is not None and node_type not in types:
            raise ValueError(f"values of which node type? There are {', '.join(types)}: rows(values, {types[0]!r})")
        index = self.index if self.node_type is None else self._of(types.index(str(node_type)))
        return self._batch._framework.rows(values, index)

    def _of(self, node_type: int) -> Array:
        """index where tokens are of a node type, else -1."""
        return (self.index + 1) * (self.node_type == node_type) - 1

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {' x '.join(map(str, self.index.shape))} tokens>"
