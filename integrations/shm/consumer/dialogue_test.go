//go:build linux

package consumer

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// greeted is a consumer whose server has said WELCOME, and then the messages.
func greeted(t *testing.T, messages ...[]byte) (c *Consumer, theirs *wire.Socket) {
	t.Helper()
	ours, theirs := sockets(t)
	c = newConsumer(ours, Options{Timeout: patience})
	t.Cleanup(func() { c.Close() })
	tell(t, theirs, welcome(4), -1)
	for _, m := range messages {
		tell(t, theirs, m, -1)
	}
	expect.OK(t, c.greet(t.Context()))
	return c, theirs
}

// said closes a consumer, and returns all that it has said after HELLO and before BYE.
func said(t *testing.T, c *Consumer, theirs *wire.Socket) (list [][]byte) {
	t.Helper()
	expect.OK(t, c.Close())
	for {
		b := make([]byte, wire.MaxMessage)
		n, fd, err := theirs.Receive(t.Context(), time.Now().Add(patience), b)
		expect.Ensure(t, err == nil, "the consumer did not say BYE: %v", err)
		expect.That(t, fd < 0, "a descriptor from a consumer")
		switch k, _ := wire.KindOf(b[:n]); k {
		case wire.KindHello:
		case wire.KindBye:
			return list
		default:
			list = append(list, b[:n])
		}
	}
}

// returned is what a NEXT says.
type returned struct {
	run   uint32
	done  uint64
	slots []uint32
}

func nextOf(t *testing.T, b []byte) returned {
	t.Helper()
	m, slots, err := wire.Parse[wire.Next](b)
	k, _ := wire.KindOf(b)
	expect.Ensure(t, err == nil && k == wire.KindNext, "%v, %v, want NEXT", k, err)
	return returned{m.Run, m.Done, wire.AppendSlots(nil, slots)}
}

func (r returned) equals(o returned) bool {
	return r.run == o.run && r.done == o.done && slices.Equal(r.slots, o.slots)
}

func TestSlotsGoBackInAsManyMessagesAsTheyNeed(t *testing.T) {
	c, theirs := greeted(t)
	var all []uint32
	for i := range uint32(3000) {
		all = append(all, 3*i)
	}
	c.run, c.done, c.back = 7, 5, slices.Clone(all)
	expect.OK(t, c.acknowledge())
	list := said(t, c, theirs)
	expect.Ensure(t, len(list) == 3, "%d messages", len(list))
	for i, want := range []returned{{7, 5, all[:1024]}, {0, 0, all[1024:2048]}, {0, 0, all[2048:]}} {
		got := nextOf(t, list[i])
		expect.That(t, got.equals(want), "message %d: run %d, done %d, %d slots", i, got.run, got.done, len(got.slots))
	}
}

func TestAForkReturnsNoSlots(t *testing.T) {
	c, theirs := greeted(t)
	c.process++ // as seen from a fork
	c.back = []uint32{1}
	err := c.flushSlots()
	expect.That(t, errors.Is(err, shm.ErrClosed) && strings.Contains(err.Error(), "fork"), "%v, want a refusal", err)
	c.process--
	list := said(t, c, theirs)
	expect.That(t, len(list) == 0, "%d messages were sent", len(list))
}

// tellBatches sends what a server says of a run, but for its end: BEGUN, SEGMENT and three batches.
func (l *liar) tellBatches(t *testing.T, theirs *wire.Socket) {
	t.Helper()
	for _, p := range l.packets[1:6] {
		fd := -1
		if len(p.fds) > 0 {
			fd = p.fds[0]
		}
		tell(t, theirs, p.text, fd)
	}
}

// A run that is left gives back the batches that were announced for it, read or not.
func TestARunThatIsLeftGivesAllItsSlotsBack(t *testing.T) {
	l := newLiar(t)
	c, theirs := greeted(t)
	l.tellBatches(t, theirs)
	tell(t, theirs, wire.Append(nil, wire.KindEnd, wire.End{Run: 9, Reason: wire.EndStopped}, nil), -1)
	tell(t, theirs, wire.Append(nil, wire.KindEnd, wire.End{Run: 1, Reason: wire.EndStopped}, nil), -1)
	for _, err := range c.Epoch(t.Context(), 0) {
		expect.OK(t, err)
		break
	}
	list := said(t, c, theirs) // BEGIN, NEXT, NEXT, STOP, NEXT
	expect.Ensure(t, len(list) == 5, "%d messages", len(list))
	for i, want := range map[int]returned{1: {1, 0, nil}, 2: {1, 0, []uint32{0}}, 4: {0, 0, []uint32{1, 2}}} {
		got := nextOf(t, list[i])
		expect.That(t, got.equals(want), "message %d: %+v, want %+v", i, got, want)
	}
	m, _, err := wire.Parse[wire.Pair](list[3])
	expect.That(t, err == nil && m.Kind == wire.KindStop && m.First == 1, "%+v, %v, want STOP of run 1", m, err)
}

