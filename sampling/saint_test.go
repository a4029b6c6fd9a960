package sampling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// oracleSaint is docs/sampling.md, "GraphSAINT": the fused ids of a batch in the order of the draws, with repeats.
func oracleSaint(g *graph.Graph, k Saint, r Rand) (ids []int64) {
	stage := rng.StageKey(r.key, 0, 12, 0)
	steps := map[SaintKind]int{SaintNodes: 0, SaintEdges: 1, SaintWalks: k.Length}[k.Kind]
	if k.Kind == SaintWalks && k.Length == 0 {
		steps = 2
	}
	for j := range k.Budget {
		draw := func(i int, n int64) int64 {
			return int64(rng.Bounded(rng.Draw(rng.Stream(stage, uint64(j)), uint64(i)), uint64(n)))
		}
		if k.Kind == SaintNodes {
			if g.NumEdges() > 0 {
				ids = append(ids, indexAt(g, draw(0, g.NumEdges())))
			}
			continue
		}
		v := draw(0, g.NumNodes())
		one := []int64{v}
		for s := range steps {
			from, to := g.Indptr()[v], g.Indptr()[v+1]
			if from == to {
				break
			}
			v = indexAt(g, from+draw(s+1, to-from))
			one = append(one, v)
		}
		if k.Kind != SaintEdges || len(one) == 2 {
			ids = append(ids, one...)
		}
	}
	return ids
}

// placeAll makes node lists of fused ids.
func placeAll(g *graph.Graph, ids []int64) *oracleLists {
	o := newOracleLists(g, &Request{Seeds: make([][]int64, len(g.Schema().Nodes))})
	for _, v := range ids {
		t := o.typeOf(v)
		o.place(t, v-g.Offset(t))
	}
	return o
}

func TestSaintEqualsTheOracle(t *testing.T) {
	const seed = 20261126
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(300, 5000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
		g := sizedGraph(t, r, types[0], types[1], 30, func() int { return []int{0, 1, r.IntN(9)}[r.IntN(3)] })
		k := Saint{Kind: SaintKind(r.IntN(3)), Budget: 1 + r.IntN(30), Length: r.IntN(4), Coverage: r.IntN(2) * 4}
		w := expect.Must(k.Open(Env{Graph: g, BatchSize: 1, EdgePos: true}))(t)
		for batch := range uint64(2) {
			what := fmt.Sprintf("seed %d round %d batch %d: %s", seed, round, batch, k.Fingerprint())
			req := &Request{Items: []int64{int64(batch)}, Rand: NewRand(r.Uint64(), 0, 0, batch)}
			got := sampleFor(t, what, g, k, w, req)
			o := placeAll(g, oracleSaint(g, k, req.Rand))
			for i := range o.nodes {
				if !slices.Equal(widen(t, got.Nodes[i]), o.nodes[i]) || got.NumNodes[0][i] != int64(len(o.nodes[i])) {
					t.Fatalf("%s: nodes %v, want %v", what, widen(t, got.Nodes[i]), o.nodes[i])
				}
			}
			checkBlocks(t, what, got, oracleInduced(g, o.nodes, zeros(o.nodes)))
			if k.Coverage > 0 {
				checkNorms(t, what, g, k, got)
			}
		}
		expect.OK(t, w.Close())
	}
}

// checkNorms compares norms with counts over the subgraphs that docs/sampling.md names.
func checkNorms(t *testing.T, what string, g *graph.Graph, k Saint, got *graph.Sample) {
	t.Helper()
	nodes, edges, total, graphs := make([]float64, g.NumNodes()), make([]float64, g.NumEdges()), 0, 0
	for total < k.Coverage*int(g.NumNodes()) && graphs <= k.Coverage*int(g.NumNodes()) {
		o := placeAll(g, oracleSaint(g, k, NewRand(0, math.MaxUint32, math.MaxUint32, uint64(graphs))))
		for ty, list := range o.nodes {
			total += len(list)
			for _, v := range list {
				nodes[v+g.Offset(ty)]++
			}
		}
		for _, b := range oracleInduced(g, o.nodes, zeros(o.nodes)) {
			for _, pos := range b.edge {
				edges[pos]++
			}
		}
		graphs++
	}
	s := g.Schema()
	for ty := range s.Nodes {
		have, _ := unified.View[float32](got.Arrays[ty].Rows)
		for i, v := range widen(t, got.Nodes[ty]) {
			want := float32(float64(graphs) / (max(nodes[v+g.Offset(ty)], 1) * float64(s.Nodes[ty].Count)))
			if have[i] != want {
				t.Fatalf("%s: node %d of type %d has norm %v, want %v", what, v, ty, have[i], want)
			}
		}
	}
	for e := range s.Edges {
		have, _ := unified.View[float32](got.Arrays[len(s.Nodes)+e].Rows)
		b := &got.Blocks[0][e]
		indptr, pos := widen(t, b.Indptr), widen(t, b.EdgePos)
		for i, v := range widen(t, got.Nodes[s.Edges[e].Dst]) {
			for j := indptr[i]; j < indptr[i+1]; j++ {
				want := float32(max(nodes[v+g.Offset(s.Edges[e].Dst)], 1) / max(edges[pos[j]], 1))
				if have[j] != want {
					t.Fatalf("%s: edge %d has norm %v, want %v", what, pos[j], have[j], want)
				}
			}
		}
	}
}
