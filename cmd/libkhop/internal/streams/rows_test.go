package streams

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/khop-gnn/khop/formats"
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
