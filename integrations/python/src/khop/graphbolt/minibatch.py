"""The minibatches that the stages of a pipeline pass on."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import torch

from .._batch.blocks import EID, NID, Block
from .base import CSCFormatBase, called, etype_str_to_tuple, expand_indptr, moved, require

FIELDS = (
    "seed_nodes", "node_pairs", "labels", "seeds", "indexes", "negative_srcs", "negative_dsts", "sampled_subgraphs",
    "input_nodes", "node_features", "edge_features", "compacted_node_pairs", "compacted_seeds",
    "compacted_negative_srcs", "compacted_negative_dsts")


class MiniBatch:
    """dgl.graphbolt.MiniBatch. For a graph of one type values are tensors, for others mappings of types to tensors.

    GraphBolt 2.1 has nodes in seed_nodes and pairs in node_pairs, with negatives apart; later ones have both in seeds,
    where negatives follow the pairs. The names of the items choose which fields a minibatch has.
    """

    seed_nodes: Any = None
    node_pairs: Any = None
    labels: Any = None
    seeds: Any = None
    indexes: Any = None
    negative_srcs: Any = None
    negative_dsts: Any = None
    sampled_subgraphs: Any = None
    input_nodes: Any = None
    node_features: Any = None
    edge_features: Any = None
    compacted_node_pairs: Any = None
    compacted_seeds: Any = None
    compacted_negative_srcs: Any = None
    compacted_negative_dsts: Any = None

    def __init__(self, *values: Any, **named: Any) -> None:
        for name, value in [*zip(FIELDS, values), *named.items()]:
            require(name in FIELDS, f"a minibatch has no {name!r}")
            setattr(self, name, value)

    def node_ids(self) -> Any:
        """Returns the ids of the nodes whose features the first layer of a model reads."""
        return self.input_nodes

    def num_layers(self) -> int:
        """Returns how many layers were sampled."""
        return len(self.sampled_subgraphs or ())

    def edge_ids(self, layer_id: int) -> Any:
        """Returns the ids of a layer's edges."""
        return self.sampled_subgraphs[layer_id].original_edge_ids

    def set_node_features(self, node_features: Any) -> None:
        """Sets node_features."""
        self.node_features = node_features

    def set_edge_features(self, edge_features: Any) -> None:
        """Sets edge_features."""
        self.edge_features = edge_features

    @property
    def blocks(self) -> Any:
        """One block per layer, the furthest from the seeds first: DGL's if it is installed, else khop.blocks.Block."""
        if not self.sampled_subgraphs:
            return None
        blocks = [_block(s) for s in self.sampled_subgraphs]
        first = self.sampled_subgraphs[0].original_row_node_ids
        for t, ids in first.items() if isinstance(first, Mapping) else ((None, first),):
            (blocks[0].srcdata if t is None else blocks[0].srcnodes[t].data)[NID] = ids
        for block, subgraph in zip(blocks, self.sampled_subgraphs):
            ids = subgraph.original_edge_ids
            for e, of in ids.items() if isinstance(ids, Mapping) else ((None, ids),):
                if of is not None:
                    (block.edata if e is None else block.edges[etype_str_to_tuple(e)].data)[EID] = of
        return blocks

    # --- pairs ---

    @property
    def positive_node_pairs(self) -> Any:
        """The given pairs, as places in input_nodes."""
        return self.compacted_node_pairs

    @property
    def negative_node_pairs(self) -> Any:
        """The negatives of the pairs, as places in input_nodes. The end that was not drawn is that of the pair."""
        sources, targets, pairs = self.compacted_negative_srcs, self.compacted_negative_dsts, self.compacted_node_pairs
        drawn = sources if sources is not None else targets
        if drawn is None or (sources is None or targets is None) and pairs is None:
            return None

        def of(source: Any, target: Any, pair: Any) -> Any:
            if source is None:
                source = pair[0][:, None].expand_as(target)
            if target is None:
                target = pair[1][:, None].expand_as(source)
            return source, target
        if isinstance(drawn, Mapping):
            return {e: of(*(None if x is None else x.get(e) for x in (sources, targets, pairs))) for e in drawn}
        return of(sources, targets, pairs)

    @property
    def node_pairs_with_labels(self) -> Any:
        """Sources and targets as places in input_nodes, and their labels: those given, else 1 for pairs and 0 for
        negatives."""
        pairs, negatives = self.positive_node_pairs, self.negative_node_pairs
        if self.labels is not None:
            return None if pairs is None else (pairs, self.labels)
        if pairs is None or negatives is None:
            return None

        def joined(pair: Any, negative: Any) -> tuple[Any, Any]:
            flat = [n.reshape(-1) for n in negative]
            ends = tuple(torch.cat([p, n]) for p, n in zip(pair, flat))
            return ends, torch.cat([torch.ones_like(pair[0]), torch.zeros_like(flat[0])])
        if not isinstance(pairs, Mapping):
            ends, labels = joined(pairs, negatives)
            return ends, labels.float()
        each = {e: joined(p, negatives[e]) for e, p in pairs.items()}
        return {e: j[0] for e, j in each.items()}, {e: j[1] for e, j in each.items()}

    # --- elsewhere ---

    def to_pyg_data(self) -> Any:
        """Returns a Data of PyTorch Geometric: all edges between places in input_nodes, features and labels."""
        from torch_geometric.data import Data

        edges = None
        for s in self.sampled_subgraphs or ():
            require(isinstance(s.sampled_csc, CSCFormatBase), "to_pyg_data: only of a graph with one type")
            target = expand_indptr(s.sampled_csc.indptr, s.sampled_csc.indices.dtype)
            layer = torch.stack([s.sampled_csc.indices, target]).long()
            edges = layer if edges is None else torch.cat([edges, layer], 1)
        features = list((self.node_features or {}).values())
        require(self.node_features is None or len(features) == 1,
                "`to_pyg_data` only supports single feature homogeneous graph.")
        return Data(x=features[0] if features else None, y=self.labels,
                    edge_index=None if edges is None else edges.unique(dim=1))

    def to(self, device: Any, non_blocking: bool = False) -> MiniBatch:
        """Moves the minibatch to a device."""
        for name, value in list(self.__dict__.items()):
            setattr(self, name, moved(value, device))
        return self

    def __repr__(self) -> str:
        more = ("blocks", "negative_node_pairs", "node_pairs_with_labels", "positive_node_pairs")
        own = [n for n in self.__dict__ if n not in FIELDS]
        return called("MiniBatch", {n: getattr(self, n) for n in sorted({*FIELDS, *more, *own}, reverse=True)},
                      10, ",\n       )")


