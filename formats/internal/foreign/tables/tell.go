package tables

import (
	"context"
	"math"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// tell notes how a column that is stored differs from that of the table.
func (x *graphOf) tell(ctx context.Context, t *table, column int) error {
	f := &t.list[column]
	if d := f.doubt; d != nil {
		x.g.Tell(source.Guessed, f.name, d.cells, "%s: %q is text: %d of %d cells are unlike the others, such as "+
			"%q in line %d; %s %s takes it for a missing value", t.name, f.name, d.cells, d.of, clip(d.first.cell),
			d.first.line, option.Named("Null"), clip(d.first.cell))
	}
	if f.hex {
		x.g.Tell(source.Altered, f.name, t.count, "%s: %q holds bytes, which are stored as text of hexadecimal digits",
			t.name, f.name)
	}
	if f.wide == 0 {
		return nil
	}
	rounded := int64(0)
	if err := t.scan(ctx, []int{column}, func(b *batch) error {
		for data := b.columns[0].data; len(data) >= 8; data = data[8:] {
			if math.Abs(unified.Float64.Float(data))*f.wide > 1<<53 {
				rounded++
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if rounded > 0 {
		x.g.Tell(source.Altered, f.name, rounded, "%s: %q holds decimals, of which %d have more digits than float64 "+
			"holds, and are rounded", t.name, f.name, rounded)
	}
	return nil
}

func clip(cell string) string { return cell[:min(len(cell), 40)] }

// tellValues notes plain numbers that are hardly seconds, and whole ones that are rounded.
func (x *graphOf) tellValues(t *table, c *meant) {
	if c.rounded > 0 {
		x.g.Tell(source.Altered, c.f.name, c.rounded, "%s: %q: %s float32 does not hold, and rounds", t.name, c.f.name,
			source.Counted(c.rounded, "whole number that", "whole numbers that"))
	}
	if c.far > 0 {
		x.g.Tell(source.Guessed, c.f.name, c.far, "%s: %q: %s after the year 2200, if they are seconds; %s ms says "+
			"that they are milliseconds", t.name, c.f.name, source.Counted(c.far, "time is", "times are"),
			option.Named("TimesIn"))
	}
}
