//go:build !race

package formats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// smallest is a graph of two nodes and one edge.
func smallest(t testing.TB) *graph.Graph {
	return newGraph(t, graph.Arrays{Schema: plainSchema(2, 1), Indptr: unified.FromSlice([]int64{0, 1, 1}),
		Indices: unified.FromSlice([]int32{1})})
}

// addNames adds a list of names to a dataset.
func addNames(dir string) (err error) {
	w, err := Extend(dir, ExtendOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	names, err := w.NodeStrings(0, "more", 0)
	if err != nil {
		return err
	}
	if err := names.Close(); err != nil {
		return err
	}
	return w.Commit(plainSchema(2, 1))
}

// withColumns is the schema of a graph of two nodes and one edge that have a column each.
func withColumns() graph.Schema {
	schema := plainSchema(2, 1)
	schema.Nodes[0].Columns = []graph.Column{{Name: "x", DType: unified.Float32}}
	schema.EdgeColumns = []graph.Column{{Name: "weight", DType: unified.Int8}}
	return schema
}

// writeColumns writes columns, seeds that are listed, and seeds that are all nodes.
func writeColumns(dir string) error {
	schema := withColumns()
	g, err := graph.FromArrays(graph.Arrays{Schema: schema, Indptr: unified.FromSlice([]int64{0, 1, 1}),
		Indices:     unified.FromSlice([]int32{1}),
		EdgeColumns: map[string]unified.Tensor{"weight": unified.FromSlice([]int8{3})},
		NodeColumns: []map[string]unified.Tensor{{"x": unified.FromSlice([]float32{1, 2})}},
		Splits: []graph.Split{{Name: "train", Seeds: graph.Seeds{Sets: []graph.SeedSet{{Count: 2}}}},
			{Name: "test", Seeds: graph.NodeIDs([]int32{1})}},
	})
	if err != nil {
		return err
	}
	return WriteGraph(context.Background(), dir, g, WriterOptions{})
}

// addLinks adds links and names to that, in place of the nodes' column and of the seeds that are listed.
func addLinks(dir string) (err error) {
	drop := func(_, name string, _ int) bool { return name == "x" || name == "test" }
	w, err := Extend(dir, ExtendOptions{Drop: drop})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	for _, end := range []string{"source", "target", "label"} {
		cw, err := w.Links("valid", 0, 0, 0, end, unified.Int64, 1)
		if err := writeTensor(context.Background(), cw, err, unified.FromSlice([]int64{1})); err != nil {
			return err
		}
	}
	names, err := w.NodeStrings(0, "id", 2)
	if err != nil {
		return err
	}
	if err := errors.Join(names.Write("ada"), names.Write("bob"), names.Close()); err != nil {
		return err
	}
	schema := withColumns()
	schema.Nodes[0].Columns = nil
	return w.Commit(schema)
}

// writeLinked writes all kinds of arrays.
func writeLinked(dir string) error {
	if err := writeColumns(dir); err != nil {
		return err
	}
	return addLinks(dir)
}

// attempts are all that this package does to datasets on a disk.
func attempts(t *testing.T) map[string]expect.Attempt {
	g := smallest(t)
	there := func(dir string) error { return WriteGraph(context.Background(), dir, g, WriterOptions{}) }
	return map[string]expect.Attempt{
		"write": {State: stateOf, Do: func(dir string) error { return writeShort(dir, WriterOptions{ExpectBytes: 1}) }},
		"replace": {Before: there, State: stateOf, Do: func(dir string) error {
			return writeShort(dir, WriterOptions{Force: true})
		}},
		"write what was left": {Before: func(dir string) error {
			err := there(dir)
			leave(t, dir)
			return err
		}, State: stateOf, Do: func(dir string) error { return writeShort(dir, WriterOptions{}) }},
		"add": {Before: there, State: stateOf, Do: addNames},
		"replace in steps": {Before: there, State: stateOf, Only: "renameat fsync", Do: func(dir string) error {
			defer func() { directories.Exchange = transaction.Exchange }()
			directories.Exchange = func(string, string) error { return errors.ErrUnsupported }
			return writeShort(dir, WriterOptions{Force: true})
		}},
		"add without links": {Before: there, State: stateOf, Only: "openat fsync", Do: func(dir string) error {
			defer func() { directories.Link = os.Link }()
			directories.Link = func(string, string) error { return errors.ErrUnsupported }
			return addNames(dir)
		}},
		"write columns": {State: stateOf, Only: "write pwrite64", Do: writeColumns},
		"add links":     {Before: writeColumns, State: stateOf, Only: "linkat pwrite64", Do: addLinks},
		"open links":    {Before: writeLinked, Do: openError},
		"open":          {Before: there, Do: openError},
		"check": {Before: there, Do: func(dir string) error {
			r, err := Check(context.Background(), dir, CheckOptions{Workers: 1})
			if err == nil && !r.OK() {
				err = errors.Join(r.Problems...)
			}
			return err
		}},
	}
}

func TestEveryFailingSystemCallIsAnErrorAndHarmsNothing(t *testing.T) {
	for name, a := range attempts(t) {
		t.Run(name, func(t *testing.T) { expect.FailingCalls(t, scratchDir(t), a) })
	}
}

// stateOf says what is at dir: the id of a dataset, or that there is none; and how many others are beside it.
func stateOf(dir string) (id string, beside int) {
	list, _ := filepath.Glob(dir + "?*")
	d, err := Open(dir)
	if errors.Is(err, ErrIncomplete) || errors.Is(err, os.ErrNotExist) {
		return "none", len(list)
	}
	if err != nil {
		return err.Error(), len(list)
	}
	defer d.Close()
	return fmt.Sprintf("%x, generation %d", d.ID(), d.Manifest().Generation), len(list)
}

// TestWhatIsForeignIsSeenBeforeAnythingIsMade: not even a marker.
func TestWhatIsForeignIsSeenBeforeAnythingIsMade(t *testing.T) {
	dir := scratchDir(t)
	put(t, dir, "notes.txt", nil)
	var err error
	for _, c := range expect.FailingCall(t, dir, -1, nil, func() { _, err = Create(dir, WriterOptions{}) }) {
		expect.That(t, c.Path != filepath.Join(dir, transaction.Marker), "%s %s", c.Name, c.Path)
	}
	expect.That(t, errors.Is(err, ErrExist) && strings.Contains(err.Error(),
		`it holds "notes.txt", which no khop dataset has`), "%v", err)
}
