"""A sampler for PyG's loaders where pyg-lib is not installed: temporal trees by the rules of pyg-lib's, in NumPy.

Each seed has a tree of its own. A hop takes, for each node and edge type, so many in-edges whose source is not later
than the seed's time, uniformly and without replacement. Rows of a table must be in the order of their times.
"""
import numpy as np
import torch
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput


class PlainSampler(BaseSampler):
    def __init__(self, data, num_neighbors, seed=0, **_):
        self.fanouts, self.draw, self.columns = list(num_neighbors), np.random.default_rng(seed), {}
        self.types = (data.node_types, data.edge_types)
        self.times = {t: data[t].time.numpy() for t in data.node_types if "time" in data[t]}
        for edge_type in data.edge_types:
            source, target = data[edge_type].edge_index.numpy()
            order = np.lexsort((source, target))
            count = np.bincount(target, minlength=data[edge_type[2]].tf.num_rows)
            self.columns[edge_type] = np.concatenate([[0], np.cumsum(count)]), source[order], order

    @property
    def edge_permutation(self):
        return None

    def sample_from_edges(self, inputs, **_):
        raise NotImplementedError("RelBench's loaders ask for nodes")

    def _pick(self, edge_type, node, time, fanout):
        """Positions of the edges picked for each node, and the place of the node."""
        indptr, source, _ = self.columns[edge_type]
        first, last = indptr[node], indptr[node + 1]
        if edge_type[0] in self.times:  # sources ascend, and so do their times
            at = self.times[edge_type[0]]
            last = np.array([lo + np.searchsorted(at[source[lo:hi]], t, "right")
                             for lo, hi, t in zip(first, last, time)], dtype=np.int64).reshape(len(node))
        some = [np.arange(lo, hi) if hi - lo <= fanout else lo + self.draw.choice(hi - lo, fanout, replace=False)
                for lo, hi in zip(first, last)]
        place = np.repeat(np.arange(len(node)), [len(s) for s in some])
        return (np.concatenate(some) if some else np.zeros(0, np.int64)), place

    def sample_from_nodes(self, inputs, **_):
        node_types, edge_types = self.types
        nodes = {t: [] for t in node_types}  # (tree, id), in order
        local = {t: {} for t in node_types}
        edges = {e: ([], [], []) for e in edge_types}
        counts, edge_counts = {t: [0] for t in node_types}, {e: [] for e in edge_types}
        seed_time = inputs.time.numpy()
        for tree, node in enumerate(inputs.node.tolist()):
            local[inputs.input_type][tree, node] = tree
            nodes[inputs.input_type].append((tree, node))
        counts[inputs.input_type] = [len(nodes[inputs.input_type])]
        begin = {t: 0 for t in node_types}
        for fanout in self.fanouts:
            end = {t: len(nodes[t]) for t in node_types}
            for e in edge_types:
                frontier = np.array(nodes[e[2]][begin[e[2]]:end[e[2]]], dtype=np.int64).reshape(-1, 2)
                picked, place = self._pick(e, frontier[:, 1], seed_time[frontier[:, 0]], fanout)
                row, col, edge = edges[e]
                list_, index = nodes[e[0]], local[e[0]]
                for source, p in zip(self.columns[e][1][picked].tolist(), place.tolist()):
                    key = (int(frontier[p, 0]), source)
                    at = index.setdefault(key, len(list_))
                    if at == len(list_):
                        list_.append(key)
                    row.append(at)
                    col.append(begin[e[2]] + p)
                edge.extend(self.columns[e][2][picked].tolist())
                edge_counts[e].append(len(picked))
            for t in node_types:
                counts[t].append(len(nodes[t]) - end[t])
            begin = end
        ids = {t: torch.tensor([n for _, n in nodes[t]], dtype=torch.int64) for t in node_types}
        trees = {t: torch.tensor([tree for tree, _ in nodes[t]], dtype=torch.int64) for t in node_types}

        def tensors(k):
            return {e: torch.tensor(edges[e][k], dtype=torch.int64) for e in edge_types}
        return HeteroSamplerOutput(node=ids, row=tensors(0), col=tensors(1), edge=tensors(2), batch=trees,
                                   num_sampled_nodes=counts, num_sampled_edges=edge_counts,
                                   metadata=(inputs.input_id, inputs.time))
