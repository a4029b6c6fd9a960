//go:build linux

package server

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// code returns the code of what a server has reported; 0 for another error.
func code(err error) shm.Code {
	var e *shm.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// raw is a connection whose messages a test makes by hand.
func raw(t *testing.T, s *serving) *wire.Socket {
	t.Helper()
	k := expect.Must(wire.Dial(t.Context(), s.path))(t)
	t.Cleanup(func() { k.Close() })
	return k
}

// answer returns the next message, which must come.
func answer(t *testing.T, k *wire.Socket) ([]byte, error) {
	t.Helper()
	b := make([]byte, wire.MaxMessage)
	n, fd, err := k.Receive(t.Context(), time.Now().Add(patience), b)
	wire.CloseDescriptor(fd)
	if err == nil && (fd >= 0) != (kindOf(b[:n]) == wire.KindSegment) {
		t.Errorf("a %v with descriptor %d", kindOf(b[:n]), fd)
	}
	expect.Ensure(t, !errors.Is(err, os.ErrDeadlineExceeded), "no answer")
	return b[:n], err
}

// refused sends a message and wants the connection to end with an ERROR of the code.
func refused(t *testing.T, k *wire.Socket, message []byte, want shm.Code) {
	t.Helper()
	expect.OK(t, k.Send(message, -1, time.Second))
	for {
		b, err := answer(t, k)
		if err != nil {
			t.Errorf("the connection ended without ERROR: %v", err)
			return
		}
		if kindOf(b) != wire.KindError {
			continue
		}
		m, text, err := wire.Parse[wire.Text](b)
		expect.That(t, err == nil && m.First == 0 && shm.Code(m.Second) == want && len(text) != 0,
			"ERROR %+v (%s), %v; want code %v", m, text, err, want)
		if _, err := answer(t, k); err == nil {
			t.Error("the connection went on")
		}
		return
	}
}

var good = wire.Hello{Magic: wire.Magic, Oldest: 1, Newest: 1, Rank: wire.AnyRank}

func hello(m wire.Hello) []byte { return wire.Append(nil, wire.KindHello, m, nil) }

// start is BEGIN, with a state or without.
func start(m wire.Begin, state ...byte) []byte {
	m.JSON = uint32(len(state))
	return wire.Append(nil, wire.KindBegin, m, state)
}

func pair(k wire.Kind, first, second uint32) []byte {
	return wire.Append(nil, k, wire.Pair{First: first, Second: second}, nil)
}

// cut is a message of n bytes, all zero but its head, and the number at byte 12 where there is one.
func cut(k wire.Kind, n int, number uint32) []byte {
	b := make([]byte, max(n, 16))
	binary.LittleEndian.PutUint16(b, uint16(k))
	binary.LittleEndian.PutUint32(b[4:], uint32(n))
	binary.LittleEndian.PutUint32(b[12:], number)
	return b[:n]
}

func kindOf(b []byte) wire.Kind {
	k, _ := wire.KindOf(b)
	return k
}

func TestAnotherUserIsRefused(t *testing.T) {
	s := expect.Must(New(t.Context(), plainGraph(t, 100), Options{Path: socketPath(t), Loader: usual()}))(t)
	s.uid++
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	_, err := consumer.Dial(t.Context(), s.Options().Path, consumer.Options{})
	expect.That(t, code(err) == wire.CodeUser && strings.Contains(err.Error(), "same user"),
		"%v, want a refusal of the user", err)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	expect.OK(t, s.Close())
}

func TestEveryBrokenRuleEndsTheConnectionAndNothingElse(t *testing.T) {
	s := serve(t, plainGraph(t, 200), Options{Hold: 2})
	wrong := cut(wire.KindNext, 24, 0)
	wrong[4] = 99
	for name, m := range map[string][]byte{
		"one byte":                     {1},
		"wrong length":                 wrong,
		"unknown kind":                 cut(99, 8, 0),
		"kind 0":                       cut(0, 8, 0),
		"a server's message":           pair(wire.KindTell, 0, 0),
		"HELLO twice":                  hello(good),
		"BEGIN cut short":              cut(wire.KindBegin, 16, 0),
		"BEGIN of run 0":               start(wire.Begin{}),
		"BEGIN of a run before":        start(wire.Begin{Run: 1}),
		"BEGIN in no mode":             start(wire.Begin{Run: 7, Mode: 9}),
		"BEGIN of epoch 2^32":          start(wire.Begin{Run: 7, Epoch: 1 << 32}),
		"NEXT of more slots than sent": cut(wire.KindNext, 24, 1<<31),
		"slots that are not held":      wire.AppendNext(nil, 0, 0, []uint32{0, 1, 2, 3, 4, 5}),
		"a slot that there is not":     wire.AppendNext(nil, 0, 0, []uint32{1 << 31}),
		"more than was announced":      wire.AppendNext(nil, 1, 99, nil),
		"one more than was announced":  wire.AppendNext(nil, 1, 3, nil),
		"ASK for what there is not":    pair(wire.KindAsk, 9, 1),
	} {
		t.Run(name, func(t *testing.T) {
			k := raw(t, s)
			expect.OK(t, k.Send(hello(good), -1, time.Second))
			expect.OK(t, k.Send(start(wire.Begin{Run: 1}), -1, time.Second))
			for range 5 { // WELCOME, BEGUN, SEGMENT, and as many batches as may be held
				if b, err := answer(t, k); err != nil {
					t.Fatal(b, err)
				}
			}
			refused(t, k, m, wire.CodeMessage)
		})
	}
	for name, m := range map[string][]byte{"no HELLO": start(wire.Begin{Run: 1}), "nonsense": make([]byte, 64),
		"HELLO of another protocol": func() []byte {
			b := hello(good)
			b[8] = 'x'
			return b
		}(), "an index dtype that is none": hello(wire.Hello{Magic: wire.Magic, Oldest: 1, Newest: 1, Index: 11})} {
		t.Run(name, func(t *testing.T) { refused(t, raw(t, s), m, wire.CodeMessage) })
	}
	got, want := lines(t, connect(t, s, consumer.Options{}).Epoch(t.Context(), 0)),
		want(t, plainGraph(t, 200), usual(), 0)
	expect.That(t, slices.Equal(got, want), "afterwards got %q, want %q", got, want)
}

func TestRanksAreGivenOnceAndSaidPlainly(t *testing.T) {
	s := serve(t, plainGraph(t, 100), Options{WorldSize: 2})
	a, b := connect(t, s, consumer.Options{Rank: consumer.RankOf(1)}), connect(t, s, consumer.Options{})
	expect.That(t, a.Info().Rank == 1 && b.Info().Rank == 0, "ranks %d and %d", a.Info().Rank, b.Info().Rank)
	if _, err := consumer.Dial(t.Context(), s.path,
		consumer.Options{Rank: consumer.RankOf(2)}); code(err) != wire.CodeRank {
		t.Errorf("rank 2 of 2: %v", err)
	}
	for _, choice := range []consumer.RankChoice{{}, consumer.RankOf(1)} {
		_, err := consumer.Dial(t.Context(), s.path, consumer.Options{Rank: choice})
		expect.That(t, code(err) == wire.CodeTaken && strings.Contains(err.Error(), "process"),
			"a rank that is taken: %v", err)
	}
	expect.OK(t, a.Close())
	c := connect(t, s, consumer.Options{Rank: consumer.RankOf(1)}) // at once: the server may not have seen the end yet
	lines(t, c.Epoch(t.Context(), 0))
}

// A server that is slow to see the end of a consumer lets the next one wait; it does not refuse it.
func TestAConsumerWhoseConnectionHasEndedHoldsNoRank(t *testing.T) {
	s := serve(t, plainGraph(t, 100), Options{})
	c := connect(t, s, consumer.Options{})
	r := s.ranks[0]
	r.mu.Lock() // the server sees nothing meanwhile
	defer r.mu.Unlock()
	pid := r.holder()
	expect.That(t, pid == os.Getpid(), "process %d has the rank", pid)
	expect.OK(t, c.Close())
	if pid := r.holder(); pid != 0 || len(r.peers) != 1 {
		t.Errorf("process %d has the rank, of %d", pid, len(r.peers))
	}
}

func TestServersAndWhatIsLeftOfThem(t *testing.T) {
	g := plainGraph(t, 100)
	dir := filepath.Join(filepath.Dir(filepath.Dir(socketPath(t))), "mine")
	expect.OK(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "socket")
	expect.Is(t, expect.Err(consumer.Dial(t.Context(), path, consumer.Options{})), shm.ErrNoServer, "nothing there")
	l := expect.Must(net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"}))(t)
	l.SetUnlinkOnClose(false) // as if it was killed
	l.Close()
	expect.Says(t, expect.Err(consumer.Dial(t.Context(), path, consumer.Options{})), shm.ErrNoServer, "has ended",
		"a stale socket")
	opt := Options{Path: path, Loader: usual()}
	s, err := New(t.Context(), g, opt)
	expect.Ensure(t, err == nil, "in place of a stale socket: %v", err)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is %v, %v", st.Mode(), err)
	}
	expect.Is(t, expect.Err(New(t.Context(), g, opt)), shm.ErrRunning, "beside a running server")
	expect.OK(t, s.Close())
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is still there")
	}
	if _, err := os.Lstat(dir); err != nil {
		t.Error("the server removed a directory that it had not made")
	}
	expect.OK(t, os.WriteFile(path, nil, 0o600))
	if _, err := New(t.Context(), g, opt); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("over a file: %v", err)
	}
	expect.OK(t, os.Chmod(dir, 0o755))
	opt.Path = filepath.Join(dir, "other")
	if _, err := New(t.Context(), g, opt); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("in a directory for all: %v", err)
	}
	opt.Path = filepath.Join(t.TempDir(), strings.Repeat("x", 100), "socket")
	if _, err := New(t.Context(), g, opt); err == nil || !strings.Contains(err.Error(), "107 bytes") {
		t.Errorf("a long path: %v", err)
	}
}

