package sampling

import (
	"math"
	"math/bits"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// choosePicker picks for Neighbor if the edges of a destination are not all alike: some may not be followed, or they
// have weights. It finds the edges that may be followed, and chooses among them. It looks at all edges of a
// destination, so it picks while it counts, and keeps the picks of a stage.
type choosePicker[V nodeID] struct {
	a       *assembly[V]
	fanouts hopFanouts
	opt     Neighbor
	share   uint64 // Share as a multiple of 2^-32
	values  edgeValues
	past    pastRules
	set     subsetter
	race    racer
	late    smallest[int64] // the most recent edges, by time with all bits inverted
	chunk   edgeChunk
	part    edgeChunk // of chunk, between edges that are left out
	rand    Rand

	keptPicks[V]
	draws unified.Buffer // those of a destination, with replacement

	// of the stage at hand
	st       *stage[V]
	edges    *graph.EdgeType
	fanout   int64
	rule     pastRule
	timed    bool   // whether the rule asks edges for their times
	dated    bool   // whether it asks their sources
	whole    bool   // whether a destination with no more edges than the fan-out takes all of them, unseen
	picking  uint64 // key of the draws for picks
	weighing uint64 // key of the draws for weights

	// of the destination at hand
	edgesOf
	chunkLoaded bool // the chunk holds all its edges

	looked int64 // edges that were asked for their columns or times, which tests count
}

// edgesOf describes the edges of a destination.
type edgesOf struct {
	index      uint64 // keys its draws
	asOf       int64  // the time as of which it is looked at
	least, top int64  // the times that may be followed
	byTime     bool   // whether the edges need be asked for their times
	bySource   bool   // whether their sources need
	base, all  int64  // its edges of the type: the first position, and how many
	first, n   int64  // of these, the ones that are looked at
	// excluded are edges that the batch leaves out. Positions here, and of chunks and picks, are those that there would
	// be without them; column says where in the columns an edge is.
	excluded []excludedEdge
}

// column returns where in the columns of the graph an edge is.
func (d *edgesOf) column(at int64) int64 {
	for _, h := range d.excluded {
		if at < h.pos {
			break
		}
		at++
	}
	return at
}

// drawn is a pick with replacement, and where it falls among the edges or their weights.
type drawn struct {
	at   uint64
	pick int64
}

func newChoosePicker[V nodeID](a *assembly[V], opt Neighbor, p hopFanouts, env Env) (*choosePicker[V], error) {
	values, err := opt.values(env.Graph)
	if err != nil {
		return nil, err
	}
	past, err := opt.Time.past(a.schema)
	if err != nil {
		return nil, err
	}
	c := &choosePicker[V]{a: a, fanouts: p, opt: opt, share: fixedShare(opt.Share), values: values, past: past}
	c.sources = a.indices
	columns, err := EdgeColumns(env.Graph, opt.edgeColumns())
	if err != nil {
		return nil, err
	}
	if a.pages.looksAt(columns...); opt.Time.Node != "" {
		a.pages.looksAt(env.Graph.Indices())
	}
	c.late.last = true
	a.own(append(c.race.best.buffers(), c.late.buffers()...)...)
	a.own(&c.picksMem, &c.draws)
	return c, nil
}

// lookAtTimes makes the assembly keep nodes apart that are looked at as of different times.
func (p *choosePicker[V]) lookAtTimes() {
	f := p.a.forest
	f.groups.most = int(min(maxGroups, (1<<62)/max(f.nodes, 1)))
	f.times = 0
	if f.trees = -1; p.opt.Disjoint {
		f.trees, f.times = 0, len(p.a.lists)
	}
	f.groups.nodes, f.groups.asOf = p.values.nodes, p.opt.Time.AsOf
	p.a.own(&f.groups.timeMem, &f.groups.cellMem, &f.groups.slotMem)
	if p.opt.Time.Chain {
		f.groups.step = p.values.step
	}
}

// chooseBytes is the memory of a choosePicker beyond the assembly: the picks of a stage, and the candidates or draws of
// a destination.
func (n Neighbor) chooseBytes(s *graph.Schema, p hopFanouts, blocks [][]int64) int64 {
	stage, picks, degree := int64(0), int64(0), int64(0)
	for _, layer := range blocks {
		for e, edges := range layer {
			stage, degree = max(stage, edges), max(degree, s.Edges[e].Count)
		}
	}
	for _, fanouts := range p {
		for _, k := range fanouts {
			picks = max(picks, int64(k))
		}
	}
	if n.Share != 0 && slices.ContainsFunc(p, func(k []int) bool { return slices.Contains(k, All) }) {
		picks = degree
	}
	bytes := sat.Mul(8, stage)
	switch {
	case n.Replace:
		bytes = sat.Add(bytes, sat.Mul(16, picks))
	case n.Weight != "" || n.Time.Recent || n.Time.HalfLife > 0:
		bytes = sat.Add(bytes, smallestBytes(picks, degree))
	}
	return bytes
}

func (p *choosePicker[V]) excludes() {}

func (p *choosePicker[V]) hop(r Rand, _ []stage[V]) error {
	p.rand = r
	return nil
}

func (p *choosePicker[V]) count(st *stage[V], ends []int32) (int64, error) {
	p.st, p.edges, p.made, p.done = st, &p.a.schema.Edges[st.edgeType], 0, 0
	if p.fanout = int64(p.fanouts[st.hop][st.edgeType]); p.fanout == 0 {
		return st.takeNone(ends), nil
	}
	if err := p.a.ranges(st); err != nil {
		return 0, err
	}
	p.rule = p.past.at(st.hop, st.edgeType)
	asks := p.rule.TimeRule != AnyTime
	p.timed = asks && p.opt.Time.Edge != ""
	p.dated = asks && p.opt.Time.Node != "" && p.values.nodes[st.srcType].valid()
	p.whole = !p.timed && !p.dated && !p.values.masked() && !p.values.weighted() && p.share == 0 &&
		!(p.opt.Replace && p.fanout > 0)
	p.picking = p.rand.Stage(p.edges.Key, PurposePick, uint8(st.hop)).key
	p.weighing = p.rand.Stage(p.edges.Key, purposeWeigh, uint8(st.hop)).key
	const ahead = 4
	for i := st.lo; i < st.hi; i++ {
		if next := i + ahead; !p.whole && next < st.hi {
			p.prefetch(p.a.start[next], min(p.a.degree[next], chunkEdges))
		}
		if err := p.pick(i); err != nil {
			return 0, err
		}
		total := int64(st.have + p.made)
		if total > maxBlockEdges {
			return 0, errTooManyEdges(total)
		}
		ends[i] = int32(total)
	}
	return int64(st.have + p.made), nil
}

// pick picks for a destination of the stage.
func (p *choosePicker[V]) pick(i int) error {
	if n := p.a.degree[i]; p.whole && (n <= p.fanout || p.fanout < 0) {
		return p.takeRun(p.a.start[i], n)
	}
	p.a.reach(i)
	p.see(i)
	return p.choose()
}

// prefetch asks for the columns of n edges.
func (p *choosePicker[V]) prefetch(from, n int64) {
	v := &p.values
	prefetchColumn(v.weights32, from, n)
	prefetchColumn(v.weights64, from, n)
	prefetchColumn(v.mask, from, n)
	prefetchColumn(v.times.t64, from, n)
	prefetchColumn(v.times.t32, from, n)
}

// room makes room for n more picks.
func (p *choosePicker[V]) room(n int64) error {
	return need(&p.picks, &p.picksMem, p.made+int(n), p.made)
}

// see goes to a destination.
func (p *choosePicker[V]) see(i int) {
	p.chunkLoaded = false
	first, n := p.a.start[i], p.a.degree[i]
	p.edgesOf = edgesOf{index: p.st.index(i), base: first, all: n, first: first, n: n}
	p.excluded = p.a.left(p.st.edgeType, int64(p.st.dst.ids[i]))
	t := &p.opt.Time
	if !t.on() || n == 0 {
		return
	}
	p.asOf = p.st.dst.times[i]
	if p.least, p.top = p.rule.between(p.asOf); p.rule.TimeRule == AnyTime {
		return
	}
	if from := p.a.forest.groups.from; from != nil {
		p.least = max(p.least, from[p.st.dst.trees[i]])
	}
	p.byTime, p.bySource = p.timed, p.dated
	if p.least > p.top && (p.byTime || p.bySource) {
		p.n = 0
		return
	}
	if p.byTime && p.opt.Time.ordered(p.edges) {
		p.withinTimes()
	}
	if p.bySource && p.values.sourcesAscend(p.edges) {
		p.withinSources()
	}
}

// withinTimes leaves the edges that may be followed by their time, which ascends.
func (p *choosePicker[V]) withinTimes() {
	from, n := between(p.n, p.least, p.top, func(i int) int64 {
		p.looked++
		return p.values.times.at(p.column(p.first + int64(i)))
	})
	p.byTime, p.first, p.n = false, p.first+from, n
}

// withinSources leaves the edges that may be followed by the time of their source, which ascends. Where a source is not
// of its type it leaves all of them, and who looks at each says so.
func (p *choosePicker[V]) withinSources() {
	src, times, known := p.st.src, &p.values.nodes[p.st.srcType], true
	from, n := between(p.n, p.least, p.top, func(i int) int64 {
		p.looked++
		id := p.a.indices[p.column(p.first+int64(i))] - src.offset
		if uint64(id) >= uint64(src.count) {
			known = false
			return math.MaxInt64
		}
		return times.at(int64(id))
	})
	if known {
		p.bySource, p.first, p.n = false, p.first+from, n
	}
}

// stream returns the draws of the destination at hand.
func (p *choosePicker[V]) stream(key uint64) uint64 {
	s := rng.Stream(key, p.index)
	if p.opt.Time.on() {
		s = rng.Stream(s, uint64(p.asOf))
	}
	return s
}

// choose picks for the destination at hand.
func (p *choosePicker[V]) choose() error {
	if p.n == 0 {
		return nil
	}
	k, eligible, weighted := p.fanout, p.n, p.values.weighted()
	races := weighted || p.opt.Time.HalfLife > 0
	if p.share != 0 || !races && !p.opt.Time.Recent && k > 0 {
		var err error
		if eligible, err = p.eligible(); err != nil {
			return err
		}
		if k = p.limit(eligible); k == 0 {
			return nil
		}
	}
	again := p.opt.Replace && p.fanout > 0
	switch {
	case k < 0 || k >= eligible && !again:
		return p.takeAll()
	case p.opt.Time.Recent:
		return p.latest(k)
	case p.opt.Time.HalfLife > 0:
		return p.byRecency(p.stream(p.weighing), k)
	case !weighted:
		return p.uniformly(p.stream(p.picking), eligible, k, again)
	case again:
		return p.byWeightAgain(p.stream(p.weighing), k)
	default:
		return p.byWeight(p.stream(p.weighing), k)
	}
}

// limit returns how many picks a destination makes that may follow eligible edges; All stays All.
func (p *choosePicker[V]) limit(eligible int64) int64 {
	switch {
	case eligible == 0:
		return 0
	case p.share == 0:
		return p.fanout
	}
	hi, lo := bits.Mul64(uint64(eligible), p.share)
	lo, carry := bits.Add64(lo, 1<<32-1, 0)
	k := int64((hi+carry)<<32 | lo>>32)
	if p.fanout > 0 {
		k = min(k, p.fanout)
	}
	return k
}

// each looks at the edges of the destination at hand, chunk by chunk.
func (p *choosePicker[V]) each(f func(c *edgeChunk)) error {
	if p.chunkLoaded {
		f(&p.chunk)
		return nil
	}
	end := p.first + p.n
	for at := p.first; at < end; at += chunkEdges {
		if err := p.load(at, min(chunkEdges, end-at)); err != nil {
			return err
		}
		f(&p.chunk)
	}
	p.chunkLoaded = p.n <= chunkEdges
	return nil
}

// load looks at the edges at positions from .. from+n-1.
func (p *choosePicker[V]) load(from, n int64) error {
	p.looked += n
	if p.excluded == nil {
		return p.loadInto(&p.chunk, from, n)
	}
	c := &p.chunk
	c.begin(from, n)
	clear(c.words[:])
	c.sum = 0
	for k := int64(0); k < n; k += p.part.n { // part by part, each none of them excluded
		at, left := p.column(from+k), n-k
		for _, h := range p.excluded {
			if h.pos > at {
				left = min(left, h.pos-at)
				break
			}
		}
		if err := p.loadInto(&p.part, at, left); err != nil {
			return err
		}
		for i := range left {
			c.words[(k+i)/64] |= p.part.words[i/64] >> (i % 64) & 1 << ((k + i) % 64)
		}
		copy(c.weights[k:], p.part.weights[:left])
		c.sum += p.part.sum
	}
	return nil
}

// loadInto looks at the edges at positions from .. from+n-1 of the columns.
func (p *choosePicker[V]) loadInto(c *edgeChunk, from, n int64) error {
	v, all := &p.values, true
	c.begin(from, n)
	if v.masked() {
		v.maskBy(c)
		all = false
	}
	if p.byTime {
		c.timesBy(&v.times, p.least, p.top)
		all = false
	}
	if p.bySource {
		if err := p.sourcesBy(c); err != nil {
			return err
		}
		all = false
	}
	if v.weighted() {
		return v.weigh(c, all)
	}
	return nil
}

// sourcesBy leaves the edges of a chunk whose source has a time that may be followed.
func (p *choosePicker[V]) sourcesBy(c *edgeChunk) error {
	src, times := p.st.src, &p.values.nodes[p.st.srcType]
	for w := range c.words[:(c.n+63)/64] {
		for left := c.words[w]; left != 0; left &= left - 1 {
			i := int64(bits.TrailingZeros64(left))
			pos := c.from + int64(64*w) + i
			id := p.a.indices[pos] - src.offset
			if uint64(id) >= uint64(src.count) {
				return errSource(p.a.schema, p.st.srcType, pos, int64(p.a.indices[pos]))
			}
			if t := times.at(int64(id)); t < p.least || t > p.top {
				c.words[w] &^= 1 << i
			}
		}
	}
	return nil
}

// eligible returns how many edges may be followed.
func (p *choosePicker[V]) eligible() (sum int64, err error) {
	if !p.filtered() {
		return p.n, nil
	}
	err = p.each(func(c *edgeChunk) {
		if p.values.weighted() {
			c.positive()
		}
		sum += c.count()
	})
	return sum, err
}
