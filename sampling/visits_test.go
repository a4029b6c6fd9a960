package sampling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// oraclePush is docs/sampling.md, "PPR": scores and residuals by fused id.
func oraclePush(g *graph.Graph, k PPR, seed int64) (score, residual map[int64]uint64) {
	A, E := uint64(k.Alpha*(1<<32)), uint64(k.Epsilon*(1<<52))
	score, residual = map[int64]uint64{}, map[int64]uint64{seed: 1 << 52}
	degree := func(v int64) uint64 { return uint64(g.Indptr()[v+1] - g.Indptr()[v]) }
	enough := func(v int64) bool { return residual[v] >= max(1, degree(v))*E }
	var queue []int64
	if enough(seed) {
		queue = append(queue, seed)
	}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		r, n := residual[v], degree(v)
		residual[v] = 0
		if n == 0 {
			score[v] += r
			continue
		}
		hi, lo := bits.Mul64(r, A)
		share := (r - (hi<<32 | lo>>32)) / n
		score[v] += r - share*n
		for pos := g.Indptr()[v]; pos < g.Indptr()[v+1] && share > 0; pos++ {
			u := indexAt(g, pos)
			residual[u] += share
			if enough(u) && !slices.Contains(queue, u) {
				queue = append(queue, u)
			}
		}
	}
	return score, residual
}

// oracleTop takes the nodes of a type that score highest.
func oracleTop(o *oracleLists, t int, score map[int64]uint64, most int) (nodes []int64, weights []float32) {
	sum := uint64(0)
	for v, n := range score {
		if n > 0 && o.typeOf(v) == t {
			nodes = append(nodes, v)
		}
	}
	slices.SortFunc(nodes, func(a, b int64) int { return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(a, b)) })
	nodes = nodes[:min(len(nodes), most)]
	for _, v := range nodes {
		sum += score[v]
	}
	for _, v := range nodes {
		weights = append(weights, float32(float64(score[v])/float64(sum)))
	}
	return nodes, weights
}

// oracleScores are the scores of a destination.
func oracleScores(t *testing.T, g *graph.Graph, k Sampler, r Rand, v int64, own uint64, hop int) map[int64]uint64 {
	if k, ok := k.(PPR); ok {
		score, _ := oraclePush(g, k, v)
		return score
	}
	p := expect.Must(k.(PinSage).rules(g.Schema()))(t)
	score := map[int64]uint64{}
	for w := range p.walks.perSeed {
		nodes, edges := oracleWalk(g, p.walks, r, v, own, hop*p.walks.perSeed+w)
		for i, e := range edges {
			if e >= 0 {
				score[nodes[i+1]]++
			}
		}
	}
	return score
}

func TestNeighboursByVisitsAndScoreEqualTheOracle(t *testing.T) {
	const seed = 20261125
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(300, 5000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 8}}[r.IntN(4)]
		g := sizedGraph(t, r, types[0], types[1], 40, func() int { return []int{0, 1, 2, r.IntN(9)}[r.IntN(4)] })
		s := g.Schema()
		as, loops := "", 0
		for e := range s.Edges {
			if s.Edges[e].Src == s.Edges[e].Dst {
				as = s.Edges[e].String()
				loops++
			}
		}
		if loops == 0 {
			continue
		}
		if loops == 1 && r.IntN(2) == 0 {
			as = ""
		}
		var k Sampler = PPR{Neighbors: 1 + r.IntN(12), Alpha: []float64{0.1, 0.15, 0.5}[r.IntN(3)],
			Epsilon: []float64{1e-2, 1e-3, 1e-4}[r.IntN(3)], As: as}
		if r.IntN(2) == 0 {
			k = PinSage{Neighbors: 1 + r.IntN(5), Walks: r.IntN(9), Length: 1 + r.IntN(5), Hops: r.IntN(4),
				Restart: []float64{0, 0.3}[r.IntN(2)], Stop: []float64{0, 0.3}[r.IntN(2)], As: as}
		}
		w := expect.Must(k.Open(Env{Graph: g, BatchSize: 40}))(t)
		for batch := range 2 {
			req := randomRequest(r, s, uint64(batch))
			e := w.(interface{ into() int }).into()
			req.Edges = nil
			for i := range req.Seeds {
				if i != s.Edges[e].Dst {
					req.Seeds[i] = nil
				}
			}
			what := fmt.Sprintf("seed %d round %d batch %d: %s", seed, round, batch, k.Fingerprint())
			compareVisits(t, what, g, k, w, req, e)
		}
		expect.OK(t, w.Close())
	}
}

func (w *visitWorker[V]) into() int { return w.as }

