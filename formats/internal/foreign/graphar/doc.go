// Package graphar reads graphs in Apache GraphAr's format, version 1: NAME.graph.yml names the YAMLs of vertex and edge
// types, whose properties and edges lie in folders of chunks (graphar.apache.org, "Format Specification").
//
// # Basics
//
// A vertex type is a node type; a vertex is the row that its internal id says. A triple of source type, edge type and
// destination type is an edge type. Of the adjacency lists of an edge type, which hold the same edges, one is read:
// ordered by destination, if it is there and in a kind of file that is read. Properties lie in groups, which are tables
// side by side. Package tables reads them: info.go has what the YAMLs say, and read.go makes a mapping of it.
//
// # Counts
//
// vertex_count and edge_countN are 8 bytes, little-endian. They say how many chunks there are, and how many rows each
// has: chunks that are missing, or one too many, or of other rows are errors. Offsets are not needed, for adjacency
// lists name both ends of each edge; those that are there must fit the counts.
package graphar
