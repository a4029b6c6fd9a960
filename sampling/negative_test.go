package sampling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// withNodeColumns returns the graph with columns of weights, times and kinds for its nodes, and one of times for its
// edges. Some weights are 0.
func withNodeColumns(t testing.TB, r *rand.Rand, g *graph.Graph) *graph.Graph {
	t.Helper()
	s := *g.Schema()
	when := make([]int32, g.NumEdges())
	for i := range when {
		when[i] = int32(r.IntN(8))
	}
	s.Nodes, s.EdgeColumns = slices.Clone(s.Nodes), []graph.Column{{Name: "when", DType: unified.Int32}}
	a := graph.Arrays{Schema: s, Indptr: unified.FromSlice(g.Indptr()), Indices: g.Indices(), Types: g.Types(),
		EdgeColumns: map[string]unified.Tensor{"when": unified.FromSlice(when)}}
	for i := range s.Nodes {
		n := s.Nodes[i].Count
		weights, times, kinds := make([]float32, n), make([]int32, n), make([]uint8, n)
		for v := range weights {
			weights[v], times[v], kinds[v] = float32(r.IntN(4))*r.Float32(), int32(r.IntN(20)), uint8(r.IntN(3))
		}
		if n > 0 {
			weights[r.Int64N(n)] = 1
		}
		if r.IntN(3) == 0 {
			slices.Sort(times)
		}
		s.Nodes[i].Columns = []graph.Column{{Name: "weight", DType: unified.Float32}, {Name: "time",
			DType: unified.Int32}, {Name: "kind", DType: unified.Uint8}}
		a.NodeColumns = append(a.NodeColumns, map[string]unified.Tensor{"weight": unified.FromSlice(weights),
			"time": unified.FromSlice(times), "kind": unified.FromSlice(kinds)})
	}
	return graphs.Of(t, a)
}

// edgesByEnds counts the edges of a graph by type and own ids of both ends.
func edgesByEnds(g *graph.Graph) map[[3]int64]int {
	s, edges := g.Schema(), map[[3]int64]int{}
	for v := range g.NumNodes() {
		for pos := g.Indptr()[v]; pos < g.Indptr()[v+1]; pos++ {
			et := &s.Edges[typeAt(g, pos)]
			edges[[3]int64{int64(typeAt(g, pos)), indexAt(g, pos) - g.Offset(et.Src), v - g.Offset(et.Dst)}]++
		}
	}
	return edges
}

// oracleNegatives is docs/sampling.md, "Negatives", word by word.
type oracleNegatives struct {
	g     *graph.Graph
	n     Negatives
	edges map[[3]int64]int
}

// weights returns the weight of each node at an end of an edge type, as integers.
func (o *oracleNegatives) weights(e, end, nodeType int) []*big.Int {
	count := o.g.Schema().Nodes[nodeType].Count
	w := make([]*big.Int, count)
	for v := range w {
		w[v] = big.NewInt(1)
	}
	switch o.n.Law {
	case ByDegree:
		degree := make([]int, count)
		for ends, n := range o.edges {
			if ends[0] == int64(e) {
				degree[ends[1+end]] += n
			}
		}
		for v, d := range degree {
			x := math.Sqrt(float64(d) * math.Sqrt(float64(d)))
			if o.n.Alpha != 0 && o.n.Alpha != 0.75 {
				x = digitPower(float64(d), math.RoundToEven(o.n.Alpha*(1<<32))/(1<<32), 0)
			}
			w[v] = big.NewInt(int64(math.Floor(65536 * x)))
		}
	case ByWeight:
		column, _ := o.g.NodeColumn(nodeType, "weight")
		values, _ := unified.View[float32](column)
		b := min(52, 62-len(fmt.Sprintf("%b", count)))
		unit := math.Pow(2, float64(math.Ilogb(float64(slices.Max(values)))+1-b))
		for v, x := range values {
			w[v] = big.NewInt(int64(math.Ceil(float64(x) / unit)))
		}
	}
	return w
}

func (o *oracleNegatives) time(nodeType int, v int64) int64 {
	column, _ := o.g.NodeColumn(nodeType, "time")
	values, _ := unified.View[int32](column)
	return int64(values[v])
}

