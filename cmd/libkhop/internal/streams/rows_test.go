package streams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// people writes a dataset of more nodes than a record has: node i has an in-edge from i/2, the label i%5 and the
// bfloat16 numbers 1 and 2.
func people(t *testing.T, labels string) string {
	const count = rowsMost + 1000
	src, dst, far := make([]int64, count), make([]int64, count), make([]float32, count)
	label, halves := make([]int64, count), make([]unified.BHalf, 2*count)
	for i := range count {
		src[i], dst[i], far[i], label[i] = int64(i/2), int64(i), float32(i-i/2), int64(i%5)
		halves[2*i], halves[2*i+1] = 0x3f80, 0x4000
	}
	columns := map[string]unified.Tensor{labels: unified.FromSlice(label),
		"half": expect.Must(unified.FromRows(halves, 2))(t)}
	g := expect.Must(graph.New(graph.Data{Nodes: []graph.NodeData{{Columns: columns}}, Edges: []graph.EdgeData{
		{Src: src, Dst: dst, Columns: map[string]unified.Tensor{"far": unified.FromSlice(far)}}}}))(t)
	path := filepath.Join(t.TempDir(), "people.khop")
	expect.OK(t, formats.WriteGraph(context.Background(), path, g, formats.WriterOptions{}))
	return path
}

// A stream has all rows, in several records; what it takes is given back with its last record, and then the dataset is
// closed.
func TestAStreamHasAllRowsAndGivesAllBack(t *testing.T) {
	path := people(t, "label")
	open := expect.OpenFiles(t)
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	nodes := expect.Must(NodeRows(expect.Must(formats.Open(path))(t), 0, mem))(t)
	row, records := 0, 0
	for ; nodes.Next(); records++ {
		r := nodes.Record()
		ids, labels := r.Column(0).(*array.Int64), r.Column(at(t, nodes, "label")).(*array.Int64)
		half := r.Column(at(t, nodes, "half")).(*array.FixedSizeList).ListValues().(*array.Float32)
		for i := range int(r.NumRows()) {
			expect.Ensure(t, ids.Value(i) == int64(row) && labels.Value(i) == int64(row%5) && half.Value(2*i) == 1 &&
				half.Value(2*i+1) == 2, "row %d: %d, %d", row, ids.Value(i), labels.Value(i))
			row++
		}
	}
	expect.OK(t, nodes.Err())
	expect.That(t, row == rowsMost+1000 && records == 2, "%d rows in %d records", row, records)
	nodes.Release()

	edges := expect.Must(EdgeRows(expect.Must(formats.Open(path))(t), 0, mem))(t)
	expect.Ensure(t, edges.Next(), "no edges: %v", edges.Err())
	first := edges.Record()
	first.Retain()
	edges.Release() // before the end: whoever makes the records is stopped
	src, dst := first.Column(0).(*array.Int64), first.Column(1).(*array.Int64)
	far := first.Column(2).(*array.Float32)
	for i := range int(first.NumRows()) {
		expect.Ensure(t, src.Value(i) == dst.Value(i)/2 && far.Value(i) == float32(dst.Value(i)-src.Value(i)),
			"edge %d: %d -> %d", i, src.Value(i), dst.Value(i))
	}
	first.Release()
	mem.AssertSize(t, 0)
	expect.That(t, expect.OpenFiles(t) == open, "%d files are open, %d before", expect.OpenFiles(t), open)
	closed(t, path)
}

// closed checks that nothing of a dataset is mapped any more.
func closed(t *testing.T, path string) {
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		expect.That(t, !strings.Contains(string(maps), path), "%s is mapped", path)
	}
}

