package sampling

import (
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// neighborPicker picks for Neighbor: up to a fan-out of each destination's edges, or all of them.
type neighborPicker[V nodeID] struct {
	a       *assembly[V]
	fanouts hopFanouts
	replace bool
	set     subsetter
	rand    Rand

	// of the stage at hand
	*stage[V]
	fanout        int64
	key           uint64  // of its draws
	start, degree []int64 // by position in the list of destinations
	i             int     // destination whose picks come next
	done          int64   // of its picks, how many were delivered

	picks unified.Buffer // of a destination that takes more than a chunk holds, and not all of its edges
}

// manyPicks returns the most picks that a destination takes at once without taking all its edges, if they are more than
// a chunk holds; else 0. No destination has more edges than its type.
func (p hopFanouts) manyPicks(s *graph.Schema) (most int64) {
	for _, fanouts := range p {
		for e, k := range fanouts {
			if n := min(int64(k), s.Edges[e].Count); n > chunkPicks {
				most = max(most, n)
			}
		}
	}
	return most
}

func (p *neighborPicker[V]) excludes() {}

func (p *neighborPicker[V]) hop(r Rand, _ []stage[V]) error {
	p.rand = r
	return nil
}

func (p *neighborPicker[V]) count(st *stage[V], ends []int32) (int64, error) {
	n, k := int64(st.have), int64(p.fanouts[st.hop][st.edgeType])
	if k == 0 {
		for i := st.lo; i < st.hi; i++ {
			ends[i] = int32(n)
		}
		return n, nil
	}
	if err := p.a.ranges(st); err != nil {
		return 0, err
	}
	p.fanout = k
	p.begin(st)
	p.key = p.rand.Stage(p.a.schema.Edges[st.edgeType].Key, PurposePick, uint8(st.hop)).key
	degree, ends := p.degree[:st.hi], ends[:st.hi]
	for i := st.lo; i < st.hi; i++ {
		switch d := degree[i]; {
		case k < 0:
			n += d
		case p.replace && d > 0:
			n += k
		default:
			n += min(d, k)
		}
		ends[i] = int32(n)
	}
	more := func(d int64) bool { return d > k }
	if k > chunkPicks && !p.replace && slices.ContainsFunc(degree[st.lo:], more) { // a subset is chosen at once
		if _, err := unified.Grow[int64](&p.picks, k, 0); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// begin begins to fill in the picks of a stage whose ranges are known.
func (p *neighborPicker[V]) begin(st *stage[V]) {
	p.stage, p.start, p.degree, p.i, p.done = st, p.a.start, p.a.degree, st.lo, 0
}

func (p *neighborPicker[V]) fill(c *chunk[V]) {
	k, indices := p.fanout, p.a.indices
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
			prefetchColumn(indices, first, m)
			n += int(m)
			if m < left {
				p.done += m
				c.n = n
				return
			}
		case p.replace:
			s := rng.Stream(p.key, p.index(p.i))
			m := min(k-p.done, int64(room-n))
			for q := range m {
				c.pos[n+int(q)] = start + int64(rng.Bounded(rng.Draw(s, uint64(p.done+q)), uint64(d)))
			}
			prefetchPicks(indices, c.pos[n:n+int(m)], start, d)
			n += int(m)
			if p.done+m < k {
				p.done += m
				c.n = n
				return
			}
		case k > int64(room):
			if n == room {
				c.n = n
				return
			}
			m := p.someOfMany(c.pos[n:])
			prefetchPicks(indices, c.pos[n:n+m], start, d)
			n += m
			if p.done < k {
				c.n = n
				return
			}
		default:
			if n+int(k) > room {
				c.n = n
				return
			}
			pos := c.pos[n : n+int(k)]
			p.set.subset(pos, rng.Stream(p.key, p.index(p.i)), start, uint64(d))
			prefetchPicks(indices, pos, start, d)
			n += int(k)
		}
		p.done = 0
	}
	c.n = n
}

// someOfMany writes the next picks of a destination that takes more than a chunk holds, until the chunk is full.
func (p *neighborPicker[V]) someOfMany(pos []int64) int {
	picks, _ := unified.Grow[int64](&p.picks, p.fanout, p.fanout) // count made room
	if p.done == 0 {
		p.set.subset(picks[:p.fanout], rng.Stream(p.key, p.index(p.i)), p.start[p.i], uint64(p.degree[p.i]))
	}
	n := copy(pos, picks[p.done:p.fanout])
	p.done += int64(n)
	return n
}

// keptPicks are the picks of a stage, for pickers that make them while they count.
type keptPicks[V nodeID] struct {
	sources    []V // of all edges
	picks      []int64
	made, done int // picks that were made, and delivered
	picksMem   unified.Buffer
}

// fill delivers the next picks.
func (k *keptPicks[V]) fill(c *chunk[V]) {
	c.n = copy(c.pos, k.picks[k.done:k.made])
	k.done += c.n
	prefetchPicks(k.sources, c.pos[:c.n], 0, int64(len(k.sources)))
}

// takeNone ends a stage of which no destination takes an edge.
func (st *stage[V]) takeNone(ends []int32) int64 {
	for i := st.lo; i < st.hi; i++ {
		ends[i] = int32(st.have)
	}
	return int64(st.have)
}
