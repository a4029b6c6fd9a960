"""A mini-batch: the sample, and its columns."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Tuple, Type, Union

import numpy as np

from .. import padding
from . import convert, html
from . import digest as _digest
from .arrays import Arrays, Converted, OwnArrays
from .contents import Info
from .._feed.device import DeviceArrays
from .frameworks import Array, NumpyArray, framework
from ..profiling import shown
from .sequences import Sequences
from .schema import FEATURE, LABEL, EdgeType, Schema, text
from .views import Block, EdgeView, NodeView, Typed


class Batch(Typed):
    """One mini-batch. Its arrays are views of the loader's memory, without a copy, unless their comment says otherwise.

    You may write to them. As long as one of them is alive, nothing else changes the memory: it goes back to the server
    when the last array is gone, or at release(). Arrays are made at the first access.

    A batch of a graph with one node type and one edge type has the fields of both: ``batch.x``, ``batch.edge_index``.
    On typed graphs they belong to ``batch["paper"]`` and ``batch["paper", "cites", "paper"]``.
    """

    __slots__ = ()

    # --- types ---

    @property
    def _node_type(self) -> str:
        types = self.schema.node_types
        if len(types) != 1:
            raise AttributeError(f'there are several node types: say which, as in batch["{types[0]}"]')
        return types[0]

    def _node(self) -> NodeView:
        return self[self._node_type]

    def _edge(self) -> EdgeView:
        if len(self.schema.edge_types) != 1:
            raise AttributeError(f"there are several edge types: say which, as in batch[{self.schema.edge_types[0]!r}]")
        return EdgeView(self, 0)

    def _linked(self) -> Optional[EdgeView]:
        """The edge type that has seeds; None where seeds are nodes, or edges of several types."""
        has = self._arrays().has
        views = [EdgeView(self, e) for e, t in enumerate(self.schema.edge_types) if has(f"link/{text(t)}/counts")]
        return views[0] if len(views) == 1 else None

    def _links(self) -> EdgeView:
        view = self._linked()
        if view is None:
            first = self.schema.edge_types[0]
            raise AttributeError(f"seeds are nodes, or edges of several types: then say which, as in batch[{first!r}]")
        return view

    # --- seeds that are edges, of one type ---

    @property
    def edge_label_index(self) -> Array:
        """Ends of the seed edges, then of their negatives, as positions in n_id [2, edges]. A copy, made once."""
        return self._links().edge_label_index

    @property
    def edge_label(self) -> Array:
        """Labels of seed edges and negatives: 0 for negatives, 1 for seeds without a label."""
        return self._links().edge_label

    @property
    def edge_label_time(self) -> Array:
        return self._links().edge_label_time

    @property
    def edge_label_start_time(self) -> Array:
        return self._links().edge_label_start_time

    @property
    def edge_label_group(self) -> Array:
        """The seed that each edge belongs to, as its place among the batch's seeds: a seed's own, and for a negative
        the seed that it was drawn for."""
        return self._links().edge_label_group

    @property
    def src_index(self) -> Array:
        """Sources of the seed edges, as positions in n_id."""
        return self._links().src_index

    @property
    def dst_pos_index(self) -> Array:
        """Targets of the seed edges, as positions in n_id."""
        return self._links().dst_pos_index

    @property
    def dst_neg_index(self) -> Array:
        """With triplets=True, the targets of each seed's negatives [seeds, ratio]."""
        return self._links().dst_neg_index

    @property
    def src_neg_index(self) -> Array:
        """With triplets=True and corrupt="source", the sources of each seed's negatives [seeds, ratio]."""
        return self._links().src_neg_index

    @property
    def sequences(self) -> Sequences:
        """With sequence=LENGTH, a row of tokens for each seed (Sequences)."""
        return Sequences(self)

    # --- graphs with one type of each ---

    @property
    def x(self) -> Array:
        """Features [nodes, width]; None in a batch without them, as in PyG."""
        if FEATURE not in self._columns(self._node_type):
            return None
        return self._attribute(self._node_type, FEATURE)

    @property
    def y(self) -> Array:
        """Labels of the distinct seeds [batch_size, ..]."""
        return self._attribute(self._node_type, LABEL)

    @property
    def n_id(self) -> Array:
        """Ids of the nodes in the dataset, the seeds first [nodes]."""
        return self.array(f"nodes/{self._node_type}")

    @property
    def input_id(self) -> Array:
        """Positions of the seeds in the list of seeds, repeats included."""
        return self._node().input_id if self._linked() is None else self._links().input_id

    @property
    def label(self) -> Array:
        """Labels of a task's rows, one for each seed, repeats included."""
        return self._seeded().label

    @property
    def seed_time(self) -> Array:
        """Times of a task's rows, one for each seed, repeats included."""
        return self._seeded().seed_time

    def _seeded(self) -> NodeView:
        """The nodes of the type that has a task's rows."""
        types = [t for t in self.node_types if f"task/{t}/label" in self]
        if len(types) != 1:
            raise AttributeError("the seeds are not rows of one task with labels: seeds=\"task:NAME:train\"")
        return self[types[0]]

    @property
    def batch_size(self) -> int:
        """The number of distinct seeds, which are the first nodes. On typed graphs it counts the node type that has the
        seeds."""
        if len(self.schema.node_types) == 1:
            return self._counts[0][0]
        seeded = [n for n in self._counts[0] if n]
        if len(seeded) > 1:
            raise AttributeError('several node types have seeds: say which, as in batch["paper"].batch_size')
        return seeded[0] if seeded else 0

    @property
    def num_sampled_nodes(self) -> list[int]:
        """How many nodes each hop added; the first number counts the seeds."""
        return self._node().num_sampled_nodes

    @property
    def edge_index(self) -> Array:
        """Sources and destinations as positions in n_id [2, edges]. A copy, made once; see EdgeView.edge_index."""
        return self._edge().edge_index

    @property
    def e_id(self) -> Array:
        return self._edge().e_id

    @property
    def edge_attr(self) -> Array:
        return self._edge().edge_attr

    @property
    def edge_weight(self) -> Array:
        return self._edge().edge_weight

    @property
    def edge_time(self) -> Array:
        return self._edge().edge_time

    @property
    def num_sampled_edges(self) -> list[int]:
        """How many edges each hop added."""
        return self._edge().num_sampled_edges

    @property
    def blocks(self) -> list[Block]:
        """One block per layer, the furthest from the seeds first."""
        return self._edge().blocks

    # --- devices ---

    def to(self, device: Any, non_blocking: bool = False) -> Batch:
        """Returns the batch with all arrays on a device. With non_blocking, from pinned memory, the slot of this batch
        stays taken until the copies are done."""
        with shown("khop.copy"):
            return self._to(device, non_blocking)

    def _to(self, device: Any, non_blocking: bool) -> Batch:
        f = self._framework
        values = {name: f.to(self.array(name), device, non_blocking) for name in self.names()}
        if all(values[name] is self._values[name] for name in values):
            return self
        for name, value in self._values.items():  # what was computed, such as edge_index
            if name not in values:
                values[name] = f.to(value, device, non_blocking)
        if non_blocking:
            _hold_until_copied(self, values)
        return self._with(values)

    def pin_memory(self, device: Any = None) -> Batch:
        """Returns the batch with its arrays in pinned memory: the batch itself if the ring is pinned or there is no
        GPU, else a copy."""
        torch = getattr(self._framework, "torch", None)
        if torch is None or not torch.cuda.is_available() or isinstance(self._source, DeviceArrays):
            return self
        if all(self.array(name).is_pinned() for name in self.names()):
            return self
        return self._with({name: self.array(name).pin_memory() for name in self.names()})

    def record_stream(self, stream: Any) -> None:
        """Tells torch's allocator that a CUDA stream uses the arrays. Arrays on the host are ignored. The memory of a
        batch that was made on a device stays until the stream has finished the work queued when the last array goes."""
        if isinstance(self._source, DeviceArrays):
            self._source.record_stream(stream)
        for value in self._values.values():
            if getattr(value, "is_cuda", False):
                value.record_stream(stream)

    def _with(self, values: Mapping[str, Array]) -> Batch:
        """A batch of the same content with other arrays for all names."""
        out = type(self).__new__(type(self))
        out.schema, out._info, out._framework, out._index = self.schema, self._info, self._framework, self._index
        out._table, out._values = self._counts, dict(values)
        out._source = Converted(self._dtypes(), out._values, self._framework)
        return out

    # --- the end ---

    def release(self) -> None:
        """Gives the memory back now. Call it if you keep no array: arrays that are still in use change their
        contents."""
        if self._source is not None:
            self._values.clear()
            source, self._source = self._source, None
            source.release()

    def copy(self) -> Batch:
        """Returns the batch in memory of its own, as pickling does."""
        rebuild, arguments = self.__reduce__()
        out: Batch = rebuild(*arguments)
        return out

    def __reduce__(self) -> Tuple[Callable[..., Any], Tuple[Any, ...]]:
        source = self._arrays()
        arrays = {n: np.array(source.numpy(n)[0], copy=True) for n in source.names()}
        return _rebuild, (
            type(self), self.schema, self.info, arrays, self._dtypes(), self._framework.name, str(self._index))

    # --- other forms ---

    def digest(self) -> str:
        """Returns the full digest, the last one that ``khop sample --digest`` prints (docs/digest.md). It needs
        xxhash."""
        return self.digests()[1]

    def digests(self) -> tuple[str, str]:
        """Returns the topology digest and the full digest, of the arrays as they are now."""
        source = self._arrays()
        return _digest.digests((n, *source.numpy(n)) for n in source.names())

    def to_pyg(self) -> Any:
        """Returns a torch_geometric Data, or HeteroData for a typed graph. edge_index is a copy; all else is the same
        memory."""
        return convert.to_pyg(self)

    def to_dgl(self) -> Any:
        """Returns DGL's triple: input nodes, output nodes, and a list of blocks with columns in srcdata, dstdata and
        edata.

        Without DGL the blocks are khop.blocks.Block, which has the same names.
        """
        return convert.to_dgl(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The nodes of a graph with one type of them as a table; else take ``batch["paper"]``. Edges are another:
        ``batch["paper", "cites", "paper"]``."""
        return self._node().__arrow_c_stream__()

    def pad(self, sizes: Any = "pow2") -> Padded:
        """Returns a copy of the batch in shapes that repeat, with masks (khop.padding)."""
        return self._padded(sizes)

    def _padded(self, sizes: Any, about: Optional[Mapping[str, Any]] = None) -> Padded:
        """As pad; about is what the server tells, for sizes="max"."""
        arrays = padding.pad(self, sizes, about)
        return Padded(self.schema, self.info, arrays, self._framework, str(self._index))

    def _repr_html_(self) -> str:
        return html.batch_html(self)

    def __repr__(self) -> str:
        if self._source is None:
            return f"<khop.Batch {self.number} of epoch {self.epoch}, released>"
        edges = sum(sum(EdgeView(self, e).num_sampled_edges) for e in range(len(self.edge_types)))
        seeds = sum(self._counts[0])
        return (f"<khop.Batch {self.number} of epoch {self.epoch}: {seeds} seeds, {self.num_nodes} nodes, "
                f"{edges} edges>")


class Padded(Batch):
    """A copy of a batch in padded shapes: x, y, n_id, edge_index, blocks and columns include the padding.

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
        """node_mask of one type."""
        return self.array(f"mask/node/{node_type}")

    def seed_mask_of(self, node_type: str) -> Array:
        """seed_mask of one type."""
        return self.array(f"mask/seed/{node_type}")

    def edge_mask_of(self, edge_type: EdgeType) -> Array:
        """edge_mask of one type."""
        return self[edge_type]._joined("mask", lambda b: b._batch.array(f"mask/edge/{b.layer}/{text(b.type)}"))

    def block_mask(self, layer: int, edge_type: Optional[EdgeType] = None) -> Array:
        """Which edges of a block are real."""
        return self.array(f"mask/edge/{layer}/{text(edge_type or self._edge().type)}")

    def digests(self) -> tuple[str, str]:
        raise TypeError("a padded batch has no digest: take that of the batch that it was made of")


def _rebuild(
    kind: Type[Batch], schema: Schema, info: Info, arrays: Mapping[str, NumpyArray], dtypes: Mapping[str, str],
    frame: str, index: str,
) -> Batch:
    return kind(schema, info, OwnArrays(arrays, dtypes), framework(frame), index)


def _hold_until_copied(batch: Batch, values: Mapping[str, Array]) -> None:
    """Keeps a batch's memory until the copies that torch has begun on the current CUDA stream are done."""
    if not any(getattr(v, "is_cuda", False) for v in values.values()):
        return
    torch = getattr(batch._framework, "torch")
    event = torch.cuda.Event()
    event.record()
    copying.append((event, batch._arrays()))
    forget_copied()


copying: list[tuple[Any, Arrays]] = []


def forget_copied() -> None:
    """Releases batches whose copies to a device are done. The loader calls it before it requests another batch."""
    while copying and copying[0][0].query():
        copying.pop(0)
