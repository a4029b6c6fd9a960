package tables

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// timeColumn is what times of rows are called.
const timeColumn = "time"

// database adds the columns of a database's table: those of a kind lie side by side, so that a loader fetches a row of
// them at once.
func (x *graphOf) database(ctx context.Context, n *nodeType, node *source.NodeType, used map[int]bool) error {
	node.Key, node.Named = n.spec.ID, n.keys != nil
	node.OfTable, node.Unnamed = true, n.spec.ByRow
	if err := x.rowTimes(n, used); err != nil {
		return err
	}
	for _, k := range n.spec.Keys {
		i, err := n.table.column(k.Column)
		if err != nil {
			return err
		}
		used[i] = true
	}
	list, err := x.meanings(ctx, n, used)
	if err != nil {
		return err
	}
	if err := x.measure(ctx, n.table, 0, list); err != nil {
		return err
	}
	c := &columns{x: x, n: n, to: node, have: taken(), of: map[string][]*meant{}}
	for _, m := range list {
		if m.f.Name == n.spec.Time {
			c.addTime(m)
		} else {
			c.of[m.kind] = append(c.of[m.kind], m)
		}
	}
	c.addGroups()
	c.addOthers(ctx)
	return nil
}

// columns are those of a database's table on their way to the node type.
type columns struct {
	x    *graphOf
	n    *nodeType
	to   *source.NodeType
	have map[string]bool     // the names that are taken
	of   map[string][]*meant // by kind
}

// free returns a name that no column has yet, as much like the given one as it can be.
func (c *columns) free(name string) string {
	for c.have[name] {
		name += "_"
	}
	c.have[name] = true
	return name
}

// keeps is free, and notes a column that does not keep its name.
func (c *columns) keeps(name string) string {
	free := c.free(name)
	if free != name {
		c.x.g.Tell(source.Renamed, name, 1, "%s: the column %q is stored as %q", c.n.table.name, name, free)
	}
	return free
}

// addTime adds the times of the rows.
func (c *columns) addTime(m *meant) {
	t := c.n.column(timeColumn, []int{m.at})
	t.Unit, t.Fields = m.unit, describe([]*meant{m})
	c.to.Columns = append(c.to.Columns, t)
}

// addGroups adds the kinds whose columns lie side by side, with the names of categories.
func (c *columns) addGroups() {
	for _, kind := range []string{numerical, categorical, timestamp} {
		if list := c.of[kind]; list != nil {
			c.to.Columns = append(c.to.Columns, c.n.group(kind, stored[kind], list))
		}
	}
	for _, m := range c.of[categorical] {
		c.to.Strings = append(c.to.Strings, m.categories(c.keeps(m.f.Name)))
	}
}

// addOthers adds the columns that stay alone.
func (c *columns) addOthers(ctx context.Context) {
	for _, m := range c.of[embedding] {
		e := c.n.column(c.keeps(m.f.Name), []int{m.at})
		e.Fields = describe([]*meant{m})
		c.to.Columns = append(c.to.Columns, e)
	}
	for _, kind := range []string{multicategorical, text} {
		for _, m := range c.of[kind] {
			c.to.Strings = append(c.to.Strings, c.n.table.strings(ctx, c.keeps(m.f.Name), m.at))
		}
	}
}

// rowTimes checks the column of the rows' times.
func (x *graphOf) rowTimes(n *nodeType, used map[int]bool) error {
	if n.spec.Time == "" {
		return nil
	}
	i, err := n.table.column(n.spec.Time)
	if err != nil {
		return err
	}
	if f := &n.table.list[i]; f.List {
		return n.table.fail(f.Name, fmt.Errorf("is %v, and no time of the rows", f))
	}
	used[i] = false
	return nil
}

