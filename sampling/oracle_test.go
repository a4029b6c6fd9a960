package sampling

import (
	"bytes"
	"context"
	"fmt"
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

// oracleSample is docs/sampling.md word by word: slow, with maps, and nothing shared with the worker but package rng.
type oracleSample struct {
	nodes    [][]int64   // [node type]
	numNodes [][]int64   // [hop][node type]
	seeds    [][]int64   // [node type]
	trees    [][]int64   // [node type], as nodes; only where they are kept apart
	times    [][]int64   // [node type], as nodes; only where times matter
	blocks   [][]oracleB // [layer][edge type]
}

// rooted is a node in a tree, looked at as of a time. Where trees are not kept apart all are tree 0.
type rooted struct{ tree, id, time int64 }

// roots returns the seeds of each node type as docs/sampling.md numbers them.
func roots(s *graph.Schema, req *Request) [][]rooted {
	seeds, item := make([][]rooted, len(s.Nodes)), int64(0)
	for t, ids := range req.Seeds {
		for _, id := range ids {
			seeds[t] = append(seeds[t], rooted{item, id, 0})
			item++
		}
	}
	for e, edges := range req.Edges {
		src, dst := s.Edges[e].Src, s.Edges[e].Dst
		for i, id := range edges.Sources {
			seeds[src] = append(seeds[src], rooted{item + int64(i), id, 0})
		}
		for i, id := range edges.Targets {
			seeds[dst] = append(seeds[dst], rooted{item + int64(i), id, 0})
		}
		item += int64(len(edges.Sources))
	}
	return seeds
}

type oracleB struct {
	numSrc, numDst      int64
	indptr, local, edge []int64
}

func oracle(g *graph.Graph, runs edgeRuns, n Neighbor, req *Request) *oracleSample {
	return oracleBy(g, n, req, func(h, e int, v rooted) []int64 {
		return oraclePick(g, runs, n, req, oracleFanout(n, &g.Schema().Edges[e], h), h, e, v)
	})
}

// oracleBy is oracle for a sampler that picks otherwise. pick returns the positions that a destination picks at a hop
// of an edge type; n says the rest.
func oracleBy(g *graph.Graph, n Neighbor, req *Request, pick func(h, e int, v rooted) []int64) *oracleSample {
	s := g.Schema()
	types := func() [][]int64 { return make([][]int64, len(s.Nodes)) }
	hops := oracleHops(n)
	o := &oracleSample{nodes: types(), seeds: types(), trees: types(), times: types(), blocks: make([][]oracleB, hops)}
	local := make([]map[rooted]int64, len(s.Nodes))
	place := func(t int, v rooted) int64 {
		if !n.Disjoint {
			v.tree = 0
		}
		if at, ok := local[t][v]; ok {
			return at
		}
		at := int64(len(o.nodes[t]))
		local[t][v] = at
		o.nodes[t], o.trees[t] = append(o.nodes[t], v.id), append(o.trees[t], v.tree)
		o.times[t] = append(o.times[t], v.time)
		return at
	}
	lengths := func() (l []int64) { return lengthsOf(o.nodes) }
	for t, seeds := range roots(s, req) {
		local[t] = map[rooted]int64{}
		for _, v := range seeds {
			v.time = oracleTimeOf(g, n, req, t, v)
			o.seeds[t] = append(o.seeds[t], place(t, v))
		}
	}
	o.numNodes = append(o.numNodes, lengths())
	grown := make([]oracleB, len(s.Edges)) // with NewNodes, all hops so far
	for h := range hops {
		layer := make([]oracleB, len(s.Edges))
		for e := range s.Edges {
			et := &s.Edges[e]
			b := oracleB{indptr: []int64{0}}
			if n.Frontier == NewNodes && h > 0 {
				b = grown[e]
			}
			for i := b.numDst; i < o.numNodes[h][et.Dst]; i++ {
				v := rooted{o.trees[et.Dst][i], o.nodes[et.Dst][i], o.times[et.Dst][i]}
				for _, pos := range pick(h, e, v) {
					next := oracleNext(g, n, et.Src, pos, v)
					b.local, b.edge = append(b.local, place(et.Src, next)), append(b.edge, pos)
				}
				b.indptr = append(b.indptr, int64(len(b.local)))
			}
			b.numDst = o.numNodes[h][et.Dst]
			grown[e], layer[e] = b, b
		}
		o.numNodes = append(o.numNodes, lengths())
		for e := range layer {
			layer[e].numSrc = o.numNodes[h+1][s.Edges[e].Src]
		}
		o.blocks[hops-1-h] = layer
	}
	return o
}

// oracleNext returns what the edge at pos leads to from v.
func oracleNext(g *graph.Graph, n Neighbor, srcType int, pos int64, v rooted) rooted {
	next := rooted{v.tree, indexAt(g, pos) - g.Offset(srcType), v.time}
	if n.Time.Chain {
		next.time = oracleStep(g, n, srcType, next.id, pos, v.time)
	}
	return next
}

func lengthsOf(lists [][]int64) (l []int64) {
	for _, nodes := range lists {
		l = append(l, int64(len(nodes)))
	}
	return l
}

func oracleHops(n Neighbor) int {
	hops := len(n.Fanouts)
	for _, fanouts := range n.PerType {
		hops = max(hops, len(fanouts))
	}
	return hops
}

// oracleFanout is how many in-edges of a type a hop follows.
func oracleFanout(n Neighbor, e *graph.EdgeType, hop int) int {
	fanouts, ok := n.PerType[e.Relation]
	if !ok {
		fanouts, ok = n.PerType[e.Source+":"+e.Relation+":"+e.Target]
	}
	if !ok {
		fanouts = n.Fanouts
	}
	if hop < len(fanouts) {
		return fanouts[hop]
	}
	return 0
}

func oraclePick(g *graph.Graph, runs edgeRuns, n Neighbor, req *Request, k, h, e int, v rooted) []int64 {
	et := &g.Schema().Edges[e]
	run := runs[[2]int64{v.id + g.Offset(et.Dst), int64(e)}]
	if n.Together { // those of this type, of the picks among all
		run = nil
		for pos := g.Indptr()[v.id+g.Offset(et.Dst)]; pos < g.Indptr()[v.id+g.Offset(et.Dst)+1]; pos++ {
			run = append(run, pos)
		}
		picks := slices.Sorted(slices.Values(oraclePickOf(g, n, req, k, h, e, v, run, g.Schema().Nodes[et.Dst].Key)))
		return slices.DeleteFunc(picks, func(pos int64) bool { return typeAt(g, pos) != e })
	}
	return oraclePickOf(g, n, req, k, h, e, v, run, et.Key)
}

// oraclePickOf picks among the edges of a run, with the draws of a type.
func oraclePickOf(g *graph.Graph, n Neighbor, req *Request, k, h, e int, v rooted, run []int64, key uint64) []int64 {
	index := uint64(v.id + v.tree*g.Schema().Nodes[g.Schema().Edges[e].Dst].Count)
	if n.chooses() {
		return oracleChoose(g, n, req, k, h, e, key, index, v.time, oracleFrom(req, v.tree), run)
	}
	stream := rng.Stream(rng.StageKey(req.Rand.key, key, rng.Pick, uint8(h)), index)
	var picks []uint64
	switch {
	case k < 0:
		return run
	case k == 0:
	case n.Replace:
		picks = rng.WithReplacement(nil, stream, uint64(len(run)), uint64(k))
	default:
		picks = rng.Floyd(nil, stream, uint64(len(run)), uint64(k))
	}
	var out []int64
	for _, t := range picks {
		out = append(out, run[t])
	}
	return out
}

// edgeRuns are the positions of the in-edges by fused id and edge type.
type edgeRuns map[[2]int64][]int64

func newEdgeRuns(g *graph.Graph) edgeRuns {
	runs := edgeRuns{}
	for v := range g.NumNodes() {
		for pos := g.Indptr()[v]; pos < g.Indptr()[v+1]; pos++ {
			key := [2]int64{v, int64(typeAt(g, pos))}
			runs[key] = append(runs[key], pos)
		}
	}
	return runs
}

func indexAt(g *graph.Graph, pos int64) int64 {
	v, _ := unified.View[int32](g.Indices())
	return int64(v[pos])
}

func typeAt(g *graph.Graph, pos int64) int {
	if !g.Types().Valid() {
		return 0
	}
	if g.Types().DType() == unified.Uint8 {
		v, _ := unified.View[uint8](g.Types())
		return int(v[pos])
	}
	v, _ := unified.View[uint16](g.Types())
	return int(v[pos])
}

// randomGraph makes a graph of some node types and edge types, with isolated nodes, hubs, self-loops and parallel
// edges. Types may be empty, but for the first node type.
func randomGraph(t testing.TB, r *rand.Rand, nodeTypes, edgeTypes int) *graph.Graph {
	return sizedGraph(t, r, nodeTypes, edgeTypes, 60, func() int {
		return []int{0, 0, r.IntN(4), r.IntN(12), r.IntN(70), 60 + r.IntN(10), r.IntN(300)}[r.IntN(7)]
	})
}

// sizedGraph is randomGraph with up to most nodes of each type, and in-degrees of each node and edge type.
func sizedGraph(t testing.TB, r *rand.Rand, nodeTypes, edgeTypes int, most int64, degree func() int) *graph.Graph {
	var s graph.Schema
	total := int64(0)
	offsets := []int64{0}
	for i := range nodeTypes {
		n := 1 + r.Int64N(most)
		if i > 0 && r.IntN(8) == 0 {
			n = 0
		}
		s.Nodes = append(s.Nodes, graph.NodeType{Name: fmt.Sprintf("n%d", i), Count: n})
		total += n
		offsets = append(offsets, total)
	}
	for e := range edgeTypes {
		s.Edges = append(s.Edges, graph.EdgeType{
			Source: s.Nodes[r.IntN(nodeTypes)].Name, Relation: fmt.Sprintf("r%d", e),
			Target: s.Nodes[r.IntN(nodeTypes)].Name})
	}
	expect.OK(t, s.Init())
	indptr := []int64{0}
	var indices []int32
	var types []uint16
	for v := range total {
		for e := range s.Edges {
			et := &s.Edges[e]
			if v < offsets[et.Dst] || v >= offsets[et.Dst+1] {
				continue
			}
			d := degree() * int(min(1, s.Nodes[et.Src].Count))
			col := make([]int32, d)
			for i := range col {
				col[i] = int32(offsets[et.Src] + r.Int64N(s.Nodes[et.Src].Count))
			}
			slices.Sort(col)
			indices = append(indices, col...)
			types = append(types, slices.Repeat([]uint16{uint16(e)}, d)...)
			et.Count += int64(d)
		}
		indptr = append(indptr, int64(len(indices)))
	}
	a := graph.Arrays{Schema: s, Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(indices)}
	switch {
	case edgeTypes > 256:
		a.Types = unified.FromSlice(types)
	case edgeTypes > 1:
		t8 := make([]uint8, len(types))
		for i, x := range types {
			t8[i] = uint8(x)
		}
		a.Types = unified.FromSlice(t8)
	}
	return graphs.Of(t, a)
}

func randomOptions(r *rand.Rand, s *graph.Schema) Neighbor {
	fan := func() []int {
		f := make([]int, 1+r.IntN(3))
		for i := range f {
			f[i] = []int{-1, 0, 1, 2, 3, 5, 10, 15, 16, 17, 40, 100}[r.IntN(12)]
		}
		return f
	}
	n := Neighbor{Fanouts: fan(), Replace: r.IntN(3) == 0, Frontier: Frontier(r.IntN(2))}
	if len(s.Edges) > 1 && r.IntN(2) == 0 {
		n.PerType = map[string][]int{}
		for i := range s.Edges {
			if r.IntN(2) == 0 {
				e := &s.Edges[i]
				n.PerType[[]string{e.Relation, e.String()}[r.IntN(2)]] = fan()
			}
		}
		if r.IntN(2) == 0 && len(n.PerType) > 0 {
			n.Fanouts = nil
		}
	}
	return n
}

// equalsOracle compares all variants of n with the oracle, in some batches.
func equalsOracle(t *testing.T, what string, g *graph.Graph, n Neighbor, batches int, request func(uint64) *Request) {
	t.Helper()
	workers, runs := openVariants(t, g, n), newEdgeRuns(g)
	for batch := range batches {
		req := request(uint64(batch))
		want := oracle(g, runs, n, req)
		for name, w := range workers {
			compare(t, fmt.Sprintf("%s batch %d: %s: %s", what, batch, n.Fingerprint(), name), g, w, req, want)
		}
	}
	for _, w := range workers {
		expect.OK(t, w.Close())
	}
}

func TestNeighborEqualsTheOracle(t *testing.T) {
	const seed = 20261121
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(240, 6000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}, {2, 300}}[r.IntN(5)]
		if types[1] == 300 && round%16 != 0 {
			types = [2]int{1, 1}
		}
		g := randomGraph(t, r, types[0], types[1])
		n := randomOptions(r, g.Schema())
		n.Disjoint = r.IntN(3) == 0
		equalsOracle(t, fmt.Sprintf("seed %d round %d", seed, round), g, n, 3, func(batch uint64) *Request {
			return randomRequest(r, g.Schema(), batch)
		})
	}
}

