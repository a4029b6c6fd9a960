package convert

import (
	"context"
	"fmt"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
)

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
