package formats

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// tensor makes a tensor of given bytes, copied to aligned memory.
func tensor(t testing.TB, dtype unified.DType, data []byte, shape ...int64) unified.Tensor {
	t.Helper()
	words := make([]uint64, len(data)/8+1)
	for i := range data {
		words[i/8] |= uint64(data[i]) << (i % 8 * 8)
	}
	return expect.Must(unified.New(dtype, unified.FromSlice(words).Bytes(), shape...))(t)
}

func counting(n int64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + 1)
	}
	return b
}

// allDTypes is every element type that there is.
var allDTypes = []unified.DType{
	unified.Int8, unified.Uint8, unified.Int16, unified.Uint16, unified.Int32, unified.Int64, unified.Uint64,
	unified.Float16, unified.BFloat16, unified.Float32, unified.Float64,
}

// plainArrays is a graph of five nodes and six edges with a parallel edge and a self-loop, a feature, labels and
// splits.
func plainArrays(t testing.TB) graph.Arrays {
	return graph.Arrays{
		Schema: graph.Schema{
			Nodes: []graph.NodeType{{Name: "node", Count: 5, Columns: []graph.Column{
				{Name: "feature", DType: unified.Float32, Shape: []int64{3}}, {Name: "label", DType: unified.Int64},
			}}},
			Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: 6}},
		},
		Indptr:  unified.FromSlice([]int64{0, 2, 2, 3, 5, 6}),
		Indices: unified.FromSlice([]int32{1, 4, 2, 0, 0, 3}),
		NodeColumns: []map[string]unified.Tensor{{
			"feature": tensor(t, unified.Float32, counting(60), 5, 3),
			"label":   unified.FromSlice([]int64{0, 1, 1, -1, 2}),
		}},
		Splits: []graph.Split{
			{Name: "train", Seeds: graph.NodeIDs([]int32{3, 1, 3})},
			{Name: "val", Seeds: graph.NodeIDs([]int32{2})},
			{Name: "test", Seeds: graph.NodeIDs([]int32{})},
		},
	}
}

// typedArrays is a graph of three node types and three edge types, one in order of time and one without edges, with
// edge ids, edge columns, a node column of every dtype, and two splits.
func typedArrays(t testing.TB) graph.Arrays {
	a := graph.Arrays{
		Schema: graph.Schema{
			Nodes: []graph.NodeType{{Name: "paper", Count: 4}, {Name: "Author / öther", Count: 2},
				{Name: "empty", Count: 0}},
			Edges: []graph.EdgeType{
				{Source: "paper", Relation: "cites", Target: "paper", Count: 3, Order: graph.ByTime},
				{Source: "Author / öther", Relation: "writes", Target: "paper", Count: 3},
				{Source: "paper", Relation: "rev writes", Target: "Author / öther", Count: 1},
				{Source: "empty", Relation: "none", Target: "paper", Count: 0},
			},
			EdgeColumns: []graph.Column{{Name: "time", DType: unified.Int32}, {Name: "weight", DType: unified.Float64},
				{Name: "type", DType: unified.Uint8}},
		},
		Indptr:  unified.FromSlice([]int64{0, 4, 4, 6, 6, 6, 7}),
		Indices: unified.FromSlice([]int32{3, 1, 4, 5, 2, 4, 0}),
		Types:   unified.FromSlice([]uint8{0, 0, 1, 1, 0, 1, 2}),
		EdgeIDs: unified.FromSlice([]int64{6, 0, 1, 2, 3, 4, 5}),
		EdgeColumns: map[string]unified.Tensor{
			"time":   unified.FromSlice([]int32{-5, 7, 0, 0, 1, 0, 0}),
			"weight": unified.FromSlice([]float64{0, 1, 2.5, 3, 1e300, 5, 6}),
			"type":   unified.FromSlice([]uint8{9, 8, 7, 6, 5, 4, 3}),
		},
		NodeColumns: []map[string]unified.Tensor{{}, {}, {}},
	}
	add := func(nodeType int, name string, dtype unified.DType, shape ...int64) {
		c := graph.Column{Name: name, DType: dtype, Shape: shape}
		n := a.Schema.Nodes[nodeType].Count
		a.Schema.Nodes[nodeType].Columns = append(a.Schema.Nodes[nodeType].Columns, c)
		a.NodeColumns[nodeType][name] = tensor(t, dtype, counting(n*c.RowBytes()), append([]int64{n}, shape...)...)
	}
	for _, d := range allDTypes {
		add(0, d.String(), d)
		add(1, d.String()+"_rows", d, 3)
	}
	add(0, "image", unified.BFloat16, 2, 3)
	add(0, "video", unified.Uint8, 2, 1, 3)
	add(1, "Ünïcode 名", unified.Float32)
	add(2, "feature", unified.Float32, 4)
	for i := range 2 {
		a.Splits = append(a.Splits,
			graph.Split{Name: "train", Index: i, Seeds: graph.Seeds{Sets: []graph.SeedSet{
				{Type: 1, IDs: unified.FromSlice([]int64{1, int64(i)}), Count: 2},
				{Type: 0, IDs: unified.FromSlice([]int32{2}), Count: 1},
			}}},
			graph.Split{Name: "Odd name", Index: i,
				Seeds: graph.Seeds{Sets: []graph.SeedSet{{IDs: unified.FromSlice([]int32{0}), Count: 1}}}},
		)
	}
	return a
}

