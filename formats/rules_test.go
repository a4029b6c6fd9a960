package formats

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// Edges of a node are in the order of their types first, whatever their sources are.
func TestCheckFindsTypesOutOfOrder(t *testing.T) {
	a := graph.Arrays{Schema: plainSchema(3, 1), Indptr: unified.FromSlice([]int64{0, 2, 2, 2}),
		Indices: unified.FromSlice([]int32{1, 2}), Types: unified.FromSlice([]uint8{1, 0})}
	a.Schema.Edges = append(a.Schema.Edges, graph.EdgeType{Source: "node", Relation: "other", Target: "node", Count: 1})
	report, err := Check(context.Background(), write(t, a, WriterOptions{}), CheckOptions{})
	var e *Error
	if err != nil || len(report.Problems) != 1 || !errors.As(report.Problems[0], &e) || e.Row != 1 ||
		!strings.Contains(e.Error(), "does not come after") {
		t.Errorf("%+v, %v", report, err)
	}
}

// A manifest may be as deep, and have as many objects and values, as its limits say, and not one more.
func TestManifestsAreNestedSoFarAndNoFurther(t *testing.T) {
	for name, text := range map[string]func(n int) string{
		"deep":    func(n int) string { return strings.Repeat("[", maxDepth+n) + strings.Repeat("]", maxDepth+n) },
		"objects": func(n int) string { return strings.Repeat("{}", maxObjects+n) },
		"values":  func(n int) string { return `{"a\\\",":[` + strings.Repeat("1,", maxValues+n) + "1]}" },
	} {
		expect.Is(t, checkNesting([]byte(text(0))), nil, name)
		expect.Is(t, checkNesting([]byte(text(1))), ErrCorrupt, "%s, one more", name)
	}
}
