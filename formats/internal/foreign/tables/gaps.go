package tables

import (
	"context"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/parquet"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// Whole numbers of which some are missing become float64, with NaN. A CSV finds its own; here are those of other files.

// findGaps finds whole numbers of which some are missing: they become float64, with NaN, as those of a CSV do. One
// beyond 2^53, which float64 does not hold, keeps its column as it is.
func (x *graphOf) findGaps(ctx context.Context) error {
	var all []*table
	for _, n := range x.nodes {
		all = append(all, n.table)
	}
	for _, e := range x.edges {
		all = append(all, e.table)
	}
	for _, t := range all {
		if t == nil || t.isText() {
			continue
		}
		if err := t.findGaps(ctx, x.r); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) findGaps(ctx context.Context, r *source.Request) error {
	var want []int
	for i := range t.list {
		if f := &t.list[i]; f.Bad == "" && !f.Text && !f.List && f.Unit == "" && !f.DType.IsFloat() {
			want = append(want, i)
		}
	}
	if want == nil {
		return nil
	}
	done := int64(0)
	if err := t.scan(ctx, want, func(b *columnar.Batch) error {
		for k, i := range want {
			t.list[i].LookForGaps(&b.Columns[k])
		}
		done += int64(b.Rows)
		r.Report("look for missing numbers", done, t.count)
		return nil
	}); err != nil {
		return err
	}
	for _, i := range want {
		f := &t.list[i]
		f.Gaps = f.Gaps && !f.Big
	}
	return nil
}

// fillGaps makes numbers of which some are missing floating-point numbers, and notes how many are. It looks at columns
// that may lack some.
func (x *graphOf) fillGaps(ctx context.Context, t *table, g *Group, may map[string]bool) error {
	for _, d := range g.Columns {
		at := t.find(d.Name)
		f := &t.list[at]
		if !d.Gaps || !may[f.Name] || f.Bad != "" || f.List || f.Unit != "" || !f.Text && f.DType.IsFloat() {
			continue
		}
		missing, err := t.missing(ctx, at)
		if err != nil {
			return err
		}
		if f.Gaps = missing > 0 && !f.Text; f.Gaps {
			x.g.Tell(source.Altered, f.Name, missing, "%s: %q is float64: %s missing, and NaN", t.name, f.Name,
				source.Counted(missing, "number is", "numbers are"))
			if err := x.tellRounded(ctx, t, at); err != nil {
				return err
			}
		} else if missing > 0 {
			x.g.Tell(source.Altered, f.Name, missing, "%s: %q: %s missing, and empty", t.name, f.Name,
				source.Counted(missing, "text is", "texts are"))
		}
	}
	return nil
}

// tellRounded notes whole numbers that float64 does not hold.
func (x *graphOf) tellRounded(ctx context.Context, t *table, column int) error {
	f, rounded := &t.list[column], int64(0)
	if f.DType.Size() < 8 {
		return nil
	}
	err := t.scan(ctx, []int{column}, func(b *columnar.Batch) error {
		for data := b.Columns[0].Data; len(data) >= 8; data = data[8:] {
			if v := f.DType.Integer(data); v > 1<<53 || v < -1<<53 {
				rounded++
			}
		}
		return nil
	})
	if rounded > 0 {
		x.g.Tell(source.Altered, f.Name, rounded, "%s: %q: %s beyond 2^53, and may be rounded", t.name, f.Name,
			source.Counted(rounded, "number is", "numbers are"))
	}
	return err
}

// missing counts the values that a column lacks. An empty cell of a CSV is a text.
func (t *table) missing(ctx context.Context, column int) (n int64, err error) {
	if t.isText() && t.list[column].Text {
		return 0, nil
	}
	known := true
	for i, p := range t.parts {
		file, ok := p.(*parquet.File)
		if !ok {
			known = false
			break
		}
		in, err := file.Missing(column)
		if err != nil {
			return 0, wrap(ctx, t.at[i], err)
		}
		known, n = known && in >= 0, n+in
	}
	if known {
		return n, nil
	}
	n = 0
	return n, t.scan(ctx, []int{column}, func(b *columnar.Batch) error {
		for i := range b.Rows {
			if b.Columns[0].Null(i) {
				n++
			}
		}
		return nil
	})
}