func newGraph(t testing.TB, a graph.Arrays) *graph.Graph {
	t.Helper()
	return expect.Must(graph.FromArrays(a))(t)
}

// write writes a graph below a new directory and returns where.
func write(t testing.TB, a graph.Arrays, opt WriterOptions) string {
	t.Helper()
	dir := filepath.Join(scratchDir(t), "x.khop")
	expect.OK(t, WriteGraph(context.Background(), dir, newGraph(t, a), opt))
	return dir
}

// scratchDir is a temporary directory in memory where there is one: tests make many small files and wait for each to be
// on the disk.
func scratchDir(t testing.TB) string {
	t.Helper()
	if os.Getenv("TMPDIR") == "" {
		if dir, err := os.MkdirTemp("/dev/shm", "khop-test-"); err == nil {
			t.Cleanup(func() { os.RemoveAll(dir) })
			return dir
		}
	}
	return t.TempDir()
}

func open(t testing.TB, dir string) *Dataset {
	t.Helper()
	d := expect.Must(Open(dir))(t)
	t.Cleanup(func() {
		expect.OK(t, d.Close())
	})
	return d
}

// put writes a file of a dataset.
func put(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	expect.OK(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), b, 0o666))
}

func equalTensors(a, b unified.Tensor) bool {
	return a.DType() == b.DType() && slices.Equal(a.Shape(), b.Shape()) && bytes.Equal(a.Bytes(), b.Bytes())
}

// randomArrays is a plain graph of n nodes with weights, in order.
func randomArrays(t testing.TB, seed uint64, n, degree int) graph.Arrays {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	indptr, indices := []int64{0}, []int32{}
	for range n {
		from := len(indices)
		for range r.IntN(2*degree + 1) {
			indices = append(indices, int32(r.IntN(n)))
		}
		slices.Sort(indices[from:])
		indptr = append(indptr, int64(len(indices)))
	}
	weight := make([]float32, len(indices))
	for i := range weight {
		weight[i] = r.Float32()
	}
	return graph.Arrays{
		Schema: graph.Schema{
			Nodes: []graph.NodeType{{Name: "node", Count: int64(n)}},
			Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node",
				Count: int64(len(indices))}},
			EdgeColumns: []graph.Column{{Name: "weight", DType: unified.Float32}},
		},
		Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(indices),
		EdgeColumns: map[string]unified.Tensor{"weight": unified.FromSlice(weight)},
	}
}

// plainSchema has n nodes of one type and m edges of one type, without columns.
func plainSchema(n, m int64) graph.Schema {
	return graph.Schema{Nodes: []graph.NodeType{{Name: "node", Count: n}},
		Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: m}}}
}

// markerHead is how a marker begins; markerFile is before the name of each file in it.
const (
	markerHead = "khop is writing a dataset here, or was stopped while it did. It made:\n"
	markerFile = "file "
)

func there(path string) bool { _, err := os.Lstat(path); return err == nil }
