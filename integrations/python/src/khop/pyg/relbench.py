"""RelBench's loader for recommendation, with khop's sampling: its signature, and its three batches a step."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import torch
from relbench.modeling import loader as of_relbench
from torch.utils.data import DataLoader
from torch_geometric.sampler import NodeSamplerInput

from ..relational import tables_of
from ..torch import random_seed
from .neighbor import NeighborLoader


class LinkNeighborLoader(of_relbench.LinkNeighborLoader):  # type: ignore[misc]
    """relbench.modeling.loader.LinkNeighborLoader, see there. data is that of khop.relational.graph, or in memory.

    Each step asks khop for three batches, one of the sources, one of their destinations and one of drawn negatives, as
    RelBench does. khop.Loader samples them at once (docs/database.md).
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
        tables = tables_of(data)
        if tables is not None and src_time is not None:
            tables.check_times("src_time", src_time)
        how = dict(disjoint=True, subgraph_type=subgraph_type, temporal_strategy=temporal_strategy,
                   time_attr=time_attr, batch_size=batch_size, seed=random_seed(seed), options=options)
        self._asked = {of: NeighborLoader(data, num_neighbors, of, **how)
                       for of in {self.src_node_type, self.dst_node_type}}
        if share_same_time:
            kwargs["batch_sampler"] = of_relbench.TimestampSampler(src_time, batch_size)
        else:
            kwargs["batch_size"] = batch_size
        DataLoader.__init__(
            self, of_relbench.CustomLinkDataset(src_nodes[1], dst_nodes[1], num_dst_nodes, src_time),
            collate_fn=self.collate_fn, **kwargs)

    def collate_fn(self, index: Any) -> tuple[Any, Any, Any]:
        """The batches of some rows: of their sources, of a destination each, and of negatives."""
        sources, positives, times = torch.stack(index).t().contiguous()
        negatives = torch.randint(0, self.num_dst_nodes, (len(sources),))
        return (self._answer(self.src_node_type, sources, times), self._answer(self.dst_node_type, positives, times),
                self._answer(self.dst_node_type, negatives, times))

    def _answer(self, of: str, nodes: Any, times: Any) -> Any:
        self._calls = (self._calls + 1) % (1 << 32)
        return self._asked[of].answer(NodeSamplerInput(nodes, nodes, times, of), self._calls)

    def close(self) -> None:
        """Ends the samplers."""
        for asked in self._asked.values():
            asked.close()
