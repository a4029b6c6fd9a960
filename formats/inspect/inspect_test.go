package inspect

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) {
	expect.ScratchInMemory()
	expect.NoGoroutines(m)
}

// write writes a graph to a new folder.
func write(t *testing.T, g *graph.Graph) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "x.khop")
	expect.OK(t, formats.WriteGraph(t.Context(), dir, g, formats.WriterOptions{}))
	return dir
}

// addLinks writes an array of links of edge type 0 or 1, whose end has nodes of a type.
func addLinks(t *testing.T, w *formats.Writer, name string, index, edge, node int, end string, v []int64) {
	t.Helper()
	cw, err := w.Links(name, index, edge, node, end, unified.Int64, int64(len(v)))
	expect.OK(t, err)
	_, err = cw.Write(unified.FromSlice(v).Bytes())
	expect.OK(t, err, cw.Close())
}

// open opens a dataset until the test ends.
func open(t *testing.T, dir string) *formats.Dataset {
	t.Helper()
	ds := expect.Must(formats.Open(dir))(t)
	t.Cleanup(func() { expect.OK(t, ds.Close()) })
	return ds
}

// odd is a graph of two node types and two edge types with some of all that an inspection looks for. Links to predict
// are in it as edges, or not.
type odd struct {
	graph.Arrays
	edges map[[3]int64]int // type, fused source, fused target
	links [][3]int64       // own ids and label, of edge type 1
}

const oddPapers, oddAuthors = 150, 90

