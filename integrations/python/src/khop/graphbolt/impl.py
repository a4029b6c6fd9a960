"""dgl.graphbolt.impl: names that GraphBolt's users take from there."""

from .cache import CPUFeatureCache
from .subgraph import FusedSampledSubgraphImpl, SampledSubgraphImpl

__all__ = ["CPUFeatureCache", "FusedSampledSubgraphImpl", "SampledSubgraphImpl"]
