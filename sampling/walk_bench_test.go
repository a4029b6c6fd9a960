package sampling

import (
	"context"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
)

func BenchmarkWalk(b *testing.B) {
	g := powerLaw(b, 2_000_000, 40_000_000)
	for _, k := range []Sampler{Walk{Length: 20, PerSeed: 1}, Walk{Length: 20, Restart: 0.1},
		Node2Vec{Length: 20, P: 0.25, Q: 4}, Node2Vec{Length: 20, P: 4, Q: 0.5}} {
		b.Run(k.Fingerprint(), func(b *testing.B) {
			benchmarkSampler(b, g, k, 1024, func(out *graph.Sample) int64 { return out.Arrays[0].Rows.Len() * 20 })
		})
	}
}

// benchmarkSampler samples batches of random seeds, and says what one piece of work takes.
func benchmarkSampler(b *testing.B, g *graph.Graph, k Sampler, seeds int, work func(*graph.Sample) int64) {
	w := expect.Must(k.Open(Env{Graph: g, BatchSize: seeds}))(b)
	defer w.Close()
	out := sampleOf(g, k, seeds)
	defer out.Close()
	ids := make([]int64, seeds)
	n := uint64(g.NumNodes())
	sample := func(batch int) {
		draws := NewRand(1, 0, 0, uint64(batch)).Stage(0, PurposePick, 0).Stream(0)
		for i := range ids {
			ids[i] = int64(draws.IntN(uint64(i), n))
		}
		req := &Request{Seeds: [][]int64{ids}, Rand: NewRand(2, 0, 0, uint64(batch))}
		expect.OK(b, w.Sample(context.Background(), req, out))
	}
	for i := range 5 {
		sample(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	total := int64(0)
	for i := range b.N {
		sample(i + 5)
		total += work(out)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(total), "ns/step")
}
