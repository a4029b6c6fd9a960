package presamplers

import (
	"context"

	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// Sampler samples in host memory.
type Sampler struct {
	sampler sampling.Worker
	drawer  *sampling.Drawer // of negatives; nil without
	asker   *diskio.Asker    // of the topology's pages; nil where it is not on disk
}

func OpenSampler(k *Kit, ledger *pinned.Ledger) (_ *Sampler, err error) {
	defer errs.Recovered(&err)
	opener := k.Sampler
	if k.prepared != nil {
		opener = k.prepared
	}
	env := k.Env(ledger)
	asker, err := k.Paged.Ask()
	if err != nil {
		return nil, err
	}
	if asker != nil {
		env.Pages = asker
	}
	m := &Sampler{drawer: k.Drawer, asker: asker}
	if m.sampler, err = opener.Open(env); err != nil {
		asker.Close()
		return nil, err
	}
	return m, nil
}

func (m *Sampler) Negatives(r sampling.Rand, links []sampling.LinkSeeds) error {
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

// Sample samples, and notes how long that waited for the disk.
func (m *Sampler) Sample(ctx context.Context, s *slots.Slot) error {
	if m.asker == nil {
		return m.sampler.Sample(ctx, &s.Request, &s.Sample)
	}
	m.asker.Begin(ctx)
	err := m.sampler.Sample(ctx, &s.Request, &s.Sample)
	s.Awaited += m.asker.Waited()
	return err
}

func (m *Sampler) Close() (err error) {
	defer errs.Recovered(&err)
	defer m.asker.Close()
	return m.sampler.Close()
}
