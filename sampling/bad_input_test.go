package sampling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// badInput is something that is wrong or looks so, and what becomes of it: an error, or a result that is defined.
type badInput struct {
	name    string
	graph   *graph.Graph
	sampler Sampler
	req     *Request
	want    error // nil where there is a result
	says    string
	check   func(t *testing.T, out *graph.Sample)
}

// badGraph has six nodes. Node 0 has in-edges from 1, 2, 3 and 4, node 1 two parallel ones from 5 and one from itself,
// node 2 one from 0; the others have none. change changes the weights, which are 1.
func badGraph(t *testing.T, change func(weights []float64)) *graph.Graph {
	t.Helper()
	weights := slices.Repeat([]float64{1}, 8)
	if change != nil {
		change(weights)
	}
	return graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: 6}}, Edges: []graph.EdgeData{{
		Src: []int64{1, 2, 3, 4, 1, 5, 5, 0}, Dst: []int64{0, 0, 0, 0, 1, 1, 1, 2},
		Columns: map[string]unified.Tensor{"w": unified.FromSlice(weights),
			"m": unified.FromSlice(slices.Repeat([]uint8{1}, 8)),
			"t": unified.FromSlice([]int64{1, 2, 2, 4, 1, 2, 3, 1})}}}})
}

func seedsOf(ids ...int64) *Request {
	return &Request{Seeds: [][]int64{ids}, Rand: NewRand(1, 0, 0, 0)}
}

// timedSeeds is seedsOf as of time 3.
func timedSeeds(ids ...int64) *Request {
	req := seedsOf(ids...)
	req.Times = [][]int64{slices.Repeat([]int64{3}, len(ids))}
	return req
}

// badSeeds are seeds that are no nodes, and those that come again, for every sampler that has seeds.
func badSeeds(t *testing.T) (list []badInput) {
	g := badGraph(t, nil)
	for _, c := range statedSamplers {
		if descriptionOf(t, c.sampler, g.Schema()).Items != nil {
			continue
		}
		for _, id := range []int64{-1, 6, 1 << 40, math.MinInt64} {
			list = append(list, badInput{fmt.Sprintf("%s: seed %d", c.name, id), g, c.sampler, timedSeeds(0, id),
				graph.ErrSeed, fmt.Sprintf("seed 1 (the first is 0) is node %d; nodes of type \"node\" are 0 to 5", id),
				nil})
		}
		places := []int64{0, 1, 0, 0, 1}
		if _, apart := c.sampler.(Shadow); apart {
			places = []int64{0, 1, 2, 3, 4}
		}
		list = append(list, badInput{c.name + ": seeds again", g, c.sampler, timedSeeds(2, 0, 2, 2, 0), nil, "",
			func(t *testing.T, out *graph.Sample) {
				expect.That(t, slices.Equal(widen(t, out.SeedLocal[0]), places), "seeds are at %v, want %v",
					widen(t, out.SeedLocal[0]), places)
			}}, badInput{c.name + ": no seeds", g, c.sampler, timedSeeds(), nil, "", nil})
	}
	return list
}

// badWeights are invalid weights, and nodes without any above 0, for every sampler with weights.
func badWeights(t *testing.T) (list []badInput) {
	asOf := Temporal{Edge: "t"}
	for name, s := range map[string]Sampler{
		"neighbor": Neighbor{Fanouts: []int{2}, Weight: "w"}, "all": Neighbor{Fanouts: []int{All}, Weight: "w"},
		"replaced": Neighbor{Fanouts: []int{2}, Weight: "w", Replace: true},
		"share":    Neighbor{Fanouts: []int{2}, Weight: "w", Share: 0.5},
		"masked":   Neighbor{Fanouts: []int{2}, Weight: "w", Mask: "m"},
		"temporal": Neighbor{Fanouts: []int{2}, Weight: "w", Time: asOf},
		"recency":  Neighbor{Fanouts: []int{2}, Weight: "w", Time: Temporal{Edge: "t", HalfLife: 2}},
		"together": Neighbor{Fanouts: []int{2}, Weight: "w", Together: true},
		"fastgcn":  FastGCN{Nodes: []int{3}, Weight: "w"}, "ladies": Ladies{Nodes: []int{3}, Weight: "w"},
	} {
		for _, w := range []float64{-1, math.NaN(), math.Inf(1), -math.SmallestNonzeroFloat64} {
			list = append(list, badInput{fmt.Sprintf("%s: weight %v", name, w),
				badGraph(t, func(weights []float64) { weights[2] = w }), s, timedSeeds(0), ErrGraph,
				fmt.Sprintf(`edge 2: its weight in column "w" is %v; weights must be finite and not negative`, w),
				nil})
		}
		none := badGraph(t, func(weights []float64) { copy(weights, []float64{0, math.Copysign(0, -1), 0, 0}) })
		list = append(list, badInput{name + ": weights of 0", none, s, timedSeeds(0, 1), nil, "",
			func(t *testing.T, out *graph.Sample) {
				if indptr := widen(t, out.Blocks[0][0].Indptr); indptr[1] != 0 || indptr[2] == 0 && name != "fastgcn" {
					t.Errorf("edges of nodes whose weights are 0 and 1 end at %v", indptr)
				}
			}})
	}
	return list
}

