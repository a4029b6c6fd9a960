package tables

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// FormerIDs is the column of the numbers that nodes had in the source, where conversion has numbered them anew.
const FormerIDs = "old_id"

// moreColumns are the columns of a table that new rows continue.
type moreColumns struct {
	m    *More
	x    *graphOf
	at   int // the node type
	n    *nodeType
	to   *source.NodeType
	have []graph.Column // of the dataset

	used    map[int]bool // columns of the rows
	missing []string     // what the rows lack
	groups  []group
	lists   map[string]*meant // of categories, by the names of their lists of strings
}

// group is a column of the dataset whose elements are columns of the table.
type group struct {
	graph.Column
	list []*meant
}

// columns describes the columns and lists of strings of a table that gets rows.
func (m *More) columns(ctx context.Context, x *graphOf, t int) error {
	n := x.nodes[t]
	c := &moreColumns{m: m, x: x, at: t, n: n, to: &x.g.Nodes[t], have: m.Dataset.Graph().Schema().Nodes[t].Columns,
		used: map[int]bool{n.id: true}, lists: map[string]*meant{}}
	for _, k := range n.spec.Keys {
		c.used[n.table.find(k.Column)] = true
	}
	for _, col := range c.have {
		if m.Given(t, col.Name) {
			c.used[n.table.find(col.Name)] = true
		} else if err := c.add(col); err != nil {
			return err
		}
	}
	if err := c.addKeys(); err != nil {
		return err
	}
	if err := c.describeGroups(ctx); err != nil {
		return err
	}
	if err := c.addStrings(ctx); err != nil {
		return err
	}
	if c.missing != nil {
		return source.Error(n.table.at[0].Path(), "", -1, option.Textf("add the columns, empty where nothing is "+
			"known; what %s has brought may also be given for all nodes, by %s with %s", option.Named("Columns"),
			option.Named("Columns"), option.Named("Force")),
			fmt.Errorf("the rows lack what the dataset has of each row of %q: %s; there are: %s", n.spec.Type,
				source.Few(c.missing), n.table.names()))
	}
	c.tellRest()
	return nil
}

// tellRest notes the columns that the dataset does not have.
func (c *moreColumns) tellRest() {
	var left []string
	for i := range c.n.table.list {
		if !c.used[i] {
			left = append(left, c.n.table.list[i].Name)
		}
	}
	if left != nil {
		c.x.g.Tell(source.LeftOut, c.n.spec.Type, int64(len(left)),
			"%s: not stored, for the dataset does not have them: %s", c.n.table.name, source.Few(left))
	}
}

// add continues a column of the dataset.
func (c *moreColumns) add(col graph.Column) error {
	switch base, scale := strings.CutSuffix(col.Name, graph.ScaleOf("")); {
	case col.Name == "id":
		return nil
	case col.Name == FormerIDs && len(col.Fields) == 0 && col.RowBytes() == 8:
		c.to.Columns = append(c.to.Columns, source.Column{Column: col, Write: c.numbers(c.n.first)})
		return nil
	case scale && slices.ContainsFunc(c.have, func(o graph.Column) bool {
		return o.Name == base && o.DType == unified.Int8
	}):
		return nil // whoever writes the column makes its scales
	case len(col.Fields) > 0:
		return c.addGroup(col)
	}
	i := c.n.table.find(col.Name)
	if i < 0 {
		c.missing = append(c.missing, fmt.Sprintf("%q", col.Name))
		return nil
	}
	c.used[i] = true
	if _, err := c.n.table.column(col.Name); err != nil {
		return err
	}
	if f := &c.n.table.list[i]; f.Text && col.Unit == "" {
		return c.n.table.fail(f.Name, fmt.Errorf("is text, and the dataset has %v", col.DType))
	}
	c.to.Columns = append(c.to.Columns, c.n.column(col.Name, []int{i}))
	return nil
}

