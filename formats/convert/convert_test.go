package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// testdata returns a path among the real graphs, or skips the test.
func testdata(t *testing.T, elem ...string) string {
	t.Helper()
	root := os.Getenv("KHOP_TESTDATA")
	if root == "" {
		t.Skip("KHOP_TESTDATA is not set")
	}
	return filepath.Join(append([]string{root}, elem...)...)
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// convert runs a conversion, checks the dataset, and opens it.
func convert(t *testing.T, src string, opt Options) (*Result, *formats.Dataset) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "out.khop")
	opt.Log = func(line string) { t.Log(line) }
	res, err := Run(context.Background(), src, dst, opt)
	if err != nil {
		t.Fatal(err)
	}
	if report, err := formats.Check(context.Background(), dst, formats.CheckOptions{}); err != nil || report.Found > 0 {
		t.Fatalf("%v: %v", err, report)
	}
	ds, err := formats.Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ds.Close() })
	if entries, _ := os.ReadDir(filepath.Dir(dst)); len(entries) != 1 {
		t.Errorf("beside the dataset: %v", entries)
	}
	return res, ds
}

func TestRealGraphsHaveTheirCounts(t *testing.T) {
	for _, c := range []struct {
		path                 string
		opt                  Options
		nodes, edges, listed int64
		width, classes       int64
		splits               int
		train                int64
	}{
		{path: "citation-csr-npz/cora_ml.npz", nodes: 2995, edges: 8416, listed: 8416, width: 2879, classes: 7},
		{path: "citation-csr-npz/citeseer.npz", nodes: 3312, edges: 4715, listed: 4715, width: 3703, classes: 6},
		{path: "heterophilous/tolokers.npz", nodes: 11758, edges: 1_038_000, listed: 519_000, width: 10, classes: 2,
			splits: 30, train: 5879},
		{path: "heterophilous/minesweeper.npz", nodes: 10000, edges: 78_804, listed: 39_402, width: 7, classes: 2,
			splits: 30, train: 5000},
		{path: "heterophilous/actor.npz", nodes: 7600, edges: 53_318, listed: 26_659, width: 932, classes: 5,
			splits: 30, train: 3648},
		{path: "heterophilous/squirrel_filtered.npz", nodes: 2223, edges: 93_996, listed: 46_998, width: 2089,
			classes: 5, splits: 30, train: 1053},
		{path: "heterophilous/actor.npz", opt: Options{Direction: Directed}, nodes: 7600, edges: 26_659, listed: 26_659,
			width: 932, classes: 5, splits: 30, train: 3648},
		{path: "musae-facebook-page", nodes: 22_470, edges: 341_825, listed: 171_002, width: 4714, classes: 4},
		{path: "musae-facebook-page/facebook_edges.csv", nodes: 22_470, edges: 171_002, listed: 171_002},
		{path: "cnr-2000-webgraph/derived/cnr-2000.csr.npz", nodes: 325_557, edges: 3_216_152, listed: 3_216_152},
		{path: "CollegeMsg-temporal/CollegeMsg.txt", nodes: 1900, edges: 59_835, listed: 59_835},
		{path: "CollegeMsg-temporal/ml_UCI-Msg.csv", nodes: 1901, edges: 59_834, listed: 59_834},
		{path: "ogbl-ddi/raw/edge.csv.gz", nodes: 4267, edges: 1_067_911, listed: 1_067_911},
		{path: "ogbl-ddi/raw/edge.csv.gz", opt: Options{Direction: Symmetrise}, nodes: 4267, edges: 2 * 1_067_911,
			listed: 1_067_911},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.path, c.opt.Direction), func(t *testing.T) {
			res, ds := convert(t, testdata(t, filepath.FromSlash(c.path)), c.opt)
			g := ds.Graph()
			if g.NumNodes() != c.nodes || g.NumEdges() != c.edges || res.SourceEdges != c.listed ||
				res.FeatureDim != c.width || res.Classes != c.classes {
				t.Errorf("%d nodes, %d edges of %d, %d features, %d classes; want %+v", g.NumNodes(), g.NumEdges(),
					res.SourceEdges, res.FeatureDim, res.Classes, c)
			}
			if len(g.Splits()) != c.splits {
				t.Errorf("%d splits, want %d", len(g.Splits()), c.splits)
			}
			if train, err := g.Split("train", 0); c.splits > 0 && (err != nil || train.Len() != c.train) {
				t.Errorf("%d seeds in split 0, want %d: %v", train.Len(), c.train, err)
			}
			if f, ok := g.NodeColumn(0, "feature"); ok != (c.width > 0) || ok &&
				(f.DType() != unified.Float32 || f.Dim(1) != c.width) {
				t.Errorf("feature is %v", f)
			}
			if p := ds.Manifest().Provenance; p["source_edges"] != fmt.Sprint(c.listed) ||
				p["direction"] != res.Direction {
				t.Errorf("provenance %v", p)
			}
		})
	}
}