// digitPower returns x^alpha, whose binary digits from the one of this place on are given.
func digitPower(x, alpha float64, place int) float64 {
	if alpha == 1 {
		return x
	}
	if place == 32 {
		return 1
	}
	inner := 1.0
	if alpha *= 2; alpha >= 1 {
		inner = x
	}
	return math.Sqrt(inner * digitPower(x, math.Mod(alpha, 1), place+1))
}

// past returns the times and other ends of the edges of a type that a node has at an end.
func (o *oracleNegatives) past(e, end int, node int64) (list [][2]int64) {
	column, _ := o.g.EdgeColumn("when")
	when, _ := unified.View[int32](column)
	et := &o.g.Schema().Edges[e]
	for v := range o.g.NumNodes() {
		for pos := o.g.Indptr()[v]; pos < o.g.Indptr()[v+1]; pos++ {
			ends := []int64{indexAt(o.g, pos) - o.g.Offset(et.Src), v - o.g.Offset(et.Dst)}
			if int(typeAt(o.g, pos)) == e && ends[end] == node {
				list = append(list, [2]int64{int64(when[pos]), ends[1-end]})
			}
		}
	}
	return list
}

// drawEnd returns the node for a draw; -1 for none.
func (o *oracleNegatives) drawEnd(draw uint64, law Law, e, end int, batch []int64, own, stays, time int64) int64 {
	et := &o.g.Schema().Edges[e]
	nodeType := []int{et.Src, et.Dst}[end]
	if law == Historical {
		earlier := slices.DeleteFunc(o.past(e, 1-end, stays), func(x [2]int64) bool { return x[0] >= time })
		slices.SortFunc(earlier, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
		if len(earlier) == 0 {
			return -1
		}
		return earlier[rng.Bounded(draw, uint64(len(earlier)))][1]
	}
	kinds, _ := o.g.NodeColumn(nodeType, "kind")
	var there []int64
	for v := range o.g.Schema().Nodes[nodeType].Count {
		if (o.n.Time == "" || o.time(nodeType, v) <= time) &&
			(o.n.Type == "" || kinds.Bytes()[v] == kinds.Bytes()[own]) {
			there = append(there, v)
		}
	}
	if law == InBatch {
		v := batch[rng.Bounded(draw, uint64(len(batch)))]
		if !slices.Contains(there, v) {
			return -1
		}
		return v
	}
	if o.n.Time != "" {
		sort.SliceStable(there, func(i, j int) bool { return o.time(nodeType, there[i]) < o.time(nodeType, there[j]) })
	}
	weights, total := o.weights(e, end, nodeType), new(big.Int)
	for _, v := range there {
		total.Add(total, weights[v])
	}
	if total.Sign() == 0 {
		return -1
	}
	x := new(big.Int).Mul(new(big.Int).SetUint64(draw), total)
	x.Rsh(x, 64)
	for _, v := range there {
		if x.Sub(x, weights[v]).Sign() < 0 {
			return v
		}
	}
	panic("beyond the last node")
}

// one returns the ends of a negative of edge i; one of them is -1 where it is refused.
func (o *oracleNegatives) one(stream uint64, first uint64, law Law, e int, l *LinkSeeds, i int,
	sources, targets []int64) (u, v int64) {
	u, v = sources[i], targets[i]
	which := o.n.Replace
	if which == EitherEnd {
		which = []End{SourceEnd, TargetEnd}[rng.Bounded(rng.Draw(stream, first), 2)]
	}
	time := int64(0)
	if len(l.Times) > 0 {
		time = l.Times[i]
	}
	if which != TargetEnd {
		u = o.drawEnd(rng.Draw(stream, first+1), law, e, 0, sources, u, v, time)
	}
	if which != SourceEnd {
		v = o.drawEnd(rng.Draw(stream, first+2), law, e, 1, targets, v, u, time)
	}
	self := u == sources[i] && v == targets[i]
	if o.n.Law == Historical && u >= 0 && v >= 0 && (self || slices.Contains(o.past(e, 0, u), [2]int64{time, v})) {
		return -1, -1
	}
	et := &o.g.Schema().Edges[e]
	if o.n.Strict && (o.edges[[3]int64{int64(e), u, v}] != 0 || u == v && et.Src == et.Dst || self) {
		return -1, -1
	}
	return u, v
}

func (o *oracleNegatives) draw(r Rand, e int, l *LinkSeeds) {
	n := len(l.Items)
	key := o.g.Schema().Edges[e].Key
	tries := 1
	if o.n.Strict || o.n.Time != "" && o.n.Law == InBatch || o.n.Law == Historical {
		if tries = o.n.Tries; tries == 0 {
			tries = 16
		}
	}
	all := tries
	if o.n.Fill {
		all = 2 * tries
	}
	sources, targets := slices.Clone(l.Sources), slices.Clone(l.Targets)
	for i := range n {
		stream := rng.Stream(rng.StageKey(r.key, key, 2, 0), uint64(l.Items[i]))
		count := int(float64(i+1)*o.n.Ratio) - int(float64(i)*o.n.Ratio)
		for j := range count {
			u, v := int64(-1), int64(-1)
			for try := range all {
				law := o.n.Law
				if try >= tries {
					law = Uniform
				}
				u, v = o.one(stream, uint64(3*(j*all+try)), law, e, l, i, sources, targets)
				if u >= 0 && v >= 0 {
					break
				}
			}
			if u < 0 || v < 0 {
				l.Missed++
				if !o.n.Triplets {
					continue
				}
				u, v = sources[i], targets[i]
			}
			l.Sources, l.Targets, l.Labels = append(l.Sources, u), append(l.Targets, v), append(l.Labels, 0)
			if l.Group = append(l.Group, int32(i)); len(l.Times) > 0 {
				l.Times = append(l.Times, l.Times[i])
			}
		}
	}
}

// randomNegatives draws options.
func randomNegatives(r *rand.Rand) Negatives {
	n := Negatives{Ratio: []float64{1, 3, 0.4, 2.5}[r.IntN(4)], Law: Law(r.IntN(5)), Replace: End(r.IntN(4)),
		Strict: r.IntN(2) == 0, Tries: []int{0, 1, 3}[r.IntN(3)]}
	switch n.Law {
	case ByWeight:
		n.Weight = "weight"
	case ByDegree:
		n.Alpha = []float64{0, 0.75, 0.5, 1, 0.3, 0x1p-32}[r.IntN(6)]
	case Historical:
		n.History, n.Strict, n.Replace, n.Fill = "when", false, End(r.IntN(3)), r.IntN(2) == 0
	}
	if r.IntN(2) == 0 && (n.Law != Historical || n.Fill) {
		n.Time = "time"
	}
	if r.IntN(2) == 0 && (n.Law != Historical || n.Fill) && n.Law != InBatch {
		n.Type = "kind"
	}
	if n.Replace <= SourceEnd && n.Ratio >= 1 && r.IntN(2) == 0 {
		n.Ratio, n.Triplets = math.Floor(n.Ratio), true
	}
	return n
}

// randomLinks draws seeds that are edges: edges of the graph and others, with times.
func randomLinks(r *rand.Rand, s *graph.Schema, e int) *LinkSeeds {
	l := &LinkSeeds{}
	et := &s.Edges[e]
	for i := range r.IntN(12) {
		if noEnds(s, e) {
			break
		}
		l.Sources = append(l.Sources, r.Int64N(s.Nodes[et.Src].Count))
		l.Targets = append(l.Targets, r.Int64N(s.Nodes[et.Dst].Count))
		l.Labels, l.Group = append(l.Labels, 1), append(l.Group, int32(i))
		l.Items, l.Times = append(l.Items, r.Int64N(1000)), append(l.Times, int64(r.IntN(24)-2))
	}
	return l
}

func (l *LinkSeeds) clone() *LinkSeeds {
	c := *l
	c.SeedEdges = SeedEdges{Sources: slices.Clone(l.Sources), Targets: slices.Clone(l.Targets),
		Labels: slices.Clone(l.Labels), Times: slices.Clone(l.Times)}
	c.Group = slices.Clone(l.Group)
	return &c
}

func TestNegativesEqualTheOracle(t *testing.T) {
	const seed = 20261125
	r := rand.New(rand.NewPCG(seed, 0))
	negatives, missed := 0, int64(0)
	for round := range roundsOrHeavy(400, 5000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
		degree := func() int { return r.IntN(1 + r.IntN(16)) }
		g := withNodeColumns(t, r, sizedGraph(t, r, types[0], types[1], 12, degree))
		n := randomNegatives(r)
		all := make([]bool, types[1])
		for e := range all {
			all[e] = !noEnds(g.Schema(), e)
		}
		var ledger pinned.Ledger
		d := expect.Must(n.Open(t.Context(), Env{Graph: g, Scratch: pinned.Options{Ledger: &ledger}}, all))(t)
		o := oracleNegatives{g, n, edgesByEnds(g)}
		for e := range all {
			got := randomLinks(r, g.Schema(), e)
			given, want, rand := len(got.Items), got.clone(), NewRand(r.Uint64(), 1, 2, 3)
			expect.OK(t, d.Draw(rand, e, got))
			o.draw(rand, e, want)
			if diff := expect.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, round %d, edge type %d: %s: %s", seed, round, e, n.Fingerprint(), diff)
			}
			negatives += len(got.Sources) - given
			missed += got.Missed
			o.mustKeepPromises(t, e, got, given)
		}
		if err := d.Close(); err != nil || ledger.Used(pinned.Topology) != 0 {
			t.Fatalf("%v, %d bytes are held", err, ledger.Used(pinned.Topology))
		}
	}
	expect.That(t, negatives >= roundsOf(400)*10 && missed >= int64(roundsOf(400)/2),
		"%d negatives, %d not found: the test says little", negatives, missed)
}

