"""RelBench's loader for recommendation with khop's sampling: its signature, and its three batches per step."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Iterator, Mapping, Optional

import torch
from relbench.modeling import loader as of_relbench
from torch.utils.data import DataLoader
from torch_geometric.sampler import NodeSamplerInput

from .._batch.batch import Batch
from .._peers.arguments import epochs
from ..relational import tables_of
from .neighbor import NeighborLoader

_AHEAD = 2  # steps that are asked for before they are wanted
_THREADS = 3


class LinkNeighborLoader(of_relbench.LinkNeighborLoader):  # type: ignore[misc]
    """relbench.modeling.loader.LinkNeighborLoader. data is that of khop.relational.graph, or in memory.

    Each step takes three batches, one of the sources, one of their destinations and one of drawn negatives, as in
    RelBench. Threads of khop make them ahead of the loop; with num_workers torch's workers request them. khop.Loader
    samples the three at once (docs/database.md).
    """

    def __init__(
        self, data: Any, num_neighbors: Any, src_nodes: tuple[str, Any], dst_nodes: tuple[str, Any],
        num_dst_nodes: int, src_time: Any = None, share_same_time: bool = False, subgraph_type: Any = "directional",
        temporal_strategy: str = "uniform", time_attr: Optional[str] = None, *, batch_size: int = 1,
        seed: Optional[int] = None, options: Optional[Mapping[str, Any]] = None, **kwargs: Any,
    ) -> None:
        self.data, self.src_nodes, self.dst_nodes = data, src_nodes, dst_nodes
        self.num_dst_nodes, self.src_time, self.share_same_time = num_dst_nodes, src_time, share_same_time
        self.src_node_type, self.dst_node_type = src_nodes[0], dst_nodes[0]
        self._calls = 0
        decided = epochs(options, batch_size=batch_size, seed=seed)
        batch_size = decided["batch_size"]
        tables = tables_of(data)
        if tables is not None and src_time is not None:
            tables.check_times("src_time", src_time)
        how = dict(disjoint=True, subgraph_type=subgraph_type, temporal_strategy=temporal_strategy,
                   time_attr=time_attr, batch_size=batch_size, seed=decided["seed"], options=options)
        own = tables is None and src_time is not None  # then steps have the times, which nodes need not have
        some = torch.zeros(1, dtype=torch.int64)
        self._asked = {of: NeighborLoader(
            data, num_neighbors, of, some.expand(data[of].num_nodes) if own else None, **how)
            for of in {self.src_node_type, self.dst_node_type}}
        if share_same_time:
            kwargs["batch_sampler"] = of_relbench.TimestampSampler(src_time, batch_size)
        else:
            kwargs["batch_size"] = batch_size
        DataLoader.__init__(
            self, of_relbench.CustomLinkDataset(src_nodes[1], dst_nodes[1], num_dst_nodes, src_time),
            collate_fn=self.collate_fn, **kwargs)

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers or self.pin_memory:
            loading: Iterator[Any] = super().__iter__()
            return loading
        return self._steps()

    def _steps(self) -> Iterator[Any]:
        """The steps of an epoch. Some are asked for ahead, in other threads."""
        waiting: deque[list[tuple[Any, Future[Batch]]]] = deque()
        with ThreadPoolExecutor(_THREADS, "khop-links") as threads:
            try:
                for rows in self._index_sampler:
                    waiting.append([(inputs, threads.submit(self._asked[inputs.input_type].ask, inputs, key))
                                    for inputs, key in self._three(*self._drawn(rows))])
                    if len(waiting) > _AHEAD:
                        yield self._made(waiting.popleft())
                while waiting:
                    yield self._made(waiting.popleft())
            finally:
                for step in waiting:
                    for _, asked in step:
                        asked.cancel()

    def _made(self, step: list[tuple[Any, Future[Batch]]]) -> tuple[Any, ...]:
        return tuple(
            self._asked[inputs.input_type].made(asked.result(), inputs.input_type, inputs.input_id, inputs.time)
            for inputs, asked in step)

    def _drawn(self, rows: Any) -> Any:
        """The sources of some rows, a destination of each, and the times, as in the dataset, row by row."""
        liked = self.dst_nodes[1]
        if liked.layout != torch.sparse_csr:
            return torch.stack([self.dataset[row] for row in rows]).t().contiguous()
        rows, ends = torch.as_tensor(rows), liked.crow_indices()
        first, count = ends[rows], ends[rows + 1] - ends[rows]
        if not count.all():
            raise ValueError(f"dst_nodes: row {int(rows[count == 0][0])} has no destination: leave it out")
        place = first + (torch.rand(len(rows), dtype=torch.float64) * count).long()
        return self.src_nodes[1][rows], liked.col_indices()[place], self.src_time[rows]

    def _three(self, sources: Any, positives: Any, times: Any) -> list[tuple[Any, int]]:
        """What a step asks for: seeds, and the keys of their draws."""
        negatives = torch.randint(0, self.num_dst_nodes, (len(sources),))
        three = []
        for of, nodes in ((self.src_node_type, sources), (self.dst_node_type, positives),
                          (self.dst_node_type, negatives)):
            self._calls = (self._calls + 1) % (1 << 32)
            three.append((NodeSamplerInput(nodes, nodes, times, of), self._calls))
        return three

    def collate_fn(self, index: Any) -> tuple[Any, ...]:
        """Returns the batches of some rows: of their sources, of one destination for each, and of negatives."""
        three = self._three(*torch.stack(index).t().contiguous())
        return tuple(self._asked[inputs.input_type].answer(inputs, key) for inputs, key in three)

    def close(self) -> None:
        """Ends the samplers."""
        for asked in self._asked.values():
            asked.close()
