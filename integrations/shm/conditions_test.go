//go:build linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

// code returns the code of what a server has reported; 0 for another error.
func code(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// raw is a connection whose messages a test makes by hand.
func raw(t *testing.T, s *serving) *socket {
	t.Helper()
	k, err := dial(t.Context(), s.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.close() })
	return k
}

// answer returns the next message, which must come.
func answer(t *testing.T, k *socket) ([]byte, error) {
	t.Helper()
	b := make([]byte, maxMessage)
	n, fd, err := k.receive(t.Context(), time.Now().Add(patience), b)
	closeDescriptor(fd)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("no answer")
	}
	return b[:n], err
}

// refused sends a message and wants the connection to end with an ERROR of the code.
func refused(t *testing.T, k *socket, message []byte, want Code) {
	t.Helper()
	if err := k.send(message, -1, time.Second); err != nil {
		t.Fatal(err)
	}
	for {
		b, err := answer(t, k)
		if err != nil {
			t.Errorf("the connection ended without ERROR: %v", err)
			return
		}
		if kind(le.Uint16(b)) != kindError {
			continue
		}
		m, err := parseText(b)
		if err != nil || m.first != 0 || Code(m.second) != want || len(m.text) == 0 {
			t.Errorf("ERROR %+v (%s), %v; want code %v", m, m.text, err, want)
		}
		if _, err := answer(t, k); err == nil {
			t.Error("the connection went on")
		}
		return
	}
}

var good = hello{oldest: 1, newest: 1, rank: anyRank}

func TestAnotherVersionIsRefused(t *testing.T) {
	s := serve(t, plainGraph(t, 100), Options{})
	h := good
	h.oldest, h.newest = 2, 3
	refused(t, raw(t, s), h.bytes(), CodeVersion)
	lines(t, connect(t, s, ConsumerOptions{}).Epoch(t.Context(), 0))
}

