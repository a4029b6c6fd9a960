// Package convert makes datasets of graphs in foreign formats.
//
// # Basics
//
// Run recognises what it is given by its contents, not its name, has the reader of that format describe it (package
// source), and writes it as a dataset: edges into one CSC, features, labels, splits and names beside it. Result says
// what was understood, in words and numbers. A new format is a package with a reader, and a line in the table of kinds.
//
// # Direction
//
// An edge a -> b is an in-edge of b with the source a. A format that is undirected by definition lists each edge once;
// both directions are stored, a self-loop once. All others are stored as listed. Directed and Symmetrise override that.
// To symmetrise is to add the reverse of each edge that is not there already: if a -> b is listed p times and b -> a q
// times, both are stored max(p, q) times. A reverse edge has the columns of the edge that it reverses.
//
// # Caveats
//
// MemoryLimit holds for the reader and for what builds the structure together. Edges of a text move to a temporary file
// beside the target, and the structure is built in several walks over the edges. An archive is read into memory: where
// the limit does not allow that, pinned.ErrLimit says what is needed. After an error, a cancelled context or a crash
// there is no dataset.
package convert
