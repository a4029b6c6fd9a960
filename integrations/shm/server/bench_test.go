//go:build linux

package server

import (
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// BenchmarkDescribe is what the loader's worker does more for a batch of 8 MB than it would without a feed: ids are
// copied, and widened where a consumer wants int64.
func BenchmarkDescribe(b *testing.B) {
	for _, index := range []unified.DType{unified.Int32, unified.Int64} {
		b.Run(index.String(), func(b *testing.B) {
			s := expect.Must(New(b.Context(), wideGraph(b), Options{Path: socketPath(b),
				IndexDType: index, Loader: loader.Options{
					Sampler: sampling.Neighbor{Fanouts: []int{4, 3}}, Seeds: loader.AllNodes(), BatchSize: 1024,
					Workers: 1}}))(b)
			defer s.Close()
			r := s.ranks[0]
			for batch, err := range r.loader.Epoch(b.Context(), 0) {
				expect.OK(b, err)
				b.ReportMetric(float64(len(batch.X().Bytes()))/1e6, "MB")
				for b.Loop() {
					expect.OK(b, r.made(batch))
				}
				break
			}
		})
	}
}

// wideGraph makes batches of 8 MB.
func wideGraph(b *testing.B) *graph.Graph {
	const n, width = 100_000, 100
	r := rand.New(rand.NewPCG(3, 3))
	var e graph.EdgeData
	for v := range n {
		for range 8 {
			e.Src, e.Dst = append(e.Src, int64(r.IntN(n))), append(e.Dst, int64(v))
		}
	}
	feature := graphs.Matrix(b, make([]float32, n*width), width)
	return graphs.New(b, graph.Data{
		Nodes: []graph.NodeData{{Count: n, Columns: map[string]unified.Tensor{"feature": feature}}},
		Edges: []graph.EdgeData{e},
	})
}
