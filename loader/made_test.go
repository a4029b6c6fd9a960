package loader_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// shelf gives memory from the Go heap and knows what it has given.
type shelf struct {
	mu    sync.Mutex
	given map[*byte]int
	left  int   // piece that is refused; 0 or less: none
	full  error // how
}

func (s *shelf) Take(n int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left == 0 {
		return nil, s.full
	}
	align := 4096
	if n%pinned.HugePage == 0 {
		align = pinned.HugePage
	}
	raw := make([]byte, int(n)+align)
	skip := int(-uintptr(unsafe.Pointer(&raw[0])) & uintptr(align-1))
	b := raw[skip : skip+int(n) : skip+int(n)]
	for i := range b {
		b[i] = 0xaa // what it gives need not be zero
	}
	s.given[&b[0]] = len(b)
	return b, nil
}

func (s *shelf) Give(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given[unsafe.SliceData(b)] != len(b) {
		return errors.New("not given like that")
	}
	delete(s.given, unsafe.SliceData(b))
	return nil
}

// has reports whether a tensor lies in memory that was given.
func (s *shelf) has(t unified.Tensor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := uintptr(unsafe.Pointer(unsafe.SliceData(t.Bytes())))
	for at, n := range s.given {
		if base := uintptr(unsafe.Pointer(at)); p >= base && p+uintptr(len(t.Bytes())) <= base+uintptr(n) {
			return true
		}
	}
	return false
}

func TestRowsAreGatheredIntoMemoryOfTheUsers(t *testing.T) {
	g := graphs.Plain(t, 300, 5)
	opt := loader.Options{Sampler: neighbor, BatchSize: 16, Workers: 2,
		Columns: loader.ColumnOptions{Edges: []string{"weight"}}, Device: loader.DeviceOptions{Name: "cpu"}}
	want := digests(t, open(t, g, opt).Epoch(t.Context(), 0))
	s := &shelf{given: map[*byte]int{}}
	opt.Hooks.RowMemory = s
	l := expect.Must(loader.New(g, opt))(t)
	var got []string
	for b := range each(t, l.Epoch(t.Context(), 0)) {
		got = append(got, digestOf(b))
		expect.That(t, s.has(b.X()) && s.has(b.Y()) && s.has(b.Edge(0, 0, "weight")) && !s.has(b.Sample.Nodes[0]),
			"rows lie elsewhere, or ids in the users' memory")
	}
	expect.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
	if err := l.Close(); err != nil || len(s.given) != 0 {
		t.Errorf("%v, and %d pieces are not back", err, len(s.given))
	}
	for s.left = 1; ; s.left++ { // whichever piece is refused, all others come back
		s.full = errors.New("the shelf is full")
		left := s.left
		l, err := loader.New(g, opt)
		if err == nil && left > 5 {
			expect.OK(t, l.Close())
			break
		}
		expect.Ensure(t, errors.Is(err, s.full) && len(s.given) == 0,
			"piece %d is refused: %v, want that there is no memory; %d pieces are not back", left, err, len(s.given))
		s.left = left
	}
}

func TestMadeSeesEveryBatchBeforeTheLoop(t *testing.T) {
	g := graphs.Plain(t, 300, 5)
	var mu sync.Mutex
	made := map[string]int{} // digest to slot
	opt := loader.Options{Sampler: neighbor, BatchSize: 16, Workers: 3, Seed: 3}
	opt.Hooks.Made = func(b *loader.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		made[digestOf(b)] = b.Slot()
		return nil
	}
	l := open(t, g, opt)
	for b := range each(t, l.Epoch(t.Context(), 2)) {
		mu.Lock()
		slot, ok := made[digestOf(b)]
		mu.Unlock()
		expect.That(t, ok && slot == b.Slot() && slot >= 0 && slot < l.Stats().Slots,
			"batch %d: made: %t, in slot %d, now in %d", b.Number, ok, slot, b.Slot())
	}
	expect.That(t, uint64(len(made)) == l.NumBatches(), "%d batches were made of %d", len(made), l.NumBatches())
	wrong := errors.New("not this one")
	opt.Hooks.Made = func(b *loader.Batch) error {
		if b.Number == 3 {
			return wrong
		}
		return nil
	}
	l = open(t, g, opt)
	n := 0
	for _, err := range l.Epoch(t.Context(), 0) {
		if err != nil {
			expect.That(t, errors.Is(err, wrong), "%v", err)
			break
		}
		n++
	}
	expect.That(t, n == 3, "%d batches came before the one that was refused", n)
}

func TestSeedsAreToldAsTheyWereAskedFor(t *testing.T) {
	g := graphs.Plain(t, 100, 4)
	ids := []int64{5, 7, 5, 99, 0, 7}
	l := open(t, g, loader.Options{Sampler: neighbor, Seeds: loader.NodeIDs(ids), BatchSize: 4, Shuffle: true})
	seen := map[int64]bool{}
	for b := range each(t, l.Epoch(t.Context(), 1)) {
		got, items := b.Seeds(0)
		if !slices.Equal(seedsOf(t, b), func() (s []int32) {
			for _, id := range got {
				s = append(s, int32(id))
			}
			return s
		}()) {
			t.Errorf("seeds are %v, the sample has %v", got, seedsOf(t, b))
		}
		for i, item := range items {
			expect.That(t, ids[item] == got[i] && !seen[item], "item %d is node %d, or came twice", item, got[i])
			seen[item] = true
		}
		if a, b := b.Seeds(1); a != nil || b != nil {
			t.Error("there are seeds of a type that there is not")
		}
	}
	expect.That(t, len(seen) == len(ids), "%d of %d items came", len(seen), len(ids))
}

func TestStatesCanBeMadeAndChecked(t *testing.T) {
	g := graphs.Plain(t, 300, 5)
	opt := loader.Options{Sampler: neighbor, BatchSize: 16, WorldSize: 2}
	l := open(t, g, opt)
	want := digests(t, l.Epoch(t.Context(), 4))
	s := l.State(4, 6)
	got := digests(t, l.Resume(t.Context(), s))
	expect.That(t, slices.Equal(got, want[3:]) && uint64(len(got)) == l.NumBatchesFrom(6),
		"got %q, want %q; %d batches are said to come", got, want[3:], l.NumBatchesFrom(6))
	expect.OK(t, l.CheckState(s))
	s.BatchSize++
	err := l.CheckState(s)
	expect.That(t, errors.Is(err, loader.ErrState), "%v, want ErrState", err)
	n := l.NumBatchesFrom(1 << 60)
	expect.That(t, n == 0, "%d batches beyond the end", n)
}
