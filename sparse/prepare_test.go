package sparse

import (
	"errors"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func TestBlocksThatContradictThemselvesAreNotPrepared(t *testing.T) {
	block := func(indptr, indices []int32) *graph.Block {
		return &graph.Block{NumSrc: 3, NumDst: 2, Indptr: unified.FromSlice(indptr),
			Indices: unified.FromSlice(indices)}
	}
	for what, c := range map[string]struct {
		b    *graph.Block
		n    int
		want error
	}{
		"good":                 {block([]int32{0, 1, 3}, []int32{2, 0, 2}), 3, nil},
		"an index too great":   {block([]int32{0, 1, 3}, []int32{2, 0, 3}), 3, ErrMatrix},
		"an index below 0":     {block([]int32{0, 1, 3}, []int32{2, -1, 2}), 3, ErrMatrix},
		"an indptr that falls": {block([]int32{0, 4, 3}, []int32{2, 0, 2}), 3, ErrMatrix},
		"too little room":      {block([]int32{0, 1, 3}, []int32{2, 0, 2}), 2, ErrShape},
	} {
		indptr, indices, edges := make([]int32, 4), make([]int32, c.n), make([]int32, c.n)
		expect.Is(t, TransposeBlock(indptr, indices, edges, c.b), c.want, what)
		expect.Is(t, NormBlock(make([]float32, c.n), make([]int32, 3), c.b), c.want, "%s: norms", what)
	}
	expect.Is(t, TransposeBlock(make([]int32, 4), nil, nil, &graph.Block{NumSrc: 3, NumDst: 2}), nil,
		"a block without arrays")
	var p Preparation
	err := p.UnmarshalText([]byte("transpose,gcn-norm,loops"))
	expect.That(t, err == nil && p == Transpose|GCNNorm|Loops, "%v, %v", p, err)
	expect.That(t, p.UnmarshalText([]byte("turn")) != nil, "an unknown name")
}

// prepareAll makes all arrays of a block, with loops or without; lists without elements are no tensor.
func prepareAll(t *testing.T, b *graph.Block, looped bool) map[string]unified.Tensor {
	t.Helper()
	arrays, block := map[string]unified.Tensor{}, *b
	if looped {
		indptr, indices := make([]int32, b.NumDst+1), make([]int32, b.NumEdges()+b.NumDst)
		n := expect.Must(LoopBlock(indptr, indices, b))(t)
		block.Indptr, block.Indices = unified.FromSlice(indptr), unified.FromSlice(indices[:n])
		arrays["loops/indptr"], arrays["loops/indices"] = block.Indptr, block.Indices
	}
	n := block.NumEdges()
	indptr, norm, rows, edges := make([]int32, b.NumSrc+1), make([]float32, n), make([]int32, n), make([]int32, n)
	expect.OK(t, errors.Join(TransposeBlock(indptr, rows, edges, &block),
		NormBlock(norm, make([]int32, b.NumSrc), &block)))
	arrays["transpose/indptr"] = unified.FromSlice(indptr)
	if n > 0 {
		arrays["transpose/indices"], arrays["transpose/edges"] = unified.FromSlice(rows), unified.FromSlice(edges)
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
