package loader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader/internal/makers"
	"github.com/khop-gnn/khop/loader/internal/oncpu"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/internal/presamplers"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

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
	plan.Processor
	makers.Maker
	err error
}

func (failing) DefaultWorkers() int                { return 77 }
func (f failing) String() string                   { return "cpu" }
func (f failing) Close() error                     { return f.Maker.Close() }
func (f failing) Drain() error                     { return f.err }
func (f failing) Explain(err error, _ int64) error { return err }

// failingTier is a tier that cannot choose anew what it keeps, or not say what it has brought.
type failingTier struct {
	tier.Tier
	renewing, counting error
}

func (f failingTier) Renew(context.Context) error { return f.renewing }
func (f failingTier) Stats() (tier.Stats, error)  { return tier.Stats{}, f.counting }

// What a device fails with before an epoch is the epoch's error, and after it stands in the log.
func TestWhatADeviceFailsWithIsTold(t *testing.T) {
	l, mine, log := small(t), errors.New("mine"), &bytes.Buffer{}
	l.plan.Log = slog.New(slog.NewTextHandler(log, nil))
	on := l.plan.On
	l.plan.On = failing{Processor: on, err: mine}
	l.plan.Set.Tiers = []*placed.Tier{{Tier: failingTier{&tiers.Mapped{}, mine, nil}}}
	for b, err := range l.Epoch(t.Context(), 0) {
		expect.That(t, b == nil && err == mine, "%v, %v", b, err)
	}
	s, err := l.placed.settleFor(Options{Sampler: sampling.Neighbor{Fanouts: []int{2}},
		Device: DeviceOptions{Name: "cpu"}})
	expect.That(t, err == nil && s.plan.Workers == 77, "%d workers: %v", s.plan.Workers, err)
	expect.That(t, log.Len() <= 0, "the log says %s", log)
	l.plan.On = on
	l.plan.Set.Tiers[0].Tier = failingTier{&tiers.Mapped{}, nil, mine}
	for _, err := range l.Epoch(t.Context(), 0) {
		expect.OK(t, err)
	}
	l.plan.Set.Tiers = nil
	if text := log.String(); !strings.HasSuffix(text, "level=ERROR msg=\"the device failed\" error=mine\n") {
		t.Errorf("the log says %s", text)
	}
	log.Reset()
	l.workers[1].Maker = failing{Maker: l.workers[1].Maker, err: mine}
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
		s, position, ok := r.take(nil)
		expect.That(t, ok && position == want && s != nil, "position %d: %d, %v", want, position, ok)
		l.free.put(s)
	}
	_, _, ok := r.take(nil)
	expect.That(t, !ok && r.done(), "a position beyond the last")
	r.rounds = 3
	end()
	expect.That(t, r.done(), "an ended run goes on")
	if _, _, ok := r.take(nil); ok || len(l.free.slots) != len(l.slots) || len(l.free.ready) != len(l.slots) {
		t.Errorf("%d slots of %d are free", len(l.free.slots), len(l.slots))
	}
}

// The states of a slot follow one another, on to the loop body and back.
func TestASlotGoesThroughItsStates(t *testing.T) {
	l := small(t)
	var seen []slots.State
	l.asked.Hooks.Made = func(b *Batch) error {
		seen = append(seen, b.slot.State) // one worker
		return nil
	}
	all := l.workers
	l.workers = all[:1]
	defer func() { l.workers = all }()
	for b, err := range l.Epoch(t.Context(), 0) {
		expect.That(t, err == nil && b.slot.State == slots.Delivered && b.slot.inBody, "state %d: %v", b.slot.State,
			err)
	}
	expect.That(t, slices.Equal(seen, []slots.State{slots.Ready, slots.Ready, slots.Ready}),
		"batches are made in states %v", seen)
	for _, s := range l.slots {
		expect.That(t, s.State == slots.Free && !s.inBody, "slot %d is left in state %d", s.Index, s.State)
	}
}

