package sampling

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/khop-gnn/khop/internal/prefetch"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// variates are those of the sources of one type at one hop: a number of 64 bits for each fused id.
//
// If they stay for several batches, every source has a phase, which says whether it is in the present group of batches
// or already in the next.
type variates struct {
	key    uint64 // of the group now, less the offset of the type
	next   uint64 // of the next group
	phases uint64 // key of the phases
	turn   uint64 // phases from here on are in the next group; above 0
	many   bool   // they stay for several batches
}

// variates returns those of the sources of a type, with its key and offset, at a hop.
func (l Labor) variates(r Rand, typeKey uint64, hop int, offset int64) variates {
	if l.LayerDependent {
		hop = 0
	}
	return newVariates(r, typeKey, uint8(hop), uint64(offset), uint64(l.BatchDependency))
}

// newVariates makes those of a node type with a key and an offset, which stay for some batches.
func newVariates(r Rand, typeKey uint64, hop uint8, offset, stays uint64) (v variates) {
	stage := func(r Rand, p Purpose, hop uint8) uint64 {
		return r.Stage(typeKey, p, hop).key - offset*rng.Golden // so that fused ids can be the index
	}
	if stays <= 1 {
		v.key = stage(r, purposeShared, hop)
		return v
	}
	group, turn := r.batch/stays, r.batch%stays
	v.many, v.key = true, stage(r.of(group), purposeShared, hop)
	if turn == 0 { // no source is in the next group yet
		v.many = false
		return v
	}
	v.next, v.phases = stage(r.of(group+1), purposeShared, hop), stage(r.of(0), purposePhase, 0)
	v.turn, _ = bits.Div64(stays-turn, stays-1, stays) // phase >= stays-turn, where phase is bounded(draw, stays)
	return v
}

// of returns the variate of a fused id.
func (v *variates) of(id uint64) uint64 {
	key := v.key
	if v.many && rng.Draw(rng.Stream(v.phases, id), 0) >= v.turn {
		key = v.next
	}
	return rng.Draw(rng.Stream(key, id), 0)
}

// laborPicker picks for Labor: of each destination's edges those whose sources have the least variates.
type laborPicker[V nodeID] struct {
	a       *assembly[V]
	fanouts hopFanouts
	opt     Labor
	rand    Rand

	// of the stage at hand
	*stage[V]
	fanout        int64
	variates      variates
	start, degree []int64        // by position in the list of destinations
	i             int            // destination whose picks come next
	done          int64          // of its picks, or with Poisson of its edges, how many were delivered or seen
	excluded      []excludedEdge // the edges of the destination at hand that the batch leaves out

	// the edges in view: variates and positions within the column, ascending, with laborBehind of room behind the last
	seen  unified.Buffer
	u, at []uint64
}

func (p *laborPicker[V]) excludes() {}

func (p *laborPicker[V]) hop(r Rand, _ []stage[V]) error {
	p.rand = r
	return nil
}

func (p *laborPicker[V]) count(st *stage[V], ends []int32) (int64, error) {
	n, k := int64(st.have), int64(p.fanouts[st.hop][st.edgeType])
	p.stage, p.fanout, p.i, p.done = st, k, st.lo, 0
	if k == 0 {
		p.i = st.hi
		return st.takeNone(ends), nil
	}
	if err := p.a.ranges(st); err != nil {
		return 0, err
	}
	p.start, p.degree = p.a.start, p.a.degree
	p.variates = p.opt.variates(p.rand, p.a.schema.Nodes[st.srcType].Key, st.hop, int64(st.src.offset))
	most := int64(0)
	for i := st.lo; i < st.hi; i++ {
		d := p.degree[i]
		switch {
		case k < 0 || d <= k:
			n += d
		case p.opt.Poisson:
			n += p.below(i, shareOf(k, d))
		default:
			n += k
			most = k
		}
		ends[i] = int32(n)
	}
	p.a.pages.again(st.lo)
	return n, p.makeRoom(most)
}

// makeRoom makes room to look at n edges.
func (p *laborPicker[V]) makeRoom(most int64) error {
	room := 2*most + laborSlack
	mem, err := unified.Grow[uint64](&p.seen, 2*room, 0)
	if err != nil {
		return err
	}
	p.u, p.at = mem[:room:room], mem[room:2*room:2*room]
	return nil
}

