package gnn

import (
	"context"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// TestScaledFeaturesTrainTheModelOfTheirValues: int8 with scales, and the same numbers as float32.
func TestScaledFeaturesTrainTheModelOfTheirValues(t *testing.T) {
	const n, width = 90, 6
	narrow, wide := make([]int8, n*width), make([]float32, n*width)
	scales, labels, ids := make([]float32, n), make([]int64, n), make([]int64, n)
	for i := range narrow {
		row := i / width
		scales[row], labels[row], ids[row] = 0.25*float32(1+row%3), int64(row%3), int64(row)
		narrow[i] = int8((7*i + row) % 11)
		wide[i] = float32(narrow[i]) * scales[row]
	}
	train := func(columns map[string]unified.Tensor) (*Result, error) {
		columns["label"] = unified.FromSlice(labels)
		x := expect.Must(columns["feature"].Reshape(n, width))(t)
		columns["feature"] = x
		all := graph.NodeIDs(ids)
		g, err := graph.New(graph.Data{Nodes: []graph.NodeData{{Columns: columns}},
			Edges:  []graph.EdgeData{{Src: ids[1:], Dst: ids[:n-1]}},
			Splits: []graph.Split{{Name: "train", Seeds: all}, {Name: "val", Seeds: all}, {Name: "test", Seeds: all}}})
		expect.OK(t, err)
		return Train(context.Background(), g, Options{Model: "gcn", Epochs: 5})
	}
	want := expect.Must(train(map[string]unified.Tensor{"feature": unified.FromSlice(wide)}))(t)
	got, err := train(map[string]unified.Tensor{"feature": unified.FromSlice(narrow),
		"feature_scale": unified.FromSlice(scales)})
	expect.That(t, err == nil && got.Loss == want.Loss, "%v, %v; want a loss of %v", got, err, want.Loss)
	expect.Is(t, expect.Err(train(map[string]unified.Tensor{"feature": unified.FromSlice(narrow)})), ErrOptions,
		"without scales")
}
