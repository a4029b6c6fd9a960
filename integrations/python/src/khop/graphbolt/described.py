"""What a pipeline of khop.graphbolt says of its minibatches, for DataLoader to load them."""

from __future__ import annotations

from typing import Any, Callable, Optional

from .data import SamplingGraph


class Described:
    """What a pipeline says of its minibatches: where items come from, options of khop.Loader, and what is done with
    each minibatch."""

    def __init__(self, before: Optional[Described] = None, **how: Any) -> None:
        self.items: Any = before.items if before else None
        self.graph: Optional[SamplingGraph] = before.graph if before else None
        self.how: dict[str, Any] = {**(before.how if before else {}), **how}
        self.features: Any = before.features if before else None
        self.node_keys: Any = before.node_keys if before else None
        self.edge_keys: Any = before.edge_keys if before else None
        self.after: list[Callable[[Any], Any]] = list(before.after) if before else []
