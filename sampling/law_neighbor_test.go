//go:build !race

package sampling

import (
	"math"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// A star is a destination of d in-edges, and what is known of each. The number of a thing is that of its edge.
type star struct {
	d       int
	types   []uint8
	weights []float64
	times   []int64
	mask    []uint8
	byTime  bool // times ascend, and the graph says so
}

// copies makes a graph of n stars: their destinations, and after these a source for each edge.
func (s star) copies(t *testing.T, n int) *graph.Graph {
	t.Helper()
	indptr, indices := make([]int64, n*(1+s.d)+1), make([]int32, n*s.d)
	for v := range indptr {
		indptr[v] = int64(min(v, n) * s.d)
	}
	for i := range indices {
		indices[i] = int32(n + i)
	}
	e := graph.EdgeType{Source: "n", Relation: "a", Target: "n", Count: int64(n * s.d)}
	if s.byTime {
		e.Order = graph.ByTime
	}
	a := graph.Arrays{Schema: graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: int64(len(indptr) - 1)}},
		Edges: []graph.EdgeType{e}}, Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(indices),
		EdgeColumns: map[string]unified.Tensor{}}
	if s.types != nil {
		a.Types = unified.FromSlice(slices.Repeat(s.types, n))
		other := e
		other.Relation, other.Count = "b", int64(n*bytesOf(s.types))
		a.Schema.Edges[0].Count -= other.Count
		a.Schema.Edges = append(a.Schema.Edges, other)
	}
	column := func(name string, has bool, values unified.Tensor) {
		if has {
			a.Schema.EdgeColumns = append(a.Schema.EdgeColumns, graph.Column{Name: name, DType: values.DType()})
			a.EdgeColumns[name] = values
		}
	}
	column("w", s.weights != nil, unified.FromSlice(slices.Repeat(s.weights, n)))
	column("time", s.times != nil, unified.FromSlice(slices.Repeat(s.times, n)))
	column("mask", s.mask != nil, unified.FromSlice(slices.Repeat(s.mask, n)))
	return graphs.Of(t, a)
}

// bytesOf is the sum of bytes.
func bytesOf(list []uint8) (n int) {
	for _, x := range list {
		n += int(x)
	}
	return n
}

// A picking is a sampler of stars, and the law of what it picks.
type picking struct {
	name string
	of   Sampler
	star star
	law  []float64
	// as lists the times as of which each star is looked at, or as many zeros as it is a seed; nil is once, and no
	// time. A trial has the things of each of these, or of as many stars as group says.
	as    []int64
	group int
	hops  int // things of hop 0, and then of hop 1, ..; 0 is one hop
	picks int // picks in their order: thing j*d + i is that pick j is edge i; 0 is sets of edges
}

// counted draws sets of things, and counts them.
func (p picking) counted(t *testing.T) *chances {
	t.Helper()
	const stars = 2000
	g := p.star.copies(t, stars)
	req, entries := &Request{Seeds: make([][]int64, 1)}, max(len(p.as), 1)
	for v := range int64(stars) {
		for range entries {
			req.Seeds[0] = append(req.Seeds[0], v)
		}
	}
	if p.star.times != nil {
		req.Times = [][]int64{slices.Repeat(p.as, stars)}
	}
	c, group := newChances(p.law), max(p.group, entries)
	width := p.star.d * max(p.picks, 1)
	sets := make([]int, stars*entries/group)
	drawBatches(t, g, p.of, req, true, func(out *graph.Sample) bool {
		clear(sets)
		for h := range max(p.hops, 1) {
			for e := range out.Blocks[0] {
				b := &out.Blocks[len(out.Blocks)-1-h][e]
				ends, pos := mustView(t, b.Indptr), mustView(t, b.EdgePos)
				for i := range len(sets) * group {
					shift := (h*group + i%group) * width
					for j, at := range pos[ends[i]:ends[i+1]] {
						sets[i/group] |= 1 << (shift + int(bit(p.picks > 0))*j*p.star.d + int(at)%p.star.d)
					}
				}
			}
		}
		for _, set := range sets {
			c.add(set)
		}
		return c.trials < finding(p.law)
	})
	return c
}

