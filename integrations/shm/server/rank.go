package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// rank is one ring: a loader, the memory that it fills, and the consumers that read it (one, unless the ring is a
// broadcast). Its loop makes runs, one after another; consumers' goroutines change what mu guards and tell it through
// changed.
type rank struct {
	server   *Server
	number   uint32
	loader   *loader.Loader
	arena    *arena
	device   *device.Device     // that batches lie on; nil for none
	forms    map[way]*form      // read-only
	form     *form              // of the run under way; set before its workers start
	down     bool               // batches are made on a device
	index    unified.DType      // where a consumer asks for none
	frontier *sampling.Frontier // of the sampler's layers; nil where it has none
	hold     int                // slots that a consumer may hold
	records  []record           // by loader slot

	mu       sync.Mutex
	changed  *sync.Cond // on mu: something below, or the context
	peers    map[*peer]struct{}
	lost     int // readers that were given up and are not back
	current  *run
	place    place
	slots    []held
	waiting  string // for whom: "loader", "consumer" or nobody
	sent     uint64
	done     uint64
	finished bool // the last epoch was acknowledged
}

// held is a loader slot: its batch, and how many consumers have it.
type held struct {
	batch     *loader.Batch
	consumers int
}

// run is an epoch, or a part of one, on its way to some consumers.
type run struct {
	at     place
	end    uint64 // how many batches there are
	ctx    context.Context
	cancel context.CancelCauseFunc
	err    error

	// Guarded by rank.mu.
	peers     []*peer         // that still want it
	announced uint64          // batches
	queue     []*loader.Batch // made, and not announced yet
	awaits    func() bool     // what the loop waits for; nil if it does not
}

// errStopped ends a run that nobody wants any more.
var errStopped = errors.New("the run was stopped")

func newRank(ctx context.Context, s *Server, src *loader.Placed, opt loader.Options) (r *rank, err error) {
	r = &rank{server: s, number: uint32(opt.Rank), peers: map[*peer]struct{}{}, forms: map[way]*form{}}
	r.changed = sync.NewCond(&r.mu)
	a := wire.ReadWrite
	switch {
	case s.within:
		a = wire.Within
	case s.opt.Readers > 0:
		a = wire.ReadOnly
	}
	r.arena = newArena(a, src.Ledger())
	if err := r.open(ctx, src, opt); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// open makes the loader, and the ring's part of its slots.
func (r *rank) open(ctx context.Context, src *loader.Placed, opt loader.Options) (err error) {
	s := r.server
	opt.Hooks.RowMemory, opt.Hooks.Made = r.arena, r.made
	if err := r.openDevice(src, &opt); err != nil {
		return err
	}
	if err := r.makeForms(src.BatchArrays(), src.Graph().Schema().IDType()); err != nil {
		return err
	}
	if opt.MaxMemory > 0 {
		for _, f := range r.forms {
			opt.Hooks.PerSlot = max(opt.Hooks.PerSlot, f.most())
		}
	}
	if opt.Tuning.SlotTimeout = heldTimeout; !r.answers() {
		opt.Tuning.SlotTimeout = math.MaxInt64 // how long a batch is held is the consumer's affair: statistics tell it
	}
	if r.loader, err = loader.NewContext(ctx, src, opt); err != nil {
		return err
	}
	of, err := r.loader.Answer().Sampler.Describe(src.Graph().Schema(), opt.BatchSize)
	if err != nil {
		return err
	}
	r.frontier = of.Frontier
	n := r.loader.Stats().Slots
	if r.hold = min(s.opt.Hold, n-1); r.hold < s.opt.Hold {
		s.opt.Logger.Warn("consumers may hold fewer batches, to keep within MaxMemory", "hold", r.hold)
	}
	if r.hold < 1 {
		return fmt.Errorf("%w: MaxMemory is %s, which has room for %d batch of rank %d at a time; the feed needs two",
			loader.ErrMemory, machine.Bytes(s.opt.Loader.MaxMemory), n, r.number)
	}
	if e := r.loader.Estimate(); s.within {
		r.arena.expect(sat.Mul(int64(n), sat.Add(e.SlotBound, r.form.most())) / 4 * 5) // as buffers grow
	}
	r.records, r.slots = make([]record, n), make([]held, n)
	for i := range r.records {
		m := &r.records[i].memory
		m.Options = pinned.Options{From: r.arena, Ledger: src.Ledger(), Purpose: pinned.Batches}
		if err := m.Claim(opt.Hooks.PerSlot); err != nil { // with a limit no batch needs more
			return err
		}
	}
	return nil
}

// makeForms prepares the descriptors for the index dtypes that the dataset can have, of which ids is its own.
func (r *rank) makeForms(arrays []layout.Array, ids unified.DType) error {
	if r.index = r.server.opt.IndexDType; r.index == unified.Invalid {
		r.index = ids
	}
	for _, d := range []unified.DType{unified.Int32, unified.Int64} {
		for _, place := range r.places() {
			w := way{d, place}
			f, err := newForm(arrays, w, r.down)
			var no *refusal
			if errors.As(err, &no) && d != r.index {
				continue
			}
			if err != nil {
				return fmt.Errorf("%w: %w", shm.ErrOptions, err)
			}
			r.forms[w] = f
		}
	}
	r.form = r.forms[way{r.index, pinned.Host}]
	return nil
}

// made is called by the loader's workers with each batch.
func (r *rank) made(b *loader.Batch) error {
	return r.form.write(&r.records[b.Slot()], r.arena, b)
}

// close frees the loader and the ring. No consumer may be attached and no loop may run.
func (r *rank) close() error {
	var errs []error
	if r.loader != nil {
		errs = append(errs, r.loader.Close())
	}
	for i := range r.records {
		errs = append(errs, r.records[i].memory.Close())
	}
	return errors.Join(append(errs, r.arena.close(), r.closeDevice())...)
}

// state returns the loader's state of where the rank stands.
func (r *rank) state() loader.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loader.State(r.place.epoch, r.place.next)
}

