// Package makers says what makes batches, one at a time, from seeds to columns, and counts what that takes.
package makers

import (
	"context"
	"errors"
	"runtime/trace"
	"time"

	"github.com/khop-gnn/khop/internal/timeline"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/pinned"
)

// Maker makes batches: sample, fetch and finish, in this order. What fetch begins may go on until finish, and after it
// as far as the slot's fence says so.
type Maker interface {
	slots.Sampler
	// Fetch begins to bring the rows of the columns.
	Fetch(ctx context.Context, s *slots.Slot) error
	// Finish completes what fetch began, or leaves it to the fence.
	Finish(ctx context.Context, s *slots.Slot) error
	// Cancel gives up a batch that failed.
	Cancel()
}

// drain waits until nothing that a maker began writes to any slot, on a device.
func drain(m Maker) error {
	if d, ok := m.(interface{ Drain() error }); ok {
		return d.Drain()
	}
	return nil
}

// BytesInFlight is a trace's counter of rows that were asked for and are not there yet, of all loaders of the process.
const BytesInFlight = "bytes in flight"

// Crew is what the workers of a loader have in common.
type Crew struct {
	Recipe    *recipe.Recipe
	OpenMaker func() (Maker, error)
	Explain   func(error) error // adds to an error what can be done about it
	Stats     *Counters
}

// Worker makes batches with a maker, one at a time, from seeds to columns. It is used by one goroutine at a time.
type Worker struct {
	*Crew
	Maker  Maker
	broken bool // it panicked or faulted: its scratch may be half written
}

// Open gives the worker a maker, a new one if the last is broken.
func (w *Worker) Open() (err error) {
	if w.Maker != nil && !w.broken {
		return nil
	}
	if err := w.Close(); err != nil {
		return err
	}
	w.broken = false
	w.Maker, err = w.OpenMaker()
	return err
}

func (w *Worker) Close() error {
	if w.Maker == nil {
		return nil
	}
	m := w.Maker
	w.Maker = nil
	return m.Close()
}

// Drain waits until nothing that the worker began writes to any slot.
func (w *Worker) Drain() error {
	if w.Maker == nil { // it could not be opened again
		return nil
	}
	return drain(w.Maker)
}

// Make makes a batch in the slot, and calls made once it is complete; nil for nothing. Faults and panics become errors.
func (w *Worker) Make(ctx context.Context, s *slots.Slot, j slots.Job, made func() error) error {
	begin, lane := time.Now(), timeline.Of(ctx)
	region, span := trace.StartRegion(ctx, "khop.sample"), lane.Begin("sample", -1)
	err := w.SampleOnly(ctx, s, j)
	span.End()
	region.End()
	if err != nil {
		return err
	}
	w.Stats.Sample.Add(time.Since(begin) - s.Awaited)
	region = trace.StartRegion(ctx, "khop.gather")
	from := lane.Now()
	err = w.checked(s, j, func() error {
		span := lane.Begin("fetch", -1)
		err := s.To(slots.Fetching, w.Maker.Fetch(ctx, s))
		if span.End(); err != nil {
			return err
		}
		span = lane.Begin("finish", -1)
		err = w.Maker.Finish(ctx, s)
		span.End()
		return s.To(slots.Ready, err)
	})
	region.End()
	if lane != nil && s.Fence == nil { // whose stream brings them, else
		lane.Change(BytesInFlight, s.RowBytes(), from, lane.Now())
	}
	s.ReadyAt = time.Now()
	if err == nil && made != nil {
		err = w.checked(s, j, func() error {
			if err := s.Sync(); err != nil {
				return err
			}
			return made()
		})
	}
	return err
}

// SampleOnly makes a batch without its columns.
func (w *Worker) SampleOnly(ctx context.Context, s *slots.Slot, j slots.Job) error {
	return w.checked(s, j, func() error { return s.Fill(ctx, w.Maker, j) })
}

// checked calls f, and says of its error where it happened. What may be half written is made anew.
func (w *Worker) checked(s *slots.Slot, j slots.Job, f func() error) error {
	err := errs.Guarded(f)
	if err == nil {
		return nil
	}
	w.Maker.Cancel()
	if errors.Is(err, errs.ErrSampler) {
		w.broken = true
		err = errors.Join(err, drain(w.Maker), s.Repair())
	}
	w.broken = w.broken || errors.Is(err, pinned.ErrFault)
	return w.Recipe.Explain(w.Explain(err), j.Epoch, j.Number)
}
