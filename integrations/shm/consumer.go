package shm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

// ConsumerOptions say what a consumer wants. The zero value of every field is its default.
type ConsumerOptions struct {
	// Rank is which rank's batches to get, from 0; AnyRank (the default) gets the lowest that is free.
	Rank RankChoice
	// IndexDType is the dtype of ids: Int32 or Int64. Default: the server's.
	IndexDType unified.DType
	// Hold is how many batches to hold at most, announced ones included. Default: as many as the server gives.
	Hold int
	// Timeout is how long to wait for a batch before ErrTimeout, and in Dial for the server to have loaded. Default 60
	// s.
	Timeout time.Duration
	// Device is the CUDA device on which to take batches, "cuda:0" or so, from a server that makes them there: Info
	// tells whether it does. Both processes must number their devices alike. Default: none; such a server copies
	// batches to the host.
	Device string
	// MaxRing is the most memory of a server to map, in bytes; ErrNoRoom beyond it. Default: no limit but the
	// protocol's.
	MaxRing int64
}

// RankChoice is a rank, or AnyRank.
type RankChoice struct{ number int }

// AnyRank is the lowest rank that is free.
var AnyRank = RankChoice{}

// RankOf is rank n, n >= 0.
func RankOf(n int) RankChoice { return RankChoice{n + 1} }

// Info says what a consumer is connected to.
type Info struct {
	Rank, WorldSize int
	Hold            int           // batches that the consumer may hold
	Slots           int           // of the ring
	IndexDType      unified.DType // of ids
	Batches         uint64        // an epoch, of this rank
	OnDevice        bool          // batches lie on the device that ConsumerOptions names
	Broadcast       bool          // other consumers get the same batches; arrays are read-only
	Durable         bool          // the server keeps its place in a file
	Server          json.RawMessage
	State           loader.State // where the rank stood when the consumer connected
}

// Consumer gets the batches of one rank of a Server. Make it with Dial and Close it. One goroutine at a time iterates;
// Release and Close may be called by any.
type Consumer struct {
	socket  *socket
	device  *device.Device // nil for none; closed with the mappings
	opt     ConsumerOptions
	info    Info
	process int // a fork of it must leave the connection alone

	// Of the goroutine that iterates, or holds busy.
	packet  []byte
	pending [][]byte      // received while something else was awaited
	wait    time.Duration // how long receive waits; 0: Timeout
	run     uint32
	done    uint64 // acknowledged of the run
	started bool   // BEGIN was sent, END has not come
	asked   uint32
	layout  uint64
	names   []string
	// Room for the copy of a descriptor, and under mu for a NEXT.
	descriptor, note []byte

	mu       sync.Mutex // guards the following
	busy     bool
	closed   bool
	mapped   bool // the segments are
	held     map[uint32]*Batch
	back     []uint32   // slots to return with the next message
	segments []*segment // appended to by the iterating goroutine
	total    int64
}

