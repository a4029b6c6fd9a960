"""Pipelines: stages that hand minibatches on.

A stage makes minibatches itself, one after another, when it is iterated over. What khop knows it can also describe
(Stage.describe): then DataLoader has khop make the minibatches (served.py).
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Iterator, Optional, Sequence

from torch.utils.data import IterableDataset

from .. import names
from .base import moved, require
from .items import SECTION
from .minibatch import MiniBatch
from .plan import NotByKhop, Plan


class Stage(IterableDataset[Any]):
    """A stage of a pipeline. datapipe is the one before, or whatever else can be iterated over."""

    datapipe: Any = None

    def __init__(self, datapipe: Any) -> None:
        self.datapipe = datapipe

    def describe(self, plan: Plan) -> None:
        """Says to khop what the stages up to here do. Raises NotByKhop if that is not among what khop does."""
        if not isinstance(self.datapipe, Stage):
            raise NotByKhop(f"it begins with {type(self.datapipe).__name__}")
        self.datapipe.describe(plan)

    def plan(self) -> Plan:
        """What khop shall do; NotByKhop says why it cannot."""
        plan = Plan()
        self.describe(plan)
        plan.check()
        return plan

    def __iter__(self) -> Iterator[Any]:
        from .loading import minibatches

        return minibatches(self)

    def made(self) -> Iterator[Any]:
        """The minibatches, made in this process by the stages themselves."""
        return iter(self.datapipe)

    # --- stages behind this one ---

    def sample_subgraph(self, *args: Any, **kwargs: Any) -> Any:
        """SubgraphSampler of this stage."""
        return _samplers().SubgraphSampler(self, *args, **kwargs)

    def sample_neighbor(self, graph: Any, fanouts: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """NeighborSampler of this stage."""
        return _samplers().NeighborSampler(self, graph, fanouts, *args, **kwargs)

    def sample_layer_neighbor(self, graph: Any, fanouts: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """LayerNeighborSampler of this stage."""
        return _samplers().LayerNeighborSampler(self, graph, fanouts, *args, **kwargs)

    def temporal_sample_neighbor(self, graph: Any, fanouts: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """TemporalNeighborSampler of this stage."""
        return _samplers().TemporalNeighborSampler(self, graph, fanouts, *args, **kwargs)

    def temporal_sample_layer_neighbor(self, graph: Any, fanouts: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """TemporalLayerNeighborSampler of this stage."""
        return _samplers().TemporalLayerNeighborSampler(self, graph, fanouts, *args, **kwargs)

    def sample_in_subgraph(self, graph: Any) -> Any:
        """InSubgraphSampler of this stage."""
        return _samplers().InSubgraphSampler(self, graph)

    def sample_negative(self, negative_ratio: int) -> Any:
        """NegativeSampler of this stage."""
        return _samplers().NegativeSampler(self, negative_ratio)

    def sample_uniform_negative(self, graph: Any, negative_ratio: int) -> Any:
        """UniformNegativeSampler of this stage."""
        return _samplers().UniformNegativeSampler(self, graph, negative_ratio)

    def fetch_feature(self, feature_store: Any, node_feature_keys: Any = None, edge_feature_keys: Any = None,
                      **ignored: Any) -> Stage:
        """FeatureFetcher of this stage."""
        from .fetching import FeatureFetcher

        return FeatureFetcher(self, feature_store, node_feature_keys, edge_feature_keys, **ignored)

    def exclude_seed_edges(self, include_reverse_edges: bool = False, reverse_etypes_mapping: Any = None,
                           **ignored: Any) -> Stage:
        """Leaves out the edges that minibatches ask for."""
        from functools import partial

        from .reverse import exclude_seed_edges
        names.check("exclude_seed_edges", ignored, IGNORED, SECTION)
        return self.transform(partial(exclude_seed_edges, include_reverse_edges=include_reverse_edges,
                                      reverse_etypes_mapping=reverse_etypes_mapping))

    def copy_to(self, device: Any, extra_attrs: Any = None, **ignored: Any) -> Stage:
        """CopyTo of this stage."""
        return CopyTo(self, device, extra_attrs, **ignored)

    def transform(self, transformer: Optional[Callable[[Any], Any]] = None) -> Stage:
        """MiniBatchTransformer of this stage."""
        return MiniBatchTransformer(self, transformer)

    def map(self, fn: Callable[[Any], Any]) -> Stage:
        """Mapper of this stage."""
        return Mapper(self, fn)

    def mark_end(self) -> Stage:
        """EndMarker of this stage."""
        return EndMarker(self)

    def buffer(self, buffer_size: int = 1) -> Stage:
        """Bufferer of this stage."""
        return Bufferer(self, buffer_size)

    def wait(self) -> Stage:
        """Waiter of this stage."""
        return Waiter(self)

    def __getattr__(self, name: str) -> Any:
        """Stages of torch's own, or of torchdata."""
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            from torch.utils.data import IterDataPipe
            from torch.utils.data.datapipes.iter import IterableWrapper
        except ImportError:
            pass
        else:
            if name in IterDataPipe.functions:
                return getattr(IterableWrapper(self, deepcopy=False), name)  # type: ignore[no-untyped-call]
        known = [n for n in dir(Stage) if not n.startswith("_")]
        try:
            names.check("a pipeline of khop.graphbolt", [name], known, SECTION)
        except TypeError as e:
            raise AttributeError(str(e)) from None


