// Package plan says how many workers and slots a loader has, and what memory they need, and where batches are made.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/makers"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/presamplers"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
)

// Plan is how many workers and slots a loader has, and what memory those need.
type Plan struct {
	*presamplers.Kit
	On  Processor
	Set *tiers.Set

	Workers, Prefetch int
	AnyWorkers        bool                  // the number of workers is the default
	MaxMemory         int64                 // 0: no limit but room
	Room              int64                 // what the control group leaves; 0 where none limits memory
	Free              int64                 // what the machine had room for when this was settled
	PerSlot           int64                 // what the caller keeps for each slot besides
	Soon              bool                  // small slots are not tried
	OfRank            func(n uint64) uint64 // how many batches this rank has of n that all share
	Estimate          Estimate
}

// Estimate is that of package loader.
type Estimate struct {
	Workers, Prefetch, Slots int
	Expected, Bound          tier.Memory
	SlotBound                int64
	Device, DeviceBound      tier.Memory
	FileBytes                int64
}

// Processor is where batches are made. There is one for a placed source, and its loaders share it: the CPU or a device.
// All that differs between them is behind this interface, and the samplers, makers and fences that it opens.
type Processor interface {
	// String returns the name that options give it.
	String() string
	// DefaultWorkers returns how many workers a loader has where nobody says.
	DefaultWorkers() int
	// ReadsTopology reports whether the processor itself reads the topology, and finds room for all of it: in memory of
	// its own, or in room bytes of the host's. Else the topology stays on disk.
	ReadsTopology(p *Plan, room int64) bool
	// ChooseTiers finds a tier for each column of a set.
	ChooseTiers(s *tiers.Set)
	// Fit settles on numbers of workers and slots, and estimates what they take.
	Fit(p *Plan) error
	// Expect adds to an estimate of fit what is held once New has returned: bytes of all slots, and of one worker's
	// scratch on the CPU.
	Expect(e *Estimate, batches, scratch int64)
	// Place brings the arrays of p's set to where the processor reads them.
	Place(ctx context.Context, p *Plan) error
	// OpenMaker makes a maker of the batches of p, which have rows of columns: by array.
	OpenMaker(p *Plan, columns []*placed.Column, ledger *pinned.Ledger, stats *makers.Counters) (makers.Maker, error)
	// SlotMemory says where the memory of a slot comes from, and makes its fence, which is nil on the CPU.
	SlotMemory(p *Plan, ledger *pinned.Ledger, stats *makers.Counters) (slots.Memory, error)
	// Bounded reports whether a limit of memory gives each slot that of the largest batch in advance.
	Bounded() bool
	// Explain adds to an error what can be done about it.
	Explain(err error, maxMemory int64) error
	// Close frees what place took. Nobody may read it any more.
	Close() error
}

// Limit returns the most host memory that the loaders of a placed source take: MaxMemory, or what the control group
// leaves; 0 for no limit.
func (p *Plan) Limit() int64 {
	if p.MaxMemory > 0 {
		return p.MaxMemory
	}
	return p.Room
}

// memoryRoom returns the memory that there is for the loaders.
func (p *Plan) memoryRoom() int64 { return cmp.Or(p.Limit(), p.Free) }

// defaultCache returns the default of the cache of rows on disk.
func (p *Plan) defaultCache() int64 { return max(p.memoryRoom()/2, 1) }

// StayOnDisk decides which columns stay on disk, and whether the topology does; where auto says so, only if memory has
// no room for all. It reports whether rows are read from disk, and sets the default of a cache.
func (p *Plan) StayOnDisk(o *disk.Options, auto bool) bool {
	mapped, total := disk.InFiles(p.Set.Columns, p.Log)
	cache := cmp.Or(o.CacheBytes, p.defaultCache())
	paged := disk.PageTopology(p.Recipe, cache, p.Set.Loaders)
	if paged != nil && p.On.ReadsTopology(p, p.memoryRoom()-cache) {
		p.Log.Info("the topology is not read from disk", "bytes", paged.Bytes, "cache", cache, "why",
			"memory that the device reads has room for it")
		paged = nil
	}
	if auto && (p.Set.SourceBytes().Total() < p.memoryRoom()/10*9 ||
		len(mapped) == 0 && paged == nil) {
		return false
	}
	o.CacheBytes, p.Paged = cache, paged
	if paged != nil {
		paged.Lands = !p.On.Bounded()
	}
	p.Set.Disk = disk.Split(mapped, total, *o, p.Set.Loaders, p.Log)
	if paged != nil && p.AnyWorkers {
		p.Workers = PagedWorkers()
	}
	return true
}

