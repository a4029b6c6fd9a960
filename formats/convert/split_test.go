package convert

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/inspect"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// dealable writes a graph of users and items: follows between users, undirected, with parallel edges and loops; buys
// from users to items, and bought_by as many back. Users have labels from -1 to 3.
func dealable(t *testing.T) string {
	t.Helper()
	const users, items = 300, 50
	r := rand.New(rand.NewPCG(expect.Seed(t), 0))
	labels := make([]int64, users)
	for i := range labels {
		labels[i] = r.Int64N(5) - 1
	}
	var f, b [2][]int64
	for range 900 {
		u, v := r.Int64N(users), r.Int64N(users)
		if f[0], f[1] = append(f[0], u), append(f[1], v); u != v {
			f[0], f[1] = append(f[0], v), append(f[1], u)
		}
		b[0], b[1] = append(b[0], r.Int64N(users)), append(b[1], r.Int64N(items))
	}
	g := expect.Must(graph.New(graph.Data{
		Nodes: []graph.NodeData{{Name: "user", Columns: map[string]unified.Tensor{"label": unified.FromSlice(labels)}},
			{Name: "item", Count: items}},
		Edges: []graph.EdgeData{{Source: "user", Relation: "follows", Target: "user", Src: f[0], Dst: f[1]},
			{Source: "user", Relation: "buys", Target: "item", Src: b[0], Dst: b[1]},
			{Source: "item", Relation: "bought_by", Target: "user", Src: b[1], Dst: b[0]}}}))(t)
	dir := filepath.Join(t.TempDir(), "data")
	expect.OK(t, formats.WriteGraph(t.Context(), dir, g, formats.WriterOptions{}))
	return dir
}

// dealtStage is the stage of docs/sampling.md.
func dealtStage(seed, key uint64, index uint32) uint64 {
	return rng.StageKey(rng.BatchKey(seed, 0, index, 0), key, rng.Split, 0)
}

// opened deals, checks the dataset, and returns it.
func opened(t *testing.T, data string, opt SplitOptions) *formats.Dataset {
	t.Helper()
	expect.Must(Split(t.Context(), data, opt))(t)
	report := expect.Must(formats.Check(t.Context(), data, formats.CheckOptions{}))(t)
	expect.Ensure(t, report.Found == 0, "%v", report.Problems)
	return open(t, data)
}

func nodesIn(t *testing.T, ds *formats.Dataset, name string, index int) (all []int64) {
	t.Helper()
	seeds := expect.Must(ds.Split(name, index))(t)
	for i := range seeds.Len() {
		_, v := seeds.At(i)
		all = append(all, v)
	}
	return all
}

// TestNodesAreDealtInTheOrderOfTheirDraws compares with a sort of all draws.
func TestNodesAreDealtInTheOrderOfTheirDraws(t *testing.T) {
	data := dealable(t)
	for i, c := range []struct {
		opt   SplitOptions
		sizes [3]int // of what no class takes; -1: the rest
	}{
		{SplitOptions{Val: "0.25", Test: "30"}, [3]int{-1, -4, 30}},
		{SplitOptions{Train: "0.5", Val: "rest", Test: "0"}, [3]int{-2, -1, 0}},
		{SplitOptions{Train: "10", Val: "20", Test: "30", Splits: 2, Names: []string{"a", "b", "c"}},
			[3]int{10, 20, 30}},
		{SplitOptions{PerClass: 7, Val: "40", Test: "rest"}, [3]int{0, 40, -1}},
	} {
		c.opt.Type, c.opt.Seed, c.opt.Force = "user", uint64(i), true
		ds := opened(t, data, c.opt)
		names := c.opt.Names
		if names == nil {
			names = []string{"train", "val", "test"}
		}
		column, _ := ds.Graph().NodeColumn(0, "label")
		label, _ := unified.View[int64](column)
		key := expect.Must(rng.NodeTypeKey("user"))(t)
		for index := range max(1, c.opt.Splits) {
			want := sortedByDraws(dealtStage(c.opt.Seed, key, uint32(index)), label, c.opt.PerClass, c.sizes)
			for k := range want {
				slices.Sort(want[k])
				got := nodesIn(t, ds, names[k], index)
				expect.That(t, slices.Equal(got, want[k]), "case %d, %s %d: %v, want %v", i, names[k], index, got,
					want[k])
			}
		}
	}
}