// growing is eight batches of which the last, and no other, is large: 5 MB. The loader does not try it in advance.
func growing(t *testing.T) (*graph.Graph, loader.Options) {
	t.Helper()
	const n, width = 2500, 500
	feature := graphs.Matrix(t, graphs.Counted[float32](n*width), width)
	g := graphs.New(t, graph.Data{
		Nodes: []graph.NodeData{{Count: n, Columns: map[string]unified.Tensor{"feature": feature}}},
		Edges: []graph.EdgeData{{Src: []int64{1, 2}, Dst: []int64{0, 0}}},
	})
	ids := make([]int64, 8*n)
	for i := range n {
		ids[7*n+i] = int64(i)
	}
	opt := usual()
	opt.Seeds, opt.BatchSize, opt.Shuffle = loader.NodeIDs(ids), n, false
	return g, opt
}

func TestABatchLargerThanAllBeforeGetsAnotherSegment(t *testing.T) {
	defer func(n int64) { leastSegment = n }(leastSegment)
	leastSegment = pinned.HugePage
	g, opt := growing(t)
	s := serve(t, g, Options{Loader: opt})
	before := s.Stats()[0].Segments
	c := connect(t, s, consumer.Options{})
	for range 2 {
		got, want := lines(t, c.Epoch(t.Context(), 0)), want(t, g, opt, 0)
		expect.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
	}
	n := s.Stats()[0].Segments
	expect.That(t, n > before, "%d segments, %d before", n, before)
}

