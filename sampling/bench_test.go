package sampling

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// powerLaw makes a graph of n nodes and about m edges, in huge pages: in-degree and popularity as a source both fall
// with the square root of a random rank.
func powerLaw(b *testing.B, n, m int) *graph.Graph {
	b.Helper()
	perm := rng.NewPermutation(1, uint64(n))
	alloc := func(bytes int) []byte {
		r := expect.Must(pinned.Allocate(int64(bytes), pinned.Options{}))(b)
		b.Cleanup(func() { r.Close() })
		return r.Bytes()
	}
	ptr := expect.Must(unified.New(unified.Int64, alloc(8*(n+1)), int64(n+1)))(b)
	indptr, _ := unified.View[int64](ptr)
	cumulative := func(rank uint64) int64 {
		const c = 5.0
		root := func(x float64) float64 { return math.Sqrt(x+c) - math.Sqrt(c) }
		return int64(float64(m) * root(float64(rank)) / root(float64(n)))
	}
	for v := range n {
		r := perm.At(uint64(v))
		indptr[v+1] = indptr[v] + cumulative(r+1) - cumulative(r)
	}
	m = int(indptr[n])
	idx := expect.Must(unified.New(unified.Int32, alloc(4*m), int64(m)))(b)
	indices, _ := unified.View[int32](idx)
	byRank := make([]int32, n)
	for v := range n {
		byRank[perm.At(uint64(v))] = int32(v)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for v := range n {
		col := indices[indptr[v]:indptr[v+1]]
		for i := range col {
			u := r.Float64()
			col[i] = byRank[int(u*u*float64(n))]
		}
		slices.Sort(col)
	}
	return graphs.Of(b, graph.Arrays{
		Schema: graph.Schema{
			Nodes: []graph.NodeType{{Name: "node", Count: int64(n)}},
			Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: int64(m)}},
		},
		Indptr: ptr, Indices: idx,
	})
}

func BenchmarkNeighbor(b *testing.B) {
	g := powerLaw(b, 2_449_029, 123_718_280)
	for _, f := range []Frontier{AllNodes, NewNodes} {
		b.Run("products/frontier="+f.String(), func(b *testing.B) {
			benchNeighbor(b, g, Neighbor{Fanouts: []int{15, 10, 5}, Frontier: f})
		})
	}
}

func benchNeighbor(b *testing.B, g *graph.Graph, s Neighbor) {
	w := expect.Must(s.Open(Env{Graph: g, BatchSize: 1024}))(b)
	defer w.Close()
	out := new(graph.Sample)
	(&Bound{Layers: len(s.Fanouts)}).Init(out, g.Schema(), pinned.Options{})
	defer out.Close()
	perm := rng.NewPermutation(7, uint64(g.NumNodes()))
	seeds := make([]int64, 1024)
	edges, nodes := int64(0), int64(0)
	run := func(batch int) {
		for i := range seeds {
			seeds[i] = int64(perm.At((uint64(batch)*1024 + uint64(i)) % uint64(g.NumNodes())))
		}
		req := Request{Seeds: [][]int64{seeds}, Rand: NewRand(1, 0, 0, uint64(batch))}
		expect.OK(b, w.Sample(context.Background(), &req, out))
		edges += out.NumEdges()
		nodes += out.NumNodes[len(s.Fanouts)][0]
	}
	for i := range 5 {
		run(i)
	}
	edges, nodes = 0, 0
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		run(i)
	}
	b.ReportMetric(float64(edges)/float64(b.N), "edges/op")
	b.ReportMetric(float64(nodes)/float64(b.N), "nodes/op")
}

// withWeights gives the edges of a graph weights between 0 and 1, float32.
func withWeights(b *testing.B, g *graph.Graph) *graph.Graph {
	b.Helper()
	region, err := pinned.Allocate(4*g.NumEdges(), pinned.Options{})
	expect.OK(b, err)
	b.Cleanup(func() { region.Close() })
	w := expect.Must(unified.New(unified.Float32, region.Bytes(), g.NumEdges()))(b)
	to, _ := unified.View[float32](w)
	for i := range to {
		to[i] = rng.Float32(rng.Draw(9, uint64(i)))
	}
	a := graphs.ArraysOf(g)
	a.Schema.EdgeColumns = []graph.Column{{Name: "weight", DType: unified.Float32}}
	a.EdgeColumns["weight"] = w
	return graphs.Of(b, a)
}

func BenchmarkNeighborByWeight(b *testing.B) {
	g := withWeights(b, powerLaw(b, 1_000_000, 50_000_000))
	for _, n := range []Neighbor{{}, {Weight: "weight"}, {Weight: "weight", Replace: true}} {
		n.Fanouts = []int{15, 10, 5}
		b.Run(n.Fingerprint(), func(b *testing.B) { benchNeighbor(b, g, n) })
	}
}

// BenchmarkNeighborByTimesOfNodes samples of hubs, whose in-edges come from nodes in order of time, as of the middle:
// all in-edges are looked at, unless the schema says that nodes ascend.
func BenchmarkNeighborByTimesOfNodes(b *testing.B) {
	for name, at := range map[string]Temporal{"uniform": {}, "recent": {Recent: true}, "half-life": {HalfLife: 1000}} {
		for _, degree := range []int64{10, 100, 10_000, 1_000_000} {
			for _, ascending := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/degree=%d/ascending=%t", name, degree, ascending), func(b *testing.B) {
					benchTimesOfNodes(b, at, degree, ascending)
				})
			}
		}
	}
}