// noEnds says that an edge type joins nobody: one of its node types is empty.
func noEnds(s *graph.Schema, e int) bool {
	return s.Nodes[s.Edges[e].Src].Count == 0 || s.Nodes[s.Edges[e].Dst].Count == 0
}

// randomRequest makes a request of nodes, one in three also of edges.
func randomRequest(r *rand.Rand, s *graph.Schema, batch uint64) *Request {
	node := func(t int) int64 { return r.Int64N(s.Nodes[t].Count) }
	req := &Request{Rand: NewRand(r.Uint64(), r.Uint32(), 0, batch), Seeds: make([][]int64, len(s.Nodes))}
	for t := range req.Seeds {
		for range min(r.Int64N(8), 8*s.Nodes[t].Count) {
			req.Seeds[t] = append(req.Seeds[t], node(t))
		}
	}
	if r.IntN(3) == 0 {
		req.Edges = make([]SeedEdges, len(s.Edges))
		for range r.IntN(8) {
			e := r.IntN(len(s.Edges))
			if noEnds(s, e) {
				continue
			}
			edges := &req.Edges[e]
			edges.Sources = append(edges.Sources, node(s.Edges[e].Src))
			edges.Targets = append(edges.Targets, node(s.Edges[e].Dst))
		}
	}
	return req
}

