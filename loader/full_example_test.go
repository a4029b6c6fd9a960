package loader_test

import (
	"context"
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// A model of two layers runs on a whole graph in the memory of one batch: each layer is an epoch of sampling.Full,
// which reads its input rows from the output of the layer before. The layer here is the mean over in-edges, plus the
// node.
func Example_fullGraphInference() {
	g, err := graph.New(graph.Data{
		Nodes: []graph.NodeData{{Count: 5}},
		Edges: []graph.EdgeData{{Src: []int64{1, 2, 3, 4, 2, 0, 1}, Dst: []int64{0, 0, 0, 0, 1, 3, 4}}},
	})
	if err != nil {
		panic(err)
	}
	ld, err := loader.New(g, loader.Options{Sampler: sampling.Full{Work: 3}, // so few for show
		Device: loader.DeviceOptions{Name: "cpu"}})
	if err != nil {
		panic(err)
	}
	defer ld.Close()
	rows := []float64{1, 2, 3, 4, 5} // features; these and next may be mapped files
	for layer := range uint64(2) {
		next := make([]float64, len(rows))
		for batch, err := range ld.Epoch(context.Background(), layer) {
			if err != nil {
				panic(err)
			}
			block := &batch.Sample.Blocks[0][0]
			nodes, _ := unified.View[int32](batch.Sample.Nodes[0])
			indptr, _ := unified.View[int32](block.Indptr)
			sources, _ := unified.View[int32](block.Indices)
			degree, _ := unified.View[int64](batch.Sample.Arrays[0].Rows)
			for i, v := range nodes[:block.NumDst] {
				for _, u := range sources[indptr[i]:indptr[i+1]] { // a hub has the rest in other batches
					next[v] += rows[nodes[u]] / float64(degree[i])
				}
			}
		}
		for v := range next {
			next[v] += rows[v]
		}
		rows = next
	}
	fmt.Println(ld.NumBatches(), rows)
	// Output:
	// 4 [9.5 8 3 9.5 12]
}
