//go:build cuda

package sampling

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// choiceOnDevice draws a graph and a Neighbor that chooses, small enough for the simulator: fan-outs below and above a
// warp's lanes, and destinations of fewer edges and more.
func choiceOnDevice(t *testing.T, r *rand.Rand) (*graph.Graph, Neighbor) {
	types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
	degree := func() int { return []int{0, 1, r.IntN(8), r.IntN(40), 60 + r.IntN(150)}[r.IntN(5)] }
	g := withColumns(t, r, sizedGraph(t, r, types[0], types[1], 9, degree))
	n := Neighbor{Frontier: Frontier(r.IntN(2)), Replace: r.IntN(3) == 0}
	for h := range 1 + r.IntN(2) {
		n.Fanouts = append(n.Fanouts, []int{3, 40, All, 1, 2, 5, 31, 32, 33, 0}[h+r.IntN(9-4*h)])
	}
	return g, n
}

// someSeeds draws until a request has seeds.
func someSeeds(draw func() *Request) *Request {
	for {
		req := draw()
		if slices.ContainsFunc(req.Seeds, func(ids []int64) bool { return len(ids) > 0 }) {
			return req
		}
	}
}

// compareChoices compares a sampler with the oracle, on some of the variants of the assembly.
func compareChoices(t *testing.T, what string, r *rand.Rand, g *graph.Graph, n Neighbor, req *Request) {
	t.Helper()
	err := validate(n, g.Schema())
	expect.Ensure(t, err == nil, "%s: %s: %v", what, n.Fingerprint(), err)
	want := oracle(g, newEdgeRuns(g), n, req)
	names := []string{"as opened", []string{"small", "small hash", "int64", "int64 hash", "hash"}[r.IntN(5)]}
	for name, w := range openDevice(t).openSome(n, g, 1+r.IntN(3), names) {
		compare(t, fmt.Sprintf("%s: %s: %s", what, n.Fingerprint(), name), g, w, req, want)
	}
}

func TestDeviceChoosesWhatTheOracleChooses(t *testing.T) {
	const seed = 20261125
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(60, 2000) {
		g, n := choiceOnDevice(t, r)
		n = randomChoice(r, n)
		req := someSeeds(func() *Request { return randomRequest(r, g.Schema(), uint64(round)) })
		compareChoices(t, fmt.Sprintf("seed %d round %d", seed, round), r, g, n, req)
	}
	for _, kernel := range []string{"choose_count", "choose_pick"} {
		expect.That(t, cudatest.Launches(kernel) != 0, "%s never ran", kernel)
	}
}

func TestDeviceLooksAtTimeAsTheOracleDoes(t *testing.T) {
	const seed = 20261126
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(60, 2000) {
		g, n := choiceOnDevice(t, r)
		if r.IntN(3) == 0 {
			n = randomChoice(r, n)
		}
		n = randomTimes(r, g.Schema(), n)
		n.Disjoint = n.Disjoint || r.IntN(2) == 0
		switch round % 4 {
		case 0:
			n.Time.Recent, n.Time.HalfLife, n.Replace, n.Weight = true, 0, false, ""
		case 1: // one time may be followed
			n.Time.Rules, n.Time.RulesPerType = []TimeRule{Before}, nil
			n.Time.Window, n.Time.WindowPerType = []int64{1}, nil
		}
		req := someSeeds(func() *Request { return randomTimedRequest(r, g, n, uint64(round)) })
		compareChoices(t, fmt.Sprintf("seed %d round %d", seed, round), r, g, n, req)
	}
}

// readsOfTimes returns how often a warp's 32 lanes read the sources of edges, and how often their times, for 8 hubs.
func readsOfTimes(t *testing.T, n Neighbor, degree int64) (sources, times uint64) {
	d, g := openDevice(t), hubsOfRows(t, degree, true)
	env := DeviceEnv{Env: Env{Graph: g, BatchSize: 8}, Topology: d.topology(g, unified.Int32), MaxBlocks: 2}
	d.uploadColumns(n, g, &env.Topology)
	req := &Request{Seeds: [][]int64{{0, 1, 2, 3, 4, 5, 6, 7}, nil}, Rand: NewRand(1, 0, 0, 0)}
	req.Times = [][]int64{slices.Repeat([]int64{degree/2 + 5}, 8), nil}
	o := d.open(n, env)
	cudatest.ResetStats(t)
	expect.OK(t, o.enqueue(context.Background(), req))
	expect.Ensure(t, o.replays == 0, "%d replays", o.replays)
	return cudatest.LinesAt(env.Topology.Indices)[1] / 32, cudatest.LinesAt(env.Topology.NodeColumns[0][1])[1] / 32
}