func TestATreeOfItsOwnIsWhatItsSeedMakesAlone(t *testing.T) {
	g := randomGraph(t, rand.New(rand.NewPCG(4, 4)), 1, 1)
	n := Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes}
	req := &Request{Seeds: [][]int64{{0}}, Rand: NewRand(1, 0, 0, 0)}
	alone := sampleOnce(t, g, n, req, true)
	n.Disjoint = true
	tree := sampleOnce(t, g, n, req, true)
	for l := range alone.Blocks {
		equal(t, "positions", tree.Blocks[l][0].EdgePos, mustView(t, alone.Blocks[l][0].EdgePos))
	}
	if a := tree.Arrays[0]; a.Name != "tree/n0" || a.Rows.Len() != tree.NumNodes[2][0] || len(alone.Arrays) != 0 {
		t.Errorf("arrays %v, and %v without trees", tree.Arrays, alone.Arrays)
	}
}

func mustView(t *testing.T, x unified.Tensor) []int32 {
	return expect.Must(unified.View[int32](x))(t)
}

func TestEndsOfSeedEdgesAreFoundByEdgeType(t *testing.T) {
	g := citesGraph(t, []int64{0, 1, 3}, []int32{1, 0, 1})
	out := sampleOnce(t, g, Neighbor{Fanouts: []int{1}, Frontier: AllNodes}, &Request{Seeds: [][]int64{{1}},
		Edges: []SeedEdges{{Sources: []int64{1, 0}, Targets: []int64{0, 0}}, {}}, Rand: NewRand(1, 0, 0, 0)}, false)
	equal(t, "seeds", out.SeedLocal[0], []int32{0, 0, 1, 1, 1})
	equal(t, "sources", out.SeedEdges[0].Source, []int32{0, 1})
	equal(t, "targets", out.SeedEdges[0].Target, []int32{1, 1})
	expect.That(t, !out.SeedEdges[1].Source.Valid(), "an edge type without seeds has ends")
}

