package presamplers

import (
	"context"
	"errors"
	"time"

	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// Presampler samples batches on the CPU, without rows of columns, to learn what is in them.
type Presampler struct {
	*Kit
	sampler slots.Sampler
	Slot    *slots.Slot
	ledger  *pinned.Ledger
}

// New opens a presampler.
func New(k *Kit, ledger *pinned.Ledger) (*Presampler, error) {
	m, err := OpenSampler(k, ledger)
	if err != nil {
		return nil, err
	}
	s, err := slots.New(k.Recipe, k.HostMemory(ledger), ledger)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &Presampler{k, m, s, ledger}, nil
}

// Sample samples a batch into the presampler's slot. What may be half written after an error is made anew.
func (s *Presampler) Sample(ctx context.Context, epoch uint32, number uint64) error {
	j := slots.Job{Epoch: epoch, Number: number, Order: s.Order(epoch)}
	s.Slot.Awaited = 0
	err := errs.Guarded(func() error { return s.Slot.Fill(ctx, s.sampler, j) })
	if errors.Is(err, errs.ErrSampler) || errors.Is(err, pinned.ErrFault) {
		s.renew()
	}
	return err
}

// Awaited returns how long that waited for the disk.
func (s *Presampler) Awaited() time.Duration { return s.Slot.Awaited }

// IDs returns which rows an array of the batch has of its column, and whether it is the beginning of its Base.
func (s *Presampler) IDs(array int) (ids unified.Tensor, view bool) {
	return s.Slot.RowIDs(&s.Arrays[array])
}

// renew gives the presampler a new sampler and an intact sample. If that fails, so does the next batch.
func (s *Presampler) renew() {
	_, _ = s.sampler.Close(), s.Slot.Repair()
	m, err := OpenSampler(s.Kit, s.ledger)
	if err != nil {
		s.sampler = &failedSampler{err: err}
		return
	}
	s.sampler = m
}

// Close frees the presampler.
func (s *Presampler) Close() error { return errors.Join(s.sampler.Close(), s.Slot.Close()) }

// failedSampler is a sampler that could not be opened again.
type failedSampler struct {
	Sampler
	err error
}

func (m *failedSampler) Sample(context.Context, *slots.Slot) error { return m.err }
func (m *failedSampler) Close() error                              { return nil }

// FailedBatch is the error of a batch on trial.
type FailedBatch struct{ error }

func (e FailedBatch) Unwrap() error { return e.error }

// Trial samples n batches of epoch 0, spread over it, and shows see each.
func (k *Kit) Trial(ctx context.Context, n uint64, ledger *pinned.Ledger, see func(*slots.Slot)) (err error) {
	if !k.shared {
		defer func() { err = errors.Join(err, k.CloseShared()) }()
		if err := k.OpenShared(ctx, ledger); err != nil {
			return err
		}
	}
	s, err := New(k, ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for i := range n {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		number := uint64(float64(k.Batches) * float64(i) / float64(n))
		if err := s.Sample(ctx, 0, number); err != nil {
			return FailedBatch{k.Explain(err, 0, number)}
		}
		see(s.Slot)
	}
	return nil
}

// Sampler samples in host memory.
type Sampler struct {
	sampler sampling.Worker
	drawer  *sampling.Drawer // of negatives; nil without
	asker   *diskio.Asker    // of the topology's pages; nil where it is not on disk
}

// Opener returns the sampler that opens workers: what OpenShared has prepared, where it needs that.
func (k *Kit) Opener() sampling.Sampler {
	if k.prepared != nil {
		return k.prepared
	}
	return k.Sampler
}

func OpenSampler(k *Kit, ledger *pinned.Ledger) (_ *Sampler, err error) {
	defer errs.Recovered(&err)
	env := k.Env(ledger)
	asker, err := k.Paged.Ask()
	if err != nil {
		return nil, err
	}
	if asker != nil {
		env.Pages = asker
	}
	m := &Sampler{drawer: k.Drawer, asker: asker}
	if m.sampler, err = k.Opener().Open(env); err != nil {
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
