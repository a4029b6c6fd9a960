"""Runs pipelines by khop: its batches as minibatches."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional

import torch

from .._batch.batch import Batch
from .._peers.arguments import check_options, combined
from .._batch.schema import LABEL
from .._peers.graph_source import OverSource
from .base import CSCFormatBase
from .items import HeteroItemSet, ItemSet, Split
from .minibatch import MiniBatch
from .plan import Plan
from .subgraph import SampledSubgraphImpl

_SEEDS = ("seeds", "seed_nodes", "node_pairs")


class Served(OverSource):
    """The minibatches of a plan, made by khop.Loader. options are further ones of khop.Loader."""

    def __init__(self, plan: Plan, options: Optional[Mapping[str, Any]]) -> None:
        self._plan, self._graph, self._source = plan, plan.graph, plan.graph.source
        self._typed = isinstance(plan.items, HeteroItemSet)
        check_options(options)
        given = combined({**plan.how, "seed": plan.seed}, options)
        seed = plan.how.get("seed") if given["seed"] is None else given["seed"]
        self._how = {**self._columns(), **self._seeds(), "framework": "torch", **given, "seed": seed}
        if plan.negatives is not None:
            self._how.update(negatives="uniform", negative_ratio=float(plan.negatives[1]))

    def _columns(self) -> dict[str, Any]:
        source, plan = self._source, self._plan
        how: dict[str, Any] = {"node_columns": [], "seed_columns": []}
        edges = []
        if plan.features is not None:
            how["node_columns"] = list(dict.fromkeys(plan.features.column("node", t, n) for t, n in plan.node_keys))
            edges = [plan.features.column("edge", t, n) for t, n in plan.edge_keys]
        if isinstance(plan.items, Split) and LABEL in source.columns:
            how["seed_columns"] = [LABEL]
        if "edge_id" in source.edge_columns:
            edges.append("edge_id")
        else:
            how["edge_pos"] = True
        return {**how, "edge_columns": list(dict.fromkeys(edges)) or None}

    def _seeds(self) -> dict[str, Any]:
        items, source = self._plan.items, self._source
        if isinstance(items, Split):
            self._links = False
            return {"seeds": items.split}
        sets: dict[Any, ItemSet] = dict(items._itemsets) if self._typed else {None: items}
        self._links = any(s.array(*_SEEDS).dim() == 2 for s in sets.values())
        times = {k: s.array("timestamp") for k, s in sets.items()}
        timed = all(t is not None for t in times.values())
        if not self._links:
            if not self._typed and items._counted and isinstance(items._items, int):
                return {"seeds": f"all:{source.node_type(None)}"}
            return {"seeds": {source.node_type(k): s.array(*_SEEDS).long() for k, s in sets.items()},
                    "input_time": {source.node_type(k): t for k, t in times.items()} if timed else None}
        self._sets = {source.edge_type(k): s for k, s in sets.items()}
        return {"edge_label_index": {e: s.array(*_SEEDS).long().T for e, s in self._sets.items()},
                "edge_label_time": {source.edge_type(k): t for k, t in times.items()} if timed else None}

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches():
            minibatch: Any = self._minibatch(batch)
            del batch
            for fn in self._plan.after:
                minibatch = fn(minibatch)
            yield minibatch

    def _minibatch(self, batch: Batch) -> MiniBatch:
        out = MiniBatch()
        out.input_nodes = self._joined({t: batch[t].n_id for t in batch.node_types})
        out.sampled_subgraphs = [self._subgraph(batch, layer) for layer in range(batch.schema.layers)]
        if self._links:
            self._fill_links(out, batch)
        else:
            self._fill_nodes(out, batch)
        features = self._plan.features
        if features is not None:
            out.node_features = {
                n if t is None else (t, n): _rows(batch[self._source.node_type(t)][features.column("node", t, n)])
                for t, n in self._plan.node_keys}
            out.edge_features = [
                {n if e is None else (e, n): _rows(batch[self._source.edge_type(e)].blocks[layer][
                    features.column("edge", e, n)]) for e, n in self._plan.edge_keys}
                for layer in range(batch.schema.layers)]
        return out

    def _subgraph(self, batch: Batch, layer: int) -> SampledSubgraphImpl:
        """A layer, as a CSC over its nodes."""
        hop = batch.schema.layers - layer
        blocks = {":".join(e): batch[e].blocks[layer] for e in batch.edge_types}
        heads = {t: batch[t].n_id for t in batch.node_types}
        rows, columns = ({t: ids[:n] for (t, ids), n in zip(heads.items(), batch._counts[h])} for h in (hop, hop - 1))
        ids = {":".join(e): self._graph.edge_ids(b["edge_id"] if "edge_id" in batch[e].columns() else b.edge_pos)
               for e, b in zip(batch.edge_types, blocks.values())}
        csc = {e: CSCFormatBase(b.indptr, b.indices) for e, b in blocks.items()}
        return SampledSubgraphImpl(*map(self._joined, (csc, columns, rows, ids)))

    def _fill_nodes(self, out: MiniBatch, batch: Batch) -> None:
        items = self._plan.items
        values: dict[str, dict[str, Any]] = {}
        for t in batch.node_types:
            view = batch[t]
            if not view.batch_size:
                continue
            of = items[t] if self._typed else items
            for name in of.names:
                if name in _SEEDS:
                    values.setdefault(name, {})[t] = view.input_node
                    if name == "seeds":
                        values.setdefault("compacted_seeds", {})[t] = view.seeds
                elif isinstance(items, Split):
                    if f"seed/{t}/label" in batch:
                        values.setdefault(name, {})[t] = view.y[view.seeds]
                else:
                    values.setdefault(name, {})[t] = of.array(name)[view.input_id]
        self._set(out, values, self._typed or not self._graph.plain)

    def _fill_links(self, out: MiniBatch, batch: Batch) -> None:
        values: dict[str, dict[str, Any]] = {}

        def put(name: str, key: str, value: Any) -> None:
            values.setdefault(name, {})[key] = value
        for e, items in self._sets.items():
            view, key = batch[e], ":".join(e)
            number, negatives, _ = view.num_links
            places = view.edge_label_index
            ends = batch[e[0]].n_id[places[0]], batch[e[2]].n_id[places[1]]
            apart = "node_pairs" in items.names
            if apart:
                put("node_pairs", key, tuple(x[:number] for x in ends))
                put("compacted_node_pairs", key, tuple(x[:number] for x in places))
                if negatives:
                    put("negative_dsts", key, ends[1][number:].view(number, -1))
                    put("compacted_negative_dsts", key, places[1][number:].view(number, -1))
            else:
                put("seeds", key, torch.stack(ends, 1))
                put("compacted_seeds", key, places.T)
                if negatives:
                    put("labels", key, torch.arange(number + negatives) < number)
                    put("indexes", key, view.edge_label_group)
            for name in items.names:
                if name not in _SEEDS and not (name == "labels" and negatives and not apart):
                    put(name, key, items.array(name)[view.input_id])
        self._set(out, values, self._typed)

    @staticmethod
    def _set(out: MiniBatch, values: Mapping[str, Mapping[str, Any]], typed: bool) -> None:
        for name, found in values.items():
            setattr(out, name, dict(found) if typed else next(iter(found.values())))

    def _joined(self, of: Mapping[str, Any]) -> Any:
        return next(iter(of.values())) if self._graph.plain else dict(of)


def _rows(values: Any) -> Any:
    """Numbers as rows of one, as in GraphBolt."""
    return values[:, None] if values.dim() == 1 else values
