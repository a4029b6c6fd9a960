// Package streams has tables of Arrow in another library's memory: streams that it hands over are kept in files, which
// package convert reads, and datasets are read as streams.
//
// # Basics
//
// A conversion reads a table several times, and a stream can be read once. So a Spool writes batches of records to an
// Arrow file, in a form that is read a few rows and columns at a time: not compressed, in batches of some megabytes,
// without dictionaries, views and run ends.
//
// Rows are those of a node type or edge type of a dataset, for whoever takes an Arrow stream.
//
// # Caveats
//
// Records come from the memory of another library in the same process. Their schema is checked, their offsets are not:
// no reader can tell how long foreign memory is. Columns of coded rows are handed out as they are stored.
package streams
