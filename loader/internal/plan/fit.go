package plan

import (
	"context"
	"fmt"
	"log/slog"
	"math"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/tier"
)

// mostWorkers makes workers no more than there are batches of a rank. How many requests come at a time nobody knows.
func (p *Plan) mostWorkers() {
	if !p.Seeds.OnRequest {
		p.Workers = max(1, int(min(uint64(p.Workers), p.OfRank(p.Batches))))
	}
}

// FitHost makes slots and workers fewer until the bound of all loaders is within MaxMemory. resident says that the
// topology is copied.
func (p *Plan) FitHost(resident bool) error {
	p.Estimate = Estimate{}
	e := &p.Estimate
	var largest int64
	e.SlotBound, largest = p.slotBound()
	if e.FileBytes = p.Set.SourceBytes().Topology; resident {
		e.Bound.Topology, e.FileBytes = e.FileBytes, 0
	}
	for _, t := range p.Set.Tiers {
		for i := 0; i < len(t.Columns) && t.InPlace; i++ {
			e.FileBytes += t.Columns[i].CopyBytes()
		}
	}
	e.Bound.Columns = p.cost(0, 0).Columns
	p.mostWorkers()
	wanted, limit := *p.number(), (p.MaxMemory-e.Bound.Total())/int64(p.Set.Loaders)
	for {
		p.number()
		e.Bound.Batches, e.Bound.Scratch = sat.Mul(int64(e.Slots), e.SlotBound), p.scratchBound()
		if p.MaxMemory == 0 {
			// Without a limit buffers grow as needed: by a quarter more than needed, and are there twice while they
			// move.
			e.Bound.Batches = sat.Add(e.Bound.Batches, sat.Add(e.Bound.Batches/4, sat.Mul(int64(e.Workers), largest)))
			return nil
		}
		if sat.Add(e.Bound.Batches, e.Bound.Scratch) <= limit {
			p.tellFewer(&wanted)
			return nil
		}
		if !p.fewer() {
			return p.tooLittle()
		}
	}
}

// scratchBound returns the most that workers and tiers need besides slots.
func (p *Plan) scratchBound() int64 {
	tables := sat.Add(p.Negatives.Bytes(p.Graph.Schema(), p.SeededTypes()), p.Seeds.IndexBytes())
	n := sat.Add(sat.Mul(int64(p.Workers), p.MostScratch()), sat.Add(tables, max(0, p.Bound.Shared)))
	return sat.Add(n, sat.Add(p.pagedMemory(), p.cost(p.WithoutColumns(), p.MostScratch()).Scratch))
}

// fewer takes away a worker or a slot; false where there is one of each.
func (p *Plan) fewer() bool {
	switch {
	case p.spareWorkers():
		p.Workers--
	case p.Prefetch > 1:
		p.Prefetch--
	case p.Workers > 1:
		p.Workers--
	case p.Prefetch > 0: // one slot: the worker rests while the loop body runs
		p.Prefetch = 0
	default:
		return false
	}
	return true
}

// tellFewer says that there are fewer workers or slots than were wanted.
func (p *Plan) tellFewer(wanted *Estimate) {
	e := &p.Estimate
	if wanted.Workers == e.Workers && wanted.Prefetch == e.Prefetch {
		return
	}
	level := slog.LevelWarn
	if wanted.Prefetch == e.Prefetch && p.AnyWorkers && e.Workers >= machine.Workers() {
		level = slog.LevelInfo // this number is a default
	}
	p.Log.Log(context.Background(), level, "fewer workers or slots, to keep within MaxMemory",
		"max_memory", p.MaxMemory, "workers", e.Workers, "prefetch", e.Prefetch)
}

// tooLittle is the error where MaxMemory has no room for one slot.
func (p *Plan) tooLittle() error {
	e, n := &p.Estimate, int64(p.Set.Loaders)
	source := e.Bound.Topology + e.Bound.Columns
	need := sat.Add(source, sat.Mul(sat.Add(e.SlotBound, e.Bound.Scratch), n))
	return errs.NeedsBytes(fmt.Errorf("%w: %s are needed (%s for copies of the source, %s for one batch, %s for "+
		"scratch, times %d loaders), MaxMemory is %s; take smaller batches, smaller fan-outs or fewer columns",
		errs.ErrMemory, machine.Bytes(need), machine.Bytes(source), machine.Bytes(e.SlotBound),
		machine.Bytes(e.Bound.Scratch), n, machine.Bytes(p.MaxMemory)), need)
}

// FitDevice leaves the numbers: slots take what batches turn out to need, within DeviceMemory.
func (p *Plan) FitDevice() error {
	p.Estimate = Estimate{}
	p.mostWorkers()
	e := p.number()
	e.SlotBound, _ = p.slotBound()
	e.FileBytes = p.Set.SourceBytes().Total()
	tiers := p.cost(p.WithoutColumns(), p.MostScratch())
	e.Bound.Columns, e.Bound.Scratch = tiers.Columns, tiers.Scratch
	// The largest that docs/sampling.md names: four slots of 16 bytes a node, 24 bytes a destination, a bit a pick.
	scratch := sat.Add(sat.Mul(max(0, p.Recipe.Bound.Nodes), 4*16+24), max(0, p.Recipe.Bound.Edges)/8+1<<20)
	e.DeviceBound = tier.Memory{Batches: sat.Mul(int64(e.Slots), e.SlotBound),
		Scratch: sat.Mul(int64(e.Workers), scratch)}
	if p.Paged != nil { // the host samples
		e.Bound.Scratch = sat.Add(p.scratchBound(), p.landing(math.MaxInt64, 0))
		e.DeviceBound.Scratch = 0
	}
	e.Bound.Batches = min(tiers.Batches, e.DeviceBound.Batches) // several tiers may ask for the same
	return nil
}