// TestRaggedFeaturesBecomeRows compares the dense rows with the JSON, entry by entry.
func TestRaggedFeaturesBecomeRows(t *testing.T) {
	dir := testdata(t, "musae-facebook-page")
	text, err := os.ReadFile(filepath.Join(dir, "facebook_features.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[int][]int{}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	_, ds := convert(t, dir, Options{})
	col, _ := ds.Graph().NodeColumn(0, "feature")
	rows, err := unified.View[float32](col)
	if err != nil {
		t.Fatal(err)
	}
	ones := 0
	for v := range 22_470 {
		row := rows[v*4714 : (v+1)*4714]
		for _, k := range want[v] {
			if row[k] != 1 {
				t.Fatalf("node %d feature %d is %v", v, k, row[k])
			}
		}
		for k, x := range row {
			if x == 1 {
				ones++
			} else if x != 0 {
				t.Fatalf("node %d feature %d is %v", v, k, x)
			}
		}
	}
	if ones != 314_583 {
		t.Errorf("%d ones, want 314,583", ones)
	}
	for _, c := range []struct {
		column string
		row    int64
		want   string
	}{{"class", 0, "company"}, {"class", 3, "tvshow"}, {"name", 0, "The Voice of China 中国好声音"}, {"name", 2, "ESET"}} {
		list, err := ds.Strings(0, c.column)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := list.At(c.row); err != nil || got != c.want {
			t.Errorf("%s %d is %q, %v; want %q", c.column, c.row, got, err, c.want)
		}
	}
}

// floats returns the numbers of a column of edges.
func floats(t *testing.T, c unified.Tensor) (v []float64) {
	t.Helper()
	if c.DType() == unified.Int64 {
		ints, err := unified.View[int64](c)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range ints {
			v = append(v, float64(x))
		}
		return v
	}
	v, err := unified.View[float64](c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// spell writes a dataset as "target<source,source target<source", with the column "weight", if there is one, behind
// each source.
func spell(t *testing.T, ds *formats.Dataset) string {
	t.Helper()
	g := ds.Graph()
	indices, err := unified.View[int32](g.Indices())
	if err != nil {
		t.Fatal(err)
	}
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
				if got := spell(t, ds); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if !strings.Contains(strings.Join(res.Notes, "\n"), c.note) {
					t.Errorf("notes %q do not say %q", res.Notes, c.note)
				}
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
			if got := spell(t, ds); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if notes := strings.Join(res.Notes, "\n"); !strings.Contains(notes, c.note) {
				t.Errorf("notes %q do not say %q", notes, c.note)
			}
			if byTime := ds.Graph().Schema().Edges[0].Order == graph.ByTime; byTime != c.opt.ByTime {
				t.Errorf("the schema says by time: %t", byTime)
			}
		})
	}
	dst := filepath.Join(t.TempDir(), "x")
	if _, err := Run(context.Background(), write(t, "e.txt", "0 1\n"), dst, Options{ByTime: true}); !errors.Is(err,
		ErrOptions) {
		t.Errorf("by time without times: %v", err)
	}
}
