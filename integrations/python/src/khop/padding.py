"""Pads batches to shapes that repeat: for jax.jit, torch.compile without dynamic shapes, and CUDA graphs.

Every list of nodes, seeds and edges gets longer, and masks mark what is real. After each hop there is at least one
padding node. Padding edges lead from the last padding node to itself, so real nodes never receive anything from them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np

from ._batch.arrays import OwnArrays
from ._batch.frameworks import NumpyArray
from ._batch.schema import EdgeType, Schema, text
from ._batch.views import Typed


@dataclass(frozen=True)
class Sizes:
    """Padded lengths. A batch that does not fit raises an error that names the list."""

    nodes: tuple[tuple[int, ...], ...]
    """[hop][node type]: the node list after each hop; one more than the most nodes that there may be."""
    edges: tuple[tuple[int, ...], ...]
    """[layer][edge type]"""
    seeds: tuple[int, ...]
    """[node type]: seeds as they were asked for, with repeats."""


def pad(batch: Typed, sizes: Union[str, Sizes], about: Optional[Mapping[str, Any]] = None) -> OwnArrays:
    """Copies a batch's arrays into padded shapes: "pow2" (the next powers of two), "max" (the sampler's bound: one
    shape for all), or Sizes. about is the server's description, which "max" needs."""
    if isinstance(sizes, str):
        if sizes == "pow2":
            sizes = _powers_of_two(batch)
        elif sizes == "max" and about is not None:
            sizes = most(batch.schema, about)
        else:
            raise ValueError(f'pad={sizes!r}: must be "pow2", "max" (as an option of the loader) or khop.padding.Sizes')
    if any(name.startswith("link/") for name in batch.names()):
        raise ValueError("pad=: batches whose seeds are edges are not padded")
    longer = _Longer(batch, sizes)
    longer.nodes()
    longer.rows()
    longer.sequences()
    for layer in range(batch.schema.layers):
        for e in range(len(batch.schema.edge_types)):
            longer.block(layer, e)
    return OwnArrays(longer.arrays, longer.dtypes)


class _Longer:
    """The arrays of a batch, made longer one by one."""

    def __init__(self, batch: Typed, sizes: Sizes) -> None:
        self.batch, self.sizes, self.schema, self.source = batch, sizes, batch.schema, batch._arrays()
        self.arrays: dict[str, NumpyArray] = {
            "num_nodes": np.array(sizes.nodes, np.int64), "real": np.array(batch._counts, np.int64)}
        self.dtypes = {**batch._dtypes(), "real": "int64"}

    def fill(self, name: str, n: int, what: str) -> None:
        a = self.source.numpy(name)[0]
        if len(a) > n:
            raise ValueError(f"batch {self.batch.number} has {len(a)} {what}, the padded shape {n}")
        out = np.zeros((n, *a.shape[1:]), a.dtype)
        out[:len(a)] = a
        self.arrays[name] = out

    def mask(self, name: str, real: int, n: int) -> None:
        self.arrays[name] = np.arange(n) < real
        self.dtypes[name] = "bool"

    def nodes(self) -> None:
        """Masks of nodes and of distinct seeds."""
        counts, nodes, last = self.batch._counts, self.sizes.nodes, self.schema.layers
        for t, name in enumerate(self.schema.node_types):
            for h in range(last + 1):
                if counts[h][t] >= nodes[h][t]:
                    raise ValueError(
                        f"batch {self.batch.number} has {counts[h][t]} nodes of type {name} after hop {h}, the padded "
                        f"shape {nodes[h][t]}, of which one is padding")
            self.mask(f"mask/node/{name}", counts[last][t], nodes[last][t])
            self.mask(f"mask/seed/{name}", counts[0][t], nodes[0][t])

    def rows(self) -> None:
        """Lists of nodes and seeds, and rows of columns."""
        schema, sizes = self.schema, self.sizes
        for name in self.source.names():
            kind, _, rest = name.partition("/")
            if kind in ("nodes", "node"):
                self.fill(name, sizes.nodes[schema.layers][schema.node(rest.split("/")[0])], "nodes")
            elif kind == "seed":
                self.fill(name, sizes.nodes[0][schema.node(rest.split("/")[0])], "seeds")
            elif kind in ("seeds", "input", "item"):
                self.fill(name, sizes.seeds[schema.node(rest)], "seeds")
            elif kind == "edge":
                layer, owner, _ = rest.split("/", 2)
                src, relation, dst = owner.split(":")
                n = sizes.edges[int(layer)][schema.edge((src, relation, dst))]
                self.fill(name, n, f"edges of type {owner} in layer {layer}")

    def sequences(self) -> None:
        """Rows of tokens, node type by node type. Those of padding seeds have none."""
        real = [self.source.shape(f"seeds/{name}")[0] for name in self.schema.node_types]
        for name in self.source.names():
            if name.startswith("sample/sequence"):
                parts = np.split(self.source.numpy(name)[0], np.cumsum(real)[:-1])
                none = 0 if name.endswith(("_age", "_weight")) else -1
                self.arrays[name] = np.concatenate([
                    np.pad(rows, ((0, n - len(rows)), (0, 0)), constant_values=none)
                    for rows, n in zip(parts, self.sizes.seeds)])

    def block(self, layer: int, e: int) -> None:
        """The edges of a type in a layer."""
        schema, sizes, source, edge_type = self.schema, self.sizes, self.source, self.schema.edge_types[e]
        owner, n = text(edge_type), sizes.edges[layer][e]
        prefix = f"block/{layer}/{owner}/"
        sources = sizes.nodes[schema.layers - layer][schema.node(edge_type[0])]
        targets = sizes.nodes[schema.layers - 1 - layer][schema.node(edge_type[2])]
        real = source.shape(prefix + "indices")[0]
        self.fill(prefix + "indices", n, f"edges of type {owner} in layer {layer}")
        self.arrays[prefix + "indices"][real:] = sources - 1
        indptr = source.numpy(prefix + "indptr")[0]
        self.arrays[prefix + "indptr"] = out = np.full(targets + 1, real, indptr.dtype)
        out[:len(indptr)] = indptr
        out[-1] = n  # the last padding node has the padding edges
        if source.has(prefix + "edge_pos"):
            self.fill(prefix + "edge_pos", n, "edges")
        self.mask(f"mask/edge/{layer}/{owner}", real, n)


