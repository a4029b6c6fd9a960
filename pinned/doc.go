// Package pinned holds memory outside the Go heap: mapped files, anonymous regions, page-locked and device memory, and
// the buffers that batches are built in. It lets CUDA devices address what lies in host memory.
//
// # Basics
//
// A Region is one contiguous range of memory: a file mapped read-only (MapFile), or an allocation (Allocate) of
// anonymous host memory, of page-locked host memory or of device memory, as Options say. A Buffer is a region that
// grows and keeps what it holds; batches are built in buffers that are reused, so that a steady loader allocates
// nothing. A Ledger counts the bytes of every allocation by purpose, device memory apart, which is how the loader keeps
// a memory limit and says where memory went.
//
// Memory is kept off the Go heap for three reasons: the garbage collector neither scans nor moves it, it can lie on
// huge pages (a random row gather is bounded by page walks on 4 KiB pages), and a GPU can address it once it is
// registered.
//
// Attach lets a device address bytes that are there: a mapped file, memory of Allocate, or anything else. It takes the
// best of several ways (Rung), best first, and says why the better ones were refused; Upload copies to device memory;
// Ladder says what Attach would do. docs/memory.md describes them.
//
// # Caveats
//
// The bytes of a region are valid until Close; a slice kept beyond it faults. Regions and attachments are not closed by
// the garbage collector: who allocates frees, and closes what is attached before unmapping it. A slice of device memory
// has an address and a length, but the host must not read it. A mapped file that is cut short raises a fault when the
// missing pages are read: code that reads mappings runs under debug.SetPanicOnFault (see Guard).
package pinned
