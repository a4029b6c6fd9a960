package outside

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

const nodes, width, seed = 300, 7, 5

// example returns a graph whose nodes have 0 to 9 in-edges, and rows for them.
func example(t *testing.T) (*graph.Graph, *Store) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	var src, dst []int64
	for v := range int64(nodes) {
		for range v % 10 {
			src, dst = append(src, r.Int64N(nodes)), append(dst, v)
		}
	}
	g, err := graph.New(graph.Data{Nodes: []graph.NodeData{{Count: nodes}},
		Edges: []graph.EdgeData{{Src: src, Dst: dst}}})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]float32, nodes*width)
	for i := range rows {
		rows[i] = float32(r.NormFloat64())
	}
	return g, NewStore(rows, width)
}

// load opens a loader with the sampler.
func load(t *testing.T, g *graph.Graph, on string) *loader.Loader {
	t.Helper()
	ld, err := loader.New(g, loader.Options{Sampler: First{K: 4}, BatchSize: 32, Shuffle: true, Seed: seed,
		Columns: loader.ColumnOptions{EdgePos: true}, Device: loader.DeviceOptions{Name: on}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ld.Close(); err != nil {
			t.Error(err)
		}
	})
	return ld
}

func TestFirstTakesTheFirstEdges(t *testing.T) {
	g, store := example(t)
	edges := 0
	for batch, err := range load(t, g, "cpu").Epoch(context.Background(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		ids, block := view(t, batch.Sample.Nodes[0]), batch.Sample.Blocks[0][0]
		indptr, positions := view(t, block.Indptr), view(t, block.EdgePos)
		for i := range int(block.NumDst) {
			got, first := positions[indptr[i]:indptr[i+1]], g.Indptr()[ids[i]]
			if want := min(g.Indptr()[ids[i]+1]-first, 4); int64(len(got)) != want {
				t.Fatalf("node %d: %d edges are picked, want %d", ids[i], len(got), want)
			}
			for j, p := range got {
				if int64(p) != first+int64(j) {
					t.Fatalf("node %d: picks are %v, its edges begin at %d", ids[i], got, first)
				}
			}
			edges += len(got)
		}
		out := make([]float32, len(ids)*width)
		if store.Gather(out, ids); slices.Max(out) < 1 {
			t.Errorf("batch %d: the greatest of %d normal numbers is %v", batch.Number, len(out), slices.Max(out))
		}
	}
	if edges != nodes/10*(0+1+2+3+4*6) {
		t.Errorf("%d edges in the epoch", edges)
	}
}

func view(t *testing.T, x unified.Tensor) []int32 {
	t.Helper()
	v, err := unified.View[int32](x)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
