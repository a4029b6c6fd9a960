package sampling

import (
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
	set           *subsetter

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
			prefetchColumn(p.indices, first, m)
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
			prefetchPicks(p.indices, c.pos[n:n+int(m)], start, d)
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
			p.set.subset(pos, rng.Stream(p.key, uint64(p.dst.ids[p.i])), start, uint64(d))
			prefetchPicks(p.indices, pos, start, d)
			n += int(k)
		}
		p.done = 0
	}
	c.n = n
}
