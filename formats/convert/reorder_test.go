package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// library is a graph of two node types and two edge types, written as a folder of NumPy arrays. Between authors and
// papers comes a node type without nodes.
type library struct {
	r               *rand.Rand
	authors, papers int64
	cites, writes   [][2]int64
	x               []float32 // [papers, 2]
	train           []int64
}

func newLibrary(seed uint64) *library {
	l := &library{r: rand.New(rand.NewPCG(seed, 77)), authors: 30, papers: 80}
	l.cites = l.pairs(l.papers, l.papers-10, 100) // the last papers cite nothing
	l.writes = l.pairs(l.authors, l.papers, 40)
	for range 2 * l.papers {
		l.x = append(l.x, l.r.Float32())
	}
	for range 9 {
		l.train = append(l.train, l.r.Int64N(l.papers))
	}
	return l
}

// pairs draws pairs that are all different, small numbers the most.
func (l *library) pairs(src, dst int64, n int) (list [][2]int64) {
	for len(list) < n {
		p := [2]int64{l.r.Int64N(l.r.Int64N(src) + 1), l.r.Int64N(l.r.Int64N(dst) + 1)}
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

func (l *library) write(t *testing.T) string {
	t.Helper()
	index := func(pairs [][2]int64) []byte {
		ends := make([]int64, 2*len(pairs))
		for i, p := range pairs {
			ends[i], ends[len(pairs)+i] = p[0], p[1]
		}
		return expect.NPY(ends, 2, len(pairs))
	}
	years := make([]int16, l.authors)
	for i := range years {
		years[i] = int16(1900 + i)
	}
	return files(t, map[string][]byte{
		"nodes/author/year.npy": expect.NPY(years), "nodes/author/num_nodes.npy": expect.NPY([]int64{l.authors}),
		"nodes/none/x.npy":  expect.NPY([]float32{}, 0, 2),
		"nodes/paper/x.npy": expect.NPY(l.x, int(l.papers), 2), "nodes/paper/train_idx.npy": expect.NPY(l.train),
		"edges/paper__cites__paper/edge_index.npy":   index(l.cites),
		"edges/author__writes__paper/edge_index.npy": index(l.writes),
	})
}

// fused returns the edges with authors before papers.
func (l *library) fused() (list [][2]int64) {
	for _, e := range l.cites {
		list = append(list, [2]int64{l.authors + e[0], l.authors + e[1]})
	}
	for _, e := range l.writes {
		list = append(list, [2]int64{e[0], l.authors + e[1]})
	}
	return list
}

// order numbers the nodes anew as the options' documentation says it, with lists and no care for time.
func (l *library) order(how Reorder, scores []float64) (order []int64) {
	n := l.authors + l.papers
	ends, near := make([]float64, n), make([][]int64, n)
	add := func(u, v int64) {
		if !slices.Contains(near[u], v) {
			near[u] = append(near[u], v)
		}
	}
	for _, e := range l.fused() {
		ends[e[0]]++
		ends[e[1]]++
		add(e[0], e[1])
		add(e[1], e[0])
	}
	by := func(key func(v int64) float64) []int64 {
		list := make([]int64, n)
		for v := range list {
			list[v] = int64(v)
		}
		slices.SortStableFunc(list, func(a, b int64) int { return cmp.Compare(key(a), key(b)) })
		return list
	}
	degree := func(v int64) float64 { return float64(len(near[v])) }
	starts := by(degree)
	switch how {
	case ByDegree:
		return by(func(v int64) float64 { return -ends[v] })
	case ByHeat:
		return by(func(v int64) float64 { return -scores[v] })
	case BreadthFirst:
		starts = by(func(v int64) float64 { return -degree(v) })
	case ByCommunity:
		return communities(near, starts)
	}
	for _, s := range starts {
		if slices.Contains(order, s) {
			continue
		}
		queue := []int64{s}
		for order = append(order, s); len(queue) > 0; queue = queue[1:] {
			next := slices.DeleteFunc(slices.Sorted(slices.Values(near[queue[0]])),
				func(v int64) bool { return slices.Contains(order, v) })
			if how == ReverseCuthillMcKee {
				slices.SortStableFunc(next, func(a, b int64) int { return cmp.Compare(degree(a), degree(b)) })
			}
			order, queue = append(order, next...), append(queue, next...)
		}
	}
	if how == ReverseCuthillMcKee {
		slices.Reverse(order)
	}
	return order
}

// communities merges nodes as renumber.Communities says it.
func communities(near [][]int64, starts []int64) (order []int64) {
	n, total := int64(len(near)), 0
	group, weight, merged := make([]int64, n), make([]int, n), make([][]int64, n)
	for v := range near {
		group[v], weight[v] = int64(v), len(near[v])
		total += len(near[v])
	}
	for _, v := range starts {
		between := make([]int, n)
		for u := range near {
			for _, w := range near[u] {
				if group[u] == v && group[w] != v {
					between[group[w]]++
				}
			}
		}
		best, gain := int64(-1), 0
		for r, edges := range between {
			if g := edges*total - weight[v]*weight[r]; g > gain {
				best, gain = int64(r), g
			}
		}
		if best < 0 {
			continue
		}
		weight[best] += weight[v]
		merged[best] = append(merged[best], v)
		for u := range group {
			if group[u] == v {
				group[u] = best
			}
		}
	}
	var walk func(v int64)
	walk = func(v int64) {
		order = append(order, v)
		for _, c := range merged[v] {
			walk(c)
		}
	}
	for _, v := range slices.Backward(starts) {
		if group[v] == v {
			walk(v)
		}
	}
	return order
}

func TestNodesAreNumberedAsTheOptionSays(t *testing.T) {
	for seed := range uint64(2) {
		l := newLibrary(seed)
		src := l.write(t)
		scores := make([]float64, l.authors+l.papers)
		for i := range scores {
			scores[i] = float64(l.r.IntN(9))
		}
		heat := func(_ context.Context, indptr []int64, indices unified.Tensor, seeds []int64) ([]float64, error) {
			if indptr[len(indptr)-1] != int64(len(l.cites)+len(l.writes)) || indices.Len() != indptr[len(indptr)-1] {
				t.Errorf("heat is asked of %d edges", indices.Len())
			}
			for i, v := range l.train {
				if len(seeds) != len(l.train) || seeds[i] != l.authors+v {
					t.Fatalf("heat is asked of the seeds %v", seeds)
				}
			}
			return scores, nil
		}
		for how, word := range map[Reorder]string{ByDegree: "degree", BreadthFirst: "bfs", ReverseCuthillMcKee: "rcm",
			ByHeat: "hot", ByCommunity: "community"} {
			t.Run(fmt.Sprintf("%s/%d", word, seed), func(t *testing.T) {
				res, ds := convert(t, src, Options{Reorder: how, Heat: heat})
				notes := noteText(res)
				expect.That(t, strings.Contains(notes, "nodes are numbered anew ("+word+")"), "notes: %s", notes)
				l.compare(t, ds, l.order(how, scores))
			})
		}
	}
}

// compare compares a dataset with the source, by way of the old numbers.
func (l *library) compare(t *testing.T, ds *formats.Dataset, order []int64) {
	t.Helper()
	g := ds.Graph()
	var old [3][]int64 // own ids of authors, of none, of papers
	for _, v := range order {
		if v < l.authors {
			old[0] = append(old[0], v)
		} else {
			old[2] = append(old[2], v-l.authors)
		}
	}
	for i := range old {
		col, _ := g.NodeColumn(i, "old_id")
		if got, _ := unified.View[int64](col); !slices.Equal(got, old[i]) {
			t.Fatalf("type %d: numbers %v, want %v", i, got, old[i])
		}
	}
	x, _ := g.NodeColumn(2, "feature")
	year, _ := g.NodeColumn(0, "year")
	rows, _ := unified.View[float32](x)
	years, _ := unified.View[int16](year)
	for v, was := range old[2] {
		if rows[2*v] != l.x[2*was] || rows[2*v+1] != l.x[2*was+1] {
			t.Fatalf("paper %d has the features of another", v)
		}
	}
	for v, was := range old[0] {
		if years[v] != int16(1900+was) {
			t.Fatalf("author %d has the year %d", v, years[v])
		}
	}
	var got [][2]int64
	source, _ := unified.Integers(g.Indices())
	fused := func(v int64) int64 {
		if v < l.authors {
			return old[0][v]
		}
		return l.authors + old[2][v-l.authors]
	}
	for v := range g.NumNodes() {
		for e := g.Indptr()[v]; e < g.Indptr()[v+1]; e++ {
			got = append(got, [2]int64{fused(source(e)), fused(v)})
		}
	}
	want, pair := l.fused(), func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) }
	slices.SortFunc(got, pair)
	slices.SortFunc(want, pair)
	expect.That(t, slices.Equal(got, want), "other edges")
	l.compareSeeds(t, g, old[2])
}

