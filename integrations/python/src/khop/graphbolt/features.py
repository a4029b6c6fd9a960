"""Features: rows of tensors, and stores of them by domain, type and name."""

from __future__ import annotations

import pickle
import textwrap
from typing import Any, Mapping, Optional, Sequence

import numpy as np
import torch

from .base import index_select, moved, require
from .cache import CPUFeatureCache


class Feature:
    """dgl.graphbolt.Feature: the interface of a feature that you write."""

    def read(self, ids: Any = None) -> Any:
        """Returns all rows, or those of ids."""
        raise NotImplementedError

    def size(self) -> Any:
        """Returns the shape of a row."""
        raise NotImplementedError

    def update(self, value: Any, ids: Any = None) -> None:
        """Changes all rows, or those of ids."""
        raise NotImplementedError

    def metadata(self) -> dict[str, Any]:
        """Returns further properties of the feature."""
        return {}


class TorchBasedFeature(Feature):
    """dgl.graphbolt.TorchBasedFeature: rows of a tensor in memory, or of one that is mapped from a file."""

    def __init__(self, torch_feature: Any, metadata: Optional[Mapping[str, Any]] = None) -> None:
        require(isinstance(torch_feature, torch.Tensor), "torch_feature in TorchBasedFeature must be torch.Tensor, but "
                f"got {type(torch_feature)}.")
        require(torch_feature.dim() > 1, "dimension of torch_feature in TorchBasedFeature must be greater than 1, but "
                f"got {torch_feature.dim()} dimension.")
        self._tensor, self._metadata = torch_feature.contiguous(), dict(metadata or {})

    def read(self, ids: Any = None) -> Any:
        """Returns all rows, or those of ids."""
        return self._tensor if ids is None else index_select(self._tensor, ids)

    def update(self, value: Any, ids: Any = None) -> None:
        """Changes rows of the tensor itself, or replaces it by one whose rows have the same shape."""
        require(value.shape[1:] == self.size(), f"The size of the feature is {self.size()}, while the size of the "
                f"value is {value.shape[1:]}.")
        if ids is None:
            self._tensor = value
            return
        require(len(ids) == len(value),
                f"ids and value must have the same length, but got {len(ids)} and {len(value)}.")
        self._tensor[ids] = value

    def size(self) -> Any:
        """Returns the shape of a row."""
        return self._tensor.shape[1:]

    def metadata(self) -> dict[str, Any]:
        """Returns the given properties."""
        return self._metadata

    def to(self, device: Any) -> TorchBasedFeature:
        """The feature on a device, or in pinned memory ("pinned")."""
        return TorchBasedFeature(moved(self._tensor, device), self._metadata)

    def pin_memory_(self) -> TorchBasedFeature:
        """Moves the feature to pinned memory."""
        self._tensor = self._tensor.pin_memory()
        return self

    def is_pinned(self) -> bool:
        """Whether it is in pinned memory."""
        return bool(self._tensor.is_pinned())

    def __repr__(self) -> str:
        feature, about = (textwrap.indent(str(v), " " * n).strip() for v, n in ((self._tensor, 12),
                                                                                (self._metadata, 13)))
        return f"{type(self).__name__}(\n    feature={feature},\n    metadata={about},\n)"