// mustKeepPromises checks what users rely on: strict negatives are not edges, one end stays, nodes exist by then.
func (o *oracleNegatives) mustKeepPromises(t *testing.T, e int, l *LinkSeeds, given int) {
	t.Helper()
	et := &o.g.Schema().Edges[e]
	for i := given; i < len(l.Sources); i++ {
		u, v, of := l.Sources[i], l.Targets[i], l.Group[i]
		self := u == l.Sources[of] && v == l.Targets[of]
		switch {
		case l.Labels[i] != 0:
			t.Fatalf("a negative has label %d", l.Labels[i])
		case o.n.Triplets && self: // stands for one that was not found
			continue
		case o.n.Strict && (o.edges[[3]int64{int64(e), u, v}] > 0 || self || u == v && et.Src == et.Dst):
			t.Fatalf("%s: strict negative %d -> %d is an edge, a loop or its own origin", o.n.Fingerprint(), u, v)
		case o.n.Replace == TargetEnd && u != l.Sources[of], o.n.Replace == SourceEnd && v != l.Targets[of],
			o.n.Replace == EitherEnd && u != l.Sources[of] && v != l.Targets[of]:
			t.Fatalf("%s: %d -> %d of %d -> %d does not keep an end", o.n.Fingerprint(), u, v, l.Sources[of],
				l.Targets[of])
		case o.n.Law == Historical && (self || slices.Contains(o.past(e, 0, u), [2]int64{l.Times[of], v})):
			t.Fatalf("%s: %d -> %d is an edge now", o.n.Fingerprint(), u, v)
		case o.n.Law == Historical && !o.n.Fill && !slices.ContainsFunc(o.past(e, 0, u), func(x [2]int64) bool {
			return x[0] < l.Times[of] && x[1] == v
		}):
			t.Fatalf("%s: %d -> %d was no edge before", o.n.Fingerprint(), u, v)
		case o.n.Law != Historical && o.n.Time != "" && u != l.Sources[of] && o.time(et.Src, u) > l.Times[of],
			o.n.Law != Historical && o.n.Time != "" && v != l.Targets[of] && o.time(et.Dst, v) > l.Times[of]:
			t.Fatalf("%s: %d -> %d: a node of the future", o.n.Fingerprint(), u, v)
		}
	}
	expect.Ensure(t, !o.n.Triplets || len(l.Sources) == given*(1+int(o.n.Ratio)),
		"%s: %d edges for %d: not a row of each", o.n.Fingerprint(), len(l.Sources), given)
}