def _powers_of_two(batch: Typed) -> Sizes:
    schema, source = batch.schema, batch._arrays()
    blocks = [[f"block/{layer}/{text(e)}/indices" for e in schema.edge_types] for layer in range(schema.layers)]
    return Sizes(
        nodes=tuple(tuple(_power(n + 1) for n in row) for row in batch._counts),
        edges=tuple(tuple(_power(source.shape(name)[0]) for name in names) for names in blocks),
        seeds=tuple(_power(source.shape(f"seeds/{t}")[0]) for t in schema.node_types),
    )


def _power(n: int) -> int:
    """The smallest power of two that is not below n, and 1 or more."""
    return 1 << max(0, n - 1).bit_length()


def most(schema: Schema, about: Mapping[str, Any]) -> Sizes:
    """Returns the most that the neighbour sampler can reach: the products of the fan-outs, or all that the graph
    has."""
    row = re.match(r"sequence sequence=(\d+) ", str(about.get("sampler")))
    if row is not None and isinstance(about.get("batch_size"), int):
        return _most_of_sequences(schema, about["batch_size"], int(row[1]))
    found = re.match(r"neighbor fanouts=(.+) replace=(true|false) frontier=(all|new)$", str(about.get("sampler")))
    batch_size = about.get("batch_size")
    if found is None or not isinstance(batch_size, int):
        raise ValueError(f'pad="max": the sampler ({about.get("sampler")}) has no bounds that khop knows: '
                         'use "pow2" or khop.padding.Sizes')
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
        raise ValueError(
            'pad="max": there is no bound for a fan-out of -1 if the server does not send the graph\'s size')
    return Sizes(tuple(nodes), tuple(reversed(edges)), tuple(batch_size for _ in every))


def _most_of_sequences(schema: Schema, seeds: int, length: int) -> Sizes:
    counts = [n if n >= 0 else 1 << 62 for n in schema.node_counts]
    nodes = tuple(tuple(min(most, n) + 1 for n in counts) for most in (seeds, seeds * (1 + length)))
    return Sizes(nodes, ((0,) * len(schema.edge_types),), (seeds,) * len(counts))


def _fanouts(spelled: str, edge_types: Sequence[EdgeType]) -> list[list[int]]:
    """A list of fan-outs an edge type, of "15,10" or "*=5;cites=15,10"."""
    def numbers(s: str) -> list[int]:
        return [int(k) for k in s.split(",")]
    if "=" not in spelled:
        return [numbers(spelled) for _ in edge_types]
    given = {name: numbers(k) for name, _, k in (part.rpartition("=") for part in spelled.split(";"))}
    return [given.get(text(e), given.get(e[1], given.get("*", [0]))) for e in edge_types]
