package sampling

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// takeRun takes n edges that lie side by side.
func (p *choosePicker[V]) takeRun(first, n int64) error {
	if err := p.room(n); err != nil {
		return err
	}
	for i := range p.picks[p.made : p.made+int(n)] {
		p.picks[p.made+i] = first + int64(i)
	}
	p.made += int(n)
	return nil
}

// takeAll takes all edges that may be followed.
func (p *choosePicker[V]) takeAll() error {
	if !p.filtered() {
		return p.takeRun(p.first, p.n)
	}
	if err := p.room(p.n); err != nil {
		return err
	}
	return p.each(func(c *edgeChunk) {
		if p.values.weighted() {
			c.positive()
		}
		p.made = len(c.all(p.picks[:p.made]))
	})
}

// uniformly takes k of the edges that may be followed, each with equal probability.
func (p *choosePicker[V]) uniformly(stream uint64, eligible, k int64, again bool) error {
	if err := p.room(k); err != nil {
		return err
	}
	picks := p.picks[p.made : p.made+int(k)]
	p.made += int(k)
	if again {
		return p.uniformlyAgain(stream, eligible, picks)
	}
	if eligible == p.n {
		p.set.subset(picks, stream, p.first, uint64(p.n))
		return nil
	}
	p.set.subset(picks, stream, 0, uint64(eligible))
	before := int64(0)
	return p.each(func(c *edgeChunk) {
		many := c.count()
		for ; len(picks) > 0 && picks[0] < before+many; picks = picks[1:] {
			picks[0] = c.nth(picks[0] - before)
		}
		before += many
	})
}

// uniformlyAgain makes independent picks.
func (p *choosePicker[V]) uniformlyAgain(stream uint64, eligible int64, picks []int64) error {
	if eligible == p.n {
		for j := range picks {
			picks[j] = p.first + int64(rng.Bounded(rng.Draw(stream, uint64(j)), uint64(p.n)))
		}
		return nil
	}
	draws, err := p.drawn(stream, uint64(eligible), int64(len(picks)))
	if err != nil {
		return err
	}
	before := uint64(0)
	return p.each(func(c *edgeChunk) {
		many := uint64(c.count())
		for ; len(draws) > 0 && draws[0].at < before+many; draws = draws[1:] {
			picks[draws[0].pick] = c.nth(int64(draws[0].at - before))
		}
		before += many
	})
}

// drawn makes k draws of 0 .. n-1, in ascending order.
func (p *choosePicker[V]) drawn(stream, n uint64, k int64) (draws []drawn, err error) {
	cells, err := unified.Grow[uint64](&p.draws, 2*k, 0)
	if err != nil {
		return nil, err
	}
	draws = unsafe.Slice((*drawn)(unsafe.Pointer(unsafe.SliceData(cells))), k)
	for j := range draws {
		draws[j] = drawn{rng.Bounded(rng.Draw(stream, uint64(j)), n), int64(j)}
	}
	slices.SortFunc(draws, func(a, b drawn) int { return cmp.Compare(a.at, b.at) })
	return draws, nil
}

// byWeight takes the k edges that win the race.
func (p *choosePicker[V]) byWeight(stream uint64, k int64) error {
	best := &p.race.best
	if err := best.begin(int(k), p.n); err != nil {
		return err
	}
	err := p.each(func(c *edgeChunk) {
		p.race.run(c.weights[:c.n], c.from, stream, uint64(c.from-p.base), c.sum)
	})
	if err != nil {
		return err
	}
	return p.take(best.end())
}

// take appends picks.
func (p *choosePicker[V]) take(at []int64) error {
	if err := p.room(int64(len(at))); err != nil {
		return err
	}
	p.made += copy(p.picks[p.made:], at)
	return nil
}

// byRecency takes the k edges that win the race where weights halve with age.
func (p *choosePicker[V]) byRecency(stream uint64, k int64) error {
	best, decay := &p.race.best, math.Ln2/p.opt.Time.HalfLife
	if err := best.begin(int(k), p.n); err != nil {
		return err
	}
	if recent := max(chunkEdges, k); !p.filtered() && p.timesAscend() && p.n > 2*recent && !math.IsInf(decay, 0) {
		// The last edges say what older ones must have at least, most of which then need not be asked for their times.
		p.raceOld(stream, decay, p.first+p.n-recent, recent)
		best.drop()
		limit := best.limit
		if err := best.begin(int(k), p.n); err != nil {
			return err
		}
		best.bound, best.limit = true, limit
		p.raceOld(stream, decay, p.first, p.n)
		return p.take(best.end())
	}
	err := p.each(func(c *edgeChunk) {
		if p.values.weighted() {
			c.positive()
		}
		for w, left := range c.words[:(c.n+63)/64] {
			for ; left != 0; left &= left - 1 {
				i := 64*w + bits.TrailingZeros64(left)
				at, weight := c.from+int64(i), 1.0
				if p.values.weighted() {
					weight = c.weights[i]
				}
				late := float64(age(p.asOf, p.time(at)) * decay)
				addRecent(best, rng.Unit(rng.Draw(stream, uint64(at-p.base))), weight, late, at)
			}
		}
	})
	if err != nil {
		return err
	}
	return p.take(best.end())
}

