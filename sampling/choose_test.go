package sampling

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// oracleValues are the values of the edges, by position: nil for columns that the sampler does not read.
type oracleValues struct{ weight, mask []float64 }

// lastValues keeps what valuesOf found last, since it is asked for each destination.
var lastValues struct {
	of           *graph.Graph
	weight, mask string
	values       oracleValues
}

func valuesOf(g *graph.Graph, n Neighbor) (v oracleValues) {
	last := &lastValues
	if last.of == g && last.weight == n.Weight && last.mask == n.Mask {
		return last.values
	}
	defer func() { last.of, last.weight, last.mask, last.values = g, n.Weight, n.Mask, v }()
	return oracleValues{floats(g, n.Weight), floats(g, n.Mask)}
}

// floats are the values of a column of the edges, nil without one.
func floats(g *graph.Graph, name string) (to []float64) {
	c, ok := g.EdgeColumn(name)
	if !ok {
		return nil
	}
	for i := range c.Len() {
		switch c.DType() {
		case unified.Float32:
			x, _ := unified.View[float32](c)
			to = append(to, float64(x[i]))
		case unified.Float64:
			x, _ := unified.View[float64](c)
			to = append(to, x[i])
		case unified.Int32, unified.Int64:
			to = append(to, float64(timeAt(c, i)))
		case unified.Uint8:
			x, _ := unified.View[uint8](c)
			to = append(to, float64(x[i]))
		}
	}
	return to
}

// oracleChoose is docs/sampling.md, "Edges that may be followed" and "By weight", for one destination whose edges of
// the type are run.
func oracleChoose(g *graph.Graph, n Neighbor, req *Request, k, h, e int, key, index uint64, asOf, from int64,
	run []int64) (picks []int64) {
	v := valuesOf(g, n)
	draws := func(p rng.Purpose) uint64 {
		s := rng.Stream(rng.StageKey(req.Rand.key, key, p, uint8(h)), index)
		if n.Time.on() {
			s = rng.Stream(s, uint64(asOf))
		}
		return s
	}
	var may []int64
	for _, pos := range run {
		if (v.mask == nil || v.mask[pos] != 0) && (v.weight == nil || v.weight[pos] > 0) &&
			oraclePast(g, n, h, e, pos, asOf, from) {
			may = append(may, pos)
		}
	}
	if k < 0 {
		k = len(run)
	} else if k > 0 && n.Replace {
		if n.Share > 0 {
			k = min(k, oracleShare(n.Share, len(may)))
		}
		return oracleAgain(v, draws, run, may, k)
	}
	if n.Share > 0 {
		k = min(k, oracleShare(n.Share, len(may)))
	}
	if k >= len(may) {
		return may
	}
	late := func(pos int64) int64 {
		src := g.Schema().Edges[e].Src
		return oracleStep(g, n, src, indexAt(g, pos)-g.Offset(src), pos, asOf)
	}
	if n.Time.Recent {
		sort.SliceStable(may, func(i, j int) bool { return late(may[i]) < late(may[j]) })
		may = may[len(may)-k:]
		slices.Sort(may)
		return may
	}
	if v.weight == nil && n.Time.HalfLife == 0 {
		for _, t := range rng.Floyd(nil, draws(rng.Pick), uint64(len(may)), uint64(k)) {
			picks = append(picks, may[t])
		}
		return picks
	}
	raced, rank := map[int64]float64{}, map[int64]uint64{}
	for i, pos := range run {
		rank[pos] = uint64(i)
	}
	for _, pos := range may {
		u := rng.Unit(rng.Draw(draws(rng.Weigh), rank[pos]))
		raced[pos] = oracleKey(n, v, u, pos, asOf, late(pos))
	}
	sort.SliceStable(may, func(i, j int) bool { return raced[may[i]] < raced[may[j]] })
	slices.Sort(may[:k])
	return may[:k]
}

// oracleKey is the key of an edge in the race.
func oracleKey(n Neighbor, v oracleValues, u float64, pos, asOf, time int64) float64 {
	key := -rng.Log(u)
	if n.Time.HalfLife == 0 {
		return key / v.weight[pos]
	}
	key = rng.Log(key)
	if v.weight != nil {
		w, shift := v.weight[pos], 0.0
		if w < 0x1p-1022 {
			w, shift = w*0x1p54, 54*math.Ln2
		}
		key -= rng.Log(w) - shift
	}
	years := new(big.Float).SetInt64(asOf)
	age, _ := years.Sub(years, new(big.Float).SetInt64(time)).Float64()
	halvings := age * (math.Ln2 / n.Time.HalfLife)
	return key + halvings
}

func oracleShare(share float64, n int) int {
	fixed := new(big.Int).SetUint64(uint64(math.RoundToEven(share * (1 << 32))))
	k := fixed.Mul(fixed, big.NewInt(int64(n)))
	return int(k.Add(k, big.NewInt(1<<32-1)).Rsh(k, 32).Int64())
}

