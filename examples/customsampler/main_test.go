package main

import (
	"context"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

func TestWindowPicksConsecutiveEdges(t *testing.T) {
	const nodes, degree = 50, 20
	var src, dst []int64
	for v := range int64(nodes) {
		for i := range int64(degree) {
			src, dst = append(src, (v+i)%nodes), append(dst, v)
		}
	}
	g, err := graph.New(graph.Data{Nodes: []graph.NodeData{{Count: nodes}},
		Edges: []graph.EdgeData{{Src: src, Dst: dst}}})
	if err != nil {
		t.Fatal(err)
	}
	ld, err := loader.New(g, loader.Options{Sampler: Window{K: 4, Hops: 2}, BatchSize: 8,
		Columns: loader.ColumnOptions{EdgePos: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer ld.Close()
	for batch, err := range ld.Epoch(context.Background(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, layer := range batch.Sample.Blocks {
			pos, err := unified.View[int32](layer[0].EdgePos)
			if err != nil {
				t.Fatal(err)
			}
			if int64(len(pos)) != 4*layer[0].NumDst {
				t.Fatalf("batch %d: %d edges for %d nodes", batch.Number, len(pos), layer[0].NumDst)
			}
			for i := range pos {
				if i%4 > 0 && pos[i] != pos[i-1]+1 {
					t.Fatalf("batch %d: picks %v are not consecutive", batch.Number, pos[i-i%4:i+1])
				}
			}
		}
	}
}
