package convert

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) {
	expect.ScratchInMemory()
	expect.NoGoroutines(m)
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	return filepath.Join(files(t, map[string]string{name: text}), name)
}

// files writes files to a new folder.
func files[T ~string | ~[]byte](t testing.TB, list map[string]T) string {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, list)
	return dir
}

// put writes files to a folder, by names with slashes.
func put[T ~string | ~[]byte](t testing.TB, dir string, list map[string]T) {
	t.Helper()
	for name, text := range list {
		path := filepath.Join(dir, filepath.FromSlash(name))
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
}

// open opens a dataset until the test's end.
func open(t testing.TB, path string) *formats.Dataset {
	t.Helper()
	ds := expect.Must(formats.Open(path))(t)
	t.Cleanup(func() { _ = ds.Close() })
	return ds
}

// convert runs a conversion, checks the dataset, and opens it.
func convert(t *testing.T, src string, opt Options) (*Result, *formats.Dataset) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "out.khop")
	opt.Log = func(line string) { t.Log(line) }
	res := expect.Must(Run(context.Background(), src, dst, opt))(t)
	report, err := formats.Check(context.Background(), dst, formats.CheckOptions{})
	expect.Ensure(t, err == nil && report.Found <= 0, "%v: %v", err, report)
	ds := open(t, dst)
	entries, _ := os.ReadDir(filepath.Dir(dst))
	expect.That(t, len(entries) == 1, "beside the dataset: %v", entries)
	return res, ds
}

// noteText returns the notes a line each.
func noteText(res *Result) string { return source.Text(res.Notes) }

// floats returns the numbers of a column of edges.
func floats(t *testing.T, c unified.Tensor) (v []float64) {
	t.Helper()
	if c.DType() == unified.Int64 {
		ints := expect.Must(unified.View[int64](c))(t)
		for _, x := range ints {
			v = append(v, float64(x))
		}
		return v
	}
	v = expect.Must(unified.View[float64](c))(t)
	return v
}

// spell writes a dataset as "target<source,source target<source", with the column "weight", if there is one, behind
// each source.
func spell(t *testing.T, ds *formats.Dataset) string {
	t.Helper()
	g := ds.Graph()
	indices := expect.Must(unified.View[int32](g.Indices()))(t)
	var weight []float64
	if w, ok := g.EdgeColumn("weight"); ok {
		weight = floats(t, w)
	}
	var nodes []string
	for v := range g.NumNodes() {
		var in []string
		for i := g.Indptr()[v]; i < g.Indptr()[v+1]; i++ {
			s := fmt.Sprint(indices[i])
			if weight != nil {
				s += fmt.Sprintf(":%v", weight[i])
			}
			in = append(in, s)
		}
		if in != nil {
			nodes = append(nodes, fmt.Sprintf("%d<%s", v, strings.Join(in, ",")))
		}
	}
	return fmt.Sprintf("%d nodes %s", g.NumNodes(), strings.Join(nodes, " "))
}

func TestDirections(t *testing.T) {
	for _, c := range []struct {
		name, text string
		direction  Direction
		want, note string
	}{
		{"as given", "0 1\n2 1\n1 2\n", AsGiven, "3 nodes 1<0,2 2<1", ""},
		{"both", "0 1\n2 1\n", Symmetrise, "3 nodes 0<1 1<0,2 2<1", ""},
		{"both, a self-loop", "1 1\n0 1\n", Symmetrise, "2 nodes 0<1 1<0,1", ""},
		{"both, self-loops twice", "1 1\n1 1\n", Symmetrise, "2 nodes 1<1,1", "1 edge is parallel"},
		{"both, listed both ways", "0 1\n1 0\n1 2\n", Symmetrise, "3 nodes 0<1 1<0,2 2<1",
			"1 edge was listed in both directions"},
		{"both, parallel one way", "0 1\n0 1\n1 0\n", Symmetrise, "2 nodes 0<1,1 1<0,0", "2 edges are parallel"},
		{"directed, parallel", "0 1\n0 1\n", Directed, "2 nodes 1<0,0", "1 edge is parallel"},
		{"weights, directed", "src dst weight\n0 1 .5\n2 1 .25\n0 1 4\n", AsGiven, "3 nodes 1<0:0.5,0:4,2:0.25", ""},
		{"weights, both", "src dst weight\n0 1 .5\n1 2 .25\n", Symmetrise, "3 nodes 0<1:0.5 1<0:0.5,2:0.25 2<1:0.25",
			""},
		{"weights, both listed", "src dst weight\n0 1 .5\n1 0 .25\n", Symmetrise,
			"2 nodes 0<1:0.25,1:0.5 1<0:0.5,0:0.25", ""},
		{"weights, one listed twice", "src dst weight\n0 1 .5\n0 1 .25\n1 0 8\n", Symmetrise,
			"2 nodes 0<1:8,1:0.5,1:0.25 1<0:0.5,0:0.25,0:8", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := write(t, "edges.txt", c.text)
			for _, limit := range []int64{0, 8 << 20} {
				res, ds := convert(t, src, Options{Direction: c.direction, MemoryLimit: limit})
				got := spell(t, ds)
				expect.That(t, got == c.want, "got  %s\nwant %s", got, c.want)
				expect.That(t, strings.Contains(noteText(res), c.note), "notes %q do not say %q", res.Notes, c.note)
			}
		})
	}
}

