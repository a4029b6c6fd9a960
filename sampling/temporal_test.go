package sampling

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// giveTimes gives the edges of a graph columns time and day, and the nodes of the first type, and of others by chance,
// born: few values, so that many are equal, and now and then the ends of their range. Those of some types ascend in
// each destination, and the type says so: then their sources do not.
func giveTimes(r *rand.Rand, a *graph.Arrays) {
	indptr, _ := unified.View[int64](a.Indptr)
	n := indptr[len(indptr)-1]
	time, day := make([]int64, n), make([]int32, n)
	for i := range n {
		time[i], day[i] = r.Int64N(20)-5, int32(r.IntN(20))-5
		if r.IntN(50) == 0 {
			time[i] = []int64{math.MinInt64, math.MaxInt64}[r.IntN(2)]
		}
	}
	for e := range a.Schema.Edges {
		if r.IntN(2) == 0 {
			a.Schema.Edges[e].Order = graph.ByTime
		}
	}
	typeOf := func(pos int64) int {
		if v, err := unified.View[uint8](a.Types); err == nil {
			return int(v[pos])
		}
		if v, err := unified.View[uint16](a.Types); err == nil {
			return int(v[pos])
		}
		return 0
	}
	ids, _ := unified.View[int32](a.Indices)
	ids = slices.Clone(ids)
	a.Indices = unified.FromSlice(ids)
	for v := range len(indptr) - 1 {
		for from := indptr[v]; from < indptr[v+1]; {
			to := from + 1
			for to < indptr[v+1] && typeOf(to) == typeOf(from) {
				to++
			}
			if a.Schema.Edges[typeOf(from)].Order == graph.ByTime {
				slices.Sort(time[from:to])
				slices.Reverse(ids[from:to])
			}
			from = to
		}
	}
	a.EdgeColumns["time"], a.EdgeColumns["day"] = unified.FromSlice(time), unified.FromSlice(day)
	a.NodeColumns = make([]map[string]unified.Tensor, len(a.Schema.Nodes))
	for t := range a.Schema.Nodes {
		nt := &a.Schema.Nodes[t]
		if t > 0 && r.IntN(2) == 0 {
			continue
		}
		born := make([]int64, nt.Count)
		for i := range born {
			born[i] = r.Int64N(20)
		}
		up := r.IntN(2) == 0 // nodes in the order of their times
		if up {
			slices.Sort(born)
		}
		nt.Columns = append(slices.Clone(nt.Columns), graph.Column{Name: "born", DType: unified.Int64, Ascending: up})
		a.NodeColumns[t] = map[string]unified.Tensor{"born": unified.FromSlice(born)}
	}
}

func timeAt(c unified.Tensor, i int64) int64 {
	if v, err := unified.View[int64](c); err == nil {
		return v[i]
	}
	v, _ := unified.View[int32](c)
	return int64(v[i])
}

// oraclePast says that an edge may be followed at a hop as of a time, from another on: docs/sampling.md, "Time".
func oraclePast(g *graph.Graph, n Neighbor, hop, e int, pos, asOf, from int64) bool {
	rule, window := NotAfter, int64(0)
	rules, windows := ofType(g, e, n.Time.Rules, n.Time.RulesPerType), ofType(g, e, n.Time.Window, n.Time.WindowPerType)
	if len(rules) > 0 {
		rule = rules[min(hop, len(rules)-1)]
	}
	if len(windows) > 0 {
		window = windows[min(hop, len(windows)-1)]
	}
	past := func(time int64) bool {
		tooOld := window > 0 && asOf >= math.MinInt64+window && time < asOf-window
		return rule == AnyTime || !tooOld && from <= time && (time < asOf || time == asOf && rule == NotAfter)
	}
	if c, ok := g.EdgeColumn(n.Time.Edge); ok && !past(timeAt(c, pos)) {
		return false
	}
	src := g.Schema().Edges[e].Src
	c, ok := g.NodeColumn(src, n.Time.Node)
	return !ok || past(timeAt(c, indexAt(g, pos)-g.Offset(src)))
}

// ofType returns the list of an edge type.
func ofType[T any](g *graph.Graph, e int, all []T, perType map[string][]T) []T {
	if own, ok := perType[g.Schema().Edges[e].String()]; ok {
		return own
	}
	return all
}

