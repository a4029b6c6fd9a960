package loader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/makers"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
)

// Loader loads the mini-batches of one source. Make it with New and Close it.
//
// One epoch may run at a time; all other methods may be called at any time by any goroutine. Several loaders
// may share a source. A loader whose Seeds are OnRequest has no epochs; call its Sample.
type Loader struct {
	placed *Placed
	settled
	state   State            // what all states begin as
	columns []*placed.Column // [array]; nil for what is not a column
	ledger  *pinned.Ledger

	workers []*makers.Worker
	ahead   *disk.Ahead // nil but with columns on disk
	slots   []*ownedSlot
	free    *freeList
	answers answering
	stats   totals

	closeOnce sync.Once
	mu        sync.Mutex // guards the following, and what slots and batches say of it
	closed    bool
	closeErr  error
	running   *run
	held      int    // slots of kept batches
	told      Report // of the last run

	trace traced
}

// New is NewContext with a context that never ends.
func New(src Source, opt Options) (*Loader, error) { return NewContext(context.Background(), src, opt) }

// NewContext makes a loader. It checks options and seeds, places the source unless it is a Placed, samples some batches
// to learn their size, and allocates the memory of all later ones. It stops with context.Cause when ctx ends; the
// loader does not depend on ctx afterwards.
//
// Errors: ErrOptions, ErrDevice, ErrMemory, graph.ErrNoSplit, graph.ErrSeed, those of Sampler.Describe, and
// pinned.ErrFault if a mapped file was cut short.
func NewContext(ctx context.Context, src Source, opt Options) (*Loader, error) {
	l, err := newLoader(ctx, src, opt)
	if err != nil {
		return nil, err
	}
	err = l.plan.ExplainDamage(pinned.Guard(func() error { return l.prepare(ctx) }))
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// newLoader returns a loader without memory of its own, which has a part in a placed source.
func newLoader(ctx context.Context, src Source, opt Options) (l *Loader, err error) {
	if p, ok := src.(*Placed); ok {
		l = &Loader{placed: p, ledger: &pinned.Ledger{Within: p.Ledger()}}
		if l.settled, err = p.settleFor(opt); err != nil {
			return nil, err
		}
		err = p.join(l)
		bound := &l.plan.Estimate.Bound
		bound.Topology, bound.Columns = 0, 0 // not this loader's
		return l, err
	}
	p, err := newPlaced(ctx, src, opt, 1, false)
	if err != nil {
		return nil, err
	}
	l = &Loader{placed: p, settled: p.settled, ledger: p.Ledger()}
	return l, errors.Join(p.join(l), p.Close())
}

// prepare makes the workers and takes the memory.
func (l *Loader) prepare(ctx context.Context) error {
	p, before := l.plan, l.ledger.Used(pinned.Scratch)
	if err := l.trace.open(ctx, l.asked.Tuning.Trace, l.asked.Hooks.Trace); err != nil {
		return err
	}
	l.state = newState(p.Recipe, l.placed.ID())
	if err := p.OpenShared(ctx, l.ledger); err != nil {
		return p.ExplainMemory(err)
	}
	tables := l.ledger.Used(pinned.Scratch) - before
	p.Paged.Begin()
	if err := p.FitWorkers(ctx, l.ledger, tables); err != nil {
		return err
	}
	if err := l.openAhead(); err != nil {
		return p.ExplainMemory(err)
	}
	if err := l.openWorkers(); err != nil {
		return err
	}
	if err := l.prepareSlots(ctx); err != nil {
		return err
	}
	l.trace.begin(l.asked.share(), len(l.workers), len(l.slots))
	e := &p.Estimate
	if e.Expected, e.Device = l.memory(), l.deviceMemory(); p.Untried() {
		e.Expected.Batches = max(e.Expected.Batches, sat.Mul(int64(e.Slots), e.SlotBound))
	}
	p.Log.Info("loader ready", "source", p.Name, "seeds", l.seeds.String(), "batches", p.Batches, "device",
		p.On.String(), "workers", p.Workers, "slots", len(l.slots), "memory", e.Expected.Total(),
		"memory_bound", e.Bound.Total(), "device_memory", e.Device.Total())
	if work := l.hostWork(); len(work) > 0 {
		p.Log.Info("the host has work of each batch", "device", p.On.String(), "work", strings.Join(work, "; "))
	}
	return nil
}

func (l *Loader) openWorkers() error {
	p := l.plan
	of := &makers.Crew{Recipe: p.Recipe, Explain: p.ExplainMemory, Stats: &l.stats.Counters}
	of.OpenMaker = func() (makers.Maker, error) {
		return p.On.OpenMaker(p, l.columns, l.ledger, &l.stats.Counters)
	}
	for range p.Workers {
		w := &makers.Worker{Crew: of}
		l.workers = append(l.workers, w)
		if err := w.Open(); err != nil {
			return p.ExplainMemory(err)
		}
	}
	l.answers.open(l.workers)
	return nil
}

// Schema returns the source's schema. It must not be changed.
func (l *Loader) Schema() *graph.Schema { return l.plan.Graph.Schema() }

// Placed returns the place of each array of the source that a device reads; nil on the CPU.
func (l *Loader) Placed() []tier.PlacedArray { return l.placed.Arrays() }

// Graph returns the graph that the loader reads: the source's, or with Resident the copy, which is valid until Close.
func (l *Loader) Graph() *graph.Graph { return l.plan.Graph }

// NumLayers returns the layers of blocks that each sample has.
func (l *Loader) NumLayers() int { return l.plan.Bound.Layers }

// AllBatches returns the batches of an epoch over all ranks.
func (l *Loader) AllBatches() uint64 {
	if l.plan.Seeds.OnRequest {
		return 0
	}
	return l.plan.Batches
}

// NumBatchesFrom returns the batches that this rank yields from batch next of an epoch on, over all ranks, to its end.
func (l *Loader) NumBatchesFrom(next uint64) uint64 {
	return l.plan.OfRank(l.AllBatches() - min(next, l.AllBatches()))
}

// NumBatches returns the batches of an epoch that this rank yields.
func (l *Loader) NumBatches() uint64 { return l.plan.OfRank(l.AllBatches()) }

// NumSeeds returns the seeds that an epoch goes over, over all ranks.
func (l *Loader) NumSeeds() int64 { return l.plan.Seeds.Count }

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
		ErrSlotsHeld, text[min(2, len(text)):], l.asked.Tuning.SlotTimeout)
}

// Close ends a running epoch (its loop gets ErrClosed), waits for the workers and for calls of Sample, and frees all
// memory. Memory of batches that are in a loop body or were kept is freed when the body ends or Release is called. It
// may be called in a loop body. Later calls return the first result.
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
		l.answers.close()
		l.freeAll()
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closeErr
}

func (l *Loader) freeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, w := range l.workers {
		errs = append(errs, w.Close())
	}
	for _, s := range l.slots {
		if !s.inBody && !s.batch.kept {
			errs = append(errs, s.Close())
		}
	}
	errs = append(errs, l.ahead.Close(), l.plan.CloseShared(), l.placed.release(), l.trace.close())
	l.closeErr = errors.Join(errs...)
}
