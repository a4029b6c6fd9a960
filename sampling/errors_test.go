package sampling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
)

// openTwoHops opens a sampler, and a sample of two layers, until the test ends.
func openTwoHops(t *testing.T, n Sampler, env Env) (Worker, *graph.Sample) {
	t.Helper()
	w := expect.Must(n.Open(env))(t)
	out := &graph.Sample{}
	(&Bound{Layers: 2}).Init(out, env.Graph.Schema(), pinned.Options{})
	t.Cleanup(func() {
		expect.OK(t, errors.Join(w.Close(), out.Close()))
	})
	return w, out
}

// damagedGraphs are arrays that contradict each other, and what sampling 2 and then all neighbours of the seeds says of
// them.
var damagedGraphs = map[string]struct {
	indptr  []int64
	indices []int32
	seeds   []int64
	want    error
	says    string
}{
	"sound":             {[]int64{0, 1, 3}, []int32{1, 0, 1}, []int64{0, 1}, nil, ""},
	"source too great":  {[]int64{0, 1, 3}, []int32{1, 0, 2}, []int64{1}, ErrGraph, "edge 2: source 2"},
	"source negative":   {[]int64{0, 1, 3}, []int32{-1, 0, 1}, []int64{0}, ErrGraph, "edge 0: source -1"},
	"indptr falls":      {[]int64{0, 3, 2, 3}, []int32{1, 0, 1}, []int64{1}, ErrGraph, "node 1"},
	"indptr beyond":     {[]int64{0, 9, 3}, []int32{1, 0, 1}, []int64{0}, ErrGraph, "node 0"},
	"indptr one beyond": {[]int64{0, 4, 3}, []int32{1, 0, 1}, []int64{0}, ErrGraph, "node 0"},
	"indptr negative":   {[]int64{0, -5, 3}, []int32{1, 0, 1}, []int64{1}, ErrGraph, "node 1"},
	"seed too great": {[]int64{0, 1, 3}, []int32{1, 0, 1}, []int64{0, 2}, graph.ErrSeed,
		`seed 1 (the first is 0) is node 2; nodes of type "node" are 0 to 1`},
	"seed negative":       {[]int64{0, 1, 3}, []int32{1, 0, 1}, []int64{-1}, graph.ErrSeed, "is node -1"},
	"no edges, one node":  {[]int64{0, 0}, []int32{}, []int64{0, 0}, nil, ""},
	"no seeds":            {[]int64{0, 1, 3}, []int32{1, 0, 1}, nil, nil, ""},
	"damage out of reach": {[]int64{0, 1, 3, 4}, []int32{0, 0, 77, 99}, []int64{0}, nil, ""},
}

func TestDamagedGraphsAreErrorsThatSayWhere(t *testing.T) {
	fanouts := []int{2, All}
	for name, c := range damagedGraphs {
		for _, s := range []Sampler{Neighbor{Fanouts: fanouts}, Labor{Fanouts: fanouts},
			Labor{Fanouts: fanouts, Poisson: true}} {
			w, out := openTwoHops(t, s, Env{Graph: graphs.CSC(t, c.indptr, c.indices), BatchSize: len(c.seeds)})
			err := w.Sample(context.Background(), seedsOf(c.seeds...), out)
			expect.Says(t, err, c.want, c.says, "%s: %s", s.Fingerprint(), name)
		}
	}
}

func TestWorkerGoesOnAfterAnError(t *testing.T) {
	g := randomGraph(t, rand.New(rand.NewPCG(5, 5)), 1, 1)
	n := Neighbor{Fanouts: []int{3, 3}}
	w, out := openTwoHops(t, n, Env{Graph: g, BatchSize: 4, EdgePos: true})
	bad := &Request{Seeds: [][]int64{{0, 1 << 40}}, Rand: NewRand(1, 0, 0, 0)}
	err := w.Sample(context.Background(), bad, out)
	expect.Ensure(t, errors.Is(err, graph.ErrSeed), "%v", err)
	good := &Request{Seeds: [][]int64{{0}}, Rand: NewRand(1, 0, 0, 0)}
	compare(t, "after an error", g, w, good, oracle(g, newEdgeRuns(g), n, good))
}

func TestRequestsThatContradictThemselvesAreRefused(t *testing.T) {
	g := citesGraph(t, []int64{0, 1, 3}, []int32{1, 0, 1})
	w := expect.Must(Neighbor{Fanouts: []int{1}}.Open(Env{Graph: g, BatchSize: 4}))(t)
	defer w.Close()
	var out graph.Sample
	(&Bound{Layers: 1}).Init(&out, g.Schema(), pinned.Options{})
	defer out.Close()
	for want, req := range map[string]*Request{
		"request of 2 node types": {Seeds: [][]int64{{0}, {0}}},
		"times of seeds of type":  {Seeds: [][]int64{{0, 1}}, Times: [][]int64{{5}}},
		"request of 1 edge types": {Seeds: [][]int64{nil}, Edges: []SeedEdges{{}}},
		"1 sources, 2 targets": {Seeds: [][]int64{nil},
			Edges: []SeedEdges{{Sources: []int64{0}, Targets: []int64{0, 1}}, {}}},
		"0 times and 2 labels": {Seeds: [][]int64{nil},
			Edges: []SeedEdges{{Sources: []int64{0}, Targets: []int64{0}, Labels: []int64{1, 1}}, {}}},
		`targets of edges paper:cites:paper: seed out of range: seed 0 (the first is 0) is node 2`: {
			Seeds: [][]int64{nil}, Edges: []SeedEdges{{Sources: []int64{0}, Targets: []int64{2}}, {}}},
	} {
		err := w.Sample(context.Background(), req, &out)
		expect.That(t, err != nil && strings.Contains(err.Error(), want), "%v, want %q", err, want)
	}
}

