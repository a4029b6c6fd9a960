// Package graph holds the data that every other package shares: schema, graph, seeds, sample and block. It has no
// sampling and no input or output.
//
// # Basics
//
// A Graph is one compressed-sparse-column (CSC) structure, typed or not: for each destination its in-edges, as
// positions Indptr[v] .. Indptr[v+1]-1 into Indices (sources), Types (edge types, absent where there is one) and the
// edge columns. Nodes of all types share one fused id space: those of type t are Offset(t) .. Offset(t+1)-1. What users
// see, in seeds, in samples and in files, are ids of a node's own type, from 0.
//
// Within a destination edges are ordered by (type, source, edge id). A position in the CSC is what gathers edge
// columns; an edge id is the user's own number, the order of the input where no other was given.
//
// New builds a graph from Go slices; package formats opens one that lies on disk. Both are a loader's source.
//
// A Sample is what a sampler makes of some seeds: per node type a list of nodes, the seeds first, and per layer and
// edge type a Block, a small CSC over positions in those lists ("local ids"). Blocks[0] is the layer furthest from the
// seeds, which a network computes first.
//
// # Caveats
//
// A graph's tensors are read-only: their memory may be a mapped file. They are valid until whatever opened the graph is
// closed. A Sample belongs to one goroutine at a time, and its tensors are views of buffers that the next sample
// overwrites. Where a device has made it they lie in device memory (placement Device), which the host must not read;
// its counts are on the host.
package graph
