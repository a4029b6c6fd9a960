// Package graph holds the data that every other package shares: schema, graph, seeds, sample and block. It neither
// samples nor reads or writes files.
//
// # Basics
//
// A Graph is one compressed-sparse-column (CSC) structure, typed or not: for each destination its in-edges, as
// positions Indptr[v] .. Indptr[v+1]-1 into Indices (sources), Types (edge types, absent where there is one) and the
// edge columns. Nodes of all types share one fused id space: those of type t are Offset(t) .. Offset(t+1)-1. Users see
// own ids, which count the nodes of a type from 0: in seeds, in samples and in files.
//
// Within a destination edges are ordered by (type, source, edge id). Edge columns are gathered by position in the CSC.
// An edge id is the user's own number of an edge; its position where none was given. Without ids edges between the same
// two nodes stay in the order of the input.
//
// New builds a graph from Go slices; package formats opens one on disk. Both are sources for a loader.
//
// A sampler makes a Sample for some seeds. It has a list of nodes for each node type, the seeds first, and a Block for
// each layer and edge type: a small CSC over positions in those lists (local ids). Blocks[0] is the layer furthest from
// the seeds, which a network computes first.
//
// # Caveats
//
// A graph's tensors are read-only, since their memory may be a mapped file, and valid until the dataset that has the
// graph is closed. A Sample belongs to one goroutine at a time, and the next sample overwrites its tensors. Tensors
// that a device makes are in device memory (placement Device); only the counts are on the host.
package graph
