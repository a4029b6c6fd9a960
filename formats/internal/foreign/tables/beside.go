package tables

import (
	"context"
	"iter"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
)

// beside is tables of as many rows side by side, as one part of a table.
type beside struct {
	list []columnar.Field
	of   []besideColumn // where each of them lies
	rows int64
	text bool // some are CSV
}

// besideColumn is a column of one of the tables.
type besideColumn struct {
	t      *table
	column int
}

// Fields describes the columns.
func (b *beside) Fields() []columnar.Field { return b.list }

// Rows returns how many rows there are.
func (b *beside) Rows() int64 { return b.rows }

// place returns what describes a column, or a file of its table.
func (b *beside) place(column string) (source.Place, bool) {
	at := slices.IndexFunc(b.list, func(f columnar.Field) bool { return f.Name == column })
	if at < 0 || len(b.of[at].t.at) == 0 {
		return source.Place{}, false
	}
	return b.of[at].t.at[0], true
}

// Scan yields the rows of some columns. Only tables that have some of them are read.
func (b *beside) Scan(ctx context.Context, want []int, yield func(*columnar.Batch) error) error {
	var all []*besideRows
	for k, w := range want {
		c := b.of[w]
		at := slices.IndexFunc(all, func(r *besideRows) bool { return r.t == c.t })
		if at < 0 {
			at = len(all)
			all = append(all, &besideRows{t: c.t})
		}
		all[at].want, all[at].to = append(all[at].want, c.column), append(all[at].to, k)
	}
	if len(all) == 1 {
		return all[0].t.scan(ctx, all[0].want, yield)
	}
	for _, r := range all {
		r.begin(ctx)
		defer r.stop()
	}
	out := &columnar.Batch{Columns: make([]columnar.Vector, len(want)), From: func(column string) *columnar.Batch {
		return fileOf(all, column)
	}}
	for {
		out.Rows = 0
		for i, r := range all {
			if err := r.fill(); err != nil {
				return err
			}
			if left := r.left(); i == 0 || left < out.Rows {
				out.Rows = left
			}
		}
		if out.Rows == 0 {
			return nil
		}
		for _, r := range all {
			r.put(out)
		}
		if err := yield(out); err != nil {
			return err
		}
	}
}

// fileOf returns the rows that are at hand of the file that a column lies in.
func fileOf(all []*besideRows, column string) *columnar.Batch {
	of := all[0]
	for _, r := range all {
		if slices.ContainsFunc(r.want, func(w int) bool { return r.t.list[w].Name == column }) {
			of = r
		}
	}
	part := &columnar.Batch{Path: of.batch.Path, Row: of.batch.Row + int64(of.last)}
	if of.batch.Lines != nil {
		part.Lines = of.batch.Lines[of.last:]
	}
	return part
}

// besideRows reads one of the tables.
type besideRows struct {
	t    *table
	want []int // its columns
	to   []int // which columns of all they are

	next func() (*columnar.Batch, bool)
	stop func()
	err  error

	batch    *columnar.Batch
	at, last int // the first row of it that is left, and what that was before
}

// begin begins to read, as another goroutine that waits until it is asked for rows.
func (r *besideRows) begin(ctx context.Context) {
	r.next, r.stop = iter.Pull(func(yield func(*columnar.Batch) bool) {
		r.err = pinned.Guard(func() error {
			return r.t.scan(ctx, r.want, func(b *columnar.Batch) error {
				if !yield(b) {
					return errStop
				}
				return nil
			})
		})
	})
}

// fill has rows at hand, unless all are read.
func (r *besideRows) fill() error {
	for r.batch == nil || r.at == r.batch.Rows {
		b, more := r.next()
		if !more {
			r.batch = nil
			return r.err
		}
		r.batch, r.at = b, 0
	}
	return nil
}

// left returns how many rows are at hand.
func (r *besideRows) left() int {
	if r.batch == nil {
		return 0
	}
	return r.batch.Rows - r.at
}

// put puts rows into a batch of all, as many as it is to have.
func (r *besideRows) put(out *columnar.Batch) {
	for k, w := range r.want {
		out.Columns[r.to[k]] = r.batch.Columns[k].Slice(&r.t.list[w], r.at, r.at+out.Rows)
	}
	r.at, r.last = r.at+out.Rows, r.at
}
