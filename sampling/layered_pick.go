package sampling

import (
	"cmp"
	"context"
	"math"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// purposeLayer is the purpose of draws of the nodes of a layer.
const purposeLayer = Purpose(13)

// layerPicker picks for FastGCN and Ladies: the nodes of a hop, and then of each destination's edges those whose source
// was drawn. It keeps the picks of a stage.
type layerPicker[V nodeID] struct {
	a      *assembly[V]
	opt    layered
	values edgeValues
	sums   []uint64 // FastGCN: as in preparedFastGCN
	out    *graph.Sample

	// of the hop at hand
	nodes int     // how many are drawn; All for all
	pool  pool[V] // the nodes that were drawn, or, for Ladies, that may be
	times []int32 // [pool] how often each was drawn
	whole []uint64
	total uint64 // sum of all importances, as integers
	some  [chunkPicks]int32
	ids   [chunkPicks]V
	draws [chunkPicks]uint64
	drawn sieve // of the fused ids of nodes that were drawn

	// of the stage at hand
	keptPicks[V]
	weights []float32
	at      [chunkPicks]int64 // positions of edges whose sources may have been drawn

	timesMem, wholeMem unified.Buffer
}

// runEnd returns where the edges end that have the type of the edge at from, in the column that ends at to.
func (a *assembly[V]) runEnd(from, to int64) int64 {
	if len(a.schema.Edges) == 1 {
		return to
	}
	return a.types.firstAtLeast(from, to, a.types.at(from)+1)
}

// value returns the factor of the message of an edge, whose destination has n edges of its type.
func (v *edgeValues) value(pos, n int64) (float64, error) {
	if !v.weighted() {
		return 1 / float64(n), nil
	}
	w := v.weight(pos)
	if !(w >= 0 && w <= math.MaxFloat64) {
		return 0, errWeight(v.weightName, pos, w)
	}
	return w, nil
}

// importance returns what an edge of some value adds to that of its source.
func importance(a float64) float64 {
	if a == 0 {
		return 0
	}
	return min(max(a*a, 0x1p-1000), 0x1p900)
}

// importancesOf is what importances are of, and the memory for them.
type importancesOf struct {
	layered
	ctx    context.Context
	behind *unified.Buffer
}

// importances sums up the importance of all nodes.
func importances[V nodeID](k importancesOf, env Env, indices []V) ([]uint64, error) {
	values, err := k.values.values(env.Graph)
	if err != nil {
		return nil, err
	}
	g := env.Graph
	n := g.NumNodes()
	a := &assembly[V]{schema: g.Schema(), indptr: g.Indptr(), indices: indices}
	if a.types, err = newTypeColumn(g.Types()); err != nil {
		return nil, err
	}
	sums, err := exactly[uint64](k.behind, n)
	if err != nil {
		return nil, err
	}
	clear(sums) // these are doubles at first
	const ahead = 64
	edges := int64(len(indices))
	for v := range n {
		if v%(1<<14) == 0 {
			if report(env.Progress, v, n); k.ctx.Err() != nil {
				return nil, context.Cause(k.ctx)
			}
		}
		from, to, err := a.column(V(v))
		if err != nil {
			return nil, err
		}
		for from < to {
			end := a.runEnd(from, to)
			for pos := from; pos < end; pos++ {
				if pos%ahead == 0 {
					next := indices[min(pos+ahead, edges):min(pos+2*ahead, edges)]
					prefetchNodes8(unsafe.Pointer(unsafe.SliceData(sums)), next)
				}
				value, err := values.value(pos, end-from)
				if err != nil {
					return nil, err
				}
				u := indices[pos]
				if uint64(u) >= uint64(n) {
					return nil, a.errNode(pos, u)
				}
				sums[u] = math.Float64bits(math.Float64frombits(sums[u]) + importance(value))
			}
			from = end
		}
	}
	sumWhole(sums)
	return sums, nil
}

// sumWhole turns doubles, by their bits, into sums of them as integers. It returns the last one.
func sumWhole(of []uint64) (sum uint64) {
	most := 0.0
	for _, bits := range of {
		most = max(most, math.Float64frombits(bits))
	}
	if most == 0 {
		clear(of)
		return 0
	}
	shift := wholeShift(int64(len(of)), most)
	for i, bits := range of {
		sum += wholeWeight(math.Float64frombits(bits), shift)
		of[i] = sum
	}
	return sum
}

// draw returns which elements the draws of a chunk, from first on, fall on: the first whose sum is above each. All are
// searched for together, so that their reads of the sums do not wait for each other.
func (p *layerPicker[V]) draw(s Stream, sums []uint64, first int) []V {
	ids := p.ids[:min(p.nodes-first, chunkPicks)]
	for i := range ids {
		ids[i], p.draws[i] = 0, s.IntN(uint64(first+i), p.total)
	}
	for n := len(sums); n > 1; n -= n / 2 {
		half := V(n / 2)
		for i, x := range p.draws[:len(ids)] {
			at := ids[i]
			if sums[at+half-1] <= x { // no branch
				at += half
			}
			ids[i] = at
		}
	}
	return ids
}

// partOf returns what element i adds to the sums.
func partOf(sums []uint64, i int64) uint64 {
	if i == 0 {
		return sums[0]
	}
	return sums[i] - sums[i-1]
}

func (p *layerPicker[V]) hop(r Rand, stages []stage[V]) error {
	p.nodes, p.total = p.opt.nodes[stages[0].hop], 0
	if p.nodes <= 0 {
		return nil
	}
	if err := p.pool.begin(); err != nil {
		return err
	}
	s := r.Stage(0, purposeLayer, uint8(stages[0].hop)).Stream(0)
	if !p.opt.near {
		return p.drawAnywhere(s)
	}
	for e := range stages {
		if err := cmp.Or(p.gather(&stages[e]), p.a.pages.failure()); err != nil {
			return err
		}
	}
	for t := range p.a.cursors { // count goes through the edge types again
		p.a.cursors[t].n = 0
	}
	whole := p.whole[:p.pool.nodes.n]
	p.total = sumWhole(whole)
	if err := p.noTimes(); err != nil || p.total == 0 {
		return err
	}
	for i := 0; i < p.nodes; i += chunkPicks {
		for _, at := range p.draw(s, whole, i) {
			p.times[at]++
		}
	}
	p.sift()
	return nil
}

// sift notes which nodes of the pool were drawn.
func (p *layerPicker[V]) sift() {
	clear(p.drawn[:])
	for at, v := range p.pool.nodes.ids[:p.pool.nodes.n] {
		if p.times[at] > 0 {
			p.drawn.add(uint64(v))
		}
	}
}

// noTimes sets how often each node of the pool was drawn to 0.
func (p *layerPicker[V]) noTimes() (err error) {
	p.times, err = unified.Grow[int32](&p.timesMem, int64(p.pool.nodes.n)+1, 0)
	clear(p.times)
	return err
}

// drawAnywhere draws from all nodes of the graph.
func (p *layerPicker[V]) drawAnywhere(s Stream) (err error) {
	if len(p.sums) == 0 {
		return nil
	}
	if p.total = p.sums[len(p.sums)-1]; p.total == 0 {
		return nil
	}
	have := 0
	for i := 0; i < p.nodes; i += chunkPicks {
		ids := p.draw(s, p.sums, i)
		if err := p.pool.add(ids, p.some[:]); err != nil {
			return err
		}
		if p.times, err = unified.Grow[int32](&p.timesMem, int64(p.pool.nodes.n), int64(have)); err != nil {
			return err
		}
		clear(p.times[have:p.pool.nodes.n])
		have = p.pool.nodes.n
		for _, at := range p.some[:len(ids)] {
			p.times[at]++
		}
	}
	p.sift()
	return nil
}

// gather adds the sources of a stage to the pool, and their importance.
func (p *layerPicker[V]) gather(st *stage[V]) error {
	if err := p.a.ranges(st); err != nil {
		return err
	}
	for i := st.lo; i < st.hi; i++ {
		p.a.reach(i)
		start, degree := p.a.start[i], p.a.degree[i]
		for from := start; from < start+degree; from += chunkPicks {
			ids := p.a.indices[from:min(from+chunkPicks, start+degree)]
			for q, v := range ids {
				if uint64(v-st.src.offset) >= uint64(st.src.count) {
					return errSource(p.a.schema, st.srcType, from+int64(q), int64(v))
				}
			}
			have := p.pool.nodes.n
			err := p.pool.add(ids, p.some[:])
			if err != nil {
				return err
			}
			if p.whole, err = unified.Grow[uint64](&p.wholeMem, int64(p.pool.nodes.n), int64(have)); err != nil {
				return err
			}
			clear(p.whole[have:p.pool.nodes.n])
			for q, at := range p.some[:len(ids)] {
				value, err := p.values.value(from+int64(q), degree)
				if err != nil {
					return err
				}
				p.whole[at] = math.Float64bits(math.Float64frombits(p.whole[at]) + importance(value))
			}
		}
	}
	return nil
}

func (p *layerPicker[V]) count(st *stage[V], ends []int32) (int64, error) {
	p.made, p.done = 0, 0
	if p.nodes == 0 || p.nodes > 0 && p.total == 0 {
		clear(ends[st.lo:st.hi])
		return 0, nil
	}
	if err := p.a.ranges(st); err != nil {
		return 0, err
	}
	for i := st.lo; i < st.hi; i++ {
		p.a.reach(i)
		start, degree := p.a.start[i], p.a.degree[i]
		for from := start; from < start+degree; from += chunkPicks {
			if err := p.choose(st, from, min(from+chunkPicks, start+degree), degree); err != nil {
				return 0, err
			}
		}
		if p.made > maxBlockEdges {
			return 0, errTooManyEdges(int64(p.made))
		}
		ends[i] = int32(p.made)
	}
	return int64(p.made), nil
}

// choose picks among the edges from .. to-1 of a destination that has degree of them.
func (p *layerPicker[V]) choose(st *stage[V], from, to, degree int64) (err error) {
	want, have := int64(p.made)+to-from, int64(p.made)
	array := &p.out.Buffers.Arrays[st.layer*len(p.a.edges)+st.edgeType]
	if err := cmp.Or(grow(&p.picks, &p.picksMem, want, have), grow(&p.weights, array, want, have)); err != nil {
		return err
	}
	n, all := uint64(0), uint64(0)
	if p.nodes < 0 {
		all = 1
	}
	for q, v := range p.a.indices[from:to] {
		p.ids[n], p.at[n] = v, from+int64(q)
		n += p.drawn.has(uint64(v)) | all
	}
	if p.nodes > 0 {
		p.pool.find(p.ids[:n], p.some[:])
	}
	for q, pos := range p.at[:n] {
		c := 1.0
		if p.nodes > 0 {
			at := p.some[q]
			if at < 0 || p.times[at] == 0 {
				continue
			}
			c = p.scale(int64(at))
		}
		value, err := p.values.value(pos, degree)
		if err != nil {
			return err
		}
		if value > 0 {
			p.picks[p.made], p.weights[p.made] = pos, float32(value*c)
			p.made++
		}
	}
	return nil
}

// scale returns how often a node was drawn over how often it is expected to be.
func (p *layerPicker[V]) scale(at int64) float64 {
	q := uint64(0)
	if p.opt.near {
		q = partOf(p.whole, at)
	} else {
		q = partOf(p.sums, int64(p.pool.nodes.ids[at]))
	}
	return float64(p.times[at]) * float64(p.total) / (float64(p.nodes) * float64(q))
}
