// Package tables reads graphs that lie in tables: Parquet, Arrow IPC (files, streams, Feather) and CSV, one file or
// many. A short mapping says which table holds which nodes and edges.
//
// # Basics
//
// A Mapping names node types and edge types, and for each the table and the columns that it is made of. It is written
// in YAML or JSON (docs/convert.md, "Tables"). Read makes a graph of it; other readers, of formats that are tables with
// a description, make a Mapping of theirs.
//
// Tables are read in batches of rows, and only the columns that are wanted. What a table holds is never kept in memory
// as a whole: columns are streamed when they are written. Ids that are not 0, 1, 2, .. in the order of the rows are
// numbered, which takes 24 to 32 bytes an id beside its text.
//
// Package columnar has what a file is read as: fields, and batches of rows. Packages parquet, arrow and csv do that.
//
// # Safety
//
// Tables are hostile. The libraries that parse them allocate from the ledger alone, and no more than what a file of its
// size can hold; where they panic, it is an error of that file (package guard).
package tables
