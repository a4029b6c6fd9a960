package sampling

import (
	"math/bits"
	"slices"

	"github.com/khop-gnn/khop/internal/rng"
)

// picker chooses the picks of a stage, chunk by chunk, destination by destination.
type picker[V nodeID] struct {
	*stage[V]
	fanout        int64 // not 0
	replace       bool
	key           uint64  // of the stage's draws
	start, degree []int64 // by position in the list of destinations
	indices       []V     // only to ask for

	i    int   // destination at hand
	done int64 // of its picks, how many were delivered
}

// fill writes the next picks to c, up to its room, and asks for the sources that lie at them. No picks means the end.
func (p *picker[V]) fill(c *chunk[V]) {
	k := p.fanout
	if k > int64(len(c.pos)) && !p.replace {
		c.pos, c.nbr = slices.Grow(c.pos, int(k))[:k], slices.Grow(c.nbr, int(k))[:k] // a subset is chosen at once
	}
	n := 0
	room := len(c.pos)
	for ; p.i < p.hi; p.i++ {
		d, start := p.degree[p.i], p.start[p.i]
		switch {
		case k < 0 || d <= k && !p.replace || d == 0:
			left := d - p.done
			m := min(left, int64(room-n))
			first := start + p.done
			for q := range c.pos[n : n+int(m)] {
				c.pos[n+q] = first + int64(q)
			}
			prefetchEdges(p.indices, c.pos[n:n+int(m)])
			n += int(m)
			if m < left {
				p.done += m
				c.n = n
				return
			}
		case p.replace:
			s := rng.Stream(p.key, uint64(p.dst.ids[p.i]))
			m := min(k-p.done, int64(room-n))
			for q := range m {
				c.pos[n+int(q)] = start + int64(rng.Bounded(rng.Draw(s, uint64(p.done+q)), uint64(d)))
			}
			prefetchEdges(p.indices, c.pos[n:n+int(m)])
			n += int(m)
			if p.done+m < k {
				p.done += m
				c.n = n
				return
			}
		default:
			if n+int(k) > room {
				c.n = n
				return
			}
			pos := c.pos[n : n+int(k)]
			subset(pos, rng.Stream(p.key, uint64(p.dst.ids[p.i])), start, uint64(d))
			prefetchEdges(p.indices, pos)
			n += int(k)
		}
		p.done = 0
	}
	c.n = n
}

// subset writes start plus a Floyd subset of 0 .. n-1, ascending, to pos; its size is len(pos) < n.
func subset(pos []int64, s uint64, start int64, n uint64) {
	switch {
	case n <= 64:
		subset64(pos, s, start, n)
	case len(pos) <= 16:
		subsetSmall(pos, s, start, n)
	default:
		subsetLarge(pos, s, start, n)
	}
}

// subset64 keeps the set as a bit mask, from which it comes out in order.
func subset64(pos []int64, s uint64, start int64, n uint64) {
	set := uint64(0)
	i := n - uint64(len(pos))
	for range pos {
		s += rng.Golden
		t := rng.Bounded(rng.Mix64(s), i+1)
		hit := set >> (t & 63) & 1
		t ^= (t ^ i) & -hit
		set |= 1 << (t & 63)
		i++
	}
	for j := range pos {
		pos[j] = start + int64(bits.TrailingZeros64(set))
		set &= set - 1
	}
}

// subsetSmall looks through a list, but only where a 64-bit filter says that the value may be there.
func subsetSmall(pos []int64, s uint64, start int64, n uint64) {
	filter := uint64(0)
	i := n - uint64(len(pos))
	for j := range pos {
		s += rng.Golden
		t := rng.Bounded(rng.Mix64(s), i+1)
		bit := uint64(1) << (t & 63)
		if filter&bit != 0 && slices.Contains(pos[:j], start+int64(t)) {
			t = i
			bit = 1 << (t & 63)
		}
		filter |= bit
		pos[j] = start + int64(t)
		i++
	}
	sortSmall(pos)
}

// sortSmall is an insertion sort.
func sortSmall(pos []int64) {
	for j := 1; j < len(pos); j++ {
		v := pos[j]
		q := j
		for q > 0 && pos[q-1] > v {
			pos[q] = pos[q-1]
			q--
		}
		pos[q] = v
	}
}

// subsetLarge keeps the set sorted by inserting: O(k log k) comparisons and moves of at most k picks.
func subsetLarge(pos []int64, s uint64, start int64, n uint64) {
	k := uint64(len(pos))
	set := pos[:0]
	for j := range k {
		i := n - k + j
		t := start + int64(rng.Bounded(rng.Draw(s, j), i+1))
		at, found := slices.BinarySearch(set, t)
		if found {
			set = append(set, start+int64(i))
		} else {
			set = slices.Insert(set, at, t)
		}
	}
}
