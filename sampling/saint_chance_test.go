package sampling

import (
	"context"
	"math"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
)

// saintDraws adds the probabilities of the sets of nodes, as bits, that one draw of a subgraph may have.
func saintDraws(g *graph.Graph, k Saint, law map[uint32]float64) {
	n := float64(g.NumNodes())
	if k.Kind == SaintNodes {
		for pos := range g.NumEdges() {
			law[1<<indexAt(g, pos)] += 1 / float64(g.NumEdges())
		}
		return
	}
	var walk func(v int64, set uint32, steps int, p float64)
	walk = func(v int64, set uint32, steps int, p float64) {
		set |= 1 << v
		in := g.Indptr()[v+1] - g.Indptr()[v]
		switch {
		case steps == 0:
			law[set] += p
		case in == 0 && k.Kind == SaintEdges:
			law[0] += p
		case in == 0:
			law[set] += p
		}
		for pos := g.Indptr()[v]; pos < g.Indptr()[v+1] && steps > 0; pos++ {
			walk(indexAt(g, pos), set, steps-1, p/float64(in))
		}
	}
	for v := range g.NumNodes() {
		walk(v, 0, k.steps(), 1/n)
	}
}

// Norms are estimated from counts whose expectations are the exact probabilities, by enumeration of all draws, that a
// node and an edge are in a subgraph. A relative bias of 1 % of those that are likely is found: one is planted.
func TestSaintCountsAreThoseOfItsProbabilities(t *testing.T) {
	src := []int64{1, 2, 3, 0, 2, 2, 0, 1, 3, 0, 2, 4, 5}
	dst := []int64{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 5, 4}
	g, err := graph.New(graph.Data{Nodes: []graph.NodeData{{Count: 7}}, Edges: []graph.EdgeData{{Src: src, Dst: dst}}})
	expect.OK(t, err)
	const limit, power = 4.5, 3.09 // a fair sampler fails once in 147,000 counts
	coverage := 60_000
	if invariants.Enabled { // as slow as under -race no bias of 1 % is looked for
		coverage = 3000
	}
	for _, k := range []Saint{{Kind: SaintNodes, Budget: 12}, {Kind: SaintEdges, Budget: 8},
		{Kind: SaintWalks, Budget: 6}} {
		k.Coverage = coverage
		law := map[uint32]float64{}
		saintDraws(g, k, law)
		without := func(nodes uint32) (p float64) { // that no draw has any of them
			for set, x := range law {
				if set&nodes == 0 {
					p += x
				}
			}
			return math.Pow(p, float64(k.Budget))
		}
		p := expect.Must(k.Prepare(context.Background(), Env{Graph: g, BatchSize: 1}))(t)
		c, found, likely := &p.(*preparedSaint).counts, 0, 0
		check := func(count uint32, chance float64) {
			n := float64(c.graphs)
			spread := math.Sqrt(n * chance * (1 - chance))
			expect.That(t, math.Abs(float64(count)-n*chance) <= limit*spread+1e-6,
				"%s: %d of %d, with a probability of %.4f", k.Fingerprint(), count, c.graphs, chance)
			if 0.01*n*chance > (limit+power)*spread && chance < 0.99 {
				if likely++; math.Abs(float64(count)-1.01*n*chance) > limit*spread {
					found++
				}
			}
		}
		for v := range uint32(7) {
			check(c.nodes[v], 1-without(1<<v))
		}
		for v := range g.NumNodes() {
			for pos := g.Indptr()[v]; pos < g.Indptr()[v+1]; pos++ {
				a, b := uint32(1)<<v, uint32(1)<<indexAt(g, pos)
				check(c.edges[pos], 1-without(a)-without(b)+without(a|b))
			}
		}
		expect.That(t, found >= likely && (likely != 0 || invariants.Enabled),
			"%s: a bias of 1 %% was found in %d of %d", k.Fingerprint(), found, likely)
		expect.OK(t, p.(*preparedSaint).Close())
	}
}
