package loader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// closer notes when it is closed.
type closer struct {
	name string
	list *[]string
}

func (c closer) Close() error {
	*c.list = append(*c.list, c.name)
	return errors.New(c.name)
}

// What a placed source took is closed from the last to the first, all of it, whatever fails.
func TestWhatWasPlacedIsClosedInReverseOrder(t *testing.T) {
	var list []string
	c := &onCPU{owned: []io.Closer{closer{"a", &list}, closer{"b", &list}, closer{"c", &list}}}
	if err := c.close(); err == nil || err.Error() != "c\nb\na" || !slices.Equal(list, []string{"c", "b", "a"}) {
		t.Errorf("%v: %v", list, err)
	}
	err := c.close()
	expect.That(t, err == nil && len(list) == 3, "again: %v, %v", list, err)
	list = nil
	r := &recipe{prepared: closing{closer: closer{"tables", &list}}}
	r.shared = true
	if err := r.closeShared(); err == nil || err.Error() != "tables" || len(list) != 1 || r.shared ||
		r.closeShared() != nil {
		t.Errorf("%v: %v", list, err)
	}
}

// closing is a prepared sampler that is closed.
type closing struct {
	sampling.Sampler
	closer
}

// A placed source is a loader's alone only if it is for one, and there never was another.
func TestALoaderIsAloneWithItsSource(t *testing.T) {
	for _, c := range []struct {
		loaders, taken int
		alone          bool
	}{{1, 0, false}, {1, 1, true}, {1, 2, false}, {2, 1, false}, {2, 2, false}} {
		opt := Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, Device: DeviceOptions{Name: "cpu"}}
		p := expect.Must(Place(t.Context(), ring(t, 30), opt, c.loaders))(t)
		for range c.taken {
			l, err := New(p, opt)
			if err == nil {
				err = l.Close()
			}
			expect.OK(t, err)
		}
		expect.That(t, p.alone() == c.alone && p.users == 1 && p.Close() == nil && p.users == 0, "%+v: %v, %d users", c,
			p.alone(), p.users)
	}
}

// small is a loader of a ring of 30 nodes in batches of 10.
func small(t *testing.T) *Loader {
	t.Helper()
	l := expect.Must(New(ring(t, 30), Options{Sampler: sampling.Neighbor{Fanouts: []int{2}},
		Device: DeviceOptions{Name: "cpu"}, BatchSize: 10,
		Workers: 2}))(t)
	t.Cleanup(func() {
		err := l.Close()
		expect.That(t, err == nil && l.ledger.Total() == 0, "%v, %d bytes are held", err, l.ledger.Total())
	})
	return l
}

// A batch that fails because its run has ended says why that ended; its slot is free again. One that is done as the
// loader is closed is not delivered.
func TestABatchThatComesTooLateIsNotDelivered(t *testing.T) {
	l, why, mine := small(t), errors.New("why"), errors.New("mine")
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	r := &run{l: l, ctx: ctx}
	for _, want := range []error{mine, why} {
		<-l.free.ready
		s := l.free.take()
		s.err = mine
		err := r.accept(s, time.Now())
		expect.That(t, err == want, "%v, want %v", err, want)
		n := len(l.free.slots)
		expect.That(t, n == len(l.slots) && len(l.free.ready) == n, "%d slots of %d are free", n, len(l.slots))
		s.err = nil
		end(why)
	}
	l.closed = true
	err := r.accept(l.slots[0], time.Now())
	expect.That(t, err == ErrClosed && !l.slots[0].inBody && l.stats.batches.Load() == 0, "%v", err)
	l.closed = false
}

// failing is a processor, and a maker, of which some calls fail.
type failing struct {
	processor
	maker
	err error
}

func (failing) workers() int                          { return 77 }
func (f failing) String() string                      { return "failing" }
func (f failing) close() error                        { return f.maker.close() }
func (f failing) drain() error                        { return f.err }
func (f failing) explain(err error, _ *Options) error { return err }
func (f failing) slotMemory(*recipe, *pinned.Ledger, *counters) (*fence, pinned.Options, pinned.Options, error) {
	return nil, pinned.Options{}, pinned.Options{}, f.err
}

// failingTier is a tier that cannot choose anew what it keeps, or not say what it has brought.
type failingTier struct {
	tier.Tier
	renewing, counting error
}

func (f failingTier) renew(context.Context) error { return f.renewing }
func (f failingTier) Stats() (tier.Stats, error)  { return tier.Stats{}, f.counting }

