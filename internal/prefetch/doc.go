// Package prefetch asks the processor for memory that will be read soon.
//
// # Basics
//
// A walk over a graph reads one element here and one there, and each read waits for memory. Work in stages over a block
// of ids hides that: prefetch the elements of the next block, then process the current one, and a whole block of misses
// is on its way at once.
//
//	for b := 0; b < len(ids); b += 32 {
//		e, f := min(b+32, len(ids)), min(b+64, len(ids))
//		prefetch.Node32x4(table, ids[e:f])
//		process(ids[b:e])
//	}
//
// The functions differ in the width of the ids and in the size of an element; Hash32x8 and Hash64x16 apply the
// multiplicative hash of an open-addressing table first. On processors without an assembly version they do nothing.
//
// On amd64 lines come to the second-level cache: a core of Zen 4 has 133 million lines a second from random places on
// their way there, and 66 million to the first level; on Xeons both are alike.
//
// # Caveats
//
// A prefetch never faults, whatever the address, so neither base nor ids need checking; only the ids themselves are
// read. It changes no result. It is lost when the line is pushed out before it is used: blocks of 16 to 64 ids are
// best, and more than a few hundred do harm. Assembly is not preempted, another reason for short blocks.
package prefetch