// sortedByDraws deals the nodes that have a label: perClass of each class, then as many as sizes say.
func sortedByDraws(stage uint64, label []int64, perClass int, sizes [3]int) (want [3][]int64) {
	draw := func(v int64) uint64 { return rng.Draw(rng.Stream(stage, uint64(v)), 0) }
	var order []int64
	for v, l := range label {
		if l >= 0 {
			order = append(order, int64(v))
		}
	}
	labelled := len(order)
	slices.SortFunc(order, func(a, b int64) int { return cmp.Compare(draw(a), draw(b)) })
	taken := map[int64]int{}
	order = slices.DeleteFunc(order, func(v int64) bool {
		if taken[label[v]] == perClass {
			return false
		}
		taken[label[v]]++
		want[0] = append(want[0], v)
		return true
	})
	for k, n := range sizes {
		if n < -1 {
			n = int(float64(labelled)/float64(-n) + 0.5)
		}
		if n > 0 {
			want[k], order = append(want[k], order[:n]...), order[n:]
		}
	}
	if k := slices.Index(sizes[:], -1); k >= 0 {
		want[k] = append(want[k], order...)
	}
	return want
}

// dealtEdge is an edge, or link, by own ids.
type dealtEdge struct{ u, v int64 }

// TestLinksAreDealtWithTheEdgesThatEachMayFollow sees that each link is an edge, that the edges between its ends are
// followed neither before its split nor by it, and that everything else is.
func TestLinksAreDealtWithTheEdgesThatEachMayFollow(t *testing.T) {
	data := dealable(t)
	for _, c := range []struct {
		opt          SplitOptions
		typ, reverse int
	}{
		{SplitOptions{Type: "follows", Undirected: true, Val: "50", Test: "0.1"}, 0, -1},
		{SplitOptions{Type: "buys", Reverse: "bought_by", Disjoint: 0.25}, 1, 2},
		{SplitOptions{Type: "user:follows:user", Val: "0", Test: "0.5"}, 0, -1},
	} {
		c.opt.Links, c.opt.Force, c.opt.Seed = true, true, 3
		ds := opened(t, data, c.opt)
		g := ds.Graph()
		split, n := linksOf(t, ds, c.opt.Undirected)
		source, typ := expect.Must(unified.Integers(g.Indices()))(t), expect.Must(unified.Integers(g.Types()))(t)
		var follow [3]func(int64) int64
		for k, name := range []string{"train_graph", "val_graph", "test_graph"} {
			column, _ := g.EdgeColumn(name)
			follow[k] = expect.Must(unified.Integers(column))(t)
		}
		of, dealt := &g.Schema().Edges[c.typ], 0
		for v := range g.NumNodes() {
			for e := g.Indptr()[v]; e < g.Indptr()[v+1]; e++ {
				at, u := dealtEdge{source(e), v}, source(e)
				if int(typ(e)) == c.reverse {
					at = dealtEdge{v, u}
				}
				at.u, at.v = at.u-g.Offset(of.Src), at.v-g.Offset(of.Dst)
				if c.opt.Undirected && at.u > at.v {
					at.u, at.v = at.v, at.u
				} else if int(typ(e)) == c.typ {
					dealt++
				}
				want := [3]int64{1, 1, 1}
				if int(typ(e)) == c.typ || int(typ(e)) == c.reverse {
					want = [][3]int64{{1, 1, 1}, {map[bool]int64{false: 1}[c.opt.Disjoint > 0], 1, 1}, {0, 0, 1},
						{}}[split[at]]
				}
				got := [3]int64{follow[0](e), follow[1](e), follow[2](e)}
				expect.Ensure(t, got == want, "%v: edge %v of type %d in split %d: %v, want %v", c.opt, at, typ(e),
					split[at], got, want)
			}
		}
		links := n[0] + n[1] + n[2]
		expect.That(t, c.opt.Disjoint > 0 || links == int64(dealt), "%d links of %d edges", links, dealt)
		val, test := int64(dealt)/10, int64(dealt+2)/5
		switch {
		case c.opt.Undirected:
			val, test = 50, (int64(dealt)+5)/10
		case c.opt.Val == "0":
			val, test = 0, int64(dealt+1)/2
		}
		// parallel edges of the last link come along
		expect.That(t, n[1] >= val && n[1] <= val+8 && n[1]+n[2] >= val+test && n[2] <= test+8 && n[0] > 0,
			"%v of %d; want %d, %d", n, dealt, val, test)
	}
}