// hubsOfRows is a graph of 8 hubs that have all rows of a table as in-edges: row i is of time i.
func hubsOfRows(t testing.TB, degree int64, ascending bool) *graph.Graph {
	const hubs = 8
	times, sources := make([]int64, degree), make([]int32, hubs*degree)
	indptr := make([]int64, hubs+degree+1)
	for i := range degree {
		times[i] = i
	}
	for i := range sources {
		sources[i] = hubs + int32(int64(i)%degree)
	}
	for v := range indptr {
		indptr[v] = min(int64(v), hubs) * degree
	}
	return graphs.Of(t, graph.Arrays{
		Schema: graph.Schema{
			Nodes: []graph.NodeType{{Name: "hub", Count: hubs}, {Name: "row", Count: degree, Columns: []graph.Column{
				{Name: "time", DType: unified.Int64, Ascending: ascending}}}},
			Edges: []graph.EdgeType{{Source: "row", Relation: "of", Target: "hub", Count: hubs * degree}},
		},
		Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(sources),
		NodeColumns: []map[string]unified.Tensor{nil, {"time": unified.FromSlice(times)}},
	})
}

// BenchmarkNeighborByWindows samples of hubs of 10^5 in-edges with trees apart: one window for all, or one each.
func BenchmarkNeighborByWindows(b *testing.B) {
	const degree = 100_000
	for _, ascending := range []bool{true, false} {
		for _, recent := range []bool{false, true} {
			for _, each := range []bool{false, true} {
				at := Temporal{Recent: recent}
				if !each {
					at.Window = []int64{degree / 8}
				}
				b.Run(fmt.Sprintf("sorted=%v,recent=%v,each=%v", ascending, recent, each), func(b *testing.B) {
					benchHubs(b, Neighbor{Fanouts: []int{64}, Time: at, Disjoint: true}, degree, ascending, each)
				})
			}
		}
	}
}

func benchTimesOfNodes(b *testing.B, at Temporal, degree int64, ascending bool) {
	benchHubs(b, Neighbor{Fanouts: []int{64}, Time: at}, degree, ascending, false)
}

// benchHubs samples of hubs; windows says that each seed has one, of an eighth of the times.
func benchHubs(b *testing.B, s Neighbor, degree int64, ascending, windows bool) {
	const hubs = 8
	g := hubsOfRows(b, degree, ascending)
	s.Time.Node = "time"
	w := expect.Must(s.Open(Env{Graph: g, BatchSize: 512}))(b)
	defer w.Close()
	out := sampleOf(g, s, 512)
	defer out.Close()
	seeds, asOf, from := make([]int64, 512), make([]int64, 512), make([]int64, 512)
	for i := range seeds {
		seeds[i], asOf[i] = int64(i)%hubs, degree/2+int64(i)*degree/2048
		from[i] = asOf[i] - degree/8
	}
	b.ResetTimer()
	for i := range b.N {
		req := Request{Seeds: [][]int64{seeds, nil}, Times: [][]int64{asOf, nil}, Rand: NewRand(1, 0, 0, uint64(i))}
		if windows {
			req.From = [][]int64{from, nil}
		}
		expect.OK(b, w.Sample(context.Background(), &req, out))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/512, "ns/seed")
}

func BenchmarkWalk(b *testing.B) {
	g := powerLaw(b, 2_000_000, 40_000_000)
	for _, k := range []Sampler{Walk{Length: 20, PerSeed: 1}, Walk{Length: 20, Restart: 0.1},
		Node2Vec{Length: 20, P: 0.25, Q: 4}, Node2Vec{Length: 20, P: 4, Q: 0.5}} {
		b.Run(k.Fingerprint(), func(b *testing.B) {
			benchmarkSampler(b, g, k, 1024, func(out *graph.Sample) int64 { return out.Arrays[0].Rows.Len() * 20 })
		})
	}
}

// benchmarkSampler samples batches of random seeds, and says what one piece of work takes.
func benchmarkSampler(b *testing.B, g *graph.Graph, k Sampler, seeds int, work func(*graph.Sample) int64) {
	w := expect.Must(k.Open(Env{Graph: g, BatchSize: seeds}))(b)
	defer w.Close()
	out := sampleOf(g, k, seeds)
	defer out.Close()
	ids := make([]int64, seeds)
	n := uint64(g.NumNodes())
	sample := func(batch int) {
		draws := NewRand(1, 0, 0, uint64(batch)).Stage(0, PurposePick, 0).Stream(0)
		for i := range ids {
			ids[i] = int64(draws.IntN(uint64(i), n))
		}
		req := &Request{Seeds: [][]int64{ids}, Rand: NewRand(2, 0, 0, uint64(batch))}
		expect.OK(b, w.Sample(context.Background(), req, out))
	}
	for i := range 5 {
		sample(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	total := int64(0)
	for i := range b.N {
		sample(i + 5)
		total += work(out)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(total), "ns/step")
}
