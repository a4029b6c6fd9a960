package formats

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// foreignDirectories change a directory so that a writer must leave it as it then is, by force or not.
var foreignDirectories = map[string]func(t *testing.T, dir string){
	"a foreign directory": func(t *testing.T, dir string) {
		expect.OK(t, os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "graph"), 0o777))
		put(t, dir, "graph/indptr.arrow", []byte("mine"))
	},
	"a directory of one foreign file": func(t *testing.T, dir string) {
		expect.OK(t, os.RemoveAll(dir), os.Mkdir(dir, 0o777))
		put(t, dir, "notes.txt", []byte("mine"))
	},
	"a foreign file in a dataset": func(t *testing.T, dir string) {
		put(t, dir, "notes.txt", []byte("mine"))
	},
	"a foreign file beside a dataset's": func(t *testing.T, dir string) {
		put(t, dir, "graph/mine.arrow", []byte("mine"))
	},
	"a foreign directory in a dataset": func(t *testing.T, dir string) {
		expect.OK(t, os.Mkdir(filepath.Join(dir, "backup"), 0o777))
	},
	"a link in a dataset": func(t *testing.T, dir string) {
		expect.OK(t, os.Symlink("/etc/hostname", filepath.Join(dir, "link")))
	},
	"a dataset with a damaged manifest": func(t *testing.T, dir string) {
		put(t, dir, manifestName, []byte("{}"))
	},
	"a foreign file beside what was left": func(t *testing.T, dir string) {
		leave(t, dir)
		put(t, dir, "notes.txt", []byte("mine"))
	},
	"a marker that is not ours": func(t *testing.T, dir string) {
		leave(t, dir)
		put(t, dir, transaction.Marker, []byte("todo\nfile graph/indptr.arrow\n"))
	},
	"a marker that names files outside": func(t *testing.T, dir string) {
		leave(t, dir)
		put(t, dir, transaction.Marker, append(expect.Files(t, dir)[transaction.Marker], "file ../precious.arrow\n"...))
		put(t, filepath.Dir(dir), "precious.arrow", []byte("mine"))
	},
	"a marker that names directories beyond": func(t *testing.T, dir string) {
		leave(t, dir)
		put(t, dir, transaction.Marker, []byte(markerHead+"dir ..\n"))
	},
}

func TestCreateRefusesWhatItMustNotReplace(t *testing.T) {
	ctx, g := context.Background(), newGraph(t, plainArrays(t))
	t.Run("a complete dataset", func(t *testing.T) {
		dir := write(t, plainArrays(t), WriterOptions{})
		before := expect.Files(t, dir)
		err := WriteGraph(ctx, dir, g, WriterOptions{})
		expect.That(t, errors.Is(err, ErrExist), "%v", err)
		requireEqualFiles(t, before, expect.Files(t, dir))
	})
	t.Run("a file", func(t *testing.T) {
		dir := scratchDir(t)
		put(t, dir, "x.khop", []byte("precious"))
		for _, force := range []bool{false, true} {
			expect.Is(t, WriteGraph(ctx, filepath.Join(dir, "x.khop"), g, WriterOptions{Force: force}), ErrExist,
				"force %t", force)
		}
		requireEqualFiles(t, map[string][]byte{"x.khop": []byte("precious")}, expect.Files(t, dir))
	})
	for name, change := range foreignDirectories {
		t.Run(name, func(t *testing.T) {
			dir := write(t, plainArrays(t), WriterOptions{})
			change(t, dir)
			before := expect.Files(t, filepath.Dir(dir))
			for _, force := range []bool{false, true} {
				expect.Is(t, WriteGraph(ctx, dir, g, WriterOptions{Force: force}), ErrExist, "force %t", force)
			}
			requireEqualFiles(t, before, expect.Files(t, filepath.Dir(dir)))
		})
	}
}

// leave makes a complete dataset look as if its writer had died just before the end.
func leave(t *testing.T, dir string) {
	t.Helper()
	text := markerHead
	for name := range expect.Files(t, dir) {
		if name != manifestName {
			text += markerFile + name + "\n"
		}
	}
	put(t, dir, transaction.Marker, []byte(text))
	expect.OK(t, os.Remove(filepath.Join(dir, manifestName)))
}