// oracleStep returns the time of the step over an edge.
func oracleStep(g *graph.Graph, n Neighbor, srcType int, src, pos, asOf int64) int64 {
	if c, ok := g.EdgeColumn(n.Time.Edge); ok {
		return timeAt(c, pos)
	}
	if c, ok := g.NodeColumn(srcType, n.Time.Node); ok {
		return timeAt(c, src)
	}
	return asOf
}

// oracleTimeOf returns the time of a seed, whose tree is the number of its item.
func oracleTimeOf(g *graph.Graph, n Neighbor, req *Request, t int, v rooted) int64 {
	if !n.Time.on() {
		return 0
	}
	item := v.tree
	for nt, ids := range req.Seeds {
		if item < int64(len(ids)) {
			if req.Times == nil || req.Times[nt] == nil {
				if c, ok := g.NodeColumn(nt, n.Time.Node); ok {
					return timeAt(c, ids[item])
				}
				return *n.Time.AsOf
			}
			return req.Times[nt][item]
		}
		item -= int64(len(ids))
	}
	for _, edges := range req.Edges {
		if item < int64(len(edges.Sources)) {
			if edges.Times == nil {
				return *n.Time.AsOf
			}
			return edges.Times[item]
		}
		item -= int64(len(edges.Sources))
	}
	panic("no such item")
}

// oracleFrom returns the first time of an item, whose tree has its number.
func oracleFrom(req *Request, item int64) int64 {
	var from []int64
	add := func(list []int64, items int) {
		if from = append(from, list...); list == nil {
			from = append(from, slices.Repeat([]int64{math.MinInt64}, items)...)
		}
	}
	for t, ids := range req.Seeds {
		if req.From == nil {
			add(nil, len(ids))
		} else {
			add(req.From[t], len(ids))
		}
	}
	for _, e := range req.Edges {
		add(e.From, len(e.Sources))
	}
	return from[item]
}

// randomTimes adds options of time to a sampler.
func randomTimes(r *rand.Rand, s *graph.Schema, n Neighbor) Neighbor {
	t := &n.Time
	for !t.on() {
		t.Edge, t.Node = []string{"", "time", "time", "day"}[r.IntN(4)], []string{"", "born"}[r.IntN(2)]
	}
	rules := func() (list []TimeRule) {
		for range r.IntN(4) {
			list = append(list, []TimeRule{NotAfter, NotAfter, Before, Before, AnyTime}[r.IntN(5)])
		}
		return list
	}
	windows := func() (list []int64) {
		for range r.IntN(3) {
			list = append(list, []int64{0, 0, 1, 5, math.MaxInt64}[r.IntN(5)])
		}
		return list
	}
	if t.Rules, t.Window = rules(), windows(); !n.Together && r.IntN(2) == 0 {
		t.RulesPerType, t.WindowPerType = map[string][]TimeRule{}, map[string][]int64{}
		for e := range s.Edges {
			if r.IntN(2) == 0 {
				t.RulesPerType[s.Edges[e].String()] = rules()
			}
			if r.IntN(2) == 0 {
				t.WindowPerType[s.Edges[e].String()] = windows()
			}
		}
	}
	t.Chain = r.IntN(2) == 0
	if r.IntN(2) == 0 {
		asOf := r.Int64N(20)
		t.AsOf = &asOf
	}
	switch r.IntN(3) {
	case 0:
		t.Recent = !n.Replace && n.Weight == ""
	case 1:
		if !n.Replace {
			t.HalfLife = []float64{0.1, 3, 1e9}[r.IntN(3)]
		}
	}
	return n
}

// randomFrom draws first times beside times: near them, after them, and the ends of their range; or none.
func randomFrom(r *rand.Rand, times []int64) (from []int64) {
	if times == nil || r.IntN(4) == 0 {
		return nil
	}
	from = []int64{}
	for _, t := range times {
		f := []int64{math.MinInt64, math.MaxInt64, r.Int64N(22) - 4, r.Int64N(22) - 4}[r.IntN(4)]
		if r.IntN(2) == 0 && t > math.MinInt64+5 {
			f = t - r.Int64N(5)
		}
		from = append(from, f)
	}
	return from
}

