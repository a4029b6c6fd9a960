package export

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// round is a source with all that GraphAr holds: numbers, lists, texts, times, splits, weights and two types of nodes.
var round = map[string]string{
	"m.yaml": "nodes:\n  user: {file: u.csv, id: name, columns: [x, at, v], split: split, label: label}\n" +
		"  item: {file: i.csv}\nedges:\n  'user:buys:item': {file: b.csv, weight: w}\n" +
		"  'item:by:user': {file: b.csv, src: dst, dst: src, weight: w}\n  'user:knows:user': {file: k.csv}\n",
	"u.csv": "name,x,at,v,split,label\nann,1.5,2001-01-01T00:00:00.25Z,1 2,train,1\nbob,2,1969-12-31,3 4,val,0\n" +
		"cid,,,5 6,train,2\ndan,4,2001-01-02,7 8,,1\neve,5,2001-01-03,9 0,test,0\n",
	"i.csv": "id,price\n0,10\n1,20\n2,30\n3,40\n",
	"b.csv": "src,dst,w\nann,0,1\nann,3,2\nbob,3,3\ncid,3,4\ndan,3,5\neve,1,6\nann,3,7\n",
	"k.csv": "src,dst,time\nann,bob,2001-01-01\nbob,ann,2001-01-01T00:00:01Z\neve,eve,2001-01-01\n",
}

// A dataset that is exported and converted again is the same, whatever chunks there are.
func TestGraphsOfGraphArComeBackAsTheyWere(t *testing.T) {
	in := t.TempDir()
	for name, text := range round {
		expect.OK(t, os.WriteFile(filepath.Join(in, name), []byte(text), 0o600))
	}
	first := filepath.Join(in, "first.khop")
	expect.Must(convert.Run(t.Context(), filepath.Join(in, "m.yaml"), first, convert.Options{}))(t)
	ds := expect.Must(formats.Open(first))(t)
	defer ds.Close()
	defer func(v, e, b int64) { vertexChunk, edgeChunk, textBytes = v, e, b }(vertexChunk, edgeChunk, textBytes)
	textBytes = 5 // a batch has few rows
	for _, size := range [][2]int64{{1 << 18, 1 << 22}, {2, 2}, {1, 1}, {3, 1}} {
		vertexChunk, edgeChunk = size[0], size[1]
		out := filepath.Join(t.TempDir(), "out")
		res := expect.Must(Run(t.Context(), ds, out, Options{To: "graphar"}))(t)
		expect.That(t, len(res.Notes) == 0, "%q", res.Notes)
		again := filepath.Join(t.TempDir(), "again.khop")
		back, err := convert.Run(t.Context(), out, again, convert.Options{})
		expect.Ensure(t, err == nil, "%v: %v", size, err)
		expect.That(t, back.Kind == "graphar", "%+v", back)
		got := expect.Must(formats.Open(again))(t)
		expect.That(t, got.ID() == ds.ID(), "chunks of %d vertices and %d edges: it has the id %x, not %x", size[0],
			size[1], got.ID(), ds.ID())
		expect.OK(t, got.Close())
	}
}

// withColumns writes a dataset of 4 nodes that has these columns.
func withColumns(t *testing.T, columns ...graph.Column) *formats.Dataset {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	a := graph.Arrays{Schema: graph.Schema{Nodes: []graph.NodeType{{Name: "node", Count: 4, Columns: columns}},
		Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: 1,
			Order: graph.ByTime}},
		EdgeColumns: []graph.Column{{Name: "time", DType: unified.Int64}}},
		Indptr: unified.FromSlice([]int64{0, 1, 1, 1, 1}), Indices: unified.FromSlice([]int32{2}),
		EdgeColumns: map[string]unified.Tensor{"time": unified.FromSlice([]int64{1})}}
	a.NodeColumns = []map[string]unified.Tensor{{}}
	for _, c := range columns {
		a.NodeColumns[0][c.Name] = drawn(t, r, c, 4)
	}
	a.Splits = []graph.Split{{Name: "train", Seeds: graph.NodeIDs([]int32{0, 1})}}
	return written(t, a)
}

// Two properties that would have one name are refused.
func TestPropertiesOfOneNameAreRefused(t *testing.T) {
	ds := withColumns(t, graph.Column{Name: "train_mask", DType: unified.Int64})
	_, err := Run(t.Context(), ds, filepath.Join(t.TempDir(), "x"), Options{To: "graphar"})
	expect.That(t, errors.Is(err, formats.ErrExist) && strings.Contains(err.Error(),
		`two properties of "node" would both be "train_mask": rename one of them`), "%v", err)
}

// What GraphAr has no type for is noted.
func TestWhatGraphArLacksIsSaid(t *testing.T) {
	res := expect.Must(Run(t.Context(), dataset(t, 6, 12, true), filepath.Join(t.TempDir(), "x"),
		Options{To: "graphar"}))(t)
	said := strings.Join(res.Notes, "\n")
	for _, says := range []string{`"int8" of "node" is int32, and was int8`,
		`"uint64" of "node" is int64: numbers from`,
		`"float16s" of "node" is float, and was float16`, `"feature" of edges is float, and was float16`,
		`the order of "train" is lost`, `links "val" are left out: GraphAr has none`} {
		expect.That(t, strings.Contains(said, says), "%s lacks %q", said, says)
	}
	ds := withColumns(t, graph.Column{Name: "m", DType: unified.Float32, Shape: []int64{2, 2}},
		graph.Column{Name: "pair", DType: unified.Int64, Shape: []int64{2}, Unit: "s"},
		graph.Column{Name: "row", DType: unified.Float32, Shape: []int64{1},
			Fields: []byte(`[{"name":"a","kind":"numerical","missing":0}]`)})
	res = expect.Must(Run(t.Context(), ds, filepath.Join(t.TempDir(), "x"), Options{To: "graphar"}))(t)
	said = strings.Join(res.Notes, "\n")
	for _, says := range []string{`"m" of "node" has rows of the shape [2 2], which are lists`,
		`"pair" of "node" are times in s, which are written as numbers`,
		`"row" of "node": what its elements mean is left`,
		"edges node:edge:node are ordered by time"} {
		expect.That(t, strings.Contains(said, says), "%s lacks %q", said, says)
	}
}
