package loader_test

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

func TestAKeptBatchStaysAsItIsUntilReleased(t *testing.T) {
	l := open(t, graphs.Plain(t, 300, 5), loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 2,
		Tuning: loader.TuningOptions{Prefetch: 3}})
	want := digests(t, l.Epoch(background, 0))
	var kept []*loader.Batch
	for b := range each(t, l.Epoch(background, 0)) {
		if b.Number%5 == 0 && len(kept) < 3 {
			kept = append(kept, b.Keep().Keep())
		}
	}
	s := l.Stats()
	expect.That(t, s.SlotsHeld == 3 && s.Slots == 5, "%d of %d slots held, want 3 of 5", s.SlotsHeld, s.Slots)
	digests(t, l.Epoch(background, 1)) // with the slots that are left
	for i, b := range kept {
		if got := digestOf(b); got != want[5*i] {
			t.Errorf("kept batch %d is %s, want %s", 5*i, got, want[5*i])
		}
	}
	var wg sync.WaitGroup
	for _, b := range kept {
		for range 3 {
			wg.Go(func() { b.Release() })
		}
	}
	wg.Wait()
	n := l.Stats().SlotsHeld
	expect.That(t, n == 0, "%d slots held after Release", n)
	expect.Same(t, digests(t, l.Epoch(background, 0)), want, "after Release")
	for _, b := range kept {
		b.Release() // does nothing to whatever lies in its slot now
		if b.X().Valid() || b.Sample != nil || b.Keep().X().Valid() || b.Array(1).Valid() || b.IsView(1) ||
			b.Links(0) != nil || b.Slot() != -1 || b.State() != (loader.State{}) {
			t.Error("a released batch still has contents")
		}
		topology, full := b.Digest()
		if err := errors.Join(b.Wait(0), b.RecordStream(0), b.Sync()); err != nil || topology != 0 || full != 0 {
			t.Errorf("a released batch is waited for: %v, digests %x, %x", err, topology, full)
		}
	}
}

func TestReleaseInTheBodyUndoesKeep(t *testing.T) {
	l := open(t, graphs.Plain(t, 300, 5), loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 1,
		Tuning: loader.TuningOptions{Prefetch: 1}})
	want := digests(t, l.Epoch(background, 0))
	var got []string
	for b := range each(t, l.Epoch(background, 0)) {
		b.Release()
		b.Keep()
		b.Release()
		got = append(got, digestOf(b)) // valid to the end of the body
	}
	expect.Same(t, got, want)
}

var heldByThree = regexp.MustCompile(`: batches [012] of epoch 2, [012] of epoch 2, [012] of epoch 2 were kept`)

func TestHoldingEverySlotIsAnErrorThatSaysWhoHoldsThem(t *testing.T) {
	l := open(t, graphs.Plain(t, 300, 5), loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 1,
		Tuning: loader.TuningOptions{Prefetch: 2, SlotTimeout: time.Millisecond}})
	var kept []*loader.Batch
	var last error
	for b, err := range l.Epoch(background, 2) {
		if last = err; err == nil {
			kept = append(kept, b.Keep())
		}
	}
	expect.Ensure(t, len(kept) == 3 && errors.Is(last, loader.ErrSlotsHeld) && heldByThree.MatchString(last.Error()),
		"%d batches, then %v", len(kept), last)
	expect.Is(t, lastError(l.Epoch(background, 3)), loader.ErrSlotsHeld, "the next epoch")
	for _, b := range kept {
		b.Release()
	}
	n := len(digests(t, l.Epoch(background, 3)))
	expect.That(t, n == 15, "%d batches after Release", n)
}

func TestAReleaseElsewhereLetsTheLoopGoOn(t *testing.T) {
	l := open(t, graphs.Plain(t, 300, 5), loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 1,
		Tuning: loader.TuningOptions{Prefetch: 1}})
	kept := make(chan *loader.Batch, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b := range kept {
			b.Release()
		}
	}()
	n := 0
	for b := range each(t, l.Epoch(background, 0)) {
		n++
		kept <- b.Keep()
	}
	close(kept)
	<-done
	expect.That(t, n == 15, "%d batches", n)
}

func TestClosingEndsTheEpochUnderWay(t *testing.T) {
	g := graphs.Plain(t, 300, 5)
	for _, keep := range []string{"", "before", "after"} {
		l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 2})
		var got []error
		var kept *loader.Batch
		n := 0
		for b, err := range l.Epoch(background, 0) {
			if err != nil {
				got = append(got, err)
				continue
			}
			if n++; n == 4 {
				before := digestOf(b)
				if keep == "before" {
					kept = b.Keep()
				}
				expect.OK(t, l.Close())
				expect.That(t, digestOf(b) == before, "Close took the batch away from the body")
				if keep == "after" {
					kept = b.Keep()
				}
			}
		}
		expect.That(t, n == 4 && len(got) == 1 && errors.Is(got[0], loader.ErrClosed), "%d batches, then %v", n, got)
		if kept != nil {
			if held := l.Stats(); held.SlotsHeld != 1 || held.Memory.Batches == 0 || !kept.X().Valid() {
				t.Errorf("a batch kept beyond Close: %+v", held)
			}
			kept.Release()
		}
		m := l.Stats().Memory
		expect.That(t, m.Total() == 0, "memory held: %+v", m)
		expect.Is(t, lastError(l.Epoch(background, 0)), loader.ErrClosed, "an epoch after Close")
		expect.Is(t, l.Close(), nil, "the second Close")
	}
}

func TestCancellingOrClosingElsewhereWakesALoopThatWaits(t *testing.T) {
	arrived := make(chan struct{}, 100)
	var block atomic.Bool
	s := hooked{Neighbor: neighbor, before: func(ctx context.Context, _ int64) error {
		if block.Load() {
			arrived <- struct{}{}
			<-ctx.Done()
			return errors.New("interrupted")
		}
		return nil
	}}
	l := open(t, graphs.Plain(t, 300, 5), loader.Options{Sampler: s, BatchSize: 10, Workers: 2})
	block.Store(true)
	result := make(chan error)
	why := errors.New("why")
	for range 30 { // what the sampler makes of it must not show, whoever is first
		ctx, cancel := context.WithCancelCause(background)
		go func() { result <- lastError(l.Epoch(ctx, 0)) }()
		<-arrived
		cancel(why)
		err := <-result
		expect.Ensure(t, errors.Is(err, why), "cancelled, the loop ended with %v", err)
		for len(arrived) > 0 {
			<-arrived
		}
	}
	go func() { result <- lastError(l.Epoch(background, 0)) }()
	<-arrived
	expect.OK(t, l.Close())
	err := <-result
	expect.That(t, errors.Is(err, loader.ErrClosed), "the loop ended with %v", err)
}

func TestClosingAtAnyMomentLeavesNothing(t *testing.T) {
	g := graphs.Plain(t, 300, 5)
	for i := range 60 {
		l := open(t, g, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{3}}, BatchSize: 10, Workers: 1 + i%3,
			Tuning: loader.TuningOptions{Prefetch: 1 + i%2}})
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				<-start
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		n := 0
		for _, err := range l.Epoch(background, 0) {
			if n++; n == 1+i%15 {
				close(start)
			}
			expect.That(t, err == nil || errors.Is(err, loader.ErrClosed), "%v", err)
		}
		wg.Wait()
	}
}
