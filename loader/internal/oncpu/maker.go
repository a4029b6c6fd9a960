package oncpu

import (
	"context"
	"errors"
	"time"

	"github.com/khop-gnn/khop/loader/internal/makers"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/internal/presamplers"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
)

// cpuMaker makes batches in host memory.
type cpuMaker struct {
	*presamplers.Sampler
	makers.Readers
	stats *makers.Counters
	spent time.Duration // to fetch
}

// OpenMaker is of plan.Processor.
func (*Processor) OpenMaker(p *plan.Plan, columns []*tiers.Column, ledger *pinned.Ledger, stats *makers.Counters) (
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
