package sparse

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func TestEdgesInAnyOrderMakeAMatrix(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for _, edges := range []int{0, 1, 3, 400} {
		for _, sorted := range []bool{false, true} {
			targets, sources := make([]int64, edges), make([]int64, edges)
			for e := range targets {
				targets[e], sources[e] = r.Int64N(20), r.Int64N(30)
			}
			if sorted {
				slices.Sort(targets)
			}
			a, order := expect.Must2(FromEdges(20, 30, unified.FromSlice(targets), unified.FromSlice(sources)))(t)
			expect.Ensure(t, !sorted || order == nil, "%d edges that are in order have been moved", edges)
			last, seen := map[int64]int64{}, map[int64]bool{}
			for i := range int64(20) {
				for at := a.start(i); at < a.start(i+1); at++ {
					e := at
					if order != nil {
						e = order[at]
					}
					if before, ok := last[i]; targets[e] != i || a.column(at) != sources[e] || ok && e <= before {
						t.Fatalf("row %d has edge %d (%d, %d) as column %d", i, e, targets[e], sources[e], a.column(at))
					}
					last[i], seen[e] = e, true
				}
			}
			expect.Ensure(t, len(seen) == edges && a.start(20) == int64(edges), "%d of %d edges are there", len(seen),
				edges)
		}
	}
}

func TestEdgesThatMakeNoMatrixAreRefused(t *testing.T) {
	of := func(s ...int32) unified.Tensor { return unified.FromSlice(s) }
	for name, c := range map[string]struct {
		rows, cols       int64
		targets, sources unified.Tensor
		want             error
	}{
		"row out of range":    {2, 3, of(0, 2), of(0, 0), ErrMatrix},
		"column out of range": {2, 3, of(0, 1), of(0, 3), ErrMatrix},
		"negative row":        {2, 3, of(0, -1), of(0, 0), ErrMatrix},
		"negative column":     {2, 3, of(0, 1), of(-1, 0), ErrMatrix},
		"lengths":             {2, 3, of(0, 1), of(0), ErrShape},
		"dtypes":              {2, 3, of(0), unified.FromSlice([]int64{0}), ErrShape},
		"floats":              {2, 3, unified.FromSlice([]float32{0}), unified.FromSlice([]float32{0}), ErrShape},
		"negative size":       {-1, 3, of(), of(), ErrShape},
		"no rows":             {0, 3, of(0), of(0), ErrMatrix},
	} {
		_, _, err := FromEdges(c.rows, c.cols, c.targets, c.sources)
		expect.That(t, errors.Is(err, c.want), "%s: %v, not %v", name, err, c.want)
	}
}

func TestValuesAreArrangedAndBack(t *testing.T) {
	pool := open(t, 2)
	order := []int64{2, 0, 1}
	values := []float32{1, 10, 2, 20, 3, 30}
	for _, c := range []struct {
		order []int64
		want  []float32
	}{{order, []float32{3, 1, 2, 30, 10, 20}}, {nil, []float32{1, 2, 3, 10, 20, 30}}} {
		out, back := make([]float32, 6), make([]float32, 6)
		expect.OK(t, pool.Arrange(matrixOf(t, out, 2, 3), matrixOf(t, values, 3, 2), c.order))
		expect.OK(t, pool.ArrangeBack(matrixOf(t, back, 3, 2), matrixOf(t, out, 2, 3), c.order))
		expect.That(t, slices.Equal(out, c.want) && slices.Equal(back, values), "order %v: %v, and back %v", c.order,
			out, back)
	}
	err := pool.Arrange(matrixOf(t, make([]float32, 6), 3, 2), matrixOf(t, values, 3, 2), nil)
	expect.Is(t, err, ErrShape, "3 heads of 2")
}
