"""Blocks with DGL's names: DGL's own where it is installed, else Block."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Optional, Tuple, Union

from .views import Typed
from .schema import EdgeType

NID, EID = "_ID", "_ID"
"""Keys of the original ids of nodes and edges: DGL's dgl.NID and dgl.EID."""

_EdgeKey = Union[None, str, EdgeType]
_Edges = Tuple[Any, Any, int]  # indptr, indices, number of edges


class Space:
    """The nodes of a block, called as block.srcnodes("paper") or indexed as block.srcnodes["paper"].data."""

    def __init__(self, call: Callable[..., Any], get: Callable[[Any], Any]) -> None:
        self._call, self._get = call, get

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self._get(key)


class OfType:
    """The data of one type."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data


class OfTypes(Mapping[str, Any]):
    """The data of all types: plain values for one type, a mapping of types to values for several."""

    def __init__(self, of: Mapping[Any, dict[str, Any]], plain: bool) -> None:
        self._of, self._plain = of, plain

    def __getitem__(self, name: str) -> Any:
        if self._plain:
            return next(iter(self._of.values()))[name]
        found = {t: data[name] for t, data in self._of.items() if name in data}
        if not found:
            raise KeyError(name)
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        for t, v in ({next(iter(self._of)): value} if self._plain else value).items():
            self._of[t][name] = v

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for data in self._of.values() for name in data))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return repr({name: self[name] for name in self})


class Block:
    """One layer: for each edge type, its edges from source nodes to destination nodes. The destinations are the first
    source nodes of their type. It has the methods of DGL's blocks that describe structure and data, but passes no
    messages."""

    is_block = True

    def __init__(
        self, edges: Mapping[EdgeType, _Edges], sources: Mapping[str, int], targets: Mapping[str, int],
    ) -> None:
        self._edges, self._sources, self._targets = dict(edges), dict(sources), dict(targets)
        self._src: dict[str, dict[str, Any]] = {t: {} for t in self._sources}
        self._dst: dict[str, dict[str, Any]] = {t: {} for t in self._targets}
        self._edata: dict[EdgeType, dict[str, Any]] = {e: {} for e in self._edges}

    # --- types ---

    @property
    def canonical_etypes(self) -> list[EdgeType]:
        return list(self._edges)

    @property
    def etypes(self) -> list[str]:
        return [e[1] for e in self._edges]

    @property
    def srctypes(self) -> list[str]:
        return list(self._sources)

    @property
    def dsttypes(self) -> list[str]:
        return list(self._targets)

    ntypes = srctypes

    def _etype(self, of: _EdgeKey) -> EdgeType:
        found = [e for e in self._edges if of is None or of in (e, e[1])]
        if len(found) != 1:
            there_are = ", ".join(map(str, self._edges))
            raise KeyError(f"{'which' if found else 'no'} edge type {of!r}: there are {there_are}")
        return found[0]

    def _ntype(self, of: Optional[str], counts: Mapping[str, int]) -> str:
        if of is None and len(counts) == 1:
            return next(iter(counts))
        if of is None or of not in counts:
            raise KeyError(f"{'which' if of is None else 'no'} node type {of!r}: there are {', '.join(counts)}")
        return of

    # --- counts ---

    def num_src_nodes(self, ntype: Optional[str] = None) -> int:
        return sum(self._sources.values()) if ntype is None else self._sources[self._ntype(ntype, self._sources)]

    def num_dst_nodes(self, ntype: Optional[str] = None) -> int:
        return sum(self._targets.values()) if ntype is None else self._targets[self._ntype(ntype, self._targets)]

    def num_edges(self, etype: _EdgeKey = None) -> int:
        return sum(e[2] for e in self._edges.values()) if etype is None else self._edges[self._etype(etype)][2]

    number_of_src_nodes, number_of_dst_nodes, number_of_edges = num_src_nodes, num_dst_nodes, num_edges

    def in_degrees(self, v: Any = None, etype: _EdgeKey = None) -> Any:
        """Counts the in-edges of each destination, or of those in v."""
        indptr = self._edges[self._etype(etype)][0]
        degrees = indptr[1:] - indptr[:-1]
        return degrees if v is None else degrees[v]

    def out_degrees(self, u: Any = None, etype: _EdgeKey = None) -> Any:
        """Counts the out-edges of each source, or of those in u."""
        e = self._etype(etype)
        degrees = self._edges[e][1].long().bincount(minlength=self._sources[e[0]])
        return degrees if u is None else degrees[u]

    # --- structure ---

    def adj_tensors(self, fmt: str, etype: _EdgeKey = None) -> tuple[Any, ...]:
        """Returns for "csc" indptr, indices and an empty array, since edges are in order; for "coo" sources and
        destinations."""
        indptr, indices, _ = self._edges[self._etype(etype)]
        if fmt == "csc":
            return indptr, indices, indices[:0]
        if fmt == "coo":
            return self._ends(etype)
        raise ValueError(f"adj_tensors({fmt!r}): a block of khop has 'csc' and 'coo'")

    def _ends(self, etype: _EdgeKey = None, form: str = "uv", order: str = "eid") -> tuple[Any, ...]:
        indptr, indices, _ = self._edges[self._etype(etype)]
        numbers = indptr.new_tensor(range(len(indptr) - 1))
        target = numbers.repeat_interleave(indptr[1:] - indptr[:-1])
        return (indices, target) if form == "uv" else (indices, target, target.new_ones(len(target)).cumsum(0) - 1)

    @property
    def srcnodes(self) -> Any:
        def ids(ntype: Optional[str] = None) -> Any:
            return self._range(self._sources[self._ntype(ntype, self._sources)])
        return Space(ids, lambda t: OfType(self._src[t]))

    @property
    def dstnodes(self) -> Any:
        def ids(ntype: Optional[str] = None) -> Any:
            return self._range(self._targets[self._ntype(ntype, self._targets)])
        return Space(ids, lambda t: OfType(self._dst[t]))

    @property
    def edges(self) -> Any:
        return Space(lambda form="uv", order="eid", etype=None: self._ends(etype, form, order),
                      lambda e: OfType(self._edata[self._etype(e)]))

    def _range(self, n: int) -> Any:
        return next(iter(self._edges.values()))[0].new_ones(n).cumsum(0) - 1

    # --- data ---

    @property
    def srcdata(self) -> OfTypes:
        return OfTypes(self._src, len(self._src) == 1)

    @property
    def dstdata(self) -> OfTypes:
        return OfTypes(self._dst, len(self._dst) == 1)

    ndata = srcdata

    @property
    def edata(self) -> OfTypes:
        return OfTypes(self._edata, len(self._edata) == 1)

    def __getitem__(self, etype: _EdgeKey) -> Block:
        """The part of one edge type."""
        e = self._etype(etype)
        part = Block({e: self._edges[e]}, {e[0]: self._sources[e[0]]}, {e[2]: self._targets[e[2]]})
        part._src, part._dst, part._edata = {e[0]: self._src[e[0]]}, {e[2]: self._dst[e[2]]}, {e: self._edata[e]}
        return part

    @property
    def device(self) -> Any:
        return next(iter(self._edges.values()))[1].device

    def to(self, device: Any, non_blocking: bool = False) -> Block:
        """Returns the block with all arrays on a device."""
        def move(values: Mapping[Any, dict[str, Any]]) -> dict[Any, dict[str, Any]]:
            return {t: {k: v.to(device, non_blocking=non_blocking) for k, v in data.items()}
                    for t, data in values.items()}
        edges = {e: (p.to(device, non_blocking=non_blocking), i.to(device, non_blocking=non_blocking), n)
                 for e, (p, i, n) in self._edges.items()}
        out = Block(edges, self._sources, self._targets)
        out._src, out._dst, out._edata = move(self._src), move(self._dst), move(self._edata)
        return out

    def __repr__(self) -> str:
        def text(counts: Mapping[Any, int]) -> str:
            return str(next(iter(counts.values()))) if len(counts) == 1 else str(dict(counts))
        edges = {e: n for e, (_, _, n) in self._edges.items()}
        return (f"Block(num_src_nodes={text(self._sources)}, num_dst_nodes={text(self._targets)}, "
                f"num_edges={text(edges)})")


def blocks_of(batch: Typed) -> list[Any]:
    """Returns the layers of a batch, the furthest from the seeds first, with ids of nodes and edges and columns of
    edges."""
    try:
        import dgl
    except ImportError:
        dgl = None
    return [_block(dgl, batch, layer) for layer in range(batch.schema.layers)]


def _block(dgl: Any, batch: Typed, layer: int) -> Any:
    hop = batch.schema.layers - layer
    sources = dict(zip(batch.node_types, batch._counts[hop]))
    targets = dict(zip(batch.node_types, batch._counts[hop - 1]))
    parts = {e: batch[e].blocks[layer] for e in batch.edge_types}
    if dgl is None:
        block: Any = Block({e: (b.indptr, b.indices, b.num_edges) for e, b in parts.items()}, sources, targets)
    else:
        csc = {e: ("csc", (b.indptr, b.indices, b.indices.new_empty(0))) for e, b in parts.items()}
        block = dgl.create_block(csc, sources, targets)
    for e, b in parts.items():
        data = block.edges[e].data
        for column in batch[e].columns():
            data[column] = b[column]
        if "edge_id" in data:
            data[EID] = data["edge_id"].to(b.indices.dtype)
        elif f"block/{layer}/{':'.join(e)}/edge_pos" in batch:
            data[EID] = b.edge_pos.to(b.indices.dtype)
    for t in batch.node_types:
        ids = batch[t].n_id
        block.srcnodes[t].data[NID], block.dstnodes[t].data[NID] = ids[:sources[t]], ids[:targets[t]]
    return block
