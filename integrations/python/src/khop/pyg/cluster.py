"""ClusterData and ClusterLoader: parts of a partition by khop, in place of METIS's."""

from __future__ import annotations

import os
import sys
from typing import Any, Mapping, Optional

import torch
from torch_geometric.data import Data
from torch_geometric.loader import cluster as pyg

from .._peers.arguments import check_batches, check_options, combined, epochs
from .._native.scratch import Scratch
from .._peers.graph_source import partition
from .served import Served, without_workers
from .structure import Structure, structure_of

class ClusterData(pyg.ClusterData):  # type: ignore[misc]
    """torch_geometric.loader.ClusterData with khop's partition; recursive is accepted and has no effect.

    data is a Data, or the path of a dataset of khop. The parts of a dataset are a file, in save_dir if that is given;
    ClusterLoader iterates over them, and they have no index.
    """

    def __init__(
        self, data: Any, num_parts: int, recursive: bool = False, save_dir: Optional[str] = None,
        filename: Optional[str] = None, log: bool = True, keep_inter_cluster_edges: bool = False,
        sparse_format: str = "csr",
    ) -> None:
        self.structure: Optional[Structure] = None
        if isinstance(data, Data):
            super().__init__(
                data, num_parts, recursive, save_dir, filename, log, keep_inter_cluster_edges, sparse_format)
            return
        self.structure = structure_of(data)
        if not self.structure.dataset or self.structure.node_types != [None]:
            raise TypeError("ClusterData: takes a Data, or the path of a dataset with one type of nodes and of edges")
        if keep_inter_cluster_edges:
            raise TypeError("ClusterData: keep_inter_cluster_edges is for a Data in memory; batches of a dataset "
                            "have the edges within a batch")
        self.num_parts, self.recursive, self.keep_inter_cluster_edges = num_parts, recursive, False
        self.sparse_format, self.data = sparse_format, self.structure.data
        folder = save_dir and os.path.join(save_dir, f"part_{num_parts}")
        if folder:
            os.makedirs(folder, exist_ok=True)
        else:
            self._scratch = Scratch("khop-parts-")
            folder = self._scratch.path
        self.file = os.path.join(folder, filename or "khop.part")
        if not os.path.exists(self.file):
            if log:
                print("Dividing the nodes into parts ...", file=sys.stderr)
            partition(os.fspath(self.structure.path), num_parts, self.file)

    def _metis(self, edge_index: Any, num_nodes: int) -> Any:
        """The part of each node. PyG's own divides by METIS here."""
        structure = structure_of(Data(edge_index=edge_index.cpu(), num_nodes=num_nodes))
        try:
            path = os.fspath(structure.path)
            file = path + ".part"
            partition(path, self.num_parts, file)
            with open(file) as lines:
                return torch.tensor([int(line) for line in lines], device=edge_index.device)
        finally:
            structure.close()

    def __len__(self) -> int:
        return self.num_parts if self.structure is not None else super().__len__()

    def __getitem__(self, idx: Any) -> Any:
        if self.structure is not None:
            raise TypeError("the parts of a dataset have no index: use ClusterLoader(data, batch_size=1)")
        return super().__getitem__(idx)


class ClusterLoader(Served, pyg.ClusterLoader):  # type: ignore[misc]
    """torch_geometric.loader.ClusterLoader.

    For a graph in memory PyG's own code cuts the batches out of the arrays, which ClusterData has put in order. For a
    dataset khop makes them: nodes part after part, in the order of the batch. seed and options, as in NeighborLoader,
    are for a dataset.
    """

    def __init__(
        self, cluster_data: Any, *, batch_size: int = 1, shuffle: bool = False, drop_last: bool = False,
        seed: Optional[int] = None, options: Optional[Mapping[str, Any]] = None, **kwargs: Any,
    ) -> None:
        check_batches(shuffle, batch_size, drop_last)
        check_options(options)
        self._served = getattr(cluster_data, "structure", None) is not None
        if self._served:
            without_workers(ClusterLoader, kwargs)
            kwargs = {}
            self._structure = cluster_data.structure
            how = epochs(options, shuffle=shuffle, drop_last=drop_last, seed=seed)
            if how.pop("batch_size") != 1:
                raise TypeError("options={'batch_size': ..}: batch_size= is the number of parts in a batch")
            own = dict(sampler="cluster", partition=cluster_data.file, clusters=batch_size, **how)
            self._how = {**combined(own, options, {"clusters": "batch_size", "partition": "cluster_data"}), **how}
            batch_size, shuffle, drop_last = (self._how[name] for name in ("clusters", "shuffle", "drop_last"))
        elif seed is not None or options:
            raise TypeError("seed= and options= are for a dataset: of a graph in memory PyG's own code makes the "
                            "batches, by torch's random numbers")
        super().__init__(cluster_data, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, **kwargs)

    def __iter__(self) -> Any:
        if not self._served:
            yield from super().__iter__()
            return
        structure = self._structure
        for batch in self._batches():
            index, e_id = structure.edges(batch, None)
            out = Data(edge_index=index, e_id=e_id, n_id=batch[structure.node_type(None)].n_id)
            out.num_nodes = len(out.n_id)
            structure.add_columns(batch, out)
            yield out

    def close(self) -> None:
        """Ends the server. Using the loader afterwards is a ServerError."""
        if self._served:
            super().close()
