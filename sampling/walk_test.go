package sampling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// oracleLists are the node lists of a batch, by docs/sampling.md: seeds first, the rest in order of appearance.
type oracleLists struct {
	g     *graph.Graph
	nodes [][]int64
	local []map[int64]int64
	seeds [][]int64
}

func newOracleLists(g *graph.Graph, req *Request) *oracleLists {
	n := len(g.Schema().Nodes)
	o := &oracleLists{g: g, nodes: make([][]int64, n), local: make([]map[int64]int64, n), seeds: make([][]int64, n)}
	for t, seeds := range roots(g.Schema(), req) {
		o.local[t] = map[int64]int64{}
		for _, v := range seeds {
			o.seeds[t] = append(o.seeds[t], o.place(t, v.id))
		}
	}
	return o
}

func (o *oracleLists) place(t int, id int64) int64 {
	if at, ok := o.local[t][id]; ok {
		return at
	}
	o.local[t][id] = int64(len(o.nodes[t]))
	o.nodes[t] = append(o.nodes[t], id)
	return o.local[t][id]
}

func (o *oracleLists) typeOf(fused int64) int {
	t := 0
	for fused >= o.g.Offset(t+1) {
		t++
	}
	return t
}

// oracleWalk is docs/sampling.md, "Random walks": the fused ids of a walk and the positions of its edges.
func oracleWalk(g *graph.Graph, k walkRules, r Rand, root int64, own uint64, walk int) (nodes, edges []int64) {
	s := g.Schema()
	draw := func(key uint64, p rng.Purpose, i int) uint64 {
		return rng.Draw(rng.Stream(rng.StageKey(r.key, key, p, uint8(walk)), own), uint64(i))
	}
	nodes = []int64{root}
	at, phase := root, 0
	for i := range k.length {
		jump := false
		if k.restart > 0 || k.stop > 0 {
			u := rng.Float64(draw(0, 10, i))
			if u < k.stop {
				break
			}
			jump = u < k.stop+k.restart
		}
		key := uint64(0)
		var in []int64
		for pos := g.Indptr()[at]; pos < g.Indptr()[at+1]; pos++ {
			if len(k.path) == 0 || typeAt(g, pos) == k.path[phase%len(k.path)] {
				in = append(in, pos)
			}
		}
		if len(k.path) > 0 {
			key = s.Edges[k.path[phase%len(k.path)]].Key
		}
		if len(in) == 0 && !jump {
			if k.restart == 0 || at == root {
				break
			}
			jump = true
		}
		phase++
		if jump {
			at, phase = root, 0
			edges = append(edges, -1)
		} else {
			pos := in[rng.Bounded(draw(key, rng.Walk, i), uint64(len(in)))]
			at = indexAt(g, pos)
			edges = append(edges, pos)
		}
		nodes = append(nodes, at)
	}
	return nodes, edges
}

// oracleNode2Vec is the same for walks of second order.
func oracleNode2Vec(g *graph.Graph, k walkRules, r Rand, root int64, own uint64, walk int) (nodes, edges []int64) {
	picks := rng.Stream(rng.StageKey(r.key, 0, rng.Walk, uint8(walk)), own)
	accept := rng.Stream(rng.StageKey(r.key, 0, 11, uint8(walk)), own)
	nodes = []int64{root}
	at, before := root, int64(-1)
	for i := range k.length {
		from, d := g.Indptr()[at], uint64(g.Indptr()[at+1]-g.Indptr()[at])
		if d == 0 {
			break
		}
		pos := from + int64(rng.Bounded(rng.Draw(picks, uint64(i)), d))
		if i > 0 {
			pos = oracleBiased(g, k, picks, accept, uint64(i), at, before)
		}
		before, at = at, indexAt(g, pos)
		nodes, edges = append(nodes, at), append(edges, pos)
	}
	return nodes, edges
}

