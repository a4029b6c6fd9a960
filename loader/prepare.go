package loader

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/internal/presamplers"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/unified"
)

// prepareSlots makes the slots. Unless they are small, it fills some on trial to learn how large batches are, and takes
// and touches that much memory in all slots, so that the first batch is as fast as the hundredth.
func (l *Loader) prepareSlots(ctx context.Context) error {
	p := l.plan
	l.free = newFreeList(p.Estimate.Slots)
	for i := range p.Estimate.Slots {
		memory, err := p.On.SlotMemory(p, l.ledger, &l.stats.Counters)
		if err != nil {
			return p.ExplainMemory(err)
		}
		s := &ownedSlot{}
		if s.Slot, err = slots.New(p.Recipe, memory, l.ledger); err != nil {
			return p.ExplainMemory(err)
		}
		s.Index, s.batch = i, newBatch(l, s)
		l.slots = append(l.slots, s)
		l.free.put(s)
	}
	z := slots.Sizes{Limited: p.Bounded()}
	// no batch may need a buffer to grow: there might be no room for it then
	if z.Limited {
		for _, s := range l.slots {
			if err := s.ClaimBound(); err != nil {
				return p.ExplainMemory(err)
			}
		}
	}
	if p.Batches > 0 && !p.Untried() {
		if err := l.probe(ctx, &z); err != nil {
			return err
		}
	}
	if !z.Limited {
		e := p.Estimate
		e.Expected = l.memory()
		held := e.Expected.Total()
		e.Expected.Batches = sat.Mul(int64(e.Slots), z.Total()+p.LinkBytes())
		if left := l.ledger.Left(); e.Expected.Total()-held > left {
			return e.TooMuch(held + left)
		}
	}
	for _, s := range l.slots {
		s.State = slots.Free
	}
	return l.reserve(ctx, z.Bytes)
}

// probe samples some batches of epoch 0, spread over it, at least one with each worker, so that its scratch is there
// too. A batch that fails is left for the epoch to report.
func (l *Loader) probe(ctx context.Context, z *slots.Sizes) error {
	n := max(plan.LeastTried, len(l.workers))
	order := l.plan.Order(0)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, w := range l.workers {
		wg.Go(func() {
			for k := i; k < n && ctx.Err() == nil; k += len(l.workers) {
				number := uint64(float64(l.plan.Batches) * float64(k) / float64(n))
				j := slots.Job{Number: number, Order: order}
				if errs[k] = w.SampleOnly(ctx, l.slots[i].Slot, j); errs[k] != nil {
					return
				}
				z.Learn(l.slots[i].Slot)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, err := range errs {
		if errors.Is(err, ErrMemory) {
			return err
		}
		if err != nil {
			l.plan.Log.Debug("a batch on trial failed", "error", err)
		}
	}
	return nil
}

// reserve takes and touches memory in all slots.
func (l *Loader) reserve(ctx context.Context, bytes []int64) error {
	if len(bytes) == 0 {
		return nil
	}
	total := int64(0)
	for _, n := range bytes {
		total += n
	}
	total *= int64(len(l.slots))
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		done int64
		err  error
	)
	workers := min(runtime.GOMAXPROCS(0), len(l.slots))
	work := func(s *ownedSlot) {
		s.Each(func(i int, b *unified.Buffer, _ int64) {
			n := bytes[i]
			if n == 0 || ctx.Err() != nil {
				return
			}
			e := errors.Join(b.Reserve(n), s.Reserve(i, n))
			mu.Lock()
			defer mu.Unlock()
			err = cmp.Or(err, e) // one is enough: they all want memory
			done += n
			l.plan.Progress("slots", done, total)
		})
	}
	for first := range workers {
		wg.Go(func() {
			for k := first; k < len(l.slots); k += workers {
				work(l.slots[k])
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.plan.ExplainMemory(err)
}

// openAhead makes what looks ahead, where columns are on disk.
func (l *Loader) openAhead() (err error) {
	p := l.plan
	if p.Set.Disk == nil || p.Set.Disk.Files == nil {
		return nil
	}
	opt := disk.AheadOptions{Tier: p.Set.Disk, Loader: p.Recipe, Ledger: l.ledger, Columns: l.columns,
		Part: disk.Part{Batches: p.Batches, Rank: uint64(l.asked.Rank),
			World: uint64(l.asked.WorldSize), Rounds: p.OfRank}}
	for i := range p.Arrays {
		opt.Most = append(opt.Most, p.Arrays[i].Most)
	}
	for range disk.Presamplers(p.Workers) {
		s, err := presamplers.New(p.Kit, l.ledger)
		if err != nil {
			for _, s := range opt.Presamplers {
				err = errors.Join(err, s.Close())
			}
			return err
		}
		opt.Presamplers = append(opt.Presamplers, s)
	}
	l.ahead, err = disk.NewAhead(opt)
	return err
}
