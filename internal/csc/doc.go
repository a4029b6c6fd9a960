// Package csc turns edges in any order into a compressed-sparse-column structure in memory: for each destination its
// in-edges, ordered by (type, source, edge number).
//
// # Basics
//
// Build returns the structure of edges that lie in slices, a pair of slices for each edge type. Where the edges or the
// structure do not fit in memory, package edgesort sorts them on disk; it shares this package's sort of keys
// (SortKeys), its workers (Parallel) and the widths of elements (IDBytes, TypeBytes).
//
// The method is a radix sort of (destination, type, source) keys, on all workers. They count edges by range of
// destinations, partition the keys by range, and sort each range by itself, the largest first. A range is so narrow
// that its sort stays in a core's cache, unless nodes of very many in-edges lie there. Ties keep the order of the
// edges.
package csc
