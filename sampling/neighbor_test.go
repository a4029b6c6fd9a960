package sampling

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// citesGraph is plainGraph with a second edge type that has no edges, so that the first one's key counts.
func citesGraph(t testing.TB, indptr []int64, indices []int32) *graph.Graph {
	t.Helper()
	return graphs.Of(t, graph.Arrays{
		Schema: graph.Schema{
			Nodes: []graph.NodeType{{Name: "paper", Count: int64(len(indptr) - 1)}},
			Edges: []graph.EdgeType{
				{Source: "paper", Relation: "cites", Target: "paper", Count: int64(len(indices))},
				{Source: "paper", Relation: "quotes", Target: "paper"},
			},
		},
		Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(indices),
		Types: unified.FromSlice(make([]uint8, len(indices))),
	})
}

// sampleOnce opens a worker, samples, and leaves the sample to the test.
func sampleOnce(t testing.TB, g *graph.Graph, n Neighbor, req *Request, edgePos bool) *graph.Sample {
	t.Helper()
	batch := 0
	for t := range req.Seeds {
		batch += int(req.NumSeeds(g.Schema(), t))
	}
	w := expect.Must(n.Open(Env{Graph: g, BatchSize: batch, EdgePos: edgePos}))(t)
	defer w.Close()
	out := sampleOf(g, n, batch)
	t.Cleanup(func() { out.Close() })
	expect.OK(t, w.Sample(context.Background(), req, out))
	return out
}

type hex64 uint64

func (h *hex64) UnmarshalJSON(b []byte) error {
	text, err := strconv.Unquote(string(b))
	if err != nil {
		return err
	}
	v, err := strconv.ParseUint(text, 0, 64)
	*h = hex64(v)
	return err
}

func TestNeighborMakesTheKnownBatches(t *testing.T) {
	raw := expect.Must(os.ReadFile("../internal/rng/testdata/vectors.json"))(t)
	var known struct {
		Graph struct {
			Indptr  []int64
			Indices []int32
		}
		Batches []struct {
			T, Seed, Batch  hex64
			Epoch, Instance uint32
			Seeds           []int64
			Fanouts         []int
			Replace         bool
			SeedLocal       []int32 `json:"seed_local"`
			Nodes           []int32
			Blocks          []struct {
				Indptr  []int32
				Src     []int32
				EdgePos []int32 `json:"edge_pos"`
				NumDst  int64   `json:"num_dst"`
				NumSrc  int64   `json:"num_src"`
			}
		}
	}
	expect.OK(t, json.Unmarshal(raw, &known))
	expect.Ensure(t, len(known.Batches) != 0, "no known batches")
	for i, k := range known.Batches {
		g := graphs.CSC(t, known.Graph.Indptr, known.Graph.Indices)
		if k.T != 0 {
			g = citesGraph(t, known.Graph.Indptr, known.Graph.Indices)
		}
		r := NewRand(uint64(k.Seed), k.Epoch, k.Instance, uint64(k.Batch))
		out := sampleOnce(t, g, Neighbor{Fanouts: k.Fanouts, Frontier: AllNodes, Replace: k.Replace},
			&Request{Seeds: [][]int64{k.Seeds}, Rand: r}, true)
		for h, want := range k.Blocks {
			b := &out.Blocks[len(k.Blocks)-1-h][0]
			equal(t, fmt.Sprintf("batch %d hop %d indptr", i, h), b.Indptr, want.Indptr)
			equal(t, fmt.Sprintf("batch %d hop %d sources", i, h), b.Indices, want.Src)
			equal(t, fmt.Sprintf("batch %d hop %d positions", i, h), b.EdgePos, want.EdgePos)
			expect.That(t, b.NumDst == want.NumDst && b.NumSrc == want.NumSrc, "batch %d hop %d: %d x %d, want %d x %d",
				i, h, b.NumDst, b.NumSrc, want.NumDst, want.NumSrc)
		}
		nodes, _ := unified.View[int32](out.Nodes[0])
		equal(t, fmt.Sprintf("batch %d nodes", i), unified.FromSlice(nodes[:len(k.Nodes)]), k.Nodes)
		equal(t, fmt.Sprintf("batch %d seeds", i), out.SeedLocal[0], k.SeedLocal)
	}
}

func equal[T unified.Element](t *testing.T, what string, got unified.Tensor, want []T) {
	t.Helper()
	v, err := unified.View[T](got)
	expect.Ensure(t, err == nil, "%s: %v", what, err)
	expect.Ensure(t, len(v) == len(want), "%s: %d elements %v, want %d %v", what, len(v), v, len(want), want)
	for i := range v {
		if v[i] != want[i] {
			t.Fatalf("%s: element %d is %v, want %v", what, i, v[i], want[i])
		}
	}
}

