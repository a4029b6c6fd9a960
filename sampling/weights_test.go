package sampling

import (
	"math"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestWeightsAreLoadedSummedAndLookedAt at every place of lists of every length, for several are done at a time.
func TestWeightsAreLoadedSummedAndLookedAt(t *testing.T) {
	for n := range 9 {
		single, double, to := make([]float32, n), make([]float64, n), make([]float64, n)
		want := 0.0
		for i := range n {
			single[i], double[i] = float32(i)+0.5, float64(i)+0.5
			want += double[i]
		}
		for _, load := range []func() (float64, bool){func() (float64, bool) { return loadWeights(to, single) },
			func() (float64, bool) { return loadWeights(to, double) }} {
			clear(to)
			sum, ok := load()
			expect.That(t, sum == want && ok, "%d weights: a sum of %v, not %v; valid: %t", n, sum, want, ok)
			for i := range to {
				if to[i] != double[i] {
					t.Errorf("%d weights: weight %d is %v", n, i, to[i])
				}
			}
		}
		for i := range n {
			for _, bad := range []float64{-1, math.Inf(1), math.NaN(), math.Inf(-1)} {
				kept := double[i]
				double[i] = bad
				_, ok := loadWeights(to, double)
				expect.That(t, !ok, "%d weights, of which number %d is %v, are valid", n, i, bad)
				double[i] = kept
			}
		}
	}
}

// TestClustersHaveAThousandNodes or fewer, where nobody gives a partition.
func TestClustersHaveAThousandNodes(t *testing.T) {
	for nodes, want := range map[int64]int{0: 1, 1: 1, 1024: 1, 1025: 2, 2048: 2, 2049: 3} {
		s := &graph.Schema{Nodes: []graph.NodeType{{Name: "node", Count: nodes}},
			Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node"}}}
		expect.OK(t, s.Init())
		got := (Cluster{}).parts(s)
		expect.That(t, got == want, "%d nodes make %d parts, want %d", nodes, got, want)
	}
}