// TestBothWaysOfALinkAreInOneSplit, by default: those of one type, and those of a type that stores the same edges
// reversed. Types that lead back along some links are noted.
func TestBothWaysOfALinkAreInOneSplit(t *testing.T) {
	data := dealable(t)
	res := expect.Must(Split(t.Context(), data, SplitOptions{Links: true, Type: "follows"}))(t)
	expect.That(t, res.Both && len(res.Reverses)+len(res.Back) == 0, "%+v", res)
	ds := open(t, data)
	split, _ := linksOf(t, ds, false)
	for e, in := range split {
		back, there := split[dealtEdge{e.v, e.u}]
		expect.Ensure(t, !there || back == in, "%v is in split %d, and back in %d", e, in, back)
	}
	deep := expect.Must(inspect.Dataset(t.Context(), ds, nil))(t)
	expect.That(t, len(deep.Leaked) == 0, "%v", deep.Leaked)

	data = dealable(t)
	res = expect.Must(Split(t.Context(), data, SplitOptions{Links: true, Type: "buys"}))(t)
	expect.Same(t, res.Reverses, []string{"item:bought_by:user"}, "reverses")
	expect.That(t, !res.Both && len(res.Back) == 0, "%+v", res)
	ds2 := open(t, data)
	deep = expect.Must(inspect.Dataset(t.Context(), ds2, nil))(t)
	expect.That(t, len(deep.Leaked) == 0, "%v", deep.Leaked)
}

// TestEdgesThatReverseSomeLinksAreNoted with their number, by the command and by a deep look at the dataset.
func TestEdgesThatReverseSomeLinksAreNoted(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 0))
	const nodes = 100
	var buys, rates [2][]int64
	for range 500 {
		u, v := r.Int64N(nodes), r.Int64N(nodes)
		buys[0], buys[1] = append(buys[0], u), append(buys[1], v)
		if r.IntN(2) == 0 {
			u = r.Int64N(nodes)
		}
		rates[0], rates[1] = append(rates[0], v), append(rates[1], u)
	}
	g := expect.Must(graph.New(graph.Data{
		Nodes: []graph.NodeData{{Name: "user", Count: nodes}, {Name: "item", Count: nodes}},
		Edges: []graph.EdgeData{{Source: "user", Relation: "buys", Target: "item", Src: buys[0], Dst: buys[1]},
			{Source: "item", Relation: "rates", Target: "user", Src: rates[0], Dst: rates[1]}}}))(t)
	data := filepath.Join(t.TempDir(), "data")
	expect.OK(t, formats.WriteGraph(t.Context(), data, g, formats.WriterOptions{}))
	res := expect.Must(Split(t.Context(), data, SplitOptions{Links: true, Type: "buys"}))(t)
	expect.Ensure(t, len(res.Back) == 1 && res.Back[0].Type == "item:rates:user", "%+v", res)
	back := res.Back[0]
	expect.That(t, back.Of == 500 && back.Edges > 200 && back.Edges < 300, "%+v", back)
	look := func() (reversed int64) {
		ds := open(t, data)
		for _, l := range expect.Must(inspect.Dataset(t.Context(), ds, nil))(t).Leaked {
			expect.That(t, l.Links == 0, "%+v", l)
			reversed += l.Reversed
		}
		return reversed
	}
	expect.That(t, look() > 50, "reversed")
	named := SplitOptions{Links: true, Type: "buys", Reverse: "rates", Force: true}
	res = expect.Must(Split(t.Context(), data, named))(t)
	expect.That(t, len(res.Back) == 0 && look() == 0, "%+v", res)
}

// linksOf returns the split, from 1, of each link, and how many there are.
func linksOf(t *testing.T, ds *formats.Dataset, undirected bool) (split map[dealtEdge]int, n [3]int64) {
	t.Helper()
	split = map[dealtEdge]int{}
	for k, name := range []string{"train", "val", "test"} {
		for _, set := range expect.Must(ds.Split(name, 0))(t).Edges {
			n[k] = set.Len()
			u, v := expect.Must(unified.Integers(set.Sources))(t), expect.Must(unified.Integers(set.Targets))(t)
			for i := range set.Len() {
				e := dealtEdge{u(i), v(i)}
				before, there := split[e]
				expect.That(t, !there || before == k+1, "%v is in two splits", e)
				expect.That(t, !undirected || e.u <= e.v, "%v is the other direction", e)
				split[e] = k + 1
			}
		}
	}
	return split, n
}

// A split of users stays where items are dealt under its names.
func TestDealingNodesOfATypeKeepsTheSplitsOfOthers(t *testing.T) {
	data := dealable(t)
	expect.Must(Split(t.Context(), data, SplitOptions{Type: "user"}))(t)
	users := nodesIn(t, open(t, data), "train", 0)
	ds := opened(t, data, SplitOptions{Type: "item"})
	user, left, all := ds.Graph().Schema().NodeType("user"), 0, expect.Must(ds.Split("train", 0))(t)
	for i := range all.Len() {
		if typ, _ := all.At(i); typ == user {
			left++
		}
	}
	expect.That(t, left == len(users) && left > 0, "%d users are left of %d", left, len(users))
	expect.That(t, all.Len() > int64(left), "no item is in train")
}

