"""PyG's NeighborLoader over a khop dataset: the peer that sampling and training are compared with."""
import numpy as np

import meter


def loader(dataset, fanouts, batch_size, workers, columns=True, **options):
    """A loader of shuffled batches of the seeds to train on, with `workers` processes. columns: with the nodes'
    features and labels.

    ImportError where PyG is missing, or what it samples with.
    """
    import torch
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    def tensor(owner, name, dtype=None):
        return torch.from_numpy(np.array(meter.column(dataset, owner, name), dtype))

    indptr = tensor("graph", "indptr", np.int64)
    edge_index = torch.empty((2, int(indptr[-1])), dtype=torch.int64)  # sorted by destination, which saves PyG a sort
    edge_index[0] = tensor("graph", "indices", np.int64)
    edge_index[1] = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
    data = Data(edge_index=edge_index, num_nodes=len(indptr) - 1)
    if columns:
        data.x, data.y = tensor("nodes/0", "feature"), tensor("nodes/0", "label")
    return NeighborLoader(data, num_neighbors=fanouts, input_nodes=torch.from_numpy(meter.train_seeds(dataset)),
                          batch_size=batch_size, shuffle=True,
                          is_sorted=True, num_workers=workers, persistent_workers=workers > 0, **options)


def for_ever(loader):
    """Batches, epoch after epoch."""
    while True:
        yield from loader