func (l *library) compareSeeds(t *testing.T, g *graph.Graph, old []int64) {
	t.Helper()
	seeds := expect.Must(g.Split("train", 0))(t)
	id, _ := unified.Integers(seeds.Sets[0].IDs)
	for i, v := range l.train {
		if old[id(int64(i))] != v {
			t.Errorf("seed %d is paper %d, not %d", i, old[id(int64(i))], v)
		}
	}
}

// TestNamesFollowTheirNodes: the names of nodes are in the new order, those of classes are not touched.
func TestNamesFollowTheirNodes(t *testing.T) {
	src := write(t, "edges.csv", "src,dst\nada,bob\ncal,bob\nbob,dan\neve,cal\n")
	_, ds := convert(t, src, Options{Reorder: ByDegree})
	expect.Same(t, strs(ds, 0, "id"), []string{"bob", "cal", "ada", "dan", "eve"})
	expect.Same(t, spell(t, ds), "5 nodes 0<1,2 1<4 3<0")
}

// TestNamesOfOthersThanNodesStay: of categories, of which there are as many as rows. A text of nodes follows them, also
// if it is called as names of others often are.
func TestNamesOfOthersThanNodesStay(t *testing.T) {
	dir := files(t, map[string]string{
		"manifest.yaml": "name: shop\ntest_timestamp: '2025-01-01'\ntables:\n  users: {pkey: user, fkeys: {}}\n" +
			"  orders: {time_col: at, fkeys: {user: users}, kinds: {colour: categorical, class: text}}\n",
		"users.csv":  "user\n0\n1\n",
		"orders.csv": "user,at,colour,class\n0,2024-01-03,red,a\n1,2024-01-01,green,b\n1,2024-01-02,blue,c\n",
	})
	_, ds := convert(t, dir, Options{})
	col, _ := ds.Graph().NodeColumn(1, "categorical")
	colours, class := named(t, ds, 1, "colour", col), strs(ds, 1, "class")
	expect.That(t, slices.Equal(colours, []string{"green", "blue", "red"}) &&
		slices.Equal(class, []string{"b", "c", "a"}), "%q, %q", colours, class)
}

