//go:build !race

package sampling

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/growth"
)

func TestFanoutsOfManyEdgeTypesCostNoMoreThanTheirNumber(t *testing.T) {
	growth.Linear(t, 1000, func(n int) {
		s := graph.Schema{Nodes: []graph.NodeType{{Name: "a"}}}
		sampler := Neighbor{PerType: map[string][]int{}}
		for i := range n {
			s.Edges = append(s.Edges, graph.EdgeType{Source: "a", Relation: fmt.Sprint("r", i), Target: "a"})
			sampler.PerType[s.Edges[i].String()] = []int{1}
		}
		expect.OK(t, s.Init())
		expect.OK(t, validate(sampler, &s))
	})
}

func TestPicksByWeightOfAHubCostNoMoreThanItsEdges(t *testing.T) {
	growth.Linear(t, 1<<16, func(n int) {
		weights := make([]float64, n)
		for i := range weights {
			weights[i] = 1
		}
		var r racer
		expect.OK(t, r.best.begin(n/2, int64(n)))
		for from := 0; from < n; from += chunkEdges {
			r.run(weights[from:min(from+chunkEdges, n)], int64(from), 1, uint64(from), chunkEdges)
		}
		kept := len(r.best.end())
		expect.Ensure(t, kept == n/2, "%d edges, want %d", kept, n/2)
		for _, b := range r.best.buffers() {
			expect.OK(t, b.Close())
		}
	})
}

// Batches of thousands of nodes, whose tables grow, and nodes with more picks than go through the steps together.
func TestLargeBatchesEqualTheOracle(t *testing.T) {
	const seed = 20261123
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 24 {
		types := [][2]int{{1, 1}, {2, 3}}[r.IntN(2)]
		g := sizedGraph(t, r, types[0], types[1], 8000, func() int {
			if r.IntN(100) > 0 {
				return r.IntN(3)
			}
			return r.IntN(1500)
		})
		n := Neighbor{Replace: r.IntN(3) == 0, Frontier: Frontier(r.IntN(2)), Disjoint: r.IntN(2) == 0}
		for range 1 + r.IntN(2) {
			n.Fanouts = append(n.Fanouts, []int{All, 2, 511, 512, 513, 700}[r.IntN(6)])
		}
		req := &Request{Rand: NewRand(seed, 0, 0, uint64(round)), Seeds: make([][]int64, types[0])}
		for t := range req.Seeds {
			for range []int{0, 511, 512, 513, 1024, 1500}[r.IntN(6)] {
				if g.Schema().Nodes[t].Count == 0 {
					break
				}
				req.Seeds[t] = append(req.Seeds[t], r.Int64N(g.Schema().Nodes[t].Count))
			}
		}
		want := oracle(g, newEdgeRuns(g), n, req)
		for name, w := range openVariants(t, g, n) {
			compare(t, fmt.Sprintf("seed %d round %d: %s: %s", seed, round, n.Fingerprint(), name), g, w, req, want)
			expect.OK(t, w.Close())
		}
	}
}

// Ids far apart collide in tables more often than ids that follow one another.
func TestNodesFarApartAreFoundAgain(t *testing.T) {
	const seed, nodes = 20261124, 1 << 20
	r := rand.New(rand.NewPCG(seed, 0))
	g := graphs.CSC(t, make([]int64, nodes+1), nil)
	req := &Request{Rand: NewRand(seed, 0, 0, 0), Seeds: make([][]int64, 1)}
	for range 7000 {
		req.Seeds[0] = append(req.Seeds[0], r.Int64N(nodes))
	}
	req.Seeds[0] = append(req.Seeds[0], req.Seeds[0][:1000]...)
	for _, disjoint := range []bool{false, true} {
		n := Neighbor{Fanouts: []int{1}, Disjoint: disjoint}
		want := oracle(g, newEdgeRuns(g), n, req)
		for name, w := range openVariants(t, g, n) {
			compare(t, fmt.Sprintf("seed %d: %s: %s", seed, n.Fingerprint(), name), g, w, req, want)
			expect.OK(t, w.Close())
		}
	}
}

// Neighbor with replacement, written again as a sampler of one's own, makes the same batches: its draws are those.
func TestASamplerOfOnesOwnDrawsAsNeighborDoes(t *testing.T) {
	const seed, k = 20261125, 4
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 30 {
		g := randomGraph(t, r, 1+r.IntN(3), 1+r.IntN(4))
		n := Neighbor{Fanouts: []int{k, k}, Replace: true, Frontier: Frontier(r.IntN(2))}
		a, err := NewAssembler(Env{Graph: g, BatchSize: 40, EdgePos: true}, n.Frontier, boundOf(n, g.Schema(), 40))
		expect.OK(t, err)
		req := randomRequest(r, g.Schema(), uint64(round))
		want := oracle(g, newEdgeRuns(g), n, req)
		compare(t, fmt.Sprintf("seed %d round %d", seed, round), g, drawing{a, k}, req, want)
		expect.OK(t, a.Close())
	}
}

// drawing picks k in-edges with replacement.
type drawing struct {
	*Assembler
	k int
}

func (w drawing) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	return w.Assembler.Sample(ctx, req, out, func(d *Destination, picks []int64) []int64 {
		for i := range w.k {
			if d.First < d.Last {
				picks = append(picks, d.First+int64(d.Draws.IntN(uint64(i), uint64(d.Last-d.First))))
			}
		}
		return picks
	})
}