// meanings returns the columns with their kinds, without those that cannot be stored, which a note names.
func (x *graphOf) meanings(ctx context.Context, n *nodeType, used map[int]bool) ([]*meant, error) {
	t := n.table
	var all []*meant
	var left []string
	for i := range t.list {
		switch f := &t.list[i]; {
		case used[i]:
		case f.Bad != "" || f.Width == 0:
			if why := fmt.Sprintf("%s (%v)", f.Name, f); !slices.Contains(left, why) { // a record has several parts
				left = append(left, why)
			}
		default:
			m := &meant{at: i, f: f}
			m.setUnit(x.r)
			all = append(all, m)
		}
	}
	for name := range n.spec.Kinds {
		if _, err := t.column(name); err != nil {
			return nil, err
		}
	}
	if err := t.look(ctx, all); err != nil {
		return nil, err
	}
	var list []*meant
	for _, c := range all {
		given := n.spec.Kinds[c.f.Name]
		switch {
		case c.f.Name == n.spec.Time:
			given = timestamp
		case given == "":
			c.kind = c.guess()
		}
		if given != "" {
			if c.kind = given; c.f.Name != n.spec.Time || c.f.Text {
				if err := c.check(t); err != nil {
					return nil, err
				}
			}
		}
		if c.kind == "" {
			why := "no value"
			if c.binary {
				why = "bytes that are no text"
			}
			left = append(left, fmt.Sprintf("%s (%s)", c.f.Name, why))
			continue
		}
		if err := x.tell(ctx, t, c.at); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if left != nil {
		x.g.Tell(source.LeftOut, t.name, int64(len(left)), "%s: not stored: %s", t.name, source.Few(left))
	}
	return list, nil
}

// setUnit finds the unit of times.
func (c *meant) setUnit(r *source.Request) {
	_, unit := c.f.Stored(timeColumn)
	unit = cmp.Or(unit, r.TimesIn)
	c.unit, c.plain = cmp.Or(unit, "s"), unit == ""
}

// group returns the columns of a kind side by side, as one column.
func (n *nodeType) group(name string, dtype unified.DType, list []*meant) source.Column {
	c := source.Column{Column: graph.Column{Name: name, DType: dtype, Shape: []int64{int64(len(list))},
		Fields: describe(list)}}
	if name == timestamp {
		for _, m := range list {
			c.Unit = source.Finer(c.Unit, m.unit)
		}
	}
	c.Write = func(ctx context.Context, w io.Writer) error {
		var row, one []byte
		width := dtype.Size() * int64(len(list))
		return n.table.scan(ctx, columnsOf(list), func(b *columnar.Batch) (err error) {
			row = slices.Grow(row[:0], int(width)*b.Rows)[:int(width)*b.Rows]
			for k, m := range list {
				if one, err = m.put(&b.Columns[k], b.Rows, c.Unit, one[:0]); err != nil {
					return b.Fail(m.f.Name, err)
				}
				size := dtype.Size()
				for i := range int64(b.Rows) {
					copy(row[i*width+int64(k)*size:][:size], one[i*size:])
				}
			}
			_, err = w.Write(row)
			return err
		})
	}
	return c
}

// put appends the values of a batch as the column's kind stores them: numbers as float32, NaN where one is missing;
// categories as int32, -1 where one is; times as int64 of a unit, source.NoTime where one is.
func (c *meant) put(v *columnar.Vector, rows int, unit string, to []byte) ([]byte, error) {
	switch c.kind {
	case categorical:
		for i := range rows {
			code := int32(missing)
			if s, ok := c.f.Cell(v, i); ok {
				k := c.names.Find([]byte(s))
				if k < 0 {
					return nil, columnar.AtRow(i, source.ErrChanged)
				}
				code = c.codes[k]
			}
			to = binary.LittleEndian.AppendUint32(to, uint32(code))
		}
	case timestamp:
		data, err := c.f.TimesOf(v, rows, unified.Int64, nil)
		if err != nil {
			return nil, err
		}
		of := graph.Column{Name: c.f.Name, DType: unified.Int64, Unit: c.unit}
		return source.ConvertTimes(to, of, unit, data)
	default:
		for i := range rows {
			to = binary.LittleEndian.AppendUint32(to, math.Float32bits(float32(c.f.Number(v, i))))
		}
	}
	return to, nil
}

// categories are the names of a column's categories, in the order of their numbers.
func (c *meant) categories(name string) source.Strings {
	order := make([]int32, len(c.codes))
	for k, code := range c.codes {
		order[code] = int32(k)
	}
	list := source.Strings{Name: name, Rows: int64(len(order)), Each: func(yield func(string) error) error {
		for _, k := range order {
			if err := yield(string(c.names.At(int64(k)))); err != nil {
				return err
			}
		}
		return nil
	}}
	return list.OfOthers()
}