func newOdd(r *rand.Rand, order graph.Order) *odd {
	o := &odd{edges: map[[3]int64]int{}}
	o.Schema = graph.Schema{
		Nodes: []graph.NodeType{{Name: "paper", Count: oddPapers, Columns: []graph.Column{
			{Name: "x", DType: unified.Float32, Shape: []int64{3}}, {Name: "year", DType: unified.Int32}}},
			{Name: "author", Count: oddAuthors, Columns: []graph.Column{{Name: "time", DType: unified.Float64}}}},
		Edges: []graph.EdgeType{{Source: "paper", Relation: "cites", Target: "paper", Order: order},
			{Source: "author", Relation: "writes", Target: "paper", Order: order}},
		EdgeColumns: []graph.Column{{Name: "time", DType: unified.Float64}},
	}
	indptr, indices, types, times := []int64{0}, []int32{}, []uint8{}, []float64{}
	for v := range int64(oddPapers + oddAuthors) {
		var in [][2]int64
		for range []int{0, 1, 2, 3, 9, 0}[r.IntN(6)] {
			if v >= oddPapers {
				break // authors have no in-edges, and some no edges at all
			}
			if r.IntN(2) == 0 {
				in = append(in, [2]int64{0, []int64{v, r.Int64N(oddPapers)}[r.IntN(2)]})
			} else {
				in = append(in, [2]int64{1, oddPapers + r.Int64N(oddAuthors)})
			}
		}
		slices.SortFunc(in, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
		if order == graph.ByTime { // of each type backwards
			slices.SortStableFunc(in, func(a, b [2]int64) int { return int(a[0]-b[0])*1000 - int(a[1]-b[1]) })
		}
		for i, e := range in {
			indices, types, times = append(indices, int32(e[1])), append(types, uint8(e[0])), append(times, float64(i))
			o.edges[[3]int64{e[0], e[1], v}]++
			o.Schema.Edges[e[0]].Count++
		}
		indptr = append(indptr, int64(len(indices)))
	}
	if order == graph.BySource {
		times[len(times)/2] = math.Inf(1)
	}
	o.Indptr, o.Indices, o.Types = unified.FromSlice(indptr), unified.FromSlice(indices), unified.FromSlice(types)
	o.EdgeColumns = map[string]unified.Tensor{"time": unified.FromSlice(times)}
	o.addNodes(r)
	return o
}

// addNodes adds columns of nodes, splits and links.
func (o *odd) addNodes(r *rand.Rand) {
	x, year, time := make([]float32, 3*oddPapers), make([]int32, oddPapers), make([]float64, oddAuthors)
	x[3*7+2], x[3*7], x[3*oddPapers-1] = float32(math.NaN()), float32(math.Inf(-1)), float32(math.NaN())
	for i := range year {
		year[i] = int32(r.IntN(20))
	}
	for i := range time {
		time[i] = float64(r.IntN(20))
	}
	features, _ := unified.New(unified.Float32, unified.FromSlice(x).Bytes(), oddPapers, 3)
	o.NodeColumns = []map[string]unified.Tensor{{"x": features, "year": unified.FromSlice(year)},
		{"time": unified.FromSlice(time)}}
	for i := range 2 {
		o.Splits = append(o.Splits, graph.Split{Name: "train", Index: i, Seeds: graph.Seeds{Sets: []graph.SeedSet{
			{Type: 0, IDs: unified.FromSlice([]int32{1, 2, 3, 4, 5, 6}), Count: 6},
			{Type: 1, IDs: unified.FromSlice([]int32{0, 80, 89}), Count: 3}}}},
			graph.Split{Name: "test", Index: i, Seeds: graph.Seeds{Sets: []graph.SeedSet{
				{Type: i, IDs: unified.FromSlice([]int32{10, 11}), Count: 2}}}})
	}
	for range 40 {
		o.links = append(o.links, [3]int64{r.Int64N(oddAuthors), r.Int64N(oddPapers), r.Int64N(2)})
	}
	for e := range o.edges {
		if e[0] == 1 && len(o.links) < 60 {
			o.links = append(o.links, [3]int64{e[1] - oddPapers, e[2], r.Int64N(2)})
		}
	}
}

// write writes the graph, and its links as "valid" and as "train"; "relations" has labels beyond 1.
func (o *odd) write(t *testing.T) string {
	t.Helper()
	dir := write(t, graphs.Of(t, o.Arrays))
	w := expect.Must(formats.Extend(dir, formats.ExtendOptions{}))(t)
	for _, name := range []string{"valid", "train", "relations"} {
		for end, typ := range []int{1, 0, 0} {
			v := make([]int64, len(o.links))
			for i, k := range o.links {
				if v[i] = k[end]; end == 2 && name == "relations" {
					v[i] += int64(i % 3)
				}
			}
			addLinks(t, w, name, 0, 1, typ, []string{"source", "target", "label"}[end], v)
		}
	}
	ds := expect.Must(formats.Open(dir))(t)
	s := ds.SchemaOf()
	expect.OK(t, ds.Close(), w.Commit(s))
	return dir
}

// want counts in the most obvious way.
func (o *odd) want() *Result {
	x := &Result{NotFinite: []notFinite{{Owner: "paper", Column: "x", Rows: 2, First: 7}}, Late: []lateSplit{},
		Leaked: []leakedLink{}}
	in, touched := map[int64]int64{}, map[int64]bool{}
	for e, times := range o.edges {
		in[e[2]] += int64(times)
		touched[e[1]], touched[e[2]] = true, true
		if e[1] == e[2] {
			x.SelfLoops += int64(times)
		}
		x.Duplicates += int64(times - 1)
	}
	x.Isolated = oddPapers + oddAuthors - int64(len(touched))
	x.Degrees = []degreeBin{{0, 0, 0}, {1, 1, 0}, {2, 3, 0}, {4, 7, 0}, {8, 15, 0}}
	for v := range int64(oddPapers + oddAuthors) {
		for i := range x.Degrees {
			if b := &x.Degrees[i]; b.From <= in[v] && in[v] <= b.To {
				b.Nodes++
			}
		}
	}
	year, _ := unified.View[int32](o.NodeColumns[0]["year"])
	time, _ := unified.View[float64](o.NodeColumns[1]["time"])
	late := func(l lateSplit, train []float64, test ...float64) {
		for _, at := range train {
			if l.Of++; at > slices.Min(test) {
				l.Nodes++
			}
		}
		if l.Nodes > 0 {
			x.Late = append(x.Late, l)
		}
	}
	var papers []float64
	for _, y := range year[1:7] {
		papers = append(papers, float64(y))
	}
	late(lateSplit{Type: "paper", Column: "year"}, papers, float64(year[10]), float64(year[11]))
	authors := []float64{time[0], time[80], time[89]}
	late(lateSplit{Type: "author", Column: "time", Index: 1}, authors, time[10], time[11])
	leaked := leakedLink{Split: "valid"}
	for _, k := range o.links {
		if leaked.Of += k[2]; k[2] == 1 && o.edges[[3]int64{1, oddPapers + k[0], k[1]}] > 0 {
			leaked.Links++
		}
	}
	x.Leaked = append(x.Leaked, leaked)
	return x
}

func TestInspectFindsWhatABruteForceFinds(t *testing.T) {
	for seed := range uint64(6) {
		o := newOdd(rand.New(rand.NewPCG(seed, 5)), []graph.Order{graph.BySource, graph.ByTime}[seed%2])
		want := o.want()
		if seed%2 == 0 {
			want.NotFinite = append(want.NotFinite, notFinite{Owner: "edges", Column: "time", Rows: 1,
				First: o.Indices.Len() / 2})
		}
		ds, steps := open(t, o.write(t)), []int64{}
		got := expect.Must(Dataset(context.Background(), ds, func(stage string, done, total int64) {
			if stage == "inspect" && total == 5 {
				steps = append(steps, done)
			}
		}))(t)
		if diff := expect.Diff(want, got); diff != "" || !slices.Equal(steps, []int64{1, 2, 3, 4, 5}) {
			t.Errorf("seed %d: %s; steps %v", seed, diff, steps)
		}
		stopped, stop := context.WithCancel(context.Background())
		stop()
		expect.Is(t, expect.Err(Dataset(stopped, ds, nil)), context.Canceled, "stopped")
	}
}

// TestEveryLookAtTheContextEndsIt, in each of the five steps.
func TestEveryLookAtTheContextEndsIt(t *testing.T) {
	ds := open(t, newOdd(rand.New(rand.NewPCG(1, 5)), graph.ByTime).write(t))
	for looks := int64(0); ; looks++ {
		steps := 0
		_, err := Dataset(expect.EndsAfter(context.Background(), looks), ds, func(string, int64, int64) { steps++ })
		if err == nil {
			expect.That(t, looks >= 7, "%d looks", looks)
			return
		}
		expect.Is(t, err, context.Canceled, "look", looks)
		expect.That(t, steps < 5, "look %d: it ended after %d steps", looks, steps)
	}
}

// Edges of one type in order of their sources are searched, and not looked through.
func TestInspectSearchesForLinksInOrderedEdges(t *testing.T) {
	const nodes, edges = 60, 200 // some nodes without in-edges
	r, e := rand.New(rand.NewPCG(3, 1)), graph.EdgeData{}
	for range edges {
		e.Src, e.Dst = append(e.Src, r.Int64N(nodes)), append(e.Dst, r.Int64N(nodes))
	}
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: nodes}}, Edges: []graph.EdgeData{e}})
	dir := write(t, g)
	source := expect.Must(unified.Integers(g.Indices()))(t)
	has := map[[2]int64]bool{}
	for v := range g.NumNodes() {
		for e := g.Indptr()[v]; e < g.Indptr()[v+1]; e++ {
			has[[2]int64{source(e), v}] = true
		}
	}
	var ends [2][]int64
	for u := range g.NumNodes() {
		for v := range g.NumNodes() {
			ends[0], ends[1] = append(ends[0], u), append(ends[1], v)
		}
	}
	w := expect.Must(formats.Extend(dir, formats.ExtendOptions{}))(t)
	for i, name := range []string{"source", "target"} {
		addLinks(t, w, "test", 1, 0, 0, name, ends[i])
	}
	expect.OK(t, w.Commit(*g.Schema()))
	got := expect.Must(Dataset(context.Background(), open(t, dir), nil))(t)
	reversed := int64(0)
	for e := range has {
		if e[0] != e[1] {
			reversed++ // the link from its target to its source
		}
	}
	all := int64(len(ends[0]))
	want := []leakedLink{{Split: "test", Index: 1, Links: int64(len(has)), Reversed: reversed, Of: all}}
	expect.That(t, slices.Equal(got.Leaked, want), "got %v, want %v", got.Leaked, want)
}

