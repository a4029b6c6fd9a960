package gnn

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/memuse"
	"github.com/khop-gnn/khop/unified"
)

// liveBench draws changes of a graph like ogbn-products.
type liveBench struct {
	r       *rand.Rand
	data    string
	model   string // GraphSAGE of three layers of 128
	nodes   int64
	width   int64
	sources []int32
	indptr  []int64
	taken   map[int]bool // edges that were removed
}

func newLiveBench(b *testing.B, nodes int64) *liveBench {
	b.Helper()
	folder := b.TempDir()
	l := &liveBench{r: rand.New(rand.NewPCG(expect.Seed(b), 1)), data: filepath.Join(folder, "data"),
		model: filepath.Join(folder, "model"), nodes: nodes, taken: map[int]bool{}}
	small := filepath.Join(folder, "small")
	for path, n := range map[string]int64{l.data: nodes, small: 2000} {
		expect.OK(b, expect.Err(synthetic.Generate(b.Context(), synthetic.Products, path, synthetic.Options{Nodes: n})))
	}
	ds := expect.Must(formats.Open(small))(b)
	defer ds.Close()
	expect.OK(b, expect.Err(Train(b.Context(), ds, Options{Model: "sage", Hidden: 128, Layers: 3, Epochs: 1,
		Checkpoint: l.model})))
	ds = expect.Must(formats.Open(l.data))(b)
	b.Cleanup(func() { _ = ds.Close() })
	x, _ := ds.Graph().NodeRole(0, graph.Feature)
	l.width, l.indptr = x.Width(), ds.Graph().Indptr()
	l.sources = expect.Must(unified.View[int32](ds.Graph().Indices()))(b)
	return l
}

// edges draws n changes: half of them take an edge away, and half add one.
func (l *liveBench) edges(n int) *Changes {
	less, more := EdgeList{}, EdgeList{}
	for range n / 2 {
		at := l.r.IntN(len(l.sources))
		for l.taken[at] {
			at = l.r.IntN(len(l.sources))
		}
		l.taken[at] = true
		behind, _ := slices.BinarySearchFunc(l.indptr, int64(at), func(begin, at int64) int {
			return map[bool]int{true: -1, false: 1}[begin <= at]
		})
		less.Src, less.Dst = append(less.Src, int64(l.sources[at])), append(less.Dst, int64(behind-1))
		more.Src, more.Dst = append(more.Src, l.r.Int64N(l.nodes)), append(more.Dst, l.r.Int64N(l.nodes))
	}
	return &Changes{Add: []EdgeList{more}, Remove: []EdgeList{less}}
}

// features draws new rows for n nodes.
func (l *liveBench) features(n int) *Changes {
	one := NodeRows{}
	for _, v := range l.r.Perm(int(l.nodes))[:n] {
		one.IDs = append(one.IDs, int64(v))
		for range l.width {
			one.Rows = append(one.Rows, l.r.Float32())
		}
	}
	return &Changes{Features: []NodeRows{one}}
}

// BenchmarkLive makes changes of edges and of features: how many of them a second, and how many rows are made again for
// all of those at once, beside what all rows take. KHOP_BENCH_NODES says how many nodes the graph has. Opening makes
// all rows.
func BenchmarkLive(b *testing.B) {
	nodes := int64(20_000)
	if s := os.Getenv("KHOP_BENCH_NODES"); s != "" {
		nodes = expect.Must(strconv.ParseInt(s, 10, 64))(b)
	}
	of := newLiveBench(b, nodes)
	began := time.Now()
	l := expect.Must(OpenLive(b.Context(), of.data, LiveOptions{Checkpoint: of.model, MaxMemory: 14 << 30}))(b)
	defer l.Close()
	b.Logf("%d nodes, %d edges: opened in %v", nodes, len(of.sources), time.Since(began))
	b.Run("all rows by Embed", func(b *testing.B) {
		out := filepath.Join(b.TempDir(), "rows.npy")
		for b.Loop() {
			expect.OK(b, expect.Err(Embed(b.Context(), of.data, EmbedOptions{Checkpoint: of.model, Out: out,
				Force: true, MaxMemory: 8 << 30})))
		}
	})
	for _, n := range []int{10, 100, 1000, 10_000} {
		for what, draw := range map[string]func(int) *Changes{"edges": of.edges, "features": of.features} {
			b.Run(fmt.Sprintf("%s=%d", what, n), func(b *testing.B) {
				made := int64(0)
				for b.Loop() {
					b.StopTimer()
					c := draw(n)
					b.StartTimer()
					for _, s := range expect.Must(l.Apply(b.Context(), c))(b).Steps {
						made += s.Rows
					}
				}
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "changes/s")
				b.ReportMetric(float64(made)/float64(b.N), "rows/op")
			})
		}
	}
	if used, err := memuse.Read(); err == nil {
		b.Logf("%d MB of memory", used.Anonymous>>20)
	}
}
