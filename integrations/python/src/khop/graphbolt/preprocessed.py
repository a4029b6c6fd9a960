"""Reads the graph that GraphBolt wrote to preprocessed/, without GraphBolt."""

from __future__ import annotations

import pickle
import zipfile
from typing import Any

import torch

from .base import require
from .graph import FIELDS, FusedCSCSamplingGraph

_DTYPES = {
    "LongStorage": torch.int64, "IntStorage": torch.int32, "ShortStorage": torch.int16, "ByteStorage": torch.uint8,
    "CharStorage": torch.int8, "BoolStorage": torch.bool, "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64, "HalfStorage": torch.float16}


def read_graph(path: str) -> FusedCSCSamplingGraph:
    """Reads the graph in a file of torch.save. The file may be untrusted: reading makes only tensors."""
    with zipfile.ZipFile(path) as archive:
        name = next((n for n in archive.namelist() if n.endswith("/data.pkl")), None)
        require(name is not None, f"{path}: must be a file of torch.save, as GraphBolt writes it")
        assert name is not None
        with archive.open(name) as file:
            value = _Reader(file, archive, name[:-len("data.pkl")]).load()
    state = value.state if isinstance(value, _Object) else None
    if isinstance(state, dict) and "csc_indptr" in state:  # a graph of khop.graphbolt that torch.save has written
        return _checked(path, state)
    inner: Any = state.get("_c_csc_graph") if isinstance(state, dict) else None
    while isinstance(inner, _Object):
        inner = inner.state
    inner = inner[0] if isinstance(inner, tuple) and inner else inner
    require(isinstance(inner, dict) and "independent_tensors" in inner, f"{path}: has no tensors of a sampling graph")
    tensors, parts = inner["independent_tensors"], inner
    fields: dict[str, Any] = {"csc_indptr": tensors.get("indptr", tensors.get("csc_indptr")),
                              "indices": tensors.get("indices"), "node_type_offset": tensors.get("node_type_offset"),
                              "type_per_edge": tensors.get("type_per_edge")}
    for names in ("node_type_to_id", "edge_type_to_id"):
        if parts.get(names):
            fields[names] = {str(n): int(i) for n, i in parts[names].items()}
    for attributes in ("node_attributes", "edge_attributes"):
        if parts.get(attributes):
            fields[attributes] = {str(n): v for n, v in parts[attributes].items()}
    return _checked(path, fields)


def _checked(path: str, fields: dict[str, Any]) -> FusedCSCSamplingGraph:
    """A graph whose edges lie within it."""
    for field in ("csc_indptr", "indices"):
        require(isinstance(fields[field], torch.Tensor) and fields[field].dim() == 1, f"{path}: has no {field}")
    indptr, count = fields["csc_indptr"].long(), len(fields["csc_indptr"]) - 1
    require(count >= 0 and indptr[0] == 0 and bool((indptr.diff() >= 0).all()) and indptr[-1] == len(fields["indices"]),
            f"{path}: its csc_indptr does not ascend from 0 to the number of edges")
    ids = fields["indices"]
    require(not len(ids) or 0 <= int(ids.min()) and int(ids.max()) < count,
            f"{path}: the source of an edge is not a node")
    return FusedCSCSamplingGraph(**{f: fields.get(f) for f in FIELDS})


class _Object:
    """Whatever the file makes: what it is made of is kept, and nothing is called."""

    state: Any = None

    def __init__(self, *_: Any) -> None:
        """Takes whatever it would be made of."""

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Reader(pickle.Unpickler):
    def __init__(self, file: Any, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(file)
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        return _Object

    def persistent_load(self, pid: Any) -> Any:
        _, dtype, key, _, count = pid
        require(isinstance(dtype, torch.dtype) and str(key).isdigit(), "a tensor of a type that graphs do not have")
        data = self._archive.read(f"{self._folder}data/{key}")
        storage = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
        require(len(storage) == int(count), "a tensor is cut short")
        return storage


def _tensor(storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> Any:
    """A tensor that lies within its storage."""
    last = offset + sum((n - 1) * s for n, s in zip(size, stride)) if 0 not in tuple(size) else offset - 1
    require(offset >= 0 and all(s >= 0 for s in stride) and last < len(storage), "a tensor is outside its file")
    return torch.as_strided(storage, tuple(size), tuple(stride), offset)


