"""GraphBolt's pipelines with khop's sampling: the names that users of dgl.graphbolt call.

    import khop.graphbolt as gb

    dataset = gb.OnDiskDataset("ogbn-products").load()
    datapipe = gb.ItemSampler(dataset.tasks[0].train_set, batch_size=1024, shuffle=True)
    datapipe = datapipe.sample_neighbor(dataset.graph, [5, 10, 15])
    datapipe = datapipe.fetch_feature(dataset.feature, node_feature_keys=["feat"])
    for minibatch in gb.DataLoader(datapipe):
        minibatch.node_features["feat"], minibatch.blocks, minibatch.labels

DataLoader has khop make the minibatches if it knows all stages; otherwise the stages make them. docs/migrating.md,
"From GraphBolt", lists what differs.
"""

from .._batch.blocks import Block
from . import base, impl, internal
from .base import (
    CANONICAL_ETYPE_DELIMITER, ORIGINAL_EDGE_ID, CSCFormatBase, etype_str_to_tuple, etype_tuple_to_str, expand_indptr,
    index_select, isin, seed,
)
from .compact import compact_csc_format, unique_and_compact, unique_and_compact_csc_formats
from .features import (
    BasicFeatureStore, CPUCachedFeature, Feature, TorchBasedFeature, TorchBasedFeatureStore,
)
from .fetching import FeatureFetcher
from .graph import (
    FusedCSCSamplingGraph, SamplingGraph, from_dglgraph, fused_csc_sampling_graph, load_from_shared_memory,
)
from .item_sampler import DistributedItemSampler, ItemSampler, minibatcher_default
from .items import HeteroItemSet, ItemSet, ItemSetDict
from .loading import DataLoader, MultiProcessDataLoader, SingleProcessDataLoader
from .metadata import OnDiskFeatureData, OnDiskTaskData
from .minibatch import MiniBatch
from .ondisk import Dataset, DatasetFeatures, OnDiskDataset, OnDiskTask
from .pipes import Bufferer, CopyTo, EndMarker, MiniBatchTransformer, Waiter
from .reverse import add_reverse_edges, add_reverse_edges_2, exclude_seed_edges
from .samplers import (
    InSubgraphSampler, LayerNeighborSampler, NegativeSampler, NeighborSampler, SubgraphSampler,
    TemporalLayerNeighborSampler, TemporalNeighborSampler, UniformNegativeSampler,
)
from .subgraph import FusedSampledSubgraphImpl, SampledSubgraph, SampledSubgraphImpl

FeatureStore = BasicFeatureStore
Task = OnDiskTask

__all__ = [
    "BasicFeatureStore", "Block", "Bufferer", "CANONICAL_ETYPE_DELIMITER", "CPUCachedFeature", "CSCFormatBase",
    "CopyTo", "DataLoader", "Dataset", "DatasetFeatures", "DistributedItemSampler", "EndMarker", "Feature",
    "FeatureFetcher", "FeatureStore", "FusedCSCSamplingGraph", "FusedSampledSubgraphImpl", "HeteroItemSet",
    "InSubgraphSampler", "ItemSampler", "ItemSet", "ItemSetDict", "LayerNeighborSampler", "MiniBatch",
    "MiniBatchTransformer", "MultiProcessDataLoader", "NegativeSampler", "NeighborSampler", "ORIGINAL_EDGE_ID",
    "OnDiskDataset", "OnDiskFeatureData", "OnDiskTask", "OnDiskTaskData", "SampledSubgraph", "SampledSubgraphImpl",
    "SamplingGraph", "SingleProcessDataLoader", "SubgraphSampler", "Task", "TemporalLayerNeighborSampler",
    "TemporalNeighborSampler", "TorchBasedFeature", "TorchBasedFeatureStore", "UniformNegativeSampler", "Waiter",
    "add_reverse_edges", "add_reverse_edges_2", "base", "compact_csc_format", "etype_str_to_tuple",
    "etype_tuple_to_str", "exclude_seed_edges", "expand_indptr", "from_dglgraph", "fused_csc_sampling_graph", "impl",
    "index_select", "internal", "isin", "load_from_shared_memory", "minibatcher_default", "seed",
    "unique_and_compact", "unique_and_compact_csc_formats",
]
