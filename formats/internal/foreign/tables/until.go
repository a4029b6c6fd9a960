package tables

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// rows says which rows of files make a table.
type rows struct {
	files  Words
	format Format
	until  string // rows that are later, or have no time, are left out; "": none is
	time   string // the column of times
	wide   *Wide  // the table; nil: files make it
}

// key tells the rows of files from others.
func (r rows) key() string { return fmt.Sprintf("%q %q %q %q", r.files, r.format, r.until, r.time) }

// limit leaves out rows that are later than a time, and rows without one.
type limit struct {
	column   int
	unit     string // of the column's numbers, as timesOf returns them
	last     int64
	refuse   error // of any value: the column is not of times; a column without a value may be anything
	later    int64 // rows that are left out since they are later
	timeless int64 // and since they have no time
}

func (n *NodeTable) rows() rows { return rows{n.Files, n.Format, n.Until, n.Time, n.Wide} }

func (e *EdgeTable) rows() rows {
	if e.nodes != nil {
		return e.nodes.rows()
	}
	return rows{e.Files, e.Format, e.Until, e.Time, e.Wide}
}

// limitTo leaves out the rows of a table that are later than a time, and counts those that stay.
func (t *table) limitTo(ctx context.Context, r *source.Request, until, column string) (err error) {
	l := &limit{}
	if l.column, err = t.column(column); err != nil {
		return err
	}
	f := &t.list[l.column]
	_, unit := f.Stored(timeColumn)
	l.unit = cmp.Or(unit, r.TimesIn)
	if l.last, l.refuse = lastTime(until, l.unit); f.List || f.DType.IsFloat() {
		l.refuse = fmt.Errorf("is %v, which is not compared with %q: make it times or whole numbers", f, until)
	}
	kept := int64(0)
	if err := t.scanAll(ctx, []int{l.column}, func(b *columnar.Batch) error {
		keep, err := l.keep(f, b, 0, nil)
		kept += int64(len(keep))
		r.Report("read times", kept, t.count)
		return err
	}); err != nil {
		return err
	}
	t.limit, t.count = l, kept
	return nil
}

// lastTime returns the time that a text names, in a unit, rounded down; "" is that of plain numbers.
func lastTime(text, unit string) (int64, error) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, nil
	}
	us, ok := columnar.ParseTime(strings.TrimSpace(text))
	switch {
	case !ok:
		return 0, fmt.Errorf("%.40q is no date and no time, such as 2026-01-31 or 2026-01-31T12:00:00Z", text)
	case unit == "":
		return 0, option.Textf("is plain numbers, which are not compared with %q: say by %s what they count, or "+
			"name a number", text, option.Named("TimesIn"))
	}
	v, ok := source.InUnit(us, "us", unit)
	if !ok {
		return 0, fmt.Errorf("the time %q is not one of int64 in %s", text, unit)
	}
	return v, nil
}

// keep appends the rows of a batch that stay, of which column k has the times, and counts the others.
func (l *limit) keep(f *columnar.Field, b *columnar.Batch, k int, to []int) ([]int, error) {
	if l.refuse != nil {
		for i := range b.Rows {
			if _, there := f.Cell(&b.Columns[k], i); there || f.List {
				return nil, b.Fail(f.Name, columnar.AtRow(i, l.refuse))
			}
		}
		l.timeless += int64(b.Rows)
		return to, nil
	}
	data, err := f.TimesOf(&b.Columns[k], b.Rows, unified.Int64, nil)
	if err != nil {
		return nil, b.Fail(f.Name, err)
	}
	for i := range b.Rows {
		switch v := unified.Int64.Integer(data[8*i:]); {
		case v == source.NoTime:
			l.timeless++
		case v > l.last:
			l.later++
		default:
			to = append(to, i)
		}
	}
	return to, nil
}

// scanUntil yields the rows of some columns that stay.
func (t *table) scanUntil(ctx context.Context, want []int, yield func(*columnar.Batch) error) error {
	l := *t.limit // whose counts are of one pass
	f := &t.list[l.column]
	all := append(append([]int(nil), want...), l.column)
	var keep []int
	return t.scanAll(ctx, all, func(b *columnar.Batch) (err error) {
		if keep, err = l.keep(f, b, len(want), keep[:0]); err != nil || len(keep) == 0 {
			return err
		}
		kept := *b
		kept.Columns = b.Columns[:len(want)]
		if len(keep) < b.Rows {
			return yield(kept.Some(t.list, want, keep))
		}
		return yield(&kept)
	})
}

// tellUntil notes the rows of a node type that are left out.
func (x *graphOf) tellUntil(n *nodeType) {
	l, change := n.table.limit, source.LeftOut
	if l == nil || l.later+l.timeless == 0 {
		return
	}
	if x.m.Asked {
		change = source.Said
	}
	x.g.Tell(change, n.spec.Type, l.later+l.timeless, "nodes %q: %s left out: %d later than %s, %d without a time",
		n.spec.Type, source.Counted(l.later+l.timeless, "row is", "rows are"), l.later, n.spec.Until, l.timeless)
}