func compareVisits(t *testing.T, what string, g *graph.Graph, k Sampler, w Worker, req *Request, e int) {
	t.Helper()
	got := sampleFor(t, what, g, k, w, req)
	o, ty := newOracleLists(g, req), g.Schema().Edges[e].Dst
	most := 0
	switch k := k.(type) {
	case PPR:
		most = k.Neighbors
	case PinSage:
		most = k.Neighbors
	}
	hops := len(got.Blocks)
	for h := range hops {
		indptr, local, weights := []int64{0}, []int64(nil), []float32(nil)
		for _, own := range slices.Clone(o.nodes[ty]) {
			score := oracleScores(t, g, k, req.Rand, own+g.Offset(ty), uint64(own), h)
			nodes, some := oracleTop(o, ty, score, most)
			for _, v := range nodes {
				local = append(local, o.place(ty, v-g.Offset(ty)))
			}
			weights = append(weights, some...)
			indptr = append(indptr, int64(len(local)))
		}
		b := &got.Blocks[hops-1-h][e]
		have, _ := unified.View[float32](got.Arrays[hops-1-h].Rows)
		if !slices.Equal(widen(t, b.Indptr), indptr) || !slices.Equal(widen(t, b.Indices), local) ||
			!slices.Equal(have, weights) || b.NumSrc != int64(len(o.nodes[ty])) {
			t.Fatalf("%s: hop %d: %v %v %v, want %v %v %v", what, h, widen(t, b.Indptr), widen(t, b.Indices), have,
				indptr, local, weights)
		}
	}
	expect.Ensure(t, slices.Equal(widen(t, got.Nodes[ty]), o.nodes[ty]), "%s: nodes %v, want %v", what,
		widen(t, got.Nodes[ty]), o.nodes[ty])
}

// A single seed can take a push for each of a billion edges.
func TestScoresOfOneSeedEndWithTheContext(t *testing.T) {
	g := sizedGraph(t, rand.New(rand.NewPCG(1, 2)), 1, 1, 200, func() int { return 8 })
	k := PPR{Neighbors: 4, Alpha: 0.01, Epsilon: 1e-9}
	w := expect.Must(k.Open(Env{Graph: g, BatchSize: 1}))(t)
	defer w.Close()
	out := sampleOf(g, k, 1)
	defer out.Close()
	ctx := expect.EndsAfter(context.Background(), 1) // once before the seed
	err := w.Sample(ctx, &Request{Seeds: [][]int64{{0}}, Rand: NewRand(1, 0, 0, 0)}, out)
	expect.That(t, errors.Is(err, context.Canceled), "%v; want %v", err, context.Canceled)
}

// What forward push has kept and left together is PageRank: p(v) + the sum of r(u) times the PageRank of v from u.
func TestScoresAndResidualsMakeUpPageRank(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for round := range 30 {
		types := [][2]int{{1, 1}, {2, 3}}[round%2] // the walk follows in-edges of all types
		g := sizedGraph(t, r, types[0], types[1], int64(25/types[0]), func() int { return r.IntN(5) })
		n := g.NumNodes()
		k := PPR{Alpha: 0.2, Epsilon: 1e-3}
		exact := pageRank(g, k.Alpha)
		score, residual := oraclePush(g, k, 0)
		for v := range n {
			got := float64(score[v])
			for u, left := range residual {
				if left >= max(1, uint64(g.Indptr()[u+1]-g.Indptr()[u]))*uint64(k.Epsilon*pushUnit) {
					t.Fatalf("node %d keeps a residual of %d", u, left)
				}
				got += float64(left) * exact[u][v]
			}
			if got /= pushUnit; math.Abs(got-exact[0][v]) > 1e-8 {
				t.Fatalf("node %d: %g, PageRank is %g", v, got, exact[0][v])
			}
		}
	}
}

// pageRank is the personalised PageRank from each node, by powers of the dense matrix.
func pageRank(g *graph.Graph, alpha float64) [][]float64 {
	n := g.NumNodes()
	all := make([][]float64, n)
	for s := range n {
		p, at := make([]float64, n), make([]float64, n)
		at[s] = 1
		for range 400 {
			next := make([]float64, n)
			for v, x := range at {
				in := g.Indptr()[v+1] - g.Indptr()[v]
				if in == 0 {
					p[v] += x
					continue
				}
				p[v] += alpha * x
				for pos := g.Indptr()[v]; pos < g.Indptr()[v+1]; pos++ {
					next[indexAt(g, pos)] += (1 - alpha) * x / float64(in)
				}
			}
			at = next
		}
		all[s] = p
	}
	return all
}
