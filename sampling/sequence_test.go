package sampling

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// oracleToken is a token of docs/sampling.md, "Sequences".
type oracleToken struct {
	typ            int
	id, hop        int64
	edge, edgeType int64
	age            int64
	weight         float32
}

// oracleRows is the request whose items are the seeds of another one.
func oracleRows(g *graph.Graph, n Neighbor, req *Request) *Request {
	s := g.Schema()
	rows := &Request{Seeds: make([][]int64, len(s.Nodes)), Times: make([][]int64, len(s.Nodes)),
		From: make([][]int64, len(s.Nodes)), Rand: req.Rand, Exclude: req.Exclude}
	for t, seeds := range roots(s, req) {
		for _, v := range seeds {
			rows.Seeds[t] = append(rows.Seeds[t], v.id)
			rows.Times[t] = append(rows.Times[t], oracleTimeOf(g, n, req, t, v))
			rows.From[t] = append(rows.From[t], oracleFrom(req, v.tree))
		}
	}
	return rows
}

// oracleSequence is the row of a seed: docs/sampling.md, "Sequences", for Neighbor.
func oracleSequence(g *graph.Graph, runs edgeRuns, k Sequence, rows *Request, t int,
	seed rooted) (all []oracleToken) {
	s, n := g.Schema(), k.Of.(Neighbor)
	n.Disjoint = true
	hops := oracleHops(n)
	type entry struct {
		typ, hop int
		rooted
	}
	seen := map[entry]bool{{t, 0, seed}: true}
	row := []entry{{t, 0, seed}}
	all = []oracleToken{{typ: t, id: seed.id, edge: -1, edgeType: -1}}
	var dated []oracleToken
	for i := 0; i < len(row); i++ {
		v := row[i]
		for e := range s.Edges {
			if s.Edges[e].Dst != v.typ || v.hop == hops {
				continue
			}
			for _, pos := range oraclePick(g, runs, n, rows, oracleFanout(n, &s.Edges[e], v.hop), v.hop, e, v.rooted) {
				next := entry{s.Edges[e].Src, 0, oracleNext(g, n, s.Edges[e].Src, pos, v.rooted)}
				token := oracleToken{typ: next.typ, id: next.id, hop: int64(v.hop + 1), edge: pos, edgeType: int64(e)}
				if n.Time.on() {
					token.age = seed.time - oracleStep(g, n, next.typ, next.id, pos, seed.time)
				}
				if hops == 1 {
					dated = append(dated, token)
				} else if !seen[next] {
					seen[next] = true
					all = append(all, token)
					next.hop = v.hop + 1
					row = append(row, next)
				}
			}
		}
	}
	if hops == 1 && n.Time.on() { // ages may be beyond int64: times decide
		time := func(k oracleToken) int64 { return seed.time - k.age }
		slices.Reverse(dated)
		slices.SortStableFunc(dated, func(a, b oracleToken) int { return cmp.Compare(time(b), time(a)) })
	}
	all = append(all, dated...)
	if !k.SeedFirst {
		all = all[1:]
	}
	return all[:min(len(all), k.Length)]
}

// oracleScored is oracleSequence for PPR and PinSage.
func oracleScored(t *testing.T, g *graph.Graph, k Sequence, r Rand, typ int, id int64) (all []oracleToken) {
	o := &oracleLists{g: g}
	score := oracleScores(t, g, k.Of, r, id+g.Offset(typ), uint64(id), 0)
	nodes, weights := oracleTop(o, typ, score, k.Length)
	at := slices.Index(nodes, id+g.Offset(typ))
	if k.SeedFirst {
		first := oracleToken{typ: typ, id: id, edge: -1, edgeType: -1}
		if at >= 0 {
			first.weight = weights[at]
		}
		all = append(all, first)
	}
	for i, v := range nodes {
		if !k.SeedFirst || i != at {
			all = append(all, oracleToken{typ: typ, id: v - g.Offset(typ), weight: weights[i]})
		}
	}
	return all[:min(len(all), k.Length)]
}

