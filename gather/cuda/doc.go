// Package cuda gathers rows of columns on a CUDA device.
//
// A Store is what gather.Store is on the CPU: it puts gathers on a stream, and reads the column over the bus or in
// device memory. Cache keeps rows in device memory; InDegree, PageRank and Hottest choose them. HotRows keeps rows of a
// column that neither device nor host reads in place. docs/memory.md explains how.
//
// A gather runs later than the call: wait for an event recorded after it, then call Err.
package cuda
