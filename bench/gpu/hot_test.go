package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// BenchmarkHotEdges counts which part of the picks' sectors (32 bytes of indices) copies of hot in-edges have, where
// these are a twentieth and a fifth of all edges: by rankings of nodes, and by what a node spares for its room; and
// which part the pages of 4 KiB have from which most was picked.
func BenchmarkHotEdges(b *testing.B) {
	if *hostGraph == "" {
		b.Skip("-host.graph names no dataset")
	}
	ds := expect.Must(formats.Open(*hostGraph))(b)
	defer ds.Close()
	g, hops := ds.Graph(), []int{15, 10, 5}
	if len(g.Schema().Edges) > 1 {
		hops = []int{10, 5}
	}
	l := expect.Must(loader.New(ds, loader.Options{Sampler: sampling.Neighbor{Fanouts: hops}, BatchSize: 1024,
		Shuffle: true, Seeds: loader.AllNodes(), Device: loader.DeviceOptions{Name: "cpu"},
		Columns: loader.ColumnOptions{Nodes: []string{}, Seeds: []string{}, EdgePos: true}}))(b)
	defer l.Close()
	degrees := cuda.InDegree(g.Indptr())
	presampled, pages := askedFor(b, l)
	inDegree := make([]float64, len(degrees))
	for v, n := range degrees {
		inDegree[v] = float64(n)
	}
	for _, share := range []float64{0.05, 0.2} {
		b.Run(fmt.Sprintf("pages/%.0f%%", 100*share), func(b *testing.B) {
			hot := make([]bool, len(pages))
			for _, page := range cuda.Hottest(pages, int64(share*float64(len(pages)))) {
				hot[page] = true
			}
			b.ReportMetric(100*sectorsOf(b, l, func(pos int64) bool { return hot[pos/1024] }), "%spared")
		})
	}
	for name, scores := range map[string][]float64{"in-degree": inDegree, "presample": presampled} {
		for _, byRoom := range []bool{false, true} {
			score := func(v int64) float64 {
				if n := degrees[v]; byRoom && n > 16 {
					return scores[v] * 16 / float64(n)
				}
				return scores[v]
			}
			for _, share := range []float64{0.05, 0.2} {
				b.Run(fmt.Sprintf("%s/byRoom=%v/%.0f%%", name, byRoom, 100*share), func(b *testing.B) {
					hot := hotNodes(g, degrees, score, int64(share*float64(g.NumEdges())))
					b.ReportMetric(100*sectorsOf(b, l, func(pos int64) bool {
						v, _ := slices.BinarySearch(g.Indptr(), pos+1)
						return hot[v-1]
					}), "%spared")
				})
			}
		}
	}
}

// askedFor returns in how many batches of epoch 0 each node is, and how many picks come from each page of indices.
func askedFor(b *testing.B, l *loader.Loader) (nodes, pages []float64) {
	g := l.Graph()
	nodes, pages = make([]float64, g.NumNodes()), make([]float64, g.NumEdges()/1024+1)
	eachBatch(b, l, 0, 64, func(a *layout.Array, t unified.Tensor) {
		switch a.Kind {
		case layout.Nodes:
			for _, v := range integers(b, t) {
				nodes[g.Offset(a.Type)+v]++
			}
		case layout.EdgePos:
			for _, pos := range integers(b, t) {
				pages[pos/1024]++
			}
		}
	})
	return nodes, pages
}

// hotNodes says of each node whether there are copies of its in-edges, in the order of a score, in room for so many.
func hotNodes(g *graph.Graph, degrees []int64, score func(v int64) float64, room int64) []bool {
	order, hot := make([]int64, len(degrees)), make([]bool, len(degrees))
	for v := range order {
		order[v] = int64(v)
	}
	slices.SortStableFunc(order, func(x, y int64) int { return cmp.Compare(score(y), score(x)) })
	for _, v := range order {
		if n := degrees[v]; n <= room {
			hot[v], room = true, room-n
		}
	}
	return hot
}

// sectorsOf returns the part of the sectors of some batches' picks that are hot.
func sectorsOf(b *testing.B, l *loader.Loader, hot func(pos int64) bool) float64 {
	spared, all := 0.0, 0.0
	eachBatch(b, l, 1, 8, func(a *layout.Array, t unified.Tensor) {
		if a.Kind != layout.EdgePos {
			return
		}
		last := int64(-1)
		for _, pos := range slices.Sorted(slices.Values(integers(b, t))) {
			if pos/8 == last {
				continue
			}
			last = pos / 8
			if all++; hot(pos) {
				spared++
			}
		}
	})
	return spared / all
}

// eachBatch shows the arrays of some batches that take memory of their own.
func eachBatch(b *testing.B, l *loader.Loader, epoch, n uint64, see func(a *layout.Array, t unified.Tensor)) {
	arrays := l.Arrays()
	for batch, err := range l.Range(b.Context(), epoch, 0, n) {
		expect.OK(b, err)
		for i := range arrays {
			if !batch.IsView(i) {
				see(&arrays[i], batch.Array(i))
			}
		}
	}
}

// integers returns the elements of a tensor of integers.
func integers(b *testing.B, t unified.Tensor) []int64 {
	list, at := make([]int64, t.Len()), expect.Must(unified.Integers(t))(b)
	for i := range list {
		list[i] = at(int64(i))
	}
	return list
}
