// Package pinned holds host memory outside the Go heap: mapped files, anonymous regions and the buffers that batches are
// built in.
//
// # Basics
//
// A Region is one contiguous range of memory: a file mapped read-only (MapFile) or an anonymous, zeroed, page-aligned
// allocation (Allocate). A Buffer is a region that grows and keeps what it holds; batches are built in buffers that are
// reused, so that a steady loader allocates nothing. A Ledger counts the bytes of every allocation by purpose, which is how
// the loader keeps a memory limit and says where memory went.
//
// Memory is kept off the Go heap for three reasons: the garbage collector neither scans nor moves it, it can lie on huge
// pages (a random row gather is bounded by page walks on 4 KiB pages), and a GPU can address it once it is registered.
//
// # Caveats
//
// The bytes of a region are valid until Close; a slice kept beyond it faults. Regions are not closed by the garbage
// collector: who allocates frees. A mapped file that is cut short raises a fault when the missing pages are read: code that
// reads mappings runs under debug.SetPanicOnFault (see Guard).
package pinned
