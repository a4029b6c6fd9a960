package loader

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/trace"
	"time"

	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// worker makes batches with a maker, one at a time, from seeds to columns. It is used by one goroutine at a time.
type worker struct {
	loader *Loader
	maker  maker
	broken bool // it panicked or faulted: its scratch may be half written
}

// open gives the worker a maker, a new one if the last is broken.
func (w *worker) open() (err error) {
	if w.maker != nil && !w.broken {
		return nil
	}
	if err := w.close(); err != nil {
		return err
	}
	l := w.loader
	w.broken = false
	w.maker, err = l.placed.on.openMaker(l.recipe, l.columns, l.ledger, &l.stats)
	return err
}

func (w *worker) close() error {
	if w.maker == nil {
		return nil
	}
	m := w.maker
	w.maker = nil
	return m.close()
}

// job is one batch to make.
type job struct {
	epoch  uint32
	number uint64
	order  *rng.Permutation // nil: the order given
}

// make makes a batch in the slot. Faults and panics become errors.
func (w *worker) make(ctx context.Context, s *slot, j job) error {
	l := w.loader
	begin := time.Now()
	region := trace.StartRegion(ctx, "khop.sample")
	err := w.sampleOnly(ctx, s, j)
	region.End()
	if err != nil {
		return err
	}
	l.stats.sample.add(time.Since(begin) - s.awaited)
	region = trace.StartRegion(ctx, "khop.gather")
	err = w.checked(s, j, func() error {
		if err := s.to(fetching, w.maker.fetch(ctx, s)); err != nil {
			return err
		}
		return s.to(ready, w.maker.finish(ctx, s))
	})
	region.End()
	s.readyAt = time.Now()
	if err == nil && l.opt.Hooks.Made != nil {
		err = w.checked(s, j, func() error {
			if err := s.fence.sync(); err != nil {
				return err
			}
			return l.opt.Hooks.Made(s.batch)
		})
	}
	return err
}

// sampleOnly makes a batch without its columns.
func (w *worker) sampleOnly(ctx context.Context, s *slot, j job) error {
	return w.checked(s, j, func() error { return s.fill(ctx, w.maker, j) })
}

// checked calls f, and says of its error where it happened. What may be half written is made anew.
func (w *worker) checked(s *slot, j job, f func() error) error {
	err := guarded(f)
	if err == nil {
		return nil
	}
	w.maker.cancel()
	if errors.Is(err, ErrSampler) {
		w.broken = true
		err = errors.Join(err, drain(w.maker), s.repair())
	}
	w.broken = w.broken || errors.Is(err, pinned.ErrFault)
	return w.loader.explain(w.loader.placed.on.explain(err, &w.loader.opt), j)
}

// guarded calls f, which may be anybody's: its panics become ErrSampler, faults in mapped files pinned.ErrFault.
func guarded(f func() error) (err error) {
	defer recovered(&err)
	return pinned.Guard(f)
}

// recovered, deferred, makes an error of a panic: samplers may be anybody's.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: panic: %v\n%s", ErrSampler, p, debug.Stack())
	}
}

// explain says where an error happened.
func (r *recipe) explain(err error, j job) error {
	return fmt.Errorf("epoch %d, batch %d: %w", j.epoch, j.number, r.explainDamage(err))
}

// fill samples a batch in the slot.
func (s *slot) fill(ctx context.Context, m sampler, j job) error {
	opt := &s.recipe.opt
	s.request.Rand = sampling.NewRand(opt.Seed, j.epoch, opt.Instance, j.number)
	if err := s.takeSeeds(m, j); err != nil {
		return err
	}
	if err := m.sample(ctx, s); err != nil {
		return err
	}
	return s.to(sampled, s.checkSample())
}

// takeSeeds looks up the batch's seeds, by type.
func (s *slot) takeSeeds(m sampler, j job) error {
	r := s.recipe
	lo := int64(j.number) * int64(r.opt.BatchSize)
	hi := min(lo+int64(r.opt.BatchSize), r.seeds.Count)
	if s.links != nil {
		return s.takeLinks(m, j, lo, hi)
	}
	for t := range s.request.Seeds {
		s.request.Seeds[t], s.items[t] = nil, s.items[t][:0]
		if most := r.mostSeeds(t); most > 0 { // room for as many as there can be
			room, err := unified.Grow[int64](&s.seedIDs[t], most, 0)
			if err != nil {
				return err
			}
			s.request.Seeds[t] = room[:0]
		}
	}
	for t := range s.request.Times {
		s.request.Times[t] = s.request.Times[t][:0]
	}
	s.request.Items = s.request.Items[:0]
	for i := lo; i < hi; i++ {
		item := i
		if j.order != nil {
			item = int64(j.order.At(uint64(i)))
		}
		if r.seeds.Numbers {
			s.request.Items = append(s.request.Items, item)
			continue
		}
		t, id := r.seeds.At(item)
		s.request.Seeds[t] = append(s.request.Seeds[t], id)
		s.items[t] = append(s.items[t], item)
		if s.request.Times != nil {
			s.request.Times[t] = append(s.request.Times[t], r.seeds.TimeAt(item))
		}
	}
	return nil
}

// rowIDs returns which rows an array has of its column, and whether it is the beginning of its Base.
func (s *slot) rowIDs(a *Array) (ids unified.Tensor, view bool) {
	switch a.Kind {
	case ArrayEdgeColumn:
		at := s.recipe.find(ArrayEdgePos, a.Layer, a.Type, "")
		return s.tensor(at), s.isView(at)
	case ArraySeedColumn:
		ids, _ = s.sample.Nodes[a.Type].Rows(0, s.sample.NumNodes[0][a.Type]) // checkSample saw that there are as many
		return ids, false
	default:
		return s.sample.Nodes[a.Type], false
	}
}