class CPUCachedFeature(Feature):
    """dgl.graphbolt.CPUCachedFeature: the rows of a slower feature that were read last, in memory.

    Where the rows are those of a dataset, khop keeps hot rows itself: see docs/memory.md.
    """

    def __init__(self, fallback_feature: Feature, max_cache_size_in_bytes: int, policy: Optional[str] = None,
                 pin_memory: bool = False) -> None:
        require(isinstance(fallback_feature, Feature),
                f"The fallback_feature must be an instance of Feature, but got {type(fallback_feature)}.")
        row = fallback_feature.read(torch.tensor([0]))
        rows = max(max_cache_size_in_bytes // max(row[0].numel() * row.element_size(), 1), 1)
        self._fallback_feature = fallback_feature
        self._feature = CPUFeatureCache((rows, *row.shape[1:]), row.dtype, policy=policy, pin_memory=pin_memory)

    def read(self, ids: Any = None) -> Any:
        """Returns all rows, or those of ids. Rows that are not in memory are read, and stay there."""
        if ids is None:
            return self._fallback_feature.read()
        values, at, missing, *_ = self._feature.query(ids)
        rows = self._fallback_feature.read(missing)
        values[at] = rows
        self._feature.replace(missing, rows)
        return values

    def size(self) -> Any:
        """Returns the shape of a row."""
        return self._fallback_feature.size()

    def update(self, value: Any, ids: Any = None) -> None:
        """Changes rows of the slower feature, and clears the cache."""
        self._fallback_feature.update(value, ids)
        self._feature.clear()

    def metadata(self) -> dict[str, Any]:
        """Returns the properties of the slower feature."""
        return self._fallback_feature.metadata()

    @property
    def miss_rate(self) -> float:
        """The share of rows that were not in memory."""
        return self._feature.miss_rate


class BasicFeatureStore:
    """dgl.graphbolt.BasicFeatureStore: features by (domain, type, name)."""

    def __init__(self, features: Mapping[Any, Any]) -> None:
        self._features = dict(features)

    def __getitem__(self, key: Any) -> Any:
        if key not in self._features:
            raise KeyError(f"no feature {key}; there are: {', '.join(map(str, self._features)) or 'none'}")
        return self._features[key]

    def __setitem__(self, key: Any, feature: Any) -> None:
        self._features[key] = feature

    def __contains__(self, key: Any) -> bool:
        return key in self._features

    def read(self, domain: str, type_name: Optional[str], feature_name: str, ids: Any = None) -> Any:
        """Returns all rows of a feature, or those of ids."""
        return self[domain, type_name, feature_name].read(ids)

    def size(self, domain: str, type_name: Optional[str], feature_name: str) -> Any:
        """Returns the shape of a row."""
        return self[domain, type_name, feature_name].size()

    def metadata(self, domain: str, type_name: Optional[str], feature_name: str) -> Any:
        """Returns further properties of a feature."""
        return self[domain, type_name, feature_name].metadata()

    def update(self, domain: str, type_name: Optional[str], feature_name: str, value: Any, ids: Any = None) -> None:
        """Changes rows of a feature."""
        self[domain, type_name, feature_name].update(value, ids)

    def keys(self) -> list[Any]:
        """Returns the keys of all features."""
        return list(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def to(self, device: Any) -> Any:
        """The store with all features on a device."""
        return BasicFeatureStore({k: f.to(device) for k, f in self._features.items()})

    def pin_memory_(self) -> Any:
        """Moves all features to pinned memory."""
        for feature in self._features.values():
            feature.pin_memory_()
        return self

    def is_pinned(self) -> bool:
        """Whether all features are in pinned memory."""
        return all(f.is_pinned() for f in self._features.values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    {textwrap.indent(str(self._features), '    ').strip()}\n)"


class TorchBasedFeatureStore(BasicFeatureStore):
    """dgl.graphbolt.TorchBasedFeatureStore: features of files. NumPy files without in_memory are mapped."""

    def __init__(self, feat_data: Sequence[Any]) -> None:
        super().__init__({(f.domain, f.type, f.name): TorchBasedFeature(read_file(f), f.extra_fields)
                          for f in feat_data})


def read_file(spec: Any, rows: bool = True) -> Any:
    """Reads the tensor of a file that a metadata.yaml names. With rows, one dimension becomes a column."""
    if spec.format == "torch":  # which is read whole, also where in_memory is false
        try:
            tensor = torch.load(spec.path, map_location="cpu", **_SAFE)
        except pickle.UnpicklingError:
            require(spec.in_memory or not rows, "Pytorch tensor can only be loaded in memory, and "
                    f"{spec.path} has in_memory: false")
            raise
        require(isinstance(tensor, torch.Tensor), f"{spec.path}: must be a tensor")
    elif spec.format == "numpy":
        array = np.load(spec.path, mmap_mode=None if spec.in_memory else "r+", allow_pickle=False)
        tensor = torch.as_tensor(array)
    else:
        raise ValueError(f"{spec.path}: the format {spec.format!r} must be torch or numpy")
    return tensor[:, None] if rows and tensor.dim() == 1 else tensor


_SAFE: dict[str, Any] = {"weights_only": True}
"""A file of tensors may come from anywhere: torch unpickles nothing else."""
