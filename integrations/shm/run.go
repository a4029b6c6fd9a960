package shm

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/khop-gnn/khop/loader"
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
			r.form = r.forms[p.index]
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
	for _, p := range run.peers {
		_ = p.send(begun{p.run, run.at.epoch, run.at.next, run.end}.bytes()) // if it fails, the consumer's goroutine knows
	}
	if r.server.opt.Replay > 0 {
		run.err = r.replay(run)
	} else {
		run.err = r.deliver(run)
	}
}

// deliver announces the batches of a run.
func (r *rank) deliver(run *run) error {
	r.setWaiting("loader")
	for b, err := range r.loader.Range(run.ctx, run.at.epoch, run.at.next, math.MaxUint64) {
		if err != nil {
			return err
		}
		b.Keep()
		if !r.offer(run, b) {
			b.Release()
			return nil
		}
		r.setWaiting("loader")
	}
	r.settled(run)
	return nil
}

// settled waits until all batches of a run are acknowledged, so that its END says that they are.
func (r *rank) settled(run *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for run.ctx.Err() == nil {
		r.leave(run)
		if !slices.ContainsFunc(run.peers, func(p *peer) bool { return p.done < p.sent }) {
			return
		}
		r.waiting = "consumer"
		r.changed.Wait()
	}
}

// replay announces the same few batches over and over.
func (r *rank) replay(run *run) error {
	var list []*loader.Batch
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, b := range list {
			h := &r.slots[b.Slot()]
			if h.replayed = false; h.consumers == 0 {
				h.batch = nil
				b.Release()
			}
		}
	}()
	for b, err := range r.loader.Range(run.ctx, run.at.epoch, run.at.next, math.MaxUint64) {
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.slots[b.Slot()] = held{batch: b, replayed: true}
		r.mu.Unlock()
		if list = append(list, b.Keep()); len(list) == r.server.opt.Replay {
			break
		}
	}
	for i := range run.end {
		if !r.offer(run, list[i%uint64(len(list))]) {
			return nil
		}
	}
	r.settled(run)
	return nil
}

// offer waits until every consumer of the run can take a batch, and announces it. False if nobody wants it any more.
func (r *rank) offer(run *run, b *loader.Batch) bool {
	slot := uint32(b.Slot())
	r.mu.Lock()
	for {
		r.leave(run)
		if len(run.peers) == 0 || run.ctx.Err() != nil {
			r.mu.Unlock()
			return false
		}
		if r.canTake(run, slot) {
			break
		}
		r.waiting = "consumer"
		r.changed.Wait()
	}
	r.waiting = ""
	h := &r.slots[slot]
	h.batch, h.consumers = b, len(run.peers)
	next, now := b.State().Next, time.Now()
	for _, p := range run.peers {
		p.held[slot] = now
		p.nexts = append(p.nexts, next)
		p.sent++
	}
	r.sent++
	sequence := run.peers[0].sent - 1 // the same for all: they began together
	r.mu.Unlock()
	rec := &r.records[slot]
	m := announcement{slot: slot, sequence: sequence, epoch: b.Epoch, number: b.Number, segment: rec.segment, size: rec.size, offset: rec.offset, next: next}
	if b.Padded {
		m.flags = batchPadded
	}
	for _, p := range run.peers {
		m.run = p.run
		p.announce(&m)
	}
	return true
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

func (r *rank) setWaiting(who string) {
	r.mu.Lock()
	r.waiting = who
	r.mu.Unlock()
}

// announce sends BATCH, and before it the segments that the consumer has not got yet. If sending fails, the consumer's own
// goroutine learns it too and takes the slot back.
func (p *peer) announce(m *announcement) {
	arena := p.rank.arena
	for all := arena.all(); p.segments < len(all); p.segments++ {
		s := all[p.segments]
		note := segmentNote{index: uint32(p.segments), size: uint64(len(s.data))}
		if arena.access == readOnly {
			note.flag = segmentReadOnly
		}
		if err := p.socket.send(note.bytes(), s.fd); err != nil {
			return
		}
	}
	var b [64]byte
	m.put(b[:])
	_ = p.socket.send(b[:], -1)
}
