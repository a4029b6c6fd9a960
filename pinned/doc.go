// Package pinned holds memory outside the Go heap: mapped files, anonymous regions, page-locked and device memory, and
// the buffers that batches are built in. It lets CUDA devices address host memory.
//
// # Basics
//
// A Region is one contiguous range of memory: a file mapped read-only (MapFile), or an allocation (Allocate) of host,
// page-locked or device memory. A Buffer is a region that grows and keeps what it holds: the loader builds every batch
// in the same buffers, so in steady state it allocates nothing. A Ledger counts the bytes of every allocation by
// purpose, and keeps limits.
//
// Memory off the Go heap is not scanned by the garbage collector. It can be on huge pages, where gathering random rows
// is not bound by page walks. A GPU can address it once it is registered. Attach lets a device address bytes of the
// host in the best way available, a rung of a ladder, and gives the reasons against better ones. Upload copies to
// device memory. Ladder reports what Attach would try. docs/memory.md describes them.
//
// # Caveats
//
// The bytes of a region are valid until Close; a slice kept beyond it faults. The garbage collector closes neither
// regions nor attachments: the code that made them closes them, an attachment before its region. A slice of device
// memory has an address and a length, but the host must not read it. A mapped file that is cut short raises a fault
// when the missing pages are read: code that reads mappings runs under debug.SetPanicOnFault (see Guard).
package pinned
