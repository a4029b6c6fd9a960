//go:build !race

package sampling

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// lawNodes is how many nodes a little graph of walks has.
const lawNodes = 4

// littleGraph is the sources of the in-edges of each node, by edge type.
type littleGraph [][lawNodes][]int64

var (
	// a self-loop, and a node without in-edges of type a
	littleWalks = littleGraph{{{1, 2}, {0, 3}, {0, 2}, {}}, {{1, 2}, {0, 3}, {1}, {0, 2}}}
	// nothing follows node 3
	littleBack = littleGraph{{{1, 3}, {1, 2}, {0}, {}}, {{2, 3}, {1, 2}, {0}, {}}}
	littleLine = littleGraph{{{1}, {1, 2}, {0}, {}}, {{2, 3}, {1, 2}, {0}, {}}}
	// from node 0 each step of second order may lead back, to a neighbour of the node before, and farther
	littleSecond = littleGraph{{{1, 2}, {0, 2, 3, 3}, {0, 1, 3}, {}}}
	// none leads farther
	littleNear = littleGraph{{{1}, {0, 1}, {}, {}}}
)

// copies has n copies of a little graph.
func (l littleGraph) copies(t *testing.T, n int) *graph.Graph {
	t.Helper()
	d := graph.Data{Nodes: []graph.NodeData{{Name: "n", Count: int64(n * lawNodes)}}}
	for e := range l {
		of := graph.EdgeData{Source: "n", Relation: []string{"a", "b"}[e], Target: "n"}
		for v := range int64(n * lawNodes) {
			for _, u := range l[e][v%lawNodes] {
				of.Src, of.Dst = append(of.Src, v-v%lawNodes+u), append(of.Dst, v)
			}
		}
		d.Edges = append(d.Edges, of)
	}
	return graphs.New(t, d)
}

// eachWalk calls f for every walk by rules p from node 0, with its nodes (the root first), whether each step was one to
// the root in place of a step, and its probability.
func (l littleGraph) eachWalk(p walkRules, f func(nodes []int64, jumps []bool, chance float64)) {
	var walk func(nodes []int64, jumps []bool, phase int, chance float64)
	walk = func(nodes []int64, jumps []bool, phase int, chance float64) {
		if len(nodes) > p.length || chance == 0 {
			f(nodes, jumps, chance)
			return
		}
		at := nodes[len(nodes)-1]
		next := func(to int64, jump bool, phase int, chance float64) {
			walk(append(slices.Clone(nodes), to), append(slices.Clone(jumps), jump), phase, chance)
		}
		f(nodes, jumps, chance*p.stop)
		if p.restart > 0 {
			next(0, true, 0, chance*p.restart)
		}
		chance *= 1 - p.stop - p.restart
		var in []int64
		for e := range l {
			if len(p.path) == 0 || p.path[phase%len(p.path)] == e {
				in = append(in, l[e][at]...)
			}
		}
		weights, sum := make([]float64, len(in)), 0.0
		for i, u := range in {
			weights[i] = l.secondOrder(p, nodes, u)
			sum += weights[i]
		}
		switch {
		case len(in) == 0 && p.restart > 0 && at != 0:
			next(0, true, 0, chance)
		case len(in) == 0:
			f(nodes, jumps, chance)
		}
		for i, u := range in {
			next(u, false, phase+1, chance*weights[i]/sum)
		}
	}
	walk([]int64{0}, nil, 0, 1)
}

// secondOrder is node2vec's weight of a step to a node, after some nodes.
func (l littleGraph) secondOrder(p walkRules, nodes []int64, to int64) float64 {
	if p.p == 0 || len(nodes) < 2 {
		return 1
	}
	switch before := nodes[len(nodes)-2]; {
	case to == before:
		return 1 / p.p
	case slices.Contains(l[0][before], to):
		return 1
	}
	return 1 / p.q
}

