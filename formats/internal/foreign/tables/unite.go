package tables

import (
	"cmp"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// alike reports whether columns of two files hold the same.
func alike(a, b *columnar.Field) bool {
	return a.Text == b.Text && a.DType == b.DType && a.List == b.List && a.Width == b.Width && a.Unit == b.Unit
}

// unite makes a column of a text that of two texts, as if their lines were those of one; false where it cannot be.
func unite(a, b *columnar.Field) bool {
	switch {
	case a.List || b.List:
		if !a.Text && !b.Text {
			return alike(a, b)
		}
	case a.Text && b.Text && alike(a, b):
		return true
	case !a.Text && !b.Text && a.Boolean == b.Boolean && (a.DType.IsFloat() == b.DType.IsFloat() || !a.Big && !b.Big):
		a.DType, a.Big = source.Common(a.DType, b.DType), a.Big || b.Big
		a.Gaps = (a.Gaps || b.Gaps) && !a.DType.IsFloat() && !a.Big
		return true
	}
	*a = columnar.Field{Name: a.Name, Text: true, Width: 1, Doubt: cmp.Or(a.Doubt, b.Doubt)}
	return true
}

// uniteVoid does so where one of the columns has no value at all.
func uniteVoid(a, b *columnar.Field, text bool) {
	gaps := a.Gaps || b.Gaps || text && a.Void != b.Void
	if a.Void {
		*a = *b
	}
	a.Gaps = gaps && !a.List && !a.Text && !a.DType.IsFloat() && !a.Big
}
