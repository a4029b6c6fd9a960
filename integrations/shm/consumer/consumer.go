package consumer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Options are the options of a consumer. The zero value of every field is its default.
type Options struct {
	// Rank is the rank whose batches to get (RankOf). Default: the lowest free one.
	Rank RankChoice
	// IndexDType is the dtype of ids: Int32 or Int64. Default: the server's.
	IndexDType unified.DType
	// Hold is the most batches to hold, including announced ones. Default: as many as the server allows.
	Hold int
	// Timeout is how long to wait for a batch before shm.ErrTimeout, and in Dial until the server has loaded. Default
	// 60 s.
	Timeout time.Duration
	// Device is the CUDA device on which to take batches, "cuda:0" or so, from a server that makes them there: Info
	// reports whether it does. Both processes must number their devices alike. Default: none; such a server copies
	// batches to the host.
	Device string
	// MaxRing is the most memory of a server to map, in bytes; shm.ErrNoRoom beyond it. Default: no limit but the
	// protocol's.
	MaxRing int64
}

// RankChoice is a rank; its zero value is the lowest free one.
type RankChoice struct{ number int }

// RankOf is rank n, n >= 0.
func RankOf(n int) RankChoice { return RankChoice{n + 1} }

// Info describes the connection of a consumer.
type Info struct {
	Rank, WorldSize int
	Hold            int           // batches that the consumer may hold
	Slots           int           // of the ring
	IndexDType      unified.DType // of ids
	Batches         uint64        // an epoch, of this rank
	OnDevice        bool          // batches are on the device that Options names
	Broadcast       bool          // other consumers get the same batches; arrays are read-only
	Durable         bool          // the server keeps its place in a file
	Server          json.RawMessage
	State           loader.State // the rank's place when the consumer connected
}

// Consumer gets the batches of one rank of a Server. Make it with Dial and Close it. One goroutine at a time may
// iterate; any goroutine may call Release and Close.
type Consumer struct {
	socket  *wire.Socket
	device  *device.Device // nil for none; closed with the mappings
	opt     Options
	info    Info
	process int // a fork of it must leave the connection alone

	// Of the goroutine that iterates, or holds busy.
	packet  []byte
	pending [][]byte      // received while something else was awaited
	wait    time.Duration // how long receive waits; 0: Timeout
	run     uint32
	epoch   uint64 // of the run
	count   uint64 // of batches that it has
	done    uint64 // acknowledged of it
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
	back     []uint32       // slots to return with the next message
	segments []*wire.Memory // appended to by the iterating goroutine
	total    int64
}

