// Package mtx reads graphs from Matrix Market files.
//
// # Basics
//
// A coordinate matrix is a graph: the entry in row i, column j is the edge i -> j. Values are the edges' column
// "weight", or "value" where one is negative; a pattern has none. Of a symmetric matrix both directions are stored,
// of a skew-symmetric one the entry below the diagonal has the other sign. A matrix that is not square is a graph of
// two node types, "row" and "column".
//
// The format is that of Boisvert, Pozo and Remington, "The Matrix Market Exchange Formats", NISTIR 5935.
package mtx
