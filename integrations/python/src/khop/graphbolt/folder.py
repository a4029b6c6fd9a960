"""The graph of a folder of GraphBolt: as tensors for programs that read them, as a dataset of khop for loaders."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Mapping

import numpy as np
import torch

from .._native import program
from ..errors import ServerError, WriteError
from .._data.info import info
from .._native.scratch import Scratch
from .._peers.graph_source import Source
from .base import ORIGINAL_EDGE_ID, etype_str_to_tuple, require
from .features import read_file
from .graph import FIELDS, FusedCSCSamplingGraph, SamplingGraph
from .metadata import Metadata, OnDiskFeatureData

KEPT = "khop.graphbolt"
"""Where a folder's dataset lies. Others than khop.graphbolt convert the folder to names of khop's own, elsewhere."""

_NUMBER = "edge_id"
"""The column of edges that has the number of each among those of its type in the folder's file."""


class FolderGraph(FusedCSCSamplingGraph):
    """The graph of a folder. Its tensors are read at the first access."""

    on_disk = True

    def __init__(self, meta: Metadata, numbered: bool, small: bool, force: bool) -> None:
        assert meta.graph is not None
        self._meta, self._numbered, self._small, self._force = meta, numbered, small, force
        self._nodes = {n.get("type"): int(n["num"]) for n in _sorted(meta.graph["nodes"])}
        self._edges = {e.get("type"): e for e in _sorted(meta.graph["edges"])}
        require(None not in {*self._nodes, *self._edges} or len(self._nodes) == len(self._edges) == 1,
                "metadata.yaml: a graph with several types names each")
        self.columns = _columns(meta)
        """The dataset's column of each feature."""

    has_features = True

    def __getattr__(self, name: str) -> Any:
        if name not in FIELDS:
            raise AttributeError(name)
        for field, value in _fields(self._meta, self._nodes, self._edges, self._numbered, self._small).items():
            self.__dict__.setdefault(field, value)
        return self.__dict__[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIELDS:  # it is a graph of its own from now on
            self.on_disk = self.has_features = False
            self.__dict__.pop("_source", None)
        object.__setattr__(self, name, value)

    def __reduce__(self) -> Any:
        return _plain_graph, (self.__getstate__(),)

    @property
    def plain(self) -> bool:
        """Whether the graph has no types."""
        return None in self._nodes

    @property
    def edge_types(self) -> Any:
        """Edge types in the order of fan-outs."""
        return ["node:edge:node"] if self.plain else list(self._edges)

    @property
    def indices_dtype(self) -> Any:
        """The dtype of node ids."""
        return torch.int32 if self._small and sum(self._nodes.values()) < 1 << 31 else torch.int64

    @property
    def num_nodes(self) -> Any:
        """The number of nodes, by type if there are types."""
        return self._nodes[None] if self.plain else {str(t): n for t, n in self._nodes.items()}

    @property
    def total_num_nodes(self) -> int:
        """The number of nodes of all types."""
        return sum(self._nodes.values())

    def attribute(self, name: str, of_edges: bool) -> str:
        """Returns the column of the dataset that has an attribute."""
        if not self.on_disk:
            return super().attribute(name, of_edges)
        domain = "edge" if of_edges else "node"
        for f in self._meta.attributes:
            if f.domain == domain and f.name == name:
                return self.columns["graph", domain, f.type, name]
        there = [f.name for f in self._meta.attributes if f.domain == domain]
        raise KeyError(f"no column {name!r} of {domain}s; there are: {', '.join(there) or 'none'}")

    def edge_ids(self, ids: Any) -> Any:
        """Returns the numbers of edges in their files, or the places that the dataset has."""
        return ids if self.on_disk else super().edge_ids(ids)

    @property
    def source(self) -> Source:
        """The folder's dataset, written at the first use."""
        if not self.on_disk:
            return super().source
        if "_source" not in self.__dict__:
            self.__dict__["_source"] = Source(self._dataset())
        return self._source

    def _dataset(self) -> str:
        kept = os.path.join(self._meta.folder, KEPT)
        if not self._force and self._fits(kept):
            return kept
        if not os.access(self._meta.folder, os.W_OK):
            self._scratch = Scratch("khop-graph-")
            kept = self._scratch.file("data.khop")
        work = Scratch("khop-graph-")
        try:
            _describe(work.path, self._meta, self.columns, self._numbered)
            program.run("convert", [work.path, kept], {"from": "graphbolt", "force": True}, otherwise=WriteError)
        finally:
            work.close()
        return kept

    def _fits(self, kept: str) -> bool:
        """Whether a dataset is newer than all that it is made of, and has all columns."""
        if not os.path.isdir(kept):
            return False
        made_of = [f.path for f in (*self._meta.features, *self._meta.attributes) if f.domain != "graph"]
        made_of += [self._meta.path(e["path"]) for e in self._edges.values()]
        made_of += [p for p in (self._meta.path("metadata.yaml"),) if os.path.exists(p)]
        if any(os.path.getmtime(kept) < os.path.getmtime(p) for p in made_of):
            return False
        try:
            about = info(kept)
        except ServerError:
            return False
        there = {c["name"] for of in [about["edge_columns"], *(t["columns"] for t in about["node_types"])] for c in of}
        return {*self.columns.values(), *([_NUMBER] if self._numbered else [])} <= there

    def __repr__(self) -> str:
        return SamplingGraph.__repr__(self) if self.on_disk else FusedCSCSamplingGraph.__repr__(self)


def _plain_graph(state: Mapping[str, Any]) -> FusedCSCSamplingGraph:
    return FusedCSCSamplingGraph(**state)


def _sorted(types: Any) -> Any:
    """GraphBolt's order: that of the names."""
    return sorted(types, key=lambda t: t.get("type") or "")


def _columns(meta: Metadata) -> dict[Any, str]:
    """A column of its own for each feature and attribute. No name is one that means something to khop, so that what
    comes out of a column is what went in."""
    found: dict[Any, str] = {}
    names: dict[Any, str] = {}
    for kind, features in (("feature", meta.features), ("attribute", meta.attributes)):
        for f in features:
            if f.domain == "graph":
                continue
            key = kind, f.domain, f.name
            if key not in names:
                plain = re.fullmatch("[a-z0-9_]{1,100}", f.name) and f"{kind}_{f.name}" not in names.values()
                names[key] = f"{kind}_{f.name if plain else f'number_{len(names)}'}"
            found[(f.domain, f.type, f.name) if kind == "feature" else ("graph", f.domain, f.type, f.name)] = names[key]
    return found


def _describe(work: str, meta: Metadata, columns: Mapping[Any, str], numbered: bool) -> None:
    """Writes a folder of GraphBolt with the same files, its columns under their names."""
    assert meta.graph is not None
    linked: dict[str, str] = {}

    def file(path: str) -> str:
        if path not in linked:
            linked[path] = f"{len(linked)}{os.path.splitext(path)[1]}"
            os.symlink(os.path.abspath(path), os.path.join(work, linked[path]))
        return linked[path]

    def feature(f: OnDiskFeatureData, name: str) -> dict[str, Any]:
        return {"domain": f.domain, "name": name, "format": f.format, "path": file(f.path),
                **({} if f.type is None else {"type": f.type})}
    data = [feature(f, columns[f.domain, f.type, f.name]) for f in meta.features if f.domain != "graph"]
    data += [feature(f, columns["graph", f.domain, f.type, f.name]) for f in meta.attributes if f.domain != "graph"]
    for i, e in enumerate(meta.graph["edges"] if numbered else ()):
        name = f"number-{i}.npy"
        np.save(os.path.join(work, name), np.arange(len(read_edges(meta, e)[0])))
        data.append({"domain": "edge", "name": _NUMBER, "format": "numpy", "path": name,
                     **({"type": e["type"]} if e.get("type") else {})})
    edges = [{**e, "path": file(meta.path(e["path"]))} for e in meta.graph["edges"]]
    with open(os.path.join(work, "metadata.yaml"), "w") as out:
        json.dump({"graph": {"nodes": meta.graph["nodes"], "edges": edges}, "feature_data": data}, out)


def read_edges(meta: Metadata, edges: Mapping[str, Any]) -> tuple[Any, Any]:
    """Reads sources and targets of a file of edges."""
    path, form = meta.path(edges["path"]), edges.get("format")
    require(form in ("numpy", "csv"), f"`numpy` or `csv` is expected when reading edges but got `{form}`.")
    if form == "numpy":
        pairs = np.load(path, allow_pickle=False)
    else:
        pairs = np.loadtxt(path, np.int64, delimiter=",", ndmin=2).T.reshape(2, -1)
    require(pairs.ndim == 2 and len(pairs) == 2, f"The shape of edges should be (2, N), but got {pairs.shape}.")
    return torch.from_numpy(pairs[0].astype(np.int64)), torch.from_numpy(pairs[1].astype(np.int64))


def _fields(meta: Metadata, nodes: Mapping[Any, int], edges: Mapping[Any, Any], numbered: bool, small: bool,
            ) -> dict[str, Any]:
    """What the graph consists of: edges by destination, those of a node in the order of types and files."""
    plain = None in nodes
    begin, first = {}, 0
    for t, n in nodes.items():
        begin[t], first = first, first + n
    ends, kinds, numbers = [], [], []
    for i, (e, said) in enumerate(edges.items()):
        source, target = read_edges(meta, said)
        if not plain:
            s, _, t = etype_str_to_tuple(e)
            source, target = source + begin[s], target + begin[t]
        ends.append(torch.stack([source, target]))
        kinds.append(torch.full((len(source),), i))
        numbers.append(torch.arange(len(source)))
    source, target = torch.cat(ends, 1)
    order = target.sort(stable=True)[1]
    indptr = torch.zeros(first + 1, dtype=torch.int64)
    indptr[1:] = target.bincount(minlength=first).cumsum(0)
    ids, places = torch.int64, torch.int64
    kind = torch.int64
    if small:
        ids = torch.int32 if first < 1 << 31 else ids
        places = torch.int32 if len(source) < 1 << 31 else places
        kind = next(d for d in (torch.uint8, torch.int16, torch.int32) if len(edges) - 1 <= torch.iinfo(d).max)
    attributes = _attributes(meta, nodes, edges, order)
    if numbered:
        attributes["edge"][ORIGINAL_EDGE_ID] = torch.cat(numbers)[order].to(places)
    offset = torch.tensor([*begin.values(), first], dtype=ids)
    return {
        "csc_indptr": indptr.to(places), "indices": source[order].to(ids),
        "node_type_offset": None if plain else offset,
        "type_per_edge": None if plain else torch.cat(kinds)[order].to(kind),
        "node_type_to_id": None if plain else {t: i for i, t in enumerate(nodes)},
        "edge_type_to_id": None if plain else {e: i for i, e in enumerate(edges)},
        "node_attributes": attributes["node"] or None, "edge_attributes": attributes["edge"] or None}


def _attributes(meta: Metadata, nodes: Mapping[Any, int], edges: Mapping[Any, Any], order: Any) -> dict[str, Any]:
    """The attributes of nodes and edges, type after type; those of edges in their order."""
    found: dict[str, Any] = {"node": {}, "edge": {}}
    for domain, types in (("node", nodes), ("edge", edges)):
        for name in dict.fromkeys(f.name for f in meta.attributes if f.domain == domain):
            of = {f.type: f for f in meta.attributes if f.domain == domain and f.name == name}
            require(set(of) == set(types), f"{domain.capitalize()} feature {name} does not cover all {domain} types. "
                    f"Existing types: {set(of)}. Expected types: {set(types)}.")
            whole = torch.cat([read_file(of[t], rows=False) for t in types])
            found[domain][name] = whole if domain == "node" else whole[order]
    return found