// badCounts are numbers that nothing is as large as: all is taken.
func badCounts(t *testing.T) (list []badInput) {
	g, most := badGraph(t, nil), math.MaxInt32
	in := func(name string, s Sampler, edges int) {
		list = append(list, badInput{name + ": more than there are", g, s, timedSeeds(0, 1), nil, "",
			func(t *testing.T, out *graph.Sample) {
				n := widen(t, out.Blocks[0][0].Indptr)
				expect.That(t, n[len(n)-1] == int64(edges), "%d edges, want %d", n[len(n)-1], edges)
			}})
	}
	in("neighbor", Neighbor{Fanouts: []int{most}}, 7)
	in("weighted", Neighbor{Fanouts: []int{most}, Weight: "w"}, 7)
	in("masked", Neighbor{Fanouts: []int{most}, Mask: "m"}, 7)
	in("share", Neighbor{Fanouts: []int{most}, Share: 1}, 7)
	in("temporal", Neighbor{Fanouts: []int{most}, Time: Temporal{Edge: "t"}}, 6)
	in("recent", Neighbor{Fanouts: []int{most}, Time: Temporal{Edge: "t", Recent: true}}, 6)
	in("recency", Neighbor{Fanouts: []int{most}, Time: Temporal{Edge: "t", HalfLife: 1}}, 6)
	in("together", Neighbor{Fanouts: []int{most}, Together: true}, 7)
	in("out", Neighbor{Fanouts: []int{most}, Direction: Out}, 3)
	in("replaced", Neighbor{Fanouts: []int{500}, Replace: true}, 1000)
	in("replaced, weighted", Neighbor{Fanouts: []int{500}, Replace: true, Weight: "w"}, 1000)
	in("labor", Labor{Fanouts: []int{most}}, 7)
	in("poisson", Labor{Fanouts: []int{most}, Poisson: true}, 7)
	in("ladies", Ladies{Nodes: []int{5000}}, 7)
	in("fastgcn", FastGCN{Nodes: []int{5000}}, 7)
	in("hgt", HGT{Nodes: []int{most, most}}, 8)
	in("shadow", Shadow{Fanouts: []int{most}}, 9)
	in("ppr", PPR{Neighbors: most, Epsilon: 1e-6}, 8)
	return list
}

// badNames are types and columns that do not exist, and times that are missing.
func badNames(t *testing.T) (list []badInput) {
	g := badGraph(t, nil)
	refused := func(name string, s Sampler, says string) {
		list = append(list, badInput{name, g, s, seedsOf(0), ErrOptions, says, nil})
	}
	nobody := map[string][]int{"nobody": {2}}
	for _, s := range []Sampler{Neighbor{PerType: nobody}, Neighbor{Fanouts: []int{1}, PerType: nobody, Weight: "w"},
		Labor{PerType: nobody}, Shadow{PerType: nobody}, HGT{PerType: nobody},
		PinSage{Neighbors: 2, Length: 2, As: "nobody"}, PPR{Neighbors: 2, As: "nobody"},
		Walk{Length: 2, Metapath: []string{"nobody"}}} {
		refused(fmt.Sprintf("a type that is none: %T %s", s, s.Fingerprint()), s, "nobody")
	}
	for _, s := range []Sampler{Neighbor{Fanouts: []int{2}, Weight: "absent"},
		Neighbor{Fanouts: []int{2}, Mask: "absent"},
		Neighbor{Fanouts: []int{2}, Time: Temporal{Edge: "absent"}}, FastGCN{Nodes: []int{2}, Weight: "absent"},
		Ladies{Nodes: []int{2}, Weight: "absent"}} {
		refused("a column that is none: "+s.Fingerprint(), s, `"absent"`)
	}
	refused("times of nodes that have none", Neighbor{Fanouts: []int{2}, Time: Temporal{Node: "absent"}}, `"absent"`)
	for _, s := range []Neighbor{{}, {Weight: "w"}, {Disjoint: true}, {Together: true}} {
		s.Fanouts, s.Time = []int{2}, Temporal{Edge: "t"}
		refused("no times: "+s.Fingerprint(), s, "have no times")
	}
	return list
}

func badInputs(t *testing.T) []badInput {
	return slices.Concat(badSeeds(t), badWeights(t), badCounts(t), badNames(t))
}

// onHost samples as a loader does on the CPU. The sample is the test's.
func (c *badInput) onHost(t *testing.T) (*graph.Sample, error) {
	t.Helper()
	env := Env{Graph: c.graph, BatchSize: 8}
	if err := validate(c.sampler, c.graph.Schema()); err != nil {
		return nil, err
	}
	if _, err := edgeColumnsOf(c.sampler, c.graph); err != nil {
		return nil, err
	}
	s, err := Prepare(t.Context(), c.sampler, env)
	if err != nil {
		return nil, err
	}
	defer closeAll(t, s)
	w, err := s.Open(env)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	out := sampleOf(c.graph, s, 8)
	t.Cleanup(func() { _ = out.Close() })
	return out, w.Sample(context.Background(), c.req, out)
}

func TestBadInputIsAnErrorOrHasADefinedResult(t *testing.T) {
	for _, c := range badInputs(t) {
		t.Run(c.name, func(t *testing.T) {
			out, err := c.onHost(t)
			expect.Ensure(t, errors.Is(err, c.want) && (err == nil || strings.Contains(err.Error(), c.says)),
				"%v; want %v with %q", err, c.want, c.says)
			if c.check != nil {
				c.check(t, out)
			}
		})
	}
}
