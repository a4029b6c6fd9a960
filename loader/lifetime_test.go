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
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

func TestAKeptBatchStaysAsItIsUntilReleased(t *testing.T) {
	l := open(t, plainGraph(t, 300, 5), loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 2,
		Tuning: loader.TuningOptions{Prefetch: 3}})
	want := digests(t, l.Epoch(background, 0))
	var kept []*loader.Batch
	for b, err := range l.Epoch(background, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Number%5 == 0 && len(kept) < 3 {
			kept = append(kept, b.Keep().Keep())
		}
	}
	if s := l.Stats(); s.SlotsHeld != 3 || s.Slots != 5 {
		t.Errorf("%d of %d slots held, want 3 of 5", s.SlotsHeld, s.Slots)
	}
	digests(t, l.Epoch(background, 1)) // with the slots that are left
	for i, b := range kept {
		if got := digestOf(b); got != want[5*i] {
			t.Errorf("kept batch %d is %s, want %s", 5*i, got, want[5*i])
		}
	}
	var wg sync.WaitGroup
	for _, b := range kept {
		for range 3 {
			wg.Add(1)
			go func() { defer wg.Done(); b.Release() }()
		}
	}
	wg.Wait()
	if n := l.Stats().SlotsHeld; n != 0 {
		t.Errorf("%d slots held after Release", n)
	}
	if d := expect.Diff(want, digests(t, l.Epoch(background, 0))); d != "" {
		t.Errorf("after Release: %s", d)
	}
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
	l := open(t, plainGraph(t, 300, 5), loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 1,
		Tuning: loader.TuningOptions{Prefetch: 1}})
	want := digests(t, l.Epoch(background, 0))
	var got []string
	for b, err := range l.Epoch(background, 0) {
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
		b.Keep()
		b.Release()
		got = append(got, digestOf(b)) // valid to the end of the body
	}
	if d := expect.Diff(want, got); d != "" {
		t.Error(d)
	}
}

var heldByThree = regexp.MustCompile(`: batches [012] of epoch 2, [012] of epoch 2, [012] of epoch 2 were kept`)

func TestHoldingEverySlotIsAnErrorThatSaysWhoHoldsThem(t *testing.T) {
	l := open(t, plainGraph(t, 300, 5), loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 1,
		Tuning: loader.TuningOptions{Prefetch: 2, SlotTimeout: time.Millisecond}})
	var kept []*loader.Batch
	var last error
	for b, err := range l.Epoch(background, 2) {
		if last = err; err == nil {
			kept = append(kept, b.Keep())
		}
	}
	if len(kept) != 3 || !errors.Is(last, loader.ErrSlotsHeld) || !heldByThree.MatchString(last.Error()) {
		t.Fatalf("%d batches, then %v", len(kept), last)
	}
	if err := lastError(l.Epoch(background, 3)); !errors.Is(err, loader.ErrSlotsHeld) {
		t.Errorf("the next epoch: %v", err)
	}
	for _, b := range kept {
		b.Release()
	}
	if n := len(digests(t, l.Epoch(background, 3))); n != 15 {
		t.Errorf("%d batches after Release", n)
	}
}

func TestAReleaseElsewhereLetsTheLoopGoOn(t *testing.T) {
	l := open(t, plainGraph(t, 300, 5), loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 1,
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
	for b, err := range l.Epoch(background, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		kept <- b.Keep()
	}
	close(kept)
	<-done
	if n != 15 {
		t.Errorf("%d batches", n)
	}
}

func TestClosingEndsTheEpochUnderWay(t *testing.T) {
	g := plainGraph(t, 300, 5)
	for _, keep := range []int{0, 1} {
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
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				if digestOf(b) != before {
					t.Error("Close took the batch away from the body")
				}
				if keep > 0 {
					kept = b.Keep()
				}
			}
		}
		if n != 4 || len(got) != 1 || !errors.Is(got[0], loader.ErrClosed) {
			t.Errorf("%d batches, then %v", n, got)
		}
		if kept != nil {
			if held := l.Stats(); held.SlotsHeld != 1 || held.Memory.Batches == 0 || !kept.X().Valid() {
				t.Errorf("a batch kept beyond Close: %+v", held)
			}
			kept.Release()
		}
		if m := l.Stats().Memory; m.Total() != 0 {
			t.Errorf("memory held: %+v", m)
		}
		if err := lastError(l.Epoch(background, 0)); !errors.Is(err, loader.ErrClosed) {
			t.Errorf("an epoch after Close: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("the second Close: %v", err)
		}
	}
}

func TestABatchKeptBeforeCloseIsValidUntilReleased(t *testing.T) {
	l := open(t, plainGraph(t, 300, 5), loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 2})
	var kept *loader.Batch
	for b, err := range l.Epoch(background, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Number == 7 {
			kept = b.Keep()
		}
	}
	want := digestOf(kept)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := digestOf(kept); got != want {
		t.Errorf("%s, was %s", got, want)
	}
	kept.Release()
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
	l := open(t, plainGraph(t, 300, 5), loader.Options{Sampler: s, BatchSize: 10, Workers: 2})
	block.Store(true)
	result := make(chan error)
	why := errors.New("why")
	for range 30 { // what the sampler makes of it must not show, whoever is first
		ctx, cancel := context.WithCancelCause(background)
		go func() { result <- lastError(l.Epoch(ctx, 0)) }()
		<-arrived
		cancel(why)
		if err := <-result; !errors.Is(err, why) {
			t.Fatalf("cancelled, the loop ended with %v", err)
		}
		for len(arrived) > 0 {
			<-arrived
		}
	}
	go func() { result <- lastError(l.Epoch(background, 0)) }()
	<-arrived
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-result; !errors.Is(err, loader.ErrClosed) {
		t.Errorf("the loop ended with %v", err)
	}
}

func TestClosingAtAnyMomentLeavesNothing(t *testing.T) {
	g := plainGraph(t, 300, 5)
	for i := range 60 {
		l := open(t, g, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{3}}, BatchSize: 10, Workers: 1 + i%3,
			Tuning: loader.TuningOptions{Prefetch: 1 + i%2}})
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				<-start
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}()
		}
		n := 0
		for _, err := range l.Epoch(background, 0) {
			if n++; n == 1+i%15 {
				close(start)
			}
			if err != nil && !errors.Is(err, loader.ErrClosed) {
				t.Error(err)
			}
		}
		wg.Wait()
	}
}
