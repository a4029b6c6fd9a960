package embed

import (
	"bytes"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
)

// FuzzChange reads bytes as a change: an error, or a change whose bytes these are, which is refused or may be made of a
// small graph.
func FuzzChange(f *testing.F) {
	one := &Change{Rows: []ChangedRows{{0, []int64{1, 4}, []float32{1, 2, 3, 4}}, {1, []int64{0}, nil}},
		Remove: []ChangedEdges{{0, []int64{1}, []int64{2}}}, Add: []ChangedEdges{{0, []int64{4, 0}, []int64{0, 1}}}}
	f.Add(one.bytes())
	f.Add((&Change{}).bytes())
	schema := &graph.Schema{Nodes: []graph.NodeType{{Name: "a", Count: 4}, {Name: "b", Count: 3}},
		Edges: []graph.EdgeType{{Source: "a", Relation: "to", Target: "b", Count: 9}}}
	expect.OK(f, schema.Init())
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := readChange(text)
		if err != nil {
			return
		}
		if rows := c.Rows; len(rows) == 0 || len(rows[0].IDs) > 0 { // rows without ids may be of any width
			expect.That(t, len(c.bytes()) == len(text), "%d bytes became %d", len(text), len(c.bytes()))
		}
		again, err := readChange(c.bytes())
		expect.That(t, err == nil && bytes.Equal(again.bytes(), c.bytes()), "bytes differ: %v", err)
		m := newMerged()
		m.add(c)
		for _, of := range []*Change{c, m.change()} {
			if checked, err := of.check(schema, []int64{4, 3}, []Input{{Width: 2}, {}}); err == nil {
				rows, edges := of.counts()
				expect.That(t, rows+edges <= int64(len(text)) && checked.nodes[0] >= 4, "%v", of)
			}
		}
	})
}
