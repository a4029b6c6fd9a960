"""HGTLoader: the requested number of nodes of each type and hop, and all edges between them."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional

from torch_geometric.data import Data

from .._peers.arguments import combined, epochs
from .neighbor import KhopSampler, NeighborLoader
from .served import without_workers
from .structure import structure_of


class HGTLoader(NeighborLoader):
    """torch_geometric.loader.HGTLoader; docs/migrating.md lists what differs. Otherwise as NeighborLoader."""

    def __init__(
        self, data: Any, num_samples: Any, input_nodes: Any, is_sorted: bool = False,
        transform: Optional[Callable[..., Any]] = None, transform_sampler_output: Optional[Callable[..., Any]] = None,
        filter_per_worker: Optional[bool] = None, *, batch_size: int = 1, shuffle: bool = False,
        drop_last: bool = False, seed: Optional[int] = None, options: Optional[Mapping[str, Any]] = None, **kwargs: Any,
    ) -> None:
        if isinstance(data, (Data, tuple)):
            what = type(data).__name__
            raise NotImplementedError(f"HGTLoader: {what}: must be a HeteroData, or the path of a dataset")
        kwargs = without_workers(HGTLoader, kwargs, ("custom_cls", "input_id", "sampler"))
        self._how = epochs(options, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, seed=seed)
        sampler = _HGTSampler(data, num_samples, self._how["seed"], options)
        self._structure = sampler.structure
        self._begin(sampler, data, input_nodes, transform=transform,
                    transform_sampler_output=transform_sampler_output, **kwargs)


class _HGTSampler(KhopSampler):
    def __init__(self, data: Any, num_samples: Any, seed: int, options: Optional[Mapping[str, Any]]) -> None:
        self.structure = structure = structure_of(data)
        self._seed, self._negatives = seed, None
        if not isinstance(num_samples, Mapping):
            num_samples = dict.fromkeys(structure.node_types, num_samples)
        unknown = set(num_samples) - set(structure.node_types)
        if unknown:
            raise ValueError(f"num_samples: there is no node type {', '.join(map(repr, unknown))}; "
                             f"there are {', '.join(map(repr, structure.node_types))}")
        hops = max(map(len, num_samples.values()))
        numbers = {of: [*num_samples.get(of, []), *[0] * hops][:hops] for of in structure.node_types}
        layers = {structure.node_type(of): k for of, k in numbers.items()}
        self._options = combined({"sampler": "hgt", "layer_nodes": layers}, options, {"layer_nodes": "num_samples"})

    def output(self, batch: Any, metadata: Any, repeats: Any = None) -> Any:
        return self.structure.output(batch, metadata, repeats, counts=False)