// first returns the error of a run that has no batches.
func first(t *testing.T, c *Consumer) (failure error) {
	t.Helper()
	for _, err := range c.Epoch(t.Context(), 0) {
		failure = err
		expect.That(t, err != nil, "a batch came")
	}
	return failure
}

// The error that ends a run or the connection has the server's text; an error of another run is ignored.
func TestWhatTheServerSaysIsTheError(t *testing.T) {
	hurry(t)
	begun := wire.Append(nil, wire.KindBegun, wire.Begun{Run: 1, Batches: 3}, nil)
	fail := func(run uint32, n int) []byte {
		return wire.AppendText(nil, wire.KindError, run, uint32(wire.CodeEpochs), []byte(strings.Repeat("x", n)))
	}
	begunAt1 := wire.Append(nil, wire.KindBegun, wire.Begun{Run: 1, Epoch: 1}, nil)
	end := wire.Append(nil, wire.KindEnd, wire.End{Run: 1}, nil)
	long := strings.Repeat("x", wire.MaxText)
	for name, c := range map[string]struct {
		messages [][]byte
		text     string // of a *shm.Error; "" for a bad message
	}{
		"at BEGIN":             {[][]byte{fail(9, 3), fail(1, 4)}, "xxxx"},
		"at once":              {[][]byte{fail(1, 4)}, "xxxx"},
		"in the run":           {[][]byte{begun, fail(9, 3), fail(1, 4)}, "xxxx"},
		"of the connection":    {[][]byte{begun, fail(0, len(long))}, long},
		"too long":             {[][]byte{begun, fail(0, len(long)+1)}, ""},
		"a second WELCOME":     {[][]byte{begun, welcome(4)}, ""},
		"a consumer's":         {[][]byte{begun, pair(wire.KindStop, 1, 0)}, ""},
		"BEGUN of epoch 1":     {[][]byte{begunAt1}, ""},
		"END before it is due": {[][]byte{begun, end}, ""},
	} {
		consumer, theirs := greeted(t, c.messages...)
		err := first(t, consumer)
		var e *shm.Error
		asSaid := errors.As(err, &e) && e.Code == wire.CodeEpochs && e.Text == c.text
		if c.text == "" && !errors.Is(err, wire.ErrMessage) || c.text != "" && !asSaid {
			t.Errorf("%s: %.80v", name, err)
		}
		over := c.text == "xxxx" // nothing is left to stop
		for _, b := range said(t, consumer, theirs) {
			k, _ := wire.KindOf(b)
			expect.That(t, !over || k != wire.KindStop, "%s: STOP of a run that is over", name)
		}
	}
}

func TestTheEndOfTheServerIsSaid(t *testing.T) {
	hurry(t)
	for reason, want := range map[uint32]string{0: "is done", 1: "interrupted", 2: "all epochs", 9: "all epochs"} {
		c, theirs := greeted(t, pair(wire.KindBye, reason, 0))
		expect.OK(t, theirs.Close())
		expect.Says(t, first(t, c), shm.ErrEnded, want, "BYE %d", reason)
	}
	c, theirs := greeted(t)
	expect.OK(t, theirs.Close())
	expect.Is(t, first(t, c), shm.ErrGone, "without a word")
}

// What comes before an answer waits for its turn.
func TestAnAnswerMayComeAfterOthers(t *testing.T) {
	c, _ := greeted(t, wire.Append(nil, wire.KindEnd, wire.End{Run: 9}, nil),
		wire.AppendText(nil, wire.KindTell, wire.AskStatistics, 9, []byte(`{"waiting":"nobody"}`)),
		wire.AppendText(nil, wire.KindTell, wire.AskStatistics, 1, []byte(`{"waiting":"consumer"}`)))
	if s, err := c.Statistics(t.Context()); err != nil || s.Waiting != "consumer" || len(c.pending) != 1 {
		t.Errorf("%+v, %v, %d messages wait", s, err, len(c.pending))
	}
}

func TestInfoSaysWhatTheServerIs(t *testing.T) {
	ours, _ := sockets(t)
	c := newConsumer(ours, Options{})
	h := wire.Hello{Rank: wire.AnyRank, Takes: wire.TakesDevice}
	m := wire.Welcome{Version: 1, Rank: 2, WorldSize: 3, Hold: 4, Slots: 5, Index: uint32(unified.Int32), Batches: 6}
	for is := range uint32(8) {
		m.Is = is
		expect.OK(t, c.meet(h, m, []byte(`{"state":{"epoch":7,"next":8}}`)))
		i := c.Info()
		expect.That(t, i.Broadcast == (is&1 != 0) && i.Durable == (is&2 != 0) && i.OnDevice == (is&4 != 0),
			"WELCOME is %d: %+v", is, i)
		if i.Rank != 2 || i.WorldSize != 3 || i.Hold != 4 || i.Slots != 5 || i.IndexDType != unified.Int32 ||
			i.Batches != 6 || i.State != (loader.State{Epoch: 7, Next: 8}) || len(i.Server) == 0 {
			t.Errorf("%+v", i)
		}
	}
	bare, theirs := sockets(t)
	tell(t, theirs, welcome(0), -1)
	expect.Is(t, newConsumer(bare, Options{Timeout: patience}).greet(t.Context()), wire.ErrMessage,
		"a WELCOME to no slots")
	h.Takes = 0
	expect.Is(t, c.meet(h, m, []byte(someState)), wire.ErrMessage, "batches on a device, which nobody asked for")
	m.Is, m.Version = 0, 2
	expect.Is(t, c.meet(h, m, []byte(someState)), wire.ErrMessage, "another version")
	m.Version = 1
	expect.Is(t, c.meet(h, m, []byte(`{}`)), wire.ErrMessage, "no state")
}

