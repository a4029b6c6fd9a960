package csc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

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
func source[T ID](edges []edge, chunk int, typed, numbered bool) Edges[T] {
	return func(yield func(Chunk[T]) error) error {
		for c := range slices.Chunk(edges, chunk) {
			var k Chunk[T]
			for _, e := range c {
				k.Src, k.Dst = append(k.Src, T(e.src)), append(k.Dst, T(e.dst))
				if typed {
					k.Types = append(k.Types, e.typ)
				}
				if numbered {
					k.Numbers = append(k.Numbers, e.num)
				}
			}
			if err := yield(k); err != nil {
				return err
			}
		}
		return nil
	}
}

type collected struct {
	indptr []int64
	edges  []edge // num only if permuted
	parts  int
}

// collect appends parts, and checks that they follow each other.
func (c *collected) add(t *testing.T, p Part, opt Options) {
	t.Helper()
	if p.FirstNode != int64(len(c.indptr)) || p.FirstEdge != int64(len(c.edges)) {
		t.Fatalf("part begins at node %d edge %d, want %d and %d", p.FirstNode, p.FirstEdge, len(c.indptr),
			len(c.edges))
	}
	c.parts++
	c.indptr = append(c.indptr, p.Indptr...)
	for i := range int(p.Edges) {
		var e edge
		if IDBytes(opt.Nodes) == 4 && opt.idBits == 0 {
			e.src = int64(view[int32](p.Indices)[i])
		} else {
			e.src = view[int64](p.Indices)[i]
		}
		switch TypeBytes(opt.Types) {
		case 1:
			e.typ = uint16(p.Types[i])
		case 2:
			e.typ = view[uint16](p.Types)[i]
		}
		if opt.Permutation {
			e.num = p.Perm.At(i)
		}
		c.edges = append(c.edges, e)
	}
}

func (c *collected) check(t *testing.T, edges []edge, opt Options) {
	t.Helper()
	want := oracle(edges)
	if len(c.indptr) != int(opt.Nodes)+1 || len(c.edges) != len(want) {
		t.Fatalf("%d indptr entries, %d edges; want %d, %d", len(c.indptr), len(c.edges), opt.Nodes+1, len(want))
	}
	if c.indptr[0] != 0 || c.indptr[opt.Nodes] != int64(len(want)) {
		t.Fatalf("indptr runs from %d to %d", c.indptr[0], c.indptr[opt.Nodes])
	}
	for v := range opt.Nodes {
		for i := c.indptr[v]; i < c.indptr[v+1]; i++ {
			c.edges[i].dst = v
		}
	}
	for i := range want {
		if !opt.Permutation {
			want[i].num = 0
		}
		if c.edges[i] != want[i] {
			t.Fatalf("position %d: %+v, want %+v", i, c.edges[i], want[i])
		}
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
			n         int64
			m, types  int
			perm, num bool
			chunk     int
			workers   int
		}{
			{1, 0, 1, false, false, 10, 1},
			{1, 7, 1, true, false, 3, 2},
			{2, 5, 1, false, false, 1, 1},
			{5, 100, 1, false, false, 100, 3},
			{1000, 3, 1, true, false, 2, 2},
			{1000, 20_000, 1, false, false, 9999, 2},
			{1000, 20_000, 1, true, false, 9999, 3},
			{1000, 20_000, 5, true, true, 20_000, 2},
			{1000, 20_000, 300, false, false, 7000, 2},
			{70_000, 90_000, 1, true, false, 30_000, 2},
		} {
			if invariants.Enabled && shape != "hub" {
				continue // with -race: workers do the same whatever the shape is
			}
			name := fmt.Sprintf("%s/n=%d m=%d types=%d perm=%t", shape, c.n, c.m, c.types, c.perm)
			es := randomEdges(r, c.n, c.m, c.types, shape)
			if c.num {
				for i := range es {
					es[i].num = int64(i) / 2 * 3
				}
			}
			opt := Options{Nodes: c.n, Types: c.types, Permutation: c.perm, Workers: c.workers}
			t.Run(name, func(t *testing.T) {
				t.Logf("seed %d", seed)
				var got collected
				part, free, err := Build(context.Background(), source[int64](es, c.chunk, c.types > 1, c.num), opt)
				if err != nil {
					t.Fatal(err)
				}
				got.add(t, part, opt)
				free()
				got.check(t, es, opt)

				got = collected{}
				if err := Stream(context.Background(), source[int32](es, c.chunk, c.types > 1, c.num), opt,
					func(p Part) error {
						got.add(t, p, opt)
						return nil
					}); err != nil {
					t.Fatal(err)
				}
				got.check(t, es, opt)
			})
		}
	}
}

