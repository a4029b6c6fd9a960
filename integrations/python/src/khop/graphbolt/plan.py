"""What a pipeline says of its minibatches, for khop to make them."""

from __future__ import annotations

from typing import Any, Callable, Optional


class NotByKhop(TypeError):
    """A pipeline that the stages themselves have to run: says why."""


class Plan:
    """Where items come from, options of khop.Loader, and what is done with each minibatch."""

    def __init__(self) -> None:
        self.items: Any = None
        self.graph: Any = None
        self.how: dict[str, Any] = {}
        self.negatives: Optional[tuple[Any, int]] = None
        """The graph whose nodes negatives are, and how many there are for each pair."""
        self.features: Any = None
        """Features that come with batches, and the keys of those wanted."""
        self.node_keys: Any = None
        self.edge_keys: Any = None
        self.after: list[Callable[[Any], Any]] = []

    def sample(self, graph: Any, **how: Any) -> None:
        """Sampling in a graph: the one stage without which khop has nothing to do."""
        if self.graph is not None:
            raise NotByKhop("it samples twice")
        if self.negatives is not None and self.negatives[0] is not graph:
            raise NotByKhop("negatives are of another graph than the one to sample in")
        self.graph = graph
        self.how.update(how)

    def then(self, fn: Callable[[Any], Any]) -> None:
        """A function for each minibatch, once it is sampled."""
        if self.graph is None:
            raise NotByKhop("it changes minibatches before they are sampled")
        self.after.append(fn)

    def check(self) -> None:
        """Refuses a plan in which khop samples nothing."""
        if self.graph is None:
            raise NotByKhop("a pipeline without sampling: add sample_neighbor(graph, fanouts)")
