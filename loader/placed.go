package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/internal/oncuda"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
)

// Placed is a source whose graph and columns are where a processor reads them: mapped, resident, or on a device. Place
// makes one for several loaders, such as the ranks of a server. It is a Source, safe for concurrent use.
//
// MaxMemory and DeviceMemory hold for the placed source and all its loaders together.
type Placed struct {
	src     Source
	settled        // for the loaders that it was made for
	fleet   *fleet // whose members read each other's caches; nil: nobody else reads its own

	mu    sync.Mutex
	users int // who placed it, and each loader
	taken int // loaders that there ever were
	ended bool
}

// Place brings the graph, and the columns that opt names, once to where loaders on opt.Device read them. New then makes
// loaders that share the result: up to loaders of them at the same time, among which the limits of opt are divided.
// Their options name the same device or "auto", and columns that opt names; their Residence, MaxMemory, DeviceMemory,
// DeviceCache, HostPages, Carry and HotRows are ignored. If several loaders share the source, RankUses ranks rows once,
// as RankPresample does, not again by use.
//
// The source must stay open until the loaders and the result are closed. Errors are those of New.
func Place(ctx context.Context, src Source, opt Options, loaders int) (*Placed, error) {
	if loaders < 1 {
		return nil, fmt.Errorf("%w: %d loaders share a placed source: must be 1 or more", ErrOptions, loaders)
	}
	if p, ok := src.(*Placed); ok {
		return nil, fmt.Errorf("%w: %s is placed already", ErrOptions, p.plan.Name)
	}
	return newPlaced(ctx, src, opt, loaders, false)
}

func newPlaced(ctx context.Context, src Source, opt Options, loaders int, shareLater bool) (*Placed, error) {
	s, err := settle(src, opt, loaders)
	if err != nil {
		return nil, err
	}
	p := &Placed{src: src, settled: s, users: 1}
	if d, ok := p.plan.On.(*oncuda.Processor); ok {
		d.ShareLater = shareLater
	}
	err = p.plan.ExplainDamage(pinned.Guard(func() error { return p.bring(ctx) }))
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// bring brings all arrays to where they are read.
func (p *Placed) bring(ctx context.Context) error {
	if err := p.plan.On.Fit(p.plan); err != nil {
		return err
	}
	p.Ledger().SetLimit(p.plan.Limit())
	if err := p.verify(ctx); err != nil {
		return err
	}
	return p.plan.ExplainMemory(p.plan.On.Place(ctx, p.plan))
}

// settleFor is settle for a loader that shares the placed source.
func (p *Placed) settleFor(opt Options) (s settled, err error) {
	if s.asked, err = ask(opt); err != nil {
		return s, err
	}
	if err := p.isOn(s.asked.Device.Name); err != nil {
		return s, err
	}
	if err := s.asked.checkRequests(p.residence); err != nil {
		return s, err
	}
	r, err := bake(p, s.asked)
	if err != nil {
		return s, err
	}
	if placed := p.plan.EdgesRead; r.EdgesRead != nil && !slices.Equal(r.EdgesRead, placed) {
		return s, fmt.Errorf("%w: the sampler reads columns %q of the edges, but %s was placed for one that reads %q",
			ErrOptions, r.EdgesRead, p.plan.Name, placed)
	}
	if r.Seeds.OnRequest && !p.plan.Seeds.OnRequest && p.plan.Set.IsRemote() {
		return s, fmt.Errorf("%w: %s was placed for epochs, whose rows of other machines are known ahead: place "+
			"it for requests, too", ErrOptions, p.plan.Name)
	}
	c := choice{on: p.plan.On, workers: s.asked.Workers, anyWorkers: s.asked.anyWorkers, maxMemory: p.plan.MaxMemory,
		room: p.plan.Room, free: p.plan.Free}
	if c.anyWorkers {
		c.workers = c.on.DefaultWorkers()
		if p.plan.Paged != nil {
			c.workers = plan.PagedWorkers()
		}
	}
	s.seeds, s.sources, s.plan = r.seeds, p.sources, s.asked.newPlan(r, c)
	s.plan.Set, s.plan.Paged = p.plan.Set, p.plan.Paged
	return s, nil
}

// isOn returns ErrOptions for a device by name that the source was not placed for.
func (p *Placed) isOn(name string) error {
	if n, _ := ParseDevice(name); n >= 0 {
		name = fmt.Sprintf("cuda:%d", n)
	}
	if name != "auto" && name != p.Device() {
		return refuse("Device.Name", " is %s, but %s was placed for %s", name, p.plan.Name, p.Device())
	}
	return nil
}

// join makes l one of the placed source's loaders, which finds its columns there and how much memory it may take.
func (p *Placed) join(l *Loader) error {
	l.columns = make([]*placed.Column, len(l.plan.Arrays))
	for i := range l.plan.Arrays {
		a := &l.plan.Arrays[i]
		if !a.IsColumn() {
			continue
		}
		if l.columns[i] = p.plan.Set.Find(a); l.columns[i] == nil {
			return fmt.Errorf("%w: %s: the column was not placed: name it in the options of Place", ErrOptions, a.Name)
		}
	}
	if err := l.plan.On.Fit(l.plan); err != nil {
		return err
	}
	return p.retain()
}

// retain counts one more loader.
func (p *Placed) retain() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return fmt.Errorf("%s: %w", p.plan.Name, ErrClosed)
	}
	p.users++
	p.taken++
	return nil
}

