package loader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/unified"
)

// readers fetch the rows of the batches that a worker makes.
type readers struct {
	of  []arrayReader // [array]; none for what is not a column
	all []tier.Reader // each once
}

// arrayReader is who fetches the rows of an array, and what it calls their column.
type arrayReader struct {
	tier.Reader
	column int
}

// openReaders opens a reader of each tier that has one of the columns: by array, nil for what is not a column.
func openReaders(columns []*tiers.Column, w tier.Worker) (r readers, err error) {
	r.of = make([]arrayReader, len(columns))
	opened := map[*tiers.PlacedTier]tier.Reader{}
	for i, c := range columns {
		if c == nil {
			continue
		}
		reader, ok := opened[c.Tier]
		if !ok {
			if reader, err = c.Tier.Reader(w); err != nil {
				return r, errors.Join(err, r.close())
			}
			opened[c.Tier] = reader
			r.all = append(r.all, reader)
		}
		r.of[i] = arrayReader{reader, c.Number}
	}
	return r, nil
}

// expect tells readers that can begin before the batch is sampled which one it is.
func (r *readers) expect(ctx context.Context, s *slot) error {
	if s.turn == 0 { // on trial
		return nil
	}
	for _, reader := range r.all {
		if early, ok := reader.(tier.Early); ok {
			if err := early.Expect(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin begins to fetch the rows of all columns, in the order of the list.
func (r *readers) begin(ctx context.Context, s *slot) (err error) {
	s.incomplete = false
	for i := range s.recipe.arrays {
		a, g := &s.recipe.arrays[i], &s.rows[i]
		if !a.IsColumn() {
			continue
		}
		ids, view := s.rowIDs(a)
		if view {
			g.tensor, err = s.rows[a.Base].tensor.Rows(0, ids.Len())
		} else {
			g.tensor, err = r.beginArray(ctx, s, i, ids)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
	}
	return nil
}

func (r *readers) beginArray(ctx context.Context, s *slot, i int, ids unified.Tensor) (unified.Tensor, error) {
	from := &r.of[i]
	done, err := from.Begin(ctx, s, tier.Want{Array: i, Column: from.column, IDs: ids})
	if err != nil {
		return unified.Tensor{}, err
	}
	s.incomplete = s.incomplete || !done
	return s.Rows(i, ids.Len())
}

// finish waits for what was begun, and counts how long that took.
func (r *readers) finish(ctx context.Context, s *slot, stats *counters) (waited time.Duration, err error) {
	for _, reader := range r.all {
		w, e := reader.Finish(ctx, s)
		if waited += w; e != nil {
			err = e
			break
		}
	}
	if s.incomplete || s.awaited > 0 {
		stats.disk.add(waited + s.awaited)
	}
	return waited, err
}

func (r *readers) cancel() {
	for _, reader := range r.all {
		reader.Cancel()
	}
}

func (r *readers) close() error {
	var errs []error
	for _, reader := range r.all {
		errs = append(errs, reader.Close())
	}
	r.all = nil
	return errors.Join(errs...)
}
