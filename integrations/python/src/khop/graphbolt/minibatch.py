"""Minibatches, and the loader that makes them."""

from __future__ import annotations

import inspect
from typing import Any, Iterator, Mapping, NamedTuple, Optional

import torch

from .. import names
from ..batch import Batch
from ..blocks import blocks_of
from ..schema import LABEL
from ..sources import OverSource
from .data import DatasetFeatures
from .described import Described
from .items import SECTION, HeteroItemSet, ItemSet, Split


class SampledSubgraph:
    """dgl.graphbolt.SampledSubgraph: one layer, as a CSC over its nodes. Values are as those of a MiniBatch."""

    def __init__(self, batch: Batch, layer: int) -> None:
        blocks = {":".join(e): batch[e].blocks[layer] for e in batch.edge_types}
        hop = batch.schema.layers - layer
        plain = batch.schema.plain

        def joined(of: Mapping[str, Any]) -> Any:
            return next(iter(of.values())) if plain else dict(of)
        heads = {t: batch[t].n_id for t in batch.node_types}
        self.sampled_csc = joined({e: CSCFormatBase(b.indptr, b.indices) for e, b in blocks.items()})
        self.original_row_node_ids = joined({t: ids[:n] for (t, ids), n in zip(heads.items(), batch._counts[hop])})
        self.original_column_node_ids = joined({
            t: ids[:n] for (t, ids), n in zip(heads.items(), batch._counts[hop - 1])})
        self.original_edge_ids = joined({
            ":".join(e): b["edge_id"] if "edge_id" in batch[e].columns() else b.edge_pos
            for e, b in zip(batch.edge_types, blocks.values())})


class CSCFormatBase(NamedTuple):
    """Edges by destination: indptr and indices."""

    indptr: Any
    indices: Any


