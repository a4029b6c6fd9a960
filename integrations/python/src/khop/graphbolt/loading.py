"""Chooses what makes minibatches: khop, or the stages of the pipeline."""

from __future__ import annotations

import inspect
import logging
from typing import Any, Iterator, Mapping, Optional

from .._config import unknown_names
from .graph import FusedCSCSamplingGraph, SamplingGraph
from .items import SECTION
from .pipes import Stage
from .plan import NotByKhop
from .served import Served

_log = logging.getLogger("khop")


def _served(stage: Stage) -> Optional[Iterator[Any]]:
    """The minibatches of a stage that is iterated over, where its graph lies in a dataset."""
    return None if _dataset(stage) is None else iter(DataLoader(stage))


Stage.served = _served


def _dataset(stage: Any) -> Optional[SamplingGraph]:
    """The graph of a pipeline that lies in a dataset; None if all are in tensors."""
    while isinstance(stage, Stage):
        graph = getattr(stage, "graph", None) if "graph" in stage.__dict__ else None
        if isinstance(graph, SamplingGraph) and graph.on_disk:
            return graph
        stage = stage.datapipe
    return None


class DataLoader:
    """dgl.graphbolt.DataLoader: the minibatches of a pipeline.

    If khop knows all stages, it makes them with its own threads, on a server or in this process; num_workers and the
    like are accepted and have no effect. Otherwise the stages make them, in this process. by gives the choice and the
    reason.

    options are further ones of khop.Loader: one decides where the argument of a stage that means the same keeps its
    default; where both are given and differ, the loader is refused. Iterations may run at the same time. close() ends
    the server, as does the end of the loader object, or of "with".
    """

    def __init__(
        self, datapipe: Any, num_workers: int = 0, *, options: Optional[Mapping[str, Any]] = None, **kwargs: Any,
    ) -> None:
        ignored = (
            "persistent_workers", "max_uva_threads", "overlap_feature_fetch", "overlap_graph_fetch", "asynchronous")
        known = [*inspect.signature(DataLoader).parameters, *ignored]
        unknown_names.check("khop.graphbolt.DataLoader", kwargs, known, SECTION)
        self.dataset = datapipe
        self._served: Optional[Served] = None
        try:
            if not isinstance(datapipe, Stage):
                raise NotByKhop(f"it is {type(datapipe).__name__}")
            self._served = Served(datapipe.plan(), options)
            self.by = "khop"
            """Who makes the minibatches: "khop", or "the stages" and why."""
        except NotByKhop as e:
            graph = _dataset(datapipe)
            if options or graph is not None and not isinstance(graph, FusedCSCSamplingGraph):
                raise TypeError(f'{e} (khop docs migrating, "{SECTION}")') from None
            self.by = f"the stages: {e}"
            _log.info("minibatches are made by %s", self.by)

    def _by_khop(self, what: str) -> Served:
        if self._served is None:
            raise TypeError(f"this loader has no {what}: its minibatches are made by {self.by}")
        return self._served

    def __len__(self) -> int:
        return len(self._by_khop("len()"))

    def state_dict(self) -> dict[str, Any]:
        """Returns the place after the last minibatch, for load_state_dict: plain data for JSON."""
        return self._by_khop("state_dict()").state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration continue after the minibatch of this state. StateError if it is of other data or of
        other options."""
        self._by_khop("load_state_dict()").load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next iteration runs. Without it epochs follow one another."""
        self._by_khop("set_epoch()").set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._served) if self._served is not None else self.dataset.made()

    def close(self) -> None:
        """Ends the server."""
        if self._served is not None:
            self._served.close()

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


MultiProcessDataLoader = SingleProcessDataLoader = DataLoader