// release counts one user less, and frees everything with the last.
func (p *Placed) release() error {
	p.mu.Lock()
	p.users--
	last := p.users == 0
	p.mu.Unlock()
	if !last {
		return nil
	}
	if p.fleet != nil {
		return p.fleet.leave()
	}
	return p.free()
}

// free frees everything. No loader may read it any more.
func (p *Placed) free() error { return errors.Join(p.plan.Set.Close(), p.plan.On.Close()) }

// alone reports whether one loader has the placed source to itself for good.
func (p *Placed) alone() bool { return p.plan.Set.Loaders == 1 && p.taken == 1 }

// Close frees the placed source, when the last loader is closed too. A later call does nothing.
func (p *Placed) Close() error {
	p.mu.Lock()
	again := p.ended
	p.ended = true
	p.mu.Unlock()
	if again {
		return nil
	}
	return p.release()
}

// ID implements Source.
func (p *Placed) ID() [16]byte { return p.src.ID() }

// Graph implements Source: it is the source's graph or its copy (Resident), valid until the last loader is closed.
func (p *Placed) Graph() *graph.Graph { return p.plan.Graph }

// Split implements Source.
func (p *Placed) Split(name string, index int) (graph.Seeds, error) { return p.src.Split(name, index) }

// Path returns the name of the source in errors.
func (p *Placed) Path() string { return p.plan.Name }

// Remedy returns the source's remedy for damage.
func (p *Placed) Remedy() string { return p.plan.Remedy }

// Verify implements Verifier, if the source does.
func (p *Placed) Verify(b []byte) error {
	if v, ok := p.src.(Verifier); ok {
		return v.Verify(b)
	}
	return nil
}

// unchanged asks the source whether it is what it was.
func (p *Placed) unchanged() error {
	if s, ok := p.src.(interface{ Unchanged() error }); ok {
		return s.Unchanged()
	}
	return nil
}

// Arrays returns the place of each array of the source that a device reads; nil on the CPU.
func (p *Placed) Arrays() []tier.PlacedArray {
	if d, ok := p.plan.On.(*oncuda.Processor); ok {
		return slices.Clone(d.Placed)
	}
	return nil
}

// BatchArrays is Loader.Arrays of the loaders that the source was placed for.
func (p *Placed) BatchArrays() []layout.Array { return p.plan.Arrays }

// Device returns where loaders of the placed source make batches: "cpu", "cuda:0" and so on.
func (p *Placed) Device() string { return p.plan.On.String() }

// Ledger returns the ledger that counts the memory of the placed source and of all its loaders, and keeps their limits.
// Code that takes memory for the loaders counts it there too, and states it in Options.Hooks.PerSlot.
func (p *Placed) Ledger() *pinned.Ledger { return &p.plan.Set.Ledger }