// Strings come as they are, with the rows that a record has, and times as timestamps, which may be missing.
func TestStringsAndTimesOfNodesAreColumns(t *testing.T) {
	dir := t.TempDir()
	var nodes, edges strings.Builder
	nodes.WriteString("id,time,split\n")
	edges.WriteString("src,dst\n")
	const count = 300
	for i := range count {
		at := ""
		if i%7 > 0 {
			at = fmt.Sprintf("2020-01-01 00:%02d:%02d", i/60, i%60)
		}
		fmt.Fprintf(&nodes, "n%d,%s,%s\n", i, at, []string{"train", "val", "test"}[i%3])
		fmt.Fprintf(&edges, "n%d,n%d\n", i, i/2)
	}
	expect.OK(t, os.WriteFile(filepath.Join(dir, "nodes.csv"), []byte(nodes.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "edges.csv"), []byte(edges.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "graph.yaml"), []byte("nodes: {n: nodes.csv}\nedges: {e: edges.csv}\n"), 0o600))
	path := filepath.Join(t.TempDir(), "n.khop")
	expect.Must(convert.Run(context.Background(), filepath.Join(dir, "graph.yaml"), path, convert.Options{}))(t)

	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	rows := expect.Must(NodeRows(expect.Must(formats.Open(path))(t), 0, mem))(t)
	first := expect.Must(rows.textsOf(texts{"id", expect.Must(rows.ds.Strings(0, "id"))(t)}, 100, 3))(t)
	expect.That(t, first.ValueStr(0) == "n100" && first.ValueStr(2) == "n102", "%v", first)
	first.Release()
	expect.Ensure(t, rows.Next(), "no rows: %v", rows.Err())
	r := rows.Record()
	ids, train := r.Column(at(t, rows, "id")).(*array.LargeString), r.Column(at(t, rows, "train_mask")).(*array.Boolean)
	times := r.Column(at(t, rows, "time")).(*array.Timestamp)
	for i := range count {
		want := int64(1577836800 + i)
		expect.Ensure(t, ids.Value(i) == fmt.Sprint("n", i) && train.Value(i) == (i%3 == 0) &&
			times.IsNull(i) == (i%7 == 0) && (i%7 == 0 || int64(times.Value(i)) == want),
			"row %d: %q, %v, %v", i, ids.Value(i), train.Value(i), times.Value(i))
	}
	expect.That(t, times.NullN() == 43, "%d times are missing", times.NullN())
	expect.That(t, !rows.Next() && rows.Err() == nil, "more rows: %v", rows.Err())
	rows.Release()
	mem.AssertSize(t, 0)
	closed(t, path)
}

// Strings that do not fit their checksum are an error before any row, and nothing stays open.
func TestDamagedStringsAreAnError(t *testing.T) {
	dir := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(dir, "e.csv"), []byte("src,dst\na,b\nb,c\n"), 0o600))
	path := filepath.Join(dir, "n.khop")
	expect.Must(convert.Run(context.Background(), filepath.Join(dir, "e.csv"), path, convert.Options{IDs: "names"}))(t)
	damaged := ""
	expect.OK(t, filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if data, e := os.ReadFile(p); e == nil && bytes.Contains(data, []byte("abc")) {
			damaged = p
			return os.WriteFile(p, bytes.Replace(data, []byte("abc"), []byte("a\xffc"), 1), 0o600)
		}
		return err
	}))
	expect.Ensure(t, damaged != "", "no file has the names")
	_, err := NodeRows(expect.Must(formats.Open(path))(t), 0, memory.NewGoAllocator())
	expect.That(t, errors.Is(err, formats.ErrCorrupt), "%v", err)
	closed(t, path)
}

// at returns the place of a column.
func at(t *testing.T, r *Rows, name string) int {
	list := r.Schema().FieldIndices(name)
	expect.Ensure(t, len(list) == 1, "%q is %d times in %v", name, len(list), r.Schema())
	return list[0]
}

// Two columns of a name would be told apart by nobody.
func TestColumnsOfANameAreRefused(t *testing.T) {
	_, err := NodeRows(expect.Must(formats.Open(people(t, "n_id")))(t), 0, memory.NewGoAllocator())
	expect.That(t, errors.Is(err, formats.ErrExist), "%v", err)
}
