"""ShaDowKHopSampler and the samplers of GraphSAINT: loaders of subgraphs with all edges between their nodes."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import torch
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.data import Data

from .._batch.batch import Batch
from .._peers.arguments import check_batches, combined, epochs
from .._loader.loader import Loader
from .._batch.schema import EDGE_NAMES, NODE_NAMES
from .served import Served, without_workers
from .structure import OfDataset, Structure, structure_of


def _places(number: int) -> Any:
    """What torch's DataLoader takes for the seeds: it counts them alone."""
    return range(number)


class _Sorted:
    """A subgraph's nodes by tree and id, and its edges by source and target, as PyG lists them."""

    def __init__(self, structure: Structure, batch: Batch, tree: Any = None) -> None:
        view = batch[structure.node_type(None)]
        key = view.n_id.long()
        if tree is not None and len(key):
            key = tree * (int(key.max()) + 1) + key
        self.nodes = torch.argsort(key)
        self.n_id = view.n_id[self.nodes]
        self.at = torch.empty_like(self.nodes)
        self.at[self.nodes] = torch.arange(len(self.nodes))
        index, e_id = structure.edges(batch, None)
        row, col = self.at[index]
        self.edges = torch.sort(row * max(len(self.nodes), 1) + col, stable=True)[1]
        self.edge_index = torch.stack([row[self.edges], col[self.edges]])
        self.e_id = e_id[self.edges]


class _Subgraphs(Served, torch.utils.data.DataLoader):  # type: ignore[type-arg]
    """A loader of subgraphs of a graph with one type of nodes and of edges."""

    def _structure_of(self, data: Any, backward: bool = False) -> Structure:
        if not isinstance(data, (Data, str, bytes)) and not hasattr(data, "__fspath__"):
            what = type(data).__name__
            raise TypeError(f"data: {what}: {type(self).__name__} takes a Data, or the path of a dataset")
        structure = structure_of(data, backward=backward and isinstance(data, Data))
        if structure.node_types != [None]:
            raise TypeError(f"{type(self).__name__}: the dataset has several types: take HGTLoader or NeighborLoader")
        return structure

    def _fill(self, out: Any, batch: Batch, part: _Sorted, roots: Any = None) -> None:
        """The attributes of the subgraph's nodes and edges; of y, those of the roots where there are any."""
        structure, whole = self._structure, self._structure.data
        if structure.dataset:
            nodes, edges = batch[structure.node_type(None)], batch[structure.edge_type(None)]
            for column in nodes.columns():
                name, rows = NODE_NAMES.get(column, column), nodes[column][part.nodes]
                out[name] = rows if roots is None or name != "y" else rows[roots]
            for column in edges.columns():
                out[EDGE_NAMES.get(column, column)] = edges[column][part.edges]
            return
        for name, value in whole:
            if name in ("edge_index", "adj_t", "num_nodes", "batch", "ptr"):
                continue
            tensor = isinstance(value, torch.Tensor) and value.dim() > 0
            if tensor and value.size(0) == whole.num_nodes:
                out[name] = value[part.n_id if roots is None or name != "y" else part.n_id[roots]]
            elif tensor and value.size(0) == whole.num_edges:
                out[name] = value[part.e_id]
            else:
                out[name] = value


class ShaDowKHopSampler(_Subgraphs):
    """torch_geometric.loader.ShaDowKHopSampler; docs/migrating.md lists what differs.

    data is a Data, or the path of a dataset of khop, where node_idx may also name a split. seed, options and options of
    worker processes are as in NeighborLoader.
    """

    def __init__(
        self, data: Any, depth: int, num_neighbors: int, node_idx: Any = None, replace: bool = False, *,
        batch_size: int = 1, shuffle: bool = False, drop_last: bool = False, seed: Optional[int] = None,
        options: Optional[Mapping[str, Any]] = None, **kwargs: Any,
    ) -> None:
        without_workers(ShaDowKHopSampler, kwargs)
        how = epochs(options, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, seed=seed)
        self._structure = structure = self._structure_of(data)
        self.data, self.depth, self.num_neighbors, self.replace = structure.data, depth, num_neighbors, replace
        self._transposed = None if structure.dataset else structure.data.get("adj_t")
        number: int
        seeds: Any
        if isinstance(node_idx, str):
            if not isinstance(structure, OfDataset):
                raise ValueError(f"node_idx={node_idx!r}: must be nodes, a mask, or a split of a dataset")
            structure.check_split("node_idx", node_idx)
            self.node_idx, number, seeds = None, structure.splits[node_idx], node_idx
        else:
            if node_idx is None:
                node_idx, seeds = torch.arange(structure.data.num_nodes), "all"
            else:
                node_idx = torch.as_tensor(node_idx)
                node_idx = node_idx.nonzero().view(-1) if node_idx.dtype == torch.bool else node_idx
                seeds = {structure.node_type(None): node_idx}
            self.node_idx, number = node_idx, len(node_idx)
        own = dict(sampler="shadow", fanouts=[num_neighbors] * depth, replace=replace, seeds=seeds)
        self._how = {**combined(own, options), **how}
        del how["seed"]
        super().__init__(_places(number), **how)

    def __iter__(self) -> Any:
        structure = self._structure
        for batch in self._batches():
            view = batch[structure.node_type(None)]
            tree = batch.array(f"sample/tree/{view.type}").long()
            part = _Sorted(structure, batch, tree)
            trees = tree[part.nodes]
            sizes = torch.bincount(trees, minlength=len(view.seeds))
            out = PyGBatch(batch=trees, ptr=torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))
            out.root_n_id = part.at[view.seeds]
            if self._transposed is None:
                out.edge_index = part.edge_index
            else:
                out.adj_t = self._adjacency(part)
            self._fill(out, batch, part, out.root_n_id)
            yield out

    def _adjacency(self, part: _Sorted) -> Any:
        """The subgraph as the data has its edges: a transposed SparseTensor."""
        given: Any = self._transposed
        if not hasattr(given, "coo"):
            raise TypeError("ShaDowKHopSampler: adj_t must be a SparseTensor of torch-sparse: take edge_index")
        value, n = given.coo()[2], len(part.n_id)
        row, col = part.edge_index
        return type(given)(row=col, col=row, value=None if value is None else value[part.e_id], sparse_sizes=(n, n))


