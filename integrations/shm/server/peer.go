package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
)

const (
	// farewellTimeout is how long a consumer has to take why its connection ends.
	farewellTimeout = time.Second
	// takenTimeout is how long a new consumer waits for the one before it, which may die at this moment. For one whose
	// connection has ended it waits longer: the server only has to get around to it.
	takenTimeout = time.Second
)

// helloTimeout is how long a connection may say nothing. A variable for tests only.
var helloTimeout = 5 * time.Second

// peer is a consumer, as its server sees it. Its goroutine receives what it sends; the rank's loop announces batches to
// it.
type peer struct {
	server  *Server
	socket  link
	outbox  outbox
	rank    *rank // from HELLO on
	admit   bool  // it counts as a consumer; the server's mu guards it
	pid     int   // as the kernel or else the consumer says, for messages
	watched int   // as the kernel says; 0 for a process that it does not show us
	since   time.Time
	way     way
	hold    int

	// The receiving goroutine's.
	slots []uint32  // room for parsing
	idle  allowance // of messages that change nothing

	// Guarded by rank.mu.
	segments int    // announced
	out      []byte // room for a BATCH
	gone     bool   // the connection is over
	end      error  // why it was given up
	late     *clock // runs where the other readers wait for this one
	asked    *request
	active   bool   // takes part in the rank's run
	stop     bool   // wants out of it
	run      uint32 // the run's number, also after its end
	lastRun  uint32 // the greatest number it has used
	sent     uint64 // batches of the run
	done     uint64 // acknowledged
	at       place  // after the last that was acknowledged
	nexts    []uint64
	held     map[uint32]time.Time // slots, since when
}

// request is a BEGIN, resolved.
type request struct {
	run uint32
	at  place
}

// place is before batch next, over all ranks, of an epoch.
type place struct{ epoch, next uint64 }

func (p place) before(q place) bool {
	return p.epoch < q.epoch || p.epoch == q.epoch && p.next < q.next
}

// serve runs the connection to its end.
func (p *peer) serve(ctx context.Context) {
	defer p.outbox.close()
	err := p.greet(ctx)
	if err == nil {
		p.server.opt.Logger.Info("a consumer is there", "rank", p.rank.number, "pid", p.pid)
		// The connection must end with the process, even where a fork of it still has the socket.
		ended := make(chan struct{})
		stop := WatchProcess(p.watched, func() {
			close(ended)
			p.socket.CloseRead()
		})
		if err = p.receiveAll(); err != nil {
			p.awaitKernels(ctx, ended)
		}
		stop()
	}
	if p.rank != nil {
		if end := p.rank.detach(p); end != nil {
			err = end
		}
	}
	p.leave(err)
}

// leave says why the connection ends, to the consumer and in the log.
func (p *peer) leave(err error) {
	s := p.server
	var r *refusal
	if errors.As(err, &r) {
		p.complain(0, err) // no batch comes after it
		p.outbox.wait(farewellTimeout)
		s.refused.warn(s.opt.Logger, "a consumer was refused", "pid", p.pid, "code", r.code.String(), "error", err)
	} else if p.rank != nil {
		s.opt.Logger.Info("a consumer has gone", "rank", p.rank.number, "pid", p.pid)
	}
}

// greet receives HELLO, attaches the consumer to its rank and answers.
func (p *peer) greet(ctx context.Context) error {
	uid, pid, err := p.socket.Peer()
	if err != nil {
		return err
	}
	p.pid, p.watched = pid, pid
	if uid != p.server.uid {
		return refuse(wire.CodeUser, "you are user %d, the server is user %d's: run both as the same user", uid,
			p.server.uid)
	}
	h, err := p.hello()
	if err != nil {
		return err
	}
	if h.Oldest > shm.Version || h.Newest < shm.Version {
		return refuse(wire.CodeVersion, "you speak versions %d to %d of the feed, the server %d: install the same "+
			"version of khop on both sides",
			h.Oldest, h.Newest, shm.Version)
	}
	if !p.server.admit(p) {
		return refuse(wire.CodeFull, "%d consumers are connected, which is all that its option max-consumers allows",
			p.server.opt.MaxConsumers)
	}
	if p.pid == 0 { // of a process that this one cannot see
		p.pid = int(h.Process)
	}
	if err := p.server.attach(ctx, p, h); err != nil {
		return err
	}
	return p.welcome()
}