func TestNoRoomIsSaidAndServingGoesOn(t *testing.T) {
	defer func(f func() int64, n int64) { roomLeft, leastSegment = f, n }(roomLeft, leastSegment)
	g, opt := growing(t)
	roomLeft = func() int64 { return 1000 }
	expect.Is(t, expect.Err(New(t.Context(), g, Options{Path: socketPath(t), Loader: opt})), shm.ErrNoRoom,
		"with 1000 bytes left")
	leastSegment = pinned.HugePage
	var room atomic.Int64
	room.Store(1 << 40)
	roomLeft = room.Load
	s := serve(t, g, Options{Loader: opt})
	c := connect(t, s, consumer.Options{})
	room.Store(1000)
	all := want(t, g, opt, 0)
	var got []string
	for b, err := range c.Epoch(t.Context(), 0) {
		if err != nil {
			expect.That(t, code(err) == wire.CodeMemory && strings.Contains(err.Error(), "available"),
				"%v, want a report that there is no room", err)
			break
		}
		got = append(got, lineOf(b))
	}
	expect.That(t, slices.Equal(got, all[:7]), "before the large batch got %q", got)
	room.Store(1 << 40)
	if got := lines(t, c.GoOn(t.Context())); !slices.Equal(got, all[7:]) {
		t.Errorf("afterwards got %q, want %q", got, all[7:])
	}
}

// last returns the error of a run.
func last(seq func(func(*consumer.Batch, error) bool)) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

func TestAConsumerThatReturnsNothingIsNamed(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Hold: 2})
	c := connect(t, s, consumer.Options{})
	var kept []*consumer.Batch
	var before []string
	for b, err := range c.Epoch(t.Context(), 0) {
		expect.OK(t, err)
		kept, before = append(kept, b.Keep()), append(before, lineOf(b))
		if len(kept) == 2 { // the third would not come
			break
		}
	}
	until(t, func() bool { return len(s.Stats()[0].Consumers) == 1 })
	st := s.Stats()[0]
	expect.That(t, st.Consumers[0].Held == 2 && st.Consumers[0].PID == os.Getpid() && st.Consumers[0].OldestHeld > 0,
		"statistics: %+v", st)
	for i, b := range kept {
		if got := lineOf(b); got != before[i] {
			t.Errorf("a batch changed while it was held: %s, was %s", got, before[i])
		}
		b.Release()
		b.Release()
	}
	got := append(before[:1], lines(t, c.GoOn(t.Context()))...) // the second was not acknowledged
	want := want(t, g, usual(), 0)
	expect.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
}

