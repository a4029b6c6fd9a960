package sampling

import (
	"math"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// chanceGraph has four nodes, of in-degrees 2, 3, 4, 6 and out-degrees 6, 4, 3, 2 (with parallel edges), weights, and
// times that are not in order.
func chanceGraph(t *testing.T) *graph.Graph {
	t.Helper()
	d := graph.EdgeData{}
	for i, source := range []int64{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3} {
		d.Src, d.Dst = append(d.Src, source), append(d.Dst, []int64{0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3}[i])
	}
	return graphs.New(t, graph.Data{Edges: []graph.EdgeData{d}, Nodes: []graph.NodeData{{Count: 4,
		Columns: map[string]unified.Tensor{"weight": unified.FromSlice([]float32{0, 1, 0.5, 0.5}),
			"time": unified.FromSlice([]int64{7, 5, 9, 6}), "kind": unified.FromSlice([]int32{4, 4, 2, 2})}}}})
}

// pastGraph has four nodes, and edges of node 1 before, at and after time 7: 1 -> 3 is one of time 7, too.
func pastGraph(t *testing.T) *graph.Graph {
	t.Helper()
	return graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: 4}}, Edges: []graph.EdgeData{{
		Src: []int64{1, 1, 1, 1, 1, 1, 1, 0}, Dst: []int64{0, 0, 1, 3, 3, 2, 0, 3},
		Columns: map[string]unified.Tensor{"when": unified.FromSlice([]int64{2, 1, 6, 5, 7, 3, 9, 1})}}}})
}

// Each law gives every node, and every pair of ends, its probability. Of an end's nodes things 0 to 3 are sources, and
// 4 to 7 targets.
func TestNegativesFollowTheirLaw(t *testing.T) {
	g := chanceGraph(t)
	powers := func(alpha float64, d ...float64) (w []float64) {
		for _, x := range d {
			w = append(w, math.Pow(x, alpha))
		}
		return w
	}
	in, out := powers(0.75, 2, 3, 4, 6), powers(0.75, 6, 4, 3, 2)
	root := powers(0.5, 2, 3, 4, 6)
	same, none := []float64{1, 1, 1, 1}, []float64{0, 0, 0, 0}
	source, target := []float64{0, 1, 0, 0}, []float64{0, 0, 1, 0} // of the edge that negatives are made of: 1 -> 2
	for name, c := range map[string]struct {
		n               Negatives
		sources, target []float64 // weights of the nodes at either end
	}{
		"uniform":          {Negatives{}, source, same},
		"degree of target": {Negatives{Law: ByDegree}, source, in},
		"degree of source": {Negatives{Law: ByDegree, Replace: SourceEnd}, out, target},
		"weight":           {Negatives{Law: ByWeight, Weight: "weight"}, source, []float64{0, 2, 1, 1}},
		"in batch":         {Negatives{Law: InBatch}, source, []float64{1, 0, 1, 1}},
		"root of degree":   {Negatives{Law: ByDegree, Alpha: 0.5}, source, root},
		"degree itself":    {Negatives{Law: ByDegree, Alpha: 1}, source, []float64{2, 3, 4, 6}},
		"degree, by then": {Negatives{Law: ByDegree, Alpha: 0.5, Time: "time"}, source,
			[]float64{root[0], root[1], 0, root[3]}},
		"of its type":         {Negatives{Type: "kind"}, source, []float64{0, 0, 1, 1}},
		"source of its type":  {Negatives{Type: "kind", Replace: SourceEnd}, []float64{1, 1, 0, 0}, target},
		"degree, of its type": {Negatives{Law: ByDegree, Type: "kind"}, source, []float64{0, 0, in[2], in[3]}},
		"by then":             {Negatives{Time: "time"}, source, []float64{1, 1, 0, 1}},
		"weight by then": {Negatives{Law: ByWeight, Weight: "weight", Time: "time"}, source,
			[]float64{0, 2, 0, 1}},
		"both, apart": {Negatives{Replace: BothEnds}, same, same},
		// Of each end three nodes are refused, so that of 2 tries both are with probability 9/16.
		"strict": {Negatives{Strict: true, Tries: 2, Replace: EitherEnd}, none, none},
	} {
		t.Run(name, func(t *testing.T) {
			ends := apart(successive(c.sources, 1), successive(c.target, 1))
			if c.n.Strict {
				ends = make([]float64, 256)
				ends[0], ends[1<<1|0x10<<0], ends[1<<3|0x10<<2] = 9./16, 7./32, 7./32
			}
			checkEnds(t, g, c.n, ends, 1)
		})
	}
	t.Run("either", func(t *testing.T) {
		ends := make([]float64, 256)
		for v := range 4 {
			ends[1<<1|0x10<<v] += 1. / 8
			ends[1<<v|0x10<<2] += 1. / 8
		}
		checkEnds(t, g, Negatives{Replace: EitherEnd}, ends, 1)
	})
	t.Run("two of an edge", func(t *testing.T) {
		one := successive([]float64{1, 1, 0, 1}, 1)
		checkEnds(t, g, Negatives{Time: "time", Triplets: true}, apart(one, one), 2)
	})
}

