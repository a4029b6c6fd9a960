package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/csv"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/parquet"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// Wide is a table whose columns lie in several tables side by side, of as many rows each. Its columns have the names
// and types that somebody has given them: none has a role by another name, and texts of nodes are stored.
type Wide struct {
	At     source.Place // what describes the table
	Name   string       // what notes call it
	Chunks []Chunk      // of each group
	Groups []Group
}

// byNoName reports whether a column of a table has a role only where somebody says so, not by its name.
func (x *graphOf) byNoName(t *table) bool { return x.m.Whole || t.wide }

// Chunk is some consecutive rows.
type Chunk struct {
	Rows int64
	By   string // what says so
}

// Group is the table of some columns.
type Group struct {
	Files [][]source.Place // of each chunk
	CSV   bool             // they are CSV, else Parquet
	// Columns have the types that the files must have; with Gaps they may lack values. Width is found out.
	Columns []columnar.Field
	// Index is a column of the numbers of the rows, which need not be there; "": none.
	Index string
}

// rows returns how many rows there are.
func (w *Wide) rows() (n int64) {
	for _, c := range w.Chunks {
		n += c.Rows
	}
	return n
}

// has reports whether a column of a name is wanted.
func (g *Group) has(name string) bool {
	return slices.ContainsFunc(g.Columns, func(c columnar.Field) bool { return c.Name == name })
}

// wide opens the groups of a table, and lays their columns side by side.
func (x *graphOf) wide(ctx context.Context, w *Wide) (*table, error) {
	b := &beside{rows: w.rows()}
	for i := range w.Groups {
		t, err := x.group(ctx, w, &w.Groups[i])
		if err != nil {
			return nil, err
		}
		for k, f := range t.list {
			if w.Groups[i].has(f.Name) {
				b.list, b.of = append(b.list, f), append(b.of, besideColumn{t, k})
			}
		}
		b.text = b.text || w.Groups[i].CSV
	}
	t := &table{name: w.Name, wide: true}
	return t, t.add(b, w.At)
}

// group opens the table of some columns. Its files must have these columns, and each chunk its rows.
func (x *graphOf) group(ctx context.Context, w *Wide, g *Group) (*table, error) {
	t, gaps := &table{name: w.Name}, map[string]bool{}
	for i, files := range g.Files {
		had := t.count
		for _, at := range files {
			p, err := openPart(ctx, at, Format{Delimiter: ","}, x.r)
			if err == nil {
				err = g.declare(p)
			}
			if err != nil {
				return nil, wrap(ctx, at, err)
			}
			for _, f := range p.Fields() {
				gaps[f.Name] = gaps[f.Name] || f.Gaps || !g.CSV
			}
			t.leaveUneven(p)
			if err := t.add(p, at); err != nil {
				return nil, source.Error(at.Path(), "", -1, "the files of a table have the same columns", err)
			}
			x.r.Report("look at tables", t.count, w.rows())
		}
		if c := w.Chunks[i]; t.count-had != c.Rows {
			return nil, source.Error(files[0].Path(), "", -1, "write the chunk or its count again",
				fmt.Errorf("the chunk has %s, and by %s it has %d", source.Counted(t.count-had, "row", "rows"), c.By,
					c.Rows))
		}
	}
	if t.count == 0 {
		g.describe(t)
		return t, nil
	}
	x.tellOthers(t, g)
	if err := t.checkIndex(ctx, g.Index); err != nil {
		return nil, err
	}
	g.readTimes(t)
	return t, x.fillGaps(ctx, t, g, gaps)
}

// uneven is why lists are not stored.
const uneven = "lists of several lengths"

// leaveUneven leaves lists alone that are of another length in a file than in those before it.
func (t *table) leaveUneven(p part) {
	list := p.Fields()
	for i := range min(len(list), len(t.list)) {
		if a, b := &t.list[i], &list[i]; a.List && b.List && t.count > 0 && p.Rows() > 0 && (a.Width != b.Width ||
			b.Bad == uneven) {
			a.Bad, b.Width = uneven, a.Width
		}
	}
}

// readTimes has times of a CSV read as texts where they are texts in some of its files.
func (g *Group) readTimes(t *table) {
	for _, d := range g.Columns {
		if at := t.find(d.Name); g.CSV && d.Unit != "" && t.list[at].Text {
			t.list[at].Unit = "us"
			for _, p := range t.parts {
				p.Fields()[at] = t.list[at]
			}
		}
	}
}

// describe gives a table without rows its columns. Nobody knows how wide lists would be.
func (g *Group) describe(t *table) {
	t.list, t.parts, t.at = slices.Clone(g.Columns), nil, nil
	for i := range t.list {
		if f := &t.list[i]; f.List {
			f.Bad = "lists, of which there are none"
		}
		t.list[i].Gaps = false
	}
}