// ReadRemote has rows of the columns that a Remote has come through a cache, in place of those on disk. It returns the
// size of that.
func (p *Plan) ReadRemote(o disk.Options) (cache int64) {
	o.CacheBytes = cmp.Or(o.CacheBytes, p.defaultCache())
	p.Set.ReadRemote(o)
	return o.CacheBytes
}

// PagedWorkers is the default number of workers for a topology on disk: while some wait for the disk, others sample.
func PagedWorkers() int { return 2*machine.Workers() + 2 }

// spareWorkers reports whether there are more workers than cores by default.
func (p *Plan) spareWorkers() bool {
	return p.Paged != nil && p.AnyWorkers && p.Workers > machine.Workers()
}

// pagedMemory returns what a topology on disk takes.
func (p *Plan) pagedMemory() int64 {
	samplers := p.Workers
	if d := p.Set.Disk; d != nil && len(d.OnDisk) > 0 {
		samplers += disk.Presamplers(p.Workers)
	}
	return p.Paged.Memory(samplers)
}

// landing returns what samples that the CPU makes for a device take, where each worker has one of sample bytes, and
// scratch.
func (p *Plan) landing(sample, scratch int64) int64 {
	if p.Paged == nil || !p.Paged.Lands {
		return 0
	}
	sample = min(sample, p.WithoutColumns())
	return sat.Mul(int64(p.Workers), sat.Add(scratch, sat.Add(sample, sample/4))) // buffers grow by a quarter more
}

// cost returns what the tiers take, where a batch without rows takes sampled bytes, and a sampler scratch.
func (p *Plan) cost(sampled, scratch int64) tier.Memory {
	batch, _ := p.slotBound()
	return p.Set.Cost(p.Recipe, tier.Bound{Workers: p.Workers, Slots: p.Workers + p.Prefetch, Sampled: sampled,
		Worker: scratch, Batch: batch})
}

// slotBound returns the most that the memory of one slot takes, and the most that one array of it does.
func (p *Plan) slotBound() (total, largest int64) {
	total, largest = p.Recipe.SlotBound()
	return sat.Add(total, p.PerSlot), largest
}

// number sets the numbers of the estimate, and returns that.
func (p *Plan) number() *Estimate {
	e := &p.Estimate
	e.Workers, e.Prefetch, e.Slots = p.Workers, p.Prefetch, p.Workers+p.Prefetch
	return e
}

// TooMuch is the error where there is room for less than the estimate.
func (e *Estimate) TooMuch(room int64) error {
	m := &e.Expected
	return fmt.Errorf("%w: %s are needed (%s for copies of the source, %s for %d batches, %s for scratch), and there "+
		"is room for %s; %s", errs.ErrMemory, machine.Bytes(m.Total()), machine.Bytes(m.Topology+m.Columns),
		machine.Bytes(m.Batches), e.Slots, machine.Bytes(m.Scratch), machine.Bytes(max(room, 0)), RemedyMemory)
}

// RemedyMemory says what to do where memory is short.
const RemedyMemory = "take smaller batches, smaller fan-outs, fewer columns, workers or batches ahead, or allow more " +
	"(MaxMemory, the control group)"

// needs is what batches on trial took, in bytes.
type needs struct {
	slot    int64 // of a batch, with room for larger ones
	scratch int64 // of a sampler
	tables  int64 // of all samplers together
}

// LeastTried is how many batches are sampled to learn how large they are.
const LeastTried = 4

// Foresee estimates what will be held, without taking it: it samples a few batches in one slot to learn their size.
func (p *Plan) Foresee(ctx context.Context) (err error) {
	if err := p.On.Fit(p); err != nil {
		return err
	}
	var ledger pinned.Ledger
	ledger.SetLimit(p.Limit())
	var owned []io.Closer
	defer func() { err = errors.Join(err, p.CloseShared(), tiers.CloseAll(owned)) }()
	if err := p.Paged.Open(p.Recipe, &pinned.Ledger{}, &owned); err != nil { // counted by pagedMemory
		return p.ExplainMemory(err)
	}
	if err := p.OpenShared(ctx, &ledger); err != nil {
		return p.ExplainMemory(err)
	}
	p.Paged.Begin()
	needs, err := p.tryBatches(ctx, &ledger)
	if err != nil {
		return err
	}
	needs.tables = ledger.Used(pinned.Scratch)
	if err := p.Expect(needs); err != nil {
		return err
	}
	if limit := p.Limit(); limit > 0 && p.Estimate.Expected.Total() > limit {
		return p.Estimate.TooMuch(limit)
	}
	return nil
}

