package convert

import (
	"context"
	"io"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
)

// storeNarrow stores rows of the dataset, and of columns that are added to it, as FeatureDType.
func (a *extension) storeNarrow(ctx context.Context) error {
	if len(a.c.opt.FeatureDType) == 0 {
		return nil
	}
	a.c.graph.Nodes = nil
	for t := range a.schema.Nodes {
		n := source.NodeType{Name: a.schema.Nodes[t].Name, Count: a.schema.Nodes[t].Count}
		for _, col := range a.schema.Nodes[t].Columns {
			n.Columns = append(n.Columns, a.columnOf(t, col))
		}
		a.c.graph.Nodes = append(a.c.graph.Nodes, n)
	}
	if err := a.c.narrow(ctx); err != nil {
		return err
	}
	for t := range a.c.graph.Nodes {
		for i, col := range a.c.graph.Nodes[t].Columns {
			if err := a.store(t, i, col); err != nil {
				return err
			}
		}
	}
	return nil
}

// added returns what is added as a column of nodes; nil where that is of the dataset.
func (a *extension) added(t int, name string) *addition {
	if i := slices.IndexFunc(a.adds, func(x *addition) bool {
		return x.sort == nodeColumn && x.typ == t && x.Name == name
	}); i >= 0 {
		return a.adds[i]
	}
	return nil
}

// columnOf returns a column with what reads it.
func (a *extension) columnOf(t int, col graph.Column) source.Column {
	x := a.added(t, col.Name)
	switch {
	case x == nil:
		rows, _ := a.ds.Graph().NodeColumn(t, col.Name)
		return source.Column{Column: col, Write: func(ctx context.Context, w io.Writer) error {
			return source.CopyRows(ctx, a.ds, rows.Bytes(), w)
		}}
	case x.stream != nil || x.labels != nil:
		return source.Column{Column: col, Write: x.stream}
	}
	return source.Column{Column: col, Write: x.writer(&a.c.ledger)}
}

// store makes column i of a type of nodes one that is written, where it is another now, or new.
func (a *extension) store(t, i int, col source.Column) error {
	to := &a.schema.Nodes[t].Columns
	isNew := i >= len(*to)
	if !isNew && (*to)[i].TypeName() == col.TypeName() {
		return nil
	}
	if isNew && slices.ContainsFunc(*to, func(c graph.Column) bool { return c.Name == col.Name }) {
		return exists("column", col.Name)
	}
	x := a.added(t, col.Name)
	if x == nil {
		x = &addition{Addition: Addition{Name: col.Name}, sort: nodeColumn, typ: t, again: !isNew}
		x.header = array.Header{Shape: []int64{a.schema.Nodes[t].Count}}
		a.adds = append(a.adds, x)
	}
	x.col, x.stream = col.Column, col.Write
	a.how.ExpectBytes += x.header.Shape[0] * col.RowBytes()
	setColumn(to, i, col.Column)
	return nil
}
