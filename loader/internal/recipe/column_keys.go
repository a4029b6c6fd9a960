package recipe

import (
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/unified"
)

// KeyOf returns the key of an array's column.
func KeyOf(a *layout.Array) ColumnKey {
	if a.Kind == layout.EdgeColumn {
		return ColumnKey{Name: a.Column, NodeType: -1}
	}
	return ColumnKey{Name: a.Column, NodeType: a.Type}
}

// ArraysOf returns the arrays of a batch that are rows of a column.
func (r *Recipe) ArraysOf(c ColumnKey) (list []*layout.Array) {
	for i := range r.Arrays {
		if a := &r.Arrays[i]; a.IsColumn() && KeyOf(a) == c {
			list = append(list, a)
		}
	}
	return list
}

// ColumnKey tells columns apart.
type ColumnKey struct {
	Name     string
	NodeType int // -1 for a column of the edges
}

// Widens reports whether a column of those is delivered as float32 where the options say Widen.
func Widens(there []graph.Column, name string) bool {
	of := func(name string) (graph.Column, bool) {
		i := slices.IndexFunc(there, func(c graph.Column) bool { return c.Name == name })
		if i < 0 {
			return graph.Column{}, false
		}
		return there[i], true
	}
	c, _ := of(name)
	if c.DType == unified.Int8 {
		scale, ok := of(graph.ScaleOf(name))
		return ok && scale.DType == unified.Float32 && len(scale.Shape) == 0
	}
	return c.DType.IsHalf()
}