// hello receives HELLO.
func (p *peer) hello() (wire.Hello, error) {
	b, err := p.receive(make([]byte, wire.MaxMessage), time.Now().Add(helloTimeout))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return wire.Hello{}, refuse(wire.CodeMessage, "%w: no HELLO came within %v", wire.ErrMessage, helloTimeout)
	}
	if err != nil && p.server.wasTurnedOut(p) {
		return wire.Hello{}, refuse(wire.CodeFull, "%d connections said nothing, which is all that the server allows",
			mostStrangers)
	}
	if err != nil {
		return wire.Hello{}, err
	}
	if k, err := wire.KindOf(b); err != nil || k != wire.KindHello {
		return wire.Hello{}, refuse(wire.CodeMessage, "%w: the first message must be HELLO", wire.ErrMessage)
	}
	h, _, err := wire.Parse[wire.Hello](b)
	return h, blame(err)
}

// receive returns the next message of a consumer, in room for it. end is as in Socket.Receive.
func (p *peer) receive(room []byte, end time.Time) ([]byte, error) {
	n, fd, err := p.socket.Receive(context.Background(), end, room)
	if fd >= 0 {
		wire.CloseDescriptor(fd)
		err = fmt.Errorf("%w: a file descriptor from a consumer", wire.ErrMessage)
	}
	return room[:n], blame(err)
}

// blame makes a refusal of an error that blames the consumer.
func blame(err error) error {
	if errors.Is(err, wire.ErrMessage) {
		return &refusal{wire.CodeMessage, err}
	}
	return err
}