// numbers writes the numbers of the nodes from the first one on.
func (c *moreColumns) numbers(first int64) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error {
		var row [8]byte
		for v := first; v < c.n.count; v++ {
			binary.LittleEndian.PutUint64(row[:], uint64(v))
			if _, err := w.Write(row[:]); err != nil {
				return err
			}
		}
		return nil
	}
}

// addKeys continues the keys, where the dataset has them; where it has none, and the new ones are not the next numbers,
// it gets those of all nodes.
func (c *moreColumns) addKeys() error {
	n := c.n
	first, dtype := int64(0), unified.Int64
	i := slices.IndexFunc(c.have, func(o graph.Column) bool { return o.Name == "id" })
	switch {
	case n.keys == nil:
		return nil
	case n.text:
		c.to.Strings = append(c.to.Strings, n.keys.Strings("id"))
		return nil
	case i >= 0:
		first, dtype = n.first, c.have[i].DType
	case n.before != nil && n.areNumbers():
		return nil
	}
	c.to.Columns = append(c.to.Columns, source.Column{Column: graph.Column{Name: "id", DType: dtype},
		Write: func(_ context.Context, w io.Writer) error {
			var row [8]byte
			for i := first; i < n.count; i++ {
				v, err := strconv.ParseInt(string(n.keys.At(i)), 10, 64)
				if binary.LittleEndian.PutUint64(row[:], uint64(v)); err != nil || dtype.Integer(row[:]) != v {
					return n.table.fail(n.spec.ID, fmt.Errorf("the key %d is not one of %v, as those of the "+
						"dataset are", v, dtype))
				}
				if _, err := w.Write(row[:dtype.Size()]); err != nil {
					return err
				}
			}
			return nil
		}})
	return nil
}

// areNumbers reports whether the keys of new rows are the numbers of their nodes.
func (n *nodeType) areNumbers() bool {
	for v := n.first; v < n.count; v++ {
		if string(n.keys.At(v)) != strconv.FormatInt(v, 10) {
			return false
		}
	}
	return true
}

// addGroup finds the columns of the table that are the elements of one of the dataset.
func (c *moreColumns) addGroup(col graph.Column) error {
	var fields []described
	if err := json.Unmarshal(col.Fields, &fields); err != nil || int64(len(fields)) != col.Width() && len(fields) != 1 {
		return fmt.Errorf("%w: the fields of %q", formats.ErrCorrupt, col.Name)
	}
	g := group{Column: col}
	for k := range fields {
		d := &fields[k]
		if !d.fits(&col, c.n.first) {
			return fmt.Errorf("%w: the fields of %q: %+v", formats.ErrCorrupt, col.Name, *d)
		}
		i := c.n.table.find(d.Name)
		if i < 0 {
			c.missing = append(c.missing, fmt.Sprintf("%q", d.Name))
			continue
		}
		c.used[i] = true
		m := &meant{at: i, f: &c.n.table.list[i], kind: d.Kind}
		if err := c.continues(m, d); err != nil {
			return err
		}
		g.list = append(g.list, m)
	}
	if len(g.list) < len(fields) {
		return nil
	}
	c.groups = append(c.groups, g)
	return c.measureBefore(&g)
}

// fits reports whether a column of this number of rows can have such elements.
func (d *described) fits(col *graph.Column, rows int64) bool {
	dtype, side := stored[d.Kind]
	side = side && (d.Kind != timestamp || source.IsUnit(col.Unit))
	held := col.DType == dtype || d.Kind == numerical && (col.DType.IsFloat() || col.DType == unified.Int8)
	return d.Missing >= 0 && d.Missing <= rows && (side && held || d.Kind == embedding)
}

