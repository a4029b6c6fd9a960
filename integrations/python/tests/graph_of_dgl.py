"""What khop uses of a graph of DGL: a stand-in where DGL is not installed."""
import torch


class _Frame:
    def __init__(self):
        self.data = {}


class _Edges(dict):
    def __init__(self, graph):
        super().__init__({e: _Frame() for e in graph.canonical_etypes})
        self.graph = graph

    def __call__(self, etype=None, order="eid", form="uv"):
        return self.graph.pairs[etype or self.graph.canonical_etypes[0]]


class Graph:
    """pairs: (source, relation, target) -> sources and targets; counts: nodes of each type."""

    def __init__(self, pairs, counts):
        self.pairs, self.counts = pairs, counts
        self.ntypes, self.canonical_etypes = list(counts), list(pairs)
        self.nodes, self.edges = {t: _Frame() for t in counts}, _Edges(self)

    def num_nodes(self, t):
        return self.counts[t]

    def find_edges(self, ids, etype=None):
        return tuple(end[ids] for end in self.pairs[etype or self.canonical_etypes[0]])


def random_graph(nodes=300, edges=2000, seed=1):
    """A plain graph with feat, label and the weights w of its edges."""
    g = torch.Generator().manual_seed(seed)
    graph = Graph({("_N", "_E", "_N"): tuple(torch.randint(0, nodes, (2, edges), generator=g))}, {"_N": nodes})
    graph.nodes["_N"].data.update(feat=torch.arange(nodes)[:, None].float(), label=torch.arange(nodes) % 7)
    graph.edges["_N", "_E", "_N"].data["w"] = (torch.arange(edges) % 2).float()
    return graph
