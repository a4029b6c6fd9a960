package server

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
)

// loop makes the runs that consumers ask for, until ctx ends.
func (r *rank) loop(ctx context.Context) {
	stop := context.AfterFunc(ctx, r.wake)
	defer stop()
	for {
		r.checkFinished()
		run := r.await(ctx)
		if run == nil {
			return
		}
		r.serve(run)
		r.finishRun(run, ctx.Err() != nil)
		run.cancel(nil)
	}
}

// checkFinished tells the server when the last epoch was acknowledged.
func (r *rank) checkFinished() {
	r.mu.Lock()
	last := r.server.opt.Epochs
	now := last > 0 && r.place.epoch >= last-1 && r.place.next >= r.loader.AllBatches()
	first := now && !r.finished
	r.finished = r.finished || now
	r.mu.Unlock()
	if first {
		r.server.rankFinished()
	}
}

// await waits until as many consumers as the ring has readers have asked for a run, and begins it.
func (r *rank) await(ctx context.Context) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if ctx.Err() != nil {
			return nil
		}
		run := &run{}
		for p := range r.peers {
			if p.asked != nil {
				run.peers, run.at = append(run.peers, p), p.asked.at
			}
		}
		if len(run.peers) < r.awaited() {
			r.changed.Wait()
			continue
		}
		for _, p := range run.peers {
			p.run, p.at, p.asked = p.asked.run, p.asked.at, nil
			p.active, p.stop, p.sent, p.done, p.nexts = true, false, 0, 0, p.nexts[:0]
			if !r.answers() { // whose batches are all of one form, and are made meanwhile
				r.form = r.forms[p.way]
			}
		}
		run.end = r.loader.NumBatchesFrom(run.at.next)
		run.ctx, run.cancel = context.WithCancelCause(ctx)
		r.current = run
		_ = r.settle() // the rank stands there now; if the file fails, so it does at the first acknowledgement
		return run
	}
}

// serve makes one run.
func (r *rank) serve(run *run) {
	stop := context.AfterFunc(run.ctx, r.wake)
	defer stop()
	r.mu.Lock()
	for _, p := range run.peers {
		// if it fails, the consumer's goroutine knows
		_ = p.send(wire.Append(nil, wire.KindBegun, wire.Begun{Run: p.run, Epoch: run.at.epoch, Next: run.at.next,
			Batches: run.end}, nil))
	}
	r.mu.Unlock()
	if run.err = r.deliver(run); run.err == nil {
		r.settled(run)
	}
}

// deliver queues the batches of a run.
func (r *rank) deliver(run *run) error {
	room := max(1, r.loader.Answer().Prefetch-r.server.opt.Hold)
	for b, err := range r.loader.Range(run.ctx, run.at.epoch, run.at.next, math.MaxUint64) {
		r.mu.Lock()
		if err != nil { // it comes after the batches before it
			r.until(run, func() bool { return len(run.queue) == 0 })
			r.mu.Unlock()
			return err
		}
		b.Keep()
		run.queue = append(run.queue, b)
		r.pump()
		r.until(run, func() bool { return len(run.queue) < room })
		r.mu.Unlock()
	}
	return nil
}

// until lets the loop wait, unless the run ends. mu is held.
func (r *rank) until(run *run, is func() bool) {
	run.awaits = is
	for run.ctx.Err() == nil && !is() {
		r.changed.Wait()
	}
	run.awaits = nil
}

// settled waits until all batches of a run are announced and acknowledged, so that its END says that they are.
func (r *rank) settled(run *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until(run, func() bool {
		return !slices.ContainsFunc(run.peers, func(p *peer) bool { return !p.gone && !p.stop && p.done < run.end })
	})
}

// pump announces batches as long as consumers can take them. It is called when a batch was made and when a slot came
// back. mu is held.
func (r *rank) pump() {
	defer r.judge()
	run := r.current
	if run == nil {
		return
	}
	r.leave(run)
	for len(run.peers) > 0 && run.ctx.Err() == nil {
		switch {
		case len(run.queue) == 0:
			r.waiting = "loader"
			return
		case !r.canTake(run):
			r.waiting = "consumer"
			return
		}
		b := run.queue[0]
		run.queue = append(run.queue[:0], run.queue[1:]...)
		run.announced++
		r.announce(run, b)
	}
}