func TestAllEdgeTypesTogetherEqualTheOracle(t *testing.T) {
	const seed = 20261202
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(50, 5000) {
		types := [][2]int{{1, 1}, {1, 3}, {3, 5}, {2, 9}}[r.IntN(4)]
		if round == 0 {
			types = [2]int{2, 300}
		}
		degree := func() int { return []int{0, 0, r.IntN(4), r.IntN(12), 60 + r.IntN(10)}[r.IntN(5)] }
		if round%10 == 1 { // several chunks
			degree = func() int { return []int{0, 511, 700}[r.IntN(3)] }
		}
		g := withColumns(t, r, sizedGraph(t, r, types[0], types[1], 20, degree))
		n := randomOptions(r, g.Schema())
		for n.PerType != nil {
			n = randomOptions(r, g.Schema())
		}
		kind := r.IntN(3)
		if kind == 1 {
			n = randomChoice(r, n)
		}
		for kind == 2 && n.Time.Edge == "" {
			n.Time = Temporal{}
			n = randomTimes(r, g.Schema(), n)
			n.Time.Node, n.Time.RulesPerType, n.Time.WindowPerType = "", nil, nil
		}
		if r.IntN(3) == 0 {
			n.Disjoint = true
		}
		n.Together = true
		equalsOracle(t, fmt.Sprintf("seed %d round %d", seed, round), g, n, 2, func(batch uint64) *Request {
			if kind == 2 {
				return randomTimedRequest(r, g, n, batch)
			}
			return randomRequest(r, g.Schema(), batch)
		})
	}
}

func TestAllEdgeTypesTogetherRefuseWhatTheyCannotDo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	g := withColumns(t, r, randomGraph(t, r, 2, 3))
	for _, n := range []Neighbor{{PerType: map[string][]int{"r0": {1}}}, {Fanouts: []int{1},
		Time: Temporal{Node: "born"}}} {
		n.Together = true
		expect.Is(t, validate(n, g.Schema()), ErrOptions, n.Fingerprint())
	}
	n := Neighbor{Fanouts: []int{1}, Frontier: AllNodes, Together: true}
	expect.That(t, !descriptionOf(t, n, g.Schema()).Excludes, "it excludes edges")
}

// hubs is a graph of n nodes in which node v has the in-edges that degrees says, others 3.
func hubs(t *testing.T, n int, degrees map[int]int) *graph.Graph {
	r := rand.New(rand.NewPCG(5, 6))
	indptr, indices := []int64{0}, []int32{}
	for v := range n {
		d, hub := degrees[v]
		if !hub {
			d = 3
		}
		for range d {
			indices = append(indices, int32(r.IntN(n)))
		}
		indptr = append(indptr, int64(len(indices)))
	}
	return graphs.CSC(t, indptr, indices)
}

// TestFanoutsBeyondAChunkEqualTheOracle picks many edges of a destination at once, and of several one after another.
func TestFanoutsBeyondAChunkEqualTheOracle(t *testing.T) {
	g := hubs(t, 3000, map[int]int{0: 5000, 1: 513, 2: 512, 3: 1024, 4: 1025, 5: 4096})
	runs := newEdgeRuns(g)
	for _, n := range []Neighbor{
		{Fanouts: []int{512, 2}}, {Fanouts: []int{513, 2}}, {Fanouts: []int{1023, 1024}}, {Fanouts: []int{4000}},
		{Fanouts: []int{1 << 30, 600}}, {Fanouts: []int{700}, Replace: true},
		{Fanouts: []int{600, 700}, Frontier: NewNodes},
	} {
		req := &Request{Seeds: [][]int64{{5, 0, 9, 1, 2, 3, 4}}, Rand: NewRand(7, 0, 0, 0)}
		want := oracle(g, runs, n, req)
		for name, w := range openVariants(t, g, n) {
			for range 2 {
				compare(t, fmt.Sprintf("%s: %s", n.Fingerprint(), name), g, w, req, want)
			}
			expect.OK(t, w.Close())
		}
	}
}

// TestScratchDoesNotGrowWithTheFanout: what a worker takes depends on the picks that there are, and is counted.
func TestScratchDoesNotGrowWithTheFanout(t *testing.T) {
	g := hubs(t, 1000, map[int]int{0: 5000})
	peak := func(fanout int) int64 {
		ledger := &pinned.Ledger{}
		n := Neighbor{Fanouts: []int{fanout, fanout}}
		w := expect.Must(n.Open(Env{Graph: g, BatchSize: 2, EdgePos: true,
			Scratch: pinned.Options{Ledger: ledger, Purpose: pinned.Scratch}}))(t)
		req := &Request{Seeds: [][]int64{{0, 1}}, Rand: NewRand(7, 0, 0, 0)}
		compare(t, n.Fingerprint(), g, w, req, oracle(g, newEdgeRuns(g), n, req))
		bound := boundOf(n, g.Schema(), 2).Scratch
		expect.That(t, ledger.Peak() <= 2*bound, "fan-out %d: %d bytes, the bound is %d", fanout, ledger.Peak(), bound)
		if err := w.Close(); err != nil || ledger.Total() != 0 {
			t.Errorf("fan-out %d: closed: %v, %d bytes are counted", fanout, err, ledger.Total())
		}
		return ledger.Peak()
	}
	few, all := peak(512), peak(1<<30)
	expect.That(t, all <= 2*few, "a fan-out of 2^30 takes %d bytes, one of 512 %d", all, few)
	if few, many := peak(512), peak(4000); many < few+8*4000 {
		t.Errorf("4,000 picks at once take %d bytes, 512 %d: they are not counted", many, few)
	}
	schema := g.Schema()
	if got := boundOf((Neighbor{Fanouts: []int{1 << 30}}), schema, 2).Scratch; got > 1<<20 {
		t.Errorf("the bound of a fan-out of 2^30 over %d edges is %d bytes", g.NumEdges(), got)
	}
}