// Dial connects to the server whose socket is at path. Errors: ErrNoServer, ErrUser, and *Error where the server
// refuses.
func Dial(ctx context.Context, path string, opt ConsumerOptions) (*Consumer, error) {
	if opt.Timeout == 0 {
		opt.Timeout = time.Minute
	}
	if opt.Hold < 0 || opt.Timeout < 0 || opt.Rank.number < 0 || opt.MaxRing < 0 {
		return nil, fmt.Errorf("%w: %+v", ErrOptions, opt)
	}
	s, err := dial(ctx, path)
	if err != nil {
		return nil, err
	}
	c := newConsumer(s, opt)
	if err = c.openDevice(); err == nil {
		err = c.greet(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func newConsumer(s *socket, opt ConsumerOptions) *Consumer {
	return &Consumer{socket: s, opt: opt, process: os.Getpid(), packet: make([]byte, maxMessage),
		held: map[uint32]*Batch{}, mapped: true}
}

func (c *Consumer) greet(ctx context.Context) error {
	h := hello{oldest: Version, newest: Version, rank: anyRank, index: uint32(c.opt.IndexDType),
		hold: uint32(c.opt.Hold), self: uint32(c.process)}
	if c.device != nil {
		h.takes = takesDevice
	}
	if c.opt.Rank != AnyRank {
		h.rank = uint32(c.opt.Rank.number - 1)
	}
	if err := c.send(h.bytes()); err != nil && !isBroken(err) { // a server that refuses at once has said why
		return err
	}
	b, err := c.receive(ctx, kindWelcome)
	if err != nil {
		return err
	}
	m, err := parseWelcome(b)
	if err != nil {
		return err
	}
	if m.version != Version {
		return fmt.Errorf("%w: the server speaks version %d of the feed, this is %d", errMessage, m.version, Version)
	}
	var d struct {
		State loader.State `json:"state"`
	}
	if err := json.Unmarshal(m.json, &d); err != nil {
		return fmt.Errorf("%w: WELCOME: %w", errMessage, err)
	}
	c.info = Info{
		Rank: int(m.rank), WorldSize: int(m.world), Hold: int(m.hold), Slots: int(m.slots),
		IndexDType: unified.DType(m.index),
		Batches:    m.batches, OnDevice: m.flag&welcomeDevice != 0, Broadcast: m.flag&welcomeBroadcast != 0,
		Durable: m.flag&welcomeDurable != 0,
		Server:  append(json.RawMessage(nil), m.json...), State: d.State,
	}
	return nil
}

// Info returns what the consumer is connected to. Server is the JSON of WELCOME (docs/feed.md).
func (c *Consumer) Info() Info { return c.info }

func (c *Consumer) send(b []byte) error {
	if c.isFork() {
		return errFork
	}
	return c.socket.send(b, -1, c.opt.Timeout)
}

var errFork = fmt.Errorf("%w: this process is a fork of the one that connected", ErrClosed)

// isFork reports whether this process is another than the one that connected. It is a system call: to go on with a run
// does without, to begin one does not.
func (c *Consumer) isFork() bool { return os.Getpid() != c.process }

// receive returns the next message of the wanted kinds. Batches and ends that come before it wait for their turn; ERROR
// of the connection, BYE and the end of the connection are errors.
func (c *Consumer) receive(ctx context.Context, want ...kind) ([]byte, error) {
	wanted := func(k kind) bool {
		for _, w := range want {
			if w == k {
				return true
			}
		}
		return false
	}
	for i, b := range c.pending {
		if wanted(kind(le.Uint16(b))) {
			c.pending = append(c.pending[:i], c.pending[i+1:]...)
			return b, nil
		}
	}
	end := time.Now().Add(cmp.Or(c.wait, c.opt.Timeout))
	for {
		n, fd, err := c.socket.receive(ctx, end, c.packet)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, c.broken(err)
		}
		b := c.packet[:n]
		k, err := c.accept(b, fd)
		if err != nil {
			return nil, err
		}
		if wanted(k) {
			return b, nil
		}
		if k != kindSegment {
			if len(c.pending) > maxSlots {
				return nil, fmt.Errorf("%w: %d messages that nobody asked for", errMessage, len(c.pending))
			}
			c.pending = append(c.pending, append([]byte(nil), b...))
		}
	}
}

// accept looks at a packet: it takes segments in and ends what the server has ended.
func (c *Consumer) accept(b []byte, fd int) (kind, error) {
	k, err := kindOf(b)
	if err == nil && k == kindSegment {
		return k, c.addSegment(b, fd)
	}
	closeDescriptor(fd)
	if err != nil {
		return k, err
	}
	switch k {
	case kindWelcome, kindBegun, kindBatch, kindEnd, kindTell:
		return k, nil
	case kindError:
		m, err := parseText(b)
		if err != nil {
			return k, err
		}
		if m.first == 0 {
			return k, &Error{Code(m.second), string(m.text)}
		}
		return k, nil
	case kindBye:
		m, err := parseWords(b)
		if err != nil {
			return k, err
		}
		return k, fmt.Errorf("%w: %s", ErrEnded, [...]string{"it is done", "it was interrupted",
			"all epochs were loaded"}[min(m.first, 2)])
	}
	return k, fmt.Errorf("%w: a %v from a server", errMessage, k)
}

// isBroken reports whether the other end is gone.
func isBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, errBrokenPipe) || errors.Is(err, errReset)
}

