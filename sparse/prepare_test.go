package sparse

import (
	"errors"
	"testing"

	"github.com/khop-gnn/khop/graph"
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
		if err := TransposeBlock(indptr, indices, edges, c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if err := NormBlock(make([]float32, c.n), make([]int32, 3), c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: norms: %v", what, err)
		}
	}
	if err := TransposeBlock(make([]int32, 4), nil, nil, &graph.Block{NumSrc: 3, NumDst: 2}); err != nil {
		t.Errorf("a block without arrays: %v", err)
	}
	var p Preparation
	if err := p.UnmarshalText([]byte("transpose,gcn-norm")); err != nil || p != Transpose|GCNNorm {
		t.Errorf("%v, %v", p, err)
	}
	if err := p.UnmarshalText([]byte("turn")); err == nil {
		t.Error("an unknown name")
	}
}
