"""Batches in shapes that repeat: for jax.jit, torch.compile without dynamic shapes, and CUDA graphs.

Every list of nodes, seeds and edges is made longer, and masks say what is real. After each hop there is at least one padding node more than
nodes; padding edges lead from the last padding node to the last padding node, so nothing real ever receives anything from them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np

from .arrays import OwnArrays
from .batch import Batch
from .frameworks import Array, NumpyArray
from .schema import EdgeType, Schema, text


@dataclass(frozen=True)
class Sizes:
    """Padded lengths. A batch that does not fit is an error that says which."""

    nodes: tuple[tuple[int, ...], ...]
    """[hop][node type]: the node list after each hop; one more than the most nodes that there may be."""
    edges: tuple[tuple[int, ...], ...]
    """[layer][edge type]"""
    seeds: tuple[int, ...]
    """[node type]: seeds as they were asked for, with repeats."""


class Padded(Batch):
    """A batch in padded shapes, in memory of its own. x, y, n_id, edge_index, blocks and columns are as long as the padding makes them.

    num_nodes and batch_size count padding; ``real`` has the true counts.
    """

    __slots__ = ()

    @property
    def real(self) -> list[list[int]]:
        """True counts of nodes [hop][node type]."""
        counts: list[list[int]] = self._arrays().numpy("real")[0].tolist()
        return counts

    @property
    def node_mask(self) -> Array:
        """Which nodes are real [nodes]."""
        return self.array(f"mask/node/{self._node_type}")

    @property
    def seed_mask(self) -> Array:
        """Which of the distinct seeds are real [batch_size]."""
        return self.array(f"mask/seed/{self._node_type}")

    @property
    def edge_mask(self) -> Array:
        """Which edges are real, in the order of edge_index."""
        return self.edge_mask_of(self._edge().type)

    def node_mask_of(self, node_type: str) -> Array:
        """As node_mask, of a type."""
        return self.array(f"mask/node/{node_type}")

    def seed_mask_of(self, node_type: str) -> Array:
        """As seed_mask, of a type."""
        return self.array(f"mask/seed/{node_type}")

    def edge_mask_of(self, edge_type: EdgeType) -> Array:
        """As edge_mask, of a type."""
        return self[edge_type]._joined("mask", lambda b: b._batch.array(f"mask/edge/{b.layer}/{text(b.type)}"))

    def block_mask(self, layer: int, edge_type: Optional[EdgeType] = None) -> Array:
        """Which edges of a block are real."""
        return self.array(f"mask/edge/{layer}/{text(edge_type or self._edge().type)}")

    def digests(self) -> tuple[str, str]:
        raise TypeError("a padded batch has no digest: take that of the batch that it was made of")


def pad(batch: Batch, sizes: Union[str, Sizes] = "pow2", about: Optional[Mapping[str, Any]] = None) -> Padded:
    """Copies a batch into padded shapes: "pow2" (the next powers of two), "max" (what the sampler can reach at most: one shape for all), or Sizes."""
    schema = batch.schema
    if isinstance(sizes, str):
        if sizes == "pow2":
            sizes = _powers_of_two(batch)
        elif sizes == "max" and about is not None:
            sizes = most(schema, about)
        else:
            raise ValueError(f'pad={sizes!r}: must be "pow2", "max" (as an option of the loader) or khop.padding.Sizes')
    counts, H = batch._counts, schema.layers
    source = batch._arrays()
    arrays: dict[str, NumpyArray] = {"num_nodes": np.array(sizes.nodes, np.int64), "real": np.array(counts, np.int64)}
    dtypes = {**batch._dtypes(), "real": "int64"}

    def fill(name: str, n: int, what: str) -> None:
        a = source.numpy(name)[0]
        if len(a) > n:
            raise ValueError(f"batch {batch.number} has {len(a)} {what}, the padded shape {n}")
        out = np.zeros((n, *a.shape[1:]), a.dtype)
        out[:len(a)] = a
        arrays[name] = out

    def mask(name: str, real: int, n: int) -> None:
        arrays[name] = np.arange(n) < real
        dtypes[name] = "bool"

    for t, name in enumerate(schema.node_types):
        for h in range(H + 1):
            if counts[h][t] >= sizes.nodes[h][t]:
                raise ValueError(f"batch {batch.number} has {counts[h][t]} nodes of type {name} after hop {h}, the padded shape {sizes.nodes[h][t]}, of which one is padding")
        mask(f"mask/node/{name}", counts[H][t], sizes.nodes[H][t])
        mask(f"mask/seed/{name}", counts[0][t], sizes.nodes[0][t])
    if any(name.startswith("link/") for name in source.names()):
        raise ValueError("pad=: batches whose seeds are edges are not padded")
    for name in source.names():
        kind, _, rest = name.partition("/")
        if kind in ("nodes", "node"):
            fill(name, sizes.nodes[H][schema.node(rest.split("/")[0])], "nodes")
        elif kind == "seed":
            fill(name, sizes.nodes[0][schema.node(rest.split("/")[0])], "seeds")
        elif kind in ("seeds", "input", "item"):
            fill(name, sizes.seeds[schema.node(rest)], "seeds")
        elif kind == "edge":
            number, owner, _ = rest.split("/", 2)
            src, relation, dst = owner.split(":")
            fill(name, sizes.edges[int(number)][schema.edge((src, relation, dst))], f"edges of type {owner} in layer {number}")
    for layer in range(H):
        for e, edge_type in enumerate(schema.edge_types):
            prefix, n = f"block/{layer}/{text(edge_type)}/", sizes.edges[layer][e]
            sources = sizes.nodes[H - layer][schema.node(edge_type[0])]
            targets = sizes.nodes[H - 1 - layer][schema.node(edge_type[2])]
            real = source.shape(prefix + "indices")[0]
            fill(prefix + "indices", n, f"edges of type {text(edge_type)} in layer {layer}")
            arrays[prefix + "indices"][real:] = sources - 1
            indptr = source.numpy(prefix + "indptr")[0]
            arrays[prefix + "indptr"] = out = np.full(targets + 1, real, indptr.dtype)
            out[:len(indptr)] = indptr
            out[-1] = n  # the last padding node has the padding edges
            if source.has(prefix + "edge_pos"):
                fill(prefix + "edge_pos", n, "edges")
            mask(f"mask/edge/{layer}/{text(edge_type)}", real, n)
    return Padded(schema, batch.info, OwnArrays(arrays, dtypes), batch._framework, str(batch._index))


def _powers_of_two(batch: Batch) -> Sizes:
    schema, source = batch.schema, batch._arrays()
    return Sizes(
        nodes=tuple(tuple(_power(n + 1) for n in row) for row in batch._counts),
        edges=tuple(tuple(_power(source.shape(f"block/{layer}/{text(e)}/indices")[0]) for e in schema.edge_types) for layer in range(schema.layers)),
        seeds=tuple(_power(source.shape(f"seeds/{t}")[0]) for t in schema.node_types),
    )


def _power(n: int) -> int:
    """The smallest power of two that is not below n, and 1 or more."""
    return 1 << max(0, n - 1).bit_length()


def most(schema: Schema, about: Mapping[str, Any]) -> Sizes:
    """What the neighbour sampler can reach at most: the products of the fan-outs, or what the graph has."""
    found = re.match(r"neighbor fanouts=(.+) replace=(true|false) frontier=(all|new)$", str(about.get("sampler")))
    batch_size = about.get("batch_size")
    if found is None or not isinstance(batch_size, int):
        raise ValueError(f'pad="max": the sampler ({about.get("sampler")}) has no bounds that are known here: use "pow2" or khop.padding.Sizes')
    replace = found[2] == "true"
    fanouts = _fanouts(found[1], schema.edge_types)
    every = [n if n >= 0 else 1 << 62 for n in schema.node_counts]
    edges_in_graph = [n if n >= 0 else 1 << 62 for n in schema.edge_counts]
    lists = [min(batch_size, n) for n in every]
    fresh, nodes, edges = list(lists), [tuple(n + 1 for n in lists)], []
    drawn = [0] * len(schema.edge_types)
    for h in range(schema.layers):
        reached = [0] * len(schema.node_types)
        hop = []
        for e, (source, _, target) in enumerate(schema.edge_types):
            k = fanouts[e][h] if h < len(fanouts[e]) else 0
            from_ = (fresh if schema.new_nodes else lists)[schema.node(target)]
            picks = edges_in_graph[e] if k < 0 else from_ * k
            if not replace:
                picks = min(picks, edges_in_graph[e])
            drawn[e] = picks + (drawn[e] if schema.new_nodes else 0)
            if not replace:
                drawn[e] = min(drawn[e], edges_in_graph[e])
            hop.append(drawn[e])
            reached[schema.node(source)] += picks
        fresh = [min(r, n) for r, n in zip(reached, every)]
        lists = [min(a + r, n) for a, r, n in zip(lists, reached, every)]
        nodes.append(tuple(n + 1 for n in lists))
        edges.append(tuple(hop))
    if max(max(row) for row in [*nodes, *edges]) > 1 << 40:
        raise ValueError('pad="max": with a fan-out of -1 and a server that does not tell the graph\'s size there is no bound')
    return Sizes(tuple(nodes), tuple(reversed(edges)), tuple(batch_size for _ in every))


def _fanouts(spelled: str, edge_types: Sequence[EdgeType]) -> list[list[int]]:
    """A list of fan-outs an edge type, of "15,10" or "*=5;cites=15,10"."""
    def numbers(s: str) -> list[int]:
        return [int(k) for k in s.split(",")]
    if "=" not in spelled:
        return [numbers(spelled) for _ in edge_types]
    given = {name: numbers(k) for name, _, k in (part.rpartition("=") for part in spelled.split(";"))}
    return [given.get(text(e), given.get(e[1], given.get("*", [0]))) for e in edge_types]
