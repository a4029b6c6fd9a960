package edgesort

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// in is in-edges of nodes, numbered through their types, as in graphs and sinks.
type in struct {
	indptr, indices []int64
	types           []byte
}

func inEdges(edges []edge, nodes int64) (g in) {
	edges = slices.Clone(edges)
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.dst, b.dst), cmp.Compare(a.typ, b.typ), cmp.Compare(a.src, b.src))
	})
	g.indptr = make([]int64, nodes+1)
	for _, e := range edges {
		g.indptr[e.dst+1]++
		g.indices, g.types = append(g.indices, e.src), append(g.types, byte(e.typ))
	}
	for v := range nodes {
		g.indptr[v+1] += g.indptr[v]
	}
	return g
}

func narrowed(ids []int64) unified.Tensor {
	list := make([]int32, len(ids))
	for i, v := range ids {
		list[i] = int32(v)
	}
	return unified.FromSlice(list)
}

// Weaving an old graph with new edges, of more nodes, gives the same as sorting all edges. An invalid graph is an
// error.
func TestWeavingIsSortingAllAtOnce(t *testing.T) {
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	old, offsets := [2]int64{40, 30}, []int64{0, 55, 100}
	var before, more, all []edge // of 0 the type of nodes 0 to 1, of 1 back
	for range 900 {
		e := edge{typ: r.Int64N(2)}
		from, to := e.typ, 1-e.typ
		isNew := r.IntN(3) == 0
		have := old
		if isNew {
			have = [2]int64{55, 45}
		}
		src, dst := r.Int64N(have[from]), r.Int64N(have[to])
		e.src, e.dst = offsets[from]+src, offsets[to]+dst
		if all = append(all, e); isNew {
			more = append(more, e)
		} else {
			before = append(before, edge{src: from*old[0] + src, dst: to*old[0] + dst, typ: e.typ})
		}
	}
	a, b, want := inEdges(before, 70), inEdges(more, 100), inEdges(all, 100)
	g := func(a in) *graph.Graph {
		n := int64(0)
		for _, x := range a.types {
			n += int64(x)
		}
		return expect.Must(graph.FromArrays(graph.Arrays{Schema: graph.Schema{
			Nodes: []graph.NodeType{{Name: "a", Count: old[0]}, {Name: "b", Count: old[1]}},
			Edges: []graph.EdgeType{{Source: "a", Relation: "to", Target: "b", Count: int64(len(a.types)) - n},
				{Source: "b", Relation: "back", Target: "a", Count: n}}},
			Indptr: unified.FromSlice(a.indptr), Indices: narrowed(a.indices), Types: unified.FromSlice(a.types)}))(t)
	}
	weave := func(ctx context.Context, g *graph.Graph) (indptr, indices, types bytes.Buffer, err error) {
		err = Weave(ctx, g, &Sorted{Offsets: offsets, EdgeTypes: 2, Indptr: unified.FromSlice(b.indptr).Bytes(),
			Indices: narrowed(b.indices).Bytes(), Types: b.types},
			Sink{Indptr: &indptr, Indices: &indices, Types: &types})
		return indptr, indices, types, err
	}
	indptr, indices, types, err := weave(t.Context(), g(a))
	expect.That(t, err == nil && bytes.Equal(indptr.Bytes(), unified.FromSlice(want.indptr).Bytes()) &&
		bytes.Equal(indices.Bytes(), narrowed(want.indices).Bytes()) && bytes.Equal(types.Bytes(), want.types),
		"seed %d: %v: other edges than of all at once", seed, err)

	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	_, _, _, err = weave(ctx, g(a))
	expect.Is(t, err, stop)
	for name, damage := range map[string]func(a *in){
		"source below 0": func(a *in) { a.indices[0] = -99 }, "source beyond": func(a *in) { a.indices[7] = 99 },
		"descending": func(a *in) { a.indptr[3] = a.indptr[4] + 1 },
		"beyond":     func(a *in) { a.indptr[69] = int64(len(a.types)) + 9 },
	} {
		bad := in{slices.Clone(a.indptr), slices.Clone(a.indices), slices.Clone(a.types)}
		damage(&bad)
		_, _, _, err := weave(t.Context(), g(bad))
		expect.Is(t, err, formats.ErrCorrupt, "%s", name)
	}
}
