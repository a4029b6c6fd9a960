// Package gather copies rows of node and edge columns.
//
// # Basics
//
// A Store holds one column of one node type, or of all edges: [n, ...] of one dtype. Gather copies the rows ids[i] to
// row i of a buffer. Rows are bytes to it: every dtype is copied as it is. Where the column lies (a mapped file,
// memory) never changes what is copied.
//
// Resident copies a column, or any tensor, once into memory on huge pages: rows gathered at random from 4 KiB pages
// cost a page walk each.
//
// A DeviceStore is a Store on a CUDA device: it reads the column over the bus, or in device memory, and puts the work
// on a stream. Cache keeps rows in device memory; InDegree, PageRank and Hottest say which. docs/memory.md
// explains how.
//
// # Caveats
//
// What Gather writes belongs to the buffer's owner and is valid until the buffer is used again. Every id is checked:
// one out of range is ErrRange, and the buffer's contents are then undefined. A column in a mapped file that was cut
// short faults: callers run under pinned.Guard. On a device nothing is copied before the stream comes to it: wait for
// an event behind the gather, then ask Err.
package gather
