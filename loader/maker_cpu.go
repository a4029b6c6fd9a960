package loader

import (
	"context"
	"time"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

func (*onCPU) workers() int { return machine.Workers() }

// cpuMaker makes batches in host memory. All is done when fetch returns.
type cpuMaker struct {
	sampler sampling.Worker
	drawer  *sampling.Drawer // of negatives; nil without
	columns []*column        // [array]
	stats   *counters
	asker   *diskio.Asker // of the topology's pages; nil where it is not on disk
}

func (*onCPU) openMaker(r *recipe, columns []*column, ledger *pinned.Ledger, stats *counters) (_ maker, err error) {
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
	m := &cpuMaker{drawer: r.drawer, columns: columns, stats: stats, asker: asker}
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

func (m *cpuMaker) negatives(r sampling.Rand, links []sampling.LinkSeeds) error {
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

func (m *cpuMaker) sample(ctx context.Context, s *slot) error {
	return s.sampleFrom(ctx, m.sampler, m.asker)
}

func (m *cpuMaker) fetch(s *slot) error {
	begin := time.Now()
	defer func() { m.stats.gather.add(time.Since(begin)) }()
	return s.fetchRows(m)
}

// The CPU's slots are where rows that are read from disk land: it is a lander.
func (m *cpuMaker) fetchBy(s *slot, from rowCopier) error                      { return s.fetchRows(from) }
func (m *cpuMaker) landing(s *slot, array int) *unified.Buffer                 { return &s.rows[array].buf }
func (m *cpuMaker) clearLanding(*slot) error                                   { return nil }
func (m *cpuMaker) toHost(_ *slot, ids unified.Tensor) (unified.Tensor, error) { return ids, nil }
func (m *cpuMaker) landed(*slot, []int, *gather.HotRows) error                 { return nil }

func (m *cpuMaker) place(_ *slot, _ int, _ *gather.HotRows, rows []uint32) ([]uint32, error) {
	return rows, nil
}

func (m *cpuMaker) room(i int, to *unified.Buffer, rows int64) (unified.Tensor, error) {
	return m.columns[i].store.Over(to, rows)
}

// copyRows implements rowCopier.
func (m *cpuMaker) copyRows(i int, to *unified.Buffer, ids unified.Tensor) (unified.Tensor, error) {
	if err := m.columns[i].verified.check(ids); err != nil {
		return unified.Tensor{}, err
	}
	return m.columns[i].store.Gather(to, ids)
}

func (m *cpuMaker) finish(context.Context, *slot) error { return nil }
func (m *cpuMaker) drain() error                        { return nil }

func (m *cpuMaker) close() (err error) {
	defer recovered(&err)
	defer m.asker.Close()
	return m.sampler.Close()
}

func (*onCPU) openFence(r *recipe, ledger *pinned.Ledger, _ *counters) (fence, pinned.Options, pinned.Options, error) {
	ids := pinned.Options{Ledger: ledger, Purpose: pinned.Batches}
	rows := ids
	rows.From = r.opt.Hooks.RowMemory
	return noFence{}, ids, rows, nil
}

// noFence is the fence of a batch in host memory, which is complete when it is delivered.
type noFence struct{}

func (noFence) wait(uintptr) error                            { return nil }
func (noFence) record(uintptr) error                          { return nil }
func (noFence) reserve(int, int64) error                      { return nil }
func (noFence) sync() error                                   { return nil }
func (noFence) host(t unified.Tensor) (unified.Tensor, error) { return t, nil }
func (noFence) free() error                                   { return nil }
func (noFence) close() error                                  { return nil }
