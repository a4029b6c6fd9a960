// Package metis reads graphs in the text format of METIS and its relatives (Chaco, KaHIP).
//
// # Basics
//
// The first line that is not a comment holds the numbers of nodes and edges, and perhaps three digits that say
// whether nodes have sizes, nodes have weights, edges have weights, and how many weights a node has. Then follows a
// line for each node: size, weights, and its neighbours, counted from 1. An edge is listed at both of its ends, so
// edges are stored as they are listed. Weights of edges are their column "weight", those of nodes and their sizes the
// columns "weight" and "size" of nodes; all are int64.
//
// The format is that of the manual of METIS 5.1, section 4.1.1.
package metis