func TestWhatIsDealtDependsOnTheSeedAlone(t *testing.T) {
	data := dealable(t)
	id := func(opt SplitOptions) [16]byte {
		opt.Force = true
		return opened(t, data, opt).ID()
	}
	for _, opt := range []SplitOptions{{Type: "item"}, {Links: true, Type: "buys"}} {
		first := id(opt)
		opt.Seed = 1
		other := id(opt)
		opt.Seed = 0
		expect.That(t, id(opt) == first && other != first, "%v", opt)
	}
}

func TestDealingRefusesWhatItCannotMean(t *testing.T) {
	data := dealable(t)
	for says, opt := range map[string]SplitOptions{
		`Type is "": name a node type; there are: [`:    {},
		`Type is "x": name an edge type; there are: [`:  {Links: true, Type: "x"},
		`Undirected is for Links`:                       {Type: "user", Undirected: true},
		`Train is the rest with Links`:                  {Links: true, Type: "buys", Train: "3"},
		`Undirected: user:buys:item has two types`:      {Links: true, Type: "buys", Undirected: true},
		`Reverse: user:follows:user does not lead back`: {Links: true, Type: "buys", Reverse: "follows"},
		`Val is "1.5": must be a count, a share from`:   {Type: "item", Val: "1.5"},
		`Test 40: that is 60 in all, but 50 are there`:  {Type: "item", Val: "20", Test: "40"},
		`Test is rest, as another is, too`:              {Type: "item", Test: "rest"},
		`PerClass: the nodes have no labels`:            {Type: "item", PerClass: 2},
		`must be three names`:                           {Type: "item", Names: []string{"a", "a", "b"}},
		`Test and Val are 1000 in all, but 900`:         {Links: true, Type: "buys", Val: "0", Test: "1000"},
		`Val and Test are counts or shares with Links`:  {Links: true, Type: "buys", Val: "rest"},
	} {
		_, err := Split(t.Context(), data, opt)
		expect.Says(t, err, ErrOptions, says, "%+v", opt)
	}
	opened(t, data, SplitOptions{Type: "item"})
	for _, opt := range []SplitOptions{{Type: "item"}, {Links: true, Type: "buys"}} {
		_, err := Split(t.Context(), data, opt)
		expect.Says(t, err, formats.ErrExist, `there is a split "train" already`, "%+v", opt)
	}
	opened(t, data, SplitOptions{Type: "user"}) // a set of another type beside it
}

// TestCountingNodesLateChangesNothing converts edges whose greatest id the sample of them has, misses by little, and
// misses by far, in ways that need the count before and not; and edges with ids that cannot be.
func TestCountingNodesLateChangesNothing(t *testing.T) {
	defer func(n int64) { lateEdges = n }(lateEdges)
	const m = 40_000
	for _, great := range []int64{999, 1000, 1023, 1024, 30_000, -1, 1 << 40} {
		ids := make([]int64, 2*m)
		for i := range ids {
			ids[i] = int64(i*7919) % 1000
		}
		ids[m/2+1], ids[3*m/2+1] = great, great
		src := write(t, "edge_index.npy", string(expect.NPY(ids, 2, m)))
		for _, opt := range []Options{{}, {MemoryLimit: 2 << 20}, {Direction: Symmetrise}, {Loops: AddLoops},
			{Reorder: ByDegree}, {DryRun: true}} {
			var said [2]string
			for i, late := range []int64{1, 1 << 40} {
				lateEdges = late
				dst := filepath.Join(t.TempDir(), "x.khop")
				res, err := Run(t.Context(), src, dst, opt)
				if err != nil {
					said[i] = err.Error()
					continue
				}
				said[i] = fmt.Sprint(res.Nodes, res.Edges, res.Bytes, res.Notes)
				if opt.DryRun {
					continue
				}
				ds := expect.Must(formats.Open(dst))(t)
				said[i] += fmt.Sprintf(" %x", ds.ID())
				expect.OK(t, ds.Close())
			}
			refused := strings.Contains(said[0], "edge_index.npy")
			if said[0] != said[1] || !opt.DryRun && (great < 0 || great > 1<<20) != refused {
				t.Errorf("%d, %+v:\n%s\n%s", great, opt, said[0], said[1])
			}
		}
	}
}

// TestADiskThatIsTooSmallIsFoundBeforeEdgesAreTakenIn, also where nodes are counted late.
func TestADiskThatIsTooSmallIsFoundBeforeEdgesAreTakenIn(t *testing.T) {
	c := &conversion{dst: filepath.Join(t.TempDir(), "x.khop")}
	expect.Is(t, c.roomFor(1<<60), formats.ErrSpace, "an exbibyte")
	expect.OK(t, c.roomFor(1<<10))
}