// Dial connects to the server whose socket is at path. Errors: shm.ErrNoServer, shm.ErrUser, and *Error if the server
// refuses.
func Dial(ctx context.Context, path string, opt Options) (*Consumer, error) {
	if opt.Timeout == 0 {
		opt.Timeout = time.Minute
	}
	if opt.Hold < 0 || opt.Timeout < 0 || opt.Rank.number < 0 || opt.MaxRing < 0 {
		return nil, fmt.Errorf("%w: %+v", shm.ErrOptions, opt)
	}
	s, err := wire.Dial(ctx, path)
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

func newConsumer(s *wire.Socket, opt Options) *Consumer {
	return &Consumer{socket: s, opt: opt, process: os.Getpid(), packet: make([]byte, wire.MaxMessage),
		held: map[uint32]*Batch{}, mapped: true}
}

// openDevice opens the device that the options name.
func (c *Consumer) openDevice() error {
	if c.opt.Device == "" {
		return nil
	}
	n, err := loader.ParseDevice(c.opt.Device)
	if err != nil || n < 0 {
		return fmt.Errorf("%w: Device %q: must be cuda or cuda:N", shm.ErrOptions, c.opt.Device)
	}
	c.device, err = device.Open(n)
	return err
}

func (c *Consumer) greet(ctx context.Context) error {
	h := wire.Hello{Magic: wire.Magic, Oldest: shm.Version, Newest: shm.Version, Rank: wire.AnyRank,
		Index: uint32(c.opt.IndexDType), Hold: uint32(c.opt.Hold), Process: uint32(c.process)}
	if c.device != nil {
		h.Takes = wire.TakesDevice
	}
	if c.opt.Rank.number > 0 {
		h.Rank = uint32(c.opt.Rank.number - 1)
	}
	err := c.send(wire.Append(nil, wire.KindHello, h, nil))
	if err != nil && !wire.IsBroken(err) { // a server that refuses at once has said why
		return err
	}
	b, err := c.receive(ctx, c.end(), wire.KindWelcome)
	if err != nil {
		return err
	}
	m, text, err := wire.Parse[wire.Welcome](b)
	if err != nil {
		return err
	}
	return c.meet(h, m, text)
}

// meet checks that the answer to HELLO is one, and keeps it.
func (c *Consumer) meet(h wire.Hello, m wire.Welcome, text []byte) error {
	if m.Version != shm.Version {
		return fmt.Errorf("%w: the server speaks version %d of the feed, this is %d", wire.ErrMessage, m.Version,
			shm.Version)
	}
	if h.Rank != wire.AnyRank && m.Rank != h.Rank || h.Hold > 0 && m.Hold > h.Hold ||
		h.Index != 0 && m.Index != h.Index || h.Takes == 0 && m.Is&wire.IsOnDevice != 0 {
		return fmt.Errorf("%w: WELCOME %+v is not an answer to HELLO %+v", wire.ErrMessage, m, h)
	}
	var d struct {
		State *loader.State `json:"state"`
		UUID  string        `json:"device_uuid"`
	}
	if err := json.Unmarshal(text, &d); err != nil || d.State == nil {
		return fmt.Errorf("%w: WELCOME with %.100q, which says no state: %w", wire.ErrMessage, text, err)
	}
	if m.Is&wire.IsOnDevice != 0 && c.device != nil {
		if err := sameDevice(c.device, d.UUID); err != nil {
			return err
		}
	}
	c.info = Info{
		Rank: int(m.Rank), WorldSize: int(m.WorldSize), Hold: int(m.Hold), Slots: int(m.Slots),
		IndexDType: unified.DType(m.Index), Batches: m.Batches, OnDevice: m.Is&wire.IsOnDevice != 0,
		Broadcast: m.Is&wire.IsBroadcast != 0, Durable: m.Is&wire.IsDurable != 0,
		Server: append(json.RawMessage(nil), text...), State: *d.State,
	}
	return nil
}

// sameDevice refuses a device of this process that is not the server's. An ordinal does not tell: each process counts
// the devices that CUDA_VISIBLE_DEVICES lets it see. A driver or a server that names none is believed.
func sameDevice(d *device.Device, server string) error {
	if own := d.UUID(); own == "" || server == "" || own == server {
		return nil
	}
	remedy := "this process does not see that device: look at CUDA_VISIBLE_DEVICES"
	if n := device.Named(server); n >= 0 {
		remedy = fmt.Sprintf("here that device is cuda:%d", n)
	}
	return fmt.Errorf("%w: the server's batches lie on device %s, and cuda:%d is %s: %s", shm.ErrOptions, server,
		d.Ordinal(), d.UUID(), remedy)
}

// Info describes the connection. Server is the JSON of WELCOME (docs/feed.md).
func (c *Consumer) Info() Info { return c.info }

func pair(k wire.Kind, first, second uint32) []byte {
	return wire.Append(nil, k, wire.Pair{First: first, Second: second}, nil)
}

func (c *Consumer) send(b []byte) error {
	if c.isFork() {
		return errFork
	}
	return c.socket.Send(b, -1, c.opt.Timeout)
}

var errFork = fmt.Errorf("%w: this process is a fork of the one that connected", shm.ErrClosed)

// isFork reports whether this process is another than the one that connected. It is a system call: to go on with a run
// does without, to begin one does not.
func (c *Consumer) isFork() bool { return os.Getpid() != c.process }

// end is until when receive waits for a message that is due now.
func (c *Consumer) end() time.Time { return time.Now().Add(cmp.Or(c.wait, c.opt.Timeout)) }

// inTime is an error after end: messages came all the time, but not the one that was due.
func (c *Consumer) inTime(end time.Time) error {
	if time.Now().Before(end) {
		return nil
	}
	return fmt.Errorf("%w: only messages that nobody waits for came for %v", wire.ErrMessage,
		cmp.Or(c.wait, c.opt.Timeout))
}

// receive returns the next message of the wanted kinds, until end. Batches and ends that come before it wait for their
// turn; ERROR of the connection, BYE and the end of the connection are errors.
func (c *Consumer) receive(ctx context.Context, end time.Time, want ...wire.Kind) ([]byte, error) {
	for i, b := range c.pending {
		if k, _ := wire.KindOf(b); slices.Contains(want, k) {
			c.pending = slices.Delete(c.pending, i, i+1)
			return b, nil
		}
	}
	for {
		n, fd, err := c.socket.Receive(ctx, end, c.packet)
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
		if slices.Contains(want, k) {
			return b, nil
		}
		if err := c.postpone(k, b); err != nil {
			return nil, err
		}
		if err := c.inTime(end); err != nil {
			return nil, err
		}
	}
}

// mostLeft is how many ends of runs that were left may wait to be read.
const mostLeft = 64

// postpone keeps a message that is not wanted yet: batches, and how runs end. Late answers are dropped.
func (c *Consumer) postpone(k wire.Kind, b []byte) error {
	switch k {
	case wire.KindSegment, wire.KindTell, wire.KindBegun:
		return nil
	case wire.KindWelcome:
		return fmt.Errorf("%w: a second WELCOME", wire.ErrMessage)
	}
	if len(c.pending) >= c.info.Slots+mostLeft {
		return fmt.Errorf("%w: %d messages that nobody waits for", wire.ErrMessage, len(c.pending))
	}
	c.pending = append(c.pending, append([]byte(nil), b...))
	return nil
}

// accept looks at a packet: it takes segments in and ends what the server has ended.
func (c *Consumer) accept(b []byte, fd int) (wire.Kind, error) {
	k, err := wire.KindOf(b)
	if err == nil && k == wire.KindSegment {
		return k, c.addSegment(b, fd)
	}
	wire.CloseDescriptor(fd)
	if err != nil {
		return k, err
	}
	switch k {
	case wire.KindWelcome, wire.KindBegun, wire.KindBatch, wire.KindEnd, wire.KindTell:
		return k, nil
	case wire.KindError:
		m, text, err := wire.Parse[wire.Text](b)
		if err == nil && len(text) > wire.MaxText {
			err = fmt.Errorf("%w: ERROR with a text of %d bytes", wire.ErrMessage, len(text))
		}
		if err == nil && m.First == 0 {
			err = &shm.Error{Code: shm.Code(m.Second), Text: string(text)}
		}
		return k, err
	case wire.KindBye:
		m, _, err := wire.Parse[wire.Pair](b)
		if err != nil {
			return k, err
		}
		return k, fmt.Errorf("%w: %s", shm.ErrEnded, [...]string{"it is done", "it was interrupted",
			"all epochs were loaded"}[min(m.First, 2)])
	}
	return k, fmt.Errorf("%w: a %v from a server", wire.ErrMessage, k)
}

func (c *Consumer) broken(err error) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return shm.ErrClosed
	case wire.IsBroken(err):
		return shm.ErrGone
	case errors.Is(err, os.ErrDeadlineExceeded):
		return shm.ErrTimeout
	}
	return err
}

