package shm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

const (
	helloTimeout = 5 * time.Second
	// takenTimeout is how long a new consumer waits for the one before it, which may die at this moment. For one whose
	// connection has ended it waits longer: the server only has to get around to it.
	takenTimeout = time.Second
)

// writeTimeout is how long a consumer may read nothing before it is given up. A variable for tests only.
var writeTimeout = 10 * time.Second

// peer is a consumer, as its server sees it. Its goroutine receives what it sends; the rank's loop announces batches to
// it.
type peer struct {
	server  *Server
	socket  *socket
	rank    *rank // from HELLO on
	pid     int   // as the kernel or else the consumer says, for messages
	watched int   // as the kernel says; 0 for a process that it does not show us
	since   time.Time
	way     way
	hold    int

	slots []uint32 // room for parsing; the receiving goroutine's

	// Guarded by rank.mu.
	segments int  // announced
	gone     bool // the connection is over
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
	defer p.socket.close()
	log := p.server.opt.Logger
	err := p.greet(ctx)
	if err == nil {
		log.Info("a consumer is there", "rank", p.rank.number, "pid", p.pid)
		// Where a fork still holds the socket, the end comes all the same, but after what was sent.
		ended := make(chan struct{})
		stop := WatchProcess(p.watched, func() {
			close(ended)
			p.socket.closeRead()
		})
		if err = p.receiveAll(); err != nil {
			p.awaitKernels(ctx, ended)
		}
		stop()
	}
	if p.rank != nil {
		p.rank.detach(p)
	}
	var r *refusal
	if errors.As(err, &r) {
		p.complain(0, err) // no batch comes after it
		log.Warn("a consumer was refused", "pid", p.pid, "code", r.code.String(), "error", err)
	} else if p.rank != nil {
		log.Info("a consumer has gone", "rank", p.rank.number, "pid", p.pid)
	}
}

// greet receives HELLO, attaches the consumer to its rank and answers.
func (p *peer) greet(ctx context.Context) error {
	uid, pid, err := p.socket.peer()
	if err != nil {
		return err
	}
	p.pid, p.watched = pid, pid
	if uid != p.server.uid {
		return CodeUser.refuse("you are user %d, the server is user %d's: run both as the same user", uid, p.server.uid)
	}
	b := make([]byte, maxMessage)
	n, fd, err := p.socket.receive(context.Background(), time.Now().Add(helloTimeout), b)
	closeDescriptor(fd)
	if err != nil {
		return err
	}
	if k, err := kindOf(b[:n]); err != nil || k != kindHello {
		return CodeMessage.refuse("%w: the first message must be HELLO", errMessage)
	}
	h, err := parseHello(b[:n])
	if err != nil {
		return &refusal{CodeMessage, err}
	}
	if h.oldest > Version || h.newest < Version {
		return CodeVersion.refuse("you speak versions %d to %d of the feed, the server %d: install the same version of khop on both sides",
			h.oldest, h.newest, Version)
	}
	if most := p.server.opt.MaxConsumers; p.server.connected() > most {
		return CodeFull.refuse("%d consumers are connected, which is all that --max-consumers allows", most)
	}
	if p.pid == 0 { // of a process that this one cannot see
		p.pid = int(h.self)
	}
	if err := p.server.attach(ctx, p, h); err != nil {
		return err
	}
	return p.welcome()
}

