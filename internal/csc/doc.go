// Package csc turns edges in any order into a compressed-sparse-column structure: for each destination its in-edges,
// ordered by (type, source, edge number).
//
// # Basics
//
// Edges is a source of edges that can be gone over several times: slices in memory (Slices), a temporary file, a
// generator. Build returns the whole structure in memory. Stream hands it over in parts, in order, and holds only as
// much at once as a memory limit allows: it then goes over the source once a part. Estimate says before anything starts
// what either takes.
//
// The method is a radix sort of (destination, type, source) keys, as arrays and never as maps. The source is gone over
// once to count edges by destination range, and once more to partition the keys by range: the ranges are narrow enough
// that the rest of the sort stays in a core's cache. Both walks and the sorting run on all workers. Ties keep the order
// of the source. A range that got too many edges, as hubs make it, is split by further bits of the key, into the source
// if need be, so the memory that sorting takes is bounded whatever the graph looks like.
//
// # Caveats
//
// A source must yield the same edges at every walk; one that does not is ErrChanged, not a wrong result. Ids are fused
// ids (package graph); they are checked, and the first that is out of range is a *RangeError with the edge's number.
// The arrays of a Part are overwritten by the next one.
package csc