func (p *peer) welcome() error {
	r, s := p.rank, p.server
	opt, made := r.loader.Options(), r.loader.Answer()
	d := describe{
		Version: s.opt.Version, PID: os.Getpid(), Dataset: s.name, DatasetID: fmt.Sprintf("%x", s.id),
		Sampler: made.Sampler.Fingerprint(), Layers: r.loader.NumLayers(), Seeds: made.Seeds.String(),
		NumSeeds:  r.loader.NumSeeds(),
		BatchSize: made.BatchSize, Shuffle: opt.Shuffle, DropLast: opt.DropLast, Remainder: opt.Remainder.String(),
		Batches: r.loader.AllBatches(), Epochs: s.opt.Epochs, Readers: s.opt.Readers, Device: made.Device,
		Why:   s.why,
		State: r.state(), Notes: s.noted.all(),
	}
	if r.device != nil {
		d.UUID, d.MPS = r.device.UUID(), r.device.MPS()
	}
	if r.frontier != nil {
		d.Frontier = r.frontier.String()
	}
	if r.answers() {
		for _, t := range r.loader.Schema().Nodes {
			d.NodeTypes = append(d.NodeTypes, nodeType{t.Name, t.Count})
		}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	w := wire.Welcome{Magic: wire.Magic, Version: shm.Version, Rank: r.number, WorldSize: uint32(s.opt.WorldSize),
		Hold: uint32(p.hold), Slots: uint32(len(r.records)), Index: uint32(p.way.index), JSON: uint32(len(text)),
		Batches: r.loader.NumBatches()}
	for flag, is := range map[uint32]bool{wire.IsBroadcast: s.opt.Readers > 0, wire.IsDurable: s.states != nil,
		wire.IsOnDevice: p.way.place == pinned.Device} {
		if is {
			w.Is |= flag
		}
	}
	return p.send(wire.Append(nil, wire.KindWelcome, w, text))
}

// send sends a message, without waiting until the consumer reads it.
func (p *peer) send(b []byte) error {
	if len(b) > wire.MaxMessage {
		return refuse(wire.CodeMessage, "%w: an answer of %d bytes", wire.ErrMessage, len(b))
	}
	return p.outbox.post(b, -1)
}

// complain sends ERROR about a run, or with run 0 about the connection.
func (p *peer) complain(run uint32, err error) {
	code := wire.CodeLoad
	var r *refusal
	switch {
	case errors.As(err, &r):
		code = r.code
	case errors.Is(err, shm.ErrNoRoom):
		code = wire.CodeMemory
	case errors.Is(err, wire.ErrMessage):
		code = wire.CodeMessage
	}
	text := err.Error()
	text = strings.ToValidUTF8(text[:min(len(text), wire.MaxText)], "")
	_ = p.send(wire.AppendText(nil, wire.KindError, run, uint32(code), []byte(text))) // if it fails, receiving does too
}

// receiveAll handles messages until the connection ends.
func (p *peer) receiveAll() error {
	room := make([]byte, wire.MaxMessage)
	for {
		b, err := p.receive(room, time.Time{})
		if err != nil {
			return err
		}
		more, err := p.handle(b)
		if err != nil || !more {
			return blame(err)
		}
	}
}

// handle follows a message, after it has checked every number in it.
func (p *peer) handle(b []byte) (more bool, err error) {
	k, err := wire.KindOf(b)
	if err != nil {
		return false, err
	}
	if k == wire.KindNext {
		m, slots, err := wire.Parse[wire.Next](b)
		if err != nil {
			return false, err
		}
		p.slots = wire.AppendSlots(p.slots[:0], slots)
		useful, err := p.rank.next(p, m, p.slots)
		if err == nil && !useful {
			err = p.spend(1)
		} else if useful {
			p.idle.earn()
		}
		return true, err
	}
	cost := 1
	if k == wire.KindAsk {
		cost = askCost
	}
	if k != wire.KindSample || !p.rank.answers() { // a sample is work, which paces itself
		if err := p.spend(cost); err != nil {
			return false, err
		}
	}
	p.outbox.wait(0) // who does not read is not answered
	switch k {
	case wire.KindSample:
		m, sets, err := wire.Parse[wire.Sample](b)
		if err == nil {
			err = p.sample(m, sets)
		}
		return err == nil, err
	case wire.KindBegin:
		m, state, err := wire.Parse[wire.Begin](b)
		if err != nil {
			return false, err
		}
		return true, p.begin(m, state)
	case wire.KindStop, wire.KindAsk:
		m, _, err := wire.Parse[wire.Pair](b)
		if err == nil && k == wire.KindAsk {
			err = p.tell(m)
		} else if err == nil {
			p.rank.stop(p, m.First)
		}
		return err == nil, err
	case wire.KindBye:
		return false, nil
	}
	return false, fmt.Errorf("%w: a %v from a consumer", wire.ErrMessage, k)
}

// spend counts messages that change nothing; an error where they are too many.
func (p *peer) spend(n int) error {
	if p.idle.take(n) {
		return nil
	}
	return fmt.Errorf("%w: more than %d messages a second that change nothing", wire.ErrMessage,
		time.Second/idleEvery)
}

// begin answers BEGIN: it hands a request to the rank's loop, or refuses the run.
func (p *peer) begin(m wire.Begin, state []byte) error {
	at, err := p.resolve(m, state)
	if err == nil {
		err = p.rank.ask(p, &request{m.Run, at})
	}
	var r *refusal
	if errors.As(err, &r) {
		p.complain(m.Run, err)
		return nil
	}
	return err
}

// resolve returns where a BEGIN wants to begin.
func (p *peer) resolve(m wire.Begin, state []byte) (place, error) {
	ld := p.rank.loader
	at := place{m.Epoch, m.Next}
	switch m.Mode {
	case wire.BeginAt: // a batch's next is beyond the end where ranks do not divide the epoch
		if last := ld.AllBatches() + uint64(p.server.opt.WorldSize) - 1; m.Next > last {
			return at, fmt.Errorf("%w: BEGIN at batch %d, the epoch has %d", wire.ErrMessage, m.Next, ld.AllBatches())
		}
	case wire.BeginGoOn:
		at = p.rank.goOn()
	case wire.BeginState:
		var s loader.State
		if err := json.Unmarshal(state, &s); err != nil {
			return at, refuse(wire.CodeState, "no state of a loader: %w", err)
		}
		if err := ld.CheckState(s); err != nil {
			return at, &refusal{wire.CodeState, err}
		}
		at = place{s.Epoch, s.Next}
	}
	if at.epoch > 1<<32-1 {
		return at, refuse(wire.CodeEpochs, "epoch %d: must be below 2^32", at.epoch)
	}
	if most := p.server.opt.Epochs; most > 0 && at.epoch >= most {
		return at, refuse(wire.CodeEpochs, "epoch %d: the server offers %d, from 0", at.epoch, most)
	}
	at.next = min(at.next, ld.AllBatches())
	return at, nil
}

// tell answers ASK.
func (p *peer) tell(m wire.Pair) error {
	var v any
	switch m.First {
	case wire.AskStatistics:
		v = p.rank.statistics()
	case wire.AskState:
		v = p.rank.state()
	default:
		return fmt.Errorf("%w: ASK for %d", wire.ErrMessage, m.First)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.send(wire.AppendText(nil, wire.KindTell, m.First, m.Second, text))
}