// TestStreamKeepsItsMemoryLimit counts what it allocates, at limits from the least to all, on graphs that make it
// split.
func TestStreamKeepsItsMemoryLimit(t *testing.T) {
	seed := uint64(7)
	r := rand.New(rand.NewPCG(seed, 2))
	for _, shape := range []string{"even", "hub", "skewed"} {
		es := randomEdges(r, 10_000, 80_000, 3, shape)
		opt := Options{Nodes: 10_000, Types: 3, Permutation: true, Workers: 2}
		all, least := Estimate(opt, int64(len(es)))
		if least >= all {
			t.Fatalf("least %d is not below all %d", least, all)
		}
		for _, limit := range []int64{least, (least + all) / 2, all} {
			t.Run(fmt.Sprintf("%s/%d", shape, limit), func(t *testing.T) {
				var now, peak atomic.Int64
				opt := opt
				opt.MemoryLimit = limit
				opt.Alloc = func(n int64) ([]byte, func(), error) {
					if p := now.Add(n); p > peak.Load() {
						peak.Store(p)
					}
					return heap(n), func() { now.Add(-n) }, nil
				}
				var got collected
				if err := Stream(context.Background(), source[int32](es, 20_000, true, false), opt, func(p Part) error {
					got.add(t, p, opt)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				got.check(t, es, opt)
				if peak.Load() > limit || now.Load() != 0 {
					t.Errorf("took %d bytes of %d; %d are not freed", peak.Load(), limit, now.Load())
				}
				if limit == least && got.parts < 2 {
					t.Errorf("the least limit was kept in %d part: the test shows nothing", got.parts)
				}
			})
		}
	}
}

// TestWideKeysAreStoredInPart pretends that ids take so many bits that a key loses its top ones.
func TestWideKeysAreStoredInPart(t *testing.T) {
	for _, idBits := range []int{32, 36, 60} {
		es := randomEdges(rand.New(rand.NewPCG(5, 5)), 1000, 20_000, 3, "skewed")
		opt := Options{Nodes: 1000, Types: 3, Permutation: true, Workers: 2, idBits: idBits}
		var got collected
		if err := Stream(context.Background(), source[int64](es, 5000, true, false), opt, func(p Part) error {
			got.add(t, p, opt)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		got.check(t, es, opt)
	}
}

// TestSourcesMayBeOthersThanDestinations builds structures that are wider or narrower than they are high.
func TestSourcesMayBeOthersThanDestinations(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, sources := range []int64{3, 5000} {
		es := randomEdges(r, 100, 20_000, 1, "even")
		for i := range es {
			es[i].src = r.Int64N(sources)
		}
		opt := Options{Nodes: 100, Sources: sources, Permutation: true, Workers: 2}
		part, free, err := Build(context.Background(), source[int64](es, 5000, false, false), opt)
		if err != nil {
			t.Fatal(err)
		}
		var got collected
		got.add(t, part, opt)
		free()
		got.check(t, es, opt)
		es[9].src = sources
		var re *RangeError
		if _, _, err := Build(context.Background(), source[int64](es, 5000, false, false), opt); !errors.As(err, &re) ||
			re.Edge != 9 || re.Limit != sources {
			t.Errorf("source %d of %d: %v", sources, sources, err)
		}
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
			_, _, err := Build(context.Background(), source[int64](es, 3, true, false), Options{Nodes: 10, Types: 2})
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
			src := func(yield func(Chunk[int32]) error) error {
				walks++
				if walks == 2 {
					return source[int32](change(es), 1000, false, false)(yield)
				}
				return source[int32](es, 1000, false, false)(yield)
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
	if err := Stream(context.Background(), source[int32](es, 100, false, false), Options{Nodes: 100},
		func(Part) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("emit's error is lost: %v", err)
	}
	cause := errors.New("stopped by the user")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if _, _, err := Build(ctx, source[int32](es, 100, false, false), Options{Nodes: 100}); !errors.Is(err, cause) {
		t.Errorf("cancelling gave %v", err)
	}
	opt := Options{Nodes: 100, Alloc: func(int64) ([]byte, func(), error) { return nil, nil, failure }}
	if _, _, err := Build(context.Background(), source[int32](es, 100, false, false), opt); !errors.Is(err, failure) {
		t.Errorf("the allocator's error is lost: %v", err)
	}
	if err := Stream(context.Background(), source[int32](es, 100, false, false), Options{Nodes: 100, MemoryLimit: 1},
		func(Part) error { return nil }); !errors.Is(err, ErrMemory) {
		t.Errorf("a limit of one byte gave %v", err)
	}
	if _, _, err := Build(context.Background(), source[int64](nil, 1, false, false),
		Options{Nodes: 1 << 60}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("2^60 nodes gave %v", err)
	}
}
