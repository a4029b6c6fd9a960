"""GraphBolt's pipelines with khop's sampling: what dgl.graphbolt's users call most, by its names.

    import khop.graphbolt as gb

    dataset = gb.OnDiskDataset("ogbn-products").load()
    datapipe = gb.ItemSampler(dataset.tasks[0].train_set, batch_size=1024, shuffle=True)
    datapipe = datapipe.sample_neighbor(dataset.graph, [5, 10, 15])
    datapipe = datapipe.fetch_feature(dataset.feature, node_feature_keys=["feat"])
    for minibatch in gb.DataLoader(datapipe):
        minibatch.node_features["feat"], minibatch.blocks, minibatch.labels

A pipeline is a description: a khop server does what it says when DataLoader is iterated. docs/migrating.md, "From
GraphBolt", says what differs.
"""

from ..blocks import Block
from .data import (
    BasicFeatureStore, DatasetFeatures, OnDiskDataset, SamplingGraph, TorchBasedFeature, from_dglgraph,
    fused_csc_sampling_graph,
)
from .items import HeteroItemSet, ItemSet, ItemSetDict
from .minibatch import (
    CSCFormatBase, DataLoader, MiniBatch, MultiProcessDataLoader, SampledSubgraph, SingleProcessDataLoader,
)
from .pipes import (
    CopyTo, DistributedItemSampler, FeatureFetcher, ItemSampler, LayerNeighborSampler, NeighborSampler,
    TemporalNeighborSampler, UniformNegativeSampler, exclude_seed_edges,
)

__all__ = [
    "BasicFeatureStore", "Block", "CSCFormatBase", "CopyTo", "DataLoader", "DatasetFeatures",
    "DistributedItemSampler", "FeatureFetcher",
    "HeteroItemSet", "ItemSampler", "ItemSet", "ItemSetDict", "LayerNeighborSampler", "MiniBatch",
    "MultiProcessDataLoader", "NeighborSampler", "OnDiskDataset", "SampledSubgraph", "SamplingGraph",
    "SingleProcessDataLoader",
    "TemporalNeighborSampler", "TorchBasedFeature", "UniformNegativeSampler",
    "exclude_seed_edges", "from_dglgraph", "fused_csc_sampling_graph",
]
