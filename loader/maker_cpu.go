package loader

import (
	"context"
	"errors"
	"time"

	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

func (*onCPU) workers() int { return machine.Workers() }

// cpuSampler samples in host memory.
type cpuSampler struct {
	sampler sampling.Worker
	drawer  *sampling.Drawer // of negatives; nil without
	asker   *diskio.Asker    // of the topology's pages; nil where it is not on disk
}

func openSampler(r *recipe, ledger *pinned.Ledger) (_ *cpuSampler, err error) {
	defer recovered(&err)
	opener := r.opt.Sampler
	if r.prepared != nil {
		opener = r.prepared
	}
	env := r.env(ledger)
	asker, err := r.paged.ask()
	if err != nil {
		return nil, err
	}
	if asker != nil {
		env.Pages = asker
	}
	m := &cpuSampler{drawer: r.drawer, asker: asker}
	if m.sampler, err = opener.Open(env); err != nil {
		asker.Close()
		return nil, err
	}
	return m, nil
}

// env is what a sampler's worker works with.
func (r *recipe) env(ledger *pinned.Ledger) sampling.Env {
	return sampling.Env{Graph: r.graph, BatchSize: int(r.batchSize()), EdgePos: r.edgePos(),
		Scratch: pinned.Options{Ledger: ledger, Purpose: pinned.Scratch}}
}

func (m *cpuSampler) negatives(r sampling.Rand, links []sampling.LinkSeeds) error {
	for e := range links {
		if len(links[e].Items) == 0 || m.drawer == nil {
			continue
		}
		if err := m.drawer.Draw(r, e, &links[e]); err != nil {
			return err
		}
	}
	return nil
}

func (m *cpuSampler) sample(ctx context.Context, s *slot) error {
	return s.sampleFrom(ctx, m.sampler, m.asker)
}

func (m *cpuSampler) close() (err error) {
	defer recovered(&err)
	defer m.asker.Close()
	return m.sampler.Close()
}

// cpuMaker makes batches in host memory.
type cpuMaker struct {
	*cpuSampler
	readers
	stats *counters
	spent time.Duration // to fetch
}

func (*onCPU) openMaker(r *recipe, columns []*tiers.Column, ledger *pinned.Ledger, stats *counters) (maker, error) {
	s, err := openSampler(r, ledger)
	if err != nil {
		return nil, err
	}
	m := &cpuMaker{cpuSampler: s, stats: stats}
	if m.readers, err = openReaders(columns, tier.Worker{Loader: r, Ledger: ledger, Goroutines: 1}); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return m, nil
}

func (m *cpuMaker) sample(ctx context.Context, s *slot) error {
	if err := m.expect(ctx, s); err != nil {
		return err
	}
	return m.cpuSampler.sample(ctx, s)
}

func (m *cpuMaker) fetch(ctx context.Context, s *slot) error {
	begin := time.Now()
	err := m.begin(ctx, s)
	m.spent = time.Since(begin)
	return err
}

func (m *cpuMaker) finish(ctx context.Context, s *slot) error {
	begin := time.Now()
	waited, err := m.readers.finish(ctx, s, m.stats)
	if err == nil {
		m.stats.gather.add(m.spent + time.Since(begin) - waited)
	}
	return err
}

func (m *cpuMaker) close() error { return errors.Join(m.readers.close(), m.cpuSampler.close()) }

func (*onCPU) slotMemory(r *recipe, ledger *pinned.Ledger, _ *counters) (f *fence, ids, rows pinned.Options,
	err error) {
	ids = pinned.Options{Ledger: ledger, Purpose: pinned.Batches}
	rows = ids
	rows.From = r.opt.Hooks.RowMemory
	return nil, ids, rows, nil
}
