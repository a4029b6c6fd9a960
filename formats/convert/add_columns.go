package convert

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
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

// timesOfAdditions brings times that are added to the unit of those that the dataset has, by the rules of a conversion.
// Others are refused where one would be compared with the other.
func (c *conversion) timesOfAdditions(ctx context.Context, ds *formats.Dataset, adds []*addition,
	s *graph.Schema) error {
	unit, plain := unitOfDataset(ds.Graph().Schema())
	var timed []*addition
	for _, x := range adds {
		isTime := graph.RoleOf(x.Name) == graph.Time && len(x.col.Shape) == 0
		if x.sort == split || x.labels != nil || !isTime && x.header.Unit == "" {
			continue
		}
		col := x.col
		if col.Unit = x.header.Unit; col.Unit == "" {
			col.Unit = c.opt.TimesIn
		}
		var err error
		switch {
		case isTime && col.Unit == "" && !col.DType.IsFloat() && unit == "":
			continue // plain numbers beside plain numbers, or the first
		case isTime && col.Unit == "" && unit != "":
			err = fmt.Errorf("%w: the dataset's are in %q, and nothing says what those of %q count", source.ErrTimes,
				unit, x.Name)
		case isTime && plain != "":
			err = fmt.Errorf("%w: nothing says what %q of the dataset counts", source.ErrTimes, plain)
		}
		if err != nil {
			remedy := option.Textf("say by %s what plain numbers are in: s, ms, us or ns; or convert the dataset again",
				option.NameOf(c.opt, "TimesIn"))
			return source.Error(x.Path, "", -1, remedy, err)
		}
		timed = append(timed, x)
		c.graph.Nodes = append(c.graph.Nodes, source.NodeType{Name: x.Type, Columns: []source.Column{
			{Column: col, Write: x.writer(&c.ledger)}}})
	}
	c.opt.TimeUnit = unit
	if err := c.times(ctx); err != nil {
		return err
	}
	for i, x := range timed {
		to := &c.graph.Nodes[i].Columns[0]
		x.col, x.stream = to.Column, to.Write
		x.replaceIn(s)
	}
	return nil
}

// unitOfDataset returns the unit of a dataset's times; and, where some have none, the name of one.
func unitOfDataset(s *graph.Schema) (unit, plain string) {
	look := func(columns []graph.Column) {
		for _, col := range columns {
			switch {
			case source.IsUnit(col.Unit):
				unit = col.Unit
			case col.Role() == graph.Time && len(col.Shape) == 0:
				plain = col.Name
			}
		}
	}
	look(s.EdgeColumns)
	for _, n := range s.Nodes {
		look(n.Columns)
	}
	return unit, plain
}

// replaceIn puts the column in the place of that of its name.
func (x *addition) replaceIn(s *graph.Schema) {
	columns := s.EdgeColumns
	if x.sort == nodeColumn {
		columns = s.Nodes[x.typ].Columns
	}
	for i := range columns {
		if columns[i].Name == x.Name {
			columns[i] = x.col
		}
	}
}