func stateAt(s *serving, epoch, next uint64) loader.State {
	return s.ranks[0].loader.State(epoch, next)
}

func TestRunsBeginWhereTheyAreToldTo(t *testing.T) {
	g := plainGraph(t, 500)
	all := append(want(t, g, usual(), 0), want(t, g, usual(), 1)...)
	s := serve(t, g, Options{})
	c := connect(t, s, consumer.Options{})
	expect.Same(t, lines(t, c.Resume(t.Context(), stateAt(s, 1, 3))), all[19:], "from a state")
	if got := lines(t, c.Resume(t.Context(), stateAt(s, 1, 16))); len(got) != 0 {
		t.Errorf("from the end: got %q", got)
	}
	foreign := stateAt(s, 0, 0)
	foreign.Seed++
	err := last(c.Resume(t.Context(), foreign))
	expect.That(t, code(err) == wire.CodeState && strings.Contains(err.Error(), "seed"), "a foreign state: %v", err)
	var got []string
	for b, err := range c.Epoch(t.Context(), 0) {
		expect.OK(t, err)
		if got = append(got, lineOf(b)); len(got) == 5 {
			break
		}
	}
	got = append(got[:4], lines(t, c.GoOn(t.Context()))...) // the fifth was not acknowledged
	got = append(got, lines(t, c.GoOn(t.Context()))...)
	expect.Same(t, got, all, "going on")
	st := s.Stats()[0]
	expect.That(t, st.Loader.SlotsHeld <= 3, "%d slots are held", st.Loader.SlotsHeld)
}

func TestTheServerEndsWithTheLastEpoch(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Epochs: 2, WorldSize: 2})
	a, b := connect(t, s, consumer.Options{}), connect(t, s, consumer.Options{})
	err := last(a.Epoch(t.Context(), 2))
	expect.That(t, code(err) == wire.CodeEpochs, "epoch 2 of 2: %v", err)
	for range 2 {
		lines(t, a.GoOn(t.Context()))
		lines(t, b.GoOn(t.Context()))
	}
	expect.Is(t, <-s.err, nil, "Serve")
	expect.Says(t, last(a.GoOn(t.Context())), shm.ErrEnded, "all epochs", "afterwards")
}

func TestInterruptingTheServerEndsItsConsumers(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{})
	c := connect(t, s, consumer.Options{})
	var kept *consumer.Batch
	was := ""
	for b, err := range c.Epoch(t.Context(), 0) {
		if err != nil {
			expect.That(t, errors.Is(err, shm.ErrEnded) && strings.Contains(err.Error(), "interrupted"),
				"%v, want shm.ErrEnded", err)
			break
		}
		if kept == nil {
			kept, was = b.Keep(), lineOf(b)
			s.end()
			expect.Is(t, <-s.err, context.Canceled, "Serve")
			expect.OK(t, s.Close())
		}
	}
	got := lineOf(kept)
	expect.That(t, got == was, "a held batch is %s after the end of the server, was %s", got, was)
	kept.Release()
}

func TestInterruptingAConsumer(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{})
	c := connect(t, s, consumer.Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var got []string
	for b, err := range c.Epoch(ctx, 0) {
		if err != nil {
			expect.That(t, errors.Is(err, errBroken), "%v, want the context's cause", err)
			break
		}
		if got = append(got, lineOf(b)); len(got) == 3 {
			cancel(errBroken)
		}
	}
	got = append(got, lines(t, c.GoOn(t.Context()))...)
	expect.That(t, slices.Equal(got, want(t, g, usual(), 0)), "going on got %q", got)
	for range c.Epoch(t.Context(), 0) {
		expect.Is(t, last(c.Epoch(t.Context(), 0)), shm.ErrBusy, "a second run")
		expect.OK(t, c.Close())
		break
	}
	expect.Is(t, last(c.Epoch(t.Context(), 0)), shm.ErrClosed, "after Close")
}

func TestAConsumerMapsNoMoreThanItWants(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{})
	c := connect(t, s, consumer.Options{MaxRing: 1 << 20})
	err := last(c.Epoch(t.Context(), 0))
	expect.That(t, errors.Is(err, shm.ErrNoRoom), "%v, want shm.ErrNoRoom", err)
}
