// Package csc turns edges in any order into a compressed-sparse-column structure: for each destination its in-edges,
// ordered by (type, source, edge number).
//
// # Basics
//
// Edges is a source of edges that can be read several times: slices in memory (Slices), a temporary file, a generator.
// Build returns the whole structure in memory. Stream returns it in parts, in order, and holds only as much at once as
// a memory limit allows; it then reads the source once for each part. Estimate says in advance how much memory either
// takes.
//
// The method is a radix sort of (destination, type, source) keys. A first walk over the source counts edges by range of
// destinations; a second partitions the keys by range. Ranges are so narrow that the rest of the sort stays in a core's
// cache. All of it runs on all workers. Ties keep the order of the source. A range with too many edges, as hubs make
// it, is split by further bits of the key, so the memory for sorting is bounded for every graph.
//
// # Caveats
//
// A source must yield the same edges at every walk; otherwise the result is ErrChanged, never a wrong structure. Ids
// are fused ids (package graph). Every id is checked; the first one out of range is a *RangeError with the edge's
// number. The next Part overwrites the arrays of the one before.
package csc