func oracleAgain(v oracleValues, draws func(rng.Purpose) uint64, run, may []int64, k int) (picks []int64) {
	if len(may) == 0 {
		return nil
	}
	if v.weight == nil {
		for _, t := range rng.WithReplacement(nil, draws(rng.Pick), uint64(len(may)), uint64(k)) {
			picks = append(picks, may[t])
		}
		return picks
	}
	most := 0.0
	for _, pos := range may {
		most = max(most, v.weight[pos])
	}
	digits := 0
	for n := len(run); n > 0; n /= 2 {
		digits++
	}
	scale := 61 - digits - new(big.Float).SetFloat64(most).MantExp(nil) + 1
	var fixed []*big.Int
	sum := new(big.Int)
	for _, pos := range may {
		w := new(big.Float).SetFloat64(v.weight[pos])
		q, _ := w.SetMantExp(w, scale).Int(nil)
		fixed = append(fixed, q)
		sum.Add(sum, q)
	}
	for j := range k {
		at := new(big.Int).SetUint64(rng.Bounded(rng.Draw(draws(rng.Weigh), uint64(j)), sum.Uint64()))
		for i, q := range fixed {
			if at.Cmp(q) < 0 {
				picks = append(picks, may[i])
				break
			}
			at.Sub(at, q)
		}
	}
	return picks
}

// withColumns gives a graph's edges weights, of both widths, and masks: many zeros and ties, some very small and great.
func withColumns(t testing.TB, r *rand.Rand, g *graph.Graph) *graph.Graph {
	t.Helper()
	s := *g.Schema()
	s.Nodes, s.Edges = slices.Clone(s.Nodes), slices.Clone(s.Edges)
	s.EdgeColumns = []graph.Column{{Name: "w32", DType: unified.Float32}, {Name: "w64", DType: unified.Float64},
		{Name: "mask", DType: unified.Uint8}, {Name: "none", DType: unified.Float32}}
	n := g.NumEdges()
	s.EdgeColumns = append(s.EdgeColumns, graph.Column{Name: "time", DType: unified.Int64},
		graph.Column{Name: "day", DType: unified.Int32}, graph.Column{Name: "mask32", DType: unified.Int32},
		graph.Column{Name: "mask64", DType: unified.Int64})
	w32, w64, mask := make([]float32, n), make([]float64, n), make([]uint8, n)
	kind := r.IntN(4)
	for i := range n {
		switch {
		case kind == 0:
			w64[i] = 1
		case kind == 1 || r.IntN(3) > 0:
			w64[i] = r.ExpFloat64()
		case r.IntN(2) == 0:
			w64[i] = []float64{0, 1, 1e-30, 1e30, math.SmallestNonzeroFloat32, math.Copysign(0, -1)}[r.IntN(6)]
		}
		w32[i] = float32(w64[i])
		if kind == 2 {
			w64[i] *= 1e-300
		}
		mask[i] = uint8(r.IntN(3) * r.IntN(128))
	}
	a := graph.Arrays{Schema: s, Indptr: unified.FromSlice(g.Indptr()), Indices: g.Indices(), Types: g.Types(),
		EdgeColumns: map[string]unified.Tensor{"w32": unified.FromSlice(w32), "w64": unified.FromSlice(w64),
			"mask": unified.FromSlice(mask), "none": unified.FromSlice(make([]float32, n))}}
	wide, wider := make([]int32, n), make([]int64, n)
	for i := range n {
		wide[i], wider[i] = int32(r.IntN(2)-1)<<r.IntN(31), int64(r.IntN(2))<<r.IntN(64)
	}
	a.EdgeColumns["mask32"], a.EdgeColumns["mask64"] = unified.FromSlice(wide), unified.FromSlice(wider)
	giveTimes(r, &a)
	return graphs.Of(t, a)
}

// randomChoice adds options to a sampler that make the edges of a destination differ.
func randomChoice(r *rand.Rand, n Neighbor) Neighbor {
	for !n.chooses() {
		n.Weight = []string{"", "w32", "w64", "w64", "none"}[r.IntN(5)]
		n.Mask = []string{"", "", "mask", "mask32", "mask64"}[r.IntN(5)]
		n.Share = []float64{0, 0, 1e-9, 0.1, 1. / 3, 0.5, 1}[r.IntN(7)]
	}
	n.Disjoint = r.IntN(4) == 0
	if r.IntN(5) == 0 && n.PerType == nil {
		n.Fanouts = []int{All, 3}
	}
	return n
}

func TestNeighborThatChoosesEqualsTheOracle(t *testing.T) {
	const seed = 20261123
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(80, 5000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
		g := randomGraph(t, r, types[0], types[1])
		if round%10 == 0 { // some have columns of several chunks
			degree := func() int { return []int{0, 511, 512, 513, r.IntN(3000)}[r.IntN(5)] }
			g = sizedGraph(t, r, types[0], types[1], 8, degree)
		}
		g = withColumns(t, r, g)
		n := randomChoice(r, randomOptions(r, g.Schema()))
		equalsOracle(t, fmt.Sprintf("seed %d round %d", seed, round), g, n, 2, func(batch uint64) *Request {
			return randomRequest(r, g.Schema(), batch)
		})
	}
}

