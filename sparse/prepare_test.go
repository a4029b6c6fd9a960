package sparse

import (
	"math"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// prepareAll makes all arrays of a block as a loader does, with loops or without; lists without elements are no tensor.
func prepareAll(t *testing.T, b *graph.Block, looped bool) map[string]unified.Tensor {
	t.Helper()
	arrays := map[string]unified.Tensor{}
	set := func(name string, of []int32) {
		if len(of) > 0 {
			arrays[name] = unified.FromSlice(of)
		}
	}
	a, err := Block(b)
	if err == nil && looped {
		a, err = a.WithLoops()
		indptr := make([]int32, a.rows+1)
		for i := range indptr {
			indptr[i] = int32(a.start(int64(i)))
		}
		set("loops/indptr", indptr)
		set("loops/indices", a.indices32)
	}
	expect.OK(t, err)
	var sources, destinations, edges []int32
	norm := make([]float32, a.edges)
	for j := range a.cols {
		sources = append(sources, int32(len(edges)))
		for i := range a.rows {
			for e := a.start(i); e < a.start(i+1); e++ {
				if a.column(e) == j {
					destinations, edges = append(destinations, int32(i)), append(edges, int32(e))
				}
			}
		}
		for _, e := range edges[sources[j]:] {
			i := destinations[slices.Index(edges, e)]
			d := float64(a.Degree(int64(i))) * float64(len(edges)-int(sources[j]))
			norm[e] = float32(1 / math.Sqrt(d))
		}
	}
	set("transpose/indptr", append(sources, int32(len(edges))))
	set("transpose/indices", destinations)
	set("transpose/edges", edges)
	if len(norm) > 0 {
		arrays["gcn_norm"] = unified.FromSlice(norm)
	}
	return arrays
}

// TestPreparedMatricesAreThoseOfTheirBlocks, with what they keep, and without edges.
func TestPreparedMatricesAreThoseOfTheirBlocks(t *testing.T) {
	for _, b := range []*graph.Block{{NumSrc: 4, NumDst: 3, Indptr: unified.FromSlice([]int32{0, 2, 2, 4}),
		Indices: unified.FromSlice([]int32{3, 0, 1, 3})},
		{NumSrc: 2, NumDst: 1, Indptr: unified.FromSlice([]int32{0, 0}), Indices: unified.FromSlice([]int32{})}} {
		for _, looped := range []bool{false, true} {
			want, err := Block(b)
			if err == nil && looped {
				want, err = want.WithLoops()
			}
			expect.OK(t, err)
			arrays := prepareAll(t, b, looped)
			a := expect.Must(Prepared(b, func(name string) unified.Tensor { return arrays[name] }))(t)
			same := map[string]bool{"columns": slices.Equal(columns(a), columns(want)),
				"order":            slices.Equal(a.TransposeOrder(), want.TransposeOrder()),
				"back":             slices.Equal(a.order(), want.order()),
				"norms":            slices.Equal(floats(a.GCNNorm()), floats(want.GCNNorm())),
				"transposed norms": slices.Equal(floats(a.Transpose().GCNNorm()), floats(want.Transpose().GCNNorm())),
				"means":            slices.Equal(floats(a.TransposedMeans()), floats(want.TransposedMeans()))}
			if a.Edges() > 0 {
				same["memory of norms"] = &floats(a.GCNNorm())[0] == &floats(arrays["gcn_norm"])[0]
			}
			for what, is := range same {
				if !is {
					t.Errorf("%d edges, loops %v: other %s", a.Edges(), looped, what)
				}
			}
		}
	}
}

func TestPreparedArraysThatDoNotFitAreRefused(t *testing.T) {
	b := &graph.Block{NumSrc: 3, NumDst: 2, Indptr: unified.FromSlice([]int32{0, 1, 3}),
		Indices: unified.FromSlice([]int32{2, 0, 2})}
	for name, c := range map[string]struct {
		array []int32
		want  error
	}{"transpose/edges": {[]int32{0, 3, 1}, ErrMatrix}, "transpose/indices": {[]int32{0, 2, 1}, ErrMatrix},
		"transpose/indptr": {[]int32{0, 3}, ErrMatrix}, "gcn_norm": {[]int32{1, 2, 3}, ErrShape},
		"loops/indptr": {[]int32{0, 4, 3}, ErrMatrix}} {
		arrays := prepareAll(t, b, false)
		if arrays[name] = unified.FromSlice(c.array); name == "loops/indptr" {
			arrays["loops/indices"] = b.Indices
		}
		expect.Is(t, expect.Err(Prepared(b, func(name string) unified.Tensor { return arrays[name] })), c.want, name)
	}
}

// columns returns the columns of all edges.
func columns(a *Matrix) (all []int64) {
	for e := range a.edges {
		all = append(all, a.column(e))
	}
	return all
}
