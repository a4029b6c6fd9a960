package sampling

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/khop-gnn/khop/internal/rng"
)

// subsetter draws Floyd subsets in ascending order. The set is kept as a bit mask, which answers "is it in?" and hands
// out the picks in order, both without a branch: whether a draw repeats and where the next pick lies are random, and an
// insertion sort that branches on them costs five times as much a pick. A mask of more than 64 bits has summaries above
// it, one bit a word, and is left empty.
type subsetter struct {
	leaf [64 * 64]uint64 // bit t
	mid  [64]uint64      // bit w: leaf[w] is not empty
}

// The numbers of picks that masks of one, two and three levels can choose from.
const (
	oneLevel    = 64
	twoLevels   = 64 * 64
	threeLevels = 64 * 64 * 64
)

// subset writes start plus a Floyd subset of 0 .. n-1, ascending, to pos; its size is len(pos) < n.
//
// Vectors come first, where the processor has them: on a Xeon of 2023 subset8 takes 30 ns and subset16 50, while masks
// take 5 ns a pick up to a degree of 64 and 13 above.
func (s *subsetter) subset(pos []int64, stream uint64, start int64, n uint64) {
	switch {
	case haveSubset16 && len(pos) <= 16 && n < 1<<32:
		if len(pos) > 8 {
			subset16(&pos[0], len(pos), stream, start, n)
		} else if len(pos) > 0 {
			subset8(&pos[0], len(pos), stream, start, n)
		}
	case n <= oneLevel:
		subset64(pos, stream, start, n)
	case n <= twoLevels:
		s.subset4096(pos, stream, start, n)
	case n <= threeLevels:
		s.subset262144(pos, stream, start, n)
	default:
		subsetLarge(pos, stream, start, n)
	}
}

func subset64(pos []int64, stream uint64, start int64, n uint64) {
	set := uint64(0)
	i := n - uint64(len(pos))
	for range pos {
		stream += rng.Golden
		t := rng.Bounded(rng.Mix64(stream), i+1)
		t ^= (t ^ i) & -(set >> (t & 63) & 1) // i where t is in
		set |= 1 << (t & 63)
		i++
	}
	for j := range pos {
		pos[j] = start + int64(bits.TrailingZeros64(set))
		set &= set - 1
	}
}

func (s *subsetter) subset4096(pos []int64, stream uint64, start int64, n uint64) {
	leaf := (*[64]uint64)(s.leaf[:64])
	top := uint64(0)
	i := n - uint64(len(pos))
	for range pos {
		stream += rng.Golden
		t := rng.Bounded(rng.Mix64(stream), i+1)
		t ^= (t ^ i) & -(leaf[t>>6&63] >> (t & 63) & 1)
		leaf[t>>6&63] |= 1 << (t & 63)
		top |= 1 << (t >> 6 & 63)
		i++
	}
	for j := range pos {
		w := bits.TrailingZeros64(top) & 63
		set := leaf[w]
		pos[j] = start + int64(w<<6+bits.TrailingZeros64(set))
		set &= set - 1
		leaf[w] = set
		top &^= isZero(set) << w
	}
}

func (s *subsetter) subset262144(pos []int64, stream uint64, start int64, n uint64) {
	leaf, mid := &s.leaf, &s.mid
	top := uint64(0)
	i := n - uint64(len(pos))
	for range pos {
		stream += rng.Golden
		t := rng.Bounded(rng.Mix64(stream), i+1)
		t ^= (t ^ i) & -(leaf[t>>6&4095] >> (t & 63) & 1)
		leaf[t>>6&4095] |= 1 << (t & 63)
		mid[t>>12&63] |= 1 << (t >> 6 & 63)
		top |= 1 << (t >> 12 & 63)
		i++
	}
	for j := range pos {
		m := bits.TrailingZeros64(top) & 63
		words := mid[m]
		w := m<<6 + bits.TrailingZeros64(words)&63
		set := leaf[w]
		pos[j] = start + int64(w<<6+bits.TrailingZeros64(set))
		set &= set - 1
		leaf[w] = set
		words &^= isZero(set) << (w & 63)
		mid[m] = words
		top &^= isZero(words) << m
	}
}

// isZero is 1 for 0 and 0 for all others.
func isZero(x uint64) uint64 { return (x|-x)>>63 ^ 1 }

// fewPicks is the number of picks up to which insertSubset is quicker.
const fewPicks = 4096

// subsetLarge draws from more than masks have bits for.
func subsetLarge(pos []int64, stream uint64, start int64, n uint64) {
	if len(pos) <= fewPicks {
		insertSubset(pos, stream, start, n)
		return
	}
	sortSubset(pos, stream, n)
	for j := range pos {
		pos[j] += start
	}
}

// insertSubset keeps the picks sorted by inserting.
func insertSubset(pos []int64, stream uint64, start int64, n uint64) {
	k := uint64(len(pos))
	set := pos[:0]
	for j := range k {
		i := n - k + j
		t := start + int64(rng.Bounded(rng.Draw(stream, j), i+1))
		at, found := slices.BinarySearch(set, t)
		if found {
			set = append(set, start+int64(i))
		} else {
			set = slices.Insert(set, at, t)
		}
	}
}

// sortSubset sorts all draws first and then goes through them once more, in their order. A draw that is in the set
// already stands for i, the greatest number of its turn, which nothing before can have added. The complement of a draw
// says that it is in the set, so no memory is needed.
func sortSubset(pos []int64, stream uint64, n uint64) {
	k := uint64(len(pos))
	draw := func(j uint64) int64 { return int64(rng.Bounded(rng.Draw(stream, j), n-k+j+1)) }
	for j := range k {
		pos[j] = draw(j)
	}
	slices.Sort(pos)
	drawn := slices.Compact(pos)
	find := func(t int64) (at int, found bool) {
		return slices.BinarySearchFunc(drawn, t, func(have, t int64) int { return cmp.Compare(max(have, ^have), t) })
	}
	set := drawn // and behind it what was never drawn
	for j := range k {
		at, _ := find(draw(j))
		if drawn[at] < 0 {
			i := int64(n - k + j)
			var found bool
			if at, found = find(i); !found {
				set = append(set, i)
				continue
			}
		}
		drawn[at] = ^drawn[at]
	}
	for at := range drawn { // each is in the set by now
		drawn[at] = ^drawn[at]
	}
	slices.Sort(pos)
}
