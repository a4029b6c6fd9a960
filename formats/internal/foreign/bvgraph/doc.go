// Package bvgraph reads web graphs in the BV format of the WebGraph framework: name.graph with name.properties.
//
// # Basics
//
// The file holds the successors of each node, as gaps, intervals and copies of earlier lists, in a stream of bits. It
// is decoded from its beginning to its end, with the last lists of the window in memory. An edge goes from a node to
// its successor. The transpose, which the framework stores as name-t.graph, is a graph of its own.
//
// The format is that of Boldi and Vigna, "The WebGraph Framework I: Compression Techniques", WWW 2004, and of the
// framework's class BVGraph.
//
// # Safety
//
// Every number is compared with the number of nodes and edges of the properties before memory is taken for it.
package bvgraph
