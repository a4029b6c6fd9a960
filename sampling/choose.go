package sampling

import (
	"errors"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/prefetch"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// choosePicker is what Neighbor decides where the edges of a destination are not all alike: some may not be followed,
// or they have weights. It finds the edges that may be followed, and chooses among them. It looks at all edges of a
// destination, so it picks while it counts, and keeps the picks of a stage.
type choosePicker[V nodeID] struct {
	a      *assembly[V]
	plan   plan
	opt    Neighbor
	share  uint64 // Share as a multiple of 2^-32
	values edgeValues
	set    subsetter
	race   racer
	chunk  edgeChunk
	rand   Rand

	picks  []int64 // of the stage at hand
	n      int     // how many they are
	done   int     // of these, how many were delivered
	memory unified.Buffer
	draws  unified.Buffer // those of a destination, with replacement

	// of the stage at hand
	fanout      int64
	picking     uint64 // key of the draws for picks
	weighing    uint64 // key of the draws for weights
	chunkLoaded bool   // the chunk holds all edges of the destination at hand
}

// drawn is a pick with replacement: where among the edges, or their weights, it falls.
type drawn struct {
	at   uint64
	pick int64
}

func newChoosePicker[V nodeID](a *assembly[V], opt Neighbor, p plan, env Env) (*choosePicker[V], error) {
	values, err := opt.values(env.Graph)
	if err != nil {
		return nil, err
	}
	c := &choosePicker[V]{a: a, plan: p, opt: opt, share: fixedShare(opt.Share), values: values}
	for _, b := range c.buffers() {
		b.Options = env.Scratch
	}
	return c, nil
}

// chooseBytes is what a choosePicker takes beyond the assembly: the picks of a stage, and the candidates or draws of a
// destination.
func (n Neighbor) chooseBytes(s *graph.Schema, p plan, blocks [][]int64) int64 {
	stage, picks, degree := int64(0), int64(0), int64(0)
	for _, layer := range blocks {
		for e, edges := range layer {
			stage, degree = max(stage, edges), max(degree, s.Edges[e].Count)
		}
	}
	for _, fanouts := range p {
		picks = max(picks, int64(slices.Max(fanouts)))
	}
	if n.Share != 0 && slices.ContainsFunc(p, func(k []int) bool { return slices.Contains(k, All) }) {
		picks = degree
	}
	bytes := satMul(8, stage)
	switch {
	case n.Replace:
		bytes = satAdd(bytes, satMul(16, picks))
	case n.Weight != "":
		bytes = satAdd(bytes, smallestBytes(picks, degree))
	}
	return bytes
}

func (p *choosePicker[V]) buffers() []*unified.Buffer {
	return append(p.race.best.buffers(), &p.memory, &p.draws)
}

func (p *choosePicker[V]) close() error {
	var errs []error
	for _, b := range p.buffers() {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

func (p *choosePicker[V]) hop(r Rand, _ []stage[V]) error {
	p.rand = r
	return nil
}

func (p *choosePicker[V]) count(st *stage[V], ends []int32) (int64, error) {
	p.n, p.done = 0, 0
	if p.fanout = int64(p.plan[st.hop][st.edgeType]); p.fanout == 0 {
		for i := st.lo; i < st.hi; i++ {
			ends[i] = int32(st.have)
		}
		return int64(st.have), nil
	}
	if err := p.a.ranges(st); err != nil {
		return 0, err
	}
	key := p.a.schema.Edges[st.edgeType].Key
	p.picking = p.rand.Stage(key, PurposePick, uint8(st.hop)).key
	p.weighing = p.rand.Stage(key, PurposeWeigh, uint8(st.hop)).key
	const ahead = 4
	for i := st.lo; i < st.hi; i++ {
		if next := i + ahead; next < st.hi {
			p.prefetch(p.a.start[next], min(p.a.degree[next], chunkEdges))
		}
		if err := p.choose(st.index(i), p.a.start[i], p.a.degree[i]); err != nil {
			return 0, err
		}
		total := int64(st.have + p.n)
		if total > maxBlockEdges {
			return 0, errTooManyEdges(total)
		}
		ends[i] = int32(total)
	}
	return int64(st.have + p.n), nil
}

// prefetch asks for what is read of n edges.
func (p *choosePicker[V]) prefetch(from, n int64) {
	if n == 0 {
		return
	}
	v := &p.values
	if v.weights32 != nil {
		prefetch.Range(unsafe.Pointer(&v.weights32[from]), int(4*n))
	}
	if v.weights64 != nil {
		prefetch.Range(unsafe.Pointer(&v.weights64[from]), int(8*n))
	}
	if v.mask != nil {
		prefetch.Range(unsafe.Pointer(&v.mask[from]), int(n))
	}
}

// room makes room for n more picks.
func (p *choosePicker[V]) room(n int64) (err error) {
	if int64(p.n)+n > int64(len(p.picks)) {
		p.picks, err = unified.Grow[int64](&p.memory, int64(p.n)+n, int64(p.n))
	}
	return err
}

// choose picks for a destination with n edges from position first on.
func (p *choosePicker[V]) choose(index uint64, first, n int64) error {
	p.chunkLoaded = false
	if n == 0 {
		return nil
	}
	k, eligible, weighted := p.fanout, n, p.values.weighted()
	if p.share != 0 || !weighted && k > 0 {
		var err error
		if eligible, err = p.eligible(first, n); err != nil {
			return err
		}
		if k = p.limit(eligible); k == 0 {
			return nil
		}
	}
	again := p.opt.Replace && p.fanout > 0
	switch {
	case k < 0 || k >= eligible && !again:
		return p.takeAll(first, n)
	case !weighted:
		return p.uniformly(rng.Stream(p.picking, index), edges{first, n, eligible}, k, again)
	case again:
		return p.byWeightAgain(rng.Stream(p.weighing, index), first, n, k)
	default:
		return p.byWeight(rng.Stream(p.weighing, index), first, n, k)
	}
}

// limit returns the picks of a destination that may follow so many edges; All stays.
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

// each looks at the edges of a destination, chunk by chunk.
func (p *choosePicker[V]) each(first, n int64, f func(c *edgeChunk)) error {
	if p.chunkLoaded {
		f(&p.chunk)
		return nil
	}
	for at := first; at < first+n; at += chunkEdges {
		if err := p.values.load(&p.chunk, at, min(chunkEdges, first+n-at)); err != nil {
			return err
		}
		if p.values.weighted() {
			p.chunk.positive()
		}
		f(&p.chunk)
	}
	p.chunkLoaded = n <= chunkEdges
	return nil
}

// eligible returns how many edges may be followed.
func (p *choosePicker[V]) eligible(first, n int64) (sum int64, err error) {
	if p.values.mask == nil && !p.values.weighted() {
		return n, nil
	}
	err = p.each(first, n, func(c *edgeChunk) { sum += c.count() })
	return sum, err
}
