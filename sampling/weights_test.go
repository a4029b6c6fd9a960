package sampling

import (
	"fmt"
	"math"
	"strings"
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

// The first weight that is invalid is named, whatever valid ones come before: as large or as small as there are.
func TestTheFirstInvalidWeightIsNamed(t *testing.T) {
	valid := []float64{0, math.Copysign(0, -1), math.SmallestNonzeroFloat64, 1, math.MaxFloat64}
	v := &edgeValues{weightName: "w"}
	for _, bad := range []float64{-math.SmallestNonzeroFloat64, -1, math.Inf(1), math.Inf(-1), math.NaN()} {
		for at := range len(valid) + 1 {
			c := &edgeChunk{from: 100, n: int64(len(valid) + 1)}
			copy(c.weights[:], valid[:at])
			c.weights[at] = bad
			copy(c.weights[at+1:], valid[at:])
			want := fmt.Sprintf("edge %d: its weight in column %q is %v; weights must be finite and not negative",
				100+at, "w", bad)
			err := v.badWeight(c)
			expect.That(t, err != nil && strings.HasSuffix(err.Error(), want), "%v, want %s", err, want)
			c.n = int64(at) // those before it
			expect.Is(t, v.badWeight(c), nil, "valid weights")
		}
	}
	for _, w := range valid {
		if w == 0 { // that -0 is valid is found out one by one
			continue
		}
		_, ok := loadWeights(make([]float64, 1), []float64{w})
		expect.That(t, ok, "%v is refused", w)
	}
}

// Galloping finds what looking at one after another finds.
func TestGallopingFindsTheFirstOfAType(t *testing.T) {
	var types []uint8
	for e, n := range []int{3, 0, 1, 40, 7, 0, 129, 2} {
		for range n {
			types = append(types, uint8(e))
		}
	}
	n := int64(len(types))
	for lo := range n {
		for hi := lo; hi <= n; hi++ {
			for e := range 10 {
				want := lo
				for want < hi && int(types[want]) < e {
					want++
				}
				got := gallop(types, lo, hi, e)
				expect.Ensure(t, got == want, "type %d in %d .. %d begins at %d, not %d", e, lo, hi, got, want)
			}
		}
	}
}