func TestColumnsThatASamplerReadsMustBeThere(t *testing.T) {
	g := graphs.CSC(t, []int64{0, 1, 3}, []int32{1, 0, 1})
	expect.Says(t, expect.Err(EdgeColumns(g, []string{"weight"})), ErrOptions, `"weight"`, "a column that is not there")
}

func TestAssemblerMakesWhatNeighborMakes(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 40 {
		g := randomGraph(t, r, 1+r.IntN(3), 1+r.IntN(4))
		n := Neighbor{Fanouts: []int{All, All}, Frontier: Frontier(r.IntN(2))}
		a, err := NewAssembler(Env{Graph: g, BatchSize: 4, EdgePos: true}, n.Frontier, boundOf(n, g.Schema(), 4))
		expect.OK(t, err)
		req := &Request{Seeds: make([][]int64, len(g.Schema().Nodes)), Rand: NewRand(seed, 0, 0, uint64(round))}
		req.Seeds[0] = []int64{0}
		compare(t, "all edges by hand", g, everything{a}, req, oracle(g, newEdgeRuns(g), n, req))
		a.Close()
	}
}

type everything struct{ *Assembler }

func (w everything) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	return w.Assembler.Sample(ctx, req, out, func(d *Destination, picks []int64) []int64 {
		for p := d.First; p < d.Last; p++ {
			picks = append(picks, p)
		}
		return picks
	})
}

func TestAssemblerRefusesPicksOutsideTheColumn(t *testing.T) {
	g := graphs.CSC(t, []int64{0, 1, 3}, []int32{1, 0, 1})
	a := expect.Must(NewAssembler(Env{Graph: g, BatchSize: 1}, AllNodes, Bound{Layers: 1, Nodes: 2}))(t)
	defer a.Close()
	var out graph.Sample
	(&Bound{Layers: 1}).Init(&out, g.Schema(), pinned.Options{})
	defer out.Close()
	for _, p := range []int64{-1, 1, 1 << 40} {
		err := a.Sample(context.Background(), &Request{Seeds: [][]int64{{0}}}, &out,
			func(_ *Destination, picks []int64) []int64 { return append(picks, p) })
		expect.Is(t, err, ErrOptions, "pick %d", p)
	}
}

func TestBoundIsNeverExceeded(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOf(160) {
		g := randomGraph(t, r, 1+r.IntN(3), 1+r.IntN(4))
		n := randomOptions(r, g.Schema())
		n.Disjoint = r.IntN(3) == 0
		var s Sampler = n
		if r.IntN(3) == 0 {
			l := randomLabor(r, g.Schema())
			s, n = l, Neighbor{Frontier: l.Frontier}
		}
		what := fmt.Sprintf("seed %d round %d: %s", seed, round, s.Fingerprint())
		req, size := randomRequest(r, g.Schema(), uint64(round)), 0
		for t := range req.Seeds {
			size += int(req.NumSeeds(g.Schema(), t))
		}
		ledger := &pinned.Ledger{}
		w := expect.Must(s.Open(Env{Graph: g, BatchSize: size,
			Scratch: pinned.Options{Ledger: ledger, Purpose: pinned.Scratch}}))(t)
		out, bound := sampleOf(g, s, size), boundOf(s, g.Schema(), size)
		expect.OK(t, w.Sample(context.Background(), req, out))
		nodes, edges := int64(0), out.NumEdges()
		for i, l := range out.Nodes {
			nodes += l.Len()
			if n.Disjoint && l.Len() > min(bound.Lists[i], bound.Arrays[i].Rows) {
				t.Errorf("%s: %d nodes of type %d, bound %+v", what, l.Len(), i, bound)
			}
		}
		if n.Frontier == NewNodes { // the layers share memory
			edges = 0
			for e := range out.Blocks[0] {
				edges += out.Blocks[0][e].NumEdges()
			}
		}
		expect.That(t, nodes <= bound.Nodes && edges <= bound.Edges && ledger.Peak() <= 2*bound.Scratch+64<<10,
			"%s: %d nodes, %d edges, %d bytes of scratch; bound %+v", what, nodes, edges, ledger.Peak(), bound)
		err := errors.Join(out.Close(), w.Close())
		expect.That(t, err == nil && ledger.Total() == 0, "%s: closed: %v, %d bytes are counted", what, err,
			ledger.Total())
	}
}