func requireEqualFiles(t *testing.T, want, got map[string][]byte) {
	t.Helper()
	for name := range want {
		if string(got[name]) != string(want[name]) {
			t.Errorf("%s was changed or removed", name)
		}
	}
	for name := range got {
		_, ok := want[name]
		expect.That(t, ok, "%s was left behind", name)
	}
}

func requireEqualNames(t *testing.T, a, b string) {
	t.Helper()
	list := func(dir string) string {
		var names []string
		expect.OK(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, rel)
			return err
		}))
		return strings.Join(names, "\n")
	}
	x, y := list(a), list(b)
	expect.That(t, x == y, "%s holds\n%s\nand %s\n%s", a, x, b, y)
}

func TestAnUnfinishedDatasetIsRefusedAndThenReplaced(t *testing.T) {
	dir := write(t, typedArrays(t), WriterOptions{})
	leave(t, dir)
	expect.Is(t, openError(dir), ErrIncomplete, "open")
	// the writer died in the middle of a line
	torn := append(expect.Files(t, dir)[transaction.Marker], "file nodes/n0/torn.ar"...)
	put(t, dir, transaction.Marker, torn)
	g := newGraph(t, plainArrays(t))
	expect.OK(t, WriteGraph(context.Background(), dir, g, WriterOptions{}))
	requireEqualGraphs(t, g, open(t, dir).Graph())
	requireEqualNames(t, dir, write(t, plainArrays(t), WriterOptions{}))
}

func TestADatasetWhoseMarkerWasLeftIsComplete(t *testing.T) {
	dir := write(t, plainArrays(t), WriterOptions{})
	text := expect.Files(t, dir)[manifestName]
	leave(t, dir)
	put(t, dir, manifestName, text)
	g := newGraph(t, plainArrays(t))
	requireEqualGraphs(t, g, open(t, dir).Graph())
	expect.Is(t, WriteGraph(context.Background(), dir, g, WriterOptions{}), ErrExist, "without force")
	requireEqualGraphs(t, g, open(t, dir).Graph())
	expect.Is(t, WriteGraph(context.Background(), dir, g, WriterOptions{Force: true}), nil, "by force")
	requireEqualNames(t, dir, write(t, plainArrays(t), WriterOptions{}))
}

// feed writes n zeros to a column.
func feed(t testing.TB, c *ColumnWriter, n int) {
	t.Helper()
	_, err := c.Write(make([]byte, n))
	expect.OK(t, err)
}

func TestAbortLeavesNothingBehind(t *testing.T) {
	for _, made := range []bool{true, false} {
		dir := filepath.Join(scratchDir(t), "x.khop")
		if !made {
			expect.OK(t, os.Mkdir(dir, 0o777))
		}
		w := expect.Must(Create(dir, WriterOptions{}))(t)
		c := expect.Must(w.NodeColumn(3, graph.Column{Name: "a", DType: unified.Int32}, 10))(t)
		feed(t, c, 12)
		expect.OK(t, w.Abort(), w.Abort())
		list, err := os.ReadDir(dir)
		expect.That(t, (!made || errors.Is(err, os.ErrNotExist)) && (made || err == nil && len(list) == 0),
			"the directory was there before: %t; now: %v, %v", !made, list, err)
		_, err = w.NodeColumn(0, graph.Column{Name: "a", DType: unified.Int32}, 10)
		expect.That(t, err != nil, "a writer that was aborted goes on")
		expect.That(t, w.Commit(plainArrays(t).Schema) != nil, "a writer that was aborted commits")
	}
}

