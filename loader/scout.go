package loader

import (
	"context"
	"errors"

	"github.com/khop-gnn/khop/pinned"
)

// scout samples batches on the CPU, without rows of columns, to learn what is in them.
type scout struct {
	*recipe
	sampler sampler
	slot    *slot
	ledger  *pinned.Ledger
}

func newScout(r *recipe, ledger *pinned.Ledger) (*scout, error) {
	m, err := openSampler(r, ledger)
	if err != nil {
		return nil, err
	}
	s, err := newSlot(r, &onCPU{}, ledger, nil)
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return &scout{r, m, s, ledger}, nil
}

// sample samples a batch into the scout's slot. What may be half written after an error is made anew.
func (s *scout) sample(ctx context.Context, epoch uint32, number uint64) error {
	j := job{epoch: epoch, number: number, order: s.order(epoch)}
	err := guarded(func() error { return s.slot.fill(ctx, s.sampler, j) })
	if errors.Is(err, ErrSampler) || errors.Is(err, pinned.ErrFault) {
		s.renew()
	}
	return err
}

// renew gives the scout a new sampler, and a sample that nothing has broken. Where that fails, so does the next batch.
func (s *scout) renew() {
	_, _ = s.sampler.close(), s.slot.repair()
	m, err := openSampler(s.recipe, s.ledger)
	if err != nil {
		s.sampler = &failedSampler{err: err}
		return
	}
	s.sampler = m
}

func (s *scout) close() error { return errors.Join(s.sampler.close(), s.slot.close()) }

// failedSampler is a sampler that could not be opened again.
type failedSampler struct {
	cpuSampler
	err error
}

func (m *failedSampler) sample(context.Context, *slot) error { return m.err }
func (m *failedSampler) close() error                        { return nil }

// trial samples n batches of epoch 0, spread over it, and shows see each.
func (r *recipe) trial(ctx context.Context, n uint64, ledger *pinned.Ledger, see func(*slot)) (err error) {
	if !r.shared {
		defer func() { err = errors.Join(err, r.closeShared()) }()
		if err := r.openShared(ctx, ledger); err != nil {
			return err
		}
	}
	s, err := newScout(r, ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for i := range n {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		number := uint64(float64(r.batches) * float64(i) / float64(n))
		if err := s.sample(ctx, 0, number); err != nil {
			return failedBatch{r.explain(err, job{number: number})}
		}
		see(s.slot)
	}
	return nil
}