func TestOptionsOutOfTheirRangeAreRefused(t *testing.T) {
	for _, opt := range []Options{{Hold: -1}, {Timeout: -1}, {Rank: RankOf(-2)}, {MaxRing: -1}, {Device: "cpu"}} {
		c, err := Dial(t.Context(), "nowhere", opt)
		if opt.Device != "" {
			ours, _ := sockets(t)
			c, err = nil, newConsumer(ours, opt).openDevice()
		}
		expect.That(t, c == nil && errors.Is(err, shm.ErrOptions), "%+v: %v, want ErrOptions", opt, err)
	}
}

// Each of these is refused wherever it comes, and what came before it is not lost.
func TestEachLieIsRefused(t *testing.T) {
	hurry(t)
	batch := func(change func(m *wire.Batch)) func(l *liar) {
		return func(l *liar) {
			m, _ := expect.Must2(wire.Parse[wire.Batch](l.packets[3].text))(t)
			change(&m)
			l.packets[3].text = wire.Append(nil, wire.KindBatch, m, nil)
		}
	}
	for name, c := range map[string]struct {
		lie     func(l *liar)
		batches int // that come before it
	}{
		"a later batch":     {batch(func(m *wire.Batch) { m.Sequence = 1 }), 0},
		"another number":    {batch(func(m *wire.Batch) { m.Number = 1 }), 0},
		"another next":      {batch(func(m *wire.Batch) { m.Next = 2 }), 0},
		"slot 4 of 4":       {batch(func(m *wire.Batch) { m.Slot = 4 }), 0},
		"segment 1 of 1":    {batch(func(m *wire.Batch) { m.Segment = 1 }), 0},
		"beyond the end":    {batch(func(m *wire.Batch) { m.Offset = 2<<20 - 128 }), 0},
		"an offset too far": {batch(func(m *wire.Batch) { m.Offset = 2<<20 + 128 }), 0},
		"another epoch": {func(l *liar) {
			batch(func(m *wire.Batch) { m.Epoch = 1 })(l)
			d := l.ring.Data
			wire.PutPlace(d, 1, 0, 1, 0)
		}, 0},
		"a batch too soon":       {func(l *liar) { l.packets[2], l.packets[3] = l.packets[3], l.packets[2] }, 0},
		"a segment again":        {func(l *liar) { l.packets = slices.Insert(l.packets, 3, l.packets[2]) }, 0},
		"two descriptors at END": {func(l *liar) { l.packets[6].fds = []int{l.ring.FD, l.ring.FD} }, 3},
		"WELCOME of nothing":     {func(l *liar) { l.packets[0].text[8] = 'x' }, 0},
	} {
		l := newLiar(t)
		c.lie(l)
		if n, err := l.consume(t); n != c.batches || !errors.Is(err, wire.ErrMessage) {
			t.Errorf("%s: %d batches, %v, want %d and a bad message", name, n, err, c.batches)
		}
	}
}

// A digest of what cannot be read is 0, not that of something else.
func TestADigestOfWhatCannotBeReadIsZero(t *testing.T) {
	x := expect.Must(unified.NewPlaced(pinned.Device, unified.Int64, make([]byte, 8), 1))(t)
	b := Batch{arrays: []shm.Array{{Name: "nodes/node", Tensor: x, Flags: shm.InTopology | shm.InFull}}}
	topology, full := b.Digest()
	expect.That(t, topology == 0 && full == 0, "%x, %x", topology, full)
}

func TestAnEpochWithinAnEpochIsRefused(t *testing.T) {
	c, _ := greeted(t)
	expect.OK(t, c.enter())
	err := first(t, c)
	expect.That(t, errors.Is(err, shm.ErrBusy), "%v, want ErrBusy", err)
	c.exit()
	expect.Is(t, c.enter(), nil, "after it")
	c.exit()
}

// Messages of an earlier run do not begin the next one.
func TestARunBeginsWithItsOwnBEGUN(t *testing.T) {
	c, theirs := greeted(t)
	c.run = 4
	for _, m := range []wire.Begun{{Run: 4, Epoch: 9, Batches: 1}, {Run: 5, Epoch: 3, Batches: 7}} {
		tell(t, theirs, wire.Append(nil, wire.KindBegun, m, nil), -1)
	}
	expect.OK(t, c.start(t.Context(), wire.Begin{Mode: wire.BeginAt, Epoch: 3}, nil))
	expect.That(t, c.run == 5 && c.epoch == 3 && c.count == 7, "run %d, epoch %d, %d batches", c.run, c.epoch, c.count)
}
