package csc

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// BenchmarkBuild builds a graph of KHOP_BENCH_NODES nodes (default 100,000) and 50 times as many edges, whose
// destinations are skewed and whose sources are even.
func BenchmarkBuild(b *testing.B) {
	n := int64(100_000)
	if s := os.Getenv("KHOP_BENCH_NODES"); s != "" {
		n, _ = strconv.ParseInt(s, 10, 64)
	}
	r := rand.New(rand.NewPCG(1, 2))
	m := n * 101 / 2
	src, dst := make([]int64, m), make([]int64, m)
	for i := range src {
		src[i] = r.Int64N(n)
		x := r.Float64()
		dst[i] = int64(float64(n) * x * x)
	}
	for _, c := range []struct {
		name string
		opt  Options
	}{
		{"plain", Options{Nodes: n}},
		{"plain/1worker", Options{Nodes: n, Workers: 1}},
		{"permutation", Options{Nodes: n, Permutation: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, free := expect.Must2(Build([]Edges{{Src: src, Dst: dst}}, c.opt))(b)
				free()
			}
			b.ReportMetric(float64(m)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Medges/s")
		})
	}
}
