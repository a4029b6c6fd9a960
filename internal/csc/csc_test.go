package csc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
)

// edge is one edge of the oracle, which sorts whole edges with the library's stable sort.
type edge struct {
	src, dst int64
	typ      uint16
	num      int64
}

func oracle(edges []edge) []edge {
	s := slices.Clone(edges)
	slices.SortStableFunc(s, func(a, b edge) int {
		if a.dst != b.dst {
			return int(a.dst - b.dst)
		}
		if a.typ != b.typ {
			return int(a.typ) - int(b.typ)
		}
		return int(a.src - b.src)
	})
	return s
}

// byType returns edges type by type, with the ids of a type counted from somewhere, and numbers them anew.
func byType(edges []edge, types int) ([]Edges, []edge) {
	list, of := make([]Edges, max(types, 1)), slices.Clone(edges)
	slices.SortStableFunc(of, func(a, b edge) int { return int(a.typ) - int(b.typ) })
	for i := range of {
		e := &list[of[i].typ]
		e.From, e.To = int64(of[i].typ)*3, -int64(of[i].typ)
		e.Src, e.Dst = append(e.Src, of[i].src-e.From), append(e.Dst, of[i].dst-e.To)
		of[i].num = int64(i)
	}
	return list, of
}

// at returns the edge at a position, without its destination.
func (s *Structure) at(i, types int, opt Options) edge {
	var e edge
	if IDBytes(opt.Nodes) == 4 && opt.idBits == 0 {
		e.src = int64(view[int32](s.Indices)[i])
	} else {
		e.src = view[int64](s.Indices)[i]
	}
	switch TypeBytes(types) {
	case 1:
		e.typ = uint16(s.Types[i])
	case 2:
		e.typ = view[uint16](s.Types)[i]
	}
	if opt.Permutation {
		e.num = s.Perm.At(i)
	}
	return e
}

// checkBuild compares what Build makes of the edges with the oracle.
func checkBuild(t *testing.T, edges []edge, types int, opt Options) {
	t.Helper()
	list, edges := byType(edges, types)
	got, free := expect.Must2(Build(list, opt))(t)
	defer free()
	want := oracle(edges)
	expect.Ensure(t, got.Edges == int64(len(want)), "%d edges, want %d", got.Edges, len(want))
	indptr := make([]int64, opt.Nodes+1)
	for i, e := range want {
		indptr[e.dst+1] = int64(i) + 1
		e.dst = 0
		if !opt.Permutation {
			e.num = 0
		}
		if got := got.at(i, types, opt); got != e {
			t.Fatalf("position %d: %+v, want %+v", i, got, e)
		}
	}
	for v := range opt.Nodes {
		indptr[v+1] = max(indptr[v], indptr[v+1])
	}
	expect.Ensure(t, slices.Equal(got.Indptr, indptr), "indptr %v, want %v", got.Indptr, indptr)
}

func randomEdges(r *rand.Rand, n int64, m, types int, shape string) []edge {
	es := make([]edge, m)
	for i := range es {
		e := edge{src: r.Int64N(n), dst: r.Int64N(n), typ: uint16(r.IntN(types)), num: int64(i)}
		switch shape {
		case "hub": // most edges into one node
			if r.IntN(10) > 0 {
				e.dst = n / 3
			}
		case "parallel": // most edges are one edge, many times
			if r.IntN(10) > 0 {
				e.src, e.dst, e.typ = n/2, n/3, 0
			}
		case "skewed":
			e.dst = int64(float64(n) * r.Float64() * r.Float64() * r.Float64() * r.Float64())
		}
		es[i] = e
	}
	return es
}

func TestBuildEqualsAStableSortOfEdges(t *testing.T) {
	seed := uint64(20261121)
	r := rand.New(rand.NewPCG(seed, 1))
	for _, shape := range []string{"even", "hub", "parallel", "skewed"} {
		for _, c := range []struct {
			n        int64
			m, types int
			perm     bool
			workers  int
		}{
			{1, 0, 1, false, 1},
			{1, 0, 3, true, 2},
			{1, 7, 1, true, 2},
			{2, 5, 1, false, 1},
			{5, 100, 1, false, 3},
			{1000, 3, 1, true, 2},
			{1000, 20_000, 1, false, 2},
			{1000, 20_000, 1, true, 3},
			{1000, 20_000, 5, true, 2},
			{1000, 20_000, 300, false, 2},
			{70_000, 90_000, 1, true, 2},
		} {
			if invariants.Enabled && shape != "hub" {
				continue // with -race: workers do the same whatever the shape is
			}
			name := fmt.Sprintf("%s/n=%d m=%d types=%d perm=%t", shape, c.n, c.m, c.types, c.perm)
			es := randomEdges(r, c.n, c.m, c.types, shape)
			opt := Options{Nodes: c.n, Permutation: c.perm, Workers: c.workers}
			t.Run(name, func(t *testing.T) {
				t.Logf("seed %d", seed)
				checkBuild(t, es, c.types, opt)
			})
		}
	}
}

// TestSortingTakesNoMoreRoomThanTheEdges counts what Build allocates to sort.
func TestSortingTakesNoMoreRoomThanTheEdges(t *testing.T) {
	seed := uint64(7)
	r := rand.New(rand.NewPCG(seed, 2))
	for shape, most := range map[string]int64{"even": 15, "hub": 24, "parallel": 24, "skewed": 24} {
		es := randomEdges(r, 10_000, 100_000, 3, shape)
		t.Run(shape, func(t *testing.T) {
			t.Logf("seed %d", seed)
			var now, peak atomic.Int64
			opt := Options{Nodes: 10_000, Permutation: true, Workers: 1}
			opt.Alloc = func(n int64) ([]byte, func(), error) {
				peak.Store(max(peak.Load(), now.Add(n)))
				return heap(n), func() { now.Add(-n) }, nil
			}
			checkBuild(t, es, 3, opt)
			expect.That(t, peak.Load() <= most*int64(len(es)) && now.Load() == 0, "took %d bytes; %d are not freed",
				peak.Load(), now.Load())
		})
	}
}

// TestWideKeysAreStoredInPart pretends that ids are too wide for a key, which loses its top bits.
func TestWideKeysAreStoredInPart(t *testing.T) {
	for _, idBits := range []int{32, 36, 60} {
		es := randomEdges(rand.New(rand.NewPCG(5, 5)), 1000, 20_000, 3, "skewed")
		checkBuild(t, es, 3, Options{Nodes: 1000, Permutation: true, Workers: 2, idBits: idBits})
	}
}

func TestWhatIsTakenIsFreedOnErrors(t *testing.T) {
	es, _ := byType(randomEdges(rand.New(rand.NewPCG(1, 1)), 100, 5000, 1, "even"), 1)
	failure := errors.New("disk full")
	for most := range 3 {
		held, taken := 0, 0
		opt := Options{Nodes: 100, Permutation: true, Workers: 1, Alloc: func(n int64) ([]byte, func(), error) {
			if taken == most {
				return nil, nil, failure
			}
			held, taken = held+1, taken+1
			return heap(n), func() { held-- }, nil
		}}
		if _, _, err := Build(es, opt); !errors.Is(err, failure) || held != 0 {
			t.Errorf("the allocator's error is lost, or %d arrays are not freed: %v", held, err)
		}
	}
	_, _, err := Build(nil, Options{Nodes: 1 << 60})
	expect.That(t, errors.Is(err, ErrTooLarge), "2^60 nodes gave %v", err)
}