// announce gives a batch to all consumers of the run. mu is held.
func (r *rank) announce(run *run, b *loader.Batch) {
	slot := uint32(b.Slot())
	h, rec := &r.slots[slot], &r.records[slot]
	h.batch, h.consumers = b, len(run.peers)
	m := wire.Batch{Slot: slot, Sequence: run.announced - 1, Epoch: b.Epoch, Number: b.Number,
		Segment: rec.segment, Size: rec.size, Offset: rec.offset, Next: b.State().Next}
	m.Flags = paddedFlag(b)
	now := time.Now()
	for _, p := range run.peers {
		p.held[slot] = now
		p.nexts = append(p.nexts, m.Next)
		p.sent++
		m.Run = p.run
		p.announce(m)
	}
	r.sent++
}

// canTake reports whether all consumers of the run have credit. mu is held.
func (r *rank) canTake(run *run) bool {
	return !slices.ContainsFunc(run.peers, func(p *peer) bool { return !r.hasCredit(p) })
}

// hasCredit reports whether a consumer can take a batch. mu is held.
func (r *rank) hasCredit(p *peer) bool {
	return len(p.held) < p.hold && (r.server.states == nil || p.done == p.sent)
}

// leave removes consumers from the run that are gone or have stopped it. mu is held.
func (r *rank) leave(run *run) {
	stay := run.peers[:0]
	for _, p := range run.peers {
		switch {
		case p.gone:
		case p.stop:
			p.active = false
			_ = p.send(endMessage(p.run, wire.EndStopped, p.sent, run.at.epoch))
		default:
			stay = append(stay, p)
		}
	}
	clear(run.peers[len(stay):])
	run.peers = stay
}

// finishRun tells the consumers that are left how the run ended, unless the whole server is ending and will say so.
func (r *rank) finishRun(run *run, ending bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(run)
	r.current, r.waiting = nil, ""
	for _, b := range run.queue { // nobody wants them any more
		b.Release()
	}
	defer r.judge()
	for _, p := range run.peers {
		p.active = false
		switch {
		case ending:
		case run.err != nil:
			p.complain(p.run, run.err)
		default:
			if p.sent == 0 { // an empty run is acknowledged as it ends
				p.at.next = r.loader.AllBatches()
				_ = r.settle()
			}
			_ = p.send(endMessage(p.run, wire.EndComplete, p.sent, run.at.epoch))
		}
	}
	if v := r.report(); v.Rule != "" && run.err == nil && !ending {
		r.server.opt.Logger.Info("epoch ended", "rank", r.number, "epoch", run.at.epoch, "report", v)
	}
	if run.err != nil && len(run.peers) > 0 && !ending {
		r.server.opt.Logger.Error("a run failed", "rank", r.number, "epoch", run.at.epoch, "error", run.err)
	}
}

// announce sends BATCH, and before it the segments that the consumer has not got yet. If sending fails, the consumer's
// own goroutine learns it too and takes the slot back.
func (p *peer) announce(m wire.Batch) {
	for all := p.rank.arena.all(); p.segments < len(all); p.segments++ {
		s := all[p.segments]
		if s.Device != nil && p.way.place == pinned.Host {
			continue
		}
		if p.outbox.post(wire.Append(nil, wire.KindSegment, s.Note(p.segments), nil), s.FD) != nil {
			return
		}
	}
	p.out = wire.Append(p.out[:0], wire.KindBatch, m, nil)
	_ = p.outbox.post(p.out, -1)
}

func endMessage(run, reason uint32, sent, epoch uint64) []byte {
	return wire.Append(nil, wire.KindEnd, wire.End{Run: run, Reason: reason, Sent: sent, Epoch: epoch}, nil)
}