func (c *Consumer) broken(err error) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case isBroken(err):
		return ErrGone
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrTimeout
	}
	return err
}

// addSegment maps memory that the server has sent.
func (c *Consumer) addSegment(b []byte, fd int) error {
	m, err := parseSegment(b)
	if err == nil && (fd >= 0) != (m.memory == hostSegment) {
		err = fmt.Errorf("%w: SEGMENT %d in memory %d, with or without a descriptor", errMessage, m.index, m.memory)
	}
	if err == nil && int(m.index) < len(c.segments) {
		err = fmt.Errorf("%w: SEGMENT %d after %d others", errMessage, m.index, len(c.segments))
	}
	if err == nil && c.opt.MaxRing > 0 && uint64(c.opt.MaxRing-c.total) < m.size {
		err = fmt.Errorf("%w: the server's ring has %d bytes and wants %d more; MaxRing is %d", ErrNoRoom, c.total,
			m.size, c.opt.MaxRing)
	}
	if err != nil {
		closeDescriptor(fd)
		return err
	}
	var s *segment
	if m.memory == deviceSegment {
		s, err = c.importSegment(m)
	} else {
		s, err = openSegment(fd, m)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for int(m.index) > len(c.segments) { // those of other consumers
		c.segments = append(c.segments, &segment{fd: -1})
	}
	c.segments = append(c.segments, s)
	c.total += int64(m.size)
	return nil
}

// memory returns a segment's bytes; nil where there is none.
func (c *Consumer) memory(segment uint32) []byte {
	if uint64(segment) >= uint64(len(c.segments)) {
		return nil
	}
	return c.segments[segment].data
}

// Statistics asks the server what it has done and what it waits for. It must not be called in a loop over batches.
func (c *Consumer) Statistics(ctx context.Context) (RankStats, error) {
	var s RankStats
	if err := c.enter(); err != nil {
		return s, err
	}
	defer c.exit()
	return s, c.ask(ctx, askStatistics, &s)
}

func (c *Consumer) ask(ctx context.Context, what uint32, v any) error {
	c.asked++
	if err := c.send(words{what, c.asked}.bytes(kindAsk)); err != nil {
		return c.broken(err)
	}
	for {
		b, err := c.receive(ctx, kindTell)
		if err != nil {
			return err
		}
		m, err := parseText(b)
		if err != nil {
			return err
		}
		if m.first == what && m.second == c.asked {
			return json.Unmarshal(m.text, v)
		}
	}
}

// enter makes the caller the one that receives.
func (c *Consumer) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.busy:
		return ErrBusy
	}
	c.busy = true
	return nil
}

func (c *Consumer) exit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	c.unmapIfDone()
}

// Close ends the connection, and a loop under way with ErrClosed. Batches that are held stay valid until they are
// released.
func (c *Consumer) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.unmapIfDone()
	if c.isFork() { // the connection is not its to end
		return nil
	}
	_ = c.send(words{byeDone, 0}.bytes(kindBye)) // the server sees the end anyway
	return c.socket.close()
}

// unmapIfDone frees the mappings where nobody can use them any more. mu is held.
func (c *Consumer) unmapIfDone() {
	if !c.closed || c.busy || len(c.held) > 0 || !c.mapped {
		return
	}
	c.mapped = false
	for _, s := range c.segments {
		_ = s.close() // an address range that is ours: unmapping it cannot fail
	}
	c.closeDevice()
}
