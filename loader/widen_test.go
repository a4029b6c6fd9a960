package loader_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// narrowGraph has a column of each narrow type, all of the same numbers: -4, -3, .., 4.
func narrowGraph(t *testing.T) *graph.Graph {
	t.Helper()
	const n, width = 50, 9
	var halves []unified.Half
	var brains []unified.BHalf
	var bytes, bare []int8
	scales, label := make([]float32, n), make([]int64, n)
	for row := range n {
		scales[row] = 0.5
		for i := range width {
			x := float32((row+i)%9 - 4)
			halves, brains = append(halves, unified.HalfOf(x)), append(brains, unified.BHalfOf(x))
			bytes, bare = append(bytes, int8(2*x)), append(bare, int8(x))
		}
	}
	return graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: n, Columns: map[string]unified.Tensor{
		"feature": graphs.Matrix(t, bytes, width), "feature_scale": unified.FromSlice(scales),
		"half": graphs.Matrix(t, halves, width), "brain": graphs.Matrix(t, brains, width),
		"bare": graphs.Matrix(t, bare, width), "label": unified.FromSlice(label)}}},
		Edges: []graph.EdgeData{{Src: []int64{1, 2, 3}, Dst: []int64{0, 1, 2}}}})
}

func TestNarrowRowsAreDeliveredWide(t *testing.T) {
	data := storedGraph(t, narrowGraph(t))
	for _, c := range []struct {
		residence loader.Residence
		verify    bool
	}{{loader.Mapped, false}, {loader.Mapped, true}, {loader.Resident, true}, {loader.Disk, true}} {
		l := expect.Must(loader.New(data, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, BatchSize: 7,
			Columns: loader.ColumnOptions{Nodes: []string{"feature", "half", "brain", "bare"},
				Widen: []string{"float32"}},
			Device:    loader.DeviceOptions{Name: "cpu"},
			Residence: c.residence, Verify: c.verify, Disk: loader.DiskOptions{CacheBytes: 64}}))(t)
		for b, err := range l.Epoch(background, 0) {
			expect.OK(t, err)
			ids := idsOf(t, b.Sample.Nodes[0])
			for _, name := range []string{"feature", "half", "brain"} {
				x := b.Node(0, name)
				v, err := unified.View[float32](x)
				expect.Ensure(t, err == nil && len(v) == 9*len(ids), "%s: %v, %v", name, x, err)
				for i, id := range ids {
					want := make([]float32, 9)
					for k := range want {
						want[k] = float32((int(id)+k)%9 - 4)
					}
					expect.Ensure(t, slices.Equal(v[9*i:9*i+9], want), "%s of node %d is %v, not %v", name, id,
						v[9*i:9*i+9], want)
				}
			}
			x := b.Node(0, "bare")
			expect.That(t, x.DType() == unified.Int8, "a column without scales is delivered as %v", x.DType())
		}
		expect.OK(t, l.Close())
	}
}

func TestWhatDoesNotWidenIsRefused(t *testing.T) {
	opt := loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2}},
		Columns: loader.ColumnOptions{Widen: []string{"float32"}}, Device: loader.DeviceOptions{Name: "cuda"}}
	_, err := loader.New(narrowGraph(t), opt)
	expect.That(t, errors.Is(err, loader.ErrDevice), "%v", err)
}

// idsOf returns ids of either type.
func idsOf(t *testing.T, ids unified.Tensor) (list []int64) {
	t.Helper()
	at := expect.Must(unified.Numbers(ids))(t)
	for i := range ids.Len() {
		list = append(list, int64(at(i)))
	}
	return list
}