// tellOthers notes columns that nobody has named.
func (x *graphOf) tellOthers(t *table, g *Group) {
	var others []string
	for _, f := range t.list {
		if f.Name != g.Index && !g.has(f.Name) {
			others = append(others, fmt.Sprintf("%.60q", f.Name))
		}
	}
	if others != nil {
		x.g.Tell(source.LeftOut, t.name, int64(len(others)), "%s: not stored, since it does not name them: %s",
			t.name, source.Few(others))
	}
}

// checkIndex refuses rows that do not stand where their numbers say.
func (t *table) checkIndex(ctx context.Context, name string) error {
	at := t.find(name)
	if at < 0 || name == "" {
		return nil
	}
	f, row := &t.list[at], int64(0)
	if f.Text || f.List || f.Bad != "" {
		return t.fail(name, fmt.Errorf("is %v, where the numbers of the rows are wanted", f))
	}
	var got []int64
	return t.scan(ctx, []int{at}, func(b *columnar.Batch) (err error) {
		if got, err = columnar.Ints(f, b.Columns[0].Data, got[:0]); err != nil {
			return b.Fail(name, err)
		}
		for i, v := range got {
			if v != row+int64(i) || b.Columns[0].Null(i) {
				return source.Error(b.Path, name, b.At(i), "write the rows in the order of their numbers",
					fmt.Errorf("is %d, in row %d of all", v, row+int64(i)))
			}
		}
		row += int64(b.Rows)
		return nil
	})
}

// declare compares the columns of a file with those that the group must have. Cells of a CSV are read as those.
func (g *Group) declare(p part) error {
	text, isText := p.(*csv.File)
	if isText != g.CSV {
		return errors.New(map[bool]string{true: "is text, where a Parquet file is wanted",
			false: "is no CSV, which is wanted"}[isText])
	}
	list := p.Fields()
	for i := range g.Columns {
		d := &g.Columns[i]
		at := slices.IndexFunc(list, func(f columnar.Field) bool { return f.Name == d.Name })
		if at < 0 {
			return fmt.Errorf("there is no column %q; there are: %s", d.Name, (&table{list: list}).names())
		}
		switch f := &list[at]; {
		case isText:
			text.Declare(at, *d)
		case f.Bad == "" && fits(d, f) && f.List && p.Rows() > 0:
			if even, err := p.(*parquet.File).Even(at); err != nil {
				return err
			} else if !even {
				f.Bad = uneven
			}
		case f.Bad == "" && !fits(d, f):
			return columnar.InColumn(d.Name, -1, fmt.Errorf("holds %s, and not %s", kindOf(f), kindOf(d)))
		}
	}
	return nil
}

// fits reports whether a column of Parquet is what is wanted, or numbers that this holds.
func fits(want, is *columnar.Field) bool {
	switch {
	case want.List != is.List || want.Text != is.Text || want.Boolean != is.Boolean || want.Unit == "" && is.Unit != "":
		return false
	case want.Text:
		return true
	case want.Unit != "":
		return is.Unit != "" && (is.Unit == "d") == (want.Unit == "d")
	case want.DType.IsFloat() != is.DType.IsFloat():
		return false
	}
	return is.DType.Size() <= want.DType.Size()
}

// kindOf says what a column holds.
func kindOf(f *columnar.Field) string {
	switch kind := strings.TrimPrefix(f.String(), "lists of 0 "); {
	case f.Unit == "d":
		return "dates"
	case f.Unit != "":
		return "times"
	case f.Boolean && !f.List:
		return "booleans"
	case f.List && kind != f.String():
		return "lists of " + kind
	default:
		return kind
	}
}

// Numbers calls take for each number of a column of files, which follow one another.
func Numbers(ctx context.Context, files []source.Place, column string, r *source.Request,
	take func(int64) error) error {
	t := &table{}
	var inputs []input
	for _, at := range files {
		inputs = append(inputs, input{Place: at})
	}
	if err := t.open(ctx, inputs, Format{Delimiter: ","}, r); err != nil {
		return err
	}
	at, err := t.column(column)
	if err != nil {
		return err
	}
	f := &t.list[at]
	if f.Text || f.List {
		return t.fail(column, fmt.Errorf("is %v, where whole numbers are wanted", f))
	}
	var got []int64
	return t.scan(ctx, []int{at}, func(b *columnar.Batch) (err error) {
		if got, err = columnar.Ints(f, b.Columns[0].Data, got[:0]); err != nil {
			return b.Fail(column, err)
		}
		for i, v := range got {
			if b.Columns[0].Null(i) {
				return b.Fail(column, columnar.AtRow(i, errors.New("the number is missing")))
			}
			if err := take(v); err != nil {
				return err
			}
		}
		return nil
	})
}
