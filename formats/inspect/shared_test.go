package inspect

import (
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// TestSplitsOfAnIndexShareNodesByType has nodes that are shared by ids, by a range and by types one by one; and the
// same ids in other types, and in splits of another index or of a task, which are not shared; and ids of no node.
func TestSplitsOfAnIndexShareNodesByType(t *testing.T) {
	s := &graph.Schema{Nodes: []graph.NodeType{{Name: "a", Count: 200}, {Name: "b", Count: 70}}}
	of := func(name string, index int, sets ...graph.SeedSet) graph.Split {
		return graph.Split{Name: name, Index: index, Seeds: graph.Seeds{Sets: sets}}
	}
	list := func(typ int, ids ...int32) graph.SeedSet {
		return graph.SeedSet{Type: typ, IDs: unified.FromSlice(ids)}
	}
	got := Shared(s, []graph.Split{
		of("train", 0, list(0, 199, 64, 63, 64, 200, -1), list(1, 5)),
		of("train", 1, list(0, 3, 7)),
		of("val", 0, list(1, 63, 64, 6)),
		of("late:test", 0, list(0, 64)),
		of("test", 1, graph.SeedSet{Type: 0, Count: 5}),
		of("test", 0, list(0, 64, 199, 200, -1),
			graph.SeedSet{Types: []int32{0, 1, 1}, IDs: unified.FromSlice([]int64{5, 6, 69})}),
	})
	want := []string{`the splits "train" and "test" (index 0) share 2 nodes of type "a", such as node 64`,
		`the splits "train" and "test" (index 1) share 1 node of type "a", such as node 3`,
		`the splits "val" and "test" (index 0) share 1 node of type "b", such as node 6`}
	expect.Ensure(t, len(got) == len(want), "%v", got)
	for i := range want {
		expect.That(t, got[i].String() == want[i], "%v", got[i])
	}
}
