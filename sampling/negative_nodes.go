package sampling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// purposeNegative is the purpose of drawing negatives.
const purposeNegative = Purpose(rng.Negative)

func bounded(draw, n uint64) uint64 { return rng.Bounded(draw, n) }

// negativeNodes are the nodes that a negative may have in place of an end of an edge, and how likely each is.
type negativeNodes struct {
	n      int64
	order  []int64           // by (kind, time, id); nil: by id
	sorted []int64           // times, in that order; nil where nodes are always there
	sums   []uint64          // of weights up to and with each node, in that order; nil: all alike
	times  func(int64) int64 // of a node; nil where nodes are always there
	kinds  func(int64) int64 // of a node; nil where all are of one

	memory [3]unified.Buffer
}

// alike returns where the nodes of the kind of one lie in the order: at places from .. to-1.
func (s *negativeNodes) alike(id int64) (from, to int64) {
	if s.kinds == nil {
		return 0, s.n
	}
	kind := s.kinds(id)
	from = int64(sort.Search(int(s.n), func(i int) bool { return s.kinds(s.order[i]) >= kind }))
	return from, int64(sort.Search(int(s.n), func(i int) bool { return s.kinds(s.order[i]) > kind }))
}

// at returns the node that a draw chooses at places from .. to-1, among those whose time is not after time; found is
// false if there are none.
func (s *negativeNodes) at(draw uint64, from, to, time int64) (id int64, found bool) {
	m := int(to - from)
	if s.sorted != nil {
		m = sort.Search(m, func(i int) bool { return s.sorted[from+int64(i)] > time })
	}
	if m == 0 {
		return 0, false
	}
	k := from
	if s.sums == nil {
		k += int64(bounded(draw, uint64(m)))
	} else {
		before := uint64(0)
		if from > 0 {
			before = s.sums[from-1]
		}
		all := s.sums[from+int64(m)-1] - before
		if all == 0 {
			return 0, false
		}
		x := before + bounded(draw, all)
		k += int64(sort.Search(m, func(i int) bool { return s.sums[from+int64(i)] > x }))
	}
	if s.order != nil {
		k = s.order[k]
	}
	return k, true
}

// Bytes returns the most memory that Open takes for edges of the marked types.
func (n Negatives) Bytes(s *graph.Schema, types []bool) (bytes int64) {
	add := func(tables, rows, row int64) {
		table := pinned.Options{}.Size(min(sat.Mul(max(rows, 1), row), 1<<60))
		bytes = sat.Add(bytes, sat.Mul(tables, table))
	}
	for e, seeded := range types {
		if !seeded || n.Ratio == 0 {
			continue
		}
		for end, t := range [...]int{s.Edges[e].Src, s.Edges[e].Dst} {
			tables := bit(n.Law == ByDegree || n.Law == ByWeight)
			if n.Law != InBatch && n.Time+n.Type != "" {
				tables += 1 + bit(n.Time != "") + bit(n.Law == ByDegree) // the last while weights are put in order
			}
			add(tables, s.Nodes[t].Count, 8)
			if n.stays(end) {
				add(1, s.Nodes[t].Count+1, 8)
				add(1, s.Edges[e].Count, 16)
			}
		}
	}
	return bytes
}

