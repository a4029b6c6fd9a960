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
}

const (
	maxTops     = 4096    // streams that a core writes side by side while its translation cache still holds them
	maxTopsEver = 1 << 16 // for so many nodes that a key would not fit 64 bits otherwise
	leafEdges   = 1 << 16 // aimed at: their keys, twice, fill a core's second-level cache
	leafNodes   = 1 << 18 // at most, while maxTops allows: one worker writes their indptr
)

// newLayout cuts nodes into ranges of about leafEdges edges and at most leafNodes nodes each.
func newLayout(opt Options, edges int64) layout {
	l := layout{
		idBits: bitsFor(opt.Nodes), typeBits: bitsFor(int64(opt.Types)),
		idBytes: IDBytes(opt.Nodes), typByte: TypeBytes(opt.Types),
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

// leafLimit returns the most edges that are sorted at once: a range with more is split.
func leafLimit(opt Options, edges int64) int64 {
	if opt.leafLimit > 0 {
		return opt.leafLimit
	}
	return max(1<<18, edges/1024)
}

// splitSlots is the number of children that one round of splitting makes at most, unless the oversized leaves are many.
const splitSlots = 1 << 14

// splitBits returns by how many bits each of n oversized leaves is split.
func splitBits(n int, edges int64) int {
	slots := min(max(edges/64, 1<<10), splitSlots)
	return min(max(bits.Len64(uint64(slots/int64(n)))-1, 4), 11)
}
