//go:build !race

package sampling

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// inclusion returns the probability of each edge to be among k that are drawn one after the other, each in proportion
// to its weight among those that are left: by enumeration of all orders.
func inclusion(weights []float64, k int) []float64 {
	p := make([]float64, len(weights))
	var draw func(left []float64, k int, chance float64)
	draw = func(left []float64, k int, chance float64) {
		sum := 0.0
		for _, w := range left {
			sum += w
		}
		if k == 0 || sum == 0 {
			return
		}
		for i, w := range left {
			if w > 0 {
				p[i] += chance * w / sum
				rest := slices.Clone(left)
				rest[i] = 0
				draw(rest, k-1, chance*w/sum)
			}
		}
	}
	draw(weights, k, 1)
	return p
}

// copies makes a graph of n destinations, each with the same edges.
func copies(t testing.TB, weights []float64, n int) *graph.Graph {
	d := len(weights)
	indptr, all := make([]int64, n+1), slices.Repeat(weights, n)
	for v := range indptr {
		indptr[v] = int64(v * d)
	}
	g, err := graph.FromArrays(graph.Arrays{Schema: graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: int64(n)}},
		Edges:       []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: int64(n * d)}},
		EdgeColumns: []graph.Column{{Name: "w", DType: unified.Float64}}},
		Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(make([]int32, n*d)),
		EdgeColumns: map[string]unified.Tensor{"w": unified.FromSlice(all)}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// drawOften samples all nodes of a graph of copies, and returns how often each of their d edges was picked.
func drawOften(t *testing.T, g *graph.Graph, n Neighbor, d, batches int) []float64 {
	seeds := make([]int64, g.NumNodes())
	for v := range seeds {
		seeds[v] = int64(v)
	}
	w, err := n.Open(Env{Graph: g, BatchSize: len(seeds), EdgePos: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	out := new(graph.Sample)
	b := n.Bound(g.Schema(), len(seeds))
	b.Init(out, g.Schema(), pinned.Options{})
	defer out.Close()
	often := make([]float64, d)
	for batch := range batches {
		req := &Request{Seeds: [][]int64{seeds}, Rand: NewRand(77, 0, 0, uint64(batch))}
		if err := w.Sample(context.Background(), req, out); err != nil {
			t.Fatal(err)
		}
		for _, pos := range mustView(t, out.Blocks[0][0].EdgePos) {
			often[int(pos)%d]++
		}
	}
	return often
}

// farthest returns how many standard deviations the count of an edge is away from what its probability lets expect, at
// most, where each of n draws takes it with that probability.
func farthest(often, p []float64, n float64) (z float64) {
	for i := range p {
		if p[i] > 0 && p[i] < 1 {
			z = max(z, math.Abs(often[i]-n*p[i])/math.Sqrt(n*p[i]*(1-p[i])))
		}
	}
	return z
}

// Edges are picked as often as the enumeration of all orders of successive draws says. The limit of 5.5 deviations is
// passed by chance once in 2 million runs (6 edges, both sides), and the seed is fixed. An edge that is picked 1 % too
// often, at p = 0.8 and 240,000 draws, is 9.8 deviations off: the chance to miss it is below 1e-4. A weight that makes
// it so is planted to see that.
func TestPicksByWeightHaveTheProbabilitiesOfSuccessiveDraws(t *testing.T) {
	weights := []float64{1, 2, 0, 4, 0.5, 9, 3}
	const k, nodes, limit = 3, 2000, 5.5
	batches := 160
	if *heavy {
		batches *= 100
	}
	want, draws := inclusion(weights, k), float64(nodes*batches)
	n := Neighbor{Fanouts: []int{k}, Weight: "w"}
	often := drawOften(t, copies(t, weights, nodes), n, len(weights), batches)
	z := farthest(often, want, draws)
	t.Logf("%.2f deviations", z)
	if z > limit || often[2] != 0 {
		t.Errorf("picked %v, want %v of %v: %.1f deviations", often, want, draws, z)
	}
	planted := slices.Clone(weights)
	for i, rate := 3, 1.0; rate < 1.01; { // of p about 0.75
		planted[i] *= 1.001
		rate = inclusion(planted, k)[i] / want[i]
	}
	z = farthest(drawOften(t, copies(t, planted, nodes), n, len(weights), batches), want, draws)
	t.Logf("planted: %v, %.2f deviations", planted[3], z)
	if z <= limit {
		t.Errorf("weight %v in place of %v is not noticed: %.1f deviations", planted[3], weights[3], z)
	}
}

func TestPicksWithReplacementAreInProportionToWeights(t *testing.T) {
	weights := []float64{1, 2, 0, 40, 0.5, 9, 3}
	const k, nodes, limit = 4, 2000, 5.5
	sum, want := 55.5, make([]float64, len(weights))
	for i, w := range weights {
		want[i] = w / sum
	}
	n := Neighbor{Fanouts: []int{k}, Weight: "w", Replace: true}
	for planted, found := range map[float64]bool{40: false, 41.5: true} { // 41.5/57 is 1 % more than 40/55.5
		weights[3] = planted
		often := drawOften(t, copies(t, weights, nodes), n, len(weights), 40)
		if z := farthest(often, want, k*nodes*40); z > limit != found || often[2] != 0 {
			t.Errorf("weight %v: %.1f deviations, limit %v", planted, z, limit)
		}
	}
}

// Among a million edges the share of each weight is as the race makes it: an edge of weight w is taken with probability
// 1-exp(-wT), where T makes the expected number k. (That is exact up to a part of 1/n here.)
func TestPicksOfAHubHaveTheirProbabilities(t *testing.T) {
	const degree, classes, k, limit = 1_000_000, 10, 1000, 5.5
	batches := 4
	if *heavy {
		batches = 4000
	}
	weights := make([]float64, degree)
	for i := range weights {
		weights[i] = float64(1 + i%classes)
	}
	expected := func(T float64) (per []float64, sum float64) {
		for c := range classes {
			p := -math.Expm1(-float64(1+c) * T)
			per, sum = append(per, p*degree/classes), sum+p*degree/classes
		}
		return per, sum
	}
	lo, hi := 0.0, 1.0
	for range 100 {
		if _, sum := expected((lo + hi) / 2); sum < k {
			lo = (lo + hi) / 2
		} else {
			hi = (lo + hi) / 2
		}
	}
	per, _ := expected(lo)
	often := drawOften(t, copies(t, weights, 1), Neighbor{Fanouts: []int{k}, Weight: "w"}, degree, batches)
	for c := range classes {
		sum := 0.0
		for i := c; i < degree; i += classes {
			sum += often[i]
		}
		z := (sum/float64(batches) - per[c]) / math.Sqrt(per[c]/float64(batches))
		t.Logf("weight %d: %.4f of %.4f, %.2f deviations; 1 %% would be %.1f", c+1, sum/float64(batches), per[c], z,
			0.01*per[c]/math.Sqrt(per[c]/float64(batches)))
		if math.Abs(z) > limit {
			t.Errorf("weight %d: %.1f deviations", c+1, z)
		}
	}
}
