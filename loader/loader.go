package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
)

// Loader loads the mini-batches of one source. Make it with New and Close it.
//
// One epoch at a time may be under way; all other methods may be called at any time by any goroutine. Several loaders
// may share a source.
type Loader struct {
	*recipe
	placed   *Placed
	columns  []*tiers.Column // [array]; nil for what is not a column
	estimate Estimate
	ledger   *pinned.Ledger

	workers []*worker
	ahead   *tiers.Ahead // nil but with columns on disk
	slots   []*slot
	free    *freeList
	stats   counters

	metering metering

	closeOnce sync.Once
	mu        sync.Mutex // guards the following, and what slots and batches say of it
	closed    bool
	closeErr  error
	running   *run
	held      int // slots of kept batches
}

// New is NewContext with a context that never ends.
func New(src Source, opt Options) (*Loader, error) { return NewContext(context.Background(), src, opt) }

// NewContext makes a loader. It checks options and seeds, places the source if it is no Placed, samples some batches to
// learn their size, and takes the memory for all that follow. It stops with context.Cause when ctx ends; the loader
// does not depend on ctx afterwards.
//
// Errors: ErrOptions, ErrDevice, ErrMemory, graph.ErrNoSplit, graph.ErrSeed, those of Sampler.Validate, and
// pinned.ErrFault where a mapped file was cut short.
func NewContext(ctx context.Context, src Source, opt Options) (*Loader, error) {
	l, err := newLoader(ctx, src, opt)
	if err != nil {
		return nil, err
	}
	err = l.explainDamage(pinned.Guard(func() error { return l.prepare(ctx) }))
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// newLoader returns a loader without memory of its own, which has a part in a placed source.
func newLoader(ctx context.Context, src Source, opt Options) (l *Loader, err error) {
	if p, ok := src.(*Placed); ok {
		l = &Loader{placed: p, ledger: &pinned.Ledger{Within: &p.ledger}}
		if l.recipe, err = p.recipeFor(opt); err != nil {
			return nil, err
		}
		err = p.join(l)
		l.estimate.Bound.Topology, l.estimate.Bound.Columns = 0, 0 // not this loader's
		return l, err
	}
	p, err := newPlaced(ctx, src, opt, 1, keepAtOnce)
	if err != nil {
		return nil, err
	}
	l = &Loader{placed: p, ledger: &p.ledger, recipe: p.recipe}
	return l, errors.Join(p.join(l), p.Close())
}

// prepare makes the workers and takes the memory.
func (l *Loader) prepare(ctx context.Context) error {
	before := l.ledger.Used(pinned.Scratch)
	if err := l.openShared(ctx, l.ledger); err != nil {
		return l.placed.on.explain(err, &l.opt)
	}
	tables := l.ledger.Used(pinned.Scratch) - before
	l.paged.begin()
	if err := l.fitWorkers(ctx, tables); err != nil {
		return err
	}
	if err := l.openAhead(); err != nil {
		return l.placed.on.explain(err, &l.opt)
	}
	if err := l.openWorkers(); err != nil {
		return err
	}
	if err := l.prepareSlots(ctx); err != nil {
		return err
	}
	l.estimate.Expected, l.estimate.Device = l.memory(), l.deviceMemory()
	l.opt.log().Info("loader ready", "source", l.name, "seeds", l.opt.Seeds.String(), "batches", l.batches, "device",
		l.opt.Device.Name, "workers", l.opt.Workers, "slots", len(l.slots), "memory", l.estimate.Expected.Total(),
		"memory_bound", l.estimate.Bound.Total(), "device_memory", l.estimate.Device.Total())
	return nil
}

func (l *Loader) openWorkers() error {
	for range l.opt.Workers {
		w := &worker{loader: l}
		l.workers = append(l.workers, w)
		if err := w.open(); err != nil {
			return l.placed.on.explain(err, &l.opt)
		}
	}
	return nil
}

// Options returns the options in effect: defaults filled in, Seeds as they turned out, Workers and Prefetch after
// MaxMemory.
func (l *Loader) Options() Options { return l.opt }

// Schema returns the source's schema. It must not be changed.
func (l *Loader) Schema() *graph.Schema { return l.graph.Schema() }

// Placed returns where each array of the source is that a device reads; nil on the CPU.
func (l *Loader) Placed() []PlacedArray { return l.placed.Arrays() }

// Graph returns the graph that is read: the source's, or with Resident the copy, which is valid until Close.
func (l *Loader) Graph() *graph.Graph { return l.graph }

// NumLayers returns the layers of blocks that each sample has.
func (l *Loader) NumLayers() int { return l.bound.Layers }

// AllBatches returns the batches of an epoch over all ranks.
func (l *Loader) AllBatches() uint64 { return l.batches }

// NumBatchesFrom returns the batches that this rank yields from batch next of an epoch on, over all ranks, to its end.
func (l *Loader) NumBatchesFrom(next uint64) uint64 {
	return l.rounds(l.batches - min(next, l.batches))
}

// NumBatches returns the batches of an epoch that this rank yields.
func (l *Loader) NumBatches() uint64 { return l.rounds(l.batches) }

// NumSeeds returns the seeds that an epoch goes over, over all ranks.
func (l *Loader) NumSeeds() int64 { return l.seeds.Count }

// allHeld reports whether every slot holds a kept batch.
func (l *Loader) allHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held == len(l.slots)
}

// heldError says who holds the slots.
func (l *Loader) heldError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := ""
	for _, s := range l.slots {
		if s.batch.kept {
			text += fmt.Sprintf(", %d of epoch %d", s.batch.Number, s.batch.Epoch)
		}
	}
	return fmt.Errorf("%w: batches %s were kept and not released for %v: release some, or raise Prefetch",
		ErrSlotsHeld, text[min(2, len(text)):], l.opt.Tuning.SlotTimeout)
}

// Close ends an epoch under way (its loop gets ErrClosed), waits for the workers, and frees all memory; that of batches
// that are in a loop body or were kept when the body ends or Release is called. It may be called in a loop body. Later
// calls return the first result.
func (l *Loader) Close() error {
	l.closeOnce.Do(func() {
		l.mu.Lock()
		l.closed = true
		r := l.running
		l.mu.Unlock()
		if r != nil {
			r.cancel(ErrClosed)
			r.wg.Wait()
		}
		l.freeAll(l.metering.close())
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closeErr
}

func (l *Loader) freeAll(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := []error{err}
	for _, w := range l.workers {
		errs = append(errs, w.close())
	}
	for _, s := range l.slots {
		if !s.inBody && !s.batch.kept {
			errs = append(errs, s.close())
		}
	}
	errs = append(errs, l.ahead.Close(), l.closeShared(), l.placed.release())
	l.closeErr = errors.Join(errs...)
}
