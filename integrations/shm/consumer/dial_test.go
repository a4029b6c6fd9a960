//go:build linux

package consumer

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// listening answers the next who dials with messages, and gives on what he has said first.
func listening(t *testing.T, messages ...[]byte) (path string, first <-chan []byte) {
	t.Helper()
	top, err := os.MkdirTemp("/tmp", "khop") // paths of sockets have at most 107 bytes
	expect.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(top) })
	path = filepath.Join(top, "feed", "socket")
	l, _ := expect.Must2(wire.Listen(path))(t)
	heard, over := make(chan []byte, 1), make(chan struct{})
	go func() {
		defer close(over)
		meet(t, l, messages, heard)
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-over
	})
	return path, heard
}

// meet serves one connection until its end.
func meet(t *testing.T, l *net.UnixListener, messages [][]byte, heard chan<- []byte) {
	c, err := l.AcceptUnix()
	if err != nil {
		return // nobody has dialled
	}
	s, err := wire.NewSocket(c)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	b := make([]byte, wire.MaxMessage)
	n, _, err := s.Receive(context.Background(), time.Now().Add(patience), b)
	if err != nil {
		return // he was gone before he said anything
	}
	heard <- append([]byte(nil), b[:n]...)
	for _, m := range messages {
		if err := s.Send(m, -1, patience); err != nil && !wire.IsBroken(err) {
			t.Error(err)
		}
	}
	for err == nil {
		_, _, err = s.Receive(context.Background(), time.Now().Add(patience), b)
	}
}

// HELLO asks for what the options say, and for nothing where they say nothing.
func TestHELLOAsksForWhatTheOptionsSay(t *testing.T) {
	plain := wire.Hello{Magic: wire.Magic, Oldest: 1, Newest: 1, Rank: wire.AnyRank, Process: uint32(os.Getpid())}
	for name, c := range map[string]struct {
		opt  Options
		want func(h *wire.Hello)
	}{
		"nothing": {Options{}, func(*wire.Hello) {}},
		"rank 0":  {Options{Rank: RankOf(0)}, func(h *wire.Hello) { h.Rank = 0 }},
		"ids":     {Options{IndexDType: unified.Int64}, func(h *wire.Hello) { h.Index = uint32(unified.Int64) }},
		"hold":    {Options{Hold: 4, Timeout: patience}, func(h *wire.Hello) { h.Hold = 4 }},
	} {
		path, first := listening(t, welcome(4))
		c0, err := Dial(t.Context(), path, c.opt)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h, tail, err := wire.Parse[wire.Hello](<-first)
		want := plain
		want.Head = h.Head
		if c.want(&want); err != nil || h != want || len(tail) != 0 || h.Kind != wire.KindHello {
			t.Errorf("%s: %+v, want %+v, %v", name, h, want, err)
		}
		timeout := c.opt.Timeout
		if timeout == 0 {
			timeout = time.Minute
		}
		if c0.opt.Timeout != timeout || c0.Info().Hold != 4 {
			t.Errorf("%s: %+v, %+v", name, c0.opt, c0.Info())
		}
		expect.OK(t, errors.Join(c0.Close(), c0.Close()))
	}
}

// Dialling in vain says why, and leaves nothing open.
func TestDiallingInVainLeavesNothingOpen(t *testing.T) {
	no := wire.AppendText(nil, wire.KindError, 0, uint32(shm.CodeTaken), []byte("taken by 7"))
	for name, c := range map[string]struct {
		messages [][]byte
		opt      Options
		is       error
		text     string
	}{
		"refused":      {[][]byte{no}, Options{}, nil, "the server says (taken): taken by 7"},
		"a bad device": {nil, Options{Device: "cpu"}, shm.ErrOptions, `Device "cpu": must be cuda or cuda:<number>`},
		"another version": {[][]byte{badVersion()}, Options{}, wire.ErrMessage,
			"speaks version 2 of the feed, this is 1"},
		"another message": {[][]byte{pair(wire.KindStop, 1, 0)}, Options{}, wire.ErrMessage, "a STOP from a server"},
		"the end":         {[][]byte{pair(wire.KindBye, 1, 0)}, Options{}, shm.ErrEnded, "it was interrupted"},
		"WELCOME cut": {[][]byte{wire.Append(nil, wire.KindWelcome, wire.Pair{}, nil)}, Options{}, wire.ErrMessage,
			"a WELCOME of 16 bytes"},
		"BYE cut": {[][]byte{wire.Append(nil, wire.KindBye, wire.Begun{}, nil)}, Options{}, wire.ErrMessage,
			"a BYE of 48 bytes"},
	} {
		path, _ := listening(t, c.messages...)
		before := expect.OpenFiles(t)
		reader, err := Dial(t.Context(), path, c.opt)
		var e *shm.Error
		if reader != nil || c.is != nil && !errors.Is(err, c.is) || c.is == nil && !errors.As(err, &e) ||
			!strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
		waitFor(t, func() bool { return expect.OpenFiles(t) <= before }) // the other end's goes as it sees the end
	}
}

