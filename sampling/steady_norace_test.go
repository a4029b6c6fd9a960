//go:build !race

package sampling

import (
	"context"
	"errors"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

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
			if errors.Is(err, ErrOptions) { // its edges are not the graph's
				env.EdgePos = false
				w, err = s.Open(env)
			}
			expect.OK(t, err)
			out := sampleOf(g, s, 10)
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
				expect.OK(t, w.Sample(context.Background(), req, out))
			}
			for range 2 * batches {
				run()
			}
			allocs := testing.AllocsPerRun(3*batches, run)
			expect.That(t, allocs == 0, "%v allocations a batch", allocs)
			closeAll(t, w, out, s)
		})
	}
}
