package gomlx_test

import (
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/gomlx/pkg/core/tensors"
	"go.uber.org/goleak"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gomlx"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

// smallGraph has n nodes with 0 to 7 in-edges each, features [n, 3] that say node and column, labels, an edge weight
// that says the source, and a train split of the first half.
func smallGraph(t testing.TB, n int) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	var e graph.EdgeData
	var feature, weight []float32
	var label []int64
	var train []int32
	for v := range n {
		for range r.IntN(8) {
			src := r.IntN(n)
			e.Src, e.Dst = append(e.Src, int64(src)), append(e.Dst, int64(v))
			weight = append(weight, float32(src))
		}
		feature = append(feature, float32(v), float32(v)+0.25, float32(v)+0.5)
		label = append(label, int64(v)*10)
		if v < n/2 {
			train = append(train, int32(v))
		}
	}
	e.Columns = map[string]unified.Tensor{"weight": unified.FromSlice(weight)}
	x := expect.Must(unified.FromSlice(feature).Reshape(int64(n), 3))(t)
	return graphs.New(t, graph.Data{
		Nodes: []graph.NodeData{{Count: int64(n), Columns: map[string]unified.Tensor{"feature": x,
			"label": unified.FromSlice(label)}}},
		Edges:  []graph.EdgeData{e},
		Splits: []graph.Split{{Name: "train", Seeds: graph.NodeIDs(train)}},
	})
}

var neighbor = sampling.Neighbor{Fanouts: []int{3, 2}}

func openLoader(t testing.TB, src loader.Source, opt loader.Options) *loader.Loader {
	t.Helper()
	ld := expect.Must(loader.New(src, opt))(t)
	t.Cleanup(func() { expect.OK(t, ld.Close()) })
	return ld
}

func openDataset(t testing.TB, ld *loader.Loader, opt gomlx.Options) *gomlx.Dataset {
	t.Helper()
	ds := expect.Must(gomlx.New(background, ld, opt))(t)
	t.Cleanup(ds.Close)
	return ds
}

// yielded is what Yield returned.
type yielded struct {
	spec           any
	inputs, labels []*tensors.Tensor
}

// next takes a batch, or says why there is none.
func next(ds *gomlx.Dataset) (yielded, error) {
	spec, inputs, labels, err := ds.Yield()
	return yielded{spec, inputs, labels}, err
}

// epochOf takes all batches to the end of the epoch.
func epochOf(t testing.TB, ds *gomlx.Dataset) (all []yielded) {
	t.Helper()
	for {
		y, err := next(ds)
		if err == io.EOF {
			return all
		}
		expect.OK(t, err)
		all = append(all, y)
	}
}

// ids are the seeds' ids of a batch, whose labels are ten times the id in smallGraph.
func (y yielded) ids(t testing.TB) (ids []int64) {
	t.Helper()
	mask := flat[bool](t, y.labels[1])
	for i, label := range flat[int64](t, y.labels[0]) {
		if mask[i] {
			ids = append(ids, label/10)
		}
	}
	return ids
}

func flat[T bool | int32 | int64 | float32](t testing.TB, x *tensors.Tensor) []T {
	t.Helper()
	return expect.Must(tensors.CopyFlatData[T](x))(t)
}
