//go:build linux

package consumer

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// packet is a message of a server, and what comes with it.
type packet struct {
	text []byte
	fds  []int
}

// liar is a server that has said all that it says: to a consumer that takes the three batches of an epoch.
type liar struct {
	ring    *wire.Memory
	packets []packet
}

const slotSize = 64 << 10

func newLiar(t *testing.T) *liar {
	t.Helper()
	ring := expect.Must(wire.NewMemory(2<<20, wire.ReadWrite, pinned.Options{}))(t)
	t.Cleanup(func() { ring.Close() })
	l := &liar{ring: ring}
	l.say(welcome(4))
	l.say(wire.Append(nil, wire.KindBegun, wire.Begun{Run: 1, Batches: 3}, nil))
	l.say(wire.Append(nil, wire.KindSegment, ring.Note(0), nil), ring.FD)
	for n := range uint64(3) {
		d := wire.NewDescriptor([]wire.Form{{Name: "num_nodes", DType: unified.Int64, Rank: 2, Flags: 3},
			{Name: "nodes/node", DType: unified.Int32, Rank: 1, Flags: 3},
			{Name: "node/node/feature", DType: unified.Float32, Rank: 2, Flags: 2}})
		wire.PutPlace(d, 0, n, n+1, 0)
		base := slotSize * n
		wire.PutArray(d, 0, 0, base+4096, []int64{3, 1})
		wire.PutArray(d, 1, 0, base+8192, []int64{100})
		wire.PutArray(d, 2, 0, base+16384, []int64{100, 16})
		copy(ring.Data[base:], d)
		l.say(wire.Append(nil, wire.KindBatch, wire.Batch{Run: 1, Slot: uint32(n), Sequence: n, Number: n,
			Size: uint32(len(d)), Offset: base, Next: n + 1}, nil))
	}
	l.say(wire.Append(nil, wire.KindEnd, wire.End{Run: 1, Sent: 3}, nil))
	return l
}

func (l *liar) say(text []byte, fds ...int) { l.packets = append(l.packets, packet{text, fds}) }

// consume takes the epoch and reads every byte of it.
func (l *liar) consume(t *testing.T) (batches int, err error) {
	t.Helper()
	pair := expect.Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(pair[1])
	for _, p := range l.packets {
		var rights []byte
		if len(p.fds) > 0 {
			rights = unix.UnixRights(p.fds...)
		}
		expect.OK(t, unix.Sendmsg(pair[1], p.text, rights, nil, 0))
	}
	expect.OK(t, unix.Shutdown(pair[1], unix.SHUT_WR))
	ours, err := wire.OwnSocket(pair[0])
	expect.OK(t, err)
	c := newConsumer(ours, Options{Timeout: patience, MaxRing: 4 << 20})
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.greet(t.Context()); err != nil {
		return 0, err
	}
	sum := byte(0)
	for b, err := range c.Epoch(t.Context(), 0) {
		if err != nil {
			return batches, err
		}
		batches++
		for _, a := range b.Arrays() {
			for _, x := range a.Tensor.Bytes() {
				sum += x
			}
		}
		b.Digest()
	}
	return batches, nil
}

var extremes = []uint64{0, 1, 2, 3, 4, 127, 1 << 16, 1 << 31, 1 << 32, 1<<47 - 1, 1 << 47, 1 << 62, 1 << 63, 1<<64 - 1}

// changes are what a liar may do.
var changes = map[string]func(l *liar, r *rand.Rand){
	"numbers": func(l *liar, r *rand.Rand) { // of a message: one has another value
		text := l.packets[r.IntN(len(l.packets))].text
		at, v := 4*r.IntN((len(text)-4)/4), extremes[r.IntN(len(extremes))]
		if r.IntN(2) == 0 {
			binary.LittleEndian.PutUint32(text[at:], uint32(v))
		} else {
			binary.LittleEndian.PutUint64(text[min(at, len(text)-8):], v)
		}
	},
	"descriptors of batches": func(l *liar, r *rand.Rand) {
		d := l.ring.Data[slotSize*r.IntN(3):]
		for range 1 + r.IntN(3) {
			at, v := 4*r.IntN(70), extremes[r.IntN(len(extremes))]
			if r.IntN(2) == 0 {
				binary.LittleEndian.PutUint64(d[at:], v)
			} else {
				d[at+r.IntN(4)] = byte(v)
			}
		}
	},
	"lengths": func(l *liar, r *rand.Rand) {
		p := &l.packets[r.IntN(len(l.packets))]
		if r.IntN(3) == 0 {
			p.text = append(p.text, make([]byte, []int{1, 8, wire.MaxMessage}[r.IntN(3)])...)
		} else {
			p.text = p.text[:r.IntN(len(p.text))]
		}
		if len(p.text) >= 8 && r.IntN(2) == 0 {
			binary.LittleEndian.PutUint32(p.text[4:], uint32(len(p.text)))
		}
	},
	"file descriptors": func(l *liar, r *rand.Rand) {
		p := &l.packets[[]int{2, r.IntN(len(l.packets))}[r.IntN(2)]]
		p.fds = slices.Repeat([]int{l.ring.FD}, []int{0, 1, 2, 12, 13, 100}[r.IntN(6)])
	},
	"order": func(l *liar, r *rand.Rand) {
		i, j := r.IntN(len(l.packets)), r.IntN(len(l.packets))
		switch r.IntN(3) {
		case 0:
			l.packets = slices.Delete(l.packets, i, i+1)
		case 1:
			l.packets = slices.Insert(l.packets, i, packet{slices.Clone(l.packets[j].text), l.packets[j].fds})
		case 2:
			l.packets[i], l.packets[j] = l.packets[j], l.packets[i]
		}
	},
}

