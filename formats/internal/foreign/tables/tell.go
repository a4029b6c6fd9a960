package tables

import (
	"context"
	"math"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// tell notes how a column that is stored differs from that of the table.
func (x *graphOf) tell(ctx context.Context, t *table, column int) error {
	f := &t.list[column]
	if d := f.Doubt; d != nil {
		x.g.Tell(source.Guessed, f.Name, d.Cells, "%s: %q is text: %d of %d cells are unlike the others, such as "+
			"%q in line %d; %s %s takes it for a missing value", t.name, f.Name, d.Cells, d.Of, clip(d.First.Cell),
			d.First.Line, option.Named("Null"), clip(d.First.Cell))
	}
	if f.Hex {
		x.g.Tell(source.Altered, f.Name, t.count, "%s: %q holds bytes, which are stored as text of hexadecimal digits",
			t.name, f.Name)
	}
	if f.Wide == 0 {
		return nil
	}
	rounded := int64(0)
	if err := t.scan(ctx, []int{column}, func(b *columnar.Batch) error {
		for data := b.Columns[0].Data; len(data) >= 8; data = data[8:] {
			if math.Abs(unified.Float64.Float(data))*f.Wide > 1<<53 {
				rounded++
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if rounded > 0 {
		x.g.Tell(source.Altered, f.Name, rounded, "%s: %q holds decimals, of which %d have more digits than float64 "+
			"holds, and are rounded", t.name, f.Name, rounded)
	}
	return nil
}

func clip(cell string) string { return cell[:min(len(cell), 40)] }

// tellValues notes plain numbers that are hardly seconds, and whole ones that are rounded.
func (x *graphOf) tellValues(t *table, c *meant) {
	if c.rounded > 0 {
		x.g.Tell(source.Altered, c.f.Name, c.rounded, "%s: %q: %s float32 does not hold, and rounds", t.name, c.f.Name,
			source.Counted(c.rounded, "whole number that", "whole numbers that"))
	}
	if c.far > 0 {
		x.g.Tell(source.Guessed, c.f.Name, c.far, "%s: %q: %s after the year 2200, if they are seconds; %s ms says "+
			"that they are milliseconds", t.name, c.f.Name, source.Counted(c.far, "time is", "times are"),
			option.Named("TimesIn"))
	}
}
