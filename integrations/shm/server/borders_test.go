//go:build linux

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// refusedWith wants an error to be a refusal with a code and a text.
func refusedWith(t *testing.T, err error, code shm.Code, text string) {
	t.Helper()
	var no *refusal
	expect.That(t, errors.As(err, &no) && no.code == code && strings.Contains(err.Error(), text), "%v, want %v: %s",
		err, code, text)
}

func TestPlacesInTheRingAreAligned(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 1: 128, 127: 128, 128: 128, 129: 256, 1 << 40: 1 << 40} {
		got := aligned(n)
		expect.That(t, got == want, "%d bytes take %d, want %d", n, got, want)
	}
	for n, want := range map[int64]int64{0: 0, 1: 4096, 4097: 8192, 2 << 20: 2 << 20, 2<<20 + 1: 4 << 20} {
		got := huge(n)
		expect.That(t, got == want, "%d bytes take %d of huge pages, want %d", n, got, want)
	}
}

// A batch's part of the ring has room for its descriptor and all that is copied, and a batch may have 2^20 arrays.
func TestAFormHasRoomForWhatIsCopied(t *testing.T) {
	ids := layout.Array{Name: "nodes/n", Kind: layout.Nodes, DType: unified.Int32, Most: 1000}
	rows := layout.Array{Name: "node/n/x", Kind: layout.NodeColumn, DType: unified.Float32, Most: 1000,
		Row: []int64{10}}
	endless := rows
	endless.Most = math.MaxInt64
	of := func(index unified.DType, down bool, arrays ...layout.Array) int64 {
		f := expect.Must(newForm(arrays, way{index, pinned.Host}, down))(t)
		return f.most()
	}
	for _, c := range []struct {
		got, least, most int64
	}{
		{of(unified.Int32, false, ids), 4096 + 64, 2 * 4096},
		{of(unified.Int64, false, ids), 8064, 2 * 8192},
		{of(unified.Int32, false, rows), 128, 4096},
		{of(unified.Int32, true, rows), 40_000, 45_056},
		{of(unified.Int32, true, endless), 1 << 60, 1 << 60},
	} {
		expect.That(t, c.got >= c.least && c.got <= c.most, "%d bytes, want %d to %d", c.got, c.least, c.most)
	}
	_, err := newForm(make([]layout.Array, wire.MaxArrays+1), way{unified.Int32, pinned.Host}, false)
	if !errors.Is(err, shm.ErrOptions) ||
		!strings.HasSuffix(err.Error(), "1048577 arrays a batch, at most 1048576 are possible") {
		t.Errorf("an array more than there may be: %v", err)
	}
}

// Ids of 64 bits reach a consumer of 32 where they are seeds alone; of the rest the dataset has too many.
func TestIdsThatDoNotFitAreRefused(t *testing.T) {
	array := func(k layout.Kind, d unified.DType) []layout.Array {
		return []layout.Array{{Name: "a", Kind: k, DType: d}}
	}
	to32 := way{unified.Int32, pinned.Host}
	_, err := newForm(array(layout.Nodes, unified.Int64), to32, false)
	refusedWith(t, err, wire.CodeIndexDType, "the dataset has more than 2^31 nodes or edges")
	for name, c := range map[string]struct {
		arrays []layout.Array
		to     way
		want   unified.DType
	}{
		"seeds":     {array(layout.Inputs, unified.Int64), to32, unified.Int32},
		"narrow":    {array(layout.Nodes, unified.Int32), to32, unified.Int32},
		"widened":   {array(layout.Nodes, unified.Int32), way{unified.Int64, pinned.Host}, unified.Int64},
		"wide":      {array(layout.Nodes, unified.Int64), way{unified.Int64, pinned.Host}, unified.Int64},
		"on device": {array(layout.Nodes, unified.Int32), way{unified.Int64, pinned.Device}, unified.Int32},
		"a column":  {array(layout.NodeColumn, unified.Int64), to32, unified.Int64},
	} {
		f, err := newForm(c.arrays, c.to, false)
		expect.That(t, err == nil && f.dtypes[0] == c.want, "%s: %+v, %v", name, f, err)
	}
	wide := array(layout.Nodes, unified.Int64)
	for asked, forms := range map[unified.DType]int{unified.Invalid: 1, unified.Int64: 1, unified.Int32: 0} {
		r := &rank{server: &Server{opt: Options{IndexDType: asked}}, forms: map[way]*form{}}
		if err := r.makeForms(wide, unified.Int64); errors.Is(err, shm.ErrOptions) != (forms == 0) ||
			len(r.forms) != forms || forms > 0 && r.form == nil {
			t.Errorf("asked for %v: %d forms, %v", asked, len(r.forms), err)
		}
	}
}

