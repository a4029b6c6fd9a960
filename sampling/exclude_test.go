package sampling

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
)

// randomExclusion excludes some edges of the graph and some pairs that are not edges.
func randomExclusion(r *rand.Rand, g *graph.Graph, req *Request) {
	s := g.Schema()
	req.Exclude = make([]EdgePairs, len(s.Edges))
	add := func(e int, source, target int64) {
		req.Exclude[e].Sources = append(req.Exclude[e].Sources, source)
		req.Exclude[e].Targets = append(req.Exclude[e].Targets, target)
	}
	for range r.IntN(40) {
		if e := r.IntN(len(s.Edges)); r.IntN(3) == 0 || g.NumEdges() == 0 {
			if noEnds(s, e) {
				continue
			}
			add(e, r.Int64N(s.Nodes[s.Edges[e].Src].Count), r.Int64N(s.Nodes[s.Edges[e].Dst].Count))
			continue
		}
		pos := r.Int64N(g.NumEdges())
		e := typeAt(g, pos)
		v, _ := slices.BinarySearch(g.Indptr(), pos+1)
		source, target := indexAt(g, pos)-g.Offset(s.Edges[e].Src), int64(v-1)-g.Offset(s.Edges[e].Dst)
		add(e, source, target)
		if r.IntN(2) == 0 { // so that the edge matters
			req.Seeds[s.Edges[e].Dst] = append(req.Seeds[s.Edges[e].Dst], target)
		}
	}
}

// without returns the runs without the edges that a request excludes, looking at every edge.
func (runs edgeRuns) without(g *graph.Graph, req *Request) (edgeRuns, int) {
	left, gone := edgeRuns{}, 0
	s := g.Schema()
	for key, run := range runs {
		e := int(key[1])
		x := &req.Exclude[e]
		for _, pos := range run {
			source, target := indexAt(g, pos)-g.Offset(s.Edges[e].Src), key[0]-g.Offset(s.Edges[e].Dst)
			is := false
			for i := range x.Sources {
				is = is || x.Sources[i] == source && x.Targets[i] == target
			}
			if is {
				gone++
				continue
			}
			left[key] = append(left[key], pos)
		}
	}
	return left, gone
}

func TestExcludedEdgesAreAsIfTheGraphDidNotHaveThem(t *testing.T) {
	const seed = 20261124
	r := rand.New(rand.NewPCG(seed, 0))
	gone := 0
	for round := range roundsOrHeavy(100, 5000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
		g := randomGraph(t, r, types[0], types[1])
		n := randomOptions(r, g.Schema())
		n.Disjoint = r.IntN(4) == 0
		switch r.IntN(3) {
		case 1:
			g = withColumns(t, r, g)
			n = randomChoice(r, n)
		case 2:
			g = withColumns(t, r, g)
			n = randomTimes(r, g.Schema(), n)
			asOf := r.Int64N(20)
			n.Time.AsOf = &asOf // of seeds that are added
		}
		w := expect.Must(n.Open(Env{Graph: g, BatchSize: 100, EdgePos: true}))(t)
		runs := newEdgeRuns(g)
		for batch := range 3 {
			req := randomRequest(r, g.Schema(), uint64(batch))
			if n.Time.on() {
				req = randomTimedRequest(r, g, n, uint64(batch))
				req.Times, req.From = nil, nil
			}
			if batch != 1 { // one batch without, to see that nothing stays
				randomExclusion(r, g, req)
			} else {
				req.Exclude = make([]EdgePairs, types[1])
			}
			left, n1 := runs.without(g, req)
			gone += n1
			compare(t, fmt.Sprintf("seed %d round %d batch %d: %s", seed, round, batch, n.Fingerprint()), g, w, req,
				oracle(g, left, n, req))
		}
		expect.OK(t, w.Close())
	}
	expect.That(t, gone >= 300, "%d edges were left out: the test says little", gone)
}

func TestLaborIsAsIfTheGraphDidNotHaveExcludedEdges(t *testing.T) {
	const seed = 20261205
	r := rand.New(rand.NewPCG(seed, 0))
	gone := 0
	for round := range roundsOrHeavy(120, 5000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
		degree := func() int { return []int{0, r.IntN(4), r.IntN(40), r.IntN(400)}[r.IntN(4)] }
		g := sizedGraph(t, r, types[0], types[1], 20, degree)
		l := randomLabor(r, g.Schema())
		w := expect.Must(l.Open(Env{Graph: g, BatchSize: 100, EdgePos: true}))(t)
		keys, batch := keyOf{r.Uint64(), r.Uint32(), r.Uint32N(3)}, r.Uint64N(200)
		req := randomRequest(r, g.Schema(), 0)
		randomExclusion(r, g, req)
		req.Rand = NewRand(keys.seed, keys.epoch, keys.instance, batch)
		left, n := newEdgeRuns(g).without(g, req)
		gone += n
		compare(t, fmt.Sprintf("seed %d round %d: %s", seed, round, l.Fingerprint()), g, w, req,
			laborOracle(g, left, l, keys, batch, req))
		expect.OK(t, w.Close())
	}
	expect.That(t, gone >= 300, "%d edges were left out: the test says little", gone)
}

func TestExclusionsThatMakeNoSenseAreRefused(t *testing.T) {
	g := randomGraph(t, rand.New(rand.NewPCG(3, 3)), 1, 1)
	n := g.NumNodes()
	one := func(s ...int64) []EdgePairs { return []EdgePairs{{Sources: s[:1], Targets: s[1:]}} }
	for name, c := range map[string]struct {
		exclude []EdgePairs
		want    error
	}{
		"lengths":          {one(0), ErrOptions},
		"types":            {make([]EdgePairs, 2), ErrOptions},
		"source too large": {one(n, 0), graph.ErrSeed},
		"target negative":  {one(0, -1), graph.ErrSeed},
	} {
		req := &Request{Seeds: [][]int64{{0}}, Exclude: c.exclude}
		w := expect.Must(Neighbor{Fanouts: []int{2}}.Open(Env{Graph: g, BatchSize: 1}))(t)
		out := sampleOf(g, Neighbor{Fanouts: []int{2}}, 1)
		expect.Is(t, w.Sample(t.Context(), req, out), c.want, name)
		expect.OK(t, errors.Join(w.Close(), out.Close()))
	}
}

func TestASamplerThatCannotLeaveEdgesOutSaysSo(t *testing.T) {
	g := randomGraph(t, rand.New(rand.NewPCG(3, 3)), 1, 1)
	source, target := int64(-1), int64(0)
	for target = 0; source < 0; target++ {
		if first := g.Indptr()[target]; first < g.Indptr()[target+1] {
			source = indexAt(g, first)
		}
	}
	env := Env{Graph: g, BatchSize: 1}
	a := expect.Must(NewAssembler(env, AllNodes, BoundFanout(g.Schema(), 1, 1, 1)))(t)
	defer a.Close()
	out := new(graph.Sample)
	defer out.Close()
	bound := BoundFanout(g.Schema(), 1, 1, 1)
	bound.Init(out, g.Schema(), env.Scratch)
	edge := EdgePairs{Sources: []int64{source}, Targets: []int64{target - 1}}
	req := &Request{Seeds: [][]int64{{0}}, Exclude: []EdgePairs{edge}}
	all := func(d *Destination, picks []int64) []int64 { return append(picks, d.First) }
	err := a.Sample(t.Context(), req, out, all)
	expect.That(t, errors.Is(err, ErrOptions), "%v, want that it cannot", err)
}
