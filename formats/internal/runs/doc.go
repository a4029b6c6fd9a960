// Package runs keeps edges in files between the tasks of a conversion: one task writes them, and others read those that
// lead to some of the nodes.
//
// # Basics
//
// A Writer takes batches in the order of a source. Some megabytes at a time it puts them in order by the nodes that
// they lead to, roughly, those that lead to one node in the order that they came in, and writes them in blocks of some
// thousand edges. A Reader reads the blocks that have edges to a range of nodes, and leaves out the other edges in
// them. So a file is written before anyone knows how the nodes will be divided. A sample of the nodes, taken evenly of
// all edges, says where to divide them.
//
// # Safety
//
// Each block has a checksum, and so has the list of the blocks, whose own stands in what the writer says of the file.
// Who reads a block compares it: what was damaged or cut short on the way is formats.ErrCorrupt.
package runs
