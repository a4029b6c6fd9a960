"""Graphs, features and datasets for pipelines of khop.graphbolt."""

from __future__ import annotations

import inspect
from typing import Any, Mapping, Optional, Sequence

import torch

from .. import names
from ..loader import on_host
from ..sources import Source
from .items import SECTION, HeteroItemSet, ItemSet, Split


class SamplingGraph:
    """A graph to sample in. graph is the path of a dataset, a graph of DGL, or what khop.write takes."""

    def __init__(self, graph: Any, edge_columns: Sequence[str] = ()) -> None:
        self.source = graph if isinstance(graph, Source) else Source(graph, edge_columns)

    @property
    def num_nodes(self) -> Any:
        """Nodes, by type where there are several."""
        return self.total_num_nodes if self.source.plain else dict(self.source.counts)

    @property
    def num_edges(self) -> Any:
        return self.total_num_edges if self.source.plain else {
            ":".join(e): t["count"] for e, t in zip(self.source.edge_types, self.source.about["edge_types"])}

    @property
    def total_num_nodes(self) -> int:
        return sum(self.source.counts.values())

    @property
    def total_num_edges(self) -> int:
        return int(self.source.about["edges"])

    def __repr__(self) -> str:
        return f"SamplingGraph({self.source.path!r}, {self.total_num_nodes:,} nodes, {self.total_num_edges:,} edges)"


def fused_csc_sampling_graph(
    csc_indptr: Any, indices: Any, node_type_offset: Any = None, type_per_edge: Any = None, node_type_to_id: Any = None,
    edge_type_to_id: Any = None, node_attributes: Any = None, edge_attributes: Any = None,
) -> SamplingGraph:
    """dgl.graphbolt.fused_csc_sampling_graph of arrays: khop writes a temporary dataset of them."""
    target = torch.repeat_interleave(torch.arange(len(csc_indptr) - 1), torch.as_tensor(csc_indptr).diff())
    source = torch.as_tensor(indices).long()
    columns = {name: torch.as_tensor(value) for name, value in (edge_attributes or {}).items()}
    number = torch.arange(len(source))
    if node_type_offset is None:
        part = {"src": source, "dst": target, "edge_id": number, **columns}
        return SamplingGraph({"node": {"num_nodes": len(csc_indptr) - 1}, ("node", "to", "node"): part})
    if type_per_edge is None or node_type_to_id is None or edge_type_to_id is None:
        raise TypeError("fused_csc_sampling_graph: node_type_offset comes with type_per_edge, node_type_to_id and "
                        "edge_type_to_id")
    first = {t: int(node_type_offset[i]) for t, i in node_type_to_id.items()}
    parts: dict[Any, Any] = {
        t: {"num_nodes": int(node_type_offset[i + 1]) - first[t]} for t, i in node_type_to_id.items()}
    for e, i in edge_type_to_id.items():
        triple = tuple(e.split(":"))
        of = torch.as_tensor(type_per_edge) == i
        ends = {"src": source[of] - first[triple[0]], "dst": target[of] - first[triple[2]]}
        parts[triple] = {**ends, "edge_id": number[of], **{name: value[of] for name, value in columns.items()}}
    return SamplingGraph(parts)


def from_dglgraph(g: Any, is_homogeneous: bool = False, include_original_edge_id: bool = False) -> SamplingGraph:
    """dgl.graphbolt.from_dglgraph."""
    return SamplingGraph(g, list(dict.fromkeys(name for e in g.canonical_etypes for name in g.edges[e].data)))


class TorchBasedFeature:
    """dgl.graphbolt.TorchBasedFeature: rows of a tensor in memory."""

    def __init__(self, torch_feature: Any, metadata: Optional[Mapping[str, Any]] = None) -> None:
        self._tensor, self._metadata = torch_feature, dict(metadata or {})

    def read(self, ids: Any = None) -> Any:
        return self._tensor if ids is None else self._tensor[ids]

    def update(self, value: Any, ids: Any = None) -> None:
        """Changes rows of the tensor itself, or takes another of its shape."""
        if ids is not None:
            self._tensor[ids] = value
        elif value.shape[1:] != self._tensor.shape[1:]:
            raise ValueError(f"value: rows of {tuple(value.shape[1:])}: must be {tuple(self._tensor.shape[1:])}")
        else:
            self._tensor = value

    def size(self) -> Any:
        return self._tensor.shape[1:]

    def metadata(self) -> dict[str, Any]:
        return self._metadata


