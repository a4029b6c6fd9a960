package sampling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// oracleValue is what the message of the edge at pos counts; n edges of its type have its target.
func oracleValue(weights []float64, pos int64, n int) float64 {
	if weights != nil {
		return weights[pos]
	}
	return 1 / float64(n)
}

// oracleLayer is docs/sampling.md, "Layers drawn as a whole", for one hop with these destinations, by node type: the
// scale c of each node that was drawn, by fused id.
func oracleLayer(g *graph.Graph, runs edgeRuns, k layered, req *Request, h int, dsts [][]int64) map[int64]float64 {
	s, weights := g.Schema(), floats(g, k.values.Weight)
	importances := map[int64]float64{}
	var candidates []int64
	see := func(pos int64, n int) {
		u := indexAt(g, pos)
		if _, ok := importances[u]; !ok {
			candidates = append(candidates, u)
		}
		if a := oracleValue(weights, pos, n); a != 0 {
			importances[u] += min(max(a*a, 0x1p-1000), 0x1p900)
		} else {
			importances[u] += 0
		}
	}
	if k.near {
		for e := range s.Edges {
			for _, v := range dsts[s.Edges[e].Dst] {
				run := runs[[2]int64{v + g.Offset(s.Edges[e].Dst), int64(e)}]
				for _, pos := range run {
					see(pos, len(run))
				}
			}
		}
	} else {
		for v := range g.NumNodes() {
			for e := range s.Edges {
				run := runs[[2]int64{v, int64(e)}]
				for _, pos := range run {
					see(pos, len(run))
				}
			}
		}
		candidates = candidates[:0]
		for v := range g.NumNodes() {
			candidates = append(candidates, v)
		}
	}
	whole, sums := oracleWhole(candidates, importances)
	if sums == nil {
		return nil
	}
	total := sums[len(sums)-1]
	times, scale := map[int64]float64{}, map[int64]float64{}
	stream := rng.Stream(rng.StageKey(req.Rand.key, 0, 13, uint8(h)), 0)
	for i := range k.nodes[h] {
		x := rng.Bounded(rng.Draw(stream, uint64(i)), total)
		times[candidates[slices.IndexFunc(sums, func(sum uint64) bool { return sum > x })]]++
	}
	for v, m := range times {
		scale[v] = m * float64(total) / (float64(k.nodes[h]) * float64(whole[v]))
	}
	return scale
}

// oracleWhole returns the importance of nodes as integers, and the sums of those, in order; nil where all are 0.
func oracleWhole(candidates []int64, importances map[int64]float64) (whole map[int64]uint64, sums []uint64) {
	most, total := 0.0, uint64(0)
	for _, x := range importances {
		most = max(most, x)
	}
	if most == 0 {
		return nil, nil
	}
	whole = map[int64]uint64{}
	shift := min(52, 62-len(fmt.Sprintf("%b", len(candidates)))) - 1 - int(math.Floor(math.Log2(most)))
	for _, v := range candidates {
		whole[v] = uint64(math.Ceil(math.Ldexp(importances[v], shift)))
		total += whole[v]
		sums = append(sums, total)
	}
	return whole, sums
}

// oracleLayered returns what a sampler makes, and the weights of its edges by layer and edge type.
func oracleLayered(g *graph.Graph, runs edgeRuns, k layered, req *Request) (o *oracleSample, weights [][][]float32) {
	s, values := g.Schema(), floats(g, k.values.Weight)
	var scales []map[int64]float64 // of the hops that are done
	pick := func(h, e int, v rooted) (picks []int64) {
		if h == len(scales) || k.nodes[h] == 0 {
			return nil
		}
		run := runs[[2]int64{v.id + g.Offset(s.Edges[e].Dst), int64(e)}]
		for _, pos := range run {
			_, drawn := scales[h][indexAt(g, pos)]
			if (drawn || k.nodes[h] < 0) && oracleValue(values, pos, len(run)) > 0 {
				picks = append(picks, pos)
			}
		}
		return picks
	}
	for h, n := range k.nodes { // each hop by what those before it reach
		o = oracleBy(g, Neighbor{Fanouts: k.nodes[:h+1], Frontier: AllNodes}, req, pick)
		dsts := make([][]int64, len(s.Nodes))
		for t := range dsts {
			dsts[t] = o.nodes[t][:o.numNodes[h][t]]
		}
		var scale map[int64]float64
		if n > 0 {
			scale = oracleLayer(g, runs, k, req, h, dsts)
		}
		scales = append(scales, scale)
	}
	o = oracleBy(g, Neighbor{Fanouts: k.nodes, Frontier: AllNodes}, req, pick)
	for l := range o.blocks {
		weights = append(weights, make([][]float32, len(s.Edges)))
		for e, b := range o.blocks[l] {
			for i := range b.numDst {
				v := o.nodes[s.Edges[e].Dst][i] + g.Offset(s.Edges[e].Dst)
				for _, pos := range b.edge[b.indptr[i]:b.indptr[i+1]] {
					c := 1.0
					if h := len(k.nodes) - 1 - l; k.nodes[h] > 0 {
						c = scales[h][indexAt(g, pos)]
					}
					a := oracleValue(values, pos, len(runs[[2]int64{v, int64(e)}]))
					weights[l][e] = append(weights[l][e], float32(a*c))
				}
			}
		}
	}
	return o, weights
}