// What a device fails with before an epoch is the epoch's error, and after it stands in the log.
func TestWhatADeviceFailsWithIsTold(t *testing.T) {
	l, mine, log := small(t), errors.New("mine"), &bytes.Buffer{}
	l.opt.Hooks.Logger = slog.New(slog.NewTextHandler(log, nil))
	on := l.placed.on
	l.placed.on = failing{processor: on, err: mine}
	l.placed.tiers = []*tiers.PlacedTier{{Tier: failingTier{&tiers.Mapped{}, mine, nil}}}
	for b, err := range l.Epoch(t.Context(), 0) {
		expect.That(t, b == nil && err == mine, "%v, %v", b, err)
	}
	if _, err := newSlot(l.recipe, l.placed.on, l.ledger, &l.stats); err != mine {
		t.Errorf("a slot: %v", err)
	}
	r, err := l.placed.recipeFor(Options{Sampler: sampling.Neighbor{Fanouts: []int{2}},
		Device: DeviceOptions{Name: "cpu"}})
	expect.That(t, err == nil && r.opt.Workers == 77, "%d workers: %v", r.opt.Workers, err)
	expect.That(t, log.Len() <= 0, "the log says %s", log)
	l.placed.on = on
	l.placed.tiers[0].Tier = failingTier{&tiers.Mapped{}, nil, mine}
	for _, err := range l.Epoch(t.Context(), 0) {
		expect.OK(t, err)
	}
	l.placed.tiers = nil
	if text := log.String(); !strings.HasSuffix(text, "level=ERROR msg=\"the device failed\" error=mine\n") {
		t.Errorf("the log says %s", text)
	}
	log.Reset()
	l.workers[1].maker = failing{maker: l.workers[1].maker, err: mine}
	n := 0
	for _, err := range l.Epoch(t.Context(), 0) {
		n++
		expect.That(t, err == nil, "%v", err)
	}
	expect.That(t, n == 3 && strings.HasSuffix(log.String(), "level=ERROR msg=\"the device failed\" error=mine\n"),
		"%d batches, and the log says %s", n, log)
	log.Reset()
	for range l.Epoch(t.Context(), 0) {
		expect.OK(t, l.Close())
	}
	expect.That(t, log.Len() <= 0, "a loader that is closed asks the device: %s", log)
}