// openVariants opens the sampler over every width of ids and every relabel table.
func openVariants(t *testing.T, g *graph.Graph, n Neighbor) map[string]Worker {
	t.Helper()
	return openEach(t, g, n, n.check, openNeighbor, openNeighbor)
}

// openEach is openVariants for a sampler that opens over both widths of ids.
func openEach[K sized](t *testing.T, g *graph.Graph, n Sampler, check func(*graph.Schema) (K, error),
	of32 func(K, Env, *assembly[int32]) (Worker, error), of64 func(K, Env, *assembly[int64]) (Worker, error),
) map[string]Worker {
	t.Helper()
	k := expect.Must(check(g.Schema()))(t)
	env := Env{Graph: g, BatchSize: 40, EdgePos: true}
	ids, _ := unified.View[int32](g.Indices())
	wide := widen(t, g.Indices())
	open := func(w Worker, err error) Worker {
		expect.OK(t, err)
		return w
	}
	narrow := open(openOver(k, env, ids, of32)).(*worker[int32])
	narrow.local = &hashMap[int32]{}
	direct := open(openOver(k, env, wide, of64)).(*worker[int64])
	direct.local = &directMap[int64]{numNodes: g.NumNodes()}
	hashed := open(openOver(k, env, wide, of64)).(*worker[int64])
	hashed.local = &hashMap[int64]{}
	return map[string]Worker{"as opened": open(n.Open(env)), "int32 hash": narrow, "int64 direct": direct,
		"int64 hash": hashed}
}

