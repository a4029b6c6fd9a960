package gnn

import (
	"errors"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// TestANodeWithVeryManyEdgesTakesNoMoreMemory: no plan gathers the rows of all of its sources where they have no room.
func TestANodeWithVeryManyEdgesTakesNoMoreMemory(t *testing.T) {
	const nodes, width = 60000, 64
	x := make([]float32, nodes*width)
	for i := range x {
		x[i] = float32(i % 97)
	}
	e := graph.EdgeData{}
	for i := range nodes {
		e.Src, e.Dst = append(e.Src, int64(i)), append(e.Dst, 5)
	}
	feature := expect.Must(unified.FromRows(x, width))(t)
	g := onDisk(t, graphs.New(t, graph.Data{Edges: []graph.EdgeData{e},
		Nodes: []graph.NodeData{{Columns: map[string]unified.Tensor{"feature": feature}}}}))
	of := Options{Model: "sage", Hidden: width, Layers: 2, Seed: 4}.withDefaults()
	m := expect.Must(newNetwork(width, 4, of, &budget{}))(t)
	want := bitsOfAll(embedded(t, g, m, nil, embed.Options{Memory: 1 << 30}))
	for _, memory := range []int64{12 << 20, 14 << 20, 24 << 20} {
		if invariants.Enabled && memory != 14<<20 {
			continue
		}
		expect.Same(t, bitsOfAll(embedded(t, g, m, nil, embed.Options{Memory: memory})), want, "rows")
	}
	p := &embed.Program{Graph: g, Steps: stepsOf(t, g, m)}
	_, err := embed.Plan(t.Context(), p, embed.Options{Folder: t.TempDir(), Way: embed.Gather, Memory: 14 << 20})
	expect.That(t, errors.Is(err, pinned.ErrLimit), "to gather it in 14 MiB: %v", err)
}
