package sampling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/rng"
)

// oracleHGT is docs/sampling.md, "HGT": the node lists of a batch.
func oracleHGT(g *graph.Graph, k HGT, req *Request) [][]int64 {
	s := g.Schema()
	o := newOracleLists(g, req)
	hops := oracleHops(Neighbor{Fanouts: k.Nodes, PerType: k.PerType})
	budgets, order := make([]map[int64]float64, len(s.Nodes)), make([][]int64, len(s.Nodes))
	for t := range budgets {
		budgets[t] = map[int64]float64{}
	}
	runs, spent := newEdgeRuns(g), make([]int, len(s.Nodes))
	for h := range hops {
		for t := range s.Nodes {
			for ; spent[t] < len(o.nodes[t]); spent[t]++ {
				for e := range s.Edges {
					if s.Edges[e].Dst != t {
						continue
					}
					run, src := runs[[2]int64{o.nodes[t][spent[t]] + g.Offset(t), int64(e)}], s.Edges[e].Src
					for _, pos := range run {
						u := indexAt(g, pos) - g.Offset(src)
						if slices.Contains(o.nodes[src], u) {
							continue
						}
						if !slices.Contains(order[src], u) {
							order[src] = append(order[src], u)
						}
						budgets[src][u] += 1 / float64(len(run))
					}
				}
			}
		}
		for t := range s.Nodes {
			list, ok := k.PerType[s.Nodes[t].Name]
			if !ok {
				list = k.Nodes
			}
			there := func(u int64) bool { return slices.Contains(o.nodes[t], u) }
			left := slices.DeleteFunc(slices.Clone(order[t]), there)
			n := 0
			if h < len(list) {
				n = list[h]
			}
			if n >= 0 && n < len(left) {
				place := func(u int64) int { return slices.Index(order[t], u) }
				key := func(u int64) float64 {
					stream := rng.Stream(rng.StageKey(req.Rand.key, s.Nodes[t].Key, 14, uint8(h)), uint64(u))
					return -rng.Log(rng.Unit(rng.Draw(stream, 0))) / (budgets[t][u] * budgets[t][u])
				}
				sort.SliceStable(left, func(i, j int) bool { return key(left[i]) < key(left[j]) })
				left = left[:n]
				sort.Slice(left, func(i, j int) bool { return place(left[i]) < place(left[j]) })
			}
			for _, u := range left {
				o.place(t, u)
			}
		}
	}
	return o.nodes
}

func TestHGTEqualsTheOracle(t *testing.T) {
	const seed = 20261201
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(200, 5000) {
		types := [][2]int{{1, 1}, {1, 3}, {3, 5}, {4, 9}}[r.IntN(4)]
		degree := func() int { return []int{0, r.IntN(4), r.IntN(30)}[r.IntN(3)] }
		if round%20 == 0 {
			degree = func() int { return []int{0, 1, 513, r.IntN(2000)}[r.IntN(4)] }
		}
		g := sizedGraph(t, r, types[0], types[1], 1+r.Int64N(40), degree)
		some := func() (list []int) {
			for range 1 + r.IntN(3) {
				list = append(list, []int{All, 0, 1, 2, 5, 20}[r.IntN(6)])
			}
			return list
		}
		k := HGT{Nodes: some()}
		if r.IntN(2) == 0 {
			k.PerType = map[string][]int{"n0": some()}
		}
		w := expect.Must(k.Open(Env{Graph: g, BatchSize: 40, EdgePos: true}))(t)
		for batch := range uint64(2) {
			what := fmt.Sprintf("seed %d round %d batch %d: %s", seed, round, batch, k.Fingerprint())
			req := randomRequest(r, g.Schema(), batch)
			got, nodes := sampleFor(t, what, g, k, w, req), oracleHGT(g, k, req)
			for i := range nodes {
				if !slices.Equal(widen(t, got.Nodes[i]), nodes[i]) || got.NumNodes[1][i] != int64(len(nodes[i])) {
					t.Fatalf("%s: nodes %v, want %v", what, widen(t, got.Nodes[i]), nodes[i])
				}
			}
			checkBlocks(t, what, got, oracleInduced(g, nodes, zeros(nodes)))
		}
		expect.OK(t, w.Close())
	}
}
