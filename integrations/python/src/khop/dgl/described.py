"""The description that a sampler of khop.dgl gives DataLoader of its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence

SECTION = "From DGL"
"""Of docs/migrating.md."""


class Sampler:
    """Base of all samplers: the options of khop.Loader for their batches, and the columns that they include."""

    fanouts: Sequence[Any] = ()
    prob: Optional[str] = None
    mask: Optional[str] = None
    blocks = True
    """Whether a batch is made of blocks, or else one graph of all its nodes."""

    def __init__(self, how: Mapping[str, Any], nodes: Any, labels: Any, edges: Any, output_device: Any) -> None:
        self.how: dict[str, Any] = dict(how)
        self.prefetch_node_feats, self.prefetch_labels, self.prefetch_edge_feats = nodes, labels, edges
        self.output_device = output_device


class Drawn(Sampler):
    """A sampler whose batches are one graph each, of a graph with one node type and one edge type. DataLoader's indices
    are no seeds for it."""

    blocks = False
    in_order = False
    """Whether nodes are listed by id, as in DGL."""
    backward = False
    """Whether khop follows edges the other way."""

    def items(self, indices: Any, batch_size: int, drop_last: bool, folder: str) -> dict[str, Any]:
        """Returns options of khop.Loader for these indices. Files that they name are written to the folder."""
        raise NotImplementedError


@dataclass
class Negatives:
    """The description of a sampler of negatives."""

    k: int
    how: Mapping[str, Any]


class EdgeSampler:
    """The sampler that as_edge_prediction_sampler makes, for seeds that are edges."""

    def __init__(self, sampler: Sampler, exclude: Any, negatives: Optional[Negatives]) -> None:
        self.sampler, self.how, self.negatives = sampler, dict(sampler.how), negatives
        kinds = {None: None, "self": "seeds", "reverse_id": "reverse", "reverse_types": "reverse"}
        if callable(exclude) or exclude not in kinds:
            raise TypeError(f"exclude={exclude!r}: must be 'self', 'reverse_id', 'reverse_types' or None "
                            f'(khop docs migrating, "{SECTION}")')
        if exclude is not None:
            if not sampler.blocks:
                raise TypeError(
                    f"exclude={exclude!r}: {type(sampler).__name__} takes all edges between the nodes: leave "
                                f'exclude out (khop docs migrating, "{SECTION}")')
            self.how["exclude_seeds"] = kinds[exclude]
        if negatives is not None:
            self.how.update(negatives="uniform", negative_ratio=float(negatives.k), **negatives.how)