// sequencesOf reads the rows of a sample.
func sequencesOf(t *testing.T, s *graph.Schema, k Sequence, out *graph.Sample) (rows [][]oracleToken) {
	t.Helper()
	arrays := map[string]func(int64) int64{}
	weights := []float32(nil)
	for _, a := range out.Arrays {
		if a.Name == "sequence_weight" {
			weights = expect.Must(unified.View[float32](a.Rows))(t)
			continue
		}
		arrays[a.Name] = func(i int64) int64 { return timeAt(a.Rows, i) }
	}
	cells := out.Arrays[0].Rows.Len() * int64(k.Length)
	at := func(name string, i, none int64) int64 {
		if f := arrays[name]; f != nil {
			return f(i)
		}
		return none
	}
	ids := make([]func(int64) int64, len(out.Nodes))
	for typ := range ids {
		ids[typ] = expect.Must(unified.Integers(out.Nodes[typ]))(t)
	}
	for i := range cells {
		if i%int64(k.Length) == 0 {
			rows = append(rows, nil)
		}
		row := &rows[len(rows)-1]
		local := arrays["sequence"](i)
		if local < 0 {
			for name, f := range arrays {
				none := map[bool]int64{true: 0, false: -1}[name == "sequence_age"]
				expect.That(t, f(i) == none, "%s behind the end: %d", name, f(i))
			}
			expect.That(t, weights == nil || weights[i] == 0, "a weight behind the end")
			continue
		}
		expect.That(t, int64(len(*row)) == i%int64(k.Length), "a token behind the end")
		token := oracleToken{typ: int(at("sequence_type", i, 0)), edge: at("sequence_edge", i, -1),
			edgeType: at("sequence_edge_type", i, -2), hop: at("sequence_hop", i, -2), age: at("sequence_age", i, 0)}
		if weights != nil {
			token.weight = weights[i]
		}
		token.id = ids[token.typ](local)
		expect.That(t, arrays["sequence_id"](i) == token.id, "id %d of node %d", arrays["sequence_id"](i), token.id)
		*row = append(*row, token)
	}
	return rows
}

func TestSequencesEqualTheOracle(t *testing.T) {
	const seed = 20261201
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(200, 6000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 6}}[r.IntN(4)]
		g := withColumns(t, r, sizedGraph(t, r, types[0], types[1], 40, func() int {
			return []int{0, 1, 2, 5, r.IntN(30)}[r.IntN(5)]
		}))
		k, request := randomSequence(t, r, g)
		if k.Of == nil {
			continue
		}
		w, err := k.Open(Env{Graph: g, BatchSize: 40})
		expect.OK(t, err)
		runs := newEdgeRuns(g)
		out := sampleOf(g, k, 40)
		for batch := range 3 {
			req := request(uint64(batch))
			expect.OK(t, w.Sample(context.Background(), req, out))
			checkSequences(t, fmt.Sprintf("round %d: %s", round, k.Fingerprint()), g, runs, k, req, out)
			if t.Failed() {
				return
			}
		}
		expect.OK(t, w.Close(), out.Close())
	}
}