func compare(t testing.TB, what string, g *graph.Graph, w Worker, req *Request, want *oracleSample) {
	t.Helper()
	var arrays []ArrayBound
	d, ok := w.(interface {
		disjoint() bool
		timed() bool
	})
	disjoint, timed := ok && d.disjoint(), ok && d.timed()
	if disjoint {
		arrays = listArrays(g.Schema(), "tree/", unified.Int32, make([]int64, len(g.Schema().Nodes)))
	}
	if timed {
		arrays = append(arrays, listArrays(g.Schema(), "time/", unified.Int64,
			make([]int64, len(g.Schema().Nodes)))...)
	}
	got := compareWith(t, what, g, w, req, want, arrays)
	for i := range want.nodes {
		if disjoint && !slices.Equal(widen(t, got.Arrays[i].Rows), want.trees[i]) {
			t.Fatalf("%s: trees of type %d are %v, want %v", what, i, widen(t, got.Arrays[i].Rows), want.trees[i])
		}
		if at := len(got.Arrays) - len(want.nodes) + i; timed && !slices.Equal(widen(t, got.Arrays[at].Rows),
			want.times[i]) {
			t.Fatalf("%s: times of type %d are %v, want %v", what, i, got.Arrays[at].Rows, want.times[i])
		}
	}
}