// TestTasksKeepTextsOfNodesWithThem also where these are called as names of others often are.
func TestTasksKeepTextsOfNodesWithThem(t *testing.T) {
	dir := files(t, map[string]string{
		"m.yaml": "nodes: {n: {file: n.csv, id: id, columns: [relation]}}\nedges: {e: {file: e.csv}}\n",
		"n.csv":  "id,relation\na,son\nb,niece\nc,aunt\n",
		"e.csv":  "src,dst\na,c\nb,c\nc,b\n",
	})
	_, ds := convert(t, filepath.Join(dir, "m.yaml"), Options{Reorder: ByDegree})
	expect.That(t, slices.Equal(strs(ds, 0, "relation"), []string{"aunt", "niece", "son"}), "%q",
		strs(ds, 0, "relation"))
	tasksMake(t, ds, filepath.Join(dir, "m.yaml"), 2, Options{Reorder: ByDegree})
}

func TestReorderingRefusesWhatItCannotDo(t *testing.T) {
	src := write(t, "edges.txt", "0 1\n2 1\n")
	old := files(t, map[string][]byte{"edge_index.npy": expect.NPY([]int64{0, 1, 1, 2}, 2, 2),
		"old_id.npy": expect.NPY([]int64{5, 6, 7}), "num_nodes.npy": expect.NPY([]int64{3})})
	cold := func(context.Context, []int64, unified.Tensor, []int64) ([]float64, error) { return nil, errCold }
	for _, c := range []struct {
		src  string
		opt  Options
		want error
		says string
	}{
		{src, Options{Reorder: ByHeat}, ErrOptions, "nothing says which nodes are hot"},
		{src, Options{Reorder: ByHeat, Heat: cold}, errCold, "cold"},
		{old, Options{Reorder: ByDegree}, ErrOptions,
			`there is a column "old_id" already: rename it, or leave out Reorder`},
	} {
		_, err := Run(context.Background(), c.src, filepath.Join(t.TempDir(), "x"), c.opt)
		expect.Says(t, err, c.want, c.says, "%q", c.says)
	}
}

