"""dgl.graphbolt.impl: names that users of GraphBolt import from there."""

from .cache import CPUFeatureCache
from .subgraph import FusedSampledSubgraphImpl, SampledSubgraphImpl

__all__ = ["CPUFeatureCache", "FusedSampledSubgraphImpl", "SampledSubgraphImpl"]
