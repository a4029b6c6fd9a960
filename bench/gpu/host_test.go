package gpu

import (
	"flag"
	"math/bits"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

var hostGraph = flag.String("host.graph", "", "dataset of the benchmark of samplers that run on the CPU alone")

// pushes is what the pushes of PPR's roots ask for, with its defaults: of a batch, and of the root with the longest
// chain of waits.
type pushes struct{ nodes, pushes, edges, chunks, lookups, slots, longest int64 }

// BenchmarkHost measures PPR and Full, whose figures model.py has (HOST).
func BenchmarkHost(b *testing.B) {
	if *hostGraph == "" {
		b.Skip("-host.graph names no dataset")
	}
	ds := expect.Must(formats.Open(*hostGraph))(b)
	defer ds.Close()
	g := ds.Graph()
	b.Run("ppr", func(b *testing.B) {
		benchHost(b, g, sampling.PPR{Neighbors: 32, Alpha: 0.15, Epsilon: 0.0001})
		p := countPushes(b, g)
		for name, v := range map[string]int64{"nodes": p.nodes, "pushes": p.pushes, "edges": p.edges,
			"chunks": p.chunks, "lookups": p.lookups, "slots": p.slots, "longest": p.longest} {
			b.ReportMetric(float64(v), name)
		}
	})
	b.Run("full", func(b *testing.B) { benchHost(b, g, sampling.Full{}) })
}

// benchHost makes batches of 1,024 seeds, or of items.
func benchHost(b *testing.B, g *graph.Graph, s sampling.Sampler) {
	const seeds = 1024
	said := expect.Must(s.Describe(g.Schema(), seeds))(b)
	w := expect.Must(s.Open(sampling.Env{Graph: g, BatchSize: seeds}))(b)
	defer w.Close()
	var out graph.Sample
	said.Bound.Init(&out, g.Schema(), pinned.Options{})
	defer out.Close()
	nodes, edges := 0.0, 0.0
	for batch := uint64(1); b.Loop(); batch++ {
		expect.OK(b, w.Sample(b.Context(), hostRequest(g, said, seeds, batch), &out))
		nodes, edges = nodes+float64(out.Nodes[0].Len()), edges+float64(out.Blocks[0][0].NumEdges())
	}
	b.ReportMetric(nodes/float64(b.N), "nodes/op")
	b.ReportMetric(edges/float64(b.N), "edges/op")
}

// hostRequest asks for seeds spread over the nodes, or for an item.
func hostRequest(g *graph.Graph, said sampling.Description, seeds int64, batch uint64) *sampling.Request {
	req := &sampling.Request{Seeds: make([][]int64, 1), Rand: sampling.NewRand(1, 0, 0, batch)}
	if said.Items != nil {
		req.Items = []int64{int64(batch) % (said.Items.Count / 2)}
		return req
	}
	for i := range seeds {
		req.Seeds[0] = append(req.Seeds[0], (i*g.NumNodes()/seeds+int64(batch))%g.NumNodes())
	}
	return req
}

// countPushes pushes as docs/sampling.md has it, and counts. A chunk is 32 edges that a warp reads at once; a look-up
// the degree of a node that has enough to push; a wait one of the bus, for a chunk or its look-ups.
func countPushes(b *testing.B, g *graph.Graph) (all pushes) {
	const unit = 1 << 52
	alpha, spread := 0.15, 0.0001
	part, least := uint64(alpha*(1<<32)), uint64(spread*unit)
	indptr, indices := g.Indptr(), expect.Must(unified.View[int32](g.Indices()))(b)
	for i := range int64(1024) {
		root := int32((i*g.NumNodes()/1024 + 1) % g.NumNodes())
		residual, waiting, queue := map[int32]uint64{root: unit}, map[int32]bool{}, []int32{root}
		waits := int64(1)
		for len(queue) > 0 {
			v := queue[0]
			queue, waiting[v] = queue[1:], false
			r, column := residual[v], indices[indptr[v]:indptr[v+1]]
			residual[v] = 0
			all.pushes++
			hi, lo := bits.Mul64(r, part)
			portion := (r - hi<<32 - lo>>32) / max(1, uint64(len(column)))
			if portion == 0 {
				continue
			}
			all.edges += int64(len(column))
			for at, u := range column {
				if at%32 == 0 {
					all.chunks++
					waits += 2
				}
				residual[u] += portion
				if waiting[u] || residual[u] < least {
					continue
				}
				all.lookups++
				if residual[u]/max(1, uint64(indptr[u+1]-indptr[u])) >= least {
					waiting[u], queue = true, append(queue, u)
				}
			}
		}
		all.nodes += int64(len(residual))
		all.slots += 1 << bits.Len64(uint64(2*len(residual)))
		all.longest = max(all.longest, waits)
	}
	return all
}