func badVersion() []byte {
	return wire.Append(nil, wire.KindWelcome, wire.Welcome{Magic: wire.Magic, Version: 2, WorldSize: 1, Hold: 1,
		Slots: 4, Index: uint32(unified.Int64), JSON: uint32(len(someState))}, []byte(someState))
}

// waitFor waits for what comes soon.
func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came")
		}
	}
}

// A ring is mapped up to MaxRing, to the byte; segments of other consumers take a number and no memory.
func TestSegmentsAreMappedUpToTheLimitAndInOrder(t *testing.T) {
	const size = pinned.HugePage
	memory := expect.Must(wire.NewMemory(size, wire.ReadWrite, pinned.Options{}))(t)
	t.Cleanup(func() { memory.Close() })
	hand := func(c *Consumer, theirs *wire.Socket, number int) error {
		tell(t, theirs, wire.Append(nil, wire.KindSegment, memory.Note(number), nil), memory.FD)
		n, fd := expect.Must2(c.socket.Receive(t.Context(), time.Now().Add(patience), c.packet))(t)
		return c.addSegment(c.packet[:n], fd)
	}
	for limit, want := range map[int64]int{0: 2, size - 1: 0, size: 1, 2*size - 1: 1, 2 * size: 2} {
		c, theirs := greeted(t)
		c.opt.MaxRing = limit
		before := expect.OpenFiles(t)
		for i, number := range []int{1, 3} {
			if err := hand(c, theirs, number); errors.Is(err, shm.ErrNoRoom) != (i >= want) {
				t.Errorf("limit %d, segment %d: %v", limit, i, err)
			}
		}
		if c.total != int64(want)*size {
			t.Errorf("limit %d: %d bytes are mapped", limit, c.total)
		}
		for number := range uint32(6) {
			if there := c.memory(number) != nil; there != (want > 0 && number == 1 || want > 1 && number == 3) {
				t.Errorf("limit %d: segment %d is there: %t", limit, number, there)
			}
		}
		if want == 2 {
			for _, number := range []int{0, 1, 3} {
				if err := hand(c, theirs, number); !errors.Is(err, wire.ErrMessage) ||
					!strings.Contains(err.Error(), "after 4 others") {
					t.Errorf("segment %d again: %v", number, err)
				}
			}
		}
		if after := expect.OpenFiles(t); after > before {
			t.Errorf("limit %d: %d descriptors are open, %d before", limit, after, before)
		}
		mapped := append([]*wire.Memory(nil), c.segments...)
		expect.OK(t, c.Close())
		for _, m := range mapped {
			if m != nil && m.Data != nil {
				t.Errorf("limit %d: a segment stays mapped", limit)
			}
		}
	}
}

