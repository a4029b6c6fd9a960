package shm

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
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
		if len(run.peers) < max(r.server.opt.Readers, 1) {
			r.changed.Wait()
			continue
		}
		for _, p := range run.peers {
			p.run, p.at, p.asked = p.asked.run, p.asked.at, nil
			p.active, p.stop, p.sent, p.done, p.nexts = true, false, 0, 0, p.nexts[:0]
			r.form = r.forms[p.way]
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
		_ = p.send(begun{p.run, run.at.epoch, run.at.next, run.end}.bytes())
	}
	r.mu.Unlock()
	if n := r.server.opt.Replay; n > 0 {
		run.err = r.replay(run, n)
	} else {
		run.err = r.deliver(run)
	}
	if run.err == nil {
		r.settled(run)
	}
}

// deliver queues the batches of a run.
func (r *rank) deliver(run *run) error {
	room := max(1, r.loader.Options().Prefetch-r.server.opt.Hold)
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

// replay has n batches announced over and over, which it makes the first time.
func (r *rank) replay(run *run, n int) error {
	if len(r.replayed) == 0 {
		for b, err := range r.loader.Range(run.ctx, run.at.epoch, run.at.next,
			uint64(n)*uint64(r.loader.Options().WorldSize)) {
			if err != nil {
				return err
			}
			r.mu.Lock()
			r.slots[b.Slot()] = held{batch: b.Keep(), replayed: true}
			r.mu.Unlock()
			r.replayed = append(r.replayed, b)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	run.replayed = r.replayed
	r.pump()
	return nil
}

// settled waits until all batches of a run are announced and acknowledged, so that its END says that they are.
func (r *rank) settled(run *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until(run, func() bool {
		return !slices.ContainsFunc(run.peers, func(p *peer) bool { return !p.gone && !p.stop && p.done < run.end })
	})
}

// pump announces what consumers can take. It runs where a batch was made and where a slot came back. mu is held.
func (r *rank) pump() {
	run := r.current
	if run == nil {
		return
	}
	r.leave(run)
	for len(run.peers) > 0 && run.ctx.Err() == nil {
		b := r.front(run)
		switch {
		case b == nil:
			r.waiting = "loader"
			return
		case !r.canTake(run, uint32(b.Slot())):
			r.waiting = "consumer"
			return
		}
		if run.announced++; run.replayed == nil {
			run.queue = append(run.queue[:0], run.queue[1:]...)
		}
		r.announce(run, b)
	}
}

// front returns the batch to announce next; nil if it is not there yet. mu is held.
func (r *rank) front(run *run) *loader.Batch {
	switch {
	case run.announced == run.end:
	case len(run.replayed) > 0:
		for _, b := range run.replayed { // one that nobody has
			if r.slots[b.Slot()].consumers == 0 {
				return b
			}
		}
		return run.replayed[0]
	case len(run.queue) > 0:
		return run.queue[0]
	}
	return nil
}

// announce gives a batch to all consumers of the run. mu is held.
func (r *rank) announce(run *run, b *loader.Batch) {
	slot := uint32(b.Slot())
	h, rec := &r.slots[slot], &r.records[slot]
	h.batch, h.consumers = b, len(run.peers)
	m := announcement{slot: slot, sequence: run.announced - 1, epoch: b.Epoch, number: b.Number,
		segment: rec.segment, size: rec.size, offset: rec.offset, next: b.State().Next}
	if b.Padded {
		m.flags = batchPadded
	}
	now := time.Now()
	for _, p := range run.peers {
		p.held[slot] = now
		p.nexts = append(p.nexts, m.next)
		p.sent++
		m.run = p.run
		p.announce(&m)
	}
	r.sent++
}

// canTake reports whether all consumers of the run have credit. mu is held.
func (r *rank) canTake(run *run, slot uint32) bool {
	if r.slots[slot].consumers > 0 { // replayed, and not back yet
		return false
	}
	for _, p := range run.peers {
		if len(p.held) >= p.hold || r.server.states != nil && p.done < p.sent {
			return false
		}
	}
	return true
}

// leave removes consumers from the run that are gone or have stopped it. mu is held.
func (r *rank) leave(run *run) {
	stay := run.peers[:0]
	for _, p := range run.peers {
		switch {
		case p.gone:
		case p.stop:
			p.active = false
			_ = p.send(endNote{p.run, endStopped, p.sent, run.at.epoch}.bytes())
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
			_ = p.send(endNote{p.run, endComplete, p.sent, run.at.epoch}.bytes())
		}
	}
	if run.err != nil && len(run.peers) > 0 && !ending {
		r.server.opt.Logger.Error("a run failed", "rank", r.number, "epoch", run.at.epoch, "error", run.err)
	}
}

// announce sends BATCH, and before it the segments that the consumer has not got yet. If sending fails, the consumer's
// own goroutine learns it too and takes the slot back.
func (p *peer) announce(m *announcement) {
	arena := p.rank.arena
	for all := arena.all(); p.segments < len(all); p.segments++ {
		s := all[p.segments]
		if s.device != nil && p.way.place == unified.Host {
			continue
		}
		note := segmentNote{index: uint32(p.segments), size: uint64(len(s.data))}
		s.device.describe(&note)
		if arena.access == readOnly {
			note.flag = segmentReadOnly
		}
		if err := p.write(note.bytes(), s.fd); err != nil {
			return
		}
	}
	var b [64]byte
	m.put(b[:])
	_ = p.write(b[:], -1)
}