// addSegment maps memory that the server has sent. It closes fd.
func (c *Consumer) addSegment(b []byte, fd int) error {
	m, _, err := wire.Parse[wire.Segment](b)
	if err == nil && int(m.Index) < len(c.segments) {
		err = fmt.Errorf("%w: SEGMENT %d after %d others", wire.ErrMessage, m.Index, len(c.segments))
	}
	if err == nil && c.opt.MaxRing > 0 && uint64(c.opt.MaxRing-c.total) < m.Size {
		err = fmt.Errorf("%w: the server's ring has %d bytes and wants %d more; MaxRing is %d", shm.ErrNoRoom, c.total,
			m.Size, c.opt.MaxRing)
	}
	if err != nil {
		wire.CloseDescriptor(fd)
		return err
	}
	s, err := wire.OpenMemory(m, fd, c.device)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for int(m.Index) > len(c.segments) { // those of other consumers
		c.segments = append(c.segments, nil)
	}
	c.segments = append(c.segments, s)
	c.total += int64(m.Size)
	return nil
}

// memory returns a segment; nil where there is none.
func (c *Consumer) memory(segment uint32) *wire.Memory {
	if uint64(segment) >= uint64(len(c.segments)) {
		return nil
	}
	return c.segments[segment]
}

// Statistics requests the server's statistics. It must not be called in a loop over batches.
func (c *Consumer) Statistics(ctx context.Context) (shm.RankStats, error) {
	var s shm.RankStats
	if err := c.enter(); err != nil {
		return s, err
	}
	defer c.exit()
	return s, c.ask(ctx, wire.AskStatistics, &s)
}

