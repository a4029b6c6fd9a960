//go:build !race

package synthetic

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/expect"
)

// compute returns all edges of a graph at once, after checking what holds for every kind: the exact number of edges in
// all and of each type, sources that are nodes of the type's, and order by (type, source) within a destination.
func compute(t *testing.T, kind string, o Options) (*plan, *chunk) {
	t.Helper()
	r := expect.Must(o.resolve(kind))(t)
	p := newPlan(kind, r)
	expect.OK(t, p.schema.Init())
	s, c := &p.schema, &chunk{}
	expect.Ensure(t, s.NumNodes() == r.Nodes && s.NumEdges() == r.Edges, "%s %+v: schema of %d nodes and %d edges",
		kind, o, s.NumNodes(), s.NumEdges())
	c.begin(0, int(r.Nodes))
	if r.Nodes > 0 {
		p.edges(c)
	}
	expect.Ensure(t, int64(len(c.sources)) == r.Edges && int64(len(c.ends)) == r.Nodes,
		"%s %+v: %d edges of %d destinations", kind, o, len(c.sources), len(c.ends))
	offsets := make([]int64, len(s.Nodes)+1)
	for i, n := range s.Nodes {
		offsets[i+1] = offsets[i] + n.Count
	}
	typed := len(s.Edges) > 1
	perType := make([]int64, len(s.Edges))
	for v := range r.Nodes {
		from, to := column(c, v)
		for e := from; e < to; e++ {
			et := 0
			if typed {
				et = int(c.types[e])
			}
			perType[et]++
			k := s.Edges[et]
			if u := c.sources[e]; u < offsets[k.Src] || u >= offsets[k.Src+1] || v < offsets[k.Dst] ||
				v >= offsets[k.Dst+1] {
				t.Fatalf("%s %+v: edge %d of type %v goes from %d to %d", kind, o, e, k, u, v)
			}
			if e > from && (typed && c.types[e] < c.types[e-1] || (!typed || c.types[e] == c.types[e-1]) &&
				c.sources[e] < c.sources[e-1]) {
				t.Fatalf("%s %+v: edge %d of node %d is out of order", kind, o, e, v)
			}
		}
	}
	for i, n := range perType {
		if n != s.Edges[i].Count {
			t.Fatalf("%s %+v: %d edges of type %v, the schema says %d", kind, o, n, s.Edges[i], s.Edges[i].Count)
		}
	}
	return p, c
}

func column(c *chunk, v int64) (from, to int64) {
	if v > 0 {
		from = c.ends[v-1]
	}
	return from, c.ends[v]
}

func TestEveryKindHasExactlyTheEdgesAskedFor(t *testing.T) {
	for _, kind := range []string{SBM, RMAT, Products, Typed} {
		for _, o := range []Options{
			{Nodes: 1000, Edges: 30_000}, {Nodes: 1000, Edges: 30_001, Seed: 9}, {Nodes: 777, Edges: 5},
			{Nodes: 3, Edges: 1000},
			{Nodes: 3, Edges: 1}, {Nodes: 5000, Edges: None}, {Nodes: None},
			{Nodes: 4096, Edges: 10_000, Classes: None},
			{Nodes: 1025, Edges: 3333, Classes: 1}, {Nodes: 2000, Edges: 7001, Classes: 19}, {Nodes: 300},
		} {
			compute(t, kind, o)
		}
	}
	for _, kind := range []string{SBM, RMAT, Products} {
		compute(t, kind, Options{Nodes: 1, Edges: 5})
		compute(t, kind, Options{Nodes: 2, Edges: 5})
		compute(t, kind, Options{Nodes: 40, Edges: 501, Classes: 40})
	}
}

// golden fixes what the generator makes: it must be the same on every architecture. A change of it needs another
// version.
var golden = map[string]string{
	SBM:      "6a215ee5f85a38f9",
	RMAT:     "cd0d67c9704579d7",
	Products: "fced3aad9ccb6d5a",
	Typed:    "963bedd1898bb350",
}