// randomSequence draws a sampler of sequences, with what draws its requests.
func randomSequence(t *testing.T, r *rand.Rand, g *graph.Graph) (k Sequence, request func(batch uint64) *Request) {
	s := g.Schema()
	k = Sequence{Length: 1 + r.IntN(20), SeedFirst: r.IntN(3) == 0}
	request = func(batch uint64) *Request { return randomRequest(r, s, batch) }
	if r.IntN(4) == 0 {
		as, of := "", -1
		for e := range s.Edges {
			if s.Edges[e].Src == s.Edges[e].Dst {
				as, of = s.Edges[e].String(), s.Edges[e].Src
			}
		}
		if of < 0 {
			return k, request
		}
		k.Of = Sampler(PPR{Alpha: 0.15, Epsilon: []float64{1e-2, 1e-3}[r.IntN(2)], As: as})
		if r.IntN(2) == 0 {
			k.Of = PinSage{Neighbors: 1, Walks: r.IntN(9), Length: 1 + r.IntN(5), Restart: []float64{0, 0.3}[r.IntN(2)],
				As: as}
		}
		return k, func(batch uint64) *Request {
			req := randomRequest(r, s, batch)
			for typ := range req.Seeds {
				if req.Edges = nil; typ != of {
					req.Seeds[typ] = nil
				}
			}
			return req
		}
	}
	n := randomOptions(r, s)
	if n.Fanouts == nil {
		n.Fanouts = []int{3, 2}
	}
	n.Frontier, n.Disjoint = NewNodes, r.IntN(2) == 0
	for h := range n.Fanouts {
		n.Fanouts[h] = min(n.Fanouts[h], 15)
		if h > 0 && n.Fanouts[h] < 0 {
			n.Fanouts[h] = 4
		}
	}
	n.PerType = nil
	if r.IntN(3) == 0 {
		n.Weight, n.Replace = "w32", n.Replace && r.IntN(2) == 0
	}
	if r.IntN(4) == 0 {
		n.Mask, n.Share = []string{"mask", ""}[r.IntN(2)], []float64{0, 0.5}[r.IntN(2)]
	}
	n.Together = r.IntN(4) == 0
	if r.IntN(2) == 0 {
		n = randomTimes(r, s, n)
		n.Together = n.Together && n.Time.Node == "" && n.Time.RulesPerType == nil && n.Time.WindowPerType == nil
		timed := n
		timed.Disjoint = true
		request = func(batch uint64) *Request { return randomTimedRequest(r, g, timed, batch) }
	}
	k.Of = n
	_, err := k.Describe(s, 40)
	expect.OK(t, err)
	return k, request
}

// checkSequences compares a sample with the oracle's.
func checkSequences(t *testing.T, what string, g *graph.Graph, runs edgeRuns, k Sequence, req *Request,
	out *graph.Sample) {
	t.Helper()
	s := g.Schema()
	got := sequencesOf(t, s, k, out)
	n, near := k.Of.(Neighbor)
	rows := oracleRows(g, n, req)
	lists, row := make([][]int64, len(s.Nodes)), 0
	add := func(typ int, id int64) {
		if !slices.Contains(lists[typ], id) {
			lists[typ] = append(lists[typ], id)
		}
	}
	for typ, ids := range rows.Seeds {
		for _, id := range ids {
			add(typ, id)
		}
	}
	tree := int64(0)
	for typ, ids := range rows.Seeds {
		for i, id := range ids {
			var want []oracleToken
			if near {
				want = oracleSequence(g, runs, k, rows, typ, rooted{tree, id, rows.Times[typ][i]})
			} else {
				want = oracleScored(t, g, k, req.Rand, typ, id)
			}
			for j := range want {
				add(want[j].typ, want[j].id)
				if !near {
					want[j].edge = -1
				}
				if !near || len(s.Edges) == 1 {
					want[j].edgeType = -2
				}
				if !near || oracleHops(n) == 1 {
					want[j].hop = -2
				}
			}
			if row >= len(got) || !slices.Equal(got[row], want) {
				t.Fatalf("%s: row %d of %d (node %d of type %d):\ngot  %v\nwant %v", what, row, len(got), id, typ,
					got[min(row, len(got)-1)], want)
			}
			row++
			tree++
		}
	}
	expect.That(t, row == len(got), "%s: %d rows, want %d", what, len(got), row)
	for typ := range lists {
		ids := expect.Must(unified.Integers(out.Nodes[typ]))(t)
		have := []int64{}
		for i := range out.Nodes[typ].Len() {
			have = append(have, ids(i))
		}
		same := slices.Equal(have, lists[typ])
		expect.That(t, same, "%s: nodes of type %d: got %v, want %v", what, typ, have, lists[typ])
	}
}