func oracleBiased(g *graph.Graph, k walkRules, picks, accept, step uint64, at, before int64) int64 {
	weight := func(pos int64) float64 {
		x := indexAt(g, pos)
		if x == before {
			return 1 / k.p
		}
		for p := g.Indptr()[before]; p < g.Indptr()[before+1]; p++ {
			if indexAt(g, p) == x {
				return 1
			}
		}
		return 1 / k.q
	}
	var in, back []int64
	for pos := g.Indptr()[at]; pos < g.Indptr()[at+1]; pos++ {
		in = append(in, pos)
		if indexAt(g, pos) == before {
			back = append(back, pos)
		}
	}
	most, d := max(1, 1/k.q), float64(len(in))
	area, extra := d*most, 0.0
	if 1/k.p > most {
		extra = float64(len(back)) * (1/k.p - most)
	}
	for try := range uint64(64) {
		pos := in[rng.Bounded(rng.Draw(picks, try<<32|step), uint64(len(in)))]
		y := rng.Float64(rng.Draw(accept, try<<32|step)) * (area + extra)
		if y >= area && extra > 0 {
			return back[min(len(back)-1, int(float64(len(back))*((y-area)/extra)))]
		}
		if y/d < weight(pos) {
			return pos
		}
	}
	sum, target := 0.0, 0.0
	for _, pos := range in {
		sum += weight(pos)
	}
	target = rng.Float64(rng.Draw(accept, 64<<32|step)) * sum
	sum = 0
	for _, pos := range in {
		if sum += weight(pos); sum > target {
			return pos
		}
	}
	return in[len(in)-1]
}

func randomWalk(r *rand.Rand, s *graph.Schema) Sampler {
	k := Walk{Length: 1 + r.IntN(12), PerSeed: r.IntN(4), Edges: r.IntN(2) == 0}
	switch r.IntN(3) {
	case 0:
		p := []float64{0, 1, 0.25, 4, 1e-4, 1e4}
		return Node2Vec{Length: k.Length, PerSeed: k.PerSeed, Edges: k.Edges, P: p[r.IntN(6)], Q: p[r.IntN(6)]}
	case 1:
		k.Restart, k.Stop = []float64{0, 0.1, 0.5}[r.IntN(3)], []float64{0, 0.1, 0.3, 0.5}[r.IntN(4)]
	}
	if r.IntN(2) == 0 { // a path that closes, where there is one
		e := r.IntN(len(s.Edges))
		k.Metapath = []string{s.Edges[e].String()}
		for range 6 {
			if validate(k, s) == nil {
				return k
			}
			k.Metapath = k.Metapath[:1]
			for at := e; len(k.Metapath) < 5; {
				next := r.IntN(len(s.Edges))
				if s.Edges[next].Dst == s.Edges[at].Src {
					at = next
					k.Metapath = append(k.Metapath, s.Edges[at].String())
				} else if r.IntN(4) == 0 {
					break
				}
			}
		}
		k.Metapath = nil
	}
	return k
}

func rulesOf(t testing.TB, k Sampler, s *graph.Schema) walkRules {
	t.Helper()
	var p walkRules
	var err error
	if w, ok := k.(Walk); ok {
		p, err = w.rules(s)
	} else {
		p, err = k.(Node2Vec).rules(s)
	}
	expect.OK(t, err)
	return p
}

func TestWalksEqualTheOracle(t *testing.T) {
	const seed = 20261123
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(400, 5000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
		g := sizedGraph(t, r, types[0], types[1], 40, func() int {
			return []int{0, 1, 2, r.IntN(4), r.IntN(60)}[r.IntN(5)]
		})
		k := randomWalk(r, g.Schema())
		p := rulesOf(t, k, g.Schema())
		for variant, w := range openWide(t, g, k) {
			for batch := range 2 {
				req := randomRequest(r, g.Schema(), uint64(batch))
				if len(p.path) > 0 { // seeds of the type where it begins
					req.Edges = nil
					for i := range req.Seeds {
						if i != g.Schema().Edges[p.path[0]].Dst {
							req.Seeds[i] = nil
						}
					}
				}
				what := fmt.Sprintf("seed %d round %d batch %d %s: %s", seed, round, batch, variant, k.Fingerprint())
				compareWalks(t, what, g, k, p, w, req)
			}
			expect.OK(t, w.Close())
		}
	}
}

// openWide opens a sampler over both widths of ids, the graph's and int64.
func openWide(t *testing.T, g *graph.Graph, k Sampler) map[string]Worker {
	t.Helper()
	env := Env{Graph: g, BatchSize: 40}
	w := expect.Must(k.Open(env))(t)
	x := expect.Must(openOver(rulesOf(t, k, g.Schema()), env, widen(t, g.Indices()), newWalker))(t)
	x.(*walkWorker[int64]).local = &hashMap[int64]{}
	return map[string]Worker{"int32": w, "int64": x}
}

