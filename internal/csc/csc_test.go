package csc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

// source yields edges in chunks of the given size.
func source(edges []edge, chunk int, typed bool) Edges {
	return func(yield func(Chunk) error) error {
		for c := range slices.Chunk(edges, chunk) {
			var k Chunk
			for _, e := range c {
				k.Src, k.Dst = append(k.Src, e.src), append(k.Dst, e.dst)
				if typed {
					k.Types = append(k.Types, e.typ)
				}
			}
			if err := yield(k); err != nil {
				return err
			}
		}
		return nil
	}
}

// at returns the edge at a position, without its destination.
func (s *Structure) at(i int, opt Options) edge {
	var e edge
	if IDBytes(opt.Nodes) == 4 && opt.idBits == 0 {
		e.src = int64(view[int32](s.Indices)[i])
	} else {
		e.src = view[int64](s.Indices)[i]
	}
	switch TypeBytes(opt.Types) {
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
func checkBuild(t *testing.T, edges []edge, chunk int, opt Options) {
	t.Helper()
	got, free := expect.Must2(Build(context.Background(), source(edges, chunk, opt.Types > 1), opt))(t)
	defer free()
	want := oracle(edges)
	if got.Edges != int64(len(want)) {
		t.Fatalf("%d edges, want %d", got.Edges, len(want))
	}
	indptr := make([]int64, opt.Nodes+1)
	for i, e := range want {
		indptr[e.dst+1] = int64(i) + 1
		e.dst = 0
		if !opt.Permutation {
			e.num = 0
		}
		if got := got.at(i, opt); got != e {
			t.Fatalf("position %d: %+v, want %+v", i, got, e)
		}
	}
	for v := range opt.Nodes {
		indptr[v+1] = max(indptr[v], indptr[v+1])
	}
	if !slices.Equal(got.Indptr, indptr) {
		t.Fatalf("indptr %v, want %v", got.Indptr, indptr)
	}
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
			chunk    int
			workers  int
		}{
			{1, 0, 1, false, 10, 1},
			{1, 7, 1, true, 3, 2},
			{2, 5, 1, false, 1, 1},
			{5, 100, 1, false, 100, 3},
			{1000, 3, 1, true, 2, 2},
			{1000, 20_000, 1, false, 9999, 2},
			{1000, 20_000, 1, true, 9999, 3},
			{1000, 20_000, 5, true, 20_000, 2},
			{1000, 20_000, 300, false, 7000, 2},
			{70_000, 90_000, 1, true, 30_000, 2},
		} {
			if invariants.Enabled && shape != "hub" {
				continue // with -race: workers do the same whatever the shape is
			}
			name := fmt.Sprintf("%s/n=%d m=%d types=%d perm=%t", shape, c.n, c.m, c.types, c.perm)
			es := randomEdges(r, c.n, c.m, c.types, shape)
			opt := Options{Nodes: c.n, Types: c.types, Permutation: c.perm, Workers: c.workers}
			t.Run(name, func(t *testing.T) {
				t.Logf("seed %d", seed)
				checkBuild(t, es, c.chunk, opt)
			})
		}
	}
}

// TestRangesWithTooManyEdgesAreSplit counts what Build allocates to sort: not more than leaves of the limit take.
func TestRangesWithTooManyEdgesAreSplit(t *testing.T) {
	seed := uint64(7)
	r := rand.New(rand.NewPCG(seed, 2))
	for _, shape := range []string{"even", "hub", "parallel", "skewed"} {
		if invariants.Enabled && shape != "hub" {
			continue // with -race: workers do the same whatever the shape is
		}
		es := randomEdges(r, 10_000, 40_000, 3, shape)
		for _, limit := range []int64{100, 1 << 12} {
			t.Run(fmt.Sprintf("%s/%d", shape, limit), func(t *testing.T) {
				t.Logf("seed %d", seed)
				var now, peak int64
				opt := Options{Nodes: 10_000, Types: 3, Permutation: true, Workers: 2, leafLimit: limit}
				opt.Alloc = func(n int64) ([]byte, func(), error) {
					now += n
					peak = max(peak, now)
					return heap(n), func() { now -= n }, nil
				}
				checkBuild(t, es, 20_000, opt)
				if most := 12 * (int64(len(es)) + 2*limit); peak > most || now != 0 {
					t.Errorf("took %d bytes of %d; %d are not freed", peak, most, now)
				}
			})
		}
	}
}