// Damage that Open does not see, since it reads no arrays.
func TestInspectNamesDamageThatItMeets(t *testing.T) {
	for _, c := range []struct {
		file  string
		index int
		value int32
		says  string
	}{
		{"indices.arrow", 2, oddPapers + oddAuthors, "edge 2 has the source 240 of 240 nodes"},
		{"indices.arrow", 0, -1, "edge 0 has the source -1 of 240 nodes"},
		{"indptr.arrow", 2, 1 << 20, "node 0 has the edges 0 to 1048576 of "},
	} {
		dir := newOdd(rand.New(rand.NewPCG(1, 5)), graph.BySource).write(t)
		path := filepath.Join(dir, "graph", c.file)
		text, err := os.ReadFile(path)
		expect.OK(t, err)
		ds := open(t, dir)
		name := strings.TrimSuffix(c.file, ".arrow")
		body := map[string]unified.Tensor{"indices": ds.Graph().Indices()}[name].Bytes()
		if name == "indptr" {
			body = unified.FromSlice(ds.Graph().Indptr()).Bytes()
		}
		at := strings.Index(string(text), string(body))
		copy(text[at+4*c.index:], unified.FromSlice([]int32{c.value}).Bytes())
		expect.OK(t, os.WriteFile(path, text, 0o600))
		_, err = Dataset(context.Background(), open(t, dir), nil)
		expect.Says(t, err, formats.ErrCorrupt, dir+": corrupt dataset: "+c.says, c)
		remedy := fmt.Sprintf("; run \"khop check %s\"", dir)
		expect.That(t, strings.HasSuffix(err.Error(), remedy), "%v, not with the remedy %s", err, remedy)
	}
}

