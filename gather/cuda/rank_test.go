package cuda

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// hottestBySorting is the definition of Hottest.
func hottestBySorting[S int64 | uint32 | float64](scores []S, k int64) []int64 {
	rows := make([]int64, len(scores))
	for i := range rows {
		rows[i] = int64(i)
	}
	slices.SortStableFunc(rows, func(a, b int64) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	rows = rows[:max(min(k, int64(len(rows))), 0)]
	slices.Sort(rows)
	return rows
}

func TestHottestAreTheHighestScoresThenTheLowestRows(t *testing.T) {
	const seed = 21
	r := rand.New(rand.NewPCG(seed, 0))
	rounds := 40
	if invariants.Enabled { // no goroutine has part in it
		rounds = 8
	}
	for range rounds {
		n := r.IntN(60)
		floats, ints, counts := make([]float64, n), make([]int64, n), make([]uint32, n)
		for i := range n {
			ints[i] = r.Int64N(9) << (4 * r.IntN(12))
			counts[i] = uint32(r.IntN(4)) << r.IntN(31)
			floats[i] = math.Ldexp(float64(r.IntN(7)-3), r.IntN(200)-100)
		}
		if n > 4 {
			floats[3], floats[1], floats[2] = 0, math.Copysign(0, -1), math.Inf(1)
		}
		for _, k := range []int64{-1, 0, 1, r.Int64N(int64(n) + 1), int64(n), int64(n) + 1} {
			got, want := Hottest(floats, k), hottestBySorting(floats, k)
			expect.Ensure(t, slices.Equal(got, want), "%d of %v: %v, want %v; seed %d", k, floats, got, want, seed)
			got, want = Hottest(ints, k), hottestBySorting(ints, k)
			expect.Ensure(t, slices.Equal(got, want), "%d of %v: %v, want %v; seed %d", k, ints, got, want, seed)
			got, want = Hottest(counts, k), hottestBySorting(counts, k)
			expect.Ensure(t, slices.Equal(got, want), "%d of %v: %v, want %v; seed %d", k, counts, got, want, seed)
		}
	}
}

func TestInDegreeCountsInEdges(t *testing.T) {
	got := InDegree([]int64{5, 5, 8, 9})
	expect.That(t, slices.Equal(got, []int64{0, 3, 1}), "%v", got)
	got = InDegree(nil)
	expect.That(t, len(got) == 0, "no graph has %v", got)
}

// TestPageRankIsTheChanceToBeVisited compares with walks that are played.
func TestPageRankIsTheChanceToBeVisited(t *testing.T) {
	const seed, walks = 22, 400_000
	// 3 <- 0, 1; 0 <- 1, 2, 2; 2 <- 2; 1 has no in-edges, 4 is not connected.
	indptr, indices := []int64{0, 3, 3, 4, 6, 6}, []int64{1, 2, 2, 2, 0, 1}
	p := PageRank{Indptr: indptr, Indices: unified.FromSlice(indices), Seeds: []int64{3, 0, 3}, Damping: 0.7,
		Iterations: 3}
	scores := expect.Must(p.Scores(context.Background()))(t)
	// The score of a node is the chance that a walk stands there after the third step, where a walk that has come to a
	// node without in-edges is lost.
	r := rand.New(rand.NewPCG(seed, 0))
	stood := make([]float64, 5)
	for range walks {
		v := p.Seeds[r.IntN(3)]
		for range 3 {
			if r.Float64() >= p.Damping {
				v = p.Seeds[r.IntN(3)]
				continue
			}
			if v < 0 || indptr[v] == indptr[v+1] {
				v = -1
				continue
			}
			v = indices[indptr[v]+r.Int64N(indptr[v+1]-indptr[v])]
		}
		if v >= 0 {
			stood[v]++
		}
	}
	// A lost walk begins anew in the played walks, at the next restart, as it does in the scores: (1 - damping) of all.
	for v := range scores {
		expect.That(t, math.Abs(scores[v]-stood[v]/walks) <= 0.005, "node %d: score %.4f, visited %.4f; seed %d", v,
			scores[v], stood[v]/walks, seed)
	}
	narrow := p
	indices32 := make([]int32, len(indices))
	for e, u := range indices {
		indices32[e] = int32(u)
	}
	narrow.Indices = unified.FromSlice(indices32)
	again, err := narrow.Scores(context.Background())
	expect.That(t, err == nil && slices.Equal(again, scores), "int32 indices: %v, %v, want %v", again, err, scores)
}

func TestPageRankReportsWhatIsWrong(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("stop")
	cancel(stop)
	good := PageRank{Indptr: []int64{0, 1, 2}, Indices: unified.FromSlice([]int32{1, 0}), Seeds: []int64{1}}
	for name, c := range map[string]struct {
		change func(*PageRank)
		ctx    context.Context
		want   error
	}{
		"a seed beyond": {func(p *PageRank) { p.Seeds = []int64{1, 2} }, context.Background(), gather.ErrRange},
		"a negative source": {func(p *PageRank) { p.Indices = unified.FromSlice([]int32{-1, -1}) },
			context.Background(), gather.ErrRange},
		"too few edges": {func(p *PageRank) { p.Indices = unified.FromSlice([]int32{1}) }, context.Background(),
			unified.ErrShape},
		"edges that are floats": {func(p *PageRank) { p.Indices = unified.FromSlice([]float32{1, 0}) },
			context.Background(), unified.ErrShape},
		"a cancelled context": {func(*PageRank) {}, ctx, stop},
	} {
		p := good
		c.change(&p)
		expect.Is(t, expect.Err(p.Scores(c.ctx)), c.want, name)
	}
	s, err := (PageRank{}).Scores(context.Background())
	expect.That(t, err == nil && len(s) == 0, "no graph: %v, %v", s, err)
}

func TestCacheRowsFitTheBudget(t *testing.T) {
	column := func(n, width int64) unified.Tensor {
		return expect.Must(unified.New(unified.Float32, make([]byte, 4*n*width), n, width))(t)
	}
	for _, c := range []struct{ n, width, budget, want int64 }{
		{100, 25, 0, 0}, {100, 25, 2448, 0}, {100, 25, 2547, 0}, {100, 25, 2548, 1}, {100, 25, 11_947, 94},
		{100, 25, 11_948, 95},
		{100, 25, 12_047, 95}, {100, 25, 12_048, 100}, {100, 25, math.MaxInt64, 100}, {100, 25, math.MinInt64, 0},
		{0, 25, 100, 0},
		{100, 1, 2447, 0}, {100, 1, 2448, 100},
	} {
		if got := CacheRows(column(c.n, c.width), c.budget); got != c.want {
			t.Errorf("%d rows of %d bytes in %d bytes: %d, want %d", c.n, 4*c.width, c.budget, got, c.want)
		}
	}
}
