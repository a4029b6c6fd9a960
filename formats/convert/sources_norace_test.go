//go:build !race

package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// links spells the numbers of links: "val 17535 of 0".
func links(ds *formats.Dataset) string {
	var s []string
	for _, l := range ds.LinkSplits() {
		n := int64(0)
		for _, set := range l.Sets {
			n += set.Sources.Len()
		}
		s = append(s, fmt.Sprintf("%s %d", l.Name, n))
	}
	return strings.Join(s, ", ")
}

// TestSourcesHaveTheirCounts converts real graphs of each kind.
func TestSourcesHaveTheirCounts(t *testing.T) {
	for _, c := range []struct {
		path, kind   string
		opt          Options
		nodes, edges int64
		types        int
		columns      string
		links        string
	}{
		{path: "FB15k-237/FB15k-237.tar.gz", kind: "triples", nodes: 14_541, edges: 272_115, types: 1,
			columns: "relation", links: "val 17535, test 20466"},
		{path: "FB15k-237", kind: "triples", opt: Options{RelationsAsTypes: true}, nodes: 14_541, edges: 272_115,
			types: 237, links: "val 17535, test 20466"},
		{path: "WN18RR/WN18RR.tar.gz", kind: "triples", nodes: 40_943, edges: 86_835, types: 1, columns: "relation",
			links: "val 3034, test 3134"},
		{path: "ogbl-ddi", kind: "ogb", nodes: 4267, edges: 2 * 1_067_911, types: 1,
			links: "val 235371, test 229088"},
		{path: "cnr-2000-webgraph/cnr-2000.graph", kind: "webgraph", nodes: 325_557, edges: 3_216_152, types: 1},
		{path: "metis/4elt.graph", kind: "metis", nodes: 15_606, edges: 2 * 45_878, types: 1},
		{path: "metis/test.mgraph", kind: "metis", nodes: 766, edges: 2 * 1_314, types: 1},
		{path: "suitesparse-mtx/bcsstk13.mtx", kind: "mtx", nodes: 2003, edges: 83_883, types: 1, columns: "value"},
		{path: "suitesparse-mtx/jagmesh7.mtx", kind: "mtx", nodes: 1138, edges: 7450, types: 1},
		{path: "suitesparse-mtx/karate.mtx", kind: "mtx", nodes: 34, edges: 156, types: 1},
		{path: "suitesparse-mtx/cryg2500.mtx", kind: "mtx", nodes: 2500, edges: 12_349, types: 1, columns: "value"},
		{path: "suitesparse-mtx/west0067.mtx", kind: "mtx", nodes: 67, edges: 294, types: 1, columns: "value"},
		{path: "suitesparse-mtx/lp_afiro.mtx", kind: "mtx", nodes: 27 + 51, edges: 102, types: 1, columns: "value"},
	} {
		t.Run(fmt.Sprintf("%s/%t", c.path, c.opt.RelationsAsTypes), func(t *testing.T) {
			res, ds := convert(t, testdata(t, filepath.FromSlash(c.path)), c.opt)
			g := ds.Graph()
			var columns []string
			for _, col := range g.Schema().EdgeColumns {
				columns = append(columns, col.Name)
			}
			expect.That(t, res.Kind == c.kind && g.NumNodes() == c.nodes && g.NumEdges() == c.edges &&
				len(g.Schema().Edges) == c.types && strings.Join(columns, " ") == c.columns && links(ds) == c.links,
				"%s: %d nodes, %d edges of %d types, columns %v, links %q; want %+v", res.Kind, g.NumNodes(),
				g.NumEdges(), len(g.Schema().Edges), columns, links(ds), c)
		})
	}
}

// TestTheWebGraphEqualsTheArraysOfAnotherDecoder: cnr-2000 was decoded by a program of its own.
func TestTheWebGraphEqualsTheArraysOfAnotherDecoder(t *testing.T) {
	_, bv := convert(t, testdata(t, "cnr-2000-webgraph", "cnr-2000.graph"), Options{})
	_, csr := convert(t, testdata(t, "cnr-2000-webgraph", "derived", "cnr-2000.csr.npz"), Options{})
	_, low := convert(t, testdata(t, "cnr-2000-webgraph", "cnr-2000.graph"), Options{MemoryLimit: 16 << 20})
	expect.That(t, bv.ID() == csr.ID() && bv.ID() == low.ID(), "the datasets differ")
}

// TestNamesOfEntitiesAndRelationsAreKept: slashes and leading zeros are parts of names.
func TestNamesOfEntitiesAndRelationsAreKept(t *testing.T) {
	for _, c := range []struct{ path, list, want string }{
		{"FB15k-237/FB15k-237.tar.gz", "id", "/m/027rn"},
		{"FB15k-237/FB15k-237.tar.gz", "relation", "/location/country/form_of_government"},
		{"WN18RR/WN18RR.tar.gz", "id", "00260881"},
	} {
		_, ds := convert(t, testdata(t, filepath.FromSlash(c.path)), Options{})
		s := expect.Must(ds.Strings(0, c.list))(t)
		got, err := s.At(0)
		expect.That(t, got == c.want && err == nil, "%s %s 0 is %q, %v; want %q", c.path, c.list, got, err, c.want)
	}
}

func TestLinksAreWrittenWithTheirLabels(t *testing.T) {
	_, ds := convert(t, testdata(t, "ogbl-ddi"), Options{})
	val := expect.Must(ds.Links("val", 0))(t)
	labels := expect.Must(unified.View[int64](val.Sets[0].Labels))(t)
	src, _ := unified.View[int32](val.Sets[0].Sources)
	dst, _ := unified.View[int32](val.Sets[0].Targets)
	// of valid.pt, as NumPy reads it
	got := fmt.Sprint(src[0], dst[0], labels[0], labels[133_488], labels[133_489], len(src))
	expect.That(t, got == "722 548 1 1 0 235371", "links begin with %s", got)
	_, err := ds.Links("train", 0)
	expect.That(t, err != nil && strings.Contains(err.Error(), "val 0, test 0"), "links that are not there: %v", err)
}

func TestWhatIsAmbiguousIsNotGuessed(t *testing.T) {
	_, err := Run(context.Background(), testdata(t, "suitesparse-mtx"), filepath.Join(t.TempDir(), "x"), Options{})
	expect.That(t, err != nil && strings.Contains(err.Error(), "bcsstk13.mtx, cryg2500.mtx"),
		"a folder of six matrices: %v", err)
}

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
			expect.That(t, g.NumNodes() == c.nodes && g.NumEdges() == c.edges && res.SourceEdges == c.listed &&
				res.FeatureDim == c.width && res.Classes == c.classes,
				"%d nodes, %d edges of %d, %d features, %d classes; want %+v", g.NumNodes(), g.NumEdges(),
				res.SourceEdges, res.FeatureDim, res.Classes, c)
			expect.That(t, len(g.Splits()) == c.splits, "%d splits, want %d", len(g.Splits()), c.splits)
			if train, err := g.Split("train", 0); c.splits > 0 && (err != nil || train.Len() != c.train) {
				t.Errorf("%d seeds in split 0, want %d: %v", train.Len(), c.train, err)
			}
			f, ok := g.NodeColumn(0, "feature")
			expect.That(t, ok == (c.width > 0) && (!ok || f.DType() == unified.Float32 && f.Dim(1) == c.width),
				"feature is %v", f)
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