func TestHintsSayWhatMayNotBeMeant(t *testing.T) {
	hints := (&Result{SelfLoops: 9}).Hints()
	expect.That(t, hints != nil && len(hints) == 0, "of nothing: %q", hints)
	got := (&Result{Isolated: 1, Duplicates: 2,
		NotFinite: []notFinite{{"paper", "x", 1, 1234567}, {"edges", "w", 2, 0}},
		Late:      []lateSplit{{Type: "paper", Column: "year", Index: 3, Nodes: 1234, Of: 5000}},
		Leaked: []leakedLink{{Split: "test", Index: 2, Links: 1, Of: 1},
			{Split: "val", Reversed: 2, Of: 9}}}).Hints()
	want := []string{
		"1 node without edges: sampling finds nothing around them",
		"2 edges between the same nodes as another: \"khop convert --dedupe\" makes one of them",
		`column "x" of paper: 1 row with NaN or an infinity, the first is row 1,234,567`,
		`column "w" of edges: 2 rows with NaN or an infinity, the first is row 0`,
		`1,234 of 5,000 papers in the split train (index 3) are later, by "year", than the first of test: the past ` +
			"learns from the future",
		"1 of 1 link to predict in the split test (index 2) are edges of the graph: a model sees them",
		"2 of 9 links to predict in the split val (index 0) are reversed by an edge of the graph: a model sees the " +
			"answer; \"khop split --links\" keeps both ways together",
	}
	expect.Same(t, got, want)
}