// Every node at every step, and every pair of these, comes as often as the law says: thing 4*i + v is that step i leads
// to node v.
func TestWalksGoAsTheirLawsSay(t *testing.T) {
	const perSeed, roots = 250, 8
	path := []string{"a", "b"}
	for _, c := range []struct {
		name     string
		of       Sampler
		graph    littleGraph
		together int // walks of a root that are one trial
	}{
		{"uniform", Walk{Length: 3}, littleWalks[:1], 1},
		{"two walks of a root", Walk{Length: 1}, littleWalks[:1], 2},
		{"any type", Walk{Length: 2}, littleWalks, 1},
		{"restart", Walk{Length: 2, Restart: 0.4}, littleBack[:1], 1},
		{"stop", Walk{Length: 2, Stop: 0.2}, littleWalks[:1], 1},
		{"restart and stop", Walk{Length: 2, Restart: 0.4, Stop: 0.1}, littleLine[:1], 1},
		{"metapath", Walk{Length: 3, Metapath: path}, littleWalks, 1},
		{"metapath, restart", Walk{Length: 2, Metapath: path, Restart: 0.4}, littleLine, 1},
		{"node2vec", Node2Vec{Length: 2, P: 0.8, Q: 1.25}, littleSecond, 1},
		{"node2vec, tries to their end", Node2Vec{Length: 2, P: 0.8, Q: 1e-3}, littleNear, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := c.graph.copies(t, roots)
			switch k := c.of.(type) {
			case Walk:
				k.PerSeed = perSeed
				c.of = k
			case Node2Vec:
				k.PerSeed = perSeed
				c.of = k
			}
			p := rulesOf(t, c.of, g.Schema())
			one := make([]float64, 1<<(lawNodes*p.length))
			c.graph.eachWalk(p, func(nodes []int64, _ []bool, chance float64) {
				set := 0
				for i, v := range nodes[1:] {
					set |= 1 << (lawNodes*i + int(v))
				}
				one[set] += chance
			})
			counts := newChances(apart(slices.Repeat([][]float64{one}, c.together)...))
			trials, few := finding(counts.law), false
			if len(c.graph[0][0]) == 1 && p.p > 0 && !*heavy {
				trials, few = trials/20, true // 64 tries a step
			}
			countWalks(t, g, c.of, p, c.together, counts, trials)
			counts.compare(t, c.name, few)
		})
	}
}

// countWalks draws walks from node 0 of each copy of the little graph.
func countWalks(t *testing.T, g *graph.Graph, of Sampler, p walkRules, together int, counts *chances, trials int) {
	t.Helper()
	req := &Request{Seeds: [][]int64{nil}}
	for v := int64(0); v < g.NumNodes(); v += lawNodes {
		req.Seeds[0] = append(req.Seeds[0], v)
	}
	drawBatches(t, g, of, req, false, func(out *graph.Sample) bool {
		nodes := mustView(t, out.Nodes[0])
		walks := expect.Must(unified.View[int32](mustFlat(t, out.Arrays[0].Rows)))(t)
		set, n := 0, 0
		for ; len(walks) > 0; walks = walks[p.length+1:] {
			for i, at := range walks[1 : p.length+1] {
				if at >= 0 {
					set |= 1 << (lawNodes*(n*p.length+i) + int(nodes[at])%lawNodes)
				}
			}
			if n++; n == together {
				counts.add(set)
				set, n = 0, 0
			}
		}
		return counts.trials < trials
	})
}

// Of the neighbours of a node by visits, thing v is that node v is among them, and thing 4 + v that it is the first.
func TestVisitsChooseAsTheirLawsSay(t *testing.T) {
	const roots = 500
	for name, k := range map[string]PinSage{
		"uniform":          {Neighbors: 2, Walks: 2, Length: 2},
		"restart and stop": {Neighbors: 2, Walks: 2, Length: 2, Restart: 0.3, Stop: 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			g := littleBack[:1].copies(t, roots)
			p := expect.Must(k.rules(g.Schema()))(t)
			c := newChances(littleBack[:1].visitsLaw(p))
			req := &Request{Seeds: [][]int64{nil}}
			for i := range int64(roots) {
				req.Seeds[0] = append(req.Seeds[0], i*lawNodes)
			}
			trials := finding(c.law)
			drawBatches(t, g, k, req, false, func(out *graph.Sample) bool {
				b, nodes := &out.Blocks[0][0], mustView(t, out.Nodes[0])
				ends, from := mustView(t, b.Indptr), mustView(t, b.Indices)
				for v := range roots {
					set := 0
					for i, at := range from[ends[v]:ends[v+1]] {
						u := int(nodes[at]) % lawNodes
						set |= 1<<u | int(bit(i == 0))<<(lawNodes+u)
					}
					c.add(set)
				}
				return c.trials < trials
			})
			c.check(t, name)
		})
	}
}

// visitsLaw enumerates the walks of a node, and how often they come to each node together.
func (l littleGraph) visitsLaw(p visitRules) []float64 {
	type visits [lawNodes]int
	one, all := map[visits]float64{}, map[visits]float64{{}: 1}
	l.eachWalk(p.walks, func(nodes []int64, jumps []bool, chance float64) {
		var n visits
		for i, v := range nodes[1:] {
			n[v] += 1 - int(bit(jumps[i]))
		}
		one[n] += chance
	})
	for range p.walks.perSeed {
		next := map[visits]float64{}
		for a, x := range all {
			for b, y := range one {
				sum := a
				for v := range sum {
					sum[v] += b[v]
				}
				next[sum] += x * y
			}
		}
		all = next
	}
	law := make([]float64, 1<<(2*lawNodes))
	for _, n := range slices.SortedFunc(maps.Keys(all), func(a, b visits) int { return slices.Compare(a[:], b[:]) }) {
		order := []int{0, 1, 2, 3}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(n[b], n[a]) })
		order = slices.DeleteFunc(order, func(v int) bool { return n[v] == 0 })
		set := 0
		for i, v := range order[:min(len(order), p.most)] {
			set |= 1<<v | int(bit(i == 0))<<(lawNodes+v)
		}
		law[set] += all[n]
	}
	return law
}