// ExplainMemory adds to an error what can be done about it.
func (p *Plan) ExplainMemory(err error) error { return p.On.Explain(err, p.MaxMemory) }

// Bounded reports whether each slot is given the memory of the largest batch in advance.
func (p *Plan) Bounded() bool { return p.MaxMemory > 0 && p.On.Bounded() }

// mostUntried is how many bytes all slots of a loader that is to be there soon take at most where none is filled on
// trial and touched: the first batches take less time to touch their memory than it takes to learn how much that is.
const mostUntried = 4 << 20

// Untried reports whether slots take memory as batches need it, up to their bound.
func (p *Plan) Untried() bool {
	e := &p.Estimate
	return p.Soon && p.On.Bounded() && sat.Mul(int64(e.Slots), e.SlotBound) <= mostUntried
}

// tryBatches samples some batches in one slot to learn how large they are. Its memory is given back.
func (p *Plan) tryBatches(ctx context.Context, within *pinned.Ledger) (n needs, err error) {
	if p.Untried() {
		return needs{slot: p.Estimate.SlotBound, scratch: p.MostScratch()}, nil
	}
	ledger, z := pinned.Ledger{Within: within}, slots.Sizes{Limited: p.Bounded()}
	err = p.Trial(ctx, min(p.Batches, LeastTried), &ledger, func(s *slots.Slot) {
		z.Learn(s)
		n.scratch = ledger.Used(pinned.Scratch)
	})
	failed := presamplers.FailedBatch{}
	if errors.As(err, &failed) && !errors.Is(err, pinned.ErrLimit) && ctx.Err() == nil {
		p.Log.Debug("a batch on trial failed", "error", err) // it is left for the epoch to report
	} else if err != nil {
		return n, p.ExplainMemory(err)
	}
	n.slot = z.Total() + p.LinkBytes()
	if p.Bounded() { // all of it is taken
		n.slot, _ = p.slotBound()
	}
	return n, nil
}

// spareRoom returns the memory to leave free if there are spare workers: a part of the estimate. Batches differ.
const spareRoom = 8

// Expect sets what is expected of each of some loaders. Workers that a topology on disk has by default beyond the cores
// become fewer until that is within the room.
func (p *Plan) Expect(n needs) error {
	had, e := p.Workers, &p.Estimate
	for {
		p.On.Expect(e, sat.Mul(int64(e.Slots), n.slot), n.scratch)
		e.Expected.Scratch = sat.Add(e.Expected.Scratch, sat.Add(n.tables,
			sat.Add(p.pagedMemory(), sat.Add(p.landing(n.slot, n.scratch), p.cost(n.slot, n.scratch).Scratch))))
		m := &e.Expected
		all := sat.Add(m.Topology+m.Columns, sat.Mul(int64(p.Set.Loaders), sat.Add(m.Batches, m.Scratch)))
		if limit := p.Limit(); !p.spareWorkers() || limit == 0 || sat.Add(all, all/spareRoom) <= limit {
			break
		}
		p.Workers--
		if err := p.On.Fit(p); err != nil {
			return err
		}
	}
	if p.Workers < had {
		p.Log.Info("fewer workers than a topology on disk has by default, to keep within the room", "room", p.Limit(),
			"workers", p.Workers)
	}
	return nil
}

// FitWorkers drops spare workers until the estimate is within the room. tables is the bytes that all samplers share.
func (p *Plan) FitWorkers(ctx context.Context, ledger *pinned.Ledger, tables int64) error {
	if !p.spareWorkers() || p.Limit() == 0 || p.Bounded() || p.Batches == 0 {
		return nil
	}
	n, err := p.tryBatches(ctx, ledger)
	if err != nil {
		return err
	}
	n.tables = tables
	had := p.Estimate
	if err = p.On.Fit(p); err == nil {
		err = p.Expect(n)
	}
	e := p.Estimate
	p.Estimate = had // without the source's memory, where others share that
	p.Estimate.Workers, p.Estimate.Slots = e.Workers, e.Slots
	p.Estimate.Bound.Batches, p.Estimate.Bound.Scratch = e.Bound.Batches, e.Bound.Scratch
	return err
}

// ProbeMachine is a variable for tests only.
var ProbeMachine = machine.Probe

// Settle decides for a source and options of package loader, which is above this one and sets it. The cache is the one
// in effect.
var Settle func(src, options any) (*Plan, disk.Options, error)