// shareOf returns the greatest variate that is below k/n, for 0 < k < n: of u below it, bounded(u, n) < k.
func shareOf(k, n int64) uint64 {
	q, _ := bits.Div64(uint64(k)-1, math.MaxUint64, uint64(n))
	return q
}

// below returns how many edges of destination i have a variate up to limit.
func (p *laborPicker[V]) below(i int, limit uint64) (n int64) {
	p.ahead(i)
	p.see(i)
	for at := int64(0); at < p.degree[i]; {
		part := p.sources(i, at)
		for _, v := range part {
			n += bit(p.variates.of(uint64(v)) <= limit)
		}
		at += int64(len(part))
	}
	return n
}

// see goes to destination i.
func (p *laborPicker[V]) see(i int) {
	p.a.reach(i)
	p.excluded = p.a.left(p.edgeType, int64(p.dst.ids[i]))
}

// sources returns those of destination i from edge at on, not counting edges that the batch leaves out: all, or all
// before the next edge that is left out.
func (p *laborPicker[V]) sources(i int, at int64) []V {
	from, end := p.start[i]+at, p.start[i]+p.degree[i]
	for h := range p.excluded {
		if from < p.excluded[h].pos {
			return p.a.indices[from:min(p.excluded[h].pos, end)]
		}
		from, end = from+1, end+1
	}
	return p.a.indices[from:end]
}

// ahead asks for the sources of a destination soon to come: the processor follows a long column by itself.
func (p *laborPicker[V]) ahead(i int) {
	const lead, most = 4, 256
	if i += lead; i < p.hi && p.degree[i] > 0 {
		column := p.a.indices[p.start[i] : p.start[i]+min(p.degree[i], most)]
		prefetch.Range(unsafe.Pointer(&column[0]), len(column)*int(unsafe.Sizeof(column[0])))
	}
}

func (p *laborPicker[V]) fill(c *chunk[V]) {
	n, k := 0, p.fanout
	for ; p.i < p.hi; p.i++ {
		d := p.degree[p.i]
		var whole bool
		switch {
		case k < 0 || d <= k:
			m := min(d-p.done, int64(len(c.pos)-n))
			for q := range m {
				c.pos[n+int(q)] = p.start[p.i] + p.done + q
			}
			prefetchColumn(p.a.indices, p.start[p.i]+p.done, m)
			n += int(m)
			p.done += m
			whole = p.done == d
		case p.opt.Poisson:
			n, whole = p.fillBelow(c.pos, n, shareOf(k, d))
		default:
			n, whole = p.fillLeast(c.pos, n)
		}
		if !whole {
			break
		}
		p.done = 0
	}
	c.n = n
}

// fillBelow writes the next edges of the destination at hand that have a variate up to limit, and reports whether they
// are the last.
func (p *laborPicker[V]) fillBelow(pos []int64, n int, limit uint64) (int, bool) {
	p.ahead(p.i)
	p.see(p.i)
	start := p.start[p.i]
	for p.done < p.degree[p.i] {
		for _, v := range p.sources(p.i, p.done) {
			if n == len(pos) {
				return n, false
			}
			pos[n] = start + p.done
			n += int(bit(p.variates.of(uint64(v)) <= limit))
			p.done++
		}
	}
	return n, true
}

// fillLeast writes the next picks of the destination at hand, and reports whether they are the last.
func (p *laborPicker[V]) fillLeast(pos []int64, n int) (int, bool) {
	k := int(p.fanout)
	if p.done == 0 {
		if k <= len(pos) && n+k > len(pos) { // it fits in the next chunk
			return n, false
		}
		p.ahead(p.i)
		p.see(p.i)
		p.least(k)
	}
	m := min(k-int(p.done), len(pos)-n)
	start := p.start[p.i]
	for q, at := range p.at[p.done : int(p.done)+m] {
		pos[n+q] = start + int64(at)
	}
	p.done += int64(m)
	return n + m, int(p.done) == k
}

