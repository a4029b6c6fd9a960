package loader

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/internal/makers"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/pinned"
)

// OnRequest is for seeds that come with each call of Loader.Sample: nodes of any types. Such a loader has no epochs.
// BatchSize is the most seeds of a request. Workers is how many requests are answered at the same time, and Workers
// plus Prefetch how many answers can exist, unfinished or not yet released. Estimate has the memory of these answers,
// which MaxMemory limits. Residence Disk is refused, because it must know batches ahead; Auto is Mapped.
func OnRequest() SeedSource { return SeedSource{kind: onRequest} }

// Request asks a loader for one batch.
type Request struct {
	// Seeds are nodes, of any types, at most BatchSize of them. With times the sampler samples for each as of its own
	// time. They must not change during the call. Labels are ignored.
	Seeds graph.Seeds
	// Epoch (below 2^32) and Number key all random choices, with the options Seed and Instance: the answer is, byte for
	// byte, batch Number of that epoch of a loader whose batch has these seeds in this order. Equal requests have equal
	// answers.
	Epoch, Number uint64
}

// Sample answers a request, in a loader whose Seeds are OnRequest. The batch is kept until the caller releases it, also
// after Close. Any number of goroutines may call it; a call works in the caller's goroutine and starts no other.
//
// A call waits while Workers other calls work, and while all slots have answers. Errors: context.Cause of ctx if that
// ends first; ErrSlotsHeld if no answer was released for SlotTimeout; ErrClosed; ErrOptions and graph.ErrSeed for an
// invalid request; and the error of the batch.
func (l *Loader) Sample(ctx context.Context, r Request) (*Batch, error) {
	if err := l.answers.enter(); err != nil {
		return nil, err
	}
	defer l.answers.leave()
	list, err := l.listRequest(&r)
	if err != nil {
		return nil, err
	}
	s, err := l.takeSlot(ctx)
	if err != nil {
		return nil, err
	}
	b := s.batch
	b.Epoch, b.Number, b.Padded, b.next = r.Epoch, r.Number, false, r.Number+1
	if err := l.answer(ctx, s, slots.Job{Epoch: uint32(r.Epoch), Number: r.Number, Asked: list}); err != nil {
		l.free.put(s)
		return nil, err
	}
	l.stats.count(s.Slot)
	l.mu.Lock()
	defer l.mu.Unlock()
	b.keep()
	return b, s.To(slots.Delivered, nil)
}

// listRequest lays out the seeds of a request, and refuses what it cannot ask for.
func (l *Loader) listRequest(r *Request) (*seedlist.List, error) {
	switch n := r.Seeds.Len(); {
	case !l.plan.Seeds.OnRequest:
		return nil, refuse("Seeds", " are %v: only a loader of OnRequest answers requests", l.seeds)
	case len(r.Seeds.Edges) > 0:
		return nil, fmt.Errorf("%w: a request of %d edges: must be of nodes, such as their ends", ErrOptions, n)
	case n > int64(l.plan.BatchSize):
		return nil, refuse("BatchSize", " is %d, and a request has %d seeds", l.plan.BatchSize, n)
	case r.Epoch > math.MaxUint32:
		return nil, fmt.Errorf("%w: a request of epoch %d: must be below 2^32", ErrOptions, r.Epoch)
	}
	g := l.plan.Graph
	if err := r.Seeds.Check(g.Schema()); err != nil {
		return nil, err
	}
	list, err := seedlist.New(r.Seeds, g, "", "")
	if err == nil {
		err = l.asked.unread(&list, l.plan.Sampler, l.plan.ReadsTimes, l.plan.ReadsFrom)
	}
	return &list, err
}

// takeSlot waits for a slot that nobody owns.
func (l *Loader) takeSlot(ctx context.Context) (*ownedSlot, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case <-l.free.ready: // the usual case needs no timer
		return l.free.take(), nil
	default:
	}
	t := time.NewTicker(l.asked.Tuning.SlotTimeout)
	defer t.Stop()
	for {
		select {
		case <-l.free.ready:
			return l.free.take(), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-l.answers.ending:
			return nil, ErrClosed
		case <-t.C:
			if l.allHeld() {
				return nil, l.heldError()
			}
		}
	}
}

// answer makes the batch of a request, when a worker has time for it.
func (l *Loader) answer(ctx context.Context, s *ownedSlot, j slots.Job) error {
	var w *makers.Worker
	select {
	case w = <-l.answers.idle:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.answers.ending:
		return ErrClosed
	}
	defer func() { l.answers.idle <- w }()
	if err := pinned.Guard(w.Open); err != nil {
		return l.plan.ExplainDamage(err)
	}
	return w.Make(ctx, s.Slot, j, l.made(s.batch))
}

// answering is the requests that a loader answers, and the workers that have time for one.
type answering struct {
	idle   chan *makers.Worker
	ending chan struct{}

	mu    sync.Mutex // guards the following
	ended bool
	calls sync.WaitGroup
}

func (a *answering) open(workers []*makers.Worker) {
	a.idle, a.ending = make(chan *makers.Worker, len(workers)), make(chan struct{})
	for _, w := range workers {
		a.idle <- w
	}
}

func (a *answering) enter() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return ErrClosed
	}
	a.calls.Add(1)
	return nil
}

func (a *answering) leave() { a.calls.Done() }

// close refuses further requests, and waits for those under way.
func (a *answering) close() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	if a.ending != nil {
		close(a.ending)
	}
	a.calls.Wait()
}
