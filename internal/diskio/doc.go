// Package diskio reads rows of columns that are larger than memory: from their files, past the page cache, through a
// cache whose contents follow from what later batches will ask for.
//
// # Basics
//
// A batch is a function of its number, so its rows are known before it is due. Whoever samples ahead hands the rows of
// each batch to a Planner, in order (Ask). The Planner decides for one batch after the other (Next) which rows are in
// the cache, which must be read, and which to keep: those whose next use is nearest (L. A. Belady, "A study of
// replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966), as far as the window goes.
// A row whose next use lies beyond the window comes after all others; of these the row that was asked for least goes
// first.
//
// A Column carries such plans out: a Batch of it reads what is missing by a Reader, copies the rest from the cache, and
// fills the cache for the batches after it. A Reader has one engine for all its files: io_uring, or threads that call
// pread. Open finds out which of them, and whether files can be read past the page cache.
//
// Simulate is what other policies would have read, for a sequence of batches.
//
// # Why so
//
// Requests are what a disk is short of, not bytes: one of 64 KiB costs about as much as four of 4 KiB. So rows that are
// near one another in the file are read together, how near a probe of the disk says. What else is on the pages that
// are read, and is asked for within the window, goes to the cache, too: it costs nothing then.
//
// Batches of a Column finish in their order, whatever the order of reads. So the cache is at each batch what the plan
// says, hits need no lock, and what is read does not depend on how fast anything was.
//
// # Caveats
//
// A Planner is for one goroutine at a time. A Batch writes to memory of its caller until Finish or Cancel returns, and
// never after. A device that does not answer makes Finish wait until its context ends.
package diskio