// continues makes a column of the table that of which the dataset has rows, with what it says of them.
func (c *moreColumns) continues(m *meant, d *described) error {
	if _, err := c.n.table.column(m.f.Name); err != nil {
		return err
	}
	if m.kind == categorical {
		if err := c.takeCategories(m); err != nil {
			return err
		}
	}
	m.setUnit(c.x.r)
	if err := m.check(c.n.table); err != nil {
		return err
	}
	switch m.kind {
	case numerical:
		m.missing = d.Missing
		if d.Mean != nil && d.Deviation != nil && len(d.Quantiles) == 5 {
			n := c.n.first - d.Missing
			m.moments = moments{n: n, mean: *d.Mean, squares: *d.Deviation * *d.Deviation * float64(n),
				least: d.Quantiles[0], most: d.Quantiles[4]}
		}
	case embedding:
		if m.missing = d.Missing; m.f.Width != d.Width {
			return c.n.table.fail(m.f.Name, fmt.Errorf("is %v, and the dataset has rows of %d", m.f, d.Width))
		}
	}
	return nil
}

// listOf returns the name of the list of strings that has a column's categories.
func (c *moreColumns) listOf(m *meant) string {
	names := &columns{have: taken()}
	for name := range c.lists {
		names.have[name] = true
	}
	return names.free(m.f.Name)
}

// taken are the names that columns of a database have, whatever those of its table are called.
func taken() map[string]bool {
	return map[string]bool{"id": true, timeColumn: true, numerical: true, categorical: true, timestamp: true}
}

// takeCategories takes the categories that the dataset has, which keep their numbers.
func (c *moreColumns) takeCategories(m *meant) error {
	name := c.listOf(m)
	c.lists[name] = m
	m.names = source.NewNames(c.x.r.Budget)
	c.x.g.Own(m.names)
	list, err := c.m.Dataset.Strings(c.at, name)
	if err != nil {
		return err
	}
	digits := true
	if err := source.EachString(c.m.Dataset, list, func(s string) error {
		k, err := m.names.Number([]byte(s))
		if err == nil && k != int64(m.old) {
			err = fmt.Errorf("%w: the category %.40q of %q is there twice", formats.ErrCorrupt, s, name)
		}
		x, no := strconv.ParseFloat(s, 64)
		short := strconv.FormatFloat(x, 'g', -1, 64)
		m.f.Exponents = m.f.Exponents || no == nil && short == s && strings.Contains(s, "e+")
		digits = digits && no == nil && (short == s || m.f.SpellFloat(x) == s)
		m.old++
		return err
	}); err != nil {
		return err
	}
	if m.counts, err = source.Grow(c.x.r.Budget.Ledger(), m.counts, m.old); err != nil {
		return err
	}
	m.counts = m.counts[:m.old]
	has := func(name string) bool { return m.names.Find([]byte(name)) >= 0 }
	switch f := m.f; { // a CSV does not say what its cells are
	case f.Boolean && (has("0") || has("1")) && !has("true") && !has("false"):
		f.Boolean = false // one value has one name
	case f.Text || digits || !c.n.table.isText():
	case f.Boolean && (has("true") || has("false") || m.old == 0):
	default:
		c.n.table.readAsText(m.at)
	}
	return nil
}

// measureBefore computes the statistics of the rows that the dataset has, as far as it does not say them.
func (c *moreColumns) measureBefore(g *group) error {
	col, _ := c.m.Dataset.Graph().NodeColumn(c.at, g.Name)
	scales, _ := c.m.Dataset.Graph().NodeColumn(c.at, graph.ScaleOf(g.Name))
	if g.list[0].kind == embedding || c.n.first == 0 {
		return nil
	}
	row, size, stride := int64(0), g.DType.Size(), strideOf(c.n.count)
	rows := &arrayfile.WholeRows{Row: g.RowBytes(), Take: func(data []byte) error {
		for ; len(data) > 0; row, data = row+1, data[g.RowBytes():] {
			scale := 1.0
			if g.DType == unified.Int8 && scales.Valid() {
				scale = unified.Float32.Float(scales.Bytes()[4*row:])
			}
			for k, m := range g.list {
				if err := m.again(g, data[int64(k)*size:][:size], scale, row, stride); err != nil {
					return err
				}
			}
		}
		return nil
	}}
	return c.m.Dataset.Each(col.Bytes(), func(part []byte) error {
		return pinned.Guard(func() error { _, err := rows.Write(part); return err })
	})
}

