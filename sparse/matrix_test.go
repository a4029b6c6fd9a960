package sparse

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func TestMatrixNamesWhatIsWrong(t *testing.T) {
	narrow := func(v ...int32) unified.Tensor { return unified.FromSlice(v) }
	wide := func(v ...int64) unified.Tensor { return unified.FromSlice(v) }
	for _, c := range []struct {
		cols            int64
		indptr, indices unified.Tensor
		want            error
		text            string
	}{
		{3, narrow(0, 1, 3), narrow(0, 2, 1), nil, ""},
		{3, narrow(0, 1, 3), narrow(0, 3, 1), ErrMatrix, "edge 1: column 3 is not one of 3"},
		{3, narrow(0, 1, 3), narrow(0, 2, -1), ErrMatrix, "edge 2: column -1"},
		{3, wide(0, 1, 3), wide(0, 2, -1<<63), ErrMatrix, "edge 2: column -9223372036854775808"},
		{3, wide(0, 1, 3), wide(1<<40, 2, 0), ErrMatrix, "edge 0: column 1099511627776"},
		{1 << 40, wide(0, 1), narrow(-5), ErrMatrix, "edge 0: column -5"},
		{3, narrow(0, 2, 1, 3), narrow(0, 2, 1), ErrMatrix, "row 1 begins at edge 2 and ends at 1"},
		{3, narrow(1, 3), narrow(0, 2, 1), ErrMatrix, "from 1 to 3"},
		{3, wide(0, 2), narrow(0, 2, 1), ErrMatrix, "from 0 to 2"},
		{0, narrow(0), narrow(), nil, ""},
		{-1, narrow(0), narrow(), ErrShape, "-1 columns"},
		{3, narrow(), narrow(), ErrShape, "indptr"},
		{3, unified.Tensor{}, narrow(), ErrShape, "indptr is none"},
		{3, narrow(0), unified.FromSlice([]uint32{}), ErrShape, "uint32"},
	} {
		_, err := New(c.cols, c.indptr, c.indices)
		expect.That(t, errors.Is(err, c.want) && (c.want == nil || strings.Contains(err.Error(), c.text)),
			"%v %v: %v, want %v: %s", c.indptr, c.indices, err, c.want, c.text)
	}
}

func TestMatricesAreViews(t *testing.T) {
	b := graph.Block{NumSrc: 4, NumDst: 2, Indptr: unified.FromSlice([]int32{0, 2, 3}),
		Indices: unified.FromSlice([]int32{1, 3, 0})}
	a, err := Block(&b)
	expect.Ensure(t, err == nil && a.Rows() == 2 && a.Cols() == 4 && a.Edges() == 3, "%v, %v", a, err)
	if unsafe.Pointer(&a.indices32[0]) != address(b.Indices) || unsafe.Pointer(&a.indptr32[0]) != address(b.Indptr) {
		t.Error("the block was copied")
	}
	b.NumDst = 3
	expect.Is(t, expect.Err(Block(&b)), ErrShape, "a block with another number of destinations")
	g, err := graph.New(graph.Data{Nodes: []graph.NodeData{{Count: 3}}, Edges: []graph.EdgeData{{Src: []int64{0, 1, 2},
		Dst: []int64{2, 2, 0}}}})
	expect.OK(t, err)
	if a, err = Whole(g); err != nil || a.Rows() != 3 || a.start(3) != 3 || a.column(0) != 2 || a.column(2) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestThinTransposesGiveTheSumsOfScaledRows: those of the transpose where the other rows of x are zero.
func TestThinTransposesGiveTheSumsOfScaledRows(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	p := drawn(r, 40, 30, 5)
	pool, scale, x := open(t, 1), make([]float32, 40), numbers(r, 40*5)
	for i := range scale {
		scale[i] = float32(r.IntN(3)) // powers of two: to multiply first or later is the same
	}
	for _, wide := range []bool{false, true} {
		a := p.matrix(t, wide, wide)
		for _, values := range []unified.Tensor{unified.FromSlice(p.values), {}} {
			thin, left := expect.Must2(a.ThinTranspose(scale, values))(t)
			got, want, scaled, edges := make([]float32, 30*5), make([]float32, 30*5), slices.Clone(x), int64(0)
			for i, v := range scale {
				for k := range 5 {
					scaled[i*5+k] *= v
				}
				if v != 0 {
					edges += a.Degree(int64(i))
				}
			}
			dx, dy := matrixOf(t, want, 30, 5), matrixOf(t, scaled, 40, 5)
			err := errors.Join(pool.SpMM(matrixOf(t, got, 30, 5), Sum, thin, left, matrixOf(t, x, 40, 5)),
				pool.SpMMBackward(dx, Sum, a, values, dy, unified.Tensor{}))
			if err := errors.Join(err, sameBits(got, want)); err != nil || thin.Edges() != edges {
				t.Errorf("wide %v: %d edges of %d, %v", wide, thin.Edges(), edges, err)
			}
		}
		_, _, err := a.ThinTranspose(scale[1:], unified.Tensor{})
		expect.That(t, errors.Is(err, ErrShape), "too few rows: %v", err)
	}
}

func TestNormsOfRowsAreEuclidean(t *testing.T) {
	p := drawn(rand.New(rand.NewPCG(7, 2)), 40, 30, 5)
	a := p.matrix(t, false, false)
	for _, values := range []unified.Tensor{unified.FromSlice(p.values), {}} {
		n := expect.Must(a.RowNorms(values))(t)
		for i, have := range n {
			want := 0.0
			for e := a.start(int64(i)); e < a.start(int64(i)+1); e++ {
				v := 1.0
				if values.Valid() {
					v = float64(p.values[e])
				}
				want += v * v
			}
			expect.That(t, math.Abs(have*have-want) <= 1e-6*want, "the norm of row %d is %g, not the root of %g", i,
				have, want)
		}
	}
	expect.Is(t, expect.Err(a.RowNorms(unified.FromSlice(p.values[1:]))), ErrShape, "too few values")
}

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