def _block(subgraph: Any) -> Any:
    """The block of a layer. DGL's has numbers of 32 bits where they fit, and so has the layer from then on."""
    typed = isinstance(subgraph.sampled_csc, Mapping)
    require(subgraph.original_row_node_ids is not None and subgraph.original_column_node_ids is not None,
            "blocks: a layer without the ids of its nodes")
    csc = subgraph.sampled_csc if typed else {"_N:_E:_N": subgraph.sampled_csc}
    sources, targets = (
        {t: len(v) for t, v in (ids.items() if typed else [("_N", ids)])}
        for ids in (subgraph.original_row_node_ids, subgraph.original_column_node_ids))
    try:
        import dgl
    except ImportError:
        return Block({etype_str_to_tuple(e): (c.indptr, c.indices, len(c.indices)) for e, c in csc.items()}, sources,
                     targets)
    parts = {}
    for e, c in csc.items():
        dtype = torch.int32 if max(len(c.indptr) - 2, len(c.indices)) < 1 << 31 else torch.int64
        c.indptr, c.indices = c.indptr.to(dtype), c.indices.to(dtype)
        number = torch.arange(len(c.indices), dtype=dtype, device=c.indptr.device)
        parts[etype_str_to_tuple(e)] = ("csc", (c.indptr, c.indices, number))
    return dgl.create_block(parts, sources, targets)


def name_of_seeds(minibatch: Optional[MiniBatch]) -> Optional[str]:
    """Returns the field that has a minibatch's seeds, or None."""
    return next((n for n in ("node_pairs", "seed_nodes", "seeds") if getattr(minibatch, n, None) is not None), None)
