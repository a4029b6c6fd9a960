// Package gather copies rows of node and edge columns.
//
// # Basics
//
// A Store holds one column of one node type, or of all edges: [n, ...] of one dtype. Gather copies row ids[i] to row i
// of a buffer. It copies rows of every dtype as bytes. The result does not depend on where the column is stored (a
// mapped file, memory).
//
// Resident copies a column, or any tensor, once into memory on huge pages: rows gathered at random from 4 KiB pages
// cost a page walk each.
//
// Package gather/cuda has the same on a CUDA device. docs/memory.md explains how.
//
// # Caveats
//
// The rows that Gather writes belong to the buffer's owner and are valid until the buffer is used again. Every id is
// checked: for one out of range the error is ErrRange, and the buffer's contents are undefined. A column in a mapped
// file that was cut short faults: callers run under pinned.Guard.
package gather