// TestWideKeysAreStoredInPart pretends that ids take so many bits that a key loses its top ones.
func TestWideKeysAreStoredInPart(t *testing.T) {
	for _, idBits := range []int{32, 36, 60} {
		es := randomEdges(rand.New(rand.NewPCG(5, 5)), 1000, 20_000, 3, "skewed")
		checkBuild(t, es, 5000, Options{Nodes: 1000, Types: 3, Permutation: true, Workers: 2, idBits: idBits})
	}
}

func TestEdgesOutOfRangeAreNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		bad  edge
		want RangeError
	}{
		{"source too large", edge{src: 10, dst: 1}, RangeError{Edge: 5, What: "source", Value: 10, Limit: 10}},
		{"source negative", edge{src: -1, dst: 1}, RangeError{Edge: 5, What: "source", Value: -1, Limit: 10}},
		{"destination too large", edge{src: 1, dst: 10}, RangeError{Edge: 5, What: "destination", Value: 10,
			Limit: 10}},
		{"destination negative", edge{src: 1, dst: -7}, RangeError{Edge: 5, What: "destination", Value: -7, Limit: 10}},
		{"type", edge{src: 1, dst: 1, typ: 2}, RangeError{Edge: 5, What: "type", Value: 2, Limit: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			es := []edge{{}, {}, {}, {}, {}, c.bad, {}}
			_, _, err := Build(context.Background(), source(es, 3, true), Options{Nodes: 10, Types: 2})
			var re *RangeError
			if !errors.As(err, &re) || *re != c.want {
				t.Errorf("got %v, want %v", err, &c.want)
			}
		})
	}
}

func TestChangingSourceIsAnError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	es := randomEdges(r, 100, 5000, 1, "even")
	for name, change := range map[string]func([]edge) []edge{
		"fewer":        func(e []edge) []edge { return e[:len(e)-1] },
		"more":         func(e []edge) []edge { return append(slices.Clone(e), edge{src: 1, dst: 1}) },
		"out of range": func(e []edge) []edge { e = slices.Clone(e); e[17].dst = 1 << 30; return e },
		"source":       func(e []edge) []edge { e = slices.Clone(e); e[17].src = 1 << 30; return e },
		"negative":     func(e []edge) []edge { e = slices.Clone(e); e[17].dst = -5; return e },
	} {
		t.Run(name, func(t *testing.T) {
			walks := 0
			src := func(yield func(Chunk) error) error {
				walks++
				if walks == 2 {
					return source(change(es), 1000, false)(yield)
				}
				return source(es, 1000, false)(yield)
			}
			if _, _, err := Build(context.Background(), src, Options{Nodes: 100}); !errors.Is(err, ErrChanged) {
				t.Errorf("got %v, want ErrChanged", err)
			}
		})
	}
}

func TestErrorsAndCancellingStop(t *testing.T) {
	es := randomEdges(rand.New(rand.NewPCG(1, 1)), 100, 5000, 1, "even")
	failure := errors.New("disk full")
	cause := errors.New("stopped by the user")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if _, _, err := Build(ctx, source(es, 100, false), Options{Nodes: 100}); !errors.Is(err, cause) {
		t.Errorf("cancelling gave %v", err)
	}
	held := 0
	opt := Options{Nodes: 100, Alloc: func(n int64) ([]byte, func(), error) {
		if held == 1 {
			return nil, nil, failure
		}
		held++
		return heap(n), func() { held-- }, nil
	}}
	if _, _, err := Build(context.Background(), source(es, 100, false), opt); !errors.Is(err, failure) || held != 0 {
		t.Errorf("the allocator's error is lost, or %d arrays are not freed: %v", held, err)
	}
	if _, _, err := Build(context.Background(), source(nil, 1, false),
		Options{Nodes: 1 << 60}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("2^60 nodes gave %v", err)
	}
}