class MiniBatch:
    """dgl.graphbolt.MiniBatch. Values are tensors of a graph with one type, mappings of types to tensors of others."""

    def __init__(self, batch: Any) -> None:
        self._batch: Any = batch  # None where nothing was sampled
        self.seeds: Any = None
        self.labels: Any = None
        self.indexes: Any = None
        self.compacted_seeds: Any = None
        self.input_nodes: Any = None
        self.node_features: dict[Any, Any] = {}
        self.edge_features: list[dict[Any, Any]] = []
        self._blocks: Optional[list[Any]] = None

    @property
    def blocks(self) -> list[Any]:
        """A block a layer, the furthest from the seeds first: DGL's, or khop.blocks.Block."""
        if self._blocks is None:
            self._blocks = blocks_of(self._batch)
        return self._blocks

    @property
    def sampled_subgraphs(self) -> list[SampledSubgraph]:
        """A subgraph a layer, the furthest from the seeds first."""
        return [SampledSubgraph(self._batch, layer) for layer in range(self.num_layers())]

    def num_layers(self) -> int:
        return 0 if self._batch is None else int(self._batch.schema.layers)

    # --- names of GraphBolt 2.1 ---

    @property
    def seed_nodes(self) -> Any:
        """The seeds, where they are nodes."""
        return self.seeds

    def _pairs(self, name: str, negative: bool = False) -> Any:
        """Sources and targets of the pairs that were given, or of their negatives."""
        def ends(pairs: Any, group: Any) -> tuple[Any, Any]:
            if group is None:
                pairs = pairs[:0] if negative else pairs
            else:  # the pairs come first
                number = int(group.max()) + 1 if len(group) else 0
                pairs = pairs[number:] if negative else pairs[:number]
            return pairs[:, 0], pairs[:, 1]
        pairs = getattr(self, name)
        if not isinstance(pairs, Mapping):
            return ends(pairs, self.indexes)
        return {e: ends(p, (self.indexes or {}).get(e)) for e, p in pairs.items()}

    @property
    def node_pairs(self) -> Any:
        """Sources and targets of the pairs."""
        return self._pairs("seeds")

    @property
    def compacted_node_pairs(self) -> Any:
        """The same, as places in input_nodes."""
        return self._pairs("compacted_seeds")

    positive_node_pairs = compacted_node_pairs

    @property
    def negative_node_pairs(self) -> Any:
        """Those of the negatives, as places in input_nodes."""
        return self._pairs("compacted_seeds", True)

    @property
    def node_pairs_with_labels(self) -> Any:
        """Sources and targets of pairs and negatives, as places in input_nodes, and their labels."""
        if isinstance(self.compacted_seeds, Mapping):
            return {e: ((p[:, 0], p[:, 1]), self.labels[e]) for e, p in self.compacted_seeds.items()}
        return (self.compacted_seeds[:, 0], self.compacted_seeds[:, 1]), self.labels

    def node_ids(self) -> Any:
        return self.input_nodes

    def to(self, device: Any, non_blocking: bool = False) -> MiniBatch:
        """The minibatch on a device."""
        def move(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {k: move(v) for k, v in value.items()}
            if isinstance(value, list):
                return [move(v) for v in value]
            return value.to(device, non_blocking=non_blocking) if hasattr(value, "to") else value
        out = MiniBatch(None if self._batch is None else self._batch.to(device, non_blocking))
        for name in ("seeds", "labels", "indexes", "compacted_seeds", "input_nodes", "node_features", "edge_features"):
            setattr(out, name, move(getattr(self, name)))
        return out

    def to_pyg_data(self) -> Any:
        """A Data or HeteroData of PyTorch Geometric, with the columns that came with the batch."""
        return self._batch.to_pyg()

    def __repr__(self) -> str:
        def text(value: Any) -> str:
            if isinstance(value, Mapping):
                return "{" + ", ".join(f"{k!r}: {text(v)}" for k, v in value.items()) + "}"
            return f"{list(value.shape)}" if hasattr(value, "shape") else repr(value)
        fields = {n: getattr(self, n) for n in ("seeds", "labels", "compacted_seeds", "input_nodes", "node_features")}
        said = ", ".join(f"{n}={text(v)}" for n, v in fields.items() if v is not None)
        return f"MiniBatch({said}, layers={self.num_layers()})"


def of_items(pipe: Described) -> Iterator[Any]:
    """Minibatches of items alone, of a pipeline that does not sample."""
    number, size = len(pipe.items), int(pipe.how["batch_size"])
    order = torch.arange(number)
    if pipe.how["shuffle"]:
        order = torch.randperm(number, generator=torch.Generator().manual_seed(pipe.how["seed"]))
    for begin in range(0, number - size + 1 if pipe.how["drop_last"] else number, size):
        at = order[begin:begin + size]
        out: Any = MiniBatch(None)
        sets = pipe.items[at] if isinstance(pipe.items, HeteroItemSet) else {None: pipe.items[at]}
        for of, values in sets.items():
            for name, value in zip(pipe.items.called, values if isinstance(values, tuple) else (values,)):
                setattr(out, name, value if of is None else {**(getattr(out, name, None) or {}), of: value})
        for fn in pipe.after:
            out = fn(out)
        yield out


class DataLoader(OverSource):
    """dgl.graphbolt.DataLoader: what a pipeline describes. num_workers and its like are taken and have no meaning.

    options are further ones of khop.Loader. One iteration runs at a time. close() ends the server, and so does the
    loader's end.
    """

    def __init__(
        self, datapipe: Described, num_workers: int = 0, *, options: Optional[Mapping[str, Any]] = None, **kwargs: Any,
    ) -> None:
        ignored = (
            "persistent_workers", "max_uva_threads", "overlap_feature_fetch", "overlap_graph_fetch", "asynchronous")
        names.check("khop.graphbolt.DataLoader", kwargs, [*inspect.signature(DataLoader).parameters, *ignored], SECTION)
        if datapipe.graph is None:
            raise TypeError("a pipeline without sampling: add sample_neighbor(graph, fanouts)")
        self._pipe, self._source = datapipe, datapipe.graph.source
        self._node_keys, self._edge_keys = _keys(datapipe.node_keys), _keys(datapipe.edge_keys)
        self._how = {**datapipe.how, **self._columns(), **self._seeds(), "framework": "torch", **(options or {})}

    @property
    def _served(self) -> bool:
        """Whether features come with the batches."""
        return isinstance(self._pipe.features, DatasetFeatures)

    def _columns(self) -> dict[str, Any]:
        source = self._source
        how: dict[str, Any] = {"node_columns": [], "seed_columns": []}
        edges = []
        if self._served:
            how["node_columns"] = list(dict.fromkeys(source.column(name) for _, name in self._node_keys))
            edges = [source.column(name, of_edges=True) for _, name in self._edge_keys]
        if isinstance(self._pipe.items, Split) and LABEL in source.columns:
            how["seed_columns"] = [LABEL]
        if "edge_id" in source.edge_columns:
            edges.append("edge_id")
        else:
            how["edge_pos"] = True
        return {**how, "edge_columns": list(dict.fromkeys(edges)) or None}

    def _seeds(self) -> dict[str, Any]:
        items, source = self._pipe.items, self._source
        if isinstance(items, Split):
            return {"seeds": items.split}
        sets: dict[Any, Any] = {None: items}
        if isinstance(items, HeteroItemSet):
            sets = dict(items._itemsets)
        self._links = any(s.of("seeds").dim() == 2 for s in sets.values())
        times = {k: s.of("timestamp") for k, s in sets.items()}
        timed = all(t is not None for t in times.values())
        if not self._links:
            if isinstance(items, ItemSet) and items._whole is not None:
                return {"seeds": f"all:{source.node_type(None)}"}
            return {"seeds": {source.node_type(k): s.of("seeds") for k, s in sets.items()},
                    "input_time": {source.node_type(k): t for k, t in times.items()} if timed else None}
        self._sets: dict[Any, Any] = {source.edge_type(k): s for k, s in sets.items()}
        return {"edge_label_index": {e: s.of("seeds").T for e, s in self._sets.items()},
                "edge_label_time": {source.edge_type(k): t for k, t in times.items()} if timed else None}

    def __iter__(self) -> Iterator[Any]:
        for batch in self._opened().restart():
            minibatch: Any = self._minibatch(batch)
            del batch
            for fn in self._pipe.after:
                minibatch = fn(minibatch)
            yield minibatch

    def _minibatch(self, batch: Batch) -> MiniBatch:
        out = MiniBatch(batch)
        out.input_nodes = self._joined({t: batch[t].n_id for t in batch.node_types})
        if "edge_label_index" in self._how:
            self._fill_links(out, batch)
        else:
            self._fill_nodes(out, batch)
        for t, name in self._node_keys:
            of = self._source.node_type(t)
            rows = (batch[of][self._source.column(name)] if self._served
                    else self._pipe.features.read("node", t, name, batch[of].n_id))
            out.node_features[name if t is None else (t, name)] = rows
        for layer in range(batch.schema.layers if self._edge_keys else 0):
            rows = {(e, name): self._edge_rows(batch, layer, e, name) for e, name in self._edge_keys}
            out.edge_features.append({key if key[0] is not None else key[1]: v for key, v in rows.items()})
        return out

    def _edge_rows(self, batch: Batch, layer: int, of: Any, name: str) -> Any:
        view = batch[self._source.edge_type(of)]
        block = view.blocks[layer]
        if self._served:
            return block[self._source.column(name, of_edges=True)]
        ids = block["edge_id"] if "edge_id" in view.columns() else block.edge_pos
        return self._pipe.features.read("edge", of, name, ids)

    def _fill_nodes(self, out: MiniBatch, batch: Batch) -> None:
        items = self._pipe.items
        seeded = [t for t in batch.node_types if batch[t].batch_size]
        hetero = isinstance(items, HeteroItemSet) or not self._source.plain
        values: dict[str, dict[str, Any]] = {"seeds": {}, "compacted_seeds": {}, "labels": {}}
        for t in seeded:
            view = batch[t]
            values["seeds"][t], values["compacted_seeds"][t] = view.input_node, view.seeds
            if isinstance(items, Split):
                if f"seed/{t}/label" in batch:
                    values["labels"][t] = view.y[view.seeds]
                continue
            of = items[t] if isinstance(items, HeteroItemSet) else items
            for name in of.called:
                if name not in ("seeds", "timestamp"):
                    values.setdefault(name, {})[t] = of.of(name)[view.input_id]
        for name, found in values.items():
            setattr(out, name, (found if hetero else next(iter(found.values()))) if found else None)

    def _fill_links(self, out: MiniBatch, batch: Batch) -> None:
        hetero = isinstance(self._pipe.items, HeteroItemSet)
        values: dict[str, dict[str, Any]] = {"seeds": {}, "compacted_seeds": {}, "labels": {}, "indexes": {}}
        for e, items in self._sets.items():
            view = batch[e]
            seeds, negatives, _ = view.num_links
            ends, key = view.edge_label_index, ":".join(e)
            heads = batch[e[0]].n_id, batch[e[2]].n_id
            values["seeds"][key] = torch.stack([heads[0][ends[0]], heads[1][ends[1]]], 1)
            values["compacted_seeds"][key] = ends.T
            if negatives:
                values["labels"][key] = torch.cat([torch.ones(seeds), torch.zeros(negatives)])
                values["indexes"][key] = view.edge_label_group
            for name in items.called:
                if name not in ("seeds", "timestamp") and not (negatives and name == "labels"):
                    values.setdefault(name, {})[key] = items.of(name)[view.input_id]
        for name, found in values.items():
            setattr(out, name, (found if hetero else next(iter(found.values()))) if found else None)

    def _joined(self, of: Mapping[str, Any]) -> Any:
        return next(iter(of.values())) if self._source.plain else dict(of)

    def close(self) -> None:
        """Ends the server."""
        if self._loader is not None:
            self._loader.close()
            self._loader = None


MultiProcessDataLoader = SingleProcessDataLoader = DataLoader


def _keys(keys: Any) -> list[tuple[Any, str]]:
    """(type, name) of each feature to fetch; the type is None where there is one."""
    if isinstance(keys, Mapping):
        return [(t, name) for t, names in keys.items() for name in names]
    return [(None, name) for name in keys or ()]
