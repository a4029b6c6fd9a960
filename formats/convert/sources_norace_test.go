//go:build !race

package convert

import (
	"context"
	"fmt"
	"path/filepath"
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
			if res.Kind != c.kind || g.NumNodes() != c.nodes || g.NumEdges() != c.edges ||
				len(g.Schema().Edges) != c.types || strings.Join(columns, " ") != c.columns || links(ds) != c.links {
				t.Errorf("%s: %d nodes, %d edges of %d types, columns %v, links %q; want %+v", res.Kind, g.NumNodes(),
					g.NumEdges(), len(g.Schema().Edges), columns, links(ds), c)
			}
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
