"""A pipeline's description of its minibatches, for khop to make them."""

from __future__ import annotations

from typing import Any, Callable, Optional


class NotByKhop(TypeError):
    """A pipeline that the stages must run themselves; gives the reason."""


class Plan:
    """The source of items, options of khop.Loader, and the functions for each minibatch."""

    def __init__(self) -> None:
        self.items: Any = None
        self.graph: Any = None
        self.how: dict[str, Any] = {}
        self.seed: Optional[int] = None
        """The seed that was given; how has a drawn one in its place."""
        self.negatives: Optional[tuple[Any, int]] = None
        """The graph whose nodes negatives are, and how many there are for each pair."""
        self.features: Any = None
        """Features that come with batches, and the keys of those wanted."""
        self.node_keys: Any = None
        self.edge_keys: Any = None
        self.after: list[Callable[[Any], Any]] = []

    def sample(self, graph: Any, **how: Any) -> None:
        """Adds sampling in a graph, the one stage that khop needs."""
        if self.graph is not None:
            raise NotByKhop("it samples twice")
        if self.negatives is not None and self.negatives[0] is not graph:
            raise NotByKhop("negatives are of another graph than the one to sample in")
        self.graph = graph
        self.how.update(how)

    def then(self, fn: Callable[[Any], Any]) -> None:
        """Adds a function for each minibatch, after sampling."""
        if self.graph is None:
            raise NotByKhop("it changes minibatches before they are sampled")
        self.after.append(fn)

    def check(self) -> None:
        """Refuses a plan without sampling."""
        if self.graph is None:
            raise NotByKhop("a pipeline without sampling: add sample_neighbor(graph, fanouts)")
