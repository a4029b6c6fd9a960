package tables

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/unified"
)

// offsets are where the edges of each source begin in a table that lists them by their sources (CSR), and the end of
// the last: n+1 numbers of n nodes, in a spool, of 8 bytes each.
type offsets struct{ data []byte }

// at is the number of node s.
func (o *offsets) at(s int64) int64 { return int64(binary.LittleEndian.Uint64(o.data[8*s:])) }

// sourceOf returns the source of a row, which is not before s.
func (o *offsets) sourceOf(row, s int64) int64 {
	for s < int64(len(o.data)/8)-2 && o.at(s+1) <= row {
		s++
	}
	return s
}

// readOffsets reads and checks the offsets of an edge type.
func (x *graphOf) readOffsets(ctx context.Context, e *edgeType) error {
	t, err := x.table(ctx, rows{files: e.spec.Offsets})
	if err != nil {
		return err
	}
	column := t.find("ptr")
	if column < 0 && len(t.list) == 1 {
		column = 0
	}
	if column < 0 {
		return t.fail("", fmt.Errorf("there is no column \"ptr\"; there are: %s", t.names()))
	}
	if err := t.wholeNumbers(column); err != nil {
		return err
	}
	if err := e.table.wholeNumbers(e.dst.column); err != nil {
		return err
	}
	if n := e.src.node.count; t.count != n+1 {
		return t.fail("", fmt.Errorf("there are %s, and %q has %s: a row for each is wanted, and one for the end",
			source.Counted(t.count, "row", "rows"), e.spec.Source, source.Counted(n, "node", "nodes")))
	}
	spool := &source.Spool{Budget: x.r.Budget}
	x.g.Own(spool)
	spool.Expect(8 * t.count)
	last := int64(-1)
	var got []int64
	if err := t.scan(ctx, []int{column}, func(b *columnar.Batch) (err error) {
		if got, err = e.checkOffsets(&t.list[column], b, &last, got[:0]); err != nil {
			return b.Fail(t.list[column].Name, err)
		}
		x.r.Report("read offsets", spool.Len()/8, t.count)
		_, err = spool.Write(unified.FromSlice(got).Bytes())
		return err
	}); err != nil {
		return err
	}
	if last != e.table.count {
		return source.Error(t.at[len(t.at)-1].Path(), t.list[column].Name, t.count-1, "",
			fmt.Errorf("the last offset is %d, and %s has %s", last, e.table.at[0].Path(),
				source.Counted(e.table.count, "row", "rows")))
	}
	e.offsets = &offsets{}
	e.offsets.data, err = spool.Bytes()
	return err
}

// checkOffsets appends the offsets of a batch, which follow last: they begin at 0, and ascend.
func (e *edgeType) checkOffsets(f *columnar.Field, b *columnar.Batch, last *int64, to []int64) ([]int64, error) {
	if i := b.Columns[0].FirstNull(); i >= 0 {
		return nil, columnar.AtRow(i, errors.New("the offset is missing"))
	}
	to, err := columnar.Ints(f, b.Columns[0].Data, to)
	for i, v := range to {
		switch {
		case *last < 0 && v != 0:
			return nil, columnar.AtRow(i, fmt.Errorf("the first offset is %d, not 0", v))
		case v < *last:
			return nil, columnar.AtRow(i, fmt.Errorf("the offset %d is below the one before it, %d", v, *last))
		}
		*last = v
	}
	return to, err
}

// wholeNumbers refuses a column that is not of whole numbers.
func (t *table) wholeNumbers(column int) error {
	f := &t.list[column]
	if f.Bad != "" || f.Text || f.List || f.Boolean || f.Unit != "" || f.DType.IsFloat() {
		return t.fail(f.Name, fmt.Errorf("is %v: whole numbers are wanted", f))
	}
	return nil
}
