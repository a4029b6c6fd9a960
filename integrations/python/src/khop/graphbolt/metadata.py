"""The contents of GraphBolt's metadata.yaml."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from .base import require


@dataclass
class OnDiskFile:
    """A file and its format. path is absolute."""

    format: str
    path: str
    name: Optional[str] = None
    in_memory: bool = True

    def __post_init__(self) -> None:
        require(self.format in ("numpy", "torch"), f"{self.path}: the format {self.format!r} must be numpy or torch")
        self.in_memory = self.in_memory is not False


@dataclass
class OnDiskFeatureData:
    """dgl.graphbolt.OnDiskFeatureData: a feature, its file, and its other properties."""

    domain: str
    name: str
    format: str
    path: str
    type: Optional[str] = None
    in_memory: bool = True
    extra_fields: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.domain in ("node", "edge", "graph"), f"{self.name}: the domain {self.domain!r} must be node, edge "
                "or graph")
        require(self.format in ("numpy", "torch"), f"{self.path}: the format {self.format!r} must be numpy or torch")
        self.in_memory = self.in_memory is not False


@dataclass
class OnDiskTaskData:
    """A task: its properties, and the files of its sets by type."""

    extra_fields: dict[str, Any]
    sets: dict[str, list[tuple[Optional[str], list[OnDiskFile]]]]


SETS = ("train_set", "validation_set", "test_set")


class Metadata:
    """A metadata.yaml, whose paths are within folder or absolute."""

    def __init__(self, folder: str, said: Mapping[str, Any]) -> None:
        self.folder, self.said = folder, said
        self.dataset_name: Optional[str] = said.get("dataset_name")
        self.graph: Optional[Mapping[str, Any]] = said.get("graph")
        self.features = [self.feature(f) for f in said.get("feature_data") or ()]
        self.attributes = [self.feature(f) for f in (self.graph or {}).get("feature_data") or ()]
        self.tasks = [self._task(t) for t in said.get("tasks") or ()]
        topology = said.get("graph_topology")
        self.topology: Optional[str] = None
        if topology:
            require(topology.get("type") == "FusedCSCSamplingGraph",
                    f"graph_topology: the type {topology.get('type')!r} must be 'FusedCSCSamplingGraph'")
            self.topology = self.path(topology["path"])

    def path(self, name: str) -> str:
        """Returns the path of a file."""
        return os.path.join(self.folder, name)

    def feature(self, said: Mapping[str, Any]) -> OnDiskFeatureData:
        """Returns a feature. Keys that are not fields are its extra_fields."""
        known = {k: said[k] for k in ("domain", "name", "format", "type", "in_memory") if k in said}
        extra = {k: v for k, v in said.items() if k not in known and k != "path"}
        return OnDiskFeatureData(**known, path=self.path(said["path"]), extra_fields=extra)

    def _task(self, said: Mapping[str, Any]) -> OnDiskTaskData:
        sets = {}
        for name in SETS:
            each = [(s.get("type"), [OnDiskFile(
                d.get("format"), self.path(d["path"]), d.get("name"), d.get("in_memory", True)) for d in s["data"]])
                for s in said.get(name) or ()]
            require(len(each) < 2 or all(t is not None for t, _ in each),
                    "Only one TVT set is allowed if type is not specified.")
            sets[name] = each
        return OnDiskTaskData({k: v for k, v in said.items() if k not in SETS}, sets)


def read_yaml(path: str) -> dict[str, Any]:
    """Reads a file of YAML."""
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        raise ImportError("folders of GraphBolt are described in YAML: pip install pyyaml, or convert the folder (khop "
                          "convert FOLDER DATASET) and open the dataset") from None
    with open(path) as file:
        said = yaml.safe_load(file)
    if not isinstance(said, dict):
        raise ValueError(f"{path}: must be a mapping, as GraphBolt writes it")
    return said