func TestEqualEdgesLoopsAndTimesAreAsAskedFor(t *testing.T) {
	const events = "src dst weight time\n0 1 1 30\n1 1 5 7\n0 1 2 10\n2 1 4 20\n"
	for _, c := range []struct {
		name string
		opt  Options
		want string
		note string
	}{
		{"all", Options{}, "3 nodes 1<0:1,0:2,1:5,2:4", "1 edge is parallel"},
		{"first", Options{Merge: MergeFirst}, "3 nodes 1<0:1,1:5,2:4", "1 edge was merged"},
		{"sum", Options{Merge: MergeSum}, "3 nodes 1<0:3,1:5,2:4", ""},
		{"max", Options{Merge: MergeMax}, "3 nodes 1<0:2,1:5,2:4", ""},
		{"no loops", Options{Loops: DropLoops}, "3 nodes 1<0:1,0:2,2:4", "1 self-loop was dropped"},
		{"loops", Options{Loops: AddLoops}, "3 nodes 0<0:1 1<0:1,0:2,1:5,2:4 2<2:1", "2 self-loops were added"},
		{"by time", Options{ByTime: true}, "3 nodes 1<1:5,0:2,2:4,0:1", ""},
		{"both", Options{Direction: Symmetrise, Merge: MergeSum, Loops: DropLoops},
			"3 nodes 0<1:3 1<0:3,2:4 2<1:4", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, ds := convert(t, write(t, "events.txt", events), c.opt)
			got := spell(t, ds)
			expect.That(t, got == c.want, "got  %s\nwant %s", got, c.want)
			notes := noteText(res)
			expect.That(t, strings.Contains(notes, c.note), "notes %q do not say %q", notes, c.note)
			byTime := ds.Graph().Schema().Edges[0].Order == graph.ByTime
			expect.That(t, byTime == c.opt.ByTime, "the schema says by time: %t", byTime)
		})
	}
	_, alone := convert(t, write(t, "times.txt", "src dst time\n0 1 30\n2 1 7\n"), Options{ByTime: true})
	ids, err := unified.View[int32](alone.Graph().Indices())
	if s := alone.Graph().Schema(); err != nil || s.Edges[0].Order != graph.ByTime || ids[0] != 2 {
		t.Errorf("times are the only column, and edges are in the order %v", s.Edges[0].Order)
	}
	dst := filepath.Join(t.TempDir(), "x")
	expect.Is(t, expect.Err(Run(context.Background(), write(t, "e.txt", "0 1\n"), dst, Options{ByTime: true})),
		ErrOptions, "by time without times")
}

func TestADryRunWritesNothing(t *testing.T) {
	dir := t.TempDir()
	src := write(t, "events.txt", "user item\n1 1\n1 2\n3 1\n")
	opt := Options{Columns: []string{"src:user", "dst:item"}, DryRun: true}
	res, err := Run(context.Background(), src, filepath.Join(dir, "x"), opt)
	expect.That(t, err == nil && res.Nodes == 4+3 && res.Edges == 3 && res.MemoryPeak != 0, "%+v, %v", res, err)
	left, _ := os.ReadDir(dir)
	expect.That(t, len(left) == 0, "written: %v", left)
	opt.DryRun = false
	_, ds := convert(t, src, opt)
	expect.That(t, ds.Graph().Schema().Edges[0].String() == "user:edge:item", "types %v", ds.Graph().Schema().Edges)
}

// arraysOf returns what the arrays of a dataset take.
func arraysOf(ds *formats.Dataset) (n int64) {
	g := ds.Graph()
	add := func(list ...unified.Tensor) {
		for _, x := range list {
			n += int64(len(x.Bytes()))
		}
	}
	add(unified.FromSlice(g.Indptr()), g.Indices(), g.Types())
	for _, c := range g.Schema().EdgeColumns {
		x, _ := g.EdgeColumn(c.Name)
		add(x)
	}
	for i := range g.Schema().Nodes {
		for _, c := range g.Schema().Nodes[i].Columns {
			x, _ := g.NodeColumn(i, c.Name)
			add(x)
		}
	}
	for _, split := range g.Splits() {
		for _, set := range split.Seeds.Sets {
			add(set.IDs)
		}
	}
	for _, split := range ds.LinkSplits() {
		for _, set := range split.Sets {
			add(set.Sources, set.Targets, set.Labels)
		}
	}
	return n
}

// TestWhatADatasetTakesIsSaidToTheByte, before anything is written and afterwards.
func TestWhatADatasetTakesIsSaidToTheByte(t *testing.T) {
	dir := files(t, map[string]string{"train.txt": "a\tr\tb\nb\ts\tc\na\ts\tc\n", "valid.txt": "a\tr\tc\n",
		"test.txt": "c\tr\ta\nb\tr\ta\n"})
	table := npyMatrix(t, 4, 3, make([]float32, 12))
	for name, c := range map[string]struct {
		src string
		opt Options
	}{
		"columns of edges": {write(t, "e.csv", "src,dst,weight,time\n0,1,0.5,7\n1,2,2,8\n3,1,1,9\n"), Options{}},
		"one of nodes":     {write(t, "e.txt", "0 1\n1 2\n3 1\n"), Options{Features: table}},
		"types and splits": {newLibrary(3).write(t), Options{}},
		"links":            {dir, Options{}},
		"typed links":      {dir, Options{RelationsAsTypes: true}},
	} {
		t.Run(name, func(t *testing.T) {
			res, ds := convert(t, c.src, c.opt)
			c.opt.DryRun = true
			dry := expect.Must(Run(context.Background(), c.src, filepath.Join(t.TempDir(), "x"), c.opt))(t)
			if want := arraysOf(ds); res.Bytes != want || dry.Bytes != want {
				t.Errorf("said to take %d bytes, before %d; the arrays have %d", res.Bytes, dry.Bytes, want)
			}
		})
	}
}
