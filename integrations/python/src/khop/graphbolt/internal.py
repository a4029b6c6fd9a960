"""dgl.graphbolt.internal: names that users of GraphBolt import from there."""

from .compact import (
    compact_csc_format, compact_temporal_nodes, unique_and_compact, unique_and_compact_csc_formats,
)
from .ranges import calculate_range

__all__ = ["calculate_range", "compact_csc_format", "compact_temporal_nodes", "unique_and_compact",
           "unique_and_compact_csc_formats"]