func fingerprint(p *plan, c *chunk) string {
	h := xxh3.New()
	h.Write(encodeIDs(nil, c.ends, 8))
	h.Write(encodeIDs(nil, c.sources, 8))
	h.Write(c.types)
	for i, a := range p.attributes {
		if a != nil {
			rows := &chunk{n: int(p.schema.Nodes[i].Count)}
			a.fill(rows)
			h.Write(rows.bytes)
			h.Write(rows.other)
		}
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

func TestGraphsAreTheSameOnEveryMachine(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range []string{SBM, RMAT, Products, Typed} {
		got := fingerprint(compute(t, kind, Options{Nodes: 3000, Edges: 40_000, Features: 9, Classes: 7, Seed: 42}))
		if got != golden[kind] {
			t.Errorf("%s: fingerprint %s, want %s", kind, got, golden[kind])
		}
		other := fingerprint(compute(t, kind, Options{Nodes: 3000, Edges: 40_000, Features: 9, Classes: 7, Seed: 43}))
		if seen[got] || seen[other] || got == other {
			t.Errorf("%s: seeds 42 and 43, or two kinds, give the same graph", kind)
		}
		seen[got], seen[other] = true, true
	}
}

func TestChunksDoNotChangeTheGraph(t *testing.T) {
	for _, kind := range []string{SBM, RMAT, Products, Typed} {
		p, whole := compute(t, kind, Options{Nodes: 1500, Edges: 20_000})
		c, edges := &chunk{}, 0
		for first := 0; first < 1500; first += 131 {
			c.begin(uint64(first), min(131, 1500-first))
			p.edges(c)
			expect.Ensure(t, slices.Equal(c.sources, whole.sources[edges:edges+len(c.sources)]),
				"%s: the chunk from node %d differs", kind, first)
			edges += len(c.sources)
		}
	}
}

func TestProductsIsUndirectedWithPowerLawAndClasses(t *testing.T) {
	const n = 20_000
	p, c := compute(t, Products, Options{Nodes: n, Edges: 1_000_001, Seed: 3})
	type pair struct{ a, b int64 }
	balance := map[pair]int{}
	degrees, same, parallel := make([]int64, n), 0, 0
	nodes := p.attributes[0].nodes
	for v := range int64(n) {
		_, class := nodes.of(uint64(v))
		from, to := column(c, v)
		degrees[v] = to - from
		for e := from; e < to; e++ {
			u := c.sources[e]
			if u < v {
				balance[pair{u, v}]++
			} else if u > v {
				balance[pair{v, u}]--
			}
			if e > from && u == c.sources[e-1] {
				parallel++
			}
			if _, k := nodes.of(uint64(u)); k == class {
				same++
			}
		}
	}
	for e, d := range balance {
		expect.Ensure(t, d == 0, "edge %v: one direction is there %d times more than the other", e, d)
	}
	share := float64(same) / 1e6
	expect.That(t, math.Abs(share-(0.5+0.5/47)) <= 0.01, "%.3f of the edges are within a class, want 0.511", share)
	expect.That(t, parallel <= 80_000, "%d parallel edges", parallel)
	slices.Sort(degrees)
	// The law: least degree 4/9 of the mean of 50, median (1/2)^(-5/9) times that; of the greatest, its class has 1/18.
	low, mid := degrees[10], degrees[n/2]
	expect.That(t, low == 22 && mid == 33, "least degree %d, median %d; want 22 and 33", low, mid)
	top := degrees[n-1]
	expect.That(t, top >= 1100 && top <= 1300, "greatest degree %d", top)
}

func TestDefaultProductsHasTheDegreesOfOGB(t *testing.T) {
	o := expect.Must(Options{}.resolve(Products))(t)
	p := newPlan(Products, o)
	expect.That(t, p.splits[0].size == 196_615 && p.splits[1].size == 39_323 && p.splits[2].size == 2_213_091,
		"splits %v", p.splits)
	l := newLaw(uint64((o.Nodes+46)/47), uint64(o.Edges/47), heavy)
	top := l.first(1)
	expect.That(t, top >= 17_500 && top <= 18_100, "greatest in-degree %d, want about 17,800", top)
	least := l.stubs - l.first(l.n-1)
	expect.That(t, least >= 21 && least <= 23, "least in-degree %d, want 22", least)
}

func TestSBMPrefersItsOwnClassAndSpreadsDegrees(t *testing.T) {
	const n, edges = 5000, 200_000
	p, c := compute(t, SBM, Options{Nodes: n, Edges: edges, Classes: 5, Seed: 1})
	nodes := p.attributes[0].nodes
	same, square, out := 0, 0.0, make([]int, n)
	for v := range int64(n) {
		_, class := nodes.of(uint64(v))
		from, to := column(c, v)
		square += float64(to-from) * float64(to-from)
		for _, u := range c.sources[from:to] {
			out[u]++
			if _, k := nodes.of(uint64(u)); k == class {
				same++
			}
		}
	}
	share := float64(same) / edges
	expect.That(t, math.Abs(share-sbmOwn) <= 0.005, "%.3f of the edges are within a class, want %.1f", share, sbmOwn)
	if variance := square/n - 40*40; math.Abs(variance/40-1) > 0.1 {
		t.Errorf("variance of in-degrees is %.1f, want about 40, as of a Poisson distribution", variance)
	}
	square = 0
	for _, d := range out {
		square += float64(d) * float64(d)
	}
	variance := square/n - 40*40
	expect.That(t, math.Abs(variance/40-1) <= 0.1, "variance of out-degrees is %.1f, want about 40", variance)
}

func TestRMATFillsTheQuadrantsAtEveryLevel(t *testing.T) {
	const levels, edges = 12, 400_000
	p, c := compute(t, RMAT, Options{Nodes: 1 << levels, Edges: edges, Seed: 5})
	order := &p.attributes[0].nodes.order
	var quadrant [levels][4]int
	var joint [16]int // quadrants of the two highest levels together
	for v := range int64(1 << levels) {
		d := order.inverse(uint64(v))
		from, to := column(c, v)
		for _, u := range c.sources[from:to] {
			s := order.inverse(uint64(u))
			for l := range levels {
				quadrant[l][s>>l&1<<1|d>>l&1]++
			}
			joint[(s>>11&1<<1|d>>11&1)<<2|s>>10&1<<1|d>>10&1]++
		}
	}
	want := [4]float64{.57, .19, .19, .05}
	for l := range quadrant {
		for q, n := range quadrant[l] {
			if p := want[q]; math.Abs(float64(n)-p*edges) > 4.5*math.Sqrt(edges*p*(1-p)) {
				t.Errorf("level %d: quadrant %d has %d edges, want about %.0f", l, q, n, p*edges)
			}
		}
	}
	for q, n := range joint {
		if p := want[q>>2] * want[q&3]; math.Abs(float64(n)-p*edges) > 4.5*math.Sqrt(edges*p*(1-p)) {
			t.Errorf("two levels: quadrants %d and %d have %d edges, want about %.0f", q>>2, q&3, n, p*edges)
		}
	}
}

func TestTypedAuthorshipsAreReversedExactly(t *testing.T) {
	p, c := compute(t, Typed, Options{Nodes: 8000, Edges: 90_000, Seed: 2})
	papers := p.schema.Nodes[0].Count
	authors := p.schema.Nodes[1].Count
	type pair struct{ paper, author int64 }
	balance := map[pair]int{}
	same, cites := 0, 0
	for v := range int64(8000) {
		from, to := column(c, v)
		for e := from; e < to; e++ {
			switch u := c.sources[e]; c.types[e] {
			case typeWrites:
				balance[pair{v, u}]++
			case typeRevWrites:
				balance[pair{u, v}]--
			case typeCites:
				cites++
				_, a := p.attributes[0].nodes.of(uint64(u))
				if _, b := p.attributes[0].nodes.of(uint64(v)); a == b {
					same++
				}
			}
		}
	}
	expect.That(t, len(balance) >= 10_000 && papers == 4000 && authors == 3920, "%d papers, %d authors, %d authorships",
		papers, authors, len(balance))
	for e, d := range balance {
		expect.Ensure(t, d == 0, "author %d of paper %d: writes is there %d times more than rev_writes", e.author,
			e.paper, d)
	}
	if share := float64(same) / float64(cites); math.Abs(share-citesOwn) > 0.015 {
		t.Errorf("%.3f of the citations are within a class, want %.1f", share, citesOwn)
	}
}

func TestFeaturesTellTheClassButNotAlways(t *testing.T) {
	for _, kind := range []string{SBM, Products} {
		const n = 3000
		p, _ := compute(t, kind, Options{Nodes: n, Edges: None})
		a := p.attributes[0]
		c := &chunk{n: n}
		a.fill(c)
		right, square := 0, 0.0
		x := make([]float64, a.width)
		for v := range n {
			for j := range x {
				x[j] = float64(math.Float32frombits(binary.LittleEndian.Uint32(c.bytes[4*(v*a.width+j):])))
				square += x[j] * x[j]
			}
			best, at := math.Inf(1), 0
			for k := range int(a.nodes.classes) {
				d := 0.0
				for j := range x {
					e := x[j] - float64(a.centroids[k*a.width+j])
					d += e * e
				}
				if d < best {
					best, at = d, k
				}
			}
			if uint64(at) == binary.LittleEndian.Uint64(c.other[8*v:]) {
				right++
			}
		}
		if share := float64(right) / n; share < 0.4 || share > 0.9 {
			t.Errorf("%s: the nearest centroid is right for %.2f of the nodes", kind, share)
		}
		want := 1 + separation*separation/2/float64(a.width)
		if variance := square / float64(n*a.width); math.Abs(variance/want-1) > 0.05 {
			t.Errorf("%s: variance of features is %.3f, want %.3f", kind, variance, want)
		}
	}
}

func BenchmarkEdges(b *testing.B) {
	for _, kind := range []string{SBM, RMAT, Products, Typed} {
		b.Run(kind, func(b *testing.B) {
			o := expect.Must(Options{Seed: 1}.resolve(kind))(b)
			p, c := newPlan(kind, o), &chunk{}
			const length = 1024
			edges := 0
			for i := range b.N {
				c.begin(uint64(i*length)%uint64(o.Nodes-length), length)
				p.edges(c)
				edges += len(c.sources)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(edges), "ns/edge")
		})
	}
}
