package prepared

import (
	"fmt"
	"math"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/unified"
)

func TestBlocksThatContradictThemselvesAreNotPrepared(t *testing.T) {
	of := func(sources, destinations int64, indptr, indices []int32) *graph.Block {
		return &graph.Block{NumSrc: sources, NumDst: destinations, Indptr: unified.FromSlice(indptr),
			Indices: unified.FromSlice(indices)}
	}
	wide := of(3, 2, []int32{0, 1, 3}, nil)
	wide.Indices = unified.FromSlice([]int64{2, 0, 2})
	for what, c := range map[string]struct {
		b    *graph.Block
		says string
	}{
		"":               {of(3, 2, []int32{0, 1, 3}, []int32{2, 0, 2}), ""},
		"without arrays": {&graph.Block{NumSrc: 3, NumDst: 2}, ""},
		"without edges":  {of(3, 2, []int32{0, 0, 0}, []int32{}), ""},
		"an index too great": {of(3, 2, []int32{0, 1, 3}, []int32{2, 0, 3}),
			"edge 2 of a block is from source 3 of 3"},
		"an index below 0": {of(3, 2, []int32{0, 1, 3}, []int32{2, -1, 2}),
			"edge 1 of a block is from source -1"},
		"an indptr that falls": {of(3, 2, []int32{0, 4, 3}, []int32{2, 0, 2}),
			"row 1 of a block begins at edge 4"},
		"an indptr too short":        {of(3, 2, []int32{0, 3}, []int32{2, 0, 2}), "its indptr has 2 elements"},
		"an indptr that begins late": {of(3, 2, []int32{1, 1, 3}, []int32{2, 0, 2}), "from 1 to 3"},
		"an indptr that ends early":  {of(3, 2, []int32{0, 1, 2}, []int32{2, 0, 2}), "3 edges, and its indptr"},
		"indices of 64 bits":         {wide, "its indices are"},
		"fewer nodes than none":      {of(-1, 2, []int32{0, 0, 0}, []int32{}), "-1 sources"},
	} {
		_, err := read(c.b)
		if c.says == "" {
			expect.That(t, err == nil, "%s: %v", what, err)
			continue
		}
		expect.Says(t, err, errs.ErrSampler, c.says, what)
	}
	b := expect.Must(read(of(2, 3, []int32{0, 0, 0, 0}, []int32{})))(t)
	_, err := b.addLoops(make([]int32, 4), make([]int32, 3))
	expect.Says(t, err, errs.ErrSampler, "2 sources and 3 destinations", "more destinations than sources")
}

// What is made of a block of which every number is known: a destination with an edge to itself, one without edges.
func TestWhatIsMadeOfABlock(t *testing.T) {
	b := expect.Must(read(&graph.Block{NumSrc: 4, NumDst: 3, Indptr: unified.FromSlice([]int32{0, 2, 2, 4}),
		Indices: unified.FromSlice([]int32{3, 0, 1, 3})}))(t)
	made := func(b *block) string {
		indptr, rows, edges := make([]int32, 5), make([]int32, len(b.indices)), make([]int32, len(b.indices))
		b.transpose(indptr, rows, edges)
		norm, degrees := make([]float32, len(b.indices)), []int32{9, 9, 9, 9}
		b.norm(norm, degrees)
		for e := range norm {
			norm[e] = float32(math.Round(float64(1 / norm[e] / norm[e]))) // the product of the degrees
		}
		return fmt.Sprint(indptr, rows, edges, norm)
	}
	got := made(b)
	expect.That(t, got == "[0 1 2 2 4] [0 2 0 2] [1 2 0 3] [4 2 2 4]", "without loops: %s", got)
	looped := expect.Must(b.addLoops(make([]int32, 4), make([]int32, 7)))(t)
	got = fmt.Sprint(looped.indptr, looped.indices)
	expect.That(t, got == "[0 2 3 6] [3 0 1 1 3 2]", "the loops: %s", got)
	got = made(looped)
	expect.That(t, got == "[0 1 3 4 6] [0 1 2 2 0 2] [1 2 3 5 0 4] [4 2 2 6 6 3]", "with loops: %s", got)
}

// Slots are used again: the transpose of a block without edges zeroes what the block before left.
func TestATransposeLeavesNothingOfTheOneBefore(t *testing.T) {
	b := expect.Must(read(&graph.Block{NumSrc: 2, NumDst: 1}))(t)
	indptr := []int32{7, 7, 7}
	b.transpose(indptr, nil, nil)
	expect.That(t, fmt.Sprint(indptr) == "[0 0 0]", "%v", indptr)
}