// goOn returns where a consumer begins that goes on: after a whole epoch with the one after it.
func (r *rank) goOn() place {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.place.next >= r.loader.AllBatches() && r.loader.AllBatches() > 0 {
		return place{r.place.epoch + 1, 0}
	}
	return r.place
}

// attach gives a consumer the rank that it asks for.
func (s *Server) attach(ctx context.Context, p *peer, h wire.Hello) error {
	deadline := time.Now().Add(takenTimeout)
	for {
		r, wait, err := s.choose(h)
		if err != nil {
			return err
		}
		taken := r.enter(ctx, p, h, wait, deadline)
		if taken == nil || h.Rank != wire.AnyRank || ctx.Err() != nil || !time.Now().Before(deadline) {
			return taken
		}
	}
}

// choose returns the rank to enter, and whether to wait there for the consumer that has it.
func (s *Server) choose(h wire.Hello) (r *rank, wait bool, err error) {
	if h.Rank != wire.AnyRank {
		i := slices.IndexFunc(s.ranks, func(r *rank) bool { return r.number == h.Rank })
		if i < 0 {
			return nil, false, refuse(wire.CodeRank, "rank %d: the server has %v of %d ranks", h.Rank, s.opt.Ranks,
				s.opt.WorldSize)
		}
		return s.ranks[i], true, nil
	}
	for _, r := range s.ranks {
		r.mu.Lock()
		free := len(r.peers) == 0
		r.mu.Unlock()
		if free {
			return r, false, nil
		}
	}
	return s.ranks[0], true, nil
}

// enter makes p a consumer of the rank, when it is free.
func (r *rank) enter(ctx context.Context, p *peer, h wire.Hello, wait bool, deadline time.Time) error {
	shared := r.server.opt.Readers > 0 || r.answers()
	index := unified.DType(h.Index)
	if index == unified.Invalid {
		index = r.index
	}
	w := way{index, r.placeFor(h)}
	if r.forms[w] == nil || shared && index != r.index {
		return refuse(wire.CodeIndexDType, "the ring has ids as %v, not as %v", r.index, index)
	}
	wake := context.AfterFunc(ctx, r.wake)
	defer wake()
	timer := time.AfterFunc(time.Until(deadline), r.wake)
	defer timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !shared && len(r.peers) > 0 {
		if ctx.Err() != nil {
			return refuse(wire.CodeEnding, "the server is shutting down")
		}
		if !wait || !time.Now().Before(deadline) {
			pid := r.holder()
			if pid == 0 && wait {
				r.changed.Wait() // for detach
				continue
			}
			return refuse(wire.CodeTaken, "process %d is the consumer of rank %d: end it, or ask for another rank", pid,
				r.number)
		}
		r.changed.Wait()
	}
	p.rank, p.way, p.held = r, w, map[uint32]time.Time{}
	p.hold = r.hold
	if h.Hold > 0 && int64(h.Hold) < int64(p.hold) {
		p.hold = int(h.Hold)
	}
	r.peers[p] = struct{}{}
	r.lost = max(r.lost-1, 0)
	r.judge()
	return nil
}

// holder returns a process that is connected to the rank; 0 if the connections of all have ended, as detach is about to
// find. mu is held.
func (r *rank) holder() int {
	for p := range r.peers {
		if !p.socket.Ended() {
			return p.pid
		}
	}
	return 0
}