IGNORED = ("overlap_fetch", "num_gpu_cached_edges", "gpu_cache_threshold", "asynchronous")
"""Arguments that say how GraphBolt is to be fast, and change no minibatch."""


def _samplers() -> Any:
    from . import samplers

    return samplers


def checked(of: Any, unknown: Any) -> None:
    """Refuses names that an initialiser does not have, but for IGNORED."""
    names.check(of.__name__, unknown, [*inspect.signature(of).parameters, *IGNORED], SECTION)


class Mapper(Stage):
    """Applies a function to each minibatch, or to whatever else comes."""

    def __init__(self, datapipe: Any, fn: Callable[[Any], Any]) -> None:
        super().__init__(datapipe)
        self.fn = fn

    def describe(self, plan: Plan) -> None:
        """khop applies the function to what it has sampled."""
        super().describe(plan)
        plan.then(self.fn)

    def made(self) -> Iterator[Any]:
        """Applied to each."""
        return map(self.fn, self.datapipe)


class MiniBatchTransformer(Mapper):
    """dgl.graphbolt.MiniBatchTransformer: applies a function to each minibatch, which returns one."""

    def __init__(self, datapipe: Any, transformer: Optional[Callable[[Any], Any]] = None) -> None:
        super().__init__(datapipe, self._transformed)
        self.transformer = transformer

    def _transformed(self, minibatch: Any) -> Any:
        found = self.transformer(minibatch) if self.transformer else minibatch
        require(isinstance(found, MiniBatch), "The transformer output should be an instance of MiniBatch")
        return found


class CopyTo(Mapper):
    """dgl.graphbolt.CopyTo: minibatches go to a device, whole."""

    def __init__(self, datapipe: Any, device: Any, extra_attrs: Any = None, **unknown: Any) -> None:
        checked(CopyTo, unknown)
        super().__init__(datapipe, lambda minibatch: moved(minibatch, device))
        self.device, self.extra_attrs = device, extra_attrs

    def describe(self, plan: Plan) -> None:
        """A copy before sampling is one afterwards."""
        Stage.describe(self, plan)
        plan.after.append(self.fn)


class EndMarker(Stage):
    """dgl.graphbolt.EndMarker: hands on what comes."""


class Bufferer(Stage):
    """dgl.graphbolt.Bufferer: holds buffer_size minibatches back."""

    def __init__(self, datapipe: Any, buffer_size: int = 1) -> None:
        if buffer_size <= 0:
            raise ValueError("'buffer_size' is required to be a positive integer.")
        super().__init__(datapipe)
        self.buffer_size = buffer_size

    def made(self) -> Iterator[Any]:
        """With as many ahead as are held back."""
        held: list[Any] = []
        for minibatch in self.datapipe:
            held.append(minibatch)
            if len(held) > self.buffer_size:
                yield held.pop(0)
        yield from held


class Waiter(Mapper):
    """dgl.graphbolt.Waiter: waits for what each minibatch waits for."""

    def __init__(self, datapipe: Any) -> None:
        super().__init__(datapipe, _waited)


def _waited(minibatch: Any) -> Any:
    minibatch.wait()
    return minibatch