// raceOld adds n edges to the race whose times ascend, and which all may be followed and have no weights. Of a chunk
// the last edge's age is the least: it says which draws cannot win, whatever the age of their edge.
func (p *choosePicker[V]) raceOld(stream uint64, decay float64, from, n int64) {
	best := &p.race.best
	for end := from + n; from < end; {
		last := min(from+chunkEdges, end)
		p.looked++
		worst := hopeless(best, float64(age(p.asOf, p.time(last-1))*decay))
		state := stream + uint64(from-p.base)*rng.Golden
		for ; from < last; from++ {
			state += rng.Golden
			if u := rng.Unit(rng.Mix64(state)); math.Float64bits(1-u)>>52 < worst {
				p.looked++
				addRecent(best, u, 1, float64(age(p.asOf, p.time(from))*decay), from)
			}
		}
	}
}

// filtered says that not all edges that are looked at may be followed alike.
func (p *choosePicker[V]) filtered() bool {
	return p.values.masked() || p.values.weighted() || p.byTime || p.bySource
}

// time returns the time of an edge, else of its source, else of its destination.
func (p *choosePicker[V]) time(at int64) int64 {
	v, st := &p.values, p.st
	at = p.column(at)
	if v.times.valid() {
		return v.times.at(at)
	}
	if nodes := &v.nodes[st.srcType]; nodes.valid() {
		return nodes.at(int64(p.a.indices[at] - st.src.offset))
	}
	return p.asOf
}

// latest takes the k most recent edges.
func (p *choosePicker[V]) latest(k int64) error {
	if k <= p.n && !p.filtered() && p.timesAscend() {
		return p.takeRun(p.first+p.n-k, k)
	}
	if err := p.late.begin(int(k), p.n); err != nil {
		return err
	}
	err := p.each(func(c *edgeChunk) {
		for w, left := range c.words[:(c.n+63)/64] {
			for ; left != 0; left &= left - 1 {
				at := c.from + int64(64*w+bits.TrailingZeros64(left))
				p.late.add(^p.time(at), at)
			}
		}
	})
	if err != nil {
		return err
	}
	return p.take(p.late.end())
}

// timesAscend reports whether the edges of the type lie in the order of the times of the steps over them.
func (p *choosePicker[V]) timesAscend() bool {
	switch v := &p.values; {
	case v.times.valid():
		return p.opt.Time.ordered(p.edges)
	case v.nodes[p.st.srcType].valid():
		return p.values.sourcesAscend(p.edges)
	}
	return true // all equal
}

// byWeightAgain takes k edges, each independently, with probabilities in proportion to their weights as integers.
func (p *choosePicker[V]) byWeightAgain(stream uint64, k int64) error {
	most := 0.0
	err := p.each(func(c *edgeChunk) { most = max(most, slices.Max(c.weights[:c.n])) })
	if err != nil || most == 0 {
		return err
	}
	scale := fixedScale(most, p.all)
	sum := uint64(0)
	err = p.each(func(c *edgeChunk) {
		for _, w := range c.weights[:c.n] {
			sum += fixedWeight(w, scale)
		}
	})
	if err != nil {
		return err
	}
	if err := p.room(k); err != nil {
		return err
	}
	draws, err := p.drawn(stream, sum, k)
	if err != nil {
		return err
	}
	picks, before := p.picks[p.made:p.made+int(k)], uint64(0)
	p.made += int(k)
	return p.each(func(c *edgeChunk) {
		for i, w := range c.weights[:c.n] {
			before += fixedWeight(w, scale)
			for ; len(draws) > 0 && draws[0].at < before; draws = draws[1:] {
				picks[draws[0].pick] = c.from + int64(i)
			}
		}
	})
}

// fixedShare returns a share as a multiple of 2^-32.
func fixedShare(share float64) uint64 { return uint64(math.RoundToEven(share * (1 << 32))) }

// fixedScale returns what fixedWeight needs to make n weights, up to the greatest, integers whose sum is below 2^62.
func fixedScale(most float64, n int64) int {
	return 61 - bits.Len64(uint64(n)) - exponent(most)
}

// exponent returns x of the greatest power of two, 2^x, that is at most w.
func exponent(w float64) int {
	_, x := math.Frexp(w)
	return x - 1
}

// fixedWeight returns floor(w * 2^scale), which must be below 2^62.
func fixedWeight(w float64, scale int) uint64 {
	b := math.Float64bits(w)
	m, x := b&(1<<52-1), int(b>>52)
	if x > 0 {
		m |= 1 << 52
		x--
	}
	shift := x - 1074 + scale // w = m * 2^(x-1074)
	if shift >= 0 {
		return m << shift
	}
	return m >> min(-shift, 63)
}