// layeredOf returns FastGCN or Ladies, as a sampler too.
func layeredOf(near bool, nodes []int, weight string) (layered, Sampler) {
	if near {
		return Ladies{nodes, weight}.layered(), Ladies{nodes, weight}
	}
	return FastGCN{nodes, weight}.layered(), FastGCN{nodes, weight}
}

func TestLayersEqualTheOracle(t *testing.T) {
	const seed = 20261130
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(160, 5000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
		degree := func() int { return []int{0, r.IntN(4), r.IntN(30)}[r.IntN(3)] }
		if round%20 == 0 {
			degree = func() int { return []int{0, 1, 513, r.IntN(2000)}[r.IntN(4)] }
		}
		g := withColumns(t, r, sizedGraph(t, r, types[0], types[1], 1+r.Int64N(30), degree))
		var nodes []int
		for range 1 + r.IntN(3) {
			nodes = append(nodes, []int{All, 0, 1, 2, 5, 20, 700}[r.IntN(7)])
		}
		k, sampler := layeredOf(r.IntN(2) == 0, nodes, []string{"", "", "w32", "w64", "none"}[r.IntN(5)])
		w := expect.Must(sampler.Open(Env{Graph: g, BatchSize: 40, EdgePos: true}))(t)
		b, runs := boundOf(sampler, g.Schema(), 40), newEdgeRuns(g)
		for batch := range uint64(2) {
			what := fmt.Sprintf("seed %d round %d batch %d: %s", seed, round, batch, sampler.Fingerprint())
			req := randomRequest(r, g.Schema(), batch)
			want, weights := oracleLayered(g, runs, k, req)
			got := compareWith(t, what, g, w, req, want, b.Arrays)
			for i := range got.Arrays {
				rows, err := unified.View[float32](got.Arrays[i].Rows)
				l, e := i/len(g.Schema().Edges), i%len(g.Schema().Edges)
				if err != nil || !slices.Equal(rows, weights[l][e]) {
					t.Fatalf("%s: %s is %v, want %v (%v)", what, got.Arrays[i].Name, rows, weights[l][e], err)
				}
			}
		}
		expect.OK(t, w.Close())
	}
}

// layerGraph has destinations 0 and 1, which share sources 3 and 4, and an edge 6 -> 7 away from them.
func layerGraph(t *testing.T) *graph.Graph {
	indptr, indices := []int64{0, 3, 7, 7, 7, 7, 7, 7, 8}, []int32{2, 3, 4, 3, 4, 4, 5, 6}
	weights := []float64{2, 2, 0.5, 1, 1.5, 1, 3, 2}
	a := graph.Arrays{Schema: graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: 8}},
		Edges:       []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: 8}},
		EdgeColumns: []graph.Column{{Name: "w", DType: unified.Float64}}},
		Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(indices),
		EdgeColumns: map[string]unified.Tensor{"w": unified.FromSlice(weights)}}
	return graphs.Of(t, a)
}

// Weights make the sums of few draws unbiased.
func TestLayersOfFewNodesHaveUnbiasedSums(t *testing.T) {
	g := layerGraph(t)
	s, trials, done := Ladies{[]int{2}, "w"}, trialsOf(300_000), 0
	if *heavy {
		trials *= 10
	}
	var mean, square [2]float64
	drawBatches(t, g, s, &Request{Seeds: [][]int64{{0, 1}}}, false, func(out *graph.Sample) bool {
		ends, nodes := mustView(t, out.Blocks[0][0].Indptr), mustView(t, out.Nodes[0])
		scaled, _ := unified.View[float32](out.Arrays[0].Rows)
		for v := range 2 {
			total := 0.0
			for i := ends[v]; i < ends[v+1]; i++ {
				u := nodes[mustView(t, out.Blocks[0][0].Indices)[i]]
				total += float64(scaled[i]) * float64(u*u) // messages that differ
			}
			mean[v] += total / float64(trials)
			square[v] += total * total / float64(trials)
		}
		done++
		return done < trials
	})
	for v, want := range [2]float64{2*4 + 2*9 + 0.5*16, 1*9 + 1.5*16 + 1*16 + 3*25} {
		spread := math.Sqrt((square[v] - mean[v]*mean[v]) / float64(trials))
		t.Logf("sum of destination %d: %v, must be %v: %.2f deviations; 1 %% would be %.1f", v, mean[v], want,
			math.Abs(mean[v]-want)/spread, 0.01*want/spread)
		if math.Abs(mean[v]-want) > chanceLimit*spread {
			t.Errorf("the sum of destination %d is %v on average, must be %v", v, mean[v], want)
		}
	}
}