_ARGUMENTS = {"budget": "batch_size", "steps": "num_steps", "coverage": "sample_coverage", "length": "walk_length"}
"""PyG's arguments that stand for options of khop with other names."""


class GraphSAINTSampler(_Subgraphs):
    """Base of the samplers of GraphSAINT: torch_geometric.loader.GraphSAINTSampler.

    data is a Data, or the path of a dataset of khop. seed, options and options of worker processes are as in
    NeighborLoader. save_dir and log are accepted and have no effect: khop estimates norms anew, in its server.
    """

    _sampler = ""
    _backward = False

    def __init__(
        self, data: Any, batch_size: int, num_steps: int = 1, sample_coverage: int = 0, save_dir: Optional[str] = None,
        log: bool = True, *, shuffle: bool = False, drop_last: bool = False, seed: Optional[int] = None,
        options: Optional[Mapping[str, Any]] = None, **kwargs: Any,
    ) -> None:
        if not self._sampler:
            raise TypeError("GraphSAINTSampler: take GraphSAINTNodeSampler, GraphSAINTEdgeSampler or "
                            "GraphSAINTRandomWalkSampler")
        without_workers(type(self), kwargs)
        check_batches(shuffle, batch_size, drop_last)
        how = epochs(options, seed=seed)
        if how["batch_size"] != 1:
            raise TypeError("options={'batch_size': ..}: batch_size= is the budget of a subgraph")
        for name in ("node_norm", "edge_norm"):
            if isinstance(data, Data) and name in data:
                raise ValueError(f"data has an attribute {name!r}, which the sampler writes over: name it otherwise")
        self._structure = self._structure_of(data, backward=self._backward)
        self.data, self.num_steps, self.sample_coverage = self._structure.data, num_steps, sample_coverage
        self.N, self.E = self.data.num_nodes, self.data.num_edges
        own = dict(sampler=self._sampler, budget=batch_size, steps=num_steps, coverage=sample_coverage, **self._more())
        self._how = {**combined(own, options, _ARGUMENTS), **how}
        super().__init__(_places(num_steps), batch_size=1)

    def _more(self) -> dict[str, Any]:
        return {}

    def __iter__(self) -> Any:
        structure = self._structure
        for batch in self._batches():
            part = _Sorted(structure, batch)
            out = Data(edge_index=part.edge_index)
            out.num_nodes = len(part.n_id)
            self._fill(out, batch, part)
            if self.sample_coverage > 0:
                out.node_norm, out.edge_norm = self._norms(batch, part)
            yield out

    def _norms(self, batch: Batch, part: _Sorted) -> tuple[Any, Any]:
        """PyG's norms: of an edge, how often its source was drawn, where khop counts the end that has it as in-edge."""
        structure = self._structure
        nodes = batch.array(f"sample/node_norm/{structure.node_type(None)}")[part.nodes]
        edges = batch.array(f"sample/edge_norm/{':'.join(structure.edge_type(None))}")[part.edges]
        if not structure.backward:
            source, target = part.edge_index
            edges = edges * (nodes[target] / nodes[source])
        return nodes, edges


class GraphSAINTNodeSampler(GraphSAINTSampler):
    """torch_geometric.loader.GraphSAINTNodeSampler: draws batch_size nodes, each the source of a drawn edge."""

    _sampler = "saint-node"


class GraphSAINTEdgeSampler(GraphSAINTSampler):
    """torch_geometric.loader.GraphSAINTEdgeSampler: draws both ends of batch_size edges, as in the paper."""

    _sampler = "saint-edge"


class GraphSAINTRandomWalkSampler(GraphSAINTSampler):
    """torch_geometric.loader.GraphSAINTRandomWalkSampler: draws walks of walk_length steps from batch_size nodes.

    Walks follow edges from source to target, as in PyG; those of a dataset from target to source.
    """

    _sampler = "saint-walk"
    _backward = True

    def __init__(
        self, data: Any, batch_size: int, walk_length: int, num_steps: int = 1, sample_coverage: int = 0,
        save_dir: Optional[str] = None, log: bool = True, **kwargs: Any,
    ) -> None:
        self.walk_length = walk_length
        super().__init__(data, batch_size, num_steps, sample_coverage, save_dir, log, **kwargs)

    def _more(self) -> dict[str, Any]:
        return {"length": self.walk_length}
