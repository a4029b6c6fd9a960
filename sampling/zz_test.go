package sampling

import (
	"context"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

func BenchmarkZZ(b *testing.B) {
	const nodes, edges = 1_100_000, 7_800_000
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.3, 8, nodes-1)
	type ev struct{ d, s int32 }
	evs := make([]ev, edges)
	for i := range evs {
		evs[i] = ev{int32(z.Uint64()), int32(z.Uint64())}
	}
	idx := make([]int32, edges)
	for i := range idx {
		idx[i] = int32(i)
	}
	sort.SliceStable(idx, func(i, j int) bool { return evs[idx[i]].d < evs[idx[j]].d })
	indptr := make([]int64, nodes+1)
	ids, times := make([]int32, edges), make([]int64, edges)
	for p, i := range idx {
		ids[p], times[p] = evs[i].s, int64(i)
		indptr[evs[i].d+1]++
	}
	for v := range nodes {
		indptr[v+1] += indptr[v]
	}
	g := graphs.Of(b, graph.Arrays{Schema: graph.Schema{
		Nodes:       []graph.NodeType{{Name: "n", Count: nodes}},
		Edges:       []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: edges, Order: graph.ByTime}},
		EdgeColumns: []graph.Column{{Name: "time", DType: unified.Int64}},
	}, Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(ids),
		EdgeColumns: map[string]unified.Tensor{"time": unified.FromSlice(times)}})
	for name, s := range map[string]Sampler{
		"near":     Neighbor{Fanouts: []int{20}, Disjoint: true, Time: Temporal{Edge: "time", Recent: true}},
		"latest":   Sequence{Length: 20, Of: Neighbor{Fanouts: []int{20}, Disjoint: true, Time: Temporal{Edge: "time", Recent: true}}},
		"hops":     Sequence{Length: 64, Of: Neighbor{Fanouts: []int{10, 10}, Disjoint: true}},
		"nearhops": Neighbor{Fanouts: []int{10, 10}, Disjoint: true},
	} {
		b.Run(name, func(b *testing.B) {
			w := expect.Must(s.Open(Env{Graph: g, BatchSize: 600, EdgePos: false}))(b)
			defer w.Close()
			out := sampleOf(g, s, 600)
			defer out.Close()
			seeds, at := make([]int64, 600), make([]int64, 600)
			b.ResetTimer()
			for i := range b.N {
				b.StopTimer()
				for k := range seeds {
					e := edges/2 + (i*200+k%200)%(edges/2)
					seeds[k], at[k] = int64(evs[e].d), int64(edges/2+(i*200)%(edges/2))
					if k >= 200 {
						seeds[k] = int64(evs[e].s)
					}
					if k >= 400 {
						seeds[k] = r.Int64N(nodes)
					}
				}
				b.StartTimer()
				req := Request{Seeds: [][]int64{seeds}, Times: [][]int64{at}, Rand: NewRand(1, 0, 0, uint64(i))}
				expect.OK(b, w.Sample(context.Background(), &req, out))
			}
		})
	}
}
