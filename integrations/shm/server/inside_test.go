//go:build linux

package server

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
)

// guest is a consumer within the process.
type guest struct {
	*Inside
	t    *testing.T
	mail *Mail
	bell chan struct{}
	ring *os.File // wakes the server
	room []byte
	mu   sync.Mutex // held to put a message
}

// visit makes a server within the test's process that ends with the test.
func visit(t *testing.T, src loader.Source, opt Options) *guest {
	t.Helper()
	g := &guest{t: t, mail: new(Mail), bell: make(chan struct{}, 1), room: make([]byte, wire.MaxMessage)}
	if opt.Loader.Sampler == nil {
		opt.Loader = usual()
	}
	hear, ring := expect.Must2(os.Pipe())(t)
	g.ring = ring
	in := expect.Must(NewInside(t.Context(), src, opt, Within{g.mail, func() {
		select {
		case g.bell <- struct{}{}:
		default:
		}
	}, hear}))(t)
	g.Inside = in
	t.Cleanup(func() {
		expect.OK(t, errors.Join(in.Close(), ring.Close()))
	})
	return g
}

// put hands a message over, in any goroutine.
func (g *guest) put(m []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	expect.That(g.t, g.mail.Up.put(m), "the server reads nothing")
	if g.mail.Up.mustRing() {
		_, err := g.ring.Write([]byte{1})
		expect.That(g.t, err == nil, "%v", err)
	}
}

// take returns the next message; nil where none will come.
func (g *guest) take() []byte {
	down := &g.mail.Down
	for {
		ended := down.ended.Load() != 0
		if n := down.take(g.room); n > 0 {
			return g.room[:n]
		}
		if ended {
			return nil
		}
		if down.fallAsleep() {
			<-g.bell
		}
	}
}

// say hands a message over, and hear waits for the next of a kind, past SEGMENT.
func say[M any](g *guest, append func([]byte, wire.Kind, M, []byte) []byte, k wire.Kind, m M) {
	g.t.Helper()
	g.put(append(nil, k, m, nil))
}

func (g *guest) hear(k wire.Kind) []byte {
	g.t.Helper()
	for {
		m := g.take()
		got := expect.Must(wire.KindOf(m))(g.t)
		if got == k {
			return m
		}
		expect.Ensure(g.t, got == wire.KindSegment, "%v came where %v should", got, k)
	}
}

func (g *guest) hello() {
	g.t.Helper()
	say(g, wire.Append[wire.Hello], wire.KindHello, wire.Hello{Magic: wire.Magic, Oldest: shm.Version,
		Newest: shm.Version, Rank: wire.AnyRank})
	g.hear(wire.KindWelcome)
}

// batch waits for a batch, and returns it with the bytes of its descriptor's segment.
func (g *guest) batch() (wire.Batch, *Segment) {
	g.t.Helper()
	b, _ := expect.Must2(wire.Parse[wire.Batch](g.hear(wire.KindBatch)))(g.t)
	s := expect.Must(g.Segment(b.Segment))(g.t)
	return b, s
}

func TestWithinAProcessBatchesStayWhereTheyAreAfterTheEnd(t *testing.T) {
	g := visit(t, plainGraph(t, 500), Options{Hold: 3})
	g.hello()
	say(g, wire.Append[wire.Begin], wire.KindBegin, wire.Begin{Run: 1})
	g.hear(wire.KindBegun)
	var arrays []shm.Array
	var before [][]byte
	var segment *Segment
	for range 3 { // all that it may hold, so that the workers wait for a slot
		var held wire.Batch
		held, segment = g.batch()
		descriptor := bytes.Clone(segment.Data[held.Offset : held.Offset+uint64(held.Size)])
		more, err := wire.ParseDescriptor(descriptor, func(uint32) *wire.Memory { return segment.memory }, nil)
		if _, number, _ := wire.PlaceOf(descriptor); err != nil || number != held.Number || held.Segment != 0 {
			t.Fatalf("the descriptor is of batch %d: %v", number, err)
		}
		for _, a := range more {
			before = append(before, bytes.Clone(a.Tensor.Bytes()))
		}
		arrays = append(arrays, more...)
	}
	expect.OK(t, g.Close())
	for i, a := range arrays {
		if !bytes.Equal(a.Tensor.Bytes(), before[i]) {
			t.Errorf("%s of a batch that was held changed when its loader was closed", a.Name)
		}
	}
	expect.OK(t, segment.Close())
	if _, err := g.Segment(0); !errors.Is(err, shm.ErrClosed) {
		t.Error("a segment of a closed loader:", err)
	}
}

func TestWithinAProcessSlotsComeBackFromAnyGoroutine(t *testing.T) {
	g := visit(t, plainGraph(t, 500), Options{Hold: 2})
	g.hello()
	var numbers []uint64
	for run := uint32(1); run <= 3; run++ {
		say(g, wire.Append[wire.Begin], wire.KindBegin, wire.Begin{Run: run, Epoch: uint64(run)})
		g.hear(wire.KindBegun)
		var others sync.WaitGroup
		for n := range uint64(16) {
			b, s := g.batch()
			numbers = append(numbers, b.Number)
			others.Go(func() {
				g.put(wire.AppendNext(nil, 0, 0, []uint32{b.Slot}))
				expect.OK(t, s.Close())
			})
			g.put(wire.AppendNext(nil, run, n+1, nil))
		}
		others.Wait()
		g.hear(wire.KindEnd)
	}
	for i := range numbers {
		numbers[i] -= uint64(i % 16)
	}
	if slices.Max(numbers) != 0 || len(numbers) != 48 {
		t.Error("batches were not in order:", numbers)
	}
}

func TestWithinAProcessABadMessageEndsTheConnectionAndSaysWhy(t *testing.T) {
	g := visit(t, plainGraph(t, 50), Options{})
	g.hello()
	g.put([]byte("nonsense"))
	m, text, err := wire.Parse[wire.Text](g.hear(wire.KindError))
	expect.That(t, err == nil && shm.Code(m.Second) == wire.CodeMessage && len(text) != 0, "ERROR %v %q %v", m, text,
		err)
	if m := g.take(); m != nil {
		t.Errorf("after the last message: %q", m)
	}
	if _, err := NewInside(t.Context(), plainGraph(t, 50), Options{Loader: usual(), Readers: 2},
		Within{}); !errors.Is(err, shm.ErrOptions) {
		t.Error("a broadcast within a process:", err)
	}
}

func TestAMailboxKeepsMessagesWholeAroundItsEnd(t *testing.T) {
	p := new(post)
	room := make([]byte, wire.MaxMessage)
	seed := expect.Seed(t)
	draw := rand.New(rand.NewPCG(seed, 0))
	noise := make([]byte, 2*wire.MaxMessage)
	for i := range noise {
		noise[i] = byte(draw.Uint32())
	}
	message := func(n uint64) []byte {
		own := rand.New(rand.NewPCG(n, seed))
		return noise[own.IntN(wire.MaxMessage):][:1+own.IntN(own.IntN(wire.MaxMessage)+1)]
	}
	var put, took uint64
	for took < 2000 {
		for draw.IntN(8) > 0 && p.put(message(put)) {
			put++
		}
		for took < put && draw.IntN(8) > 0 {
			if n := p.take(room); !bytes.Equal(room[:n], message(took)) {
				t.Fatalf("message %d came as %d bytes that it was not", took, n)
			}
			took++
		}
		expect.Ensure(t, took != put || p.take(room) == 0, "there is a message that nobody put")
	}
	if put == took {
		p.put(message(put))
	}
	expect.That(t, !p.fallAsleep(), "who takes would sleep though there is a message")
}
