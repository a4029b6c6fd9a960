"""Graphs for the loaders with DGL's and GraphBolt's names, as datasets of khop."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any, Mapping, Optional, Sequence

from .._native import program
from ..errors import WriteError
from .._data.info import info
from .._loader.loader import Loader, on_host
from .._batch.schema import EdgeType
from .._native.scratch import Scratch
from .._data.stage import located
from .._data.write import temporary
from .served import Served

_COLUMNS = {"feat": "feature", "features": "feature", "x": "feature", "labels": "label", "y": "label"}
"""khop's names of columns that others call otherwise."""


class Source:
    """A dataset, and the data in memory beside it.

    graph is the path of a dataset of khop or of a folder of GraphBolt, a graph of DGL, or what khop.write takes. For a
    graph of DGL khop writes the structure, and the columns of edges that sampling needs; its features stay where they
    are.
    """

    def __init__(self, graph: Any, edge_columns: Sequence[str] = (), backward: bool = False) -> None:
        """backward reverses the edges of a graph of DGL."""
        self.memory = graph if hasattr(graph, "canonical_etypes") else None
        self.names: dict[EdgeType, Any] = {}
        """DGL's names of the edge types of a graph of DGL."""
        self._scratch: Optional[Scratch] = None
        if isinstance(graph, (str, bytes, os.PathLike)):
            self.path = located(graph)
            if is_graphbolt(self.path):
                self.path = self._converted(self.path)
        else:
            data = graph if self.memory is None else self._structure(graph, edge_columns, backward)
            self._scratch, self.path = temporary("khop-graph-", data)
        about = info(self.path)
        self.about = about
        self.node_types: list[str] = [t["name"] for t in about["node_types"]]
        self.counts = {t["name"]: int(t["count"]) for t in about["node_types"]}
        self.edge_types: list[EdgeType] = [(e["source"], e["relation"], e["target"]) for e in about["edge_types"]]
        self.plain = len(self.node_types) == len(self.edge_types) == 1
        self._columns = {t["name"]: [c["name"] for c in t["columns"]] for t in about["node_types"]}
        self.columns = list(dict.fromkeys(c for of in self._columns.values() for c in of))
        self.edge_columns = [c["name"] for c in about["edge_columns"]]

    def _converted(self, folder: str) -> str:
        """The dataset of a folder of GraphBolt: beside its own preprocessed one where one may write there.

        The source is then metadata.yaml and not the folder, in which the target lies.
        """
        kept = os.path.join(folder, "khop")
        metadata = [p for p in _metadata(folder) if os.path.exists(p)]
        if os.path.isdir(kept) and os.path.getmtime(kept) >= max(map(os.path.getmtime, metadata)):
            return kept
        source, target = metadata[0], kept
        if os.path.dirname(source) != folder or not os.access(folder, os.W_OK):
            self._scratch = Scratch("khop-graph-")
            source, target = folder, self._scratch.file("data.khop")
        program.run("convert", [source, target], {"from": "graphbolt", "force": True}, otherwise=WriteError)
        return target

    def _structure(self, graph: Any, edge_columns: Sequence[str], backward: bool) -> Mapping[Any, Any]:
        """A graph of DGL without its features. Edges keep their numbers."""
        import torch

        parts: dict[Any, dict[str, Any]] = {_plain(t, "node"): {"num_nodes": graph.num_nodes(t)} for t in graph.ntypes}
        for of in graph.canonical_etypes:
            src, dst = graph.edges(etype=of, order="eid")
            source, target = of[0], of[2]
            if backward:
                src, dst, source, target = dst, src, target, source
            part = {"src": src, "dst": dst, "edge_id": torch.arange(len(src))}
            data = graph.edges[of].data
            for name in edge_columns:
                if name in data:
                    part[name] = data[name].reshape(-1)
            e = _plain(source, "node"), _plain(of[1], "to"), _plain(target, "node")
            parts[e], self.names[e] = part, of
        return parts

    # --- names ---

    def node_type(self, of: Optional[str]) -> str:
        """Returns khop's name of a node type; None is the only one."""
        if of is None or self.plain:
            if len(self.node_types) != 1:
                raise ValueError(f"there are several node types: say which of {', '.join(self.node_types)}")
            return self.node_types[0]
        if of not in self.node_types:
            raise ValueError(f"there is no node type {of!r}; there are {', '.join(self.node_types)}")
        return of

    def edge_type(self, of: Any) -> EdgeType:
        """Returns an edge type, given by a relation, a triple, "source:relation:target", or None for the only one."""
        if of is None or self.plain:
            if len(self.edge_types) != 1:
                raise ValueError(f"there are several edge types: say which of {', '.join(map(str, self.edge_types))}")
            return self.edge_types[0]
        triple = tuple(of.split(":")) if isinstance(of, str) and of.count(":") == 2 else of
        found = [e for e in self.edge_types if triple in (e, e[1])]
        if len(found) != 1:
            raise ValueError(f"there is {'no' if not found else 'more than one'} edge type {of!r}; "
                             f"there are {', '.join(map(str, self.edge_types))}")
        return found[0]

    def column(self, wanted: str, of_edges: bool = False) -> str:
        """Returns khop's name of a column of nodes or edges, which other libraries may name differently."""
        there = self.edge_columns if of_edges else self.columns
        for name in (wanted, _COLUMNS.get(wanted, "")):
            if name in there:
                return name
        of, there_are = "edges" if of_edges else "nodes", ", ".join(there) or "none"
        raise KeyError(f"no column {wanted!r} of {of}; there are: {there_are}")

    def close(self) -> None:
        """Removes the dataset if it is a temporary one."""
        if self._scratch is not None:
            self._scratch.close()


class OverSource(Served):
    """A loader of batches of a source."""

    _source: Source
    _how: dict[str, Any]

    @cached_property
    def _length(self) -> int:
        with self._lent("loader", self._open) as loader:
            return len(loader)

    def __len__(self) -> int:
        return self._length

    def _open(self) -> Loader:
        return on_host(self._source.path, **self._how)


def is_graphbolt(path: str) -> bool:
    """Whether a folder is one of GraphBolt's OnDiskDataset."""
    return any(map(os.path.isfile, _metadata(path)))


def _metadata(folder: str) -> tuple[str, str]:
    return os.path.join(folder, "metadata.yaml"), os.path.join(folder, "preprocessed", "metadata.yaml")


def _plain(of: str, plain: str) -> str:
    """DGL's names of types that have none are _N and _E."""
    return plain if of in ("_N", "_E") else of


def partition(dataset: str, parts: int, file: str) -> None:
    """Divides a dataset's nodes into parts. It writes a new file with the part of each node, one per line."""
    program.run("partition", [dataset], {"parts": parts, "out": file})
