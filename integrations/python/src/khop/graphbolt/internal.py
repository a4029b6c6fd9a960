"""dgl.graphbolt.internal: names that GraphBolt's users take from there."""

from .compact import (
    compact_csc_format, compact_temporal_nodes, unique_and_compact, unique_and_compact_csc_formats,
)
from .ranges import calculate_range

__all__ = ["calculate_range", "compact_csc_format", "compact_temporal_nodes", "unique_and_compact",
           "unique_and_compact_csc_formats"]
