// Package edgesort puts edges into the order of a dataset, within a budget of memory, whatever there are of them.
//
// # Basics
//
// A Sorter takes batches of edges with their columns and hands them back ordered by (destination, type, source), edges
// that agree in these in the order that they came in; a type may be ordered by time first. It can add the reverse of
// each edge, drop or add self-loops, and make one edge of equal ones.
//
// The method is a distribution sort. Edges become keys of 64 bits with their columns behind them as one record. A few
// megabytes at a time, which a core's cache holds, are parted by the keys' first bits; the other bits of a key are
// kept, in 4 to 8 bytes. When the memory is full of such runs it goes to one temporary file as one long run, and memory
// is filled anew meanwhile. Then each part is gathered from all runs, sorted in a core's cache and handed on. What fits
// the memory never sees the file. A part that is too large for the memory is parted again by its next bits. All reading
// and writing of files is sequential, in pieces as long as the memory allows, and all workers sort. A large file passes
// the page cache by.
//
// # Caveats
//
// Destination, type, source and the direction together have at most 64 bits: ErrTooLarge. Emit is called once.
package edgesort