func compareWalks(t *testing.T, what string, g *graph.Graph, k Sampler, p walkRules, w Worker, req *Request) {
	t.Helper()
	s := g.Schema()
	got := sampleFor(t, what, g, k, w, req)
	o := newOracleLists(g, req)
	var walk, types, edge []int64
	for ty, seeds := range slices.Clone(o.nodes) {
		for _, id := range slices.Clone(seeds) {
			for n := range p.perSeed {
				one := oracleWalk
				if p.p != 0 {
					one = oracleNode2Vec
				}
				nodes, edges := one(g, p, req.Rand, id+g.Offset(ty), uint64(id), n)
				for i := range p.length + 1 {
					if i >= len(nodes) {
						walk, types = append(walk, -1), append(types, -1)
						continue
					}
					at := o.typeOf(nodes[i])
					walk, types = append(walk, o.place(at, nodes[i]-g.Offset(at))), append(types, int64(at))
				}
				edge = append(edge, edges...)
				for range p.length - len(edges) {
					edge = append(edge, -1)
				}
			}
		}
	}
	want := map[string][]int64{"walk": walk}
	if len(s.Nodes) > 1 {
		want["walk_type"] = types
	}
	if p.withEdges {
		want["walk_edge"] = edge
	}
	checkArrays(t, what, got, want)
	for ty := range o.nodes {
		if v := widen(t, got.Nodes[ty]); !slices.Equal(v, o.nodes[ty]) {
			t.Fatalf("%s: nodes of type %d are %v, want %v", what, ty, v, o.nodes[ty])
		}
		if v := widen(t, got.SeedLocal[ty]); !slices.Equal(v, o.seeds[ty]) {
			t.Fatalf("%s: seeds of type %d are %v, want %v", what, ty, v, o.seeds[ty])
		}
	}
	expect.Ensure(t, got.Blocks[0][0].NumEdges() == 0 && got.Blocks[0][0].NumSrc == got.NumNodes[1][s.Edges[0].Src],
		"%s: %+v", what, got.Blocks[0][0])
}

func checkArrays(t *testing.T, what string, got *graph.Sample, want map[string][]int64) {
	t.Helper()
	expect.Ensure(t, len(got.Arrays) == len(want), "%s: %d arrays, want %d", what, len(got.Arrays), len(want))
	for _, a := range got.Arrays {
		flat := expect.Must(a.Rows.Reshape(a.Rows.Len() * a.Width()))(t)
		if v := widen(t, flat); !slices.Equal(v, want[a.Name]) {
			t.Fatalf("%s: %s is %v, want %v", what, a.Name, v, want[a.Name])
		}
	}
}

func mustFlat(t *testing.T, x unified.Tensor) unified.Tensor {
	t.Helper()
	n := int64(1)
	for i := range x.Rank() {
		n *= x.Dim(i)
	}
	return expect.Must(x.Reshape(n))(t)
}

// What walkers and drawers of subgraphs keep for as long as they live is in their Bound: long walks take much.
func TestBoundsHaveWhatWalksTake(t *testing.T) {
	g := randomGraph(t, rand.New(rand.NewPCG(3, 4)), 1, 1)
	size := func(w Worker) int64 {
		switch w := w.(type) {
		case *walkWorker[int32]:
			return w.taken()
		case *visitWorker[int32]:
			return w.walk.taken()
		case *saintWorker[int32]:
			return int64(4*cap(w.at) + 4*cap(w.local) + 8*cap(w.pos) + 8*cap(w.draws))
		}
		return 0
	}
	for _, k := range []Sampler{Walk{Length: 1000, PerSeed: 250, Edges: true}, Walk{Length: 5}, Walk{Length: 3000},
		Node2Vec{Length: 200, Edges: true}, PinSage{Neighbors: 3, Walks: 200, Length: 900},
		Saint{Budget: 50_000}, Saint{Kind: SaintWalks, Budget: 9000, Length: 7}} {
		w := expect.Must(k.Open(Env{Graph: g, BatchSize: 1}))(t)
		taken, bound := size(w), boundOf(k, g.Schema(), 1).Scratch
		expect.That(t, taken != 0 && taken <= bound, "%+v takes %d bytes; the bound has %d of scratch", k, taken, bound)
		expect.OK(t, w.Close())
	}
}

// taken returns the bytes of a walker's own.
func (w *walkWorker[V]) taken() int64 {
	id := int(unsafe.Sizeof(V(0)))
	return int64(id*(cap(w.at)+cap(w.root)+cap(w.prev)+cap(w.nodes)) + 4*(cap(w.row)+cap(w.phase)+cap(w.waiting)) +
		8*(cap(w.draws)+cap(w.pos)+cap(w.own)+cap(w.edge)+cap(w.keys)+cap(w.goOn)+cap(w.accept)))
}