// randomTimedRequest gives the items of a request times; those of nodes that have a column of times some have not.
func randomTimedRequest(r *rand.Rand, g *graph.Graph, n Neighbor, batch uint64) *Request {
	req := randomRequest(r, g.Schema(), batch)
	time := func() int64 {
		if r.IntN(30) == 0 {
			return []int64{math.MinInt64, math.MaxInt64}[r.IntN(2)]
		}
		return r.Int64N(22) - 1
	}
	req.Times = make([][]int64, len(req.Seeds))
	for t, ids := range req.Seeds {
		if _, ok := g.NodeColumn(t, n.Time.Node); ok && r.IntN(2) == 0 {
			continue
		}
		if n.Time.AsOf != nil && r.IntN(2) == 0 {
			continue
		}
		req.Times[t] = []int64{}
		for range ids {
			req.Times[t] = append(req.Times[t], time())
		}
	}
	if n.Disjoint && r.IntN(2) == 0 {
		req.From = make([][]int64, len(req.Seeds))
		for t, times := range req.Times {
			req.From[t] = randomFrom(r, times)
		}
	}
	for e := range req.Edges {
		if n.Time.AsOf != nil && r.IntN(2) == 0 {
			continue
		}
		for range req.Edges[e].Sources {
			req.Edges[e].Times = append(req.Edges[e].Times, time())
		}
		if n.Disjoint && r.IntN(2) == 0 {
			req.Edges[e].From = randomFrom(r, req.Edges[e].Times)
		}
	}
	return req
}

func TestNeighborThatLooksAtTimeEqualsTheOracle(t *testing.T) {
	const seed = 20261124
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(80, 6000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
		g := randomGraph(t, r, types[0], types[1])
		if round%10 == 0 {
			degree := func() int { return []int{0, 511, 512, 513, r.IntN(3000)}[r.IntN(5)] }
			g = sizedGraph(t, r, types[0], types[1], 8, degree)
		}
		g = withColumns(t, r, g)
		n := randomOptions(r, g.Schema())
		for h := range n.Fanouts { // with all edges the paths are too many
			if h > 0 && n.Fanouts[h] < 0 || n.Fanouts[h] > 20 {
				n.Fanouts[h] = 4
			}
		}
		n.PerType = nil
		if n.Fanouts == nil {
			n.Fanouts = []int{3, 2}
		}
		if r.IntN(3) == 0 {
			n = randomChoice(r, n)
		}
		n = randomTimes(r, g.Schema(), n)
		n.Disjoint = n.Disjoint || r.IntN(2) == 0
		err := validate(n, g.Schema())
		expect.Ensure(t, err == nil, "%s: %v", n.Fingerprint(), err)
		equalsOracle(t, fmt.Sprintf("seed %d round %d", seed, round), g, n, 2, func(batch uint64) *Request {
			return randomTimedRequest(r, g, n, batch)
		})
	}
}

// Where the first time of each item is its own less w, that is the window w at every hop, and no draw changes.
func TestFirstTimesOneWindowBeforeEachSeedAreThatWindow(t *testing.T) {
	const seed = 20261130
	r := rand.New(rand.NewPCG(seed, 0))
	edges := int64(0)
	for round := range roundsOrHeavy(40, 2000) {
		g := withColumns(t, r, randomGraph(t, r, 3, 5))
		n := Neighbor{Fanouts: []int{5, 3}, Frontier: Frontier(r.IntN(2)), Replace: r.IntN(3) == 0, Disjoint: true}
		n = randomTimes(r, g.Schema(), n)
		w := []int64{1, 5, 12}[r.IntN(3)]
		n.Time.Chain, n.Time.AsOf, n.Time.Window, n.Time.WindowPerType = false, nil, []int64{w}, nil
		req := randomTimedRequest(r, g, n, uint64(round))
		req.Edges, req.From = nil, nil
		for t := range req.Seeds {
			req.Times[t] = make([]int64, len(req.Seeds[t]))
			for i := range req.Times[t] {
				req.Times[t][i] = r.Int64N(22) - 1
			}
		}
		same := sampleOnce(t, g, n, req, true)
		own := *req
		n.Time.Window = nil
		for _, times := range req.Times {
			own.From = append(own.From, slices.Clone(times))
			for i := range times {
				own.From[len(own.From)-1][i] -= w
			}
		}
		each := sampleOnce(t, g, n, &own, true)
		for l := range same.Blocks {
			for e := range same.Blocks[l] {
				edges += same.Blocks[l][e].NumEdges()
				expect.That(t, bytes.Equal(each.Blocks[l][e].Indices.Bytes(), same.Blocks[l][e].Indices.Bytes()) &&
					bytes.Equal(each.Blocks[l][e].EdgePos.Bytes(), same.Blocks[l][e].EdgePos.Bytes()),
					"seed %d round %d: other edges of type %d in layer %d: %s", seed, round, e, l, n.Fingerprint())
			}
		}
	}
	expect.That(t, edges > 1000, "%d edges in all: the test says little", edges)
}

