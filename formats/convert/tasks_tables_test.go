package convert

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/depot"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
)

// parquetEdges writes edges to a file of Parquet, in groups of rows.
func parquetEdges(t *testing.T, path string, groups, rows int, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	root := expect.Must(schema.NewGroupNode("schema", parquet.Repetitions.Required, schema.FieldList{
		schema.NewInt64Node("src", parquet.Repetitions.Required, -1),
		schema.NewInt64Node("dst", parquet.Repetitions.Required, -1)}, -1))(t)
	f := expect.Must(os.Create(path))(t)
	w := file.NewParquetWriter(f, root, file.WithWriterProps(parquet.NewWriterProperties(
		parquet.WithDictionaryDefault(false))))
	for range groups {
		g := w.AppendRowGroup()
		for range 2 {
			ids := make([]int64, rows)
			for i := range ids {
				ids[i] = r.Int64N(20_000)
			}
			c := expect.Must(g.NextColumn())(t)
			_, err := c.(*file.Int64ColumnChunkWriter).WriteBatch(ids, nil, nil)
			expect.OK(t, err, c.Close())
		}
	}
	expect.OK(t, w.Close())
}

// TestTasksReadAFolderOfParquetOnce: its bytes, and as much again as footers are.
func TestTasksReadAFolderOfParquetOnce(t *testing.T) {
	dir, size := t.TempDir(), int64(0)
	for i := range 3 {
		path := filepath.Join(dir, fmt.Sprintf("e%d.parquet", i))
		parquetEdges(t, path, 10, 20_000, uint64(i))
		size += expect.Must(os.Stat(path))(t).Size()
	}
	mapping := filepath.Join(dir, "graph.yaml")
	expect.OK(t, os.WriteFile(mapping, []byte("edges:\n  n:e:n: {file: 'e*.parquet', src: src, dst: dst}\n"), 0o600))
	_, whole := convert(t, mapping, Options{})
	dst := filepath.Join(t.TempDir(), "x")
	for _, stage := range expect.Must(PlanTasks(t.Context(), mapping, dst, 5, Options{}))(t) {
		for _, task := range stage {
			expect.Must(RunTask(t.Context(), task, Options{}))(t)
		}
	}
	read, edges, most := int64(0), int64(0), int64(0)
	for _, task := range []string{"read-0", "read-1", "read-2", "read-3", "read-4", "nodes-0", "range-0", "range-1",
		"range-2", "range-3", "range-4"} {
		var d done
		expect.OK(t, readJSON(expect.Must(depot.Of(t.Context(), workOf(dst)))(t), doneFile(task), &d))
		if read += d.Read; d.Range != nil {
			edges, most = edges+d.Range.Edges, max(most, d.Range.Edges)
		}
	}
	expect.That(t, read >= size && read <= size*105/100, "%d bytes were read, of %d", read, size)
	expect.That(t, most*5 <= edges*125/100, "a range has %d of %d edges", most, edges)
	got := expect.Must(formats.Open(dst))(t)
	expect.That(t, got.ID() == whole.ID(), "another dataset")
	expect.OK(t, got.Close(), CleanTasks(t.Context(), dst))
}

// TestATableThatChangesBetweenTasksIsNoticed, also where the mapping is named, and not its folder.
func TestATableThatChangesBetweenTasksIsNoticed(t *testing.T) {
	dir := t.TempDir()
	mapping, table := filepath.Join(dir, "graph.yaml"), filepath.Join(dir, "e.csv")
	expect.OK(t, os.WriteFile(mapping, []byte("edges:\n  n:e:n: {file: e.csv, src: src, dst: dst}\n"), 0o600),
		os.WriteFile(table, []byte("src,dst\n0,1\n1,2\n"), 0o600))
	dst := filepath.Join(t.TempDir(), "x")
	stages := expect.Must(PlanTasks(t.Context(), mapping, dst, 2, Options{}))(t)
	expect.OK(t, os.WriteFile(table, []byte("src,dst\n0,1\n1,2\n2,0\n"), 0o600))
	_, err := RunTask(t.Context(), stages[0][0], Options{})
	expect.That(t, errors.Is(err, source.ErrChanged), "%v", err)
	expect.OK(t, CleanTasks(t.Context(), dst))
}