// least leaves in view the k edges of the destination at hand with the least (variate, position), of more than k.
func (p *laborPicker[V]) least(k int) {
	d := p.degree[p.i]
	limit := uint64(math.MaxUint64)
	if guess := float64(k) + 2*math.Sqrt(float64(k)) + 2; guess < float64(d) {
		limit, _ = bits.Div64(uint64(guess), 0, uint64(d))
	}
	n, limit := p.look(k, limit)
	if n < k { // one in fifty
		n, limit = p.look(k, math.MaxUint64)
	}
	const most = 32 // for leastOf8
	if haveLook8 && n <= most && leastOf8(&p.u[0], &p.at[0], n, k) == k {
		return
	}
	p.keepLeast(n, k, limit)
}

// look brings in view the edges with variates up to limit, or the least of them, if there are many, but k at least. It
// returns how many they are, and a number that they are all up to.
func (p *laborPicker[V]) look(k int, limit uint64) (n int, upTo uint64) {
	room, d := len(p.u)-laborBehind, p.degree[p.i]
	for base := int64(0); base < d; {
		part := p.sources(p.i, base)
		part = part[:min(len(part), room-n)]
		n += p.scan(part, uint64(base), limit, p.u[n:], p.at[n:])
		base += int64(len(part))
		if n == room && base < d {
			greatest := p.keepLeast(n, k, limit)
			if n = k; greatest == 0 {
				return n, 0
			}
			limit = greatest - 1
			upTo = greatest
		}
	}
	return n, max(limit, upTo)
}

// scan writes the variates of a part of a column that are up to limit to us, and where they are in the column to at. It
// returns how many they are.
func (p *laborPicker[V]) scan(part []V, base, limit uint64, us, at []uint64) (n int) {
	v := &p.variates
	if haveLook8 && unsafe.Sizeof(part[0]) == 4 {
		ids := (*int32)(unsafe.Pointer(&part[0]))
		_ = us[len(part)+laborBehind-1]
		if v.many {
			return lookTurn8(ids, len(part), v.key, v.next, v.phases, v.turn, limit, base, &us[0], &at[0])
		}
		return look8(ids, len(part), v.key, limit, base, &us[0], &at[0])
	}
	at = at[:len(us)]
	for i, id := range part {
		if n >= len(us) { // never: there is room for all
			break
		}
		u := v.of(uint64(id))
		us[n], at[n] = u, base+uint64(i)
		n += int(bit(u <= limit))
	}
	return n
}

// keepLeast keeps the k least of n >= k edges in view, all up to upTo, in their order. It returns the greatest variate
// of these, or a number between it and the next.
func (p *laborPicker[V]) keepLeast(n, k int, upTo uint64) uint64 {
	limit, ties := kthOf(p.u, n, k, upTo)
	if ties < 0 && haveLook8 {
		keepUpTo8(&p.u[0], &p.at[0], n, limit)
		return limit
	}
	us, at := p.u[:n], p.at[:n]
	m := 0
	for i, u := range us {
		if u > limit || u == limit && ties == 0 {
			continue
		}
		if u == limit {
			ties--
		}
		us[m], at[m] = u, at[i]
		m++
	}
	return limit
}

// kthOf returns a number that k of the first n of us are up to, all of which are up to high. Where there is none,
// because several are equal, it is the k-th least, and ties is how many of those equal to it are among the k; else ties
// is -1.
func kthOf(us []uint64, n, k int, high uint64) (limit uint64, ties int) {
	// Search between low and high. The numbers are spread evenly, so that interpolation finds one soon; from some step
	// on the range is halved, so that any numbers do.
	const evenly = 8
	low, below, upTo := uint64(0), 0, n // below of them are less than low
	for step := 0; upTo != k; step++ {
		if low == high {
			return high, k - below
		}
		middle := low + (high-low)/2
		if step < evenly {
			fraction := (float64(k-below) + 0.5) / (float64(upTo-below) + 1)
			middle = low + min(uint64(float64(high-low)*fraction), high-low-1)
		}
		if count := countUpTo(us, n, middle); count >= k {
			high, upTo = middle, count
		} else {
			low, below = middle+1, count
		}
	}
	return high, -1
}

// countUpTo returns how many of the first n numbers, 1 or more, are up to limit. us has room for laborBehind more.
func countUpTo(us []uint64, n int, limit uint64) (count int) {
	if haveLook8 {
		_ = us[n+laborBehind-1]
		return countUpTo8(&us[0], n, limit)
	}
	for _, u := range us[:n] {
		count += int(bit(u <= limit))
	}
	return count
}