// starGraph has one node with n edges from nodes 1 .. n, whose weights are these.
func starGraph(t testing.TB, weights []float64, mask []uint8) *graph.Graph {
	t.Helper()
	n := len(weights)
	indptr, indices := slices.Repeat([]int64{int64(n)}, n+2), make([]int32, n)
	indptr[0] = 0
	for i := range indices {
		indices[i] = int32(i + 1)
	}
	a := graph.Arrays{Schema: graph.Schema{Nodes: []graph.NodeType{{Name: "node", Count: int64(n + 1)}},
		Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: int64(n)}}},
		Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(indices),
		EdgeColumns: map[string]unified.Tensor{"w": unified.FromSlice(weights)}}
	a.Schema.EdgeColumns = []graph.Column{{Name: "w", DType: unified.Float64}}
	if mask != nil {
		a.Schema.EdgeColumns = append(a.Schema.EdgeColumns, graph.Column{Name: "mask", DType: unified.Uint8})
		a.EdgeColumns["mask"] = unified.FromSlice(mask)
	}
	return graphs.Of(t, a)
}

// TestASourceThatIsNoneFailsTheBatchWhereItsTimeIsLookedAt: a source is read before it is known to be one.
func TestASourceThatIsNoneFailsTheBatchWhereItsTimeIsLookedAt(t *testing.T) {
	g := graphs.Of(t, graph.Arrays{Schema: graph.Schema{
		Nodes: []graph.NodeType{{Name: "n", Count: 2, Columns: []graph.Column{{Name: "t", DType: unified.Int64}}}},
		Edges: []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: 3}}},
		Indptr: unified.FromSlice([]int64{0, 3, 3}), Indices: unified.FromSlice([]int32{1, 0, 2}),
		NodeColumns: []map[string]unified.Tensor{{"t": unified.FromSlice([]int64{3, 3})}}})
	for _, at := range []Temporal{{}, {Recent: true}, {HalfLife: 2}} {
		n := Neighbor{Fanouts: []int{1}, Time: at}
		n.Time.Node = "t"
		w := expect.Must(n.Open(Env{Graph: g, BatchSize: 1}))(t)
		out := sampleOf(g, n, 1)
		err := w.Sample(context.Background(), &Request{Seeds: [][]int64{{0}}}, out)
		expect.Says(t, err, ErrGraph, "edge 2: source 2", n.Fingerprint())
		expect.OK(t, w.Close(), out.Close())
	}
}

func TestAWeightThatIsNoneFailsTheBatchAndNamesTheEdge(t *testing.T) {
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1), -math.SmallestNonzeroFloat64} {
		for _, at := range []int{0, 3, 600} {
			weights := slices.Repeat([]float64{1}, 700)
			weights[at] = bad
			g := starGraph(t, weights, nil)
			for _, n := range []Neighbor{{Fanouts: []int{2}}, {Fanouts: []int{All}},
				{Fanouts: []int{2}, Replace: true}} {
				n.Weight = "w"
				w := expect.Must(n.Open(Env{Graph: g, BatchSize: 1}))(t)
				out := sampleOf(g, n, 1)
				err := w.Sample(context.Background(), &Request{Seeds: [][]int64{{0}}}, out)
				want := fmt.Sprintf("edge %d: its weight in column \"w\" is %v", at, bad)
				expect.Says(t, err, ErrGraph, want, "weight %v at %d", bad, at)
				w.Close()
				out.Close()
			}
		}
	}
}

func TestColumnsOfTheWrongKindAreRefused(t *testing.T) {
	g := withColumns(t, rand.New(rand.NewPCG(1, 1)), randomGraph(t, rand.New(rand.NewPCG(1, 1)), 1, 1))
	for _, n := range []Neighbor{{Weight: "mask"}, {Mask: "w32"}, {Mask: "w64"}, {Share: -0.5}, {Share: 1.5},
		{Share: math.NaN()}} {
		n.Fanouts = []int{2}
		expect.Is(t, validate(n, g.Schema()), ErrOptions, "%+v", n)
	}
	expect.Is(t, expect.Err((Neighbor{Fanouts: []int{2}, Weight: "absent"}).Open(Env{Graph: g})), ErrOptions,
		"a column that is not there")
}

// A hub of more than 2^32 edges has a share of them, too.
func TestAShareIsOfAnyNumberOfEdges(t *testing.T) {
	for _, eligible := range []int64{1, 3, 1 << 20, 1 << 33, 1<<40 + 1} {
		p := choosePicker[int64]{share: fixedShare(0.5), fanout: All}
		expect.Same(t, p.limit(eligible), (eligible+1)/2)
	}
}
