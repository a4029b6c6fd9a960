//go:build !race

package loader_test

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

func TestAnyByteOfABatchChangesItsDigest(t *testing.T) {
	g := graphs.Typed(t, 60, 40)
	l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 20,
		Columns: loader.ColumnOptions{Edges: []string{"stars"}}})
	for b := range each(t, l.Epoch(background, 0)) {
		var arrays [][]byte
		isColumn := make(map[int]bool)
		for _, x := range [][]unified.Tensor{b.Sample.Nodes, b.Sample.SeedLocal} {
			for _, x := range x {
				arrays = append(arrays, x.Bytes())
			}
		}
		for layer := range b.Sample.Blocks {
			for e, block := range b.Sample.Blocks[layer] {
				arrays = append(arrays, block.Indptr.Bytes(), block.Indices.Bytes(), block.EdgePos.Bytes())
				isColumn[len(arrays)] = true
				arrays = append(arrays, b.Edge(layer, e, "stars").Bytes())
			}
		}
		for ty := range g.Schema().Nodes {
			isColumn[len(arrays)], isColumn[len(arrays)+1] = true, true
			arrays = append(arrays, b.Node(ty, "feature").Bytes(), b.Seed(ty, "label").Bytes())
		}
		topology, full := b.Digest()
		for i, bytes := range arrays {
			for at := range bytes {
				bytes[at] ^= 0x10
				topology2, full2 := b.Digest()
				bytes[at] ^= 0x10
				expect.Ensure(t, full2 != full && (topology2 == topology) == isColumn[i],
					"array %d, byte %d changed: %016x %016x, was %016x %016x", i, at, topology2, full2, topology, full)
			}
		}
		if a, b := b.Digest(); a != topology || b != full {
			t.Error("the digest is not the same twice")
		}
		break
	}
}
