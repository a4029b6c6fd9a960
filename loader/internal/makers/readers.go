package makers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/khop-gnn/khop/internal/timeline"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/unified"
)

// Readers fetch the rows of the batches that a worker makes.
type Readers struct {
	of  []arrayReader // [array]; none for what is not a column
	all []tier.Reader // each once
}

// arrayReader is who fetches the rows of an array, and what it calls their column.
type arrayReader struct {
	tier.Reader
	column int
}

// OpenReaders opens a reader of each tier that has one of the columns: by array, nil for what is not a column.
func OpenReaders(columns []*placed.Column, w tier.Worker) (r Readers, err error) {
	r.of = make([]arrayReader, len(columns))
	opened := map[*placed.Tier]tier.Reader{}
	for i, c := range columns {
		if c == nil {
			continue
		}
		reader, ok := opened[c.Tier]
		if !ok {
			if reader, err = c.Tier.Reader(w); err != nil {
				return r, errors.Join(err, r.Close())
			}
			opened[c.Tier] = reader
			r.all = append(r.all, reader)
		}
		r.of[i] = arrayReader{reader, c.Number}
	}
	return r, nil
}

// Expect tells readers that can begin before the batch is sampled which one it is.
func (r *Readers) Expect(ctx context.Context, s *slots.Slot) error {
	s.Awaited = 0
	if s.Turn() == 0 { // on trial
		return nil
	}
	for _, reader := range r.all {
		if early, ok := reader.(tier.Early); ok {
			waited, err := early.Expect(ctx, s)
			if s.Awaited += waited; err != nil {
				return err
			}
		}
	}
	return nil
}

// Begin begins to fetch the rows of all columns, in the order of the list.
func (r *Readers) Begin(ctx context.Context, s *slots.Slot) (err error) {
	s.Incomplete = false
	for i := range s.Recipe.Arrays {
		a := &s.Recipe.Arrays[i]
		if !a.IsColumn() {
			continue
		}
		var rows unified.Tensor
		ids, view := s.RowIDs(a)
		if view {
			rows, err = s.Tensor(a.Base).Rows(0, ids.Len())
		} else {
			rows, err = r.beginArray(ctx, s, i, ids)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
		s.SetColumn(i, rows)
	}
	return nil
}

func (r *Readers) beginArray(ctx context.Context, s *slots.Slot, i int, ids unified.Tensor) (unified.Tensor, error) {
	from := &r.of[i]
	done, err := from.Begin(ctx, s, tier.Want{Array: i, Column: from.column, IDs: ids})
	if err != nil {
		return unified.Tensor{}, err
	}
	s.Incomplete = s.Incomplete || !done
	return s.Rows(i, ids.Len())
}

// Finish waits for what was begun, and counts how long that took.
func (r *Readers) Finish(ctx context.Context, s *slots.Slot, stats *Counters) (waited time.Duration, err error) {
	lane := timeline.Of(ctx)
	for _, reader := range r.all {
		begin := time.Now()
		w, e := reader.Finish(ctx, s)
		lane.Ended("wait for rows", min(w, time.Since(begin))) // it may have waited in Begin
		if waited += w; e != nil {
			err = e
			break
		}
	}
	if s.Incomplete || waited+s.Awaited > 0 {
		stats.Disk.Add(waited + s.Awaited)
	}
	return waited, err
}

func (r *Readers) Cancel() {
	for _, reader := range r.all {
		reader.Cancel()
	}
}

func (r *Readers) Close() error {
	var errs []error
	for _, reader := range r.all {
		errs = append(errs, reader.Close())
	}
	r.all = nil
	return errors.Join(errs...)
}