class BasicFeatureStore:
    """dgl.graphbolt.BasicFeatureStore: features by (domain, type, name)."""

    def __init__(self, features: Mapping[Any, Any]) -> None:
        self._features = dict(features)

    def read(self, domain: str, type_name: Optional[str], feature_name: str, ids: Any = None) -> Any:
        return self._find(domain, type_name, feature_name).read(ids)

    def size(self, domain: str, type_name: Optional[str], feature_name: str) -> Any:
        return self._find(domain, type_name, feature_name).size()

    def keys(self) -> list[Any]:
        return list(self._features)

    def _find(self, *key: Any) -> Any:
        if key not in self._features:
            raise KeyError(f"no feature {key}; there are: {', '.join(map(str, self._features)) or 'none'}")
        return self._features[key]


class DatasetFeatures:
    """The columns of a dataset: they come with the batches, and are not read otherwise but for their size."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def size(self, domain: str, type_name: Optional[str], feature_name: str) -> Any:
        of_edges = domain == "edge"
        name = self.source.column(feature_name, of_edges)
        about = self.source.about
        lists = [about["edge_columns"]] if of_edges else [t["columns"] for t in about["node_types"]]
        return torch.Size(next(c["shape"] for columns in lists for c in columns if c["name"] == name))

    def keys(self) -> list[Any]:
        return [("node", t["name"], c["name"]) for t in self.source.about["node_types"] for c in t["columns"]]

    def read(self, domain: str, type_name: Optional[str], feature_name: str, ids: Any = None) -> Any:
        """All rows, or those of ids, of a column of nodes: copied."""
        if domain != "node":
            raise TypeError('features of a dataset\'s edges come with the batches: fetch_feature(edge_feature_keys=..)')
        of = self.source.node_type(type_name)
        ids = torch.arange(self.source.counts[of]) if ids is None else torch.as_tensor(ids)
        column = self.source.column(feature_name)
        with on_host(self.source.path, [0], seeds={of: ids}, batch_size=1 << 16, node_columns=[column],
                     seed_columns=[], framework="torch", rank=0, world_size=1) as loader:
            return torch.cat([b[of][column][b[of].seeds] for b in loader])


class Task:
    """dgl.graphbolt's task: metadata and item sets."""

    def __init__(self, source: Source) -> None:
        about = source.about
        splits = {s["name"]: s["count"] for s in about["splits"] if not s["index"]}
        self.metadata = {"name": "task", **({"num_classes": about["classes"]} if about.get("classes") else {})}
        self.train_set, self.validation_set, self.test_set = (
            Split(source, name, splits[name]) if name in splits else None for name in ("train", "val", "test"))


class OnDiskDataset:
    """dgl.graphbolt.OnDiskDataset of a folder of GraphBolt, as it is, or of a dataset of khop.

    The first use converts the folder to a dataset, which stays in its folder "khop" where one may write there. The
    first task is there.
    """

    def __init__(
        self, path: Any, include_original_edge_id: bool = False, force_preprocess: Any = None, **unknown: Any,
    ) -> None:
        names.check("OnDiskDataset", unknown, inspect.signature(OnDiskDataset).parameters, SECTION)
        self._path = path
        self._source: Optional[Source] = None

    def load(self, tasks: Any = None) -> OnDiskDataset:
        self._source = Source(self._path)
        return self

    @property
    def source(self) -> Source:
        if self._source is None:
            self.load()
        assert self._source is not None
        return self._source

    @property
    def graph(self) -> SamplingGraph:
        return SamplingGraph(self.source)

    @property
    def feature(self) -> DatasetFeatures:
        return DatasetFeatures(self.source)

    @property
    def tasks(self) -> list[Task]:
        return [Task(self.source)]

    @property
    def all_nodes_set(self) -> Any:
        counts = self.source.counts
        sets = {t: ItemSet(n, names="seeds") for t, n in counts.items()}
        return next(iter(sets.values())) if len(sets) == 1 else HeteroItemSet(sets)

    @property
    def dataset_name(self) -> str:
        return str(self.source.about["dataset"])