func TestNegativesOfACompleteGraphAreMissed(t *testing.T) {
	const n = 5
	d := graph.EdgeData{}
	for u := range int64(n) {
		for v := range int64(n) {
			d.Src, d.Dst = append(d.Src, u), append(d.Dst, v)
		}
	}
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: n}}, Edges: []graph.EdgeData{d}})
	for _, triplets := range []bool{false, true} {
		n := Negatives{Ratio: 2, Strict: true, Triplets: triplets}
		draw := expect.Must(n.Open(t.Context(), Env{Graph: g}, []bool{true}))(t)
		l := &LinkSeeds{SeedEdges: SeedEdges{Sources: []int64{1, 2}, Targets: []int64{3, 3}, Labels: []int64{1, 1}},
			Items: []int64{0, 1}, Group: []int32{0, 1}}
		expect.OK(t, errors.Join(draw.Draw(NewRand(1, 0, 0, 0), 0, l), draw.Close()))
		want := []int64{1, 2}
		if triplets { // the edge itself stands for what was not found
			want = []int64{1, 2, 1, 1, 2, 2}
		}
		labels := []int64{1, 1, 0, 0, 0, 0}[:len(want)]
		expect.That(t, l.Missed == 4 && slices.Equal(l.Sources, want) && slices.Equal(l.Labels, labels),
			"triplets %t: %d missed, sources %v of labels %v, want 4, %v and %v", triplets, l.Missed, l.Sources,
			l.Labels, want, labels)
	}
}

