package loader

import (
	"context"
	"errors"

	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// presampler samples batches on the CPU, without rows of columns, to learn what is in them.
type presampler struct {
	*recipe
	sampler sampler
	slot    *slot
	ledger  *pinned.Ledger
}

func newPresampler(r *recipe, ledger *pinned.Ledger) (*presampler, error) {
	m, err := openSampler(r, ledger)
	if err != nil {
		return nil, err
	}
	s, err := newSlot(r, &onCPU{}, ledger, nil)
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return &presampler{r, m, s, ledger}, nil
}

// Sample samples a batch into the presampler's slot. What may be half written after an error is made anew.
func (s *presampler) Sample(ctx context.Context, epoch uint32, number uint64) error {
	j := job{epoch: epoch, number: number, order: s.order(epoch)}
	err := guarded(func() error { return s.slot.fill(ctx, s.sampler, j) })
	if errors.Is(err, ErrSampler) || errors.Is(err, pinned.ErrFault) {
		s.renew()
	}
	return err
}

// IDs returns which rows an array of the batch has of its column, and whether it is the beginning of its Base.
func (s *presampler) IDs(array int) (ids unified.Tensor, view bool) {
	return s.slot.rowIDs(&s.arrays[array])
}

// renew gives the presampler a new sampler and an intact sample. If that fails, so does the next batch.
func (s *presampler) renew() {
	_, _ = s.sampler.close(), s.slot.repair()
	m, err := openSampler(s.recipe, s.ledger)
	if err != nil {
		s.sampler = &failedSampler{err: err}
		return
	}
	s.sampler = m
}

// Close frees the presampler.
func (s *presampler) Close() error { return errors.Join(s.sampler.close(), s.slot.close()) }

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
	s, err := newPresampler(r, ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for i := range n {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		number := uint64(float64(r.batches) * float64(i) / float64(n))
		if err := s.Sample(ctx, 0, number); err != nil {
			return failedBatch{r.explain(err, job{number: number})}
		}
		see(s.slot)
	}
	return nil
}

// openAhead makes what looks ahead, where columns are on disk.
func (l *Loader) openAhead() (err error) {
	if l.split == nil || l.split.Files == nil {
		return nil
	}
	opt := tiers.AheadOptions{Tier: l.split, Loader: l.recipe, Ledger: l.ledger, Columns: l.columns,
		Part: tiers.Part{Batches: l.batches, Rank: uint64(l.opt.Rank),
			World: uint64(l.opt.WorldSize), Rounds: l.rounds}}
	for i := range l.arrays {
		opt.Most = append(opt.Most, l.arrays[i].Most)
	}
	for range tiers.Presamplers(l.opt.Workers) {
		s, err := newPresampler(l.recipe, l.ledger)
		if err != nil {
			for _, s := range opt.Presamplers {
				err = errors.Join(err, s.Close())
			}
			return err
		}
		opt.Presamplers = append(opt.Presamplers, s)
	}
	l.ahead, err = tiers.NewAhead(opt)
	return err
}