// Open prepares to draw negatives for edges of the marked types. It takes 8 bytes a node if the law has weights, 16 if
// nodes have times, 8 if they have types alone; if it is historical, 16 bytes an edge and 8 a node, twice if either end
// may be replaced. ErrOptions for columns that do not exist or are of another type, and for weights that are negative,
// not finite, or all zero. It stops with context.Cause when ctx ends.
func (n Negatives) Open(ctx context.Context, env Env, types []bool) (d *Drawer, err error) {
	g := env.Graph
	s := g.Schema()
	if err := n.Validate(s); err != nil {
		return nil, err
	}
	d = &Drawer{opt: n, memory: scratch{options: env.Scratch}, ends: make([][2]*negativeNodes, len(s.Edges))}
	if d.finder, err = newEdgeFinder(g); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	alike := make([]*negativeNodes, len(s.Nodes)) // of a node type, whatever the edge type
	for e, seeded := range types {
		if !seeded {
			continue
		}
		for end, t := range [...]int{s.Edges[e].Src, s.Edges[e].Dst} {
			in := alike[t]
			if in == nil {
				if in, err = d.newNegativeNodes(g, t); err != nil {
					return d, err
				}
				if n.Law != ByDegree {
					alike[t] = in
				}
			}
			d.ends[e][end] = in
		}
	}
	switch n.Law {
	case ByDegree:
		err = d.sumDegrees(ctx, env.Progress)
	case Historical:
		err = d.listPast(ctx, env.Progress)
	}
	return d, err
}

// Close frees the memory.
func (d *Drawer) Close() error {
	return d.memory.Close()
}

func (d *Drawer) newNegativeNodes(g *graph.Graph, t int) (*negativeNodes, error) {
	in := &negativeNodes{n: g.Schema().Nodes[t].Count}
	d.memory.own(&in.memory[0], &in.memory[1], &in.memory[2])
	if err := in.arrange(g, t, &d.opt); err != nil {
		return nil, err
	}
	if d.opt.Law == ByWeight {
		return in, in.sumWeights(g, t, d.opt.Weight)
	}
	if d.opt.Law == ByDegree {
		var err error
		in.sums, err = exactly[uint64](&in.memory[2], in.n)
		clear(in.sums)
		return in, err
	}
	return in, nil
}

// arrange finds the kinds and times of the nodes, and puts the nodes in their order.
func (s *negativeNodes) arrange(g *graph.Graph, t int, of *Negatives) (err error) {
	for i, to := range []*func(int64) int64{&s.times, &s.kinds} {
		column := [...]string{of.Time, of.Type}[i]
		values, ok := g.NodeColumn(t, column)
		if !ok {
			continue
		}
		if *to, err = unified.Integers(values); err != nil {
			return errIntegers(g.Schema().Nodes[t].Name, column, values)
		}
	}
	if s.times == nil && s.kinds == nil || of.Law == InBatch {
		return nil
	}
	if s.times != nil {
		if s.sorted, err = exactly[int64](&s.memory[0], s.n); err != nil {
			return err
		}
		for i := range s.sorted {
			s.sorted[i] = s.times(int64(i))
		}
		if s.kinds == nil && slices.IsSorted(s.sorted) {
			return nil
		}
	}
	if s.order, err = exactly[int64](&s.memory[1], s.n); err != nil {
		return err
	}
	for i := range s.order {
		s.order[i] = int64(i)
	}
	slices.SortStableFunc(s.order, func(a, b int64) (c int) {
		if s.kinds != nil {
			c = cmp.Compare(s.kinds(a), s.kinds(b))
		}
		if c == 0 && s.times != nil {
			c = cmp.Compare(s.times(a), s.times(b))
		}
		return c
	})
	for i := range s.sorted {
		s.sorted[i] = s.times(s.order[i])
	}
	return nil
}

// sumWeights sums the weights of a column up, as integers: in units of a power of two that makes the greatest weight as
// large as fits, and rounded up, so that only 0 becomes 0.
func (s *negativeNodes) sumWeights(g *graph.Graph, t int, column string) error {
	name := g.Schema().Nodes[t].Name
	values, ok := g.NodeColumn(t, column)
	if !ok {
		return fmt.Errorf("%w: negatives: node type %q has no column %q of weights", ErrOptions, name, column)
	}
	weight, err := unified.Numbers(values)
	if err != nil {
		return fmt.Errorf("%w: negatives: weights: %w", ErrOptions, err)
	}
	if s.sums, err = exactly[uint64](&s.memory[2], s.n); err != nil {
		return err
	}
	most := 0.0
	for i := range s.n {
		w := weight(i)
		if !(w >= 0 && w <= math.MaxFloat64) {
			return fmt.Errorf("%w: negatives: node %d of type %q has weight %v in column %q; weights must be finite "+
				"and not negative", ErrOptions, i, name, w, column)
		}
		most = max(most, w)
	}
	if most == 0 {
		return fmt.Errorf("%w: negatives: all weights of node type %q in column %q are 0", ErrOptions, name, column)
	}
	shift := wholeShift(s.n, most)
	s.sum(func(id int64) uint64 { return wholeWeight(weight(id), shift) })
	return nil
}

