"""Datasets: folders of GraphBolt as they are, and datasets of khop."""

from __future__ import annotations

import os
import warnings
from typing import Any, Optional, Sequence

import torch

from .._loader.loader import on_host
from .._peers.graph_source import Source, is_graphbolt
from .base import require
from .features import TorchBasedFeatureStore, read_file
from .folder import FolderGraph
from .graph import FusedCSCSamplingGraph, SamplingGraph
from .items import HeteroItemSet, ItemSet, ItemSetDict, Split
from .metadata import SETS, Metadata, OnDiskTaskData, read_yaml
from .pipes import checked
from .preprocessed import read_graph


class Dataset:
    """dgl.graphbolt.Dataset: the interface of a dataset that you write."""

    @property
    def tasks(self) -> Any:
        """The tasks."""
        raise NotImplementedError

    @property
    def graph(self) -> Any:
        """The graph."""
        raise NotImplementedError

    @property
    def feature(self) -> Any:
        """The features."""
        raise NotImplementedError

    @property
    def dataset_name(self) -> Any:
        """The dataset's name."""
        raise NotImplementedError

    @property
    def all_nodes_set(self) -> Any:
        """All nodes."""
        raise NotImplementedError


class OnDiskTask:
    """dgl.graphbolt.OnDiskTask: the properties of a task, and its item sets."""

    def __init__(self, metadata: Any, train_set: Any, validation_set: Any, test_set: Any) -> None:
        self.metadata, self.train_set = metadata, train_set
        self.validation_set, self.test_set = validation_set, test_set

    def __repr__(self) -> str:
        room = " " * len("OnDiskTask(")
        fields = ("validation_set", "train_set", "test_set", "metadata")
        text = "".join(f"{n}={getattr(self, n)},\n" for n in fields).replace("\n", "\n" + room).strip()
        return f"OnDiskTask({text})"


class DatasetFeatures:
    """The columns of a dataset of khop. They come with batches; read() copies them."""

    def __init__(self, graph: SamplingGraph) -> None:
        self.graph = graph

    def column(self, domain: str, type_name: Optional[str], feature_name: str) -> str:
        """Returns the column that has a feature."""
        return self.graph.source.column(feature_name, domain == "edge")

    def size(self, domain: str, type_name: Optional[str], feature_name: str) -> Any:
        """Returns the shape of a row."""
        name, about = self.column(domain, type_name, feature_name), self.graph.source.about
        if domain == "edge":
            self.graph.source.edge_type(type_name)
            columns = about["edge_columns"]
        else:
            of = self.graph.source.node_type(type_name)
            columns = next(t["columns"] for t in about["node_types"] if t["name"] == of)
        found = [c["shape"] for c in columns if c["name"] == name]
        if not found:
            raise KeyError(f"no column {feature_name!r} of {type_name!r}; there are: "
                           f"{', '.join(c['name'] for c in columns) or 'none'}")
        return torch.Size(found[0] or [1])

    def keys(self) -> list[Any]:
        """Returns the keys of all features."""
        types = self.graph.source.about["node_types"]
        return [("node", None if self.graph.plain else t["name"], c["name"]) for t in types for c in t["columns"]]

    def read(self, domain: str, type_name: Optional[str], feature_name: str, ids: Any = None) -> Any:
        """Returns a copy of all rows, or of those of ids, of a column of nodes."""
        if domain != "node":
            raise TypeError('features of a dataset\'s edges come with the batches: fetch_feature(edge_feature_keys=..)')
        source = self.graph.source
        of = source.node_type(type_name)
        ids = torch.arange(source.counts[of]) if ids is None else torch.as_tensor(ids).long()
        column = self.column(domain, type_name, feature_name)
        with on_host(source.path, [0], seeds={of: ids}, batch_size=1 << 16, node_columns=[column],
                     seed_columns=[], framework="torch", rank=0, world_size=1) as loader:
            rows = torch.cat([b[of][column][b[of].seeds] for b in loader])
        return rows[:, None] if rows.dim() == 1 else rows


class FolderFeatures(TorchBasedFeatureStore):
    """The features of a folder of GraphBolt. They come with batches if khop samples in the folder's graph."""

    def __init__(self, meta: Metadata, graph: Any) -> None:
        super().__init__(meta.features)
        self.graph = graph if isinstance(graph, FolderGraph) and graph.has_features else None

    def column(self, domain: str, type_name: Optional[str], feature_name: str) -> str:
        """Returns the column of the folder's dataset that has a feature."""
        self[domain, type_name, feature_name]  # or KeyError
        assert self.graph is not None
        return self.graph.columns[domain, type_name, feature_name]