// A run takes slots and positions together, up to its last, and none once it has ended.
func TestARunTakesEachPositionOnce(t *testing.T) {
	l := small(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	r := &run{l: l, ctx: ctx, rounds: 2}
	for want := range uint64(2) {
		s, position, ok := r.take()
		expect.That(t, ok && position == want && s != nil, "position %d: %d, %v", want, position, ok)
		l.free.put(s)
	}
	_, _, ok := r.take()
	expect.That(t, !ok && r.done(), "a position beyond the last")
	r.rounds = 3
	end()
	expect.That(t, r.done(), "an ended run goes on")
	if _, _, ok := r.take(); ok || len(l.free.slots) != len(l.slots) || len(l.free.ready) != len(l.slots) {
		t.Errorf("%d slots of %d are free", len(l.free.slots), len(l.slots))
	}
}

// The states of a slot follow one another, on to the loop body and back.
func TestASlotGoesThroughItsStates(t *testing.T) {
	l := small(t)
	var seen []slotState
	l.opt.Hooks.Made = func(b *Batch) error {
		seen = append(seen, b.slot.state) // one worker
		return nil
	}
	all := l.workers
	l.workers = all[:1]
	defer func() { l.workers = all }()
	for b, err := range l.Epoch(t.Context(), 0) {
		expect.That(t, err == nil && b.slot.state == delivered && b.slot.inBody, "state %d: %v", b.slot.state, err)
	}
	expect.That(t, slices.Equal(seen, []slotState{ready, ready, ready}), "batches are made in states %v", seen)
	for _, s := range l.slots {
		expect.That(t, s.state == free && !s.inBody, "slot %d is left in state %d", s.index, s.state)
	}
}

// What a batch can have at most is within the graph, what the sampler says, and what blocks can number.
func TestTheMostOfABatchIsWithinWhatIsSaid(t *testing.T) {
	g := ring(t, 30)
	for _, c := range []struct {
		bound               sampling.Bound
		byEdge              []int64
		size, seeds         int64
		batch, nodes, edges int64
		ofSeeds             int64
	}{
		{sampling.Bound{Nodes: 50, Edges: 60}, nil, 10, 30, 10, 30, 60, 10},
		{sampling.Bound{Nodes: 20, Edges: -1}, nil, 10, 4, 4, 20, 0, 4},
		{sampling.Bound{Nodes: -5, Edges: 1 << 40}, nil, 10, 0, 1, 0, 1<<31 - 1, 0},
		{sampling.Bound{Nodes: 90, Lists: []int64{70}}, nil, 40, 30, 30, 70, 0, 30},
		{sampling.Bound{Nodes: 60, Lists: []int64{70}}, nil, 40, 30, 30, 60, 0, 30},
		{sampling.Bound{Nodes: 60, Lists: []int64{0}}, nil, 40, 30, 30, 0, 0, 30},
		{sampling.Bound{Nodes: 60, Lists: []int64{-1}}, nil, 40, 30, 30, 0, 0, 30},
		{sampling.Bound{Edges: 9, Blocks: [][]int64{{7}}}, nil, 40, 30, 30, 0, 7, 30},
		{sampling.Bound{Edges: 9, Blocks: [][]int64{}}, nil, 40, 30, 30, 0, 9, 30},
		{sampling.Bound{Edges: 9, Blocks: [][]int64{{}}}, nil, 40, 30, 30, 0, 9, 30},
		{sampling.Bound{}, []int64{240}, 10, 240, 20, 0, 0, 20},
		{sampling.Bound{}, []int64{0}, 10, 0, 1, 0, 0, 0}, {sampling.Bound{}, []int64{1}, 10, 1, 2, 0, 0, 2},
	} {
		r := &recipe{graph: g, bound: c.bound, opt: Options{BatchSize: int(c.size)},
			seeds: seedlist.List{Count: c.seeds, ByType: []int64{c.seeds}, ByEdge: c.byEdge}}
		b, n, e, s := r.batchSize(), r.mostNodes(0), r.mostEdges(0, 0), r.mostSeeds(0)
		expect.That(t, b == c.batch && n == c.nodes && e == c.edges && s == c.ofSeeds,
			"%+v: %d, %d nodes, %d edges, %d seeds", c, b, n, e, s)
	}
}

// Where the system reads nothing ahead a loader does without, and tells nobody of it; another failure is its own.
func TestNothingIsReadAheadWhereTheSystemDoesNot(t *testing.T) {
	defer func() { populate = pinned.Populate }()
	mine := errors.New("mine")
	for fails, want := range map[error]error{errors.ErrUnsupported: nil, mine: mine,
		fmt.Errorf("old: %w", errors.ErrUnsupported): nil} {
		populate = func([]byte) error { return fails }
		l, err := New(ring(t, 30), Options{Sampler: sampling.Neighbor{Fanouts: []int{2}},
			Device: DeviceOptions{Name: "cpu"},
			Hooks: Hooks{Progress: func(stage string, _, _ int64) {
				expect.That(t, stage != "read ahead", "progress")
			}}})
		expect.Is(t, err, want, fails)
		expect.That(t, err != nil || l.Close() == nil, "it does not close")
	}
}

// A slot that there is no memory for is an error, and leaves nothing.
func TestASlotWithoutMemoryForItsEdgesIsAnError(t *testing.T) {
	opt := Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, Device: DeviceOptions{Name: "cpu"}, Seeds: AllEdges()}
	r := expect.Must(newRecipe(ring(t, 30), *opt.EnsureDefaults()))(t)
	var ledger pinned.Ledger
	ledger.SetLimit(1)
	s, err := newSlot(r, &onCPU{}, &ledger, nil)
	expect.That(t, s == nil && errors.Is(err, pinned.ErrLimit) && ledger.Total() == 0, "%v, %d bytes are held", err,
		ledger.Total())
}

// All memory of the slots is counted as batches'.
func TestTheMemoryOfSlotsIsCounted(t *testing.T) {
	l := small(t)
	held := int64(0)
	for _, s := range l.slots {
		s.each(func(i int, b *unified.Buffer, most int64) {
			if held += b.Options.Size(b.Cap()); b.Cap() < s.used(i) || b.Cap() == 0 || most <= 0 {
				t.Errorf("%s has room for %d bytes of %d", l.arrays[i].Name, b.Cap(), most)
			}
		})
	}
	counted := l.Stats().Memory.Batches
	expect.That(t, counted == held, "%d bytes are counted, %d are held", counted, held)
}

// The slot that was given back last is taken first: its memory is still in the caches.
func TestTheSlotThatWasGivenBackLastComesFirst(t *testing.T) {
	f, slots := newFreeList(3), []*slot{{index: 0}, {index: 1}, {index: 2}}
	for _, s := range slots {
		s.state = delivered
		f.put(s)
	}
	expect.That(t, cap(f.ready) == 3 && len(f.ready) == 3, "%d of %d are ready", len(f.ready), cap(f.ready))
	for i := range slots {
		s := f.take()
		expect.That(t, s.index == 2-i && s.state == free, "%d. is slot %d, %v", i, s.index, s.state)
	}
}

