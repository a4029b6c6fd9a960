package gnn

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// BenchmarkLive applies changes of edges, half of them added and half taken away, and of features, to a graph like
// ogbn-products under a GraphSAGE of three layers of 128. KHOP_BENCH_NODES says how many nodes it has.
func BenchmarkLive(b *testing.B) {
	nodes := int64(20_000)
	if s := os.Getenv("KHOP_BENCH_NODES"); s != "" {
		nodes = expect.Must(strconv.ParseInt(s, 10, 64))(b)
	}
	r := rand.New(rand.NewPCG(expect.Seed(b), 1))
	folder := b.TempDir()
	data, model := filepath.Join(folder, "data"), filepath.Join(folder, "model")
	small := filepath.Join(folder, "small")
	expect.OK(b, expect.Err(synthetic.Generate(b.Context(), synthetic.Products, data, synthetic.Options{Nodes: nodes})))
	expect.OK(b, expect.Err(synthetic.Generate(b.Context(), synthetic.Products, small, synthetic.Options{Nodes: 2000})))
	ds := expect.Must(formats.Open(small))(b)
	expect.OK(b, expect.Err(Train(b.Context(), ds, Options{Model: "sage", Hidden: 128, Layers: 3, Epochs: 1,
		Checkpoint: model})))
	expect.OK(b, ds.Close())
	ds = expect.Must(formats.Open(data))(b)
	defer ds.Close()
	g := ds.Graph()
	feature, _ := g.NodeRole(0, graph.Feature)
	l := expect.Must(OpenLive(b.Context(), data, LiveOptions{Checkpoint: model, MaxMemory: 16 << 30}))(b)
	defer l.Close()
	sources := expect.Must(unified.View[int32](g.Indices()))(b)
	taken := map[int]bool{}
	edges := func(n int) *Changes {
		less, more := EdgeList{}, EdgeList{}
		for range n / 2 {
			at := r.IntN(len(sources))
			for taken[at] {
				at = r.IntN(len(sources))
			}
			taken[at] = true
			less.Src, less.Dst = append(less.Src, int64(sources[at])), append(less.Dst, targetOf(g.Indptr(), int64(at)))
			more.Src, more.Dst = append(more.Src, r.Int64N(nodes)), append(more.Dst, r.Int64N(nodes))
		}
		return &Changes{Add: []EdgeList{more}, Remove: []EdgeList{less}}
	}
	rows := func(n int) *Changes {
		one := NodeRows{}
		for _, v := range r.Perm(int(nodes))[:n] {
			one.IDs = append(one.IDs, int64(v))
			for range feature.Width() {
				one.Rows = append(one.Rows, r.Float32())
			}
		}
		return &Changes{Features: []NodeRows{one}}
	}
	for _, n := range []int{10, 100, 1000, 10_000} {
		for what, draw := range map[string]func(int) *Changes{"edges": edges, "features": rows} {
			b.Run(fmt.Sprintf("%s=%d", what, n), func(b *testing.B) {
				made := int64(0)
				for b.Loop() {
					b.StopTimer()
					c := draw(n)
					b.StartTimer()
					report := expect.Must(l.Apply(b.Context(), c))(b)
					for _, s := range report.Steps {
						made += s.Rows
					}
				}
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "changes/s")
				b.ReportMetric(float64(made)/float64(b.N), "rows/op")
			})
		}
	}
}

// targetOf returns the node that has an edge.
func targetOf(indptr []int64, at int64) int64 {
	lo, hi := int64(0), int64(len(indptr)-1)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; indptr[mid] <= at {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}
