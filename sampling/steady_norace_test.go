//go:build !race

package sampling

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// steadyGraph has 300 nodes of 0 to 11 in-edges with the columns that statedSamplers read.
func steadyGraph(t *testing.T) *graph.Graph {
	r := rand.New(rand.NewPCG(20261130, 0))
	e := steadyEdges(r, 300, 300, 12)
	return graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: 300}}, Edges: []graph.EdgeData{e}})
}

// steadyEdges are edges of each of so many targets, fewer than most, with columns.
func steadyEdges(r *rand.Rand, sources, targets int64, most int) (e graph.EdgeData) {
	var w []float32
	var m []uint8
	var times []int64
	for v := range targets {
		for range r.IntN(most) {
			e.Src, e.Dst = append(e.Src, r.Int64N(sources)), append(e.Dst, v)
			w, m, times = append(w, r.Float32()), append(m, uint8(r.IntN(4))), append(times, r.Int64N(50))
		}
	}
	e.Columns = map[string]unified.Tensor{"w": unified.FromSlice(w), "m": unified.FromSlice(m),
		"t": unified.FromSlice(times)}
	return e
}

// steadyRequest makes req batch number n of a sampler: the same seeds or items each time it comes.
func steadyRequest(req *Request, items Items, n int) {
	req.Rand = NewRand(1, 0, 0, uint64(n))
	if items.Count > 0 {
		req.Items[0] = int64(n) % items.Count
		return
	}
	for i := range req.Seeds[0] {
		req.Seeds[0][i] = int64(n*7+i*11) % 300
	}
}

func TestNoSamplerAllocatesOnceItsBatchesWereMade(t *testing.T) {
	g := steadyGraph(t)
	for name, s := range allSamplers() {
		t.Run(name, func(t *testing.T) {
			env := Env{Graph: g, BatchSize: 10, EdgePos: true}
			s := expect.Must(Prepare(t.Context(), s, env))(t)
			w, err := s.Open(env)
			if errors.Is(err, ErrOptions) { // its edges are none of the graph's
				env.EdgePos = false
				w, err = s.Open(env)
			}
			expect.OK(t, err)
			var out graph.Sample
			bound := boundOf(s, g.Schema(), 10)
			bound.Init(&out, g.Schema(), pinned.Options{})
			req, items, n := &Request{Seeds: [][]int64{make([]int64, 10)}}, Items{}, 0
			if d, _ := s.Describe(g.Schema(), 10); d.Items != nil {
				items = *d.Items
				req.Seeds[0], req.Items = nil, make([]int64, 1)
			} else if n, ok := s.(Neighbor); ok && n.Time.Edge != "" {
				req.Times = [][]int64{{30, 30, 30, 30, 30, 30, 30, 30, 30, 30}}
			}
			const batches = 12
			run := func() {
				steadyRequest(req, items, n%batches)
				n++
				expect.OK(t, w.Sample(context.Background(), req, &out))
			}
			for range 2 * batches {
				run()
			}
			allocs := testing.AllocsPerRun(3*batches, run)
			expect.That(t, allocs == 0, "%v allocations a batch", allocs)
			errs := []error{w.Close(), out.Close()}
			if c, ok := s.(io.Closer); ok {
				errs = append(errs, c.Close())
			}
			expect.OK(t, errors.Join(errs...))
		})
	}
}