// Of five earlier edges two lead where an edge leads now: of 2 tries both are refused with probability 4/25. A fill is
// uniform, and refuses the same two.
func TestHistoricalNegativesFollowTheirLaw(t *testing.T) {
	n := Negatives{Law: Historical, History: "when", Tries: 2}
	ends := make([]float64, 256)
	ends[0], ends[1<<1|0x10<<0], ends[1<<1|0x10<<1] = 4./25, 14./25, 7./25
	checkEnds(t, pastGraph(t), n, ends, 1)
	n.Tries, n.Fill = 1, true
	ends[0], ends[1<<1|0x10<<0], ends[1<<1|0x10<<1] = 1./5, 2./5+1./10, 1./5+1./10
	checkEnds(t, pastGraph(t), n, ends, 1)
}

func sum(w []float64) (s float64) {
	for _, x := range w {
		s += x
	}
	return s
}

// checkEnds draws negatives of the edge 1 -> 2 at time 7, for the law in-batch with two others, and compares their ends
// with a law: of one, or the targets of two.
func checkEnds(t *testing.T, g *graph.Graph, n Negatives, law []float64, together int) {
	t.Helper()
	const most = 1 << 14
	n.Ratio = most
	d := expect.Must(n.Open(t.Context(), Env{Graph: g}, []bool{true}))(t)
	defer d.Close()
	c, trials := newChances(law), finding(law)
	edges := [][2]int64{{1, 2}}
	if n.Law == InBatch {
		edges = append(edges, [][2]int64{{0, 0}, {3, 3}}...)
	}
	for batch := uint64(0); c.trials < trials; batch++ {
		l := &LinkSeeds{}
		for i, ends := range edges {
			l.Sources, l.Targets = append(l.Sources, ends[0]), append(l.Targets, ends[1])
			l.Labels, l.Times, l.Group = append(l.Labels, 1), append(l.Times, 7), append(l.Group, int32(i))
			l.Items = append(l.Items, int64(i))
		}
		expect.OK(t, d.Draw(NewRand(20261126, 0, 0, batch), 0, l))
		drawn := 0
		for i := len(edges); i < len(l.Sources) && l.Group[i] == 0; i += together {
			if drawn += together; together == 2 {
				c.add(1<<l.Targets[i] | 0x10<<l.Targets[i+1])
			} else {
				c.add(1<<l.Sources[i] | 0x10<<l.Targets[i])
			}
		}
		for range (most - drawn) * int(bit(n.Strict || n.Law == Historical)) { // those that are missed
			c.add(0)
		}
	}
	c.check(t, t.Name())
}

func TestANodeOfWeight0NeverStandsIn(t *testing.T) {
	in := negativeNodes{n: 5, sums: []uint64{0, 1, 1, 3, 3}}
	for draw, want := range map[uint64]int64{0: 1, 1 << 62: 1, 1 << 63: 3, 1<<64 - 1: 3} {
		id, found := in.at(draw, 0, in.n, 0)
		expect.That(t, id == want && found, "draw %x: node %d, %t; want %d", draw, id, found, want)
	}
}
