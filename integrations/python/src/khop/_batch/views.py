"""Views of a batch's nodes and edges of one type. They hold the batch, and no array of their own."""

from __future__ import annotations

from typing import Any, Callable, Optional, Union, overload

import numpy as np

from . import rows
from .contents import Contents
from .frameworks import Array
from .schema import FEATURE, LABEL, TIME, WEIGHT, EdgeType, columns_of, text


class NodeView:
    """The nodes of one type in a batch. Any loaded column is an attribute and an item: ``view["year"]``."""

    __slots__ = ("_batch", "_t", "type")

    def __init__(self, batch: Contents, t: int) -> None:
        self._batch, self._t, self.type = batch, t, batch.schema.node_types[t]

    @property
    def x(self) -> Array:
        """Features [num_nodes, width]."""
        return self._batch._attribute(self.type, FEATURE)

    @property
    def y(self) -> Array:
        """Labels of the distinct seeds [batch_size, ..]."""
        return self._batch._attribute(self.type, LABEL)

    @property
    def n_id(self) -> Array:
        """Ids of the nodes in the dataset, the seeds first [num_nodes]."""
        return self._batch.array(f"nodes/{self.type}")

    @property
    def seeds(self) -> Array:
        """Position in n_id of each seed, repeats included: 0, 1, 2, .. unless seeds repeat."""
        return self._batch.array(f"seeds/{self.type}")

    @property
    def input_node(self) -> Array:
        """Id of each seed, repeats included."""
        return self._batch.array(f"input/{self.type}")

    @property
    def input_id(self) -> Array:
        """Positions of the seeds in the list of seeds, repeats included."""
        return self._batch.array(f"item/{self.type}")

    @property
    def label(self) -> Array:
        """Labels of a task's rows, one for each seed, repeats included."""
        return self._batch.array(f"task/{self.type}/label")

    @property
    def seed_time(self) -> Array:
        """Times of a task's rows, one for each seed, repeats included."""
        return self._batch.array(f"task/{self.type}/time")

    @property
    def seed_start_time(self) -> Array:
        """First times of a task's rows, one for each seed, repeats included."""
        return self._batch.array(f"task/{self.type}/from")

    @property
    def batch_size(self) -> int:
        """The number of distinct seeds of this type, which are its first nodes."""
        return self._batch._counts[0][self._t]

    @property
    def num_nodes(self) -> int:
        return self._batch._counts[-1][self._t]

    @property
    def num_sampled_nodes(self) -> list[int]:
        """How many nodes each hop added; the first number counts the seeds."""
        counts = [row[self._t] for row in self._batch._counts]
        return [b - a for a, b in zip([0, *counts], counts)]

    def columns(self) -> tuple[str, ...]:
        """The loaded columns, of all nodes or of the seeds."""
        return self._batch._columns(self.type)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The nodes as a table: n_id, and columns where they lie (Arrow's PyCapsule interface)."""
        return rows.of_nodes(self._batch, self.type)

    def __getitem__(self, column: str) -> Array:
        """A row for each node, or where the column was asked for seeds only, a row for each distinct seed."""
        try:
            return self._batch._attribute(self.type, column)
        except AttributeError as e:
            raise KeyError(e.args[0]) from None

    def __getattr__(self, name: str) -> Array:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._batch._attribute(self.type, name)


class EdgeView:
    """The edges of one type in a batch, hop after hop from the seeds on."""

    __slots__ = ("_batch", "_e", "type")

    def __init__(self, batch: Contents, e: int) -> None:
        self._batch, self._e, self.type = batch, e, batch.schema.edge_types[e]

    @property
    def blocks(self) -> list[Block]:
        """One block per layer, the furthest from the seeds first."""
        return [Block(self._batch, layer, self.type, name) for layer,
                name in enumerate(self._batch.schema.block_names[self._e])]

    @property
    def edge_index(self) -> Array:
        """Sources and destinations, as positions in n_id of their types [2, edges]. A copy, since blocks are CSC; made
        once.

        Edges come hop after hop, as num_sampled_edges counts them. With frontier "all" a node that several hops expand
        has the neighbours of each: use blocks for the edges of one layer.
        """
        return self._batch._cached(f"edge_index/{text(self.type)}",
                                   lambda: self._batch._edge_index([b._name for b in self._parts()]))

    @property
    def edge_pos(self) -> Array:
        """Positions of the edges in the dataset's CSC. With frontier "all" they are a copy, joined from the blocks."""
        return self._joined("edge_pos", lambda b: b.edge_pos)

    @property
    def e_id(self) -> Array:
        """Ids of the edges in the graph that was converted: column edge_id, or edge_pos if the dataset has no such
        column."""
        return self["edge_id"] if "edge_id" in self.columns() else self.edge_pos

    @property
    def edge_attr(self) -> Array:
        """Edge features, column feature."""
        return self._attribute(FEATURE)

    @property
    def edge_weight(self) -> Array:
        """Column weight."""
        return self._attribute(WEIGHT)

    @property
    def edge_time(self) -> Array:
        """Column time."""
        return self._attribute(TIME)

    @property
    def num_edges(self) -> int:
        return sum(self.num_sampled_edges)

    @property
    def num_sampled_edges(self) -> list[int]:
        """How many edges each hop added."""
        counts = [b.num_edges for b in reversed(self.blocks)]
        if not self._batch.schema.new_nodes:
            return counts
        return [b - a for a, b in zip([0, *counts], counts)]

    # --- seeds that are edges ---

    @property
    def edge_label_index(self) -> Array:
        """Ends of this type's seed edges, then of their negatives, as positions in n_id of their types [2, edges]. A
        copy, made once."""
        def make() -> Array:
            return self._batch._framework.cat(self._ends()).reshape(2, -1)
        return self._batch._cached(f"edge_label_index/{text(self.type)}", make)

    @property
    def edge_label(self) -> Array:
        """Labels of seed edges and negatives: 0 for negatives, 1 for seeds without a label."""
        return self._link("label")

    @property
    def edge_label_time(self) -> Array:
        """Times of the seeds and negatives."""
        return self._link("time")

    @property
    def edge_label_start_time(self) -> Array:
        """First times of the seeds and negatives."""
        return self._link("from")

    @property
    def has_times(self) -> bool:
        """Whether this type's seeds have times."""
        return self._batch._find(f"link/{text(self.type)}/time") is not None

    @property
    def edge_label_group(self) -> Array:
        """The seed that each edge belongs to, as its place among this type's seeds in the batch: a seed's own, and for
        a negative the seed that it was drawn for."""
        return self._link("group")

    @property
    def input_id(self) -> Array:
        """Positions of the seeds in the list of seeds."""
        return self._link("item")

    @property
    def num_links(self) -> tuple[int, int, int]:
        """The numbers of seed edges of this type, of their negatives, and of negatives that were not found."""
        if not self._batch._arrays().has(f"link/{text(self.type)}/counts"):
            return 0, 0, 0
        seeds, negatives, missed = self._batch._arrays().numpy(f"link/{text(self.type)}/counts")[0].tolist()
        return seeds, negatives, missed

    @property
    def src_index(self) -> Array:
        """Sources of the seeds, as positions in n_id [seeds]."""
        return self._ends()[0][:self.num_links[0]]

    @property
    def dst_pos_index(self) -> Array:
        """Targets of the seeds [seeds]."""
        return self._ends()[1][:self.num_links[0]]

    @property
    def dst_neg_index(self) -> Array:
        """With triplets=True, the targets of each seed's negatives [seeds, ratio]."""
        return self._negatives(1)

    @property
    def src_neg_index(self) -> Array:
        """With triplets=True and corrupt="source", the sources of each seed's negatives [seeds, ratio]."""
        return self._negatives(0)

    def _negatives(self, end: int) -> Array:
        seeds, negatives, _ = self.num_links
        if seeds and negatives % seeds:
            raise AttributeError(f"{negatives} negatives do not make a row for each of {seeds} seeds: make the loader "
                                 "with triplets=True")
        return self._ends()[end][seeds:].reshape(seeds, negatives // max(seeds, 1))

    def _ends(self) -> list[Array]:
        """Sources and targets of the seeds and negatives: views of the types' seeds, where the ends stand type by
        type."""
        batch = self._batch
        at = {t: len(batch.array(f"input/{t}")) for t in (self.type[0], self.type[2])}
        for e in range(self._e + 1):
            view = EdgeView(batch, e)
            n, ends = sum(view.num_links[:2]), []
            for t in (view.type[0], view.type[2]):
                begin = at.get(t, 0)
                at[t] = begin + n
                if e == self._e:
                    ends.append(batch.array(f"seeds/{t}")[begin:begin + n])
        return ends

    def _link(self, what: str) -> Array:
        value = self._batch._find(f"link/{text(self.type)}/{what}")
        if value is None:
            raise AttributeError(f"edge type {self.type!r} has no {what}s of seeds: the loader's seeds are "
                                 f"edges of another type, or nodes, or have no {what}s")
        return value

    def columns(self) -> tuple[str, ...]:
        """The loaded columns."""
        return tuple(columns_of(self._batch.names()).get(f"edge/0/{text(self.type)}/", ()))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The edges as a table: src and dst, ids in the dataset, and columns (Arrow's PyCapsule interface)."""
        return rows.of_edges(self)

    def __getitem__(self, column: str) -> Array:
        """A row for each edge, in the order of edge_index. Copied together from the blocks with frontier "all"."""
        if column not in self.columns():
            raise KeyError(f"edge type {self.type!r} has no column {column!r} in this batch; it has: "
                           f"{', '.join(self.columns()) or 'none'}")
        return self._joined(column, lambda b: b[column])

    def _attribute(self, column: str) -> Array:
        try:
            return self[column]
        except KeyError as e:
            raise AttributeError(e.args[0]) from None

    def _parts(self) -> list[Block]:
        """The blocks whose edges together are all edges, in the order of hops."""
        return self.blocks[:1] if self._batch.schema.new_nodes else self.blocks[::-1]

    def _joined(self, what: str, of: Callable[[Block], Array]) -> Array:
        parts = self._parts()
        if len(parts) == 1:
            return of(parts[0])
        return self._batch._cached(f"edges/{text(self.type)}/{what}",
                                   lambda: self._batch._framework.cat([of(b) for b in parts]))


class Block:
    """One layer of one edge type: a CSC over positions in n_id. Destination i's sources are
    indices[indptr[i]:indptr[i+1]]."""

    __slots__ = ("_batch", "_name", "layer", "type")

    def __init__(self, batch: Contents, layer: int, type: EdgeType, name: str) -> None:
        self._batch, self.layer, self.type, self._name = batch, layer, type, name

    @property
    def indptr(self) -> Array:
        """Where each destination's edges begin [num_dst + 1]."""
        return self._batch.array(self._name + "indptr")

    @property
    def indices(self) -> Array:
        """Sources [num_edges]."""
        return self._batch.array(self._name + "indices")

    @property
    def edge_pos(self) -> Array:
        """Positions in the dataset's CSC [num_edges], with edge_pos=True."""
        value = self._batch._find(self._name + "edge_pos")
        if value is None:
            raise AttributeError("no edge positions in this batch: make the loader with edge_pos=True")
        return value

    @property
    def num_edges(self) -> int:
        return self._batch._arrays().shape(self._name + "indices")[0]

    @property
    def num_src(self) -> int:
        """The number of possible sources, which are the first nodes of their type."""
        return self._count(self._batch.schema.layers - self.layer, 0)

    @property
    def num_dst(self) -> int:
        """The number of destinations, which are the first nodes of their type."""
        return self._count(self._batch.schema.layers - 1 - self.layer, 2)

    def _count(self, hop: int, end: int) -> int:
        return self._batch._counts[hop][self._batch.schema.node(self.type[end])]

    @property
    def edge_index(self) -> Array:
        """Sources and destinations [2, num_edges]. A copy, made at each call."""
        return self._batch._edge_index([self._name])

    def rows(self, width: Optional[int] = None) -> tuple[Array, Array, Array]:
        """Returns the edges of each destination as a row of an array [num_dst, width], as temporal models take
        neighbours: the sources, which of them exist, and their edges' places in the block, for its columns:
        ``block["time"][e]``.

        Without width rows are as long as the longest. With it longer ones lose their first edges, so that if in-edges
        are in the order of time the most recent stay, the latest at the end. Where there is no edge, source and edge
        are 0. These are copies, made at each call.
        """
        f = self._batch._framework
        ends = f.numpy(self.indptr).astype(np.int64)
        count = np.diff(ends)
        width = int(count.max(initial=0)) if width is None else width
        place = ends[1:, None] - np.minimum(count, width)[:, None] + np.arange(width)
        there = place < ends[1:, None]
        place = np.where(there, place, 0)
        sources = f.numpy(self.indices)
        at = sources[place] if len(sources) else place.astype(sources.dtype)
        device = getattr(self.indices, "device", "cpu")
        made = [f.to(f.wrap(a, a.dtype.name), device, False) for a in (at, there, place)]
        return made[0], made[1], made[2]

    def __getitem__(self, column: str) -> Array:
        """A column, a row for each edge."""
        return self._batch.array(f"edge/{self.layer}/{text(self.type)}/{column}")

    def __repr__(self) -> str:
        return (f"<khop.Block layer {self.layer} {text(self.type)}: {self.num_src} -> {self.num_dst}, "
                f"{self.num_edges} edges>")


class Typed(Contents):
    """A batch by its types of nodes and edges."""

    __slots__ = ()

    @overload
    def __getitem__(self, key: str) -> NodeView: ...

    @overload
    def __getitem__(self, key: EdgeType) -> EdgeView: ...

    def __getitem__(self, key: Union[str, EdgeType]) -> Union[NodeView, EdgeView]:
        if isinstance(key, str):
            return NodeView(self, self.schema.node(key))
        return EdgeView(self, self.schema.edge(key))

    @property
    def node_types(self) -> tuple[str, ...]:
        return self.schema.node_types

    @property
    def edge_types(self) -> tuple[EdgeType, ...]:
        return self.schema.edge_types

    @property
    def num_nodes(self) -> int:
        """The number of nodes, of all types."""
        return sum(self._counts[-1])
