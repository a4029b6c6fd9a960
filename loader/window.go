package loader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/khop-gnn/khop/internal/timeline"
	"github.com/khop-gnn/khop/loader/internal/makers"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/pinned"
)

// Epoch goes over the batches of epoch n (below 2^32) that this rank has, in order.
//
// There is at most one error, at the end and without a batch: context.Cause of ctx, ErrBusy if another epoch of this
// loader is running, ErrClosed, ErrSlotsHeld, or the error of a batch, after the batches before it. Breaking out of the
// loop ends the epoch without an error. When the loop has ended, no goroutine of the epoch runs.
func (l *Loader) Epoch(ctx context.Context, n uint64) iter.Seq2[*Batch, error] {
	return l.Range(ctx, n, 0, math.MaxUint64)
}

// Range goes over a part of an epoch as Epoch does: batches first .. first+count-1, or to the end of the epoch. Ranks
// share the part as they share an epoch, so rank r has first+r, first+r+WorldSize, ...
func (l *Loader) Range(ctx context.Context, epoch, first, count uint64) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		r, err := l.begin(ctx, epoch, first, count)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.end()
		r.loop(yield)
	}
}

// Resume continues an epoch after the batch with State s, to its end. ErrState if s is of another dataset, seed list or
// sampling options than this loader's.
func (l *Loader) Resume(ctx context.Context, s State) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if err := s.check(l.state); err != nil {
			yield(nil, err)
			return
		}
		l.Range(ctx, s.Epoch, s.Next, math.MaxUint64)(yield)
	}
}

// run is an epoch, or a part of one, under way. Its batches are counted as this rank sees them: position 0, 1, ...
type run struct {
	l      *Loader
	ctx    context.Context
	cancel context.CancelCauseFunc
	epoch  uint32
	order  seedlist.Order
	first  uint64 // number of the batch at position 0 of rank 0
	last   uint64 // number after the last batch of the part
	rounds uint64 // batches of this rank
	began  time.Time

	before sums         // when it began
	start  atomic.Int64 // how long the loop waited for the first batch
	arrow  uint64       // of the batch at position 0, in a trace

	wg   sync.WaitGroup
	mu   sync.Mutex // guards next: slots and positions are taken together
	next uint64

	// window[i % slots] gets the batch at position i. Positions taken and not yet delivered each hold a slot and follow
	// one another, so no two share an entry.
	window  []chan *ownedSlot
	current *ownedSlot // in the loop body
}

// begin starts the workers.
func (l *Loader) begin(ctx context.Context, epoch, first, count uint64) (*run, error) {
	if epoch > math.MaxUint32 {
		return nil, fmt.Errorf("%w: epoch %d: must be below 2^32", ErrOptions, epoch)
	}
	if l.plan.Seeds.OnRequest {
		return nil, refuse("Seeds", " come with requests: such a loader has no epochs, and answers Sample")
	}
	changed := l.placed.unchanged()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if changed != nil {
		return nil, changed
	}
	if l.running != nil {
		return nil, ErrBusy
	}
	if err := l.takeEpoch(uint32(epoch)); err != nil {
		return nil, err
	}
	first = min(first, l.plan.Batches)
	r := &run{l: l, epoch: uint32(epoch), first: first, began: time.Now(), before: l.sums()}
	r.last = first + min(count, l.plan.Batches-first)
	r.rounds = l.plan.OfRank(r.last - first)
	workers := l.workers[:min(uint64(len(l.workers)), r.rounds)]
	for _, w := range workers {
		if err := pinned.Guard(w.Open); err != nil {
			return nil, l.plan.ExplainDamage(err)
		}
	}
	if l.placed.alone() {
		if err := l.plan.Set.Renew(ctx); err != nil {
			return nil, err
		}
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.order, r.arrow = l.plan.Order(r.epoch), l.trace.Arrows(r.rounds)
	r.window = make([]chan *ownedSlot, len(l.slots))
	for i := range r.window {
		r.window[i] = make(chan *ownedSlot, 1)
	}
	if err := l.ahead.Begin(r.ctx, &r.wg, uint64(r.epoch), r.first, r.last); err != nil {
		r.cancel(err)
		return nil, err
	}
	for i, w := range workers {
		r.wg.Go(func() { r.work(w, l.trace.worker(i)) })
	}
	l.running = r
	return r, nil
}

// batchAt returns which batch is at a position. Beyond the end of the part it is one that some rank has too.
func (r *run) batchAt(position uint64) (number uint64, padded bool) {
	l := r.l
	number = r.first + uint64(l.asked.Rank) + position*uint64(l.asked.WorldSize)
	return number % l.plan.Batches, number >= r.last
}

// made returns the function to call when a batch is made; nil for nothing.
func (l *Loader) made(b *Batch) func() error {
	if l.asked.Hooks.Made == nil {
		return nil
	}
	return func() error { return l.asked.Hooks.Made(b) }
}

// work makes batches until there are no more, or the run ends.
func (r *run) work(w *makers.Worker, lane *timeline.Lane) {
	ctx := timeline.With(r.ctx, lane)
	for {
		s, position, ok := r.take(lane)
		if !ok {
			return
		}
		j := slots.Job{Epoch: r.epoch, Order: r.order}
		s.SetTurn(position + 1)
		number, padded := r.batchAt(position)
		j.Number = number
		b := s.batch
		b.Epoch, b.Number, b.Padded = uint64(r.epoch), number, padded
		b.next = r.first + (position+1)*uint64(r.l.asked.WorldSize)
		span := lane.Begin("batch", int64(number))
		s.err = w.Make(ctx, s.Slot, j, r.l.made(b))
		lane.Made(r.arrow + position)
		span.End()
		r.window[position%uint64(len(r.window))] <- s // never blocks
		runtime.Gosched()                             // who waits for it goes first, where all processors make batches
	}
}

// take waits for a slot and takes the next position with it. Slots go to positions in order, so the batch that the loop
// waits for always has one, and there is no deadlock.
func (r *run) take(lane *timeline.Lane) (*ownedSlot, uint64, bool) {
	if r.done() {
		return nil, 0, false
	}
	begin := time.Now()
	select {
	case <-r.l.free.ready:
	case <-r.ctx.Done():
		return nil, 0, false
	}
	waited := time.Since(begin)
	r.l.stats.idle.Add(waited)
	lane.Ended("wait for a slot", waited)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.l.free.take()
	if r.next == r.rounds || r.ctx.Err() != nil {
		r.l.free.put(s)
		return nil, 0, false
	}
	r.next++
	return s, r.next - 1, true
}

// done reports whether there is nothing left to make.
func (r *run) done() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next == r.rounds || r.ctx.Err() != nil
}

