package sampling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// oracleReversed makes the graph of docs/sampling.md, "Directions", and where its edges lie in g.
func oracleReversed(t *testing.T, g *graph.Graph, d Direction) (*graph.Graph, []int64) {
	t.Helper()
	s := *g.Schema()
	s.Nodes, s.Edges = slices.Clone(s.Nodes), slices.Clone(s.Edges)
	indptr, indices, types, at := []int64{0}, []int32{}, []uint16{}, []int64{}
	for v := range g.NumNodes() {
		for e := range s.Edges {
			add := func(end, pos int64) {
				indices, types, at = append(indices, int32(end)), append(types, uint16(e)), append(at, pos)
			}
			for _, out := range []bool{false, true} {
				for u := range g.NumNodes() { // all edges into u, from v if out
					for pos := g.Indptr()[u]; pos < g.Indptr()[u+1]; pos++ {
						loop := indexAt(g, pos) == u
						switch {
						case typeAt(g, pos) != e || s.Edges[e].Src != s.Edges[e].Dst:
						case !out && u == v && d == Both:
							add(indexAt(g, pos), pos)
						case out && indexAt(g, pos) == v && !(d == Both && loop):
							add(u, pos)
						}
					}
				}
			}
		}
		indptr = append(indptr, int64(len(indices)))
	}
	return reversedGraph(t, g, s, indptr, indices, types, at), at
}

// reversedGraph makes a graph of edges that lie at some positions of g, whose columns they have.
func reversedGraph(t *testing.T, g *graph.Graph, s graph.Schema, indptr []int64, indices []int32, types []uint16,
	at []int64) *graph.Graph {
	t.Helper()
	for e := range s.Edges {
		s.Edges[e].Count = 0
		for _, x := range types {
			s.Edges[e].Count += bitOf(int(x) == e)
		}
	}
	a := graph.Arrays{Schema: s, Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(indices),
		EdgeColumns: map[string]unified.Tensor{}}
	if len(s.Edges) > 1 {
		narrow := make([]uint8, len(types))
		for i, x := range types {
			narrow[i] = uint8(x)
		}
		a.Types = unified.FromSlice(narrow)
	}
	for _, c := range s.EdgeColumns {
		of, _ := g.EdgeColumn(c.Name)
		size, bytes := c.DType.Size(), []byte{}
		for _, pos := range at {
			bytes = append(bytes, of.Bytes()[pos*size:(pos+1)*size]...)
		}
		a.EdgeColumns[c.Name], _ = unified.New(c.DType, bytes, int64(len(at)))
	}
	for i := range s.Nodes {
		a.NodeColumns = append(a.NodeColumns, map[string]unified.Tensor{})
		for _, c := range s.Nodes[i].Columns {
			a.NodeColumns[i][c.Name], _ = g.NodeColumn(i, c.Name)
		}
	}
	return graphs.Of(t, a)
}

func bitOf(x bool) int64 { return int64(bit(x)) }

// randomDirection draws options, by which edges that cannot be followed are not.
func randomDirection(r *rand.Rand, s *graph.Schema) Neighbor {
	n := randomOptions(r, s)
	n.Direction = Direction(1 + r.IntN(2))
	switch r.IntN(3) {
	case 1:
		n = randomChoice(r, n)
	case 2:
		n = randomTimes(r, s, n)
	}
	n.Together = n.PerType == nil && n.Time.Node == "" && n.Time.RulesPerType == nil && r.IntN(4) == 0
	n.Disjoint = n.Disjoint || r.IntN(4) == 0
	for e := range s.Edges {
		if et := &s.Edges[e]; et.Src != et.Dst {
			n.Together = false
			if n.PerType == nil {
				n.PerType = map[string][]int{}
			}
			n.PerType[et.String()] = []int{0}
			delete(n.PerType, et.Relation)
		}
	}
	return n
}

// movePositions says where edges lie in the graph itself.
func movePositions(o *oracleSample, at []int64) {
	moved := map[*int64]bool{} // layers may share positions
	for l := range o.blocks {
		for e := range o.blocks[l] {
			edges := o.blocks[l][e].edge
			for i := range edges {
				if !moved[&edges[i]] {
					moved[&edges[i]] = true
					edges[i] = at[edges[i]]
				}
			}
		}
	}
}

func TestDirectionsEqualTheOracle(t *testing.T) {
	const seed = 20261204
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(100, 5000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 7}}[r.IntN(4)]
		degree := func() int { return []int{0, r.IntN(4), r.IntN(12)}[r.IntN(3)] }
		g := withColumns(t, r, sizedGraph(t, r, types[0], types[1], 12, degree))
		n := randomDirection(r, g.Schema())
		reversed, at := oracleReversed(t, g, n.Direction)
		in := n
		in.Direction = In
		runs := newEdgeRuns(reversed)
		w := expect.Must(n.Open(Env{Graph: g, BatchSize: 40, EdgePos: true}))(t)
		for batch := range uint64(2) {
			req := randomRequest(r, g.Schema(), batch)
			if n.Time.on() {
				req = randomTimedRequest(r, g, n, batch)
			}
			want := oracle(reversed, runs, in, req)
			movePositions(want, at)
			what := fmt.Sprintf("seed %d round %d batch %d: %s", seed, round, batch, n.Fingerprint())
			inner := w.(*closing).Worker.(*reversedWorker)
			compare(t, what, g, &renamed{inner, inner.Worker}, req, want)
		}
		expect.OK(t, w.Close())
	}
}