func TestFirstTimesWithoutTreesOrTimesOfTheirOwnAreRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	g := withColumns(t, r, randomGraph(t, r, 1, 1))
	node, one := [][]int64{{0}}, []int64{0}
	pair := func(e SeedEdges) *Request {
		e.Sources, e.Targets = one, one
		return &Request{Seeds: [][]int64{{}}, Edges: []SeedEdges{e}}
	}
	for _, c := range []struct {
		apart bool
		req   *Request
		says  string // "" where nothing is wrong
	}{
		{true, &Request{Seeds: node, Times: node, From: node}, ""}, {true, pair(SeedEdges{Times: one, From: one}), ""},
		{false, &Request{Seeds: node, Times: node, From: node}, "Disjoint"},
		{false, pair(SeedEdges{Times: one, From: one}), "Disjoint"},
		{true, &Request{Seeds: node, From: node}, "first times"}, {true, pair(SeedEdges{From: one}), "first times"},
		{true, &Request{Seeds: node, Times: [][]int64{nil}, From: node}, "first times"},
		{true, &Request{Seeds: node, Times: node, From: [][]int64{{0, 1}}}, "first times"},
		{true, pair(SeedEdges{Times: one, From: []int64{0, 1}}), "first times"},
	} {
		n := Neighbor{Fanouts: []int{2}, Frontier: AllNodes, Disjoint: c.apart, Time: Temporal{Edge: "time"}}
		w, out := expect.Must(n.Open(Env{Graph: g, BatchSize: 2}))(t), sampleOf(g, n, 2)
		if err := w.Sample(context.Background(), c.req, out); c.says == "" {
			expect.OK(t, err)
		} else {
			expect.Says(t, err, ErrOptions, c.says, "%+v, trees apart: %v", c.req, c.apart)
		}
		closeAll(t, w, out)
	}
}

func TestTimesThatAreMissingOrMakeNoSenseAreRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	g := withColumns(t, r, randomGraph(t, r, 1, 1))
	for what, n := range map[string]Neighbor{
		"no column": {Time: Temporal{Recent: true}}, "a rule": {Time: Temporal{Edge: "time", Rules: []TimeRule{3}}},
		"a window": {Time: Temporal{Edge: "time", Window: []int64{0, -1}}},
		"a window of a type": {Time: Temporal{Edge: "time",
			WindowPerType: map[string][]int64{g.Schema().Edges[0].Relation: {-1}}}},
		"a rule of no type": {Time: Temporal{Edge: "time", RulesPerType: map[string][]TimeRule{"nobody": {Before}}}},
		"a rule of a type, together": {Together: true, Time: Temporal{Edge: "time",
			RulesPerType: map[string][]TimeRule{g.Schema().Edges[0].Relation: {Before}}}},
		"a half-life": {Time: Temporal{Edge: "time", HalfLife: -1}},
		"NaN":         {Time: Temporal{Edge: "time", HalfLife: math.NaN()}}, "a float": {Time: Temporal{Edge: "w32"}},
		"recent and weight":      {Weight: "w32", Time: Temporal{Edge: "time", Recent: true}},
		"recent and replacement": {Replace: true, Time: Temporal{Edge: "time", Recent: true}},
		"nodes without it":       {Time: Temporal{Node: "absent"}},
	} {
		n.Fanouts = []int{2}
		expect.Is(t, validate(n, g.Schema()), ErrOptions, what)
	}
	n := Neighbor{Fanouts: []int{2}, Frontier: AllNodes, Time: Temporal{Edge: "time"}}
	w := expect.Must(n.Open(Env{Graph: g, BatchSize: 2}))(t)
	defer w.Close()
	for what, req := range map[string]*Request{"nodes": {Seeds: [][]int64{{0}}},
		"edges": {Seeds: [][]int64{{}}, Edges: []SeedEdges{{Sources: []int64{0}, Targets: []int64{0}}}}} {
		out := sampleOf(g, n, 2)
		expect.Says(t, w.Sample(context.Background(), req, out), ErrOptions, "have no times", "%s without times", what)
		out.Close()
	}
}