// Whatever is wrong with an answer, it is an error, and nothing is left open.
func TestALyingServerIsAnError(t *testing.T) {
	if n, err := newLiar(t).consume(t); n != 3 || err != nil {
		t.Fatalf("a server that does not lie: %d batches, %v", n, err)
	}
	seed := expect.Seed(t)
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			before, refused := expect.OpenFiles(t), 0
			for i := range 300 {
				l := newLiar(t)
				change(l, r)
				n, err := l.consume(t)
				switch {
				case errors.Is(err, wire.ErrMessage), errors.Is(err, shm.ErrNoRoom):
					refused++
				case errors.Is(err, shm.ErrGone), errors.Is(err, shm.ErrEnded): // what was sent ended
				case err == nil && n == 3:
				default:
					t.Fatalf("seed %d, change %d: %d batches, %v", seed, i, n, err)
				}
				expect.OK(t, l.ring.Close())
			}
			expect.That(t, refused >= 30, "seed %d: %d were refused", seed, refused)
			after := expect.OpenFiles(t)
			expect.That(t, after == before, "seed %d: %d descriptors are open, %d before", seed, after, before)
		})
	}
}

// A server that sends on and on and never what is due costs neither time nor memory without end.
func TestEndlessMessagesAreAnErrorInTime(t *testing.T) {
	hurry(t)
	for name, m := range map[string][]byte{
		"batches of a run before": wire.Append(nil, wire.KindBatch, wire.Batch{Run: 9, Size: 64}, nil),
		"batches of this run":     wire.Append(nil, wire.KindBatch, wire.Batch{Run: 1, Size: 64}, nil),
		"ends of a run before":    wire.Append(nil, wire.KindEnd, wire.End{Run: 9}, nil),
		"errors of a run before":  wire.AppendText(nil, wire.KindError, 9, 1, []byte("no")),
		"long errors":             wire.AppendText(nil, wire.KindError, 9, 1, make([]byte, 60_000)),
		"answers to nothing":      wire.AppendText(nil, wire.KindTell, 1, 99, make([]byte, 60_000)),
		"beginnings of no run":    wire.Append(nil, wire.KindBegun, wire.Begun{Run: 9}, nil),
		"welcomes":                welcome(4),
	} {
		for _, when := range []string{"HELLO", "BEGIN", "NEXT", "ASK", "STOP"} {
			if name == "welcomes" && when == "HELLO" {
				continue
			}
			t.Run(name+" after "+when, func(t *testing.T) {
				t.Parallel()
				ours, theirs := sockets(t)
				c := newConsumer(ours, Options{Timeout: 50 * time.Millisecond})
				defer c.Close()
				if when != "HELLO" {
					tell(t, theirs, welcome(4), -1)
				}
				if when == "NEXT" || when == "STOP" {
					tell(t, theirs, wire.Append(nil, wire.KindBegun, wire.Begun{Run: 1, Batches: 3}, nil), -1)
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					for theirs.Send(m, -1, patience) == nil {
					}
				}()
				err := use(t, c, when)
				expect.That(t, err != nil, "no error")
				expect.That(t, len(c.pending) <= 1000 && len(c.back) <= 1000, "%d messages and %d slots are kept",
					len(c.pending), len(c.back))
				c.Close()
				<-ended
			})
		}
	}
}

// hurry has servers answer soon until the test ends.
func hurry(t *testing.T) {
	was := answerTimeout
	t.Cleanup(func() { answerTimeout = was })
	answerTimeout = 50 * time.Millisecond
}

// use has a consumer wait for something.
func use(t *testing.T, c *Consumer, when string) error {
	t.Helper()
	if err := c.greet(t.Context()); err != nil || when == "HELLO" {
		return err
	}
	if when == "ASK" {
		_, err := c.Statistics(t.Context())
		return err
	}
	if when == "STOP" {
		if err := c.start(t.Context(), wire.Begin{}, nil); err != nil {
			return err
		}
		c.abandon() // which says nothing
		return errors.New("the run is left")
	}
	for _, err := range c.Epoch(t.Context(), 0) {
		if err != nil {
			return err
		}
	}
	return nil
}

// A server that answers nothing at all is an error in time.
func TestAServerThatSaysNothingIsAnErrorInTime(t *testing.T) {
	hurry(t)
	for _, when := range []string{"HELLO", "BEGIN", "NEXT", "ASK"} {
		ours, theirs := sockets(t)
		c := newConsumer(ours, Options{Timeout: 10 * time.Millisecond})
		if when != "HELLO" {
			tell(t, theirs, welcome(4), -1)
		}
		if when == "NEXT" {
			tell(t, theirs, wire.Append(nil, wire.KindBegun, wire.Begun{Run: 1, Batches: 3}, nil), -1)
		}
		expect.Is(t, use(t, c, when), shm.ErrTimeout, "after %s", when)
		expect.OK(t, c.Close())
	}
}

// An answer to HELLO gives what was asked for, or less where that may be.
func TestAWELCOMEThatIsNoAnswerIsRefused(t *testing.T) {
	for name, opt := range map[string]Options{"another rank": {Rank: RankOf(1)}, "more slots": {Hold: 3},
		"another index dtype": {IndexDType: unified.Int32}, "": {Rank: RankOf(0), Hold: 4, IndexDType: unified.Int64}} {
		ours, theirs := sockets(t)
		opt.Timeout = patience
		c := newConsumer(ours, opt)
		tell(t, theirs, welcome(4), -1)
		err := c.greet(t.Context())
		expect.That(t, errors.Is(err, wire.ErrMessage) == (name != ""), "%s: %v", name, err)
		expect.OK(t, c.Close())
	}
}