func (c *Consumer) ask(ctx context.Context, what uint32, v any) error {
	c.asked++
	if err := c.send(pair(wire.KindAsk, what, c.asked)); err != nil {
		return c.broken(err)
	}
	end := c.end()
	for {
		b, err := c.receive(ctx, end, wire.KindTell)
		if err != nil {
			return err
		}
		m, text, err := wire.Parse[wire.Text](b)
		if err != nil {
			return err
		}
		if m.First == what && m.Second == c.asked {
			if err := json.Unmarshal(text, v); err != nil {
				return fmt.Errorf("%w: TELL: %w", wire.ErrMessage, err)
			}
			return nil
		}
		if err := c.inTime(end); err != nil {
			return err
		}
	}
}

// enter makes the caller the one that receives.
func (c *Consumer) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return shm.ErrClosed
	case c.busy:
		return shm.ErrBusy
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

// Close ends the connection, and a running loop with shm.ErrClosed. Batches that are held stay valid until they are
// released: they get memory of this process, except for arrays on a device.
func (c *Consumer) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.isFork() { // the connection is not its to end
		c.unmapIfDone()
		return nil
	}
	err := c.keepHeld()
	c.unmapIfDone()
	_ = c.send(pair(wire.KindBye, wire.ByeDone, 0)) // the server sees the end anyway
	return errors.Join(err, c.socket.Close())
}

// keepHeld gives the batches that are held memory of this process: the server uses all slots again. mu is held.
func (c *Consumer) keepHeld() error {
	var errs []error
	for _, b := range c.held {
		for i := range b.arrays {
			if t := b.arrays[i].Tensor; t.Placement() != pinned.Device && len(t.Bytes()) > 0 {
				errs = append(errs, c.keep(t.Bytes()))
			}
		}
	}
	return errors.Join(errs...)
}

// keep finds the segment in which memory lies, and keeps it as it is.
func (c *Consumer) keep(b []byte) error {
	at := uintptr(unsafe.Pointer(&b[0]))
	for _, s := range c.segments {
		if s == nil || s.Device != nil {
			continue
		}
		if begin := at - uintptr(unsafe.Pointer(unsafe.SliceData(s.Data))); begin < uintptr(len(s.Data)) {
			return s.Own(int(begin), int(begin)+len(b))
		}
	}
	return nil
}

// unmapIfDone frees the mappings where nobody can use them any more. mu is held.
func (c *Consumer) unmapIfDone() {
	if !c.closed || c.busy || len(c.held) > 0 || !c.mapped {
		return
	}
	c.mapped = false
	for _, s := range c.segments {
		if s != nil {
			_ = s.Close() // an address range that is ours: unmapping it cannot fail
		}
	}
	if c.device != nil {
		_ = c.device.Close() // what it gave out was closed before
	}
}
