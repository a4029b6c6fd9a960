//go:build linux

package consumer

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// patience is how long a test waits for what comes at once, unless the machine is busy with something else.
const patience = 2 * time.Minute

// sockets returns two ends of a connection.
func sockets(t testing.TB) (ours, theirs *wire.Socket) {
	t.Helper()
	pair := expect.Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))(t)
	var ends [2]*wire.Socket
	for i, fd := range pair {
		ends[i] = expect.Must(wire.OwnSocket(fd))(t)
		t.Cleanup(func() { _ = ends[i].Close() })
	}
	return ends[0], ends[1]
}

const someState = `{"state":{"epoch":0,"next":0}}`

// welcome is a WELCOME to a ring of which hold slots may be held.
func welcome(hold uint32) []byte {
	return wire.Append(nil, wire.KindWelcome, wire.Welcome{Magic: wire.Magic, Version: 1, WorldSize: 1, Hold: hold,
		Slots: 4, Index: uint32(unified.Int64), JSON: uint32(len(someState)), Batches: 3}, []byte(someState))
}

func TestSlotsForWhichThereWasNoRoomGoBackLater(t *testing.T) {
	a, b := sockets(t)
	c := newConsumer(a, Options{Timeout: 20 * time.Millisecond})
	c.back = []uint32{3, 5}
	n := 0
	for ; a.Send([]byte{1}, -1, 0) == nil; n++ { // until there is no room
	}
	err := c.acknowledge()
	expect.Ensure(t, errors.Is(err, os.ErrDeadlineExceeded), "%v, want os.ErrDeadlineExceeded", err)
	room := make([]byte, 64)
	for range n {
		expect.Must2(b.Receive(t.Context(), time.Now().Add(patience), room))(t)
	}
	expect.OK(t, c.acknowledge())
	k, _ := expect.Must2(b.Receive(t.Context(), time.Now().Add(patience), room))(t)
	if m, back, err := wire.Parse[wire.Next](room[:k]); err != nil ||
		!slices.Equal(wire.AppendSlots(nil, back), []uint32{3, 5}) {
		t.Errorf("%+v, %v", m, err)
	}
}

// script is a consumer of a server that is written out: it has announced two batches, of two that may be held.
func script(t *testing.T) *Consumer {
	t.Helper()
	ours, theirs := sockets(t)
	c := newConsumer(ours, Options{Timeout: patience})
	t.Cleanup(func() { c.Close() })
	memory := expect.Must(wire.NewMemory(2<<20, wire.ReadWrite, pinned.Options{}))(t)
	t.Cleanup(func() { memory.Close() })
	d := wire.NewDescriptor([]wire.Form{{Name: "array", DType: unified.Int64, Rank: 1}})
	wire.PutArray(d, 0, 0, 1024, []int64{4})
	for n := range uint64(2) {
		wire.PutPlace(d, 0, n, n+1, 0)
		copy(memory.Data[512*n:], d)
	}
	tell(t, theirs, welcome(2), -1)
	tell(t, theirs, wire.Append(nil, wire.KindBegun, wire.Begun{Run: 1, Batches: 3}, nil), -1)
	tell(t, theirs, wire.Append(nil, wire.KindSegment, memory.Note(0), nil), memory.FD)
	for n := range uint64(2) {
		tell(t, theirs, wire.Append(nil, wire.KindBatch, wire.Batch{Run: 1, Slot: uint32(n), Sequence: n, Number: n,
			Size: uint32(len(d)), Offset: 512 * n, Next: n + 1}, nil), -1)
	}
	expect.OK(t, c.greet(t.Context()))
	go answer(t, theirs)
	return c
}

// answer answers ASK and STOP until the consumer goes.
func answer(t *testing.T, theirs *wire.Socket) {
	const statistics = `{"waiting":"consumer","consumers":[{"pid":7,"held":2,"oldest_held_s":9}]}`
	b := make([]byte, wire.MaxMessage)
	for {
		n, _, err := theirs.Receive(context.Background(), time.Now().Add(patience), b)
		if err != nil {
			return
		}
		k, _ := wire.KindOf(b[:n])
		m, _, _ := wire.Parse[wire.Pair](b[:n])
		switch k {
		case wire.KindAsk:
			tell(t, theirs, wire.AppendText(nil, wire.KindTell, m.First, m.Second, []byte(statistics)), -1)
		case wire.KindStop:
			tell(t, theirs, wire.Append(nil, wire.KindEnd, wire.End{Run: m.First, Reason: wire.EndStopped}, nil), -1)
		}
	}
}