func TestOnlyOneOfManyWritersOfATargetWins(t *testing.T) {
	g := newGraph(t, plainArrays(t))
	for round := range 20 {
		dir := filepath.Join(scratchDir(t), "x.khop")
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() {
				errs[i] = WriteGraph(context.Background(), dir, g, WriterOptions{})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, ErrExist) {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		expect.Ensure(t, won == 1, "round %d: %d writers won: %v", round, won, errs)
		requireEqualGraphs(t, g, open(t, dir).Graph())
	}
}

func TestATargetHasOneWriterAtATimeThoughWritersComeAndGo(t *testing.T) {
	dir := filepath.Join(scratchDir(t), "x.khop")
	var active, wins atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 300 {
				w, err := Create(dir, WriterOptions{})
				if errors.Is(err, ErrExist) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				n := active.Add(1)
				expect.That(t, n == 1, "%d writers at once", n)
				wins.Add(1)
				active.Add(-1)
				if err := w.Abort(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	// A writer that found the directory of another one leaves it, empty, as it would leave a user's.
	list, err := os.ReadDir(dir)
	expect.That(t, wins.Load() != 0 && len(list) == 0 && (err == nil || errors.Is(err, os.ErrNotExist)),
		"%d writers began; left behind: %v, %v", wins.Load(), list, err)
}

func TestColumnWriterWantsExactlyItsBytes(t *testing.T) {
	w := expect.Must(Create(filepath.Join(scratchDir(t), "x.khop"), WriterOptions{}))(t)
	defer func() { expect.OK(t, w.Abort()) }()
	column := func(name string) *ColumnWriter {
		return expect.Must(w.NodeColumn(0, graph.Column{Name: name, DType: unified.Int32}, 3))(t)
	}
	few, many, exact := column("few"), column("many"), column("exact")
	feed(t, few, 11)
	if err := few.Close(); err == nil || !strings.Contains(err.Error(), "11 bytes written, but 3 rows take 12") {
		t.Errorf("a byte missing: %v", err)
	}
	_, err := many.Write(make([]byte, 13))
	expect.That(t, err != nil, "a byte too many is accepted")
	expect.That(t, many.Close() != nil, "Close forgets the error")
	feed(t, exact, 12)
	expect.OK(t, errors.Join(exact.Close(), exact.Close()))
	_, err = exact.Write([]byte{1})
	expect.That(t, err != nil, "a byte after Close is accepted")
	expect.Is(t, expect.Err(w.NodeColumn(0, graph.Column{Name: "few", DType: unified.Int32}, 3)), ErrExist,
		"a column twice")
}

// misfits write less or more than a schema says, or change it.
func misfits(t *testing.T) map[string]func(w *Writer, s *graph.Schema) {
	return map[string]func(w *Writer, s *graph.Schema){
		"a column that was not written": func(_ *Writer, s *graph.Schema) {
			s.Nodes[0].Columns = append(s.Nodes[0].Columns, graph.Column{Name: "x", DType: unified.Int8})
		},
		"a column that is not in the schema": func(_ *Writer, s *graph.Schema) {
			s.Nodes[0].Columns = s.Nodes[0].Columns[:1]
		},
		"another dtype": func(_ *Writer, s *graph.Schema) {
			s.Nodes[0].Columns[1].DType = unified.Uint64
		},
		"another shape": func(_ *Writer, s *graph.Schema) {
			s.Nodes[0].Columns[0].Shape = []int64{1, 3}
		},
		"another count":           func(_ *Writer, s *graph.Schema) { s.Nodes[0].Count = 6 },
		"another number of edges": func(_ *Writer, s *graph.Schema) { s.Edges[0].Count = 5 },
		"a second edge type": func(_ *Writer, s *graph.Schema) {
			s.Edges = append(s.Edges, graph.EdgeType{Source: "node", Relation: "x", Target: "node"})
		},
		"no node type":            func(_ *Writer, s *graph.Schema) { s.Nodes = nil },
		"an order without a time": func(_ *Writer, s *graph.Schema) { s.Edges[0].Order = graph.ByTime },
		"types of a plain graph": func(w *Writer, _ *graph.Schema) {
			c := expect.Must(w.Topology("type", unified.Uint8, 6))(t)
			feed(t, c, 6)
			expect.OK(t, c.Close())
		},
		"a column that is not done": func(w *Writer, _ *graph.Schema) {
			_, err := w.EdgeColumn(graph.Column{Name: "weight", DType: unified.Int8}, 6)
			expect.OK(t, err)
		},
		"seeds of another type": func(w *Writer, _ *graph.Schema) {
			c := expect.Must(w.Split("x", 0, 1, unified.Int32, 0))(t)
			expect.OK(t, c.Close())
		},
	}
}

func TestCommitRefusesWhatDoesNotFitTheSchema(t *testing.T) {
	for name, change := range misfits(t) {
		t.Run(name, func(t *testing.T) {
			a := plainArrays(t)
			g := newGraph(t, plainArrays(t))
			dir := filepath.Join(scratchDir(t), "x.khop")
			w := expect.Must(Create(dir, WriterOptions{}))(t)
			expect.OK(t, w.writeAll(context.Background(), edgeArrays(g)))
			for _, c := range g.Schema().Nodes[0].Columns {
				x, _ := g.NodeColumn(0, c.Name)
				cw, err := w.NodeColumn(0, c, x.Len())
				expect.OK(t, writeTensor(context.Background(), cw, err, x))
			}
			change(w, &a.Schema)
			err := w.Commit(a.Schema)
			undone := name == "a column that is not done"
			expect.That(t, err != nil && undone == strings.Contains(err.Error(), "not written whole") && (undone ||
				errors.Is(err, graph.ErrSchema)), "%v", err)
			expect.Is(t, openError(dir), ErrIncomplete, "after the refusal")
			expect.OK(t, w.Abort())
		})
	}
}

func TestCreateChecksTheSpaceBeforeItTouchesAnything(t *testing.T) {
	parent := scratchDir(t)
	dir := filepath.Join(parent, "x.khop")
	_, err := Create(dir, WriterOptions{ExpectBytes: 1 << 60})
	expect.That(t, errors.Is(err, ErrSpace) && strings.Contains(err.Error(), "1,152,921,504,606,846,976 bytes") &&
		strings.Contains(err.Error(), "are free"), "%v", err)
	list, _ := os.ReadDir(parent)
	expect.That(t, len(list) == 0, "left behind: %v", list)
	dir = write(t, plainArrays(t), WriterOptions{})
	before := expect.Files(t, dir)
	_, err = Create(dir, WriterOptions{ExpectBytes: 1 << 60, Force: true})
	expect.That(t, errors.Is(err, ErrSpace), "%v", err)
	requireEqualFiles(t, before, expect.Files(t, dir))
}

func TestErrorsSayWhereWhatAndWhatToDo(t *testing.T) {
	err := &Error{Path: "products.khop/graph/indices.arrow", Row: 123456789, unit: "edge",
		Remedy: `run "khop check" or convert again`, Err: corruptf("source 2,500,000 is not below 2,449,029 nodes")}
	want := `products.khop/graph/indices.arrow: edge 123,456,789: corrupt dataset: source 2,500,000 is ` +
		`not below 2,449,029 nodes; run "khop check" or convert again`
	expect.That(t, err.Error() == want, "%s", err)
}

func TestAnnotationsAreInTheManifest(t *testing.T) {
	a := plainArrays(t)
	dir := filepath.Join(scratchDir(t), "x.khop")
	w := expect.Must(Create(dir, WriterOptions{}))(t)
	defer func() { expect.OK(t, w.Abort()) }()
	a.Schema.Nodes[0].Columns, a.Schema.EdgeColumns = nil, []graph.Column{{Name: "length", DType: unified.Int16,
		Unit: "ms"}}
	c := expect.Must(w.EdgeColumn(a.Schema.EdgeColumns[0], 6))(t)
	c.Annotate(0.25, nan())
	feed(t, c, 12)
	g := newGraph(t, graph.Arrays{Schema: plainSchema(5, 6), Indptr: a.Indptr, Indices: a.Indices})
	expect.OK(t, errors.Join(c.Close(), w.writeAll(context.Background(), edgeArrays(g)), w.Commit(a.Schema)))
	info := open(t, dir).Manifest().Columns[2]
	expect.That(t, info.Name == "length" && info.Unit == "ms" && info.Scale != nil && *info.Scale == 0.25 &&
		info.Fill == nil, "%+v", info)
}

// A split has a set of seeds for each type: a set of several types has no place in a file.
func TestASetOfSeveralTypesIsNotWritten(t *testing.T) {
	a := typedArrays(t)
	seeds := graph.NodeIDs([]int64{1, 0})
	seeds.Sets[0].Types = []int32{0, 1}
	a.Splits = []graph.Split{{Name: "train", Seeds: seeds}}
	err := WriteGraph(context.Background(), filepath.Join(scratchDir(t), "x"), newGraph(t, a), WriterOptions{})
	expect.That(t, errors.Is(err, graph.ErrSchema) && strings.Contains(err.Error(),
		`split "train": seeds of several types`) && strings.Contains(err.Error(), "make a set of each type"), "%v", err)
}