func (r *rank) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed.Broadcast()
}

// detach takes a consumer's slots back and lets its run go on without it. It returns why the consumer was given up, nil
// if it was not.
func (r *rank) detach(p *peer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.gone, p.asked = true, nil
	p.forgive()
	delete(r.peers, p)
	r.cancelUnwanted() // before workers can have the slots
	for slot := range p.held {
		r.giveBack(slot)
	}
	clear(p.held)
	r.pump()
	r.changed.Broadcast()
	return p.end
}

// giveBack counts one consumer less that has a slot. mu is held.
func (r *rank) giveBack(slot uint32) {
	h := &r.slots[slot]
	h.consumers--
	if h.consumers == 0 {
		h.batch.Release()
		h.batch = nil
	}
}

// cancelUnwanted ends the run where no consumer wants it any more. mu is held.
func (r *rank) cancelUnwanted() {
	if r.current == nil {
		return
	}
	for p := range r.peers {
		if p.active && !p.stop {
			return
		}
	}
	r.current.cancel(errStopped)
}

// ask takes a request for a run, and ends the run that the consumer has.
func (r *rank) ask(p *peer, q *request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.run <= p.lastRun {
		return fmt.Errorf("%w: BEGIN of run %d after run %d", wire.ErrMessage, q.run, p.lastRun)
	}
	p.lastRun = q.run
	for other := range r.peers {
		if o := other.asked; other != p && o != nil && o.at != q.at {
			return refuse(wire.CodeReaders, "another reader waits for epoch %d from batch %d, you ask for epoch %d "+
				"from batch %d: all readers must begin at the same place",
				o.at.epoch, o.at.next, q.at.epoch, q.at.next)
		}
	}
	if p.active {
		r.stopRun(p)
	}
	if old := p.asked; old != nil { // it never began
		_ = p.send(endMessage(old.run, wire.EndStopped, 0, old.at.epoch))
	}
	p.asked = q
	r.judge()
	r.changed.Broadcast()
	return nil
}

// stop ends a consumer's run, or what it has asked for.
func (r *rank) stop(p *peer, run uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case p.asked != nil && p.asked.run == run:
		old := p.asked
		p.asked = nil
		_ = p.send(endMessage(run, wire.EndStopped, 0, old.at.epoch))
	case p.active && p.run == run:
		r.stopRun(p)
	}
}

// stopRun lets a consumer's run go on without it, and tells it so at once: others may wait for the slots that it then
// returns. mu is held.
func (r *rank) stopRun(p *peer) {
	p.stop = true
	r.cancelUnwanted()
	r.pump()
	r.changed.Broadcast()
}

// next takes acknowledgements and slots. useful is false where there are none.
func (r *rank) next(p *peer, m wire.Next, slots []uint32) (useful bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	useful = len(slots) > 0
	for _, slot := range slots {
		if _, ok := p.held[slot]; !ok {
			return useful, fmt.Errorf("%w: slot %d comes back, which you do not hold", wire.ErrMessage, slot)
		}
		delete(p.held, slot)
		r.giveBack(slot)
	}
	if m.Run == p.run && m.Run != 0 {
		if m.Done < p.done || m.Done > p.sent {
			return useful, fmt.Errorf("%w: %d batches acknowledged, where it was %d and %d were announced",
				wire.ErrMessage, m.Done, p.done, p.sent)
		}
		if n := m.Done - p.done; n > 0 {
			p.at = place{p.at.epoch, p.nexts[n-1]}
			p.nexts = append(p.nexts[:0], p.nexts[n:]...)
			p.done = m.Done
			r.done += n
			useful = true
			if err := r.settle(); err != nil {
				return useful, err
			}
		}
	}
	if p.late != nil { // it moves: its time begins anew
		p.forgive()
	}
	r.pump()
	if run := r.current; run != nil && run.awaits != nil && run.awaits() { // nobody else waits for this
		r.changed.Broadcast()
	}
	return useful, nil
}

// settle moves the rank's place to where the slowest of its consumers is, and stores it. mu is held.
func (r *rank) settle() error {
	first := true
	for p := range r.peers {
		if p.run != 0 && (first || p.at.before(r.place)) {
			r.place, first = p.at, false
		}
	}
	if s := r.server.states; s != nil {
		i := slices.Index(r.server.opt.Ranks, int(r.number))
		if err := s.save(i, r.loader.State(r.place.epoch, r.place.next)); err != nil {
			r.server.opt.Logger.Error("the state could not be written", "error", err)
			return refuse(wire.CodeState, "the server cannot write its state: %w", err)
		}
	}
	return nil
}