// Weights of which none is above 0 are no law.
func TestNegativesByNoWeightAreRefused(t *testing.T) {
	zeros := graph.NodeData{Count: 3, Columns: map[string]unified.Tensor{"w": unified.FromSlice(make([]float32, 3))}}
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{zeros},
		Edges: []graph.EdgeData{{Src: []int64{0}, Dst: []int64{1}}}})
	_, err := (Negatives{Ratio: 1, Law: ByWeight, Weight: "w"}).Open(t.Context(), Env{Graph: g}, []bool{true})
	expect.That(t, errors.Is(err, ErrOptions) && strings.Contains(err.Error(), `column "w" are 0`), "%v", err)
}

// Tables of degrees take a look at every edge, which ends with the context.
func TestTablesOfNegativesEndWithTheContext(t *testing.T) {
	g := randomGraph(t, rand.New(rand.NewPCG(1, 1)), 1, 1)
	ctx, end := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	end(cause)
	_, err := Negatives{Ratio: 1, Law: ByDegree}.Open(ctx, Env{Graph: g}, []bool{true})
	expect.That(t, errors.Is(err, cause), "%v; want %v", err, cause)
}

// Options that do not belong together are refused, before anything is read.
func TestOptionsOfNegativesBelongTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	g := withNodeColumns(t, r, randomGraph(t, r, 1, 1))
	past := Negatives{Ratio: 1, Law: Historical, History: "when"}
	with := func(change func(n *Negatives)) Negatives {
		n := past
		change(&n)
		return n
	}
	for name, n := range map[string]Negatives{
		"no such types":           {Ratio: 1, Type: "knid"},
		"types in-batch":          {Ratio: 1, Law: InBatch, Type: "kind"},
		"exponent below 0":        {Ratio: 1, Law: ByDegree, Alpha: -0.5},
		"exponent near 0":         {Ratio: 1, Law: ByDegree, Alpha: 0x1p-33},
		"exponent above 1":        {Ratio: 1, Law: ByDegree, Alpha: 1.5},
		"exponent NaN":            {Ratio: 1, Law: ByDegree, Alpha: math.NaN()},
		"exponent of no degree":   {Ratio: 1, Alpha: 0.5},
		"history without the law": {Ratio: 1, History: "when"},
		"the law without history": {Ratio: 1, Law: Historical},
		"no such history":         {Ratio: 1, Law: Historical, History: "then"},
		"history that is strict":  with(func(n *Negatives) { n.Strict = true }),
		"history of both ends":    with(func(n *Negatives) { n.Replace = BothEnds }),
		"history by nodes' times": with(func(n *Negatives) { n.Time = "time" }),
		"a fill of another law":   {Ratio: 1, Fill: true},
	} {
		expect.Is(t, n.Validate(g.Schema()), ErrOptions, name)
	}
	expect.OK(t, past.Validate(g.Schema()))
}

func TestNegativesThatMakeNoSenseAreRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	g := withNodeColumns(t, r, randomGraph(t, r, 1, 1))
	column, _ := g.NodeColumn(0, "weight")
	weights, _ := unified.View[float32](column)
	for name, c := range map[string]struct {
		n     Negatives
		spoil float32
	}{
		"negative ratio":          {n: Negatives{Ratio: -1}},
		"ratio NaN":               {n: Negatives{Ratio: math.NaN()}},
		"options without a ratio": {n: Negatives{Strict: true}},
		"fraction of triplets":    {n: Negatives{Ratio: 1.5, Triplets: true}},
		"triplets of both ends":   {n: Negatives{Ratio: 1, Triplets: true, Replace: BothEnds}},
		"no such law":             {n: Negatives{Ratio: 1, Law: 9}},
		"negative tries":          {n: Negatives{Ratio: 1, Strict: true, Tries: -1}},
		"weights without the law": {n: Negatives{Ratio: 1, Weight: "weight"}},
		"the law without weights": {n: Negatives{Ratio: 1, Law: ByWeight}},
		"no such weights":         {n: Negatives{Ratio: 1, Law: ByWeight, Weight: "wieght"}},
		"no such times":           {n: Negatives{Ratio: 1, Time: "tiem"}},
		"types that are floats":   {n: Negatives{Ratio: 1, Type: "weight"}},
		"times that are floats":   {n: Negatives{Ratio: 1, Time: "weight"}},
		"negative weight":         {n: Negatives{Ratio: 1, Law: ByWeight, Weight: "weight"}, spoil: -1},
		"infinite weight":         {Negatives{Ratio: 1, Law: ByWeight, Weight: "weight"}, float32(math.Inf(1))},
		"weight NaN":              {Negatives{Ratio: 1, Law: ByWeight, Weight: "weight"}, float32(math.NaN())},
	} {
		was := weights[0]
		if c.spoil != 0 {
			weights[0] = c.spoil
		}
		d, err := c.n.Open(t.Context(), Env{Graph: g}, []bool{true})
		weights[0] = was
		expect.That(t, errors.Is(err, ErrOptions), "%s: %v, %v; want ErrOptions", name, d, err)
	}
	was := slices.Clone(weights)
	clear(weights)
	_, err := Negatives{Ratio: 1, Law: ByWeight, Weight: "weight"}.Open(t.Context(), Env{Graph: g}, []bool{true})
	copy(weights, was)
	expect.That(t, errors.Is(err, ErrOptions), "weights of 0: %v", err)
	for _, n := range []Negatives{{Ratio: 1, Time: "time"}, {Ratio: 1, Law: Historical, History: "when"}} {
		d := expect.Must(n.Open(t.Context(), Env{Graph: g}, []bool{true}))(t)
		l := &LinkSeeds{SeedEdges: SeedEdges{Sources: []int64{0}, Targets: []int64{0}, Labels: []int64{1}},
			Items: []int64{0}, Group: []int32{0}}
		expect.Is(t, d.Draw(NewRand(1, 0, 0, 0), 0, l), ErrOptions, "no times")
		expect.OK(t, d.Close())
	}
}

// Powers are products and roots: x^0.75 has the bits that it had as sqrt(x * sqrt(x)).
func TestPowersOfDegreesAreProductsAndRoots(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 0))
	for range 2000 {
		x, digits := float64(r.Uint64N(1<<r.UintN(40))), 1+r.Uint64N(1<<32)
		alpha := float64(digits) / (1 << 32)
		got, want := powerOf(x, alpha), digitPower(x, alpha, 0)
		expect.Ensure(t, got == want && math.Abs(got-math.Pow(x, alpha)) <= 1e-13*got, "%v^%v: %v, want %v", x, alpha,
			got, want)
		got, want = powerOf(x, 0.75), math.Sqrt(x*math.Sqrt(x))
		expect.Ensure(t, got == want, "%v^0.75: %v, want %v", x, got, want)
	}
}

// Open takes no more than Bytes says before it, and not much less: each table is there once.
func TestTablesOfNegativesFitInWhatIsSaid(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 0))
	g := withNodeColumns(t, r, sizedGraph(t, r, 1, 1, 60_000, func() int { return r.IntN(6) }))
	for _, n := range []Negatives{
		{Ratio: 1, Law: Historical, History: "when"},
		{Ratio: 1, Law: Historical, History: "when", Replace: EitherEnd},
		{Ratio: 1, Law: Historical, History: "when", Replace: SourceEnd, Fill: true, Type: "kind", Time: "time"},
		{Ratio: 1, Type: "kind"},
		{Ratio: 1, Law: ByDegree, Type: "kind", Time: "time"},
	} {
		var ledger pinned.Ledger
		d := expect.Must(n.Open(t.Context(), Env{Graph: g, Scratch: pinned.Options{Ledger: &ledger}}, []bool{true}))(t)
		most, peak := n.Bytes(g.Schema(), []bool{true}), ledger.Peak()
		exact := n.Law == Historical && n.Type == "" // else a table of both ends may be there once
		expect.That(t, peak <= most && peak >= most/4 && (peak == most || !exact), "%s: %d bytes of %d",
			n.Fingerprint(), peak, most)
		expect.OK(t, d.Close())
	}
}