// What cannot be asked says why, and answers that are none are the server's fault.
func TestQuestionsThatGetNoAnswerSayWhy(t *testing.T) {
	c, _ := greeted(t, wire.AppendText(nil, wire.KindTell, wire.AskStatistics, 1, []byte("{")))
	if _, err := c.Statistics(t.Context()); !errors.Is(err, wire.ErrMessage) ||
		!strings.HasPrefix(err.Error(), "bad message: TELL: ") {
		t.Errorf("an answer that is no JSON: %v", err)
	}
	c, _ = greeted(t, wire.Append(nil, wire.KindTell, wire.Pair{}, nil))
	if _, err := c.Statistics(t.Context()); !errors.Is(err, wire.ErrMessage) {
		t.Errorf("an answer that is cut: %v", err)
	}
	c, _ = greeted(t)
	expect.OK(t, c.enter())
	if _, err := c.Statistics(t.Context()); !errors.Is(err, shm.ErrBusy) {
		t.Errorf("in a loop: %v", err)
	}
	c.exit()
	c.process++ // as seen from a fork
	if _, err := c.Statistics(t.Context()); !errors.Is(err, shm.ErrClosed) {
		t.Errorf("of a fork: %v", err)
	}
	c.process--
	expect.OK(t, c.Close())
	if _, err := c.Statistics(t.Context()); !errors.Is(err, shm.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	c, theirs := greeted(t)
	expect.OK(t, theirs.Close())
	if _, err := c.Statistics(t.Context()); !errors.Is(err, shm.ErrGone) {
		t.Errorf("of a server that is gone: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	c, _ = greeted(t)
	if _, err := c.Statistics(ctx); !errors.Is(err, errEnough) {
		t.Errorf("after the end of the context: %v", err)
	}
}

var errEnough = errors.New("enough")

// A run that is waited for ends with Close, in another goroutine or in the body; a fork ends nothing of its parent.
func TestCloseEndsARunUnderWay(t *testing.T) {
	c, theirs := greeted(t, wire.Append(nil, wire.KindBegun, wire.Begun{Run: 1, Batches: 3}, nil))
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		b := make([]byte, wire.MaxMessage)
		for k := wire.Kind(0); k != wire.KindNext; {
			n, _, err := theirs.Receive(context.Background(), time.Now().Add(patience), b)
			if err != nil {
				t.Error(err)
				break
			}
			k, _ = wire.KindOf(b[:n])
		}
		expect.OK(t, c.Close())
	}()
	if err := first(t, c); !errors.Is(err, shm.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	<-begun
	c, theirs = greeted(t)
	c.process++
	if err := c.Close(); err != nil || c.mapped {
		t.Errorf("of a fork: %v, mapped %t", err, c.mapped)
	}
	if theirs.Ended() {
		t.Error("a fork has ended the connection")
	}
	expect.OK(t, c.socket.Close())
}

// Who waits in vain hears that the server does not answer either.
func TestAServerThatAnswersNothingIsSaid(t *testing.T) {
	hurry(t)
	c, _ := greeted(t, wire.Append(nil, wire.KindBegun, wire.Begun{Run: 1, Batches: 3}, nil))
	c.opt.Timeout = 10 * time.Millisecond
	err := first(t, c)
	if !errors.Is(err, shm.ErrTimeout) || !strings.Contains(err.Error(), "within 10ms; nor does the server answer") {
		t.Errorf("%v", err)
	}
}

// Messages that nobody waits for are kept up to a number, in their order.
func TestSoManyMessagesMayWait(t *testing.T) {
	c, _ := greeted(t)
	end := func(n uint32) []byte { return wire.Append(nil, wire.KindEnd, wire.End{Run: n}, nil) }
	most := uint32(c.info.Slots + mostLeft)
	for n := range most {
		if err := c.postpone(wire.KindEnd, end(n)); err != nil {
			t.Fatalf("message %d of %d: %v", n, most, err)
		}
	}
	for _, k := range []wire.Kind{wire.KindSegment, wire.KindTell, wire.KindBegun} {
		if err := c.postpone(k, nil); err != nil {
			t.Errorf("%v, which is dropped: %v", k, err)
		}
	}
	if err := c.postpone(wire.KindEnd, end(most)); !errors.Is(err, wire.ErrMessage) ||
		!strings.HasSuffix(err.Error(), "68 messages that nobody waits for") {
		t.Errorf("one more: %v", err)
	}
	for n := range most {
		b, err := c.receive(t.Context(), time.Now(), wire.KindEnd)
		m, _, parsing := wire.Parse[wire.End](b)
		if err != nil || parsing != nil || m.Run != n {
			t.Fatalf("message %d: %+v, %v", n, m, err)
		}
	}
	if len(c.pending) != 0 {
		t.Errorf("%d messages are left", len(c.pending))
	}
}
