package sampling

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

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
			n = randomTimes(r, n)
			n.Time.Node = ""
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

// Each destination has 2 edges of one type and 3 of another, and picks every 2 of the 5 as often.
func TestAllEdgeTypesTogetherPickEverySetAsOften(t *testing.T) {
	const nodes, k, d = 2000, 2, 5
	indptr := make([]int64, nodes+1)
	for v := range indptr {
		indptr[v] = int64(v * d)
	}
	g, err := graph.FromArrays(graph.Arrays{Schema: graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: nodes}},
		Edges: []graph.EdgeType{{Source: "n", Relation: "a", Target: "n", Count: 2 * nodes},
			{Source: "n", Relation: "b", Target: "n", Count: 3 * nodes}}}, Indptr: unified.FromSlice(indptr),
		Indices: unified.FromSlice(make([]int32, nodes*d)),
		Types:   unified.FromSlice(slices.Repeat([]uint8{0, 0, 1, 1, 1}, nodes))})
	if err != nil {
		t.Fatal(err)
	}
	law := make([]float64, 1<<d)
	for set := range law {
		if bits.OnesCount(uint(set)) == k {
			law[set] = 0.1
		}
	}
	c, n := newChances(law), Neighbor{Fanouts: []int{k}, Together: true}
	req := &Request{Seeds: [][]int64{make([]int64, nodes)}}
	for v := range req.Seeds[0] {
		req.Seeds[0][v] = int64(v)
	}
	w, err := n.Open(Env{Graph: g, BatchSize: nodes, EdgePos: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	out := sampleOf(g, n, nodes)
	defer out.Close()
	for batch := range trialsOf(8_000_000) / nodes {
		req.Rand = NewRand(20261203, 0, 0, uint64(batch))
		if err := w.Sample(context.Background(), req, out); err != nil {
			t.Fatal(err)
		}
		var sets [nodes]int
		for e := range 2 {
			for _, pos := range mustView(t, out.Blocks[0][e].EdgePos) {
				sets[pos/d] |= 1 << (pos % d)
			}
		}
		for _, set := range sets {
			c.add(set)
		}
	}
	c.check(t, "together")
	c.checkPlanted(t, "together", 1<<1|1<<3)
}

func TestAllEdgeTypesTogetherRefuseWhatTheyCannotDo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	g := withColumns(t, r, randomGraph(t, r, 2, 3))
	for _, n := range []Neighbor{{PerType: map[string][]int{"r0": {1}}}, {Fanouts: []int{1},
		Time: Temporal{Node: "born"}}} {
		n.Together = true
		if err := n.Validate(g.Schema()); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", n.Fingerprint(), err)
		}
	}
	n := Neighbor{Fanouts: []int{1}, Together: true}
	if err := n.OnDevice(); !errors.Is(err, ErrOptions) || n.CanExclude() {
		t.Errorf("on a device: %v; excludes edges: %v", err, n.CanExclude())
	}
}