// Beyond the end of a part ranks repeat batches of the epoch.
func TestBatchesBeyondAPartAreOnesOfTheEpoch(t *testing.T) {
	for _, c := range []struct {
		rank, world           int
		first, last, position uint64
		number                uint64
		padded                bool
	}{{0, 1, 0, 3, 2, 2, false}, {1, 2, 0, 3, 1, 0, true}, {1, 2, 1, 3, 0, 2, false}, {2, 4, 1, 3, 0, 0, true},
		{3, 4, 1, 3, 0, 1, true}, {3, 4, 1, 3, 1, 2, true}, {0, 2, 1, 3, 1, 0, true}} {
		r := &run{first: c.first, last: c.last, l: &Loader{recipe: &recipe{batches: 3, opt: Options{Rank: c.rank,
			WorldSize: c.world}}}}
		number, padded := r.batchAt(c.position)
		expect.That(t, number == c.number && padded == c.padded, "%+v: %d, %v", c, number, padded)
	}
}

// Statistics say what the ledger and the slots have, and what a device has counted.
func TestStatisticsAreThoseOfTheLoader(t *testing.T) {
	l := small(t)
	l.stats.tiers.Store(&tier.Stats{Rows: 7, Hits: 5, Peers: 3, Saved: 2})
	l.stats.replays.Add(4)
	expect.OK(t, l.ledger.Take(pinned.Columns, 1000))
	l.ledger.Give(pinned.Columns, 900)
	s := l.Stats()
	if s.DeviceRows != 7 || s.DeviceHits != 5 || s.DevicePeers != 3 || s.DeviceSaved != 2 || s.Replays != 4 ||
		s.Device != "cpu" || s.Slots != 4 || s.SlotsHeld != 0 || s.OnDisk != nil || s.TopologyOnDisk != nil ||
		s.Meters != nil || s.DeviceMemory != (Memory{}) || s.DeviceMemoryPeak != 0 {
		t.Errorf("%+v", s)
	}
	want := Memory{Columns: 100, Batches: l.ledger.Used(pinned.Batches), Scratch: l.ledger.Used(pinned.Scratch)}
	if s.Memory != want || want.Batches == 0 || want.Scratch == 0 || s.MemoryPeak < want.Total()+900 ||
		want.Total() != 100+want.Batches+want.Scratch {
		t.Errorf("%+v, want %+v; at most %d", s.Memory, want, s.MemoryPeak)
	}
	l.ledger.Give(pinned.Columns, 100)
	m := (Memory{Topology: 1, Columns: 20, Batches: 300, Scratch: 4000})
	expect.That(t, m.Total() == 4321, "%d in all", m.Total())
}

// A state is plain data with names that stay, and names the first difference to another.
func TestAStateIsStoredByItsNames(t *testing.T) {
	s := State{1, "0a", "x", "1f", 10, true, false, 1<<64 - 1, 3, 1 << 33, 1<<64 - 2}
	text, err := json.Marshal(s)
	want := `{"semantics":1,"dataset":"0a","sampler":"x","seeds":"1f","batch_size":10,"shuffle":true,` +
		`"drop_last":false,"seed":18446744073709551615,"instance":3,"epoch":8589934592,"next":18446744073709551614}`
	expect.That(t, err == nil && string(text) == want, "%s, want %s", text, want)
	for says, change := range map[string]func(o *State){
		"version of the sampling semantics is 2, the loader's 1": func(o *State) { o.Semantics = 2 },
		"dataset is 0b, the loader's 0a":                         func(o *State) { o.Dataset = "0b" },
		"sampler is y, the loader's x":                           func(o *State) { o.Sampler = "y" },
		"seed list is 2f, the loader's 1f":                       func(o *State) { o.Seeds = "2f" },
		"batch size is 11, the loader's 10":                      func(o *State) { o.BatchSize = 11 },
		"shuffle is false, the loader's true":                    func(o *State) { o.Shuffle = false },
		"drop last is true, the loader's false":                  func(o *State) { o.DropLast = true },
		"seed is 4, the loader's 18446744073709551615":           func(o *State) { o.Seed = 4 },
		"instance is 2, the loader's 3":                          func(o *State) { o.Instance = 2 },
	} {
		other := s
		change(&other)
		err := other.check(s)
		if !errors.Is(err, ErrState) || !strings.HasSuffix(err.Error(), ": its "+says+
			"; open the loader as it was, or start an epoch anew") {
			t.Errorf("%v, want %s", err, says)
		}
	}
	other := s
	other.Epoch, other.Next = 5, 6
	expect.That(t, other.check(s) == nil, "another place is refused")
	l := small(t)
	id := l.Graph().ID()
	other = State{1, fmt.Sprintf("%x", id), l.opt.Sampler.Fingerprint(), l.state.Seeds, 10, false, false, 0, 0, 7, 2}
	d := expect.Diff(other, l.State(7, 2))
	expect.That(t, d == "" && len(other.Seeds) == 16 && l.CheckState(other) == nil, "%v", d)
}
