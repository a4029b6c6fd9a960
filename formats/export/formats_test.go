package export

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	fromnumpy "github.com/khop-gnn/khop/formats/internal/foreign/arrays"
	fromgraphar "github.com/khop-gnn/khop/formats/internal/foreign/graphar"
	frombolt "github.com/khop-gnn/khop/formats/internal/foreign/graphbolt"
	fromnpz "github.com/khop-gnn/khop/formats/internal/foreign/npz"
	fromtables "github.com/khop-gnn/khop/formats/internal/foreign/tables"
	fromtorch "github.com/khop-gnn/khop/formats/internal/foreign/torch"
	foreign "github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// drawn returns a column of n rows.
func drawn(t *testing.T, r *rand.Rand, c graph.Column, n int64) unified.Tensor {
	t.Helper()
	b := unified.FromSlice(make([]uint64, n*c.RowBytes()/8+1)).Bytes()[:n*c.RowBytes()]
	for i := range b {
		b[i] = byte(r.Uint32())
		if c.DType >= unified.Float16 && int64(i)%c.DType.Size() == c.DType.Size()-1 {
			b[i] = b[i]&0xbf | 0x20 // a number
		}
	}
	return expect.Must(unified.New(c.DType, b, append([]int64{n}, c.Shape...)...))(t)
}

var allDTypes = []unified.DType{unified.Int8, unified.Uint8, unified.Int16, unified.Uint16, unified.Int32,
	unified.Int64, unified.Uint64, unified.Float16, unified.BFloat16, unified.Float32, unified.Float64}

// dataset writes a dataset: of one type, or of several.
func dataset(t *testing.T, nodes, edges int64, typed bool) *formats.Dataset {
	t.Helper()
	r := rand.New(rand.NewPCG(61, 1))
	a := graph.Arrays{Schema: graph.Schema{
		Nodes: []graph.NodeType{{Name: "node", Count: nodes, Columns: []graph.Column{{Name: "feature",
			DType: unified.Float32, Shape: []int64{3}}, {Name: "label", DType: unified.Int64}}}},
		Edges:       []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: edges}},
		EdgeColumns: []graph.Column{{Name: "weight", DType: unified.Float32}},
	}, EdgeColumns: map[string]unified.Tensor{}}
	if typed {
		n := &a.Schema.Nodes[0]
		for _, d := range allDTypes {
			n.Columns = append(n.Columns, graph.Column{Name: d.String(), DType: d},
				graph.Column{Name: d.String() + "s", DType: d, Shape: []int64{2}})
		}
		n.Columns = append(n.Columns, graph.Column{Name: "a*b", DType: unified.Int8})
		a.Schema.Nodes = append(a.Schema.Nodes, graph.NodeType{Name: "x/y", Count: 2})
		a.Schema.Edges = []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: edges - 3},
			{Source: "x/y", Relation: "of", Target: "node", Count: 2}, {Source: "node", Relation: "in", Target: "x/y",
				Count: 1}}
		a.Schema.EdgeColumns = append(a.Schema.EdgeColumns, graph.Column{Name: "time", DType: unified.Int64},
			graph.Column{Name: "feature", DType: unified.Float16, Shape: []int64{2}})
	}
	ends, types := make([]int32, edges), make([]uint8, edges)
	indptr, of := []int64{0}, make([]int64, edges)
	for e := range edges {
		ends[e], of[e] = int32(r.Int64N(nodes)), e*nodes/edges
	}
	if typed { // two edges of the first node come from the other type, and the last edge leads to it
		ends[1], ends[2], types[1], types[2] = int32(nodes), int32(nodes+1), 1, 1
		of[0], of[1], of[2], of[edges-1], types[edges-1] = 0, 0, 0, nodes, 2
	}
	for v := range a.Schema.NumNodes() {
		at := indptr[v]
		for at < edges && of[at] == v {
			at++
		}
		indptr = append(indptr, at)
	}
	a.Indptr, a.Indices = unified.FromSlice(indptr), unified.FromSlice(ends)
	if typed {
		a.Types = unified.FromSlice(types)
	}
	for v := range nodes {
		if lo, hi := indptr[v], indptr[v+1]; v > 0 || !typed {
			slices.Sort(ends[lo:hi])
		}
	}
	fill(t, r, &a)
	return written(t, a)
}

// fill draws columns and splits.
func fill(t *testing.T, r *rand.Rand, a *graph.Arrays) {
	t.Helper()
	for _, c := range a.Schema.EdgeColumns {
		a.EdgeColumns[c.Name] = drawn(t, r, c, a.Schema.NumEdges())
	}
	weights, _ := unified.View[float32](a.EdgeColumns["weight"])
	for i := range weights {
		weights[i] = float32(r.IntN(100)) / 4
	}
	for _, n := range a.Schema.Nodes {
		columns := map[string]unified.Tensor{}
		for _, c := range n.Columns {
			columns[c.Name] = drawn(t, r, c, n.Count)
		}
		if x, ok := columns["label"]; ok {
			labels, _ := unified.View[int64](x)
			for i := range labels {
				labels[i] = int64(i%4) - 1
			}
		}
		a.NodeColumns = append(a.NodeColumns, columns)
	}
	a.Splits = []graph.Split{{Name: "train", Seeds: graph.NodeIDs([]int32{3, 1, 3})},
		{Name: "val", Seeds: graph.NodeIDs([]int32{0, 2})}, {Name: "odd", Seeds: graph.NodeIDs([]int32{1})},
		{Name: "test", Seeds: graph.Seeds{Sets: []graph.SeedSet{{Count: 2}}}},
		{Name: "train", Index: 1, Seeds: graph.NodeIDs([]int32{})}}
}

