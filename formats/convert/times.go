package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// timed is a column of times of the source.
type timed struct {
	graph.Column        // as it is read
	of           string // whose it is: edges, nodes "paper"
	node, at     int    // which one it is of which node type; -1: of the edges
	found        source.TimesFound
}

// String names the column.
func (t *timed) String() string { return fmt.Sprintf("%q of %s", t.Name, t.of) }

// times makes all times of the source those of one unit, which the manifest names. docs/convert.md, "Times", has the
// rules.
func (c *conversion) times(ctx context.Context) error {
	list := c.timeColumns()
	if err := c.lookAtTimes(ctx, list); err != nil {
		return err
	}
	unit, err := c.unitOfTimes(list)
	if err != nil {
		return err
	}
	var said []string
	edges := map[int]graph.Column{}
	for i := range list {
		t := &list[i]
		to := graph.Column{Name: t.Name, DType: unified.Int64, Shape: t.Shape, Fields: t.Fields}
		switch {
		case t.Unit != "":
			to.Unit = unit
			said = append(said, fmt.Sprintf("%v (%s in the source)", t, t.Unit))
		case !t.DType.IsFloat():
			continue // as they are
		}
		c.sayTimes(t, unit)
		if t.node < 0 {
			edges[t.at] = t.Column
			c.graph.Edges.Columns[t.at] = to
			continue
		}
		c.graph.Nodes[t.node].Columns[t.at] = c.timesOfNodes(c.graph.Nodes[t.node].Columns[t.at], t, to)
	}
	if said != nil {
		c.graph.Tell(source.Said, unit, int64(len(said)), "times are stored in the unit %q: %s", unit,
			strings.Join(said, ", "))
	}
	if len(edges) > 0 {
		c.timesOfEdges(edges)
	}
	return c.timesOfTables(unit)
}

// timesOfTables makes the times of tasks those of a unit, rounded down.
func (c *conversion) timesOfTables(unit string) error {
	for i := range c.graph.Splits {
		s := &c.graph.Splits[i]
		if s.Unit == "" || s.Unit == unit {
			continue
		}
		for _, list := range [...][]int64{s.Times, s.From} {
			for row, v := range list {
				var ok bool
				if list[row], ok = source.InUnit(v, s.Unit, unit); !ok {
					return source.Error(c.src, "task "+s.Task+", "+s.Name, int64(row),
						option.Textf("choose a coarser unit by %s", option.NameOf(c.opt, "TimeUnit")),
						fmt.Errorf("%d%s is a time that int64 does not hold in %s", v, s.Unit, unit))
				}
			}
		}
		s.Unit = unit
	}
	return nil
}

// timeColumns finds the columns of times: those that have a unit, and those that are called so.
func (c *conversion) timeColumns() (list []timed) {
	add := func(col *graph.Column, of string, node, at int) {
		isTime := col.Role() == graph.Time && len(col.Shape) == 0 && !col.DType.IsHalf()
		if isTime && col.Unit == "" {
			col.Unit = c.opt.TimesIn
		}
		if isTime || col.Unit != "" {
			list = append(list, timed{Column: *col, of: of, node: node, at: at})
		}
	}
	for n := range c.graph.Nodes {
		node := &c.graph.Nodes[n]
		for i := range node.Columns {
			add(&node.Columns[i].Column, fmt.Sprintf("nodes %q", node.Name), n, i)
		}
	}
	c.graph.Edges.Columns = append([]graph.Column(nil), c.graph.Edges.Columns...)
	for i := range c.graph.Edges.Columns {
		add(&c.graph.Edges.Columns[i], "edges", -1, i)
	}
	return list
}

// lookAtTimes reads the columns of which it must be known how fine they are.
func (c *conversion) lookAtTimes(ctx context.Context, list []timed) error {
	if c.found != nil { // by other tasks
		for i := range list {
			list[i].found = c.found[list[i].String()]
		}
		return nil
	}
	var edges []*timed
	for i := range list {
		t := &list[i]
		switch {
		case t.Unit == "" && !t.DType.IsFloat():
		case t.node < 0:
			edges = append(edges, t)
		default:
			look := &arrayfile.WholeRows{Row: t.DType.Size(), Take: func(data []byte) error {
				t.found.LookAtTimes(t.Column, c.opt.TimeUnit, data)
				return nil
			}}
			if err := c.graph.Nodes[t.node].Columns[t.at].Write(ctx, look); err != nil {
				return err
			}
		}
	}
	if edges == nil {
		return nil
	}
	return c.graph.Edges.Each(func(b source.Batch) error {
		for _, t := range edges {
			t.found.LookAtTimes(t.Column, c.opt.TimeUnit, b.Columns[t.at])
		}
		return context.Cause(ctx)
	})
}