// loop yields the batches in order.
func (r *run) loop(yield func(*Batch, error) bool) {
	for position := range r.rounds {
		s, err := r.receive(position)
		if err != nil {
			yield(nil, err)
			return
		}
		r.current = s
		span := r.l.trace.loop.Begin("step", int64(s.batch.Number))
		r.l.trace.loop.Used(r.arrow + position)
		begin := time.Now()
		more := yield(s.batch, nil)
		r.l.stats.body.Add(time.Since(begin))
		span.End()
		r.current = nil
		r.l.leave(s)
		if !more {
			return
		}
	}
}

// receive waits for the batch at a position.
func (r *run) receive(position uint64) (*ownedSlot, error) {
	if r.ctx.Err() != nil {
		return nil, context.Cause(r.ctx)
	}
	begin := time.Now()
	var timeout <-chan time.Time
	if r.l.allHeld() { // nothing can come before a release
		t := time.NewTimer(r.l.asked.Tuning.SlotTimeout)
		defer t.Stop()
		timeout = t.C
	}
	w := r.window[position%uint64(len(r.window))]
	span := r.l.trace.loop.Begin("wait for a batch", -1)
	select {
	case s := <-w:
		if span.End(); position == 0 {
			r.start.Store(int64(time.Since(begin)))
		}
		r.counters()
		return s, r.accept(s, begin)
	case <-r.ctx.Done():
		return nil, context.Cause(r.ctx)
	case <-timeout:
		return nil, r.l.heldError()
	}
}

// accept hands a slot to the loop body, or frees it if it holds an error.
func (r *run) accept(s *ownedSlot, begin time.Time) error {
	if s.err != nil {
		err := s.err
		if r.ctx.Err() != nil { // it failed because the run ended
			err = context.Cause(r.ctx)
		}
		r.l.free.put(s)
		return err
	}
	if !r.l.deliver(s) {
		return ErrClosed
	}
	r.l.stats.wait.Add(time.Since(begin))
	r.l.stats.ready.Add(max(0, begin.Sub(s.ReadyAt)))
	r.l.stats.count(s.Slot)
	return nil
}

// settle waits for all that is under way, and counts it.
func (l *Loader) settle() error {
	for _, w := range l.workers {
		if err := w.Drain(); err != nil {
			return err
		}
	}
	sum, err := l.plan.Set.Stats()
	if err == nil {
		l.stats.tiers.Store(&sum)
	}
	return err
}

// end stops the workers, waits for them, and frees the slots that were made and not delivered.
func (r *run) end() {
	l := r.l
	r.cancel(context.Canceled)
	r.wg.Wait()
	if r.current != nil { // the loop body panicked
		l.leave(r.current)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ahead.End(); err != nil {
		l.closeErr = errors.Join(l.closeErr, err)
	}
	if !l.closed {
		if err := l.settle(); err != nil { // the next epoch will say so too
			l.plan.Log.Error("the device failed", "error", err)
		}
	}
	for _, w := range r.window {
		select {
		case s := <-w:
			l.free.put(s)
		default:
		}
	}
	l.told, l.running = r.report(), nil
	r.warnOfTimes()
	l.plan.Log.Debug("epoch ended", "epoch", r.epoch, "first", r.first, "duration", time.Since(r.began))
}