// Where the system reads nothing ahead a loader does without, and tells nobody of it; another failure is its own.
func TestNothingIsReadAheadWhereTheSystemDoesNot(t *testing.T) {
	defer func() { oncpu.Populate = pinned.Populate }()
	mine := errors.New("mine")
	for fails, want := range map[error]error{errors.ErrUnsupported: nil, mine: mine,
		fmt.Errorf("old: %w", errors.ErrUnsupported): nil} {
		oncpu.Populate = func([]byte) error { return fails }
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
	r := expect.Must(bake(ring(t, 30), expect.Must(ask(opt))(t)))(t).Recipe
	var ledger pinned.Ledger
	ledger.SetLimit(1)
	s, err := slots.New(r, slots.Memory{}, &ledger)
	expect.That(t, s == nil && errors.Is(err, pinned.ErrLimit) && ledger.Total() == 0, "%v, %d bytes are held", err,
		ledger.Total())
}

// All memory of the slots is counted as batches'.
func TestTheMemoryOfSlotsIsCounted(t *testing.T) {
	l := small(t)
	held := int64(0)
	for _, s := range l.slots {
		s.Each(func(i int, b *unified.Buffer, most int64) {
			if held += b.Options.Size(b.Cap()); b.Cap() < s.Used(i) || b.Cap() == 0 || most <= 0 {
				t.Errorf("%s has room for %d bytes of %d", l.plan.Arrays[i].Name, b.Cap(), most)
			}
		})
	}
	counted := l.Stats().Memory.Batches
	expect.That(t, counted == held, "%d bytes are counted, %d are held", counted, held)
}

// A loader that is to be there soon has no memory of batches before the first, and no more than it expects after many.
func TestASoonLoaderTakesMemoryWithItsBatches(t *testing.T) {
	l := expect.Must(New(ring(t, 30), Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, BatchSize: 10,
		Device: DeviceOptions{Name: "cpu"}, Workers: 2, Hooks: Hooks{Soon: true}}))(t)
	before := l.Stats().Memory.Batches
	expect.That(t, before == 0, "%d bytes are held before the first batch", before)
	for epoch := range uint64(8) {
		for _, err := range l.Epoch(t.Context(), epoch) {
			expect.OK(t, err)
		}
	}
	held, most := l.Stats().Memory.Batches, l.Estimate().Expected.Batches
	expect.That(t, held > 0 && held <= most, "%d bytes are held, %d expected", held, most)
	expect.OK(t, l.Close())
	expect.That(t, l.ledger.Total() == 0, "%d bytes are held in the end", l.ledger.Total())
}

// The slot that was given back last is taken first: its memory is still in the caches.
func TestTheSlotThatWasGivenBackLastComesFirst(t *testing.T) {
	f, all := newFreeList(3), []*ownedSlot{{Slot: &slots.Slot{Index: 0}},
		{Slot: &slots.Slot{Index: 1}}, {Slot: &slots.Slot{Index: 2}}}
	for _, s := range all {
		s.State = slots.Delivered
		f.put(s)
	}
	expect.That(t, cap(f.ready) == 3 && len(f.ready) == 3, "%d of %d are ready", len(f.ready), cap(f.ready))
	for i := range all {
		s := f.take()
		expect.That(t, s.Index == 2-i && s.State == slots.Free, "%d. is slot %d, %v", i, s.Index, s.State)
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
		r := &run{first: c.first, last: c.last, l: &Loader{settled: settled{
			asked: &asked{Options: Options{Rank: c.rank, WorldSize: c.world}},
			plan:  &plan.Plan{Kit: &presamplers.Kit{Recipe: &recipe.Recipe{Batches: 3}}}}}}
		number, padded := r.batchAt(c.position)
		expect.That(t, number == c.number && padded == c.padded, "%+v: %d, %v", c, number, padded)
	}
}

// Statistics say what the ledger and the slots have, and what a device has counted.
func TestStatisticsAreThoseOfTheLoader(t *testing.T) {
	l := small(t)
	l.stats.tiers.Store(&tier.Stats{Rows: 7, Hits: 5, Peers: 3, Saved: 2})
	l.stats.Replays.Add(4)
	expect.OK(t, l.ledger.Take(pinned.Columns, 1000))
	l.ledger.Give(pinned.Columns, 900)
	s := l.Stats()
	expect.That(t,
		s.DeviceRows == 7 && s.DeviceHits == 5 && s.DevicePeers == 3 && s.DeviceSaved == 2 && s.Replays == 4 &&
			s.Device == "cpu" && s.Slots == 4 && s.SlotsHeld == 0 && s.OnDisk == nil && s.TopologyOnDisk == nil &&
			s.DeviceMemory == (Memory{}) && s.DeviceMemoryPeak == 0, "%+v", s)
	want := Memory{Columns: 100, Batches: l.ledger.Used(pinned.Batches), Scratch: l.ledger.Used(pinned.Scratch)}
	expect.That(t,
		s.Memory == want && want.Batches != 0 && want.Scratch != 0 && s.MemoryPeak >= want.Total()+900 &&
			want.Total() == 100+want.Batches+want.Scratch, "%+v, want %+v; at most %d", s.Memory, want, s.MemoryPeak)
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
	other = State{1, fmt.Sprintf("%x", id), l.asked.Sampler.Fingerprint(), l.state.Seeds, 10, false, false, 0, 0, 7, 2}
	d := expect.Diff(other, l.State(7, 2))
	expect.That(t, d == "" && len(other.Seeds) == 16 && l.CheckState(other) == nil, "%v", d)
}