class OnDiskDataset(Dataset):
    """dgl.graphbolt.OnDiskDataset: opens a folder of GraphBolt as it is, or a dataset of khop.

    The first loader that samples in a folder writes a dataset of khop, which stays in the subfolder "khop.graphbolt" if
    that can be written. With auto_cast_to_optimal_dtype, ids of nodes and places of edges have 32 bits if they fit.
    """

    def __init__(
        self, path: Any, include_original_edge_id: bool = False, force_preprocess: Optional[bool] = None,
        auto_cast_to_optimal_dtype: bool = True, **unknown: Any,
    ) -> None:
        checked(OnDiskDataset, unknown)
        self._path, self._include, self._cast = os.path.abspath(os.fsdecode(path)), include_original_edge_id, (
            auto_cast_to_optimal_dtype)
        self._force, self._loaded = bool(force_preprocess), False
        if not os.path.exists(self._path):
            raise RuntimeError(f"Invalid dataset path: {path}")
        if not os.path.isdir(self._path):
            raise RuntimeError(f"The dataset must be a directory. But got {path}")
        self._yaml: Any = None
        if is_graphbolt(self._path):
            self._yaml = read_yaml(self._metadata_path())
        elif not os.path.exists(os.path.join(self._path, "dataset.json")):
            raise RuntimeError("metadata.yaml does not exist.")
        elif include_original_edge_id:
            raise TypeError("include_original_edge_id: a dataset of khop has the numbers that its edges had where it "
                            'was written with a column "edge_id", and then they are in minibatches anyhow')

    def _metadata_path(self) -> str:
        """The folder's own metadata.yaml, or that of its preprocessed part where the files of the graph are gone."""
        own, preprocessed = (os.path.join(self._path, *p, "metadata.yaml") for p in ((), ("preprocessed",)))
        if os.path.exists(own):
            edges = (read_yaml(own).get("graph") or {}).get("edges") or [{}]
            if not os.path.exists(preprocessed) or all(
                    os.path.exists(os.path.join(self._path, e.get("path", ""))) for e in edges):
                return own
        return preprocessed

    @property
    def yaml_data(self) -> Any:
        """The contents of metadata.yaml. Changes before load() take effect."""
        return self._yaml

    def load(self, tasks: Any = None) -> OnDiskDataset:
        """Opens graph, features and tasks: all tasks, or those of a name or a list of names."""
        if isinstance(tasks, str):
            tasks = [tasks]
        if tasks is not None and not isinstance(tasks, (list, tuple)):
            raise TypeError(f"tasks={tasks!r}: must be a name or a list of names")
        if self._yaml is None:
            self._load_dataset(tasks)
        else:
            self._load_folder(tasks)
        self._loaded = True
        return self

    def _load_dataset(self, tasks: Optional[Sequence[str]]) -> None:
        source = Source(self._path)
        self._graph: Any = SamplingGraph(source)
        self._feature: Any = DatasetFeatures(self._graph)
        self._name: Any = str(source.about["dataset"])
        splits = {s["name"]: s["count"] for s in source.about["splits"] if not s["index"]}
        about = {"name": "task", **({"num_classes": source.about["classes"]} if source.about.get("classes") else {})}
        sets = [Split(source, n, splits[n]) if n in splits else None for n in ("train", "val", "test")]
        self._tasks = _chosen([OnDiskTask(about, *sets)], tasks)

    def _load_folder(self, tasks: Optional[Sequence[str]]) -> None:
        meta = Metadata(self._path, self._yaml)
        self._name = meta.dataset_name
        self._graph = None
        if meta.graph is not None:
            self._graph = FolderGraph(meta, self._include, self._cast, self._force)
        elif meta.topology is not None:
            self._graph = read_graph(meta.topology)
        self._feature = FolderFeatures(meta, self._graph)
        small = self._cast and self._graph is not None and self._graph.indices_dtype == torch.int32
        self._tasks = _chosen([_task(t, small) for t in meta.tasks], tasks)

    def _opened(self) -> None:
        if not self._loaded:
            self.load()

    @property
    def graph(self) -> Any:
        """The graph, or None if the folder has no graph."""
        self._opened()
        return self._graph

    @property
    def feature(self) -> Any:
        """The features."""
        self._opened()
        return self._feature

    @property
    def tasks(self) -> list[OnDiskTask]:
        """The tasks that were loaded."""
        self._opened()
        return self._tasks

    @property
    def dataset_name(self) -> Any:
        """The dataset's name."""
        self._opened()
        return self._name

    @property
    def all_nodes_set(self) -> Any:
        """All nodes, or None without a graph."""
        self._opened()
        if self._graph is None:
            warnings.warn("`all_nodes_set` is returned as None, since graph is None.", stacklevel=2)
            return None
        counts = self._graph.num_nodes
        dtype = getattr(self._graph, "indices_dtype", torch.int64)

        def whole(n: int) -> ItemSet:
            return ItemSet(torch.tensor(n, dtype=dtype), names="seed_nodes")
        return whole(counts) if isinstance(counts, int) else ItemSetDict({t: whole(n) for t, n in counts.items()})


_IDS = ("seeds", "seed_nodes", "node_pairs", "negative_srcs", "negative_dsts")


def _task(said: OnDiskTaskData, small: bool) -> OnDiskTask:
    """A task with its items read; small: ids of nodes are of 32 bits."""
    def items(files: Any) -> ItemSet:
        tensors = [read_file(f, rows=False) for f in files]
        cast = tuple(t.to(torch.int32) if small and f.name in _IDS and not t.is_floating_point() else t
                     for f, t in zip(files, tensors))
        return ItemSet(cast, names=tuple(f.name for f in files))
    found: list[Any] = []
    for name in SETS:
        each = said.sets[name]
        typed = bool(each) and each[0][0] is not None
        found.append(None if not each else ItemSetDict({str(t): items(f) for t, f in each}) if typed else
                     items(each[0][1]))
    return OnDiskTask(said.extra_fields, *found)


def _chosen(tasks: list[OnDiskTask], wanted: Optional[Sequence[str]]) -> list[OnDiskTask]:
    if wanted is None:
        return tasks
    missing = set(wanted) - {t.metadata.get("name") for t in tasks}
    if missing:
        warnings.warn(f"Below tasks are not found in YAML: {missing}. Skipped.", stacklevel=4)
    return [t for t in tasks if t.metadata.get("name") in wanted]
