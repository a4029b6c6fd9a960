package loader_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// plainGraph is a graph of n nodes with deg in-edges each, features [n, 3] float32 that say node and column, labels
// int64, edge weights, and the first half of the nodes, backwards, as train split.
func plainGraph(t testing.TB, n, deg int) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	e := graph.EdgeData{}
	feature, label := make([]float32, 0, 3*n), make([]int64, 0, n)
	var weight []float32
	for v := range n {
		for range deg {
			e.Src, e.Dst = append(e.Src, int64(r.IntN(n))), append(e.Dst, int64(v))
			weight = append(weight, r.Float32())
		}
		feature = append(feature, float32(v), float32(v)+0.25, float32(v)+0.5)
		label = append(label, int64(v)*10)
	}
	e.Columns = map[string]unified.Tensor{"weight": unified.FromSlice(weight)}
	var train []int32
	for v := n/2 - 1; v >= 0; v-- {
		train = append(train, int32(v))
	}
	return expect.Must(graph.New(graph.Data{
		Nodes: []graph.NodeData{{Count: int64(n), Columns: map[string]unified.Tensor{
			"feature": matrix(t, feature, 3), "label": unified.FromSlice(label),
		}}},
		Edges: []graph.EdgeData{e},
		Splits: []graph.Split{{Name: "train", Seeds: graph.NodeIDs(train)},
			{Name: "test", Seeds: graph.NodeIDs([]int32{})}},
	}))(t)
}

// typedGraph has users, items that users rate, and friends among users. Users have float64 features, items float16
// ones.
func typedGraph(t testing.TB, users, items int) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(2, uint64(users)))
	rates := graph.EdgeData{Source: "user", Relation: "rates", Target: "item"}
	rated := graph.EdgeData{Source: "item", Relation: "rated_by", Target: "user"}
	friend := graph.EdgeData{Source: "user", Relation: "friend", Target: "user"}
	for range 5 * items {
		u, i := int64(r.IntN(users)), int64(r.IntN(items))
		rates.Src, rates.Dst = append(rates.Src, u), append(rates.Dst, i)
		rated.Src, rated.Dst = append(rated.Src, i), append(rated.Dst, u)
		friend.Src, friend.Dst = append(friend.Src, int64(r.IntN(users))), append(friend.Dst, u)
	}
	stars := make([]int8, len(rates.Src))
	for i := range stars {
		stars[i] = int8(r.IntN(5))
	}
	rates.Columns = map[string]unified.Tensor{"stars": unified.FromSlice(stars)}
	uf, uLabel := make([]float64, 2*users), make([]int32, users)
	for i := range uf {
		uf[i] = float64(i)
		uLabel[i/2] = int32(i / 2)
	}
	xf := make([]unified.Half, 4*items)
	for i := range xf {
		xf[i] = unified.Half(i)
	}
	return expect.Must(graph.New(graph.Data{
		Nodes: []graph.NodeData{
			{Name: "user", Count: int64(users), Columns: map[string]unified.Tensor{"feature": matrix(t, uf, 2),
				"label": unified.FromSlice(uLabel)}},
			{Name: "item", Count: int64(items), Columns: map[string]unified.Tensor{"feature": matrix(t, xf, 4)}},
		},
		Edges: []graph.EdgeData{rates, rated, friend},
	}))(t)
}

func matrix[T unified.Element](t testing.TB, v []T, width int64) unified.Tensor {
	t.Helper()
	return expect.Must(unified.FromSlice(v).Reshape(int64(len(v))/width, width))(t)
}

// open makes a loader on the CPU, unless opt names a device, whatever devices there are.
func open(t testing.TB, src loader.Source, opt loader.Options) *loader.Loader {
	t.Helper()
	if opt.Device.Name == "" {
		opt.Device.Name = "cpu"
	}
	l := expect.Must(loader.New(src, opt))(t)
	t.Cleanup(func() {
		expect.OK(t, l.Close())
		m := l.Stats().Memory
		expect.That(t, m.Total() == 0, "memory held after Close: %+v", m)
	})
	return l
}

var neighbor = sampling.Neighbor{Fanouts: []int{4, 3}}

// digests collects "number padded topology full" of all batches.
func digests(t testing.TB, seq func(func(*loader.Batch, error) bool)) (list []string) {
	t.Helper()
	for b, err := range seq {
		expect.OK(t, err)
		list = append(list, digestOf(b))
	}
	return list
}

func digestOf(b *loader.Batch) string {
	topology, full := b.Digest()
	return fmt.Sprintf("%d %d %t %016x %016x", b.Epoch, b.Number, b.Padded, topology, full)
}

func view[T unified.Element](t testing.TB, x unified.Tensor) []T {
	t.Helper()
	return expect.Must(unified.View[T](x))(t)
}

// seedsOf returns the seeds of type 0 as they were asked for.
func seedsOf(t testing.TB, b *loader.Batch) (ids []int32) {
	t.Helper()
	nodes := view[int32](t, b.Sample.Nodes[0])
	for _, i := range view[int32](t, b.Sample.SeedLocal[0]) {
		ids = append(ids, nodes[i])
	}
	return ids
}

var background = context.Background()