// lookedAt returns how many in-edges are asked for something, of a hub of so many, as of the middle.
func lookedAt(t *testing.T, n Neighbor, degree int64) int64 {
	g := hubsOfRows(t, degree, true)
	w := expect.Must(n.Open(Env{Graph: g, BatchSize: 1}))(t)
	defer w.Close()
	out := sampleOf(g, n, 1)
	defer out.Close()
	req := Request{Seeds: [][]int64{{3}, nil}, Times: [][]int64{{degree / 2}, nil}, Rand: NewRand(1, 0, 0, 0)}
	if n.Disjoint {
		req.From = [][]int64{{degree/2 - 1000}, nil}
	}
	expect.OK(t, w.Sample(context.Background(), &req, out))
	return w.(*worker[int32]).picker.(*choosePicker[int32]).looked
}

// Where in-edges lie in the order of the times of their sources, what is looked at grows with the logarithm of their
// number; by recency with the number of chunks, too.
func TestFewTimesAreLookedAtOfHubs(t *testing.T) {
	const few, many = 1 << 12, 1 << 18
	for _, at := range []Temporal{{}, {Rules: []TimeRule{Before}}, {Window: []int64{1000}}, {Recent: true},
		{Recent: true, Window: []int64{1000}}, {Recent: true, Rules: []TimeRule{AnyTime}}, {HalfLife: 10}} {
		for _, n := range []Neighbor{{}, {Share: 0.001}, {Replace: true}, {Disjoint: true}} {
			if n.Replace && at.Recent || at.HalfLife > 0 && (n.Replace || n.Share > 0) {
				continue
			}
			n.Fanouts, n.Time = []int{64}, at
			n.Time.Node = "time"
			a, b, most := lookedAt(t, n, few), lookedAt(t, n, many), int64(2*6)
			if at.HalfLife > 0 {
				most += many / 2 / chunkEdges
			}
			t.Logf("%s: %d of %d in-edges, %d of %d", n.Fingerprint(), a, few, b, many)
			expect.That(t, b <= a+most, "%s: %d of %d in-edges are looked at, and %d of %d", n.Fingerprint(), a, few, b,
				many)
		}
	}
}

// What is known of the order of times changes no pick by recency: the race over edges in order has the same winners.
func TestPicksByRecencyAreTheSameOfTimesInOrder(t *testing.T) {
	const degree = 4096
	req := Request{Seeds: [][]int64{nil, nil}, Times: [][]int64{nil, nil}, Rand: NewRand(7, 0, 0, 0)}
	for i := range int64(64) {
		req.Seeds[0], req.Times[0] = append(req.Seeds[0], i%8), append(req.Times[0], 1000+48*i)
	}
	graphs := [2]*graph.Graph{hubsOfRows(t, degree, false), hubsOfRows(t, degree, true)}
	for _, halfLife := range []float64{1e-300, 0.5, 10, 40, 100, 1000, 1e6, 1e300} {
		for _, k := range []int{1, 5, 64, 700} {
			n, picks := Neighbor{Fanouts: []int{k}, Time: Temporal{Node: "time", HalfLife: halfLife}}, [2][]int64{}
			for i, g := range graphs {
				w := expect.Must(n.Open(Env{Graph: g, BatchSize: 64, EdgePos: true}))(t)
				out := sampleOf(g, n, 64)
				expect.OK(t, w.Sample(context.Background(), &req, out))
				at := expect.Must(unified.Integers(out.Blocks[0][0].EdgePos))(t)
				for e := range out.Blocks[0][0].NumEdges() {
					picks[i] = append(picks[i], at(e))
				}
				closeAll(t, w, out)
			}
			expect.That(t, len(picks[0]) == 64*k && slices.Equal(picks[0], picks[1]), "half-life %v: other picks of %d",
				halfLife, k)
		}
	}
}