// wholeShift returns the exponent of the unit in which n weights, the greatest of which is most, become integers.
func wholeShift(n int64, most float64) int {
	return min(52, 62-bits.Len64(uint64(n))) - 1 - math.Ilogb(most)
}

// wholeWeight returns a weight as an integer, rounded up, so that only 0 becomes 0.
func wholeWeight(w float64, shift int) uint64 {
	if w == 0 {
		return 0
	}
	return max(1, uint64(math.Ceil(math.Ldexp(w, shift))))
}

func (s *negativeNodes) sum(weight func(id int64) uint64) {
	sum := uint64(0)
	for i := range s.sums {
		id := int64(i)
		if s.order != nil {
			id = s.order[i]
		}
		sum += weight(id)
		s.sums[i] = sum
	}
}

// eachEdge calls f with the own ids of both ends of each edge of a type, and its position, by position.
func (d *Drawer) eachEdge(ctx context.Context, e int, progress func(done, total int64),
	f func(source, target, pos int64)) error {
	s := d.finder.schema
	et := &s.Edges[e]
	offset, sources, targets := d.finder.graph.Offset(et.Src), s.Nodes[et.Src].Count, s.Nodes[et.Dst].Count
	for v := range targets {
		if v%(1<<14) == 0 {
			if report(progress, v, targets); ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		first, last, err := d.finder.run(e, v)
		if err != nil {
			return err
		}
		for pos := first; pos < last; pos++ {
			u := d.finder.source(pos)
			if uint64(u-offset) >= uint64(sources) {
				return errSource(s, et.Src, pos, u)
			}
			f(u-offset, v, pos)
		}
	}
	return nil
}

// sumDegrees counts the degrees of all ends in one pass over the graph, and sums them up.
func (d *Drawer) sumDegrees(ctx context.Context, progress func(done, total int64)) error {
	for e, ends := range d.ends {
		if ends[0] == nil {
			continue
		}
		err := d.eachEdge(ctx, e, progress, func(source, target, _ int64) {
			ends[0].sums[source]++
			ends[1].sums[target]++
		})
		if err != nil {
			return err
		}
		for _, in := range ends {
			if err := in.sumPowers(d.opt.alpha()); err != nil {
				return err
			}
		}
	}
	return nil
}

// powerOf returns x^alpha for 0 < alpha <= 1, in steps of 2^-32, by products and square roots alone, which are the same
// everywhere: from the last binary digit of alpha on, x is a factor or not, and a root follows.
func powerOf(x, alpha float64) float64 {
	p, digits := 1.0, uint64(math.RoundToEven(alpha*(1<<32)))
	if digits == 1<<32 {
		return x
	}
	for range 32 {
		if digits&1 == 1 {
			p *= x
		}
		p, digits = math.Sqrt(p), digits>>1
	}
	return p
}

// sumPowers turns degrees by id into sums of d^alpha, in units of 2^-16, rounded down.
func (s *negativeNodes) sumPowers(alpha float64) error {
	for i, d := range s.sums {
		s.sums[i] = uint64(65536 * powerOf(float64(d), alpha))
	}
	if s.order == nil {
		s.sum(func(id int64) uint64 { return s.sums[id] })
		return nil
	}
	var byID unified.Buffer
	byID.Options = s.memory[2].Options
	weights, err := exactly[uint64](&byID, s.n)
	if err != nil {
		return err
	}
	copy(weights, s.sums)
	s.sum(func(id int64) uint64 { return weights[id] })
	return byID.Close()
}
