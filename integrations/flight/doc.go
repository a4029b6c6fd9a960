// Package flight brings rows of node columns from other machines by Arrow Flight, for features that do not fit on the
// disks of the training machine. Server serves rows of a dataset; Rows requests them, for loaders of the same process
// (tier.Remote) or of another. It is a separate module: khop links nothing of it.
//
// The protocol is DoExchange. The first message has a descriptor with the path [node type, column]; each message has
// ids, int64 in little-endian order, as its app_metadata. The answer to each is a record batch with one column "row" of
// fixed-size binary: the rows in the order of the ids; an empty one comes first. The schema's metadata has dataset,
// dtype, shape, the number of rows of the column, and first and end, the range of rows that the server has.
package flight