func TestAnotherUserIsRefused(t *testing.T) {
	s, err := NewServer(t.Context(), plainGraph(t, 100), Options{Path: filepath.Join(t.TempDir(), "feed", "socket"),
		Loader: usual()})
	if err != nil {
		t.Fatal(err)
	}
	s.uid++
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	_, err = Dial(t.Context(), s.Path(), ConsumerOptions{})
	if code(err) != CodeUser || !strings.Contains(err.Error(), "same user") {
		t.Errorf("%v, want a refusal of the user", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestEveryBrokenRuleEndsTheConnectionAndNothingElse(t *testing.T) {
	s := serve(t, plainGraph(t, 200), Options{Hold: 2})
	wrong := newMessage(kindNext, 0, 24)
	le.PutUint32(wrong[4:], 99)
	short := newMessage(kindBegin, 0, 16)
	many := newMessage(kindNext, 0, 24)
	le.PutUint32(many[12:], 1<<31)
	for name, m := range map[string][]byte{
		"one byte":                     {1},
		"wrong length":                 wrong,
		"unknown kind":                 newMessage(99, 0, 8),
		"kind 0":                       newMessage(0, 0, 8),
		"a server's message":           words{}.bytes(kindTell),
		"HELLO twice":                  good.bytes(),
		"BEGIN cut short":              short,
		"BEGIN of run 0":               begin{}.bytes(),
		"BEGIN of a run before":        begin{run: 1}.bytes(),
		"BEGIN in no mode":             begin{run: 7, mode: 9}.bytes(),
		"BEGIN of epoch 2^32":          begin{run: 7, epoch: 1 << 32}.bytes(),
		"NEXT of more slots than sent": many,
		"slots that are not held":      nextNote{slots: []uint32{0, 1, 2, 3, 4, 5}}.append(nil),
		"a slot that there is not":     nextNote{slots: []uint32{1 << 31}}.append(nil),
		"more than was announced":      nextNote{run: 1, done: 99}.append(nil),
		"ASK for what there is not":    words{9, 1}.bytes(kindAsk),
	} {
		t.Run(name, func(t *testing.T) {
			k := raw(t, s)
			if err := k.send(good.bytes(), -1, time.Second); err != nil {
				t.Fatal(err)
			}
			if err := k.send(begin{run: 1}.bytes(), -1, time.Second); err != nil {
				t.Fatal(err)
			}
			for range 4 { // WELCOME, BEGUN, SEGMENT, BATCH
				if b, err := answer(t, k); err != nil {
					t.Fatal(b, err)
				}
			}
			refused(t, k, m, CodeMessage)
		})
	}
	for name, m := range map[string][]byte{"no HELLO": begin{run: 1}.bytes(), "nonsense": make([]byte, 64),
		"HELLO of another protocol": func() []byte {
			b := good.bytes()
			b[8] = 'x'
			return b
		}(), "an index dtype that is none": hello{oldest: 1, newest: 1, index: 11}.bytes()} {
		t.Run(name, func(t *testing.T) { refused(t, raw(t, s), m, CodeMessage) })
	}
	if got, want := lines(t, connect(t, s, ConsumerOptions{}).Epoch(t.Context(), 0)),
		want(t, plainGraph(t, 200), usual(), 0); !slices.Equal(got, want) {
		t.Errorf("afterwards got %q, want %q", got, want)
	}
}

func TestRanksAreGivenOnceAndSaidPlainly(t *testing.T) {
	s := serve(t, plainGraph(t, 100), Options{WorldSize: 2})
	a, b := connect(t, s, ConsumerOptions{Rank: RankOf(1)}), connect(t, s, ConsumerOptions{})
	if a.Info().Rank != 1 || b.Info().Rank != 0 {
		t.Errorf("ranks %d and %d", a.Info().Rank, b.Info().Rank)
	}
	if _, err := Dial(t.Context(), s.path, ConsumerOptions{Rank: RankOf(2)}); code(err) != CodeRank {
		t.Errorf("rank 2 of 2: %v", err)
	}
	for _, choice := range []RankChoice{AnyRank, RankOf(1)} {
		if _, err := Dial(t.Context(), s.path, ConsumerOptions{Rank: choice}); code(err) != CodeTaken ||
			!strings.Contains(err.Error(), "process") {
			t.Errorf("a rank that is taken: %v", err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	c := connect(t, s, ConsumerOptions{Rank: RankOf(1)}) // at once: the server may not have seen the end yet
	lines(t, c.Epoch(t.Context(), 0))
}

// A server that is slow to see the end of a consumer lets the next one wait; it does not refuse it.
func TestAConsumerWhoseConnectionHasEndedHoldsNoRank(t *testing.T) {
	s := serve(t, plainGraph(t, 100), Options{})
	c := connect(t, s, ConsumerOptions{})
	r := s.ranks[0]
	r.mu.Lock() // the server sees nothing meanwhile
	defer r.mu.Unlock()
	if pid := r.holder(); pid != os.Getpid() {
		t.Errorf("process %d has the rank", pid)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if pid := r.holder(); pid != 0 || len(r.peers) != 1 {
		t.Errorf("process %d has the rank, of %d", pid, len(r.peers))
	}
}

func TestServersAndWhatIsLeftOfThem(t *testing.T) {
	g := plainGraph(t, 100)
	dir := filepath.Join(t.TempDir(), "mine")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "socket")
	if _, err := Dial(t.Context(), path, ConsumerOptions{}); !errors.Is(err, ErrNoServer) {
		t.Errorf("nothing there: %v", err)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as if it was killed
	l.Close()
	if _, err := Dial(t.Context(), path, ConsumerOptions{}); !errors.Is(err, ErrNoServer) ||
		!strings.Contains(err.Error(), "has ended") {
		t.Errorf("a stale socket: %v", err)
	}
	opt := Options{Path: path, Loader: usual()}
	s, err := NewServer(t.Context(), g, opt)
	if err != nil {
		t.Fatalf("in place of a stale socket: %v", err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is %v, %v", st.Mode(), err)
	}
	if _, err := NewServer(t.Context(), g, opt); !errors.Is(err, ErrRunning) {
		t.Errorf("beside a running server: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is still there")
	}
	if _, err := os.Lstat(dir); err != nil {
		t.Error("the server removed a directory that it had not made")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewServer(t.Context(), g, opt); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("over a file: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	opt.Path = filepath.Join(dir, "other")
	if _, err := NewServer(t.Context(), g, opt); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("in a directory for all: %v", err)
	}
	opt.Path = filepath.Join(t.TempDir(), strings.Repeat("x", 100), "socket")
	if _, err := NewServer(t.Context(), g, opt); err == nil || !strings.Contains(err.Error(), "107 bytes") {
		t.Errorf("a long path: %v", err)
	}
}

// growing is eight batches of which the last, and no other, is large: 5 MB. The loader does not try it in advance.
func growing(t *testing.T) (*graph.Graph, loader.Options) {
	t.Helper()
	const n, width = 2500, 500
	feature := make([]float32, n*width)
	for i := range feature {
		feature[i] = float32(i)
	}
	g, err := graph.New(graph.Data{
		Nodes: []graph.NodeData{{Count: n, Columns: map[string]unified.Tensor{"feature": matrix(t, feature, width)}}},
		Edges: []graph.EdgeData{{Src: []int64{1, 2}, Dst: []int64{0, 0}}},
	})
	if err != nil {
		t.Fatal(err)
	}
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
	leastSegment = 4096
	g, opt := growing(t)
	s := serve(t, g, Options{Loader: opt})
	before := s.Stats()[0].Segments
	c := connect(t, s, ConsumerOptions{})
	for range 2 {
		if got, want := lines(t, c.Epoch(t.Context(), 0)), want(t, g, opt, 0); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if n := s.Stats()[0].Segments; n <= before || n != len(c.segments) {
		t.Errorf("%d segments at the server, %d at the consumer, %d before", n, len(c.segments), before)
	}
}

func TestNoRoomIsSaidAndServingGoesOn(t *testing.T) {
	defer func(f func() int64, n int64) { roomLeft, leastSegment = f, n }(roomLeft, leastSegment)
	g, opt := growing(t)
	roomLeft = func() int64 { return 1000 }
	if _, err := NewServer(t.Context(), g, Options{Path: filepath.Join(t.TempDir(), "feed", "socket"),
		Loader: opt}); !errors.Is(err, ErrNoRoom) {
		t.Errorf("with 1000 bytes left: %v", err)
	}
	leastSegment = 4096
	var room atomic.Int64
	room.Store(1 << 40)
	roomLeft = room.Load
	s := serve(t, g, Options{Loader: opt})
	c := connect(t, s, ConsumerOptions{})
	room.Store(1000)
	all := want(t, g, opt, 0)
	var got []string
	for b, err := range c.Epoch(t.Context(), 0) {
		if err != nil {
			if code(err) != CodeMemory || !strings.Contains(err.Error(), "available") {
				t.Errorf("%v, want a report that there is no room", err)
			}
			break
		}
		got = append(got, lineOf(b))
	}
	if !slices.Equal(got, all[:7]) {
		t.Errorf("before the large batch got %q", got)
	}
	room.Store(1 << 40)
	if got := lines(t, c.GoOn(t.Context())); !slices.Equal(got, all[7:]) {
		t.Errorf("afterwards got %q, want %q", got, all[7:])
	}
}

// last returns the error of a run.
func last(seq func(func(*Batch, error) bool)) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

func TestAConsumerThatReturnsNothingIsToldAndNamed(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Hold: 2})
	c := connect(t, s, ConsumerOptions{})
	patient := c.opt.Timeout
	var kept []*Batch
	var before []string
	for b, err := range c.Epoch(t.Context(), 0) {
		if err != nil {
			if !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "all 2") {
				t.Errorf("%v, want ErrHeld", err)
			}
			break
		}
		kept = append(kept, b.Keep())
		before = append(before, lineOf(b))
		if len(kept) == 2 { // the third will not come, however long it waits
			c.opt.Timeout = 50 * time.Millisecond
		}
	}
	c.opt.Timeout = patient
	if len(kept) != 2 {
		t.Fatalf("%d batches, where 2 may be held", len(kept))
	}
	if st := s.Stats()[0]; len(st.Consumers) != 1 || st.Consumers[0].Held != 2 || st.Consumers[0].PID != os.Getpid() ||
		st.Consumers[0].OldestHeld <= 0 {
		t.Errorf("statistics: %+v", st)
	}
	for i, b := range kept {
		if got := lineOf(b); got != before[i] {
			t.Errorf("a batch changed while it was held: %s, was %s", got, before[i])
		}
		b.Release()
		b.Release()
	}
	if got, want := append(before, lines(t, c.GoOn(t.Context()))...), want(t, g, usual(), 0); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func stateAt(s *serving, epoch, next uint64) loader.State {
	return s.ranks[0].loader.State(epoch, next)
}

func TestRunsBeginWhereTheyAreToldTo(t *testing.T) {
	g := plainGraph(t, 500)
	all := append(want(t, g, usual(), 0), want(t, g, usual(), 1)...)
	s := serve(t, g, Options{})
	c := connect(t, s, ConsumerOptions{})
	if got := lines(t, c.Resume(t.Context(), stateAt(s, 1, 3))); !slices.Equal(got, all[19:]) {
		t.Errorf("from a state: got %q, want %q", got, all[19:])
	}
	if got := lines(t, c.Resume(t.Context(), stateAt(s, 1, 16))); len(got) != 0 {
		t.Errorf("from the end: got %q", got)
	}
	foreign := stateAt(s, 0, 0)
	foreign.Seed++
	if err := last(c.Resume(t.Context(), foreign)); code(err) != CodeState || !strings.Contains(err.Error(), "seed") {
		t.Errorf("a foreign state: %v", err)
	}
	var got []string
	for b, err := range c.Epoch(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, lineOf(b)); len(got) == 5 {
			break
		}
	}
	got = append(got[:4], lines(t, c.GoOn(t.Context()))...) // the fifth was not acknowledged
	got = append(got, lines(t, c.GoOn(t.Context()))...)
	if !slices.Equal(got, all) {
		t.Errorf("going on: got %q, want %q", got, all)
	}
	if st := s.Stats()[0]; st.Loader.SlotsHeld > 3 {
		t.Errorf("%d slots are held", st.Loader.SlotsHeld)
	}
}

func TestTheServerEndsWithTheLastEpoch(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Epochs: 2, WorldSize: 2})
	a, b := connect(t, s, ConsumerOptions{}), connect(t, s, ConsumerOptions{})
	if err := last(a.Epoch(t.Context(), 2)); code(err) != CodeEpochs {
		t.Errorf("epoch 2 of 2: %v", err)
	}
	for range 2 {
		lines(t, a.GoOn(t.Context()))
		lines(t, b.GoOn(t.Context()))
	}
	if err := <-s.err; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if err := last(a.GoOn(t.Context())); !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "all epochs") {
		t.Errorf("afterwards: %v", err)
	}
}

func TestInterruptingTheServerEndsItsConsumers(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{})
	c := connect(t, s, ConsumerOptions{})
	var kept *Batch
	was := ""
	for b, err := range c.Epoch(t.Context(), 0) {
		if err != nil {
			if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "interrupted") {
				t.Errorf("%v, want ErrEnded", err)
			}
			break
		}
		if kept == nil {
			kept, was = b.Keep(), lineOf(b)
			s.end()
			if err := <-s.err; !errors.Is(err, context.Canceled) {
				t.Errorf("Serve: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if got := lineOf(kept); got != was {
		t.Errorf("a held batch is %s after the end of the server, was %s", got, was)
	}
	kept.Release()
}

func TestInterruptingAConsumer(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{})
	c := connect(t, s, ConsumerOptions{})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var got []string
	for b, err := range c.Epoch(ctx, 0) {
		if err != nil {
			if !errors.Is(err, errBroken) {
				t.Errorf("%v, want the context's cause", err)
			}
			break
		}
		if got = append(got, lineOf(b)); len(got) == 3 {
			cancel(errBroken)
		}
	}
	if got = append(got, lines(t, c.GoOn(t.Context()))...); !slices.Equal(got, want(t, g, usual(), 0)) {
		t.Errorf("going on got %q", got)
	}
	for range c.Epoch(t.Context(), 0) {
		if err := last(c.Epoch(t.Context(), 0)); !errors.Is(err, ErrBusy) {
			t.Errorf("a second run: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		break
	}
	if err := last(c.Epoch(t.Context(), 0)); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestAForkMustNotUseTheConnection(t *testing.T) {
	s := serve(t, plainGraph(t, 100), Options{})
	c := connect(t, s, ConsumerOptions{})
	c.process++ // as seen from a fork
	if err := last(c.Epoch(t.Context(), 0)); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "fork") {
		t.Errorf("%v, want a refusal", err)
	}
	c.process--
}

func TestAConsumerMapsNoMoreThanItWants(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{})
	c := connect(t, s, ConsumerOptions{MaxRing: 1 << 20})
	if err := last(c.Epoch(t.Context(), 0)); !errors.Is(err, ErrNoRoom) {
		t.Errorf("%v, want ErrNoRoom", err)
	}
}

func TestSmallBatchesMayBeHeldInGreaterNumber(t *testing.T) {
	const n = 500
	for width, want := range map[int64]int{1: 12, 4_000: 7, 10_000: 4} { // batches of 2 KB, 8 and 20 MB, and some room
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			g, err := graph.New(graph.Data{
				Nodes: []graph.NodeData{{Count: n, Columns: map[string]unified.Tensor{"feature": matrix(t,
					make([]float32, n*width), width)}}},
				Edges: []graph.EdgeData{{Src: []int64{1}, Dst: []int64{0}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			opt := usual()
			opt.BatchSize, opt.Workers, opt.Prefetch = n, 1, 1
			s := serve(t, g, Options{Loader: opt})
			if c := connect(t, s, ConsumerOptions{}); s.Options().Hold != want || c.Info().Hold != want {
				t.Errorf("%d batches, the consumer is told %d, want %d", s.Options().Hold, c.Info().Hold, want)
			}
		})
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for name, opt := range map[string]Options{
		"no path":             {},
		"negative hold":       {Path: "x", Hold: -1},
		"ranks and broadcast": {Path: "x", WorldSize: 2, Readers: 2},
		"too many readers":    {Path: "x", Readers: 65},
		"ids that are none":   {Path: "x", IndexDType: unified.Float32},
		"negative replay":     {Path: "x", Replay: -1},
	} {
		opt.Loader = usual()
		if _, err := NewServer(t.Context(), plainGraph(t, 50), opt); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v, want ErrOptions", name, err)
		}
	}
}

func TestARunMayTakeLongerThanAMessage(t *testing.T) {
	was := writeTimeout
	t.Cleanup(func() { writeTimeout = was }) // after the server's end
	writeTimeout = 30 * time.Millisecond
	s := serve(t, plainGraph(t, 500), Options{Hold: 1})
	c := connect(t, s, ConsumerOptions{})
	n := 0
	for _, err := range c.Epoch(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n < 5 {
			<-time.After(20 * time.Millisecond)
		}
	}
	if n != 16 {
		t.Errorf("%d batches", n)
	}
}
