// Package oncpu makes batches in host memory.
package oncpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/makers"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/internal/presamplers"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
)

// Processor is the processor of batches in host memory.
type Processor struct {
	Resident bool        // topology and columns are copied
	owned    []io.Closer // what reads a topology on disk, to close in reverse order
}

func (*Processor) String() string      { return "cpu" }
func (*Processor) DefaultWorkers() int { return machine.Workers() }
func (*Processor) Bounded() bool       { return true }

func (c *Processor) ChooseTiers(s *tiers.Set) { s.ChooseOnHost(c.Resident) }
func (c *Processor) Fit(p *plan.Plan) error   { return p.FitHost(c.Resident) }

// ReadsTopology is of plan.Processor: samplers on the CPU read their topology from disk.
func (*Processor) ReadsTopology(*plan.Plan, int64) bool { return false }

func (*Processor) Expect(e *plan.Estimate, batches, scratch int64) {
	e.Expected = tier.Memory{Topology: e.Bound.Topology, Columns: e.Bound.Columns, Batches: batches,
		Scratch: int64(e.Workers) * scratch}
}

func (*Processor) SlotMemory(p *plan.Plan, ledger *pinned.Ledger, _ *makers.Counters) (slots.Memory, error) {
	return p.HostMemory(ledger), nil
}

func (*Processor) Explain(err error, _ int64) error {
	if errors.Is(err, pinned.ErrLimit) {
		return fmt.Errorf("%w: %w; %s", errs.ErrMemory, err, plan.RemedyMemory)
	}
	return err
}

func (c *Processor) Close() error {
	err := tiers.CloseAll(c.owned)
	c.owned = nil
	return err
}

func (c *Processor) Place(ctx context.Context, p *plan.Plan) error {
	if !c.Resident {
		if p.Set.Disk == nil || p.Set.IsRemote() && p.Paged == nil {
			if err := readAhead(ctx, p); err != nil {
				return err
			}
		}
		if err := p.Set.Open(ctx); err != nil {
			return err
		}
		return p.Paged.Open(p.Recipe, &p.Set.Ledger, &c.owned)
	}
	err := p.Set.Copies.Stage(ctx, pinned.Topology, p.Topology(), func(done, total int64) {
		p.Progress("topology", done, total)
	})
	if err = cmp.Or(err, p.Set.Open(ctx)); err != nil {
		return err
	}
	p.Graph, err = p.Set.Copies.GraphOf(p.Graph)
	return err
}

// readAhead reads what will be read from mapped files: in order, which a disk gives many times faster than pages at
// random. It is worth it where all of it stays in memory: at most half of what is available.
func readAhead(ctx context.Context, p *plan.Plan) error {
	if p.Set.SourceBytes().Total() > p.Free/2 {
		return nil
	}
	list := p.Topology()
	for _, c := range p.Set.Columns {
		if !c.Given && !c.Partly {
			list = append(list, c.Tensors()...)
		}
	}
	if err := p.GoThrough(ctx, "read ahead", list, Populate); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// Populate is a variable for tests only.
var Populate = pinned.Populate

// cpuMaker makes batches in host memory.
type cpuMaker struct {
	*presamplers.Sampler
	makers.Readers
	stats *makers.Counters
	spent time.Duration // to fetch
}

// OpenMaker is of plan.Processor.
func (*Processor) OpenMaker(p *plan.Plan, columns []*placed.Column, ledger *pinned.Ledger, stats *makers.Counters) (
	makers.Maker, error) {
	s, err := presamplers.OpenSampler(p.Kit, ledger)
	if err != nil {
		return nil, err
	}
	m := &cpuMaker{Sampler: s, stats: stats}
	w := tier.Worker{Loader: p.Recipe, Ledger: ledger, Goroutines: 1}
	if m.Readers, err = makers.OpenReaders(columns, w); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return m, nil
}

func (m *cpuMaker) Sample(ctx context.Context, s *slots.Slot) error {
	if err := m.Expect(ctx, s); err != nil {
		return err
	}
	return m.Sampler.Sample(ctx, s)
}

func (m *cpuMaker) Fetch(ctx context.Context, s *slots.Slot) error {
	begin := time.Now()
	err := m.Begin(ctx, s)
	m.spent = time.Since(begin)
	return err
}

func (m *cpuMaker) Finish(ctx context.Context, s *slots.Slot) error {
	begin := time.Now()
	waited, err := m.Readers.Finish(ctx, s, m.stats)
	if err == nil {
		m.stats.Gather.Add(m.spent + time.Since(begin) - waited)
	}
	return err
}

func (m *cpuMaker) Close() error { return errors.Join(m.Readers.Close(), m.Sampler.Close()) }
