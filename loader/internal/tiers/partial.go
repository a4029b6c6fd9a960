package tiers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Partial is what a source has of which not all is on this machine, such as a dataset from elsewhere. Columns are named
// by their bytes. It is safe for concurrent use.
type Partial interface {
	// Absent reports whether some of a column is not there, and whether all of it may stay once it was brought.
	Absent(column []byte) (absent, kept bool, err error)
	// Bring has a part of a column there, so that it can be read.
	Bring(part []byte) error
	// ChunkBytes is the most that Chunk returns.
	ChunkBytes() int64
	// Chunk returns the piece of a column that has its byte at, and where that begins. It lies in the memory to, where
	// it may not stay.
	Chunk(column []byte, at int64, to []byte) (chunk []byte, from int64, err error)
}

// PartialOf returns what a source has of this kind; nil for none.
func PartialOf(src any) Partial {
	if s, ok := src.(interface{ Partial() any }); ok {
		p, _ := s.Partial().(Partial)
		return p
	}
	return nil
}

// Passing is the tier of columns for which this machine has no room. For each batch it goes through the chunks that its
// rows lie in, each once and in order; what stays of them is read where it lies.
type Passing struct {
	From    Partial
	columns []tier.Column
	bytes   int64 // of those that it has chosen
}

var _ tier.Chooser = (*Passing)(nil)

// Has chooses columns that may not stay as a whole. One that the source cannot say it of is left to who reads it.
func (t *Passing) Has(c *tier.Column) bool {
	absent, kept, err := t.From.Absent(c.Data.Bytes())
	if err != nil || !absent || kept {
		return false
	}
	t.bytes += int64(len(c.Data.Bytes()))
	return true
}

// Bytes returns what the columns have that it has chosen.
func (t *Passing) Bytes() int64 { return t.bytes }

// Cost is a chunk for each worker.
func (t *Passing) Cost(b tier.Bound) tier.Memory {
	return tier.Memory{Scratch: int64(b.Workers) * pinned.Options{}.Size(t.From.ChunkBytes())}
}

// Open opens nothing.
func (t *Passing) Open(_ context.Context, env tier.Env) error {
	t.columns = env.Columns
	return nil
}

// Reader returns a reader, which takes memory when it first needs some.
func (t *Passing) Reader(w tier.Worker) (tier.Reader, error) {
	r := &passingReader{t: t}
	r.buffer.Options = pinned.Options{Ledger: w.Ledger, Purpose: pinned.Scratch}
	return r, nil
}

// Stats counts nothing.
func (*Passing) Stats() (tier.Stats, error) { return tier.Stats{}, nil }

// Close has nothing to free.
func (*Passing) Close() error { return nil }

// passingReader copies rows out of chunks.
type passingReader struct {
	tier.Done
	t      *Passing
	waited time.Duration // for chunks, since the last Finish
	buffer pinned.Buffer
	rows   []int64
	order  []int // of the rows that are wanted, by where they lie
}

// Begin copies the rows.
func (r *passingReader) Begin(ctx context.Context, s tier.Slot, w tier.Want) (done bool, err error) {
	column := r.t.columns[w.Column].Data
	to, err := s.Room(w.Array, w.IDs.Len()*column.RowBytes())
	if err != nil {
		return false, err
	}
	if err := r.buffer.Grow(r.t.From.ChunkBytes(), 0); err != nil {
		return false, err
	}
	if r.rows, err = rowsOf(r.rows[:0], w.IDs, column.Len()); err != nil {
		return false, err
	}
	return true, r.copyRows(ctx, column, to)
}

// copyRows copies rows in the order of where they lie, so that each chunk passes once. A row may lie in two.
func (r *passingReader) copyRows(ctx context.Context, column unified.Tensor, to []byte) error {
	rows := r.rows
	r.order = r.order[:0]
	for i := range rows {
		r.order = append(r.order, i)
	}
	slices.SortFunc(r.order, func(a, b int) int { return cmp.Compare(rows[a], rows[b]) })
	all, n := column.Bytes(), column.RowBytes()
	for next, at := 0, int64(0); next < len(r.order); {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at = max(at, rows[r.order[next]]*n)
		begin := time.Now()
		chunk, from, err := r.t.From.Chunk(all, at, r.buffer.Bytes())
		r.waited += time.Since(begin)
		if err != nil {
			return err
		}
		end := from + int64(len(chunk))
		for i := next; i < len(r.order) && rows[r.order[i]]*n < end; i++ {
			first, out := rows[r.order[i]]*n, to[int64(r.order[i])*n:]
			lo, hi := max(first, from), min(first+n, end)
			copy(out[lo-first:hi-first], chunk[lo-from:hi-from])
			if hi == first+n && i == next {
				next++
			}
		}
		at = end
	}
	return nil
}

// Finish says how long Begin has waited.
func (r *passingReader) Finish(context.Context, tier.Slot) (waited time.Duration, err error) {
	waited, r.waited = r.waited, 0
	return waited, nil
}

// rowsOf appends the rows that ids name to a list. An id outside of [0, n) is gather.ErrRange.
func rowsOf(list []int64, ids unified.Tensor, n int64) ([]int64, error) {
	at, err := unified.Integers(ids)
	if err != nil {
		return list, err
	}
	for i := range ids.Len() {
		row := at(i)
		if row < 0 || row >= n {
			return list, fmt.Errorf("%w: id %d, the %d-th, of a column of %d rows", gather.ErrRange, row, i, n)
		}
		list = append(list, row)
	}
	return list, nil
}

// Close frees the memory.
func (r *passingReader) Close() error { return r.buffer.Close() }
