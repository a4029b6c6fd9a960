package cuda

import (
	"context"
	"fmt"
	"math"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Hottest returns the rows of the k highest scores, in ascending order of rows. Among equal scores it takes the lowest
// rows. A k beyond len(scores) means all rows, one below 1 none. Scores must not be NaN. It makes five passes over the
// scores.
func Hottest[S int64 | uint32 | float64](scores []S, k int64) []int64 {
	k = max(min(k, int64(len(scores))), 0)
	hot := make([]int64, 0, k)
	if k == 0 {
		return hot
	}
	// The k-th highest, 16 bits at a time from the highest on; equal is how many rows of exactly that score are to be
	// taken.
	var last uint64
	equal, counts := k, make([]int64, 1<<16)
	for shift := 48; shift >= 0; shift -= 16 {
		clear(counts)
		for _, s := range scores {
			if key := ordered(float64(s)); key>>(shift+16) == last>>(shift+16) {
				counts[key>>shift&0xffff]++
			}
		}
		digit := len(counts) - 1
		for ; equal > counts[digit]; digit-- {
			equal -= counts[digit]
		}
		last |= uint64(digit) << shift
	}
	for i, s := range scores {
		switch key := ordered(float64(s)); {
		case key > last:
			hot = append(hot, int64(i))
		case key == last && equal > 0:
			hot = append(hot, int64(i))
			equal--
		}
	}
	return hot
}

// ordered maps numbers to integers in the same order. The two zeros are one.
func ordered(x float64) uint64 {
	b := math.Float64bits(x + 0)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// InDegree returns the in-degree of each node as its score. indptr [n+1] is ascending.
func InDegree(indptr []int64) []int64 {
	scores := make([]int64, max(len(indptr)-1, 0))
	for v := range scores {
		scores[v] = indptr[v+1] - indptr[v]
	}
	return scores
}

// PageRank scores nodes by how often a random walk visits them. The walk begins at a random seed, goes from each node
// to the source of a random in-edge, as samplers do, and restarts with probability 1 - Damping: reverse PageRank,
// weighted by the seeds.
//
// Source: Min et al., "Graph neural network training with data tiering", KDD 2022.
type PageRank struct {
	Indptr  []int64        // [n+1]: in-edges of each node
	Indices unified.Tensor // int32 or int64 [edges], on the host: their sources
	Seeds   []int64        // nodes, in any order; one that occurs twice counts twice
	// Damping is the probability that a walk continues; 0 means 0.85.
	Damping float64
	// Iterations is the most steps from the seeds; 0 means 5. Each is a pass over the edges of
	// the nodes reached so far.
	Iterations int
}

// rankNodes is how many nodes to rank between two looks at the context.
const rankNodes = 1 << 16

// Scores returns a score for each node. It takes 16 bytes a node while it runs, and 8 after. Scores are the same on
// every machine: one goroutine adds in the order of the edges. (More goroutines, each with a part of the nodes, were
// slower.)
//
// Errors: gather.ErrRange for a seed or source that is not a node, unified.ErrShape for Indices that do not fit Indptr,
// the cause of ctx, pinned.ErrFault for a mapped file that was cut short.
func (p PageRank) Scores(ctx context.Context) ([]float64, error) {
	n := max(len(p.Indptr)-1, 0)
	if p.Damping == 0 {
		p.Damping = 0.85
	}
	if p.Iterations == 0 {
		p.Iterations = 5
	}
	for i, v := range p.Seeds {
		if v < 0 || v >= int64(n) {
			return nil, fmt.Errorf("page rank: %w: seeds[%d] is %d of %d nodes", gather.ErrRange, i, v, n)
		}
	}
	if n > 0 && (p.Indptr[0] < 0 || p.Indptr[n] > p.Indices.Len()) {
		return nil, fmt.Errorf("page rank: %w: edges %d to %d of %v", unified.ErrShape, p.Indptr[0], p.Indptr[n],
			p.Indices)
	}
	if p.Indices.DType() == unified.Int32 {
		return rank[int32](ctx, p, n)
	}
	return rank[int64](ctx, p, n)
}

func rank[I int32 | int64](ctx context.Context, p PageRank, n int) ([]float64, error) {
	var indices []I
	if p.Indices.Valid() {
		var err error
		if indices, err = unified.View[I](p.Indices); err != nil {
			return nil, fmt.Errorf("page rank: %w", err)
		}
	}
	scores, next := make([]float64, n), make([]float64, n)
	p.begin(scores, 1)
	err := pinned.Guard(func() error {
		for range p.Iterations {
			clear(next)
			p.begin(next, 1-p.Damping)
			if err := spread(ctx, p, indices, scores, next); err != nil {
				return err
			}
			scores, next = next, scores
		}
		return nil
	})
	return scores, err
}

// begin adds a walk's start with the given probability.
func (p PageRank) begin(scores []float64, probability float64) {
	each := probability / float64(max(len(p.Seeds), 1))
	for _, v := range p.Seeds {
		scores[v] += each
	}
}

// spread takes one step from every node.
func spread[I int32 | int64](ctx context.Context, p PageRank, indices []I, scores, next []float64) error {
	n := uint64(len(scores))
	for v, s := range scores {
		if v%rankNodes == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		lo, hi := p.Indptr[v], p.Indptr[v+1]
		if s == 0 || lo >= hi {
			continue
		}
		each := p.Damping * s / float64(hi-lo)
		for e, u := range indices[lo:hi] {
			if uint64(u) >= n {
				return fmt.Errorf("page rank: %w: the source of edge %d is %d of %d nodes", gather.ErrRange,
					lo+int64(e), u, n)
			}
			next[u] += each
		}
	}
	return nil
}
