package csc

import "math/bits"

// A key holds, from the top: destination, type, source. Its top bits choose a range of destinations ("top"), which is
// not stored; a key that needs more than 64 bits loses only those.
//
// layout says how many bits each part has and how the destinations are cut into ranges.
type layout struct {
	idBits, typeBits int // of a source, of a type
	idBytes, typByte int64
	shift            int // destination >> shift is its range
	tops             int // number of ranges
	nodes            int64
	permutation      bool
}

const (
	maxTops     = 4096    // streams that a core writes side by side while its translation cache still holds them
	maxTopsEver = 1 << 16 // for so many nodes that a key would not fit 64 bits otherwise
	leafEdges   = 1 << 16 // aimed at: their keys, twice, fill a core's second-level cache
	leafNodes   = 1 << 18 // at most, while maxTops allows: a pass under a memory limit holds their indptr
	maxPasses   = 1024
)

// newLayout cuts nodes into ranges of about leafEdges edges and at most leafNodes nodes each.
func newLayout(opt Options, edges int64) layout {
	l := layout{
		idBits: bitsFor(opt.Sources), typeBits: bitsFor(int64(opt.Types)),
		idBytes: IDBytes(opt.Sources), typByte: TypeBytes(opt.Types),
		nodes: opt.Nodes, permutation: opt.Permutation,
	}
	if opt.idBits > 0 {
		l.idBits, l.idBytes = opt.idBits, 8
	}
	want := min(max(edges/leafEdges, opt.Nodes/leafNodes, 1), maxTops)
	l.shift = min(bitsFor((opt.Nodes+want-1)/want), max(64-l.idBits-l.typeBits, 0))
	l.tops = int(max((opt.Nodes+1<<l.shift-1)>>l.shift, 1))
	return l
}

// keyBits is the number of bits by which the keys of one top differ.
func (l *layout) keyBits() int { return l.shift + l.typeBits + l.idBits }

// key returns what the edge is sorted by.
func (l *layout) key(src, dst, typ uint64) uint64 {
	return dst<<(l.idBits+l.typeBits) | typ<<l.idBits | src
}

// topNodes is the number of destinations in a full top.
func (l *layout) topNodes() int64 { return min(l.nodes, 1<<l.shift) }

// payload returns the bytes that carry an edge's number through the sort, given the largest one.
func (l *layout) payload(largest int64) int64 {
	switch {
	case !l.permutation:
		return 0
	case largest < 1<<32:
		return 4
	}
	return 8
}

// outBytes is what the structure takes for an edge, without the permutation.
func (l *layout) outBytes() int64 { return l.idBytes + l.typByte }

// edgeBytes is all that a pass takes for an edge.
func (l *layout) edgeBytes(edges int64) int64 { return 8 + l.payload(edges) + l.outBytes() }

// leafLimit returns the most edges that are sorted at once: a range with more is split.
func (l *layout) leafLimit(opt Options, edges, memory int64) int64 {
	room := max(1<<18, edges/1024)
	if memory > 0 {
		room = min(room, memory/(l.edgeBytes(edges)*8*int64(opt.Workers)))
	}
	return max(room, 1<<12)
}

const (
	splitSlots  = 1 << 14 // children that one round of splitting makes at most, unless the oversized leaves are many
	splitRounds = 9       // in which the remaining bits are used up, at the least bits a round
)

// roundSlots is the number of children that one round of splitting aims at.
func roundSlots(edges int64) int64 { return min(max(edges/64, 1<<10), splitSlots) }

// splitBits returns by how many bits each of n oversized leaves is split.
func splitBits(n int, edges int64) int {
	return min(max(bits.Len64(uint64(roundSlots(edges)/int64(n)))-1, 4), 11)
}

// tableBytes bounds what the counts, cursors and descriptions of the leaves take.
func (l *layout) tableBytes(opt Options, edges, room int64) int64 {
	slots := int64(l.tops)
	if edges > room {
		slots += splitRounds * max(roundSlots(edges), 16*(edges/room))
	}
	return slots*(16*int64(opt.Workers)+104) + 8*maxTops*int64(opt.Workers)
}

// passes bounds how often the source is gone over to place edges under a memory limit.
func (l *layout) passes(opt Options, edges, memory int64) int64 {
	room := l.leafLimit(opt, edges, memory)
	per := l.edgeBytes(edges)
	fixed := l.tableBytes(opt, edges, room) + int64(opt.Workers)*room*(8+l.payload(edges)) + room*per + 16*l.topNodes()
	if memory <= fixed {
		return maxPasses + 1
	}
	return (edges*per+8*l.nodes)/(memory-fixed) + 1
}