// What a loader made elsewhere is not announced as if it were in the ring.
func TestABatchThatDoesNotLieInTheRingIsRefused(t *testing.T) {
	g := plainGraph(t, 100)
	r := serve(t, g, Options{}).ranks[0]
	ld := expect.Must(loader.New(g, usual()))(t)
	defer ld.Close()
	for b, err := range ld.Epoch(t.Context(), 0) {
		expect.OK(t, err)
		var elsewhere, inside record
		inside.memory.Options.From = r.arena
		for _, c := range []struct {
			record *record
			text   string
		}{{&elsewhere, "a batch's memory is not in the ring"},
			{&inside, "node/node/feature, made by the loader, does not lie in the ring"}} {
			err := r.form.write(c.record, r.arena, b)
			expect.That(t, errors.Is(err, shm.ErrOptions) && strings.HasSuffix(err.Error(), c.text), "%v, want %s", err,
				c.text)
			expect.OK(t, c.record.memory.Close())
		}
		err := elsewhere.copy(b, unified.FromSlice([]float32{1}), unified.Int64, make([]byte, 8))
		expect.That(t, errors.Is(err, shm.ErrOptions) && strings.HasSuffix(err.Error(), "as int64"),
			"numbers as ids: %v", err)
		break
	}
}

// Ids change their width one by one and eight at a time.
func TestIdsOfAnyNumberChangeTheirWidth(t *testing.T) {
	for n := range 35 {
		wide, narrow := make([]int64, n), make([]int32, n)
		for i := range n {
			wide[i], narrow[i] = int64(3*i+1), int32(5*i+2)
		}
		room := make([]byte, 8*n+8)
		convert[int64](room, narrow)
		for i, v := range view(t, tensorOf(t, unified.Int64, room[:8*n])) {
			if v != int64(narrow[i]) {
				t.Fatalf("%d ids: number %d is %d", n, i, v)
			}
		}
		convert[int32](room, wide)
		short, err := unified.View[int32](tensorOf(t, unified.Int32, room[:4*n]))
		for i, v := range short {
			if v != int32(wide[i]) {
				t.Fatalf("%d ids: number %d is %d", n, i, v)
			}
		}
		expect.OK(t, err)
	}
}

func tensorOf(t *testing.T, d unified.DType, b []byte) unified.Tensor {
	t.Helper()
	return expect.Must(unified.New(d, b, int64(len(b))/d.Size()))(t)
}

// A ring has a fixed number of segments, and says how much was needed where there is no room.
func TestASegmentThatCannotBeMadeSaysWhy(t *testing.T) {
	a := newArena(wire.ReadWrite, nil)
	a.least, a.room = 4096, func() int64 { return 0 }
	before := expect.OpenFiles(t)
	expect.Says(t, expect.Err(a.Take(1<<60)), shm.ErrNoRoom, "a segment of 1152921504606846976 bytes: ", "2^60 bytes")
	if after := expect.OpenFiles(t); after > before || len(a.all()) != 0 || a.size(nil) != 0 {
		t.Errorf("%d descriptors, %d before; %d segments", after, before, len(a.all()))
	}
	list := make([]*wire.Memory, wire.MaxSegments)
	for i := range list {
		list[i] = &wire.Memory{FD: -1}
	}
	a.segments.Store(&list)
	if err := a.grow(4096, nil); !errors.Is(err, shm.ErrNoRoom) || !strings.HasSuffix(err.Error(), "4096 segments") {
		t.Errorf("one more: %v", err)
	}
	list = list[1:]
	a.segments.Store(&list)
	err := a.grow(4096, nil)
	expect.That(t, err == nil && len(a.all()) == wire.MaxSegments, "the last: %v", err)
	if err := a.close(); err != nil || a.all() != nil {
		t.Error(err)
	}
	a.room = func() int64 { return 4095 }
	err = a.grow(4096, nil)
	if err == nil || !strings.HasSuffix(err.Error(), "4.10 kB (4.00 KiB) are needed beside the 0 B that it has, "+
		"4.10 kB (4.00 KiB) are available; take smaller batches, fewer workers or hold fewer slots") {
		t.Error(err)
	}
}

