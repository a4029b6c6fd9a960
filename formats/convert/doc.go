// Package convert makes datasets of graphs in foreign formats.
//
// # Basics
//
// Run recognises a source by its contents, not its name. The reader of that format describes it (package source), and
// Run writes it as a dataset: edges in one order, features, labels, splits and names. Result describes what was
// understood, in sentences and numbers. A new format is a package with a source.Reader, and a line in the table of
// readers.
//
// # Direction
//
// An edge a -> b is an in-edge of b with the source a. A format that is undirected by definition lists each edge once;
// both directions are stored, a self-loop once. Edges of all other formats are stored as listed. Directed and
// Symmetrise override that. To symmetrise edges without columns is to add each missing reverse: if a -> b is listed p
// times and b -> a q times, both are stored max(p, q) times. If edges have columns, each listed edge gets a reverse
// with its own columns: two events between the same nodes are two events each way. Merge makes one of them.
//
// PlanTasks divides a conversion into tasks, which RunTask runs on any machines. Reorder renumbers nodes before
// anything is written; the column "old_id" keeps their numbers in the source.
//
// # Caveats
//
// MemoryLimit holds for the reader and for what orders the edges (package edgesort) together. Edges of a text move to a
// temporary file beside the target, and so do edges while they are sorted, if they do not fit in memory; arrays are
// streamed from their files. Labels, splits and links are held in memory: if the limit does not allow that,
// pinned.ErrLimit says how much is needed. After an error, a cancelled context or a crash there is no dataset.
package convert