// renamed says of a worker what another says of itself.
type renamed struct {
	Worker
	as Worker
}

func (w *renamed) disjoint() bool { return w.as.(*worker[int32]).disjoint() }
func (w *renamed) timed() bool    { return w.as.(*worker[int32]).timed() }

func TestDirectionsThatBlocksCannotHaveAreRefused(t *testing.T) {
	s := graph.Schema{Nodes: []graph.NodeType{{Name: "a", Count: 2}, {Name: "b", Count: 2}}, Edges: []graph.EdgeType{
		{Source: "a", Relation: "to", Target: "b"}, {Source: "a", Relation: "knows", Target: "a"}}}
	expect.OK(t, s.Init())
	n := Neighbor{Fanouts: []int{2}, Direction: Both}
	if err := validate(n, &s); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "a:to:b") ||
		!strings.Contains(err.Error(), "--symmetrise") {
		t.Errorf("%v", err)
	}
	n.PerType = map[string][]int{"to": {0}}
	expect.OK(t, validate(n, &s))
	expect.That(t, !descriptionOf(t, n, &s).Excludes, "it excludes edges")
	expect.Is(t, validate((Neighbor{Fanouts: []int{2}, Direction: 3}), &s), ErrOptions, "direction 3")
}

// Of equal times out-edges are the most recent in both directions, wherever they lie: docs/sampling.md, "Time".
func TestOfEqualTimesOutEdgesComeAfterInEdges(t *testing.T) {
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: 3}}, Edges: []graph.EdgeData{{Src: []int64{1, 2},
		Dst: []int64{0, 1}, Columns: map[string]unified.Tensor{"time": unified.FromSlice([]int64{5, 5})}}}})
	asOf := int64(9)
	n := Neighbor{Fanouts: []int{1}, Direction: Both, Time: Temporal{Edge: "time", AsOf: &asOf, Recent: true}}
	drawBatches(t, g, n, &Request{Seeds: [][]int64{{1}}}, true, func(out *graph.Sample) bool {
		at := mustView(t, out.Blocks[0][0].EdgePos)
		expect.That(t, len(at) == 1 && at[0] == 0, "edges at %v are picked, want that at 0", at)
		return false
	})
}

// What has no meaning for a graph is refused before the first batch.
func TestTimesAndOrdersThatASamplerCannotUseAreRefused(t *testing.T) {
	s := graph.Schema{Nodes: []graph.NodeType{{Name: "a", Count: 2}}, Edges: []graph.EdgeType{{Source: "a",
		Relation: "to", Target: "a", Order: graph.ByTime}},
		EdgeColumns: []graph.Column{{Name: "time", DType: unified.Int64}}}
	expect.OK(t, s.Init())
	asOf := int64(9)
	for says, k := range map[string]Sampler{
		"options of time without a column of times": Neighbor{Fanouts: []int{2}, Time: Temporal{AsOf: &asOf}},
		"looks edges up by their source":            Node2Vec{Length: 2},
	} {
		err := validate(k, &s)
		expect.That(t, errors.Is(err, ErrOptions) && strings.Contains(err.Error(), says), "%v, want %s", err, says)
	}
}

// The index takes what Bound says that it does.
func TestTheIndexOfOutEdgesIsCounted(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	g := withColumns(t, r, sizedGraph(t, r, 1, 3, 3000, func() int { return r.IntN(40) }))
	for _, n := range []Neighbor{{Fanouts: []int{3}, Direction: Out},
		{Fanouts: []int{3}, Direction: Both, Weight: "w64"}} {
		var ledger pinned.Ledger
		env := Env{Graph: g, BatchSize: 4, Scratch: pinned.Options{Ledger: &ledger, Purpose: pinned.Scratch}}
		p := expect.Must(Prepare(context.Background(), n, env))(t)
		used, bound := ledger.Used(pinned.Scratch), boundOf(n, g.Schema(), 4).Shared
		expect.That(t, used != 0 && (used <= bound+8*pinned.HugePage || used <= bound*5/4),
			"%s: the index takes %d bytes, and %d were announced", n.Fingerprint(), used, bound)
		if err := p.(*reversed).Close(); err != nil || ledger.Used(pinned.Scratch) != 0 {
			t.Errorf("closed: %v, %d bytes are left", err, ledger.Used(pinned.Scratch))
		}
	}
}

// The first type of edges that does not exist is as wrong as any.
func TestInvalidTypesOfEdgesAreAnErrorWhereOutEdgesAreIndexed(t *testing.T) {
	a := graphs.ArraysOf(graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Name: "a", Count: 3}},
		Edges: []graph.EdgeData{{Source: "a", Relation: "x", Target: "a", Src: []int64{0}, Dst: []int64{1}},
			{Source: "a", Relation: "y", Target: "a", Src: []int64{1}, Dst: []int64{2}}}}))
	a.Types = unified.FromSlice([]uint8{0, 2})
	s := Neighbor{Fanouts: []int{All}, Direction: Out}
	err := expect.Err(Prepare(t.Context(), s, Env{Graph: graphs.Of(t, a), BatchSize: 1}))
	expect.Says(t, err, ErrGraph, "edge 1", "edges of a third type")
}