// enter is a consumer that asks for a rank, and is taken off again.
func enter(r *rank, ctx context.Context, h wire.Hello, wait bool, most time.Duration) (*peer, error) {
	p := &peer{server: r.server, socket: &scripted{}}
	err := r.enter(ctx, p, h, wait, time.Now().Add(most))
	if err == nil {
		err = r.detach(p)
	}
	return p, err
}

func TestARankIsEnteredWhenItIsFree(t *testing.T) {
	r := serve(t, plainGraph(t, 100), Options{Hold: 5}).ranks[0]
	for asked, want := range map[uint32]int{0: 5, 1: 1, 4: 4, 5: 5, 6: 5, 1<<32 - 1: 5} {
		h := good
		h.Hold = asked
		p, err := enter(r, t.Context(), h, true, patience)
		expect.That(t, err == nil && p.hold == want && p.rank == r && p.way == (way{unified.Int32, pinned.Host}),
			"hold %d: %d, %v, %v", asked, p.hold, p.way, err)
	}
	holder := &peer{socket: &scripted{}, pid: 77}
	set := func(there bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if there {
			r.peers[holder] = struct{}{}
		} else {
			delete(r.peers, holder)
		}
	}
	set(true)
	const taken = "process 77 is the consumer of rank 0: end it, or ask for another rank"
	_, err := enter(r, t.Context(), good, false, patience)
	refusedWith(t, err, wire.CodeTaken, taken)
	_, err = enter(r, t.Context(), good, true, -time.Second)
	refusedWith(t, err, wire.CodeTaken, taken)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	_, err = enter(r, ctx, good, true, patience)
	refusedWith(t, err, wire.CodeEnding, "the server is shutting down")
	holder.socket = &scripted{gone: true}
	time.AfterFunc(time.Millisecond, func() {
		set(false)
		r.wake()
	})
	if _, err := enter(r, t.Context(), good, true, -time.Second); err != nil {
		t.Errorf("after one whose connection has ended: %v", err)
	}
}

func TestARingOfSeveralReadersHasOneIndexDType(t *testing.T) {
	g := plainGraph(t, 100)
	for readers, taken := range map[int]bool{0: true, 2: false} {
		r := serve(t, g, Options{Readers: readers, Hold: 2}).ranks[0]
		h := good
		h.Index = uint32(unified.Int64)
		p, err := enter(r, t.Context(), h, true, patience)
		expect.That(t, !taken || err == nil && p.way.index == unified.Int64, "%d readers: %v, %v", readers, p.way, err)
		if !taken {
			refusedWith(t, err, wire.CodeIndexDType, "the ring has ids as int32, not as int64")
		}
	}
}

func TestRunsBeginWithinTheEpoch(t *testing.T) {
	g := plainGraph(t, 500) // 16 batches
	for _, c := range []struct {
		world  int
		epochs uint64
		begin  wire.Begin
		next   uint64 // where it begins
		code   shm.Code
		text   string
	}{
		{1, 0, wire.Begin{Next: 15}, 15, 0, ""},
		{1, 0, wire.Begin{Next: 16}, 16, 0, ""},
		{1, 0, wire.Begin{Next: 17}, 0, wire.CodeMessage, "BEGIN at batch 17, the epoch has 16"},
		{3, 0, wire.Begin{Next: 18}, 16, 0, ""},
		{3, 0, wire.Begin{Next: 19}, 0, wire.CodeMessage, "BEGIN at batch 19, the epoch has 16"},
		{1, 3, wire.Begin{Epoch: 2, Next: 1}, 1, 0, ""},
		{1, 3, wire.Begin{Epoch: 3}, 0, wire.CodeEpochs, "epoch 3: the server offers 3, from 0"},
		{1, 3, wire.Begin{Epoch: 7}, 0, wire.CodeEpochs, "epoch 7: the server offers 3, from 0"},
		{1, 0, wire.Begin{Epoch: 1<<32 - 1}, 0, 0, ""},
		{1, 0, wire.Begin{Epoch: 1 << 32}, 0, wire.CodeEpochs, "epoch 4294967296: must be below 2^32"},
		{1, 0, wire.Begin{Mode: wire.BeginState, Epoch: 1}, 0, wire.CodeState, "no state of a loader: "},
	} {
		s := serve(t, g, Options{WorldSize: c.world, Epochs: c.epochs, Hold: 2})
		at, err := (&peer{server: s.Server, rank: s.ranks[0]}).resolve(c.begin, []byte("no"))
		switch {
		case c.code == 0:
			expect.That(t, err == nil && at == (place{c.begin.Epoch, c.next}), "%+v: %+v, %v", c.begin, at, err)
		default:
			refusedWith(t, blame(err), c.code, c.text)
		}
		n := s.NumBatches()
		expect.That(t, n == uint64(16+c.world-1)/uint64(c.world), "%d ranks: %d batches", c.world, n)
	}
}

