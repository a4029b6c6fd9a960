// Package csc turns edges in any order into a compressed-sparse-column structure in memory: for each destination its
// in-edges, ordered by (type, source, edge number).
//
// # Basics
//
// Edges is a source of edges that can be read several times, such as slices in memory (Slices). Build returns their
// structure. Where the edges or the structure do not fit in memory, package edgesort sorts them on disk; it shares this
// package's sort of keys (SortKeys), its workers (Parallel) and the widths of elements (IDBytes, TypeBytes).
//
// The method is a radix sort of (destination, type, source) keys. A first walk over the source counts edges by range of
// destinations; the last partitions the keys by range. Ranges are so narrow that the rest of the sort stays in a core's
// cache. All of it runs on all workers. Ties keep the order of the source. A range with too many edges, as hubs make
// it, is split by further bits of the key, with a walk for each round of splits, so that workers share a hub's edges
// and hold little besides the keys.
//
// # Caveats
//
// A source must yield the same edges at every walk; otherwise the result is ErrChanged, never a wrong structure. Ids
// are fused ids (package graph). Every id is checked; the first one out of range is a *RangeError with the edge's
// number.
package csc