// Every edge and every pair of edges is picked as often as the law says.
func TestNeighborsArePickedAsTheirLawsSay(t *testing.T) {
	five, six := star{d: 5}, star{d: 3}
	three := subsets(3, 2)
	weights := []float64{3, 4, 0, 5, 4}
	typed := star{d: 5, types: []uint8{0, 0, 1, 1, 1}, weights: []float64{3, 4, 4, 5, 4}}
	all := []float64{1, 1, 1}
	for _, p := range []picking{
		{name: "uniform", of: Neighbor{Fanouts: []int{3}, Frontier: AllNodes}, star: five, law: subsets(5, 3)},
		{name: "two destinations", of: Neighbor{Fanouts: []int{2}, Frontier: AllNodes}, star: six, law: apart(three,
			three), group: 2},
		{name: "two hops", of: Neighbor{Fanouts: []int{2, 2}, Frontier: AllNodes}, star: six, law: apart(three, three),
			hops: 2},
		{name: "two trees", of: Neighbor{Fanouts: []int{2}, Frontier: AllNodes, Disjoint: true}, star: six,
			law: apart(three, three),
			as:  []int64{0, 0}},
		{name: "replaced", of: Neighbor{Fanouts: []int{2}, Frontier: AllNodes, Replace: true}, star: six, picks: 2,
			law: apart(successive(all, 1), successive(all, 1))},
		{name: "share", of: Neighbor{Fanouts: []int{4}, Frontier: AllNodes, Share: 0.5}, star: five, law: subsets(5,
			3)},
		{name: "mask", of: Neighbor{Fanouts: []int{3}, Frontier: AllNodes, Mask: "mask"}, star: star{d: 6,
			mask: []uint8{1, 0, 1, 1, 0, 1}},
			law: placed(subsets(4, 3), 0, 2, 3, 5)},
		{name: "ShaDow, two trees", of: Shadow{Fanouts: []int{2}}, star: six, law: apart(three, three),
			as: []int64{0, 0}},
		{name: "weighted", of: Neighbor{Fanouts: []int{3}, Frontier: AllNodes, Weight: "w"}, star: star{d: 5,
			weights: weights},
			law: successive(weights, 3)},
		{name: "weighted share", of: Neighbor{Fanouts: []int{40}, Frontier: AllNodes, Share: 0.5, Weight: "w"},
			star: star{d: 6, weights: append(weights, 4.5)}, law: successive(append(weights, 4.5), 3)},
		{name: "weighted, replaced", of: Neighbor{Fanouts: []int{2}, Frontier: AllNodes, Weight: "w", Replace: true},
			picks: 2,
			star:  star{d: 3, weights: []float64{2, 0, 3}},
			law:   apart(successive([]float64{2, 0, 3}, 1), successive([]float64{2, 0, 3}, 1))},
		{name: "types apart", of: Neighbor{Fanouts: []int{2}, Frontier: AllNodes}, law: apart(three, three),
			star: star{d: 6, types: []uint8{0, 0, 0, 1, 1, 1}}},
		{name: "together", of: Neighbor{Fanouts: []int{3}, Frontier: AllNodes, Together: true}, star: typed,
			law: subsets(5, 3)},
		{name: "together, weighted", of: Neighbor{Fanouts: []int{3}, Frontier: AllNodes, Together: true, Weight: "w"},
			star: typed,
			law:  successive(typed.weights, 3)},
	} {
		t.Run(p.name, func(t *testing.T) { p.counted(t).check(t, p.name) })
	}
}

func TestNeighborsOfThePastArePickedAsTheirLawsSay(t *testing.T) {
	times := []int64{3, 9, 1, 4, 2} // as of 5 edge 1 is of the future
	s := star{d: 5, times: times, weights: []float64{3, 5, 4, 2, 3}}
	of := func(n Neighbor) Neighbor {
		n.Fanouts, n.Time.Edge = []int{3}, "time"
		return n
	}
	half, both := make([]float64, 5), make([]float64, 5)
	past := placed(subsets(4, 3), 0, 2, 3, 4)
	for i, x := range times {
		half[i] = math.Exp2(float64(x-5)/4) * float64(bit(x <= 5))
		both[i] = half[i] * s.weights[i]
	}
	for _, p := range []picking{
		{name: "uniform", of: of(Neighbor{}), star: s, law: past, as: []int64{5}},
		{name: "in order of time", of: of(Neighbor{}), law: placed(subsets(4, 3), 0, 1, 2, 3), as: []int64{5},
			star: star{d: 5, times: []int64{1, 2, 3, 4, 9}, byTime: true}},
		{name: "as of two times", of: of(Neighbor{}), star: s, law: apart(past, subsets(5, 3)), as: []int64{5, 9}},
		{name: "weighted", of: of(Neighbor{Weight: "w", Frontier: AllNodes}), star: s, law: successive([]float64{3, 0,
			4, 2, 3}, 3),
			as: []int64{5}},
		{name: "recency", of: of(Neighbor{Time: Temporal{HalfLife: 4}, Frontier: AllNodes}), star: s,
			law: successive(half, 3), as: []int64{5}},
		{name: "weighted recency", of: of(Neighbor{Weight: "w", Frontier: AllNodes, Time: Temporal{HalfLife: 4}}),
			star: s,
			law:  successive(both, 3), as: []int64{5}},
	} {
		t.Run(p.name, func(t *testing.T) { p.counted(t).check(t, p.name) })
	}
}

// Each root has 2 in-edges and 3 out-edges.
func TestBothDirectionsArePickedAsTheirLawsSay(t *testing.T) {
	const roots = 2000
	indptr, indices := make([]int64, 6*roots+1), make([]int32, 5*roots)
	for v := range indptr {
		indptr[v] = int64(2*min(v, roots) + min(max(v-roots, 0), 3*roots))
	}
	for i := range indices { // sources of roots come last
		if indices[i] = int32(4*roots + i); i >= 2*roots {
			indices[i] = int32((i - 2*roots) / 3)
		}
	}
	g := graphs.CSC(t, indptr, indices)
	for _, p := range []picking{
		{name: "out", of: Neighbor{Fanouts: []int{2}, Frontier: AllNodes, Direction: Out}, law: placed(subsets(3, 2), 2,
			3, 4)},
		{name: "both", of: Neighbor{Fanouts: []int{3}, Frontier: AllNodes, Direction: Both}, law: subsets(5, 3)},
	} {
		req, c := &Request{Seeds: [][]int64{make([]int64, roots)}}, newChances(p.law)
		for v := range req.Seeds[0] {
			req.Seeds[0][v] = int64(v)
		}
		drawBatches(t, g, p.of, req, true, func(out *graph.Sample) bool {
			ends, pos := mustView(t, out.Blocks[0][0].Indptr), mustView(t, out.Blocks[0][0].EdgePos)
			for v := range roots {
				set := 0
				for _, at := range pos[ends[v]:ends[v+1]] {
					if at < 2*roots {
						set |= 1 << (at % 2)
					} else {
						set |= 1 << (2 + (at-2*roots)%3)
					}
				}
				c.add(set)
			}
			return c.trials < finding(p.law)
		})
		c.check(t, p.name)
	}
}