// Statistics are what a plain count gives, and list as many consumers as fit a message.
func TestStatisticsAreCounted(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{Hold: 3})
	c := connect(t, s, consumer.Options{})
	for epoch := range uint64(2) {
		n := uint64(len(lines(t, c.Epoch(t.Context(), epoch))))
		st := s.Stats()[0]
		bytes := int64(0)
		for _, m := range s.ranks[0].arena.all() {
			bytes += int64(len(m.Data))
		}
		if st.Sent != n*(epoch+1) || st.Done != st.Sent || st.Epoch != epoch || st.Next != n || st.Rank != 0 ||
			st.RingBytes != bytes || st.Segments != len(s.ranks[0].arena.all()) || st.OnDevice != 0 {
			t.Errorf("epoch %d of %d batches: %+v", epoch, n, st)
		}
		expect.That(t, len(st.Consumers) == 1 && st.Consumers[0].PID == os.Getpid() && st.Consumers[0].Done == n,
			"consumers %+v", st.Consumers)
	}
	r := s.ranks[0]
	add := func(n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for range n {
			now := time.Now()
			held := map[uint32]time.Time{1: now.Add(-time.Hour), 2: now.Add(-2 * time.Hour), 3: now}
			r.peers[&peer{pid: -1, held: held, done: 9}] = struct{}{}
		}
	}
	for _, more := range []int{254, 1, 1} { // with the one that is there 255, 256 and 257
		add(more)
		st := r.statistics()
		expect.That(t, len(st.Consumers) == min(len(r.peers), 256), "%d consumers of %d are listed", len(st.Consumers),
			len(r.peers))
		for _, p := range st.Consumers {
			if p.PID == -1 && (p.Held != 3 || p.Done != 9 || p.OldestHeld < 7200 || p.OldestHeld > 10_000) {
				t.Errorf("%+v", p)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.peers {
		if p.pid == -1 {
			delete(r.peers, p)
		}
	}
}

// The error of closing is the error of the first Close and of each later one; options and segments are the server's.
func TestWithinAProcessCloseSaysWhatFailed(t *testing.T) {
	g := visit(t, plainGraph(t, 50), Options{Hold: 2})
	if o := g.Options(); o.Hold != 2 || o.WorldSize != 1 || o.IndexDType != unified.Int32 ||
		o.Path != "within this process" || o.Loader.BatchSize != usual().BatchSize {
		t.Errorf("%+v", o)
	}
	n := uint32(len(g.server.ranks[0].arena.all()))
	for number, there := range map[uint32]bool{0: n > 0, n: false, n + 1: false, 1<<32 - 1: false} {
		_, of, err := g.Segment(number)
		if (err == nil) != there || err != nil && !strings.HasSuffix(err.Error(), fmt.Sprintf("segment %d is not there",
			number)) {
			t.Errorf("segment %d of %d: %v", number, n, err)
		}
		if err == nil {
			expect.OK(t, of.Close())
		}
	}
	for name, opt := range map[string]Options{"readers": {Readers: 1}, "a state file": {StateFile: "x"}} {
		opt.Loader = usual()
		if _, err := NewInside(t.Context(), plainGraph(t, 50), opt, Within{}); !errors.Is(err, shm.ErrOptions) ||
			!strings.HasSuffix(err.Error(), "broadcasts and state files need a server of their own") {
			t.Errorf("%s: %v", name, err)
		}
	}
	g.server.remove = func() error { return errBroken }
	for range 2 {
		expect.Is(t, g.Close(), errBroken, "Close")
	}
	g.once.Do(func() {})
	g.err = nil // the test's end closes it again
}

// The log hears that consumers may hold less where that is so, and that a consumer could not connect.
func TestTheLogHearsOfLessAndOfNoConnections(t *testing.T) {
	const less = "consumers may hold fewer batches, to keep within MaxMemory"
	for limit, want := range map[int64]bool{0: false, 3 << 20: true} {
		log := &logged{}
		opt := usual()
		opt.MaxMemory = limit
		s := serve(t, plainGraph(t, 500), Options{Loader: opt, Hold: 100,
			Logger: slog.New(slog.NewTextHandler(log, nil))})
		if r := s.ranks[0]; r.hold != min(100, r.loader.Stats().Slots-1) {
			t.Errorf("limit %d: %d of %d slots may be held", limit, r.hold, r.loader.Stats().Slots)
		}
		if text := log.String(); strings.Contains(text, less) != want ||
			want && !strings.Contains(text, fmt.Sprintf("hold=%d", s.ranks[0].hold)) || s.ranks[0].hold < 100 != want {
			t.Errorf("limit %d, hold %d: %s", limit, s.ranks[0].hold, text)
		}
	}
	log := &logged{}
	s := serve(t, plainGraph(t, 100), Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	expect.OK(t, s.listener.SetDeadline(time.Unix(1, 0)))
	until(t, func() bool { return strings.Contains(log.String(), `msg="a consumer could not connect" error=`) })
	expect.OK(t, s.listener.SetDeadline(time.Time{}))
	n := len(lines(t, connect(t, s, consumer.Options{}).Epoch(t.Context(), 0)))
	expect.That(t, n == 4, "afterwards there are %d batches", n)
}

// A clock that was stopped, or whose reader is gone, gives nobody up.
func TestAClockThatWasStoppedGivesNobodyUp(t *testing.T) {
	r := &rank{server: &Server{opt: Options{Readers: 2, ReaderTimeout: time.Hour}}}
	for name, c := range map[string]struct {
		old, gone bool
		lost      int
	}{"it runs": {false, false, 1}, "it was stopped": {true, false, 0}, "gone": {false, true, 0}} {
		link, own := &scripted{}, new(clock)
		p := &peer{socket: link, late: own, gone: c.gone}
		if c.old {
			p.late = new(clock)
		}
		r.lost = 0
		r.giveUp(p, own)
		if _, closed := link.state(); r.lost != c.lost || closed != c.lost || (p.end != nil) != (c.lost > 0) {
			t.Errorf("%s: %d lost, closed %d times, %v", name, r.lost, closed, p.end)
		}
		if c.lost > 0 {
			refusedWith(t, p.end, wire.CodeStalled, "waited for you for 1h0m0s, which is all that the server")
		}
	}
}

// Who watches a process that is not there watches nothing.
func TestAProcessThatIsNotThereIsNotWatched(t *testing.T) {
	before := expect.OpenFiles(t)
	WatchProcess(1<<30, func() { t.Error("it has ended") })()
	WatchProcess(0, func() { t.Error("there is none") })()
	after := expect.OpenFiles(t)
	expect.That(t, after <= before, "%d descriptors are open, %d before", after, before)
}

// Within a process a consumer has the number that it gives itself, and Close waits until its connection is closed.
func TestWithinAProcessCloseWaitsForTheConnection(t *testing.T) {
	g := visit(t, plainGraph(t, 50), Options{Hold: 2})
	say(g, wire.Append[wire.Hello], wire.KindHello, wire.Hello{Magic: wire.Magic, Oldest: shm.Version,
		Newest: shm.Version, Rank: wire.AnyRank, Process: 4321})
	g.hear(wire.KindWelcome)
	list := g.server.Stats()[0].Consumers
	expect.That(t, len(list) == 1 && list[0].PID == 4321, "consumers %+v", list)
	for range 20 {
		g := visit(t, plainGraph(t, 50), Options{Hold: 2})
		expect.OK(t, g.Close())
		expect.Ensure(t, g.mail.Down.ended.Load() == 1, "the server was closed before the consumer's connection")
	}
}