func (p *peer) welcome() error {
	r, s := p.rank, p.server
	opt := r.loader.Options()
	d := describe{
		Version: s.opt.Version, PID: os.Getpid(), Dataset: s.name, DatasetID: fmt.Sprintf("%x", s.id),
		Sampler: opt.Sampler.Fingerprint(), Layers: r.loader.NumLayers(), Seeds: opt.Seeds.String(),
		NumSeeds:  r.loader.NumSeeds(),
		BatchSize: opt.BatchSize, Shuffle: opt.Shuffle, DropLast: opt.DropLast, Remainder: opt.Remainder.String(),
		Batches: r.loader.AllBatches(), Epochs: s.opt.Epochs, Readers: s.opt.Readers, Device: opt.Device,
		State: r.state(),
	}
	if n, ok := opt.Sampler.(sampling.Neighbor); ok {
		d.Frontier = n.Frontier.String()
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	flag := uint32(0)
	if s.opt.Readers > 0 {
		flag |= welcomeBroadcast
	}
	if s.states != nil {
		flag |= welcomeDurable
	}
	if p.way.place == unified.Device {
		flag |= welcomeDevice
	}
	w := welcome{version: Version, rank: r.number, world: uint32(len(s.ranks)), hold: uint32(p.hold),
		slots: uint32(len(r.records)),
		index: uint32(p.way.index), flag: flag, batches: r.loader.NumBatches(), json: text}
	return p.send(w.bytes())
}

// send sends a message.
func (p *peer) send(b []byte) error {
	if len(b) > maxMessage {
		return CodeMessage.refuse("%w: an answer of %d bytes", errMessage, len(b))
	}
	return p.write(b, -1)
}

// write sends a message, with a descriptor unless fd is negative. A consumer that does not read for long is given up:
// its own goroutine then learns that the connection has ended, and takes its slots back.
func (p *peer) write(b []byte, fd int) error {
	err := p.socket.send(b, fd, writeTimeout)
	if err != nil {
		p.socket.closeRead()
	}
	return err
}

// complain sends ERROR about a run, or with run 0 about the connection.
func (p *peer) complain(run uint32, err error) {
	code := CodeLoad
	var r *refusal
	switch {
	case errors.As(err, &r):
		code = r.code
	case errors.Is(err, ErrNoRoom):
		code = CodeMemory
	case errors.Is(err, errMessage):
		code = CodeMessage
	}
	text := err.Error()
	text = strings.ToValidUTF8(text[:min(len(text), maxText)], "")
	_ = p.send(textNote{run, uint32(code), []byte(text)}.bytes(kindError)) // if it fails, receiving does too
}

// receiveAll handles messages until the connection ends.
func (p *peer) receiveAll() error {
	b := make([]byte, maxMessage)
	for {
		n, fd, err := p.socket.receive(context.Background(), time.Time{}, b)
		closeDescriptor(fd)
		if err != nil {
			if errors.Is(err, errMessage) {
				return &refusal{CodeMessage, err}
			}
			return err
		}
		more, err := p.handle(b[:n])
		if err != nil && errors.Is(err, errMessage) {
			return &refusal{CodeMessage, err}
		}
		if err != nil || !more {
			return err
		}
	}
}

// handle does what a message says. Nothing in it is taken on trust.
func (p *peer) handle(b []byte) (more bool, err error) {
	k, err := kindOf(b)
	if err != nil {
		return false, err
	}
	switch k {
	case kindBegin:
		m, err := parseBegin(b)
		if err != nil {
			return false, err
		}
		return true, p.begin(m)
	case kindNext:
		m, err := parseNext(b, p.slots[:0])
		if err != nil {
			return false, err
		}
		p.slots = m.slots
		return true, p.rank.next(p, m)
	case kindStop:
		m, err := parseWords(b)
		if err != nil {
			return false, err
		}
		p.rank.stop(p, m.first)
		return true, nil
	case kindAsk:
		m, err := parseWords(b)
		if err != nil {
			return false, err
		}
		return true, p.tell(m)
	case kindBye:
		return false, nil
	}
	return false, fmt.Errorf("%w: a %v from a consumer", errMessage, k)
}

// begin answers BEGIN: it hands a request to the rank's loop, or refuses the run.
func (p *peer) begin(m begin) error {
	at, err := p.resolve(m)
	if err == nil {
		err = p.rank.ask(p, &request{m.run, at})
	}
	var r *refusal
	if errors.As(err, &r) {
		p.complain(m.run, err)
		return nil
	}
	return err
}

// resolve returns where a BEGIN wants to begin.
func (p *peer) resolve(m begin) (place, error) {
	ld := p.rank.loader
	at := place{m.epoch, m.next}
	switch m.mode {
	case beginGoOn:
		at = p.rank.goOn()
	case beginState:
		var s loader.State
		if err := json.Unmarshal(m.json, &s); err != nil {
			return at, CodeState.refuse("no state of a loader: %w", err)
		}
		if err := ld.CheckState(s); err != nil {
			return at, &refusal{CodeState, err}
		}
		at = place{s.Epoch, s.Next}
	}
	if at.epoch > 1<<32-1 {
		return at, CodeEpochs.refuse("epoch %d: must be below 2^32", at.epoch)
	}
	if most := p.server.opt.Epochs; most > 0 && at.epoch >= most {
		return at, CodeEpochs.refuse("epoch %d: the server offers %d, from 0", at.epoch, most)
	}
	at.next = min(at.next, ld.AllBatches())
	return at, nil
}

// tell answers ASK.
func (p *peer) tell(m words) error {
	var v any
	switch m.first {
	case askStatistics:
		v = p.rank.statistics()
	case askState:
		v = p.rank.state()
	default:
		return fmt.Errorf("%w: ASK for %d", errMessage, m.first)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.send(textNote{m.first, m.second, text}.bytes(kindTell))
}
