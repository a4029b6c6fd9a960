//go:build !race

package convert

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// testdata returns a path among the real graphs, or skips the test.
func testdata(t *testing.T, elem ...string) string {
	t.Helper()
	root := os.Getenv("KHOP_TESTDATA")
	if root == "" {
		t.Skip("KHOP_TESTDATA is not set")
	}
	return filepath.Join(append([]string{root}, elem...)...)
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
			expect.That(t, len(g.Splits()) == c.splits, "%d splits, want %d", len(g.Splits()), c.splits)
			if train, err := g.Split("train", 0); c.splits > 0 && (err != nil || train.Len() != c.train) {
				t.Errorf("%d seeds in split 0, want %d: %v", train.Len(), c.train, err)
			}
			if f, ok := g.NodeColumn(0, "feature"); ok != (c.width > 0) || ok &&
				(f.DType() != unified.Float32 || f.Dim(1) != c.width) {
				t.Errorf("feature is %v", f)
			}
			p := ds.Manifest().Provenance
			expect.That(t, p["source_edges"] == fmt.Sprint(c.listed) && p["direction"] == res.Direction,
				"provenance %v", p)
		})
	}
}

// TestRaggedFeaturesBecomeRows compares the dense rows with the JSON, entry by entry.
func TestRaggedFeaturesBecomeRows(t *testing.T) {
	dir := testdata(t, "musae-facebook-page")
	text := expect.Must(os.ReadFile(filepath.Join(dir, "facebook_features.json")))(t)
	want := map[int][]int{}
	expect.OK(t, json.Unmarshal(text, &want))
	_, ds := convert(t, dir, Options{})
	col, _ := ds.Graph().NodeColumn(0, "feature")
	rows := expect.Must(unified.View[float32](col))(t)
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
	expect.That(t, ones == 314_583, "%d ones, want 314,583", ones)
	for _, c := range []struct {
		column string
		row    int64
		want   string
	}{{"class", 0, "company"}, {"class", 3, "tvshow"}, {"name", 0, "The Voice of China 中国好声音"}, {"name", 2, "ESET"}} {
		list := expect.Must(ds.Strings(0, c.column))(t)
		got, err := list.At(c.row)
		expect.That(t, err == nil && got == c.want, "%s %d is %q, %v; want %q", c.column, c.row, got, err, c.want)
	}
}

// TestARealDatabaseHasItsCounts: those that its SOURCE.txt gives.
func TestARealDatabaseHasItsCounts(t *testing.T) {
	dir := testdata(t, "nycflights13")
	_, ds := convert(t, dir, Options{})
	g := ds.Graph()
	var counts []int64
	for _, n := range g.Schema().Nodes {
		counts = append(counts, n.Count)
	}
	expect.That(t, slices.Equal(counts, []int64{16, 1458, 3322, 22_807, 294_282}), "rows %v", counts)
	for name, want := range map[string]int64{"train": 60_557, "val": 10_842, "test": 10_511} {
		s := expect.Must(g.Split("plane_late:"+name, 0))(t)
		set := s.Sets[0]
		expect.That(t, set.Len() == want && int64(len(set.Times)) == want && set.Labels.Len() == want,
			"%s: %d rows, %d times, labels %v", name, set.Len(), len(set.Times), set.Labels)
	}
	_, all := convert(t, dir, Options{UpTo: "all"})
	edges := map[string]int64{}
	for _, e := range all.Graph().Schema().Edges {
		edges[e.Relation] += e.Count
	}
	for name, want := range map[string]int64{"f2p_carrier_id": 336_776, "f2p_tailnum_id": 284_170,
		"f2p_origin_id": 336_776 + 26_115, "f2p_dest_id": 329_174, "rev_f2p_dest_id": 329_174} {
		expect.That(t, edges[name] == want, "%s: %d edges, want %d", name, edges[name], want)
	}
}
