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
		err := s.Send(m, -1, patience)
		expect.That(t, err == nil || wire.IsBroken(err), "%v", err)
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
		expect.Ensure(t, err == nil, "%s: %v", name, err)
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
		expect.That(t, c0.opt.Timeout == timeout && c0.Info().Hold == 4, "%s: %+v, %+v", name, c0.opt, c0.Info())
		expect.OK(t, errors.Join(c0.Close(), c0.Close()))
	}
}

// Dialling in vain says why, and leaves nothing open.
func TestDiallingInVainLeavesNothingOpen(t *testing.T) {
	no := wire.AppendText(nil, wire.KindError, 0, uint32(wire.CodeTaken), []byte("taken by 7"))
	for name, c := range map[string]struct {
		messages [][]byte
		opt      Options
		is       error
		text     string
	}{
		"refused":      {[][]byte{no}, Options{}, nil, "the server says (taken): taken by 7"},
		"a bad device": {nil, Options{Device: "cpu"}, shm.ErrOptions, `Device "cpu": must be cuda or cuda:N`},
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
		expect.Ensure(t, !time.Now().After(end), "it never came")
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
			err := hand(c, theirs, number)
			expect.That(t, errors.Is(err, shm.ErrNoRoom) == (i >= want), "limit %d, segment %d: %v", limit, i, err)
		}
		expect.That(t, c.total == int64(want)*size, "limit %d: %d bytes are mapped", limit, c.total)
		for number := range uint32(6) {
			if there := c.memory(number) != nil; there != (want > 0 && number == 1 || want > 1 && number == 3) {
				t.Errorf("limit %d: segment %d is there: %t", limit, number, there)
			}
		}
		if want == 2 {
			for _, number := range []int{0, 1, 3} {
				expect.Says(t, hand(c, theirs, number), wire.ErrMessage, "after 4 others", "segment %d again", number)
			}
		}
		after := expect.OpenFiles(t)
		expect.That(t, after <= before, "limit %d: %d descriptors are open, %d before", limit, after, before)
		mapped := append([]*wire.Memory(nil), c.segments...)
		expect.OK(t, c.Close())
		for _, m := range mapped {
			expect.That(t, m == nil || m.Data == nil, "limit %d: a segment stays mapped", limit)
		}
	}
}

// A request that is refused says why, and malformed answers are the server's fault.
func TestQuestionsThatGetNoAnswerSayWhy(t *testing.T) {
	c, _ := greeted(t, wire.AppendText(nil, wire.KindTell, wire.AskStatistics, 1, []byte("{")))
	_, err := c.Statistics(t.Context())
	expect.That(t, errors.Is(err, wire.ErrMessage) && strings.HasPrefix(err.Error(), "bad message: TELL: "),
		"an answer that is no JSON: %v", err)
	c, _ = greeted(t, wire.Append(nil, wire.KindTell, wire.Pair{}, nil))
	expect.Is(t, expect.Err(c.Statistics(t.Context())), wire.ErrMessage, "an answer that is cut")
	c, _ = greeted(t)
	expect.OK(t, c.enter())
	expect.Is(t, expect.Err(c.Statistics(t.Context())), shm.ErrBusy, "in a loop")
	c.exit()
	c.process++ // as seen from a fork
	expect.Is(t, expect.Err(c.Statistics(t.Context())), shm.ErrClosed, "of a fork")
	c.process--
	expect.OK(t, c.Close())
	expect.Is(t, expect.Err(c.Statistics(t.Context())), shm.ErrClosed, "after Close")
	c, theirs := greeted(t)
	expect.OK(t, theirs.Close())
	expect.Is(t, expect.Err(c.Statistics(t.Context())), shm.ErrGone, "of a server that is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	c, _ = greeted(t)
	expect.Is(t, expect.Err(c.Statistics(ctx)), errEnough, "after the end of the context")
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
	err := first(t, c)
	expect.That(t, errors.Is(err, shm.ErrClosed), "%v, want ErrClosed", err)
	<-begun
	c, theirs = greeted(t)
	c.process++
	if err := c.Close(); err != nil || c.mapped {
		t.Errorf("of a fork: %v, mapped %t", err, c.mapped)
	}
	expect.That(t, !theirs.Ended(), "a fork has ended the connection")
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
		err := c.postpone(wire.KindEnd, end(n))
		expect.Ensure(t, err == nil, "message %d of %d: %v", n, most, err)
	}
	for _, k := range []wire.Kind{wire.KindSegment, wire.KindTell, wire.KindBegun} {
		expect.Is(t, c.postpone(k, nil), nil, "%v, which is dropped", k)
	}
	if err := c.postpone(wire.KindEnd, end(most)); !errors.Is(err, wire.ErrMessage) ||
		!strings.HasSuffix(err.Error(), "68 messages that nobody waits for") {
		t.Errorf("one more: %v", err)
	}
	for n := range most {
		b, err := c.receive(t.Context(), time.Now(), wire.KindEnd)
		m, _, parsing := wire.Parse[wire.End](b)
		expect.Ensure(t, err == nil && parsing == nil && m.Run == n, "message %d: %+v, %v", n, m, err)
	}
	expect.That(t, len(c.pending) == 0, "%d messages are left", len(c.pending))
}
