package main

import (
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

func int64Of(n int64) *int64 { return &n }

// writeColumns writes a dataset whose edges have weights, a mask and times, and whose nodes have labels as times.
func writeColumns(t *testing.T, path string) {
	t.Helper()
	const nodes, edges = 500, 6000
	r := rand.New(rand.NewPCG(3, 3))
	e := graph.EdgeData{}
	label, weight := make([]int64, nodes), make([]float32, edges)
	mask, time := make([]uint8, edges), make([]int64, edges)
	for i := range edges {
		e.Src, e.Dst = append(e.Src, r.Int64N(nodes)), append(e.Dst, r.Int64N(nodes))
		weight[i], mask[i], time[i] = max(0, r.Float32()-0.2), uint8(r.IntN(3)), r.Int64N(100)
	}
	for v := range label {
		label[v] = r.Int64N(10)
	}
	e.Columns = map[string]unified.Tensor{"weight": unified.FromSlice(weight), "mask": unified.FromSlice(mask),
		"time": unified.FromSlice(time)}
	g, err := graph.New(graph.Data{Edges: []graph.EdgeData{e}, Nodes: []graph.NodeData{{Count: nodes,
		Columns: map[string]unified.Tensor{"label": unified.FromSlice(label)}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := formats.WriteGraph(t.Context(), path, g, formats.WriterOptions{}); err != nil {
		t.Fatal(err)
	}
}