// written writes a graph with names and links.
func written(t *testing.T, a graph.Arrays) *formats.Dataset {
	t.Helper()
	dir, ctx := filepath.Join(t.TempDir(), "g.khop"), context.Background()
	g, err := graph.FromArrays(a)
	if err == nil {
		err = formats.WriteGraph(ctx, dir, g, formats.WriterOptions{Provenance: map[string]string{"classes": "3"}})
	}
	expect.OK(t, err)
	w := expect.Must(formats.Extend(dir, formats.ExtendOptions{}))(t)
	n := a.Schema.Nodes[0].Count
	names, err := w.NodeStrings(0, "id", n)
	for i := range n {
		err = errors.Join(err, names.Write(strings.Repeat("é", int(i%7))+fmt.Sprint(i)))
	}
	err = errors.Join(err, names.Close())
	for i, v := range [][]int64{{1, 0}, {2, 3}, {1, 0}} {
		cw, e := w.Links("val", 0, 0, 0, []string{"source", "target", "label"}[i], unified.Int64, 2)
		if e == nil {
			_, e = cw.Write(unified.FromSlice(v).Bytes())
		}
		err = errors.Join(err, e, cw.Close())
	}
	err = errors.Join(err, w.Commit(a.Schema))
	expect.OK(t, err)
	ds := expect.Must(formats.Open(dir))(t)
	t.Cleanup(func() {
		expect.OK(t, ds.Close())
	})
	return ds
}

// contents lists the files of an export: texts as they are, of other files size and digest.
func contents(t *testing.T, target, format string) string {
	t.Helper()
	var s strings.Builder
	expect.OK(t, filepath.WalkDir(target, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, digest := strings.TrimPrefix(path, target), sha256.Sum256(b)
		switch {
		case filepath.Ext(name) == ".parquet" || strings.HasPrefix(filepath.Base(name), "chunk"):
			// its bytes are those of a library
			fmt.Fprintf(&s, "%s\n", name)
		case slices.Contains([]string{".yaml", ".yml", ".txt"}, filepath.Ext(name)) && len(b) < 3000:
			id, _, _ := strings.Cut(string(b), "of the dataset")
			fmt.Fprintf(&s, "%s: %s\n", name, strings.TrimSpace(id))
		default:
			fmt.Fprintf(&s, "%s: %x\n", name, digest[:6])
		}
		return err
	}))
	r := map[string]foreign.Reader{"numpy": fromnumpy.Reader, "npz": fromnpz.Reader, "graphbolt": frombolt.Reader,
		"pyg": fromtorch.Reader, "parquet": fromtables.Reader, "graphar": fromgraphar.Reader}[format]
	tree := expect.Must(foreign.OpenTree(target, nil))(t)
	for _, at := range r.Find(tree) {
		g, err := r.Read(context.Background(), tree.At(at), &foreign.Request{})
		if err != nil {
			fmt.Fprintf(&s, "it is not read: %s\n", strings.ReplaceAll(err.Error(), target, "it"))
			continue
		}
		text := sourcetest.Spell(t, g)
		digest := sha256.Sum256([]byte(text))
		fmt.Fprintf(&s, "read as %.150s %x\n%s\n", text, digest[:6], strings.ReplaceAll(foreign.Text(g.Notes),
			target, "it"))
		expect.OK(t, g.Close())
	}
	return s.String()
}

// TestOnlyAnExportIsReplaced: neither by force nor without is another folder or a file.
func TestOnlyAnExportIsReplaced(t *testing.T) {
	ds := dataset(t, 5, 6, false)
	for _, format := range Formats {
		dir := t.TempDir()
		folder, file := filepath.Join(dir, "folder"), filepath.Join(dir, "file")
		expect.OK(t, errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(file, []byte("x"), 0o600),
			os.WriteFile(filepath.Join(folder, "x"), []byte("x"), 0o600)))
		const says = ", and was not written by khop export; choose another target, or remove it yourself"
		for _, target := range []string{folder, file} {
			_, err := Run(context.Background(), ds, target, Options{To: format[0], Force: true})
			if target == file && (format[0] == "npz" || format[0] == "pyg") {
				expect.Is(t, err, nil, "an archive does not replace a file by force")
				continue
			}
			if want := target + ": " + formats.ErrExist.Error() + says; err == nil || err.Error() != want ||
				!errors.Is(err, formats.ErrExist) {
				t.Errorf("%s: got %v, want %s", format[0], err, want)
			}
		}
	}
	_, err := Run(context.Background(), ds, filepath.Join(t.TempDir(), "x"), Options{To: "csv"})
	expect.That(t, errors.Is(err, ErrFormat) && strings.Contains(err.Error(), `"csv"`), "%v", err)
}

// TestRowsOfListsAreWrittenInOneGo counts what is allocated in all: an encoder that copies its levels at each run of
// them takes a hundred times as much.
func TestRowsOfListsAreWrittenInOneGo(t *testing.T) {
	const nodes, width = 4096, 64
	ds := written(t, graph.Arrays{Schema: graph.Schema{
		Nodes: []graph.NodeType{{Name: "node", Count: nodes, Columns: []graph.Column{{Name: "feature",
			DType: unified.Float32, Shape: []int64{width}}}}},
		Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node"}}},
		Indptr: unified.FromSlice(make([]int64, nodes+1)), Indices: unified.FromSlice([]int32{}),
		NodeColumns: []map[string]unified.Tensor{{"feature": graphs.Matrix(t, make([]float32, nodes*width), width)}}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	expect.Must(Run(t.Context(), ds, filepath.Join(t.TempDir(), "out"), Options{To: "parquet"}))(t)
	runtime.ReadMemStats(&after)
	took := after.TotalAlloc - before.TotalAlloc
	expect.That(t, took < 100<<20, "%d bytes were allocated for 1 MB", took)
}