// unitOfTimes decides on the unit of all times that have one, and refuses some that have beside others that have none.
func (c *conversion) unitOfTimes(list []timed) (unit string, err error) {
	var plain, known *timed
	for i := range list {
		t := &list[i]
		if t.Unit == "" && t.found.Fractions > 0 {
			t.Unit = "s"
			c.graph.Tell(source.Guessed, t.Name, t.found.Fractions,
				"%v: %d of %d numbers have fractions, and are taken for seconds, to the nearest microsecond; "+
					"%s says what they are in", t, t.found.Fractions, t.found.Rows, option.NameOf(c.opt, "TimesIn"))
			if n := t.found.Far; n > 0 {
				c.graph.Tell(source.Guessed, t.Name, n, "%v: %s after the year 2200, if they are seconds; %s ms says "+
					"that they are milliseconds", t, source.Counted(n, "time is", "times are"),
					option.NameOf(c.opt, "TimesIn"))
			}
		}
		switch {
		case t.Unit != "":
			if unit = source.Finer(unit, t.found.Unit); t.Role() == graph.Time {
				known = t
			}
		case t.Role() == graph.Time:
			plain = t
		}
	}
	switch {
	case plain != nil && known != nil:
		return "", source.Error(c.src, "", -1,
			option.Textf("say by %s what plain numbers are in: s, ms, us or ns", option.NameOf(c.opt, "TimesIn")),
			fmt.Errorf("%w: %v is in the unit %q, and of %v the source does not say the unit", source.ErrTimes, known,
				known.Unit, plain))
	case plain != nil && c.opt.TimeUnit != "":
		return "", option.Errorf(ErrOptions, c.opt, "TimeUnit", " is %q, but the source does not say what %v counts: "+
			"%v says it", c.opt.TimeUnit, plain, option.NameOf(c.opt, "TimesIn"))
	case c.opt.TimeUnit != "":
		return c.opt.TimeUnit, nil
	case c.graph.TimeUnit != "":
		unit = c.graph.TimeUnit
	case unit == "":
		unit = "s"
	}
	return unit, nil
}

// sayTimes notes what becomes of the times of a column.
func (c *conversion) sayTimes(t *timed, unit string) {
	if n := t.found.Missing; n > 0 {
		c.graph.Tell(source.Said, t.Name, n, "%v: %s no time, which is stored as -2^63, before all others", t,
			source.Counted(n, "row has", "rows have"))
	}
	if n := t.found.Rounded; n > 0 {
		c.graph.Tell(source.Said, t.Name, n, "%v: %s rounded down to %s, by request", t,
			source.Counted(n, "time is", "times are"), unit)
	}
}

// timesOfNodes returns a column of nodes with times of another unit.
func (c *conversion) timesOfNodes(col source.Column, t *timed, to graph.Column) source.Column {
	from := t.Column
	return source.Column{Column: to, Write: func(ctx context.Context, w io.Writer) error {
		rows := int64(0)
		var out []byte
		return col.Write(ctx, &arrayfile.WholeRows{Row: from.DType.Size(), Take: func(data []byte) (err error) {
			if out, err = source.ConvertTimes(out[:0], from, to.Unit, data); err != nil {
				return c.timeError(t.of, rows, err)
			}
			rows += int64(len(out)) / 8
			_, err = w.Write(out)
			return err
		}})
	}}
}

// timesOfEdges has the edges come with times of another unit, in place of those that are given by the numbers of their
// columns.
func (c *conversion) timesOfEdges(from map[int]graph.Column) {
	each, columns := c.graph.Edges.Each, c.graph.Edges.Columns
	c.graph.Edges.Each = func(yield func(source.Batch) error) error {
		rows, out := int64(0), make([][]byte, len(columns))
		err := each(func(b source.Batch) (err error) {
			all := append([][]byte(nil), b.Columns...)
			for i, col := range from {
				if out[i], err = source.ConvertTimes(out[i][:0], col, columns[i].Unit, b.Columns[i]); err != nil {
					return c.timeError("edges", rows, err)
				}
				all[i] = out[i]
			}
			b.Columns = all
			rows += int64(len(b.Src))
			return yield(b)
		})
		return c.timeError("edges", rows, err)
	}
}

// timeError says whose time is wrong, of rows behind the first ones; other errors stay as they are.
func (c *conversion) timeError(of string, first int64, err error) error {
	at := (*source.TimeError)(nil)
	if !errors.As(err, &at) {
		return err
	}
	return source.Error(c.src, of+", "+at.Column, first+at.Row,
		option.Textf("choose a coarser unit by %s", option.NameOf(c.opt, "TimeUnit")), at.Err)
}
