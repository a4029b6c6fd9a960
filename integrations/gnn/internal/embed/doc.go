// Package embed computes rows for every node of a graph, layer by layer, where graph, features and layers need not fit
// in memory. docs/embed.md says what it computes, in which order it sums, and how it chooses its ways.
//
// # Basics
//
// A Program is steps. A step makes rows of some nodes of a type: it sums rows of their sources (Relation), and gives
// sums and the nodes' own rows to a function, which is the dense part (Step.Apply). What a step makes is a Table, which
// later steps read. Run carries a program out:
//
//	report, err := embed.Run(ctx, program, embed.Options{Folder: work, Memory: 4 << 30})
//
// The sums of a step come in one of five ways. Resident: the tables that are summed have room in memory, and package
// sparse multiplies. Sweeps: the sums of a range of nodes have room, and the rows that they need are read from one end
// to the other, once for each range. Window: sums begin with their first row and end with the last while all rows are
// read once. Hubs: rows of sources with most edges and sums of nodes with most stay in memory, rows between others are
// spilled, and tables are read twice. For these three a cut has the edges in the order of the rows that pass by.
// Gather: the rows of a range's sources are read, from a column with a cache whose contents follow from what later
// ranges need (package diskio). Each adds a node's rows in the order of its edges, so that their bytes are the same.
//
// Live keeps all tables of a program, and lists of edges, and makes again what a change of edges and features reaches,
// of all edges of the nodes: it has the bytes of a run. A log has the changes.
//
// What Run made is in files of a folder, with a journal of finished ranges: a run that was killed goes on from there.
package embed
