package edgesort

import (
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// merge goes over edges between the same two nodes, and keeps those that are to be kept.
func (f *leaf) merge() {
	s := f.l.s
	back := uint64(s.dirBits) // the bit that an added edge has
	if s.opt.Merge == Keep && s.opt.Loops != AddLoops {
		f.countParallel(back)
		return
	}
	kept := 0
	for lo := 0; lo < len(f.keys); {
		hi, added := lo, 0
		for hi < len(f.keys) && f.keys[hi]|back == f.keys[lo]|back {
			added += int(f.keys[hi] & back)
			hi++
		}
		listed := hi - lo - added
		n := hi - lo
		switch loop := s.isLoop(f.keys[lo]); {
		case loop && added > 0 && s.opt.Loops == AddLoops && listed > 0:
			n = listed
		case loop && added > 0 && s.opt.Loops == AddLoops:
			f.stats.Loops++
		case s.opt.Merge == MostOfTwo && added > 0 && listed > 0:
			n = max(listed, added)
			f.stats.Reversed += int64(min(listed, added))
		}
		if s.opt.Merge >= First && n > 1 {
			f.fold(lo, lo+n)
			f.stats.Merged += int64(n - 1)
			n = 1
		}
		f.stats.Parallel += int64(n - 1)
		if kept != lo {
			copy(f.keys[kept:], f.keys[lo:lo+n])
			if f.numbers != nil {
				copy(f.numbers[kept:], f.numbers[lo:lo+n])
			}
		}
		kept += n
		lo = hi
	}
	f.keys = f.keys[:kept]
	if f.numbers != nil {
		f.numbers = f.numbers[:kept]
	}
}

// countParallel counts edges that have an equal one before them.
func (f *leaf) countParallel(back uint64) {
	if len(f.keys) == 0 {
		return
	}
	n, before := int64(0), f.keys[0]|back
	for _, k := range f.keys[1:] {
		if k|back == before {
			n++
		}
		before = k | back
	}
	f.stats.Parallel += n
}

// isLoop reports whether a key is that of a self-loop.
func (s *Sorter) isLoop(key uint64) bool {
	if s.opt.Loops != AddLoops {
		return false
	}
	mask := uint64(1)<<s.idBits - 1
	return key>>s.dirBits&mask == key>>(s.dirBits+s.idBits+s.typeBits)&mask+uint64(s.first)
}

// fold makes one edge of edges lo to hi-1: the first, whose columns become what Merge says.
func (f *leaf) fold(lo, hi int) {
	s := f.l.s
	if s.opt.Merge == First || f.numbers == nil {
		return
	}
	first := f.rows[int64(f.numbers[lo])*s.record:][:s.record]
	for i := lo + 1; i < hi; i++ {
		row := f.rows[int64(f.numbers[i])*s.record:][:s.record]
		for c := range s.opt.Columns {
			col := &s.opt.Columns[c]
			size := col.DType.Size()
			sum := s.opt.Merge == Sum && col.Role() != graph.Time
			for at := s.places[c]; at < s.places[c]+s.widths[c]; at += size {
				combine(first[at:at+size], row[at:at+size], col.DType, sum)
			}
		}
	}
}

// combine adds an element to another, or keeps the greater of both.
func combine(a, b []byte, t unified.DType, sum bool) {
	if !sum {
		if ordered(b, t) > ordered(a, t) {
			copy(a, b)
		}
		return
	}
	if t.IsFloat() {
		t.Put(a, t.Float(a)+t.Float(b))
		return
	}
	carry := uint(0)
	for i := range a { // integers, modulo their range
		x := uint(a[i]) + uint(b[i]) + carry
		a[i], carry = byte(x), x>>8
	}
}
