package loader

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/trace"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// worker makes batches, one at a time, from seeds to columns. It is used by one goroutine at a time.
type worker struct {
	loader  *Loader
	sampler sampling.Worker // or
	device  *deviceWorker   // where batches are made on a device
	broken  bool            // it panicked or faulted: its scratch may be half written
}

// open gives the worker a sampler, a new one if the last is broken.
func (w *worker) open() (err error) {
	if (w.sampler != nil || w.device != nil) && !w.broken {
		return nil
	}
	defer recovered(&err)
	if err := w.close(); err != nil {
		return err
	}
	l := w.loader
	w.broken = false
	env := sampling.Env{
		Graph:     l.graph,
		BatchSize: int(l.batchSize()),
		EdgePos:   l.edgePos(),
		Scratch:   pinned.Options{Ledger: &l.ledger, Purpose: pinned.Scratch},
	}
	if l.device != nil {
		w.device, err = l.device.openWorker(env)
	} else {
		w.sampler, err = l.opt.Sampler.Open(env)
	}
	return err
}

func (w *worker) close() (err error) {
	defer recovered(&err)
	s, d := w.sampler, w.device
	w.sampler, w.device = nil, nil
	if d != nil {
		return d.close()
	}
	if s == nil {
		return nil
	}
	return s.Close()
}

// job is one batch to make.
type job struct {
	epoch  uint32
	number uint64
	order  *rng.Permutation // nil: the order given
	stages stages
}

// stages says how much of a batch to make.
type stages uint8

const (
	allStages  stages = iota
	sampleOnly        // to learn sizes
)

// fill makes a batch in the slot. Faults and panics become errors.
func (w *worker) fill(ctx context.Context, s *slot, j job) (err error) {
	defer func() {
		if err != nil {
			if errors.Is(err, ErrSampler) {
				w.broken = true
				if w.device != nil { // what it may have enqueued writes to the sample
					err = errors.Join(err, w.device.picks.Synchronize())
				}
				err = errors.Join(err, s.repair())
			}
			w.broken = w.broken || errors.Is(err, pinned.ErrFault)
			err = w.loader.explain(err, j)
		}
	}()
	defer recovered(&err)
	return pinned.Guard(func() error { return w.run(ctx, s, j) })
}

// recovered, deferred, makes an error of a panic: samplers may be anybody's.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: panic: %v\n%s", ErrSampler, p, debug.Stack())
	}
}

// explain says where an error happened and what it means.
func (l *Loader) explain(err error, j job) error {
	switch {
	case errors.Is(err, pinned.ErrFault):
		err = fmt.Errorf("%s: %w", l.name, err)
	default:
		err = l.explainLimit(err)
	}
	return fmt.Errorf("epoch %d, batch %d: %w", j.epoch, j.number, err)
}

func (w *worker) run(ctx context.Context, s *slot, j job) error {
	l := w.loader
	begin := time.Now()
	region := trace.StartRegion(ctx, "khop.sample")
	err := w.sample(ctx, s, j)
	region.End()
	sampled := time.Now()
	if err != nil || j.stages == sampleOnly {
		return err
	}
	region = trace.StartRegion(ctx, "khop.gather")
	if w.device != nil {
		err = w.device.gather(s)
	} else {
		err = s.gather(nil)
	}
	region.End()
	s.readyAt = time.Now()
	l.stats.sample.add(sampled.Sub(begin))
	if w.device == nil { // a device's time is known when it is done
		l.stats.gather.add(s.readyAt.Sub(sampled))
	}
	if err == nil && l.opt.Made != nil {
		if err = s.batch.Sync(); err == nil {
			err = l.opt.Made(s.batch)
		}
	}
	return err
}

func (w *worker) sample(ctx context.Context, s *slot, j job) error {
	if err := s.takeSeeds(j); err != nil {
		return err
	}
	opt := &w.loader.opt
	s.request.Rand = sampling.NewRand(opt.Seed, j.epoch, opt.Instance, j.number)
	var err error
	if w.device != nil {
		err = w.device.sample(ctx, s)
	} else {
		err = w.sampler.Sample(ctx, &s.request, &s.sample)
	}
	if err != nil {
		return err
	}
	return s.checkSample()
}

// takeSeeds looks up the batch's seeds, by type.
func (s *slot) takeSeeds(j job) error {
	l := s.loader
	lo := int64(j.number) * int64(l.opt.BatchSize)
	hi := min(lo+int64(l.opt.BatchSize), l.seeds.n)
	for t := range s.request.Seeds {
		s.request.Seeds[t], s.items[t] = nil, s.items[t][:0]
	}
	for _, r := range l.seeds.sets { // room for as many of each type as there can be
		room, err := unified.Grow[int64](&s.seedIDs[r.nodeType], l.mostSeeds(r.nodeType), 0)
		if err != nil {
			return err
		}
		s.request.Seeds[r.nodeType] = room[:0]
	}
	for i := lo; i < hi; i++ {
		item := i
		if j.order != nil {
			item = int64(j.order.At(uint64(i)))
		}
		t, id := l.seeds.at(item)
		s.request.Seeds[t] = append(s.request.Seeds[t], id)
		s.items[t] = append(s.items[t], item)
	}
	return nil
}

// gather copies the columns' rows: on the device, in the order of stream, or where that is nil by the CPU.
func (s *slot) gather(stream *device.Stream) error {
	for i, c := range s.loader.columns {
		if c == nil {
			continue
		}
		if err := s.gatherArray(stream, i, c); err != nil {
			return fmt.Errorf("%s: %w", s.recipe.arrays[i].Name, err)
		}
	}
	return nil
}

func (s *slot) gatherArray(stream *device.Stream, i int, c *column) (err error) {
	a, g := &s.recipe.arrays[i], &s.rows[i]
	var ids unified.Tensor
	switch a.Kind {
	case ArrayNodeColumn:
		ids = s.sample.Nodes[a.Type]
	case ArraySeedColumn:
		if ids = s.sample.Nodes[a.Type]; ids.Valid() {
			if ids, err = ids.Rows(0, s.sample.NumNodes[0][a.Type]); err != nil {
				return err
			}
		}
	case ArrayEdgeColumn:
		ids = s.sample.Blocks[a.Layer][a.Type].EdgePos
		if s.isView(find(s.recipe.arrays, ArrayEdgePos, a.Layer, a.Type, "")) {
			g.tensor, err = s.rows[a.Base].tensor.Rows(0, ids.Len())
			return err
		}
	}
	return g.gather(stream, c, ids)
}