// What is read grows with the logarithm of the in-edges, where those lie in the order of the times of their sources.
func TestDeviceReadsFewTimesOfHubs(t *testing.T) {
	cudatest.Checks(t, "lines")
	for _, at := range []Temporal{{}, {Recent: true}, {Rules: []TimeRule{Before}}, {Window: []int64{100}},
		{Rules: []TimeRule{AnyTime}, Recent: true}} {
		for _, n := range []Neighbor{{Fanouts: []int{5}}, {Fanouts: []int{40}}, {Fanouts: []int{5}, Replace: true}} {
			if n.Replace && at.Recent {
				continue
			}
			n.Time, n.Time.Node = at, "time"
			var few, many [2]uint64
			few[0], few[1] = readsOfTimes(t, n, 256)
			many[0], many[1] = readsOfTimes(t, n, 65536)
			t.Logf("%s: of 256 in-edges %d, of 65,536 %d", n.Fingerprint(), few, many)
			for i := range few { // 8 hubs, two kernels, both ends of a window: a read more where edges double
				expect.That(t, many[i] <= few[i]+8*2*2*8, "%s: %d reads of 256 in-edges, %d of 65,536", n.Fingerprint(),
					few[i], many[i])
			}
		}
	}
}

func TestDeviceNamesTheEdgeWhoseWeightIsNone(t *testing.T) {
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		weights := slices.Repeat([]float64{1}, 700)
		weights[600] = bad
		g := starGraph(t, weights, nil)
		n := Neighbor{Fanouts: []int{2}, Weight: "w"}
		o := openDevice(t).openSome(n, g, 2, []string{"as opened"})["as opened"]
		err := o.Sample(context.Background(), &Request{Seeds: [][]int64{{0}}}, new(graph.Sample))
		want := fmt.Sprintf("edge 600: its weight in column \"w\" is %v", bad)
		expect.Says(t, err, ErrGraph, want, "weight %v", bad)
	}
	g := starGraph(t, []float64{math.MaxFloat64, 1, 1, 0}, nil)
	o := openDevice(t).openSome(Neighbor{Fanouts: []int{2}, Weight: "w"}, g, 2, []string{"as opened"})["as opened"]
	expect.Is(t, sampleOn(t, o, g, 1, &Request{Seeds: [][]int64{{0}}}), nil, "the greatest weight that there is")
}

// Of hubs warps choose slice by slice. One merges their picks: up to a fan-out of 32 in its lanes, else in memory.
func TestDeviceChoosesOfHubs(t *testing.T) {
	const seed = 20261123
	r := rand.New(rand.NewPCG(seed, 0))
	degree := 2000 // of the first; then few edges at once are among the least so far
	g := withColumns(t, r, sizedGraph(t, r, 1, 1, 5, func() (n int) {
		n, degree = degree, 150+r.IntN(150)
		return n
	}))
	req := &Request{Seeds: [][]int64{{}}, Rand: NewRand(seed, 0, 0, 1)}
	for v := range g.NumNodes() {
		req.Seeds[0] = append(req.Seeds[0], int64(v))
	}
	d := openDevice(t)
	for _, k := range []int{1, 5, 32, 33, 40, 64, 100} {
		for _, n := range []Neighbor{{Mask: "mask"}, {Mask: "mask32", Replace: true}, {Weight: "w64"}, {Weight: "w32"},
			{Weight: "w64", Mask: "mask"}, {Share: 0.4}} {
			n.Fanouts = []int{k}
			w := d.openSome(n, g, 2, []string{"as opened"})["as opened"]
			compare(t, fmt.Sprintf("seed %d: %s", seed, n.Fingerprint()), g, w, req, oracle(g, newEdgeRuns(g), n, req))
		}
	}
}

// A sampler that looks at the times of nodes names the edge whose source is invalid.
func TestDeviceNamesASourceThatHasNoTime(t *testing.T) {
	g := graphs.Of(t, graph.Arrays{
		Schema: graph.Schema{Nodes: []graph.NodeType{{Name: "node", Count: 3,
			Columns: []graph.Column{{Name: "born", DType: unified.Int64}}}},
			Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: 4}}},
		Indptr: unified.FromSlice([]int64{0, 4, 4, 4}), Indices: unified.FromSlice([]int32{1, 2, 7, 1}),
		NodeColumns: []map[string]unified.Tensor{{"born": unified.FromSlice([]int64{1, 2, 3})}},
	})
	n := Neighbor{Fanouts: []int{2}, Time: Temporal{Node: "born"}}
	o := openDevice(t).openSome(n, g, 2, []string{"as opened"})["as opened"]
	err := o.Sample(context.Background(), &Request{Seeds: [][]int64{{0}}, Times: [][]int64{{9}}}, new(graph.Sample))
	want := `edge 2: source 7 is not one of the 3 nodes of type "node"`
	expect.That(t, err != nil && strings.Contains(err.Error(), want), "%v, not %s", err, want)
}