var errCold = errors.New("cold")

// TestHeatWithoutASplitIsAskedOfAllNodes, and of the edges as they are stored.
func TestHeatWithoutASplitIsAskedOfAllNodes(t *testing.T) {
	src := write(t, "edges.txt", "0 1\n2 1\n3 0\n")
	for _, both := range []Direction{AsGiven, Symmetrise} {
		var asked []int64
		var edges int64
		_, ds := convert(t, src, Options{Reorder: ByHeat, Direction: both,
			Heat: func(_ context.Context, _ []int64, indices unified.Tensor, seeds []int64) ([]float64, error) {
				asked, edges = slices.Clone(seeds), indices.Len()
				return []float64{1, 2, 3, 3}, nil
			}})
		expect.That(t, slices.Equal(asked, []int64{0, 1, 2, 3}) && edges == ds.Graph().NumEdges(),
			"asked of %v and %d edges", asked, edges)
		col, _ := ds.Graph().NodeColumn(0, "old_id")
		got, _ := unified.View[int64](col)
		expect.That(t, slices.Equal(got, []int64{2, 3, 1, 0}), "numbers %v", got)
	}
}

// TestLinksFollowTheirNodes renumbers links of two edge types.
func TestLinksFollowTheirNodes(t *testing.T) {
	c, m := linked()
	expect.OK(t, c.renumberLinks(m))
	k := c.graph.Links[0]
	expect.That(t, slices.Equal(k.Src, []int64{1, 0, 2}) && slices.Equal(k.Dst, []int64{2, 0, 1}),
		"links from %v to %v", k.Src, k.Dst)
	for end, at := range map[string]func(int64){"source": func(v int64) { c.graph.Links[0].Src[2] = v },
		"target": func(v int64) { c.graph.Links[0].Dst[2] = v }} {
		for _, v := range []int64{-1, 3} {
			c, m = linked()
			at(v)
			err := c.renumberLinks(m)
			expect.That(t, err != nil && strings.Contains(err.Error(), `links "valid": link 2 is between`), "%s %d: %v",
				end, v, err)
		}
	}
}

// linked is a conversion with links of two edge types, between two node types of 3 nodes, and new numbers.
func linked() (*conversion, *numbering) {
	g := &source.Graph{Nodes: []source.NodeType{{Name: "a", Count: 3}, {Name: "b", Count: 3}},
		Types: []source.EdgeType{{Source: 0, Target: 1}, {Source: 1, Target: 0}},
		Links: []source.Link{{Name: "valid", Types: []int64{0, 1, 0}, Src: []int64{1, 2, 0}, Dst: []int64{1, 2, 0}}}}
	return &conversion{graph: g, src: "links"}, &numbering{types: []anew{
		{number: []uint32{2, 1, 0}}, {number: []uint32{1, 2, 0}}}}
}

// TestNumberingGivesMemoryBack: what a search or scores take is free when the numbers are there, and these when the
// graph is closed.
func TestNumberingGivesMemoryBack(t *testing.T) {
	for _, how := range []Reorder{ByDegree, BreadthFirst, ReverseCuthillMcKee, ByHeat} {
		c := &conversion{graph: source.Plain(), opt: Options{Reorder: how, Heat: func(context.Context, []int64,
			unified.Tensor, []int64) ([]float64, error) {
			return make([]float64, 4), nil
		}}}
		c.budget = source.Budget{Memory: &c.ledger, Dir: t.TempDir()}
		c.graph.Node().Count = 4
		c.graph.Edges.Count = 2
		c.graph.Edges.Each = func(yield func(source.Batch) error) error {
			return yield(source.Batch{Src: []int64{0, 3}, Dst: []int64{1, 2}})
		}
		expect.OK(t, c.reorder(context.Background(), &order{c: c}))
		used := c.ledger.Used(pinned.Sources)
		expect.That(t, used == 8*4, "%v: %d bytes are counted for the numbers of 4 nodes", how, used)
		if err := c.graph.Close(); err != nil || c.ledger.Total() != 0 {
			t.Errorf("%v: %d bytes are still counted: %v", how, c.ledger.Total(), err)
		}
	}
}