// again takes a value of the dataset into account.
func (c *meant) again(g *group, data []byte, scale float64, row, stride int64) error {
	switch c.kind {
	case numerical:
		if x := scale * g.DType.Float(data); row%stride == 0 && x == x && !math.IsInf(x, 0) {
			c.values = append(c.values, x)
		}
	case categorical:
		switch k := g.DType.Integer(data); {
		case k == missing:
			c.missing++
		case k < 0 || k >= int64(c.old):
			return fmt.Errorf("%w: the category %d of %q, of which there are %d", formats.ErrCorrupt, k, c.f.Name,
				c.old)
		default:
			c.counts[k]++
		}
	case timestamp:
		c.measureTimes(data, cmp.Or(g.Unit, "s"), row, stride)
	}
	return nil
}

// describeGroups measures the new rows, and makes the columns that continue those of the dataset.
func (c *moreColumns) describeGroups(ctx context.Context) error {
	var all []*meant
	for _, g := range c.groups {
		all = append(all, g.list...)
	}
	if err := c.x.measure(ctx, c.n.table, c.n.first, all); err != nil {
		return err
	}
	for _, g := range c.groups {
		m := g.list[0]
		switch {
		case len(g.Shape) > 0 && m.kind != embedding:
			c.to.Columns = append(c.to.Columns, c.n.group(g.Name, stored[m.kind], g.list))
		default:
			col := c.n.column(g.Name, []int{m.at})
			if m.kind == timestamp {
				col.Unit = m.unit
			}
			col.Fields = describe(g.list)
			c.to.Columns = append(c.to.Columns, col)
		}
	}
	return nil
}

// stored are the types that kinds are stored as side by side.
var stored = map[string]unified.DType{numerical: unified.Float32, categorical: unified.Int32, timestamp: unified.Int64}

// addStrings continues the lists of strings: categories, and texts of the rows.
func (c *moreColumns) addStrings(ctx context.Context) error {
	for name, m := range c.lists {
		c.to.Strings = append(c.to.Strings, m.categories(name))
	}
	slices.SortFunc(c.to.Strings, func(a, b source.Strings) int { return cmp.Compare(a.Name, b.Name) })
	for _, name := range source.ListsOf(c.m.Dataset, c.at) {
		list, err := c.m.Dataset.Strings(c.at, name)
		if err != nil {
			return err
		}
		if name == "id" || c.lists[name] != nil || list.Len() != c.n.first {
			continue
		}
		if err := c.addText(ctx, name, list); err != nil {
			return err
		}
	}
	return nil
}

// addText continues a column of text.
func (c *moreColumns) addText(ctx context.Context, name string, list *formats.Strings) error {
	t := c.n.table
	i := t.find(name)
	for short := name; i < 0 && strings.HasSuffix(short, "_"); i = t.find(short) { // see columns.free
		short = strings.TrimSuffix(short, "_")
	}
	if i < 0 {
		c.missing = append(c.missing, fmt.Sprintf("%q", name))
		return nil
	}
	if c.used[i] = true; t.isText() {
		t.readAsText(i)
	}
	if !t.list[i].Text {
		return t.fail(t.list[i].Name, fmt.Errorf("is %v, and the dataset has text", &t.list[i]))
	}
	more := t.strings(ctx, name, i)
	c.to.Strings = append(c.to.Strings, source.Strings{Name: name, Rows: c.n.count,
		Each: func(yield func(string) error) error {
			if err := source.EachString(c.m.Dataset, list, yield); err != nil {
				return err
			}
			return more.Each(yield)
		}})
	return nil
}