// tell sends a message as the server.
func tell(t *testing.T, s *wire.Socket, message []byte, fd int) {
	t.Helper()
	expect.OK(t, s.Send(message, fd, time.Second))
}

func TestAConsumerThatHoldsAllSlotsIsTold(t *testing.T) {
	c := script(t)
	var kept []*Batch
	for b, err := range c.Epoch(t.Context(), 0) {
		if err != nil {
			expect.That(t, errors.Is(err, shm.ErrHeld) && strings.Contains(err.Error(), "all 2"), "%v, want ErrHeld",
				err)
			break
		}
		if kept = append(kept, b.Keep()); len(kept) == 2 {
			c.opt.Timeout = time.Millisecond // what comes now comes too late
		}
	}
	expect.That(t, len(kept) == 2, "%d batches, where 2 may be held", len(kept))
	for _, b := range kept {
		b.Release()
		b.Release()
	}
}

func TestWhoWaitsTooLongIsToldWhoHoldsTheSlots(t *testing.T) {
	c := script(t)
	var last error
	for b, err := range c.Epoch(t.Context(), 0) {
		if last = err; err == nil && b.Number == 1 {
			c.opt.Timeout = time.Millisecond
		}
	}
	if !errors.Is(last, shm.ErrTimeout) || !strings.Contains(last.Error(), `"consumer"; process 7 holds 2 for 9 s`) {
		t.Errorf("%v, want who holds the slots", last)
	}
}

func TestAForkMustNotUseTheConnection(t *testing.T) {
	c := script(t)
	c.process++ // as seen from a fork
	for _, err := range c.Epoch(t.Context(), 0) {
		expect.That(t, errors.Is(err, shm.ErrClosed) && strings.Contains(err.Error(), "fork"), "%v, want a refusal",
			err)
	}
	c.process--
}

// FuzzConsumer: no messages of a server make a consumer fail otherwise than by an error, or map more than it allows.
func FuzzConsumer(f *testing.F) {
	w := welcome(2)
	segment := wire.Append(nil, wire.KindSegment, wire.Segment{Size: 8192}, nil)
	batch := wire.Append(nil, wire.KindBatch, wire.Batch{Run: 1, Size: 128, Offset: 128}, nil)
	begun := wire.Append(nil, wire.KindBegun, wire.Begun{Run: 1}, nil)
	f.Add(w, begun, segment, batch)
	f.Add(w, begun, batch, segment)
	f.Add(w, wire.Append(nil, wire.KindEnd, wire.End{Run: 1}, nil),
		wire.AppendText(nil, wire.KindError, 1, 2, []byte("text")), pair(wire.KindBye, 9, 9))
	f.Add(wire.AppendText(nil, wire.KindError, 0, 3, []byte("no")), w, w, w)
	f.Fuzz(func(t *testing.T, a, b, c, d []byte) {
		ours, theirs := sockets(t)
		seg := expect.Must(wire.NewMemory(2<<20, wire.ReadWrite, pinned.Options{}))(t)
		defer seg.Close()
		for _, m := range [][]byte{a, b, c, d} {
			if len(m) == 0 || len(m) > wire.MaxMessage {
				continue
			}
			fd := -1
			if k, _ := wire.KindOf(m); k == wire.KindSegment {
				fd = seg.FD
			}
			expect.OK(t, theirs.Send(m, fd, time.Second))
		}
		if err := theirs.Close(); err != nil { // what it has sent still comes
			t.Fatal(err)
		}
		reader := newConsumer(ours, Options{Timeout: patience, MaxRing: 4 << 20})
		if err := reader.greet(t.Context()); err == nil {
			for b, err := range reader.Epoch(t.Context(), 0) {
				if err == nil {
					for _, a := range b.Arrays() {
						expect.Ensure(t, len(a.Tensor.Bytes()) <= 4<<20, "an array larger than the ring")
					}
				}
			}
		}
		expect.Ensure(t, reader.total <= 4<<20, "%d bytes were mapped", reader.total)
		expect.OK(t, reader.Close())
	})
}