// compareWith is compare for a sampler with arrays of its own, whose rows are left to the caller.
func compareWith(t testing.TB, what string, g *graph.Graph, w Worker, req *Request, want *oracleSample,
	arrays []ArrayBound) *graph.Sample {
	t.Helper()
	bound := Bound{Layers: len(want.blocks), Arrays: arrays}
	got := new(graph.Sample)
	bound.Init(got, g.Schema(), pinned.Options{})
	t.Cleanup(func() { _ = got.Close() })
	err := w.Sample(context.Background(), req, got)
	expect.Ensure(t, err == nil, "%s: %v", what, err)
	same := func(name string, got unified.Tensor, want []int64) {
		v := widen(t, got)
		expect.Ensure(t, slices.Equal(v, want), "%s: %s is %v, want %v", what, name, v, want)
	}
	for i := range want.nodes {
		same(fmt.Sprintf("nodes of type %d", i), got.Nodes[i], want.nodes[i])
		same(fmt.Sprintf("seeds of type %d", i), got.SeedLocal[i], want.seeds[i])
	}
	for h := range want.numNodes {
		if !slices.Equal(got.NumNodes[h], want.numNodes[h]) {
			t.Fatalf("%s: after %d hops %v nodes, want %v", what, h, got.NumNodes[h], want.numNodes[h])
		}
	}
	for l := range want.blocks {
		for e, b := range want.blocks[l] {
			name := fmt.Sprintf("layer %d type %d ", l, e)
			have := &got.Blocks[l][e]
			same(name+"indptr", have.Indptr, b.indptr)
			same(name+"indices", have.Indices, b.local)
			same(name+"positions", have.EdgePos, b.edge)
			expect.Ensure(t, have.NumSrc == b.numSrc && have.NumDst == b.numDst, "%s: %s%d x %d, want %d x %d", what,
				name, have.NumSrc, have.NumDst, b.numSrc, b.numDst)
		}
	}
	return got
}

// disjoint says that the worker keeps trees apart.
func (w *worker[V]) disjoint() bool { return w.forest != nil && w.forest.trees >= 0 }

// timed says that the worker looks at nodes as of times.
func (w *worker[V]) timed() bool { return w.forest != nil && w.forest.times >= 0 }

func widen(t testing.TB, x unified.Tensor) []int64 {
	t.Helper()
	if v, err := unified.View[int32](x); err == nil {
		w := make([]int64, len(v))
		for i := range v {
			w[i] = int64(v[i])
		}
		return w
	}
	v := expect.Must(unified.View[int64](x))(t)
	return slices.Clone(v)
}

func TestLayersOfNewNodesAreViewsOfOneCSC(t *testing.T) {
	g := randomGraph(t, rand.New(rand.NewPCG(3, 3)), 1, 1)
	out := sampleOnce(t, g, Neighbor{Fanouts: []int{3, 3, 3}, Frontier: NewNodes},
		&Request{Seeds: [][]int64{{0}}, Rand: NewRand(1, 0, 0, 0)}, true)
	for l := 1; l < 3; l++ {
		inner, outer := &out.Blocks[l][0], &out.Blocks[l-1][0]
		for _, pair := range [][2][]byte{{inner.Indptr.Bytes(), outer.Indptr.Bytes()},
			{inner.Indices.Bytes(), outer.Indices.Bytes()}} {
			expect.That(t, bytes.HasPrefix(pair[1], pair[0]) && (len(pair[0]) <= 0 || &pair[0][0] == &pair[1][0]),
				"layer %d is no prefix view of layer %d", l, l-1)
		}
	}
}
