package formats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// bothWays runs a test as this system replaces datasets, and as one does that cannot exchange names in one step.
func bothWays(t *testing.T, test func(t *testing.T)) {
	t.Run("as this system does", test)
	t.Run("by renaming", func(t *testing.T) {
		directories.Exchange = func(string, string) error { return errors.ErrUnsupported }
		defer func() { directories.Exchange = transaction.Exchange }()
		test(t)
	})
}

func TestAReplacementThatFailsLeavesTheOldDataset(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	column := graph.Column{Name: "a", DType: unified.Int32}
	for name, fail := range map[string]func(t *testing.T, dir string) error{
		"aborted at once": func(t *testing.T, dir string) error {
			w := expect.Must(Create(dir, WriterOptions{Force: true}))(t)
			return errors.Join(w.Abort(), errors.New("as it should"))
		},
		"aborted in the middle of a column": func(t *testing.T, dir string) error {
			w := expect.Must(Create(dir, WriterOptions{Force: true}))(t)
			c := expect.Must(w.NodeColumn(0, column, 10))(t)
			feed(t, c, 12)
			return errors.Join(w.Abort(), errors.New("as it should"))
		},
		"refused by Commit": func(t *testing.T, dir string) error {
			w := expect.Must(Create(dir, WriterOptions{Force: true}))(t)
			return errors.Join(w.Commit(plainSchema(5, 6)), w.Abort())
		},
		"cancelled": func(t *testing.T, dir string) error {
			return WriteGraph(cancelled, dir, newGraph(t, plainArrays(t)), WriterOptions{Force: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, typedArrays(t), WriterOptions{})
			before := expect.Files(t, filepath.Dir(dir))
			expect.Ensure(t, fail(t, dir) != nil, "it does not fail")
			requireEqualFiles(t, before, expect.Files(t, filepath.Dir(dir)))
			requireEqualNames(t, filepath.Dir(dir), filepath.Dir(write(t, typedArrays(t), WriterOptions{})))
		})
	}
}

// A disk, or somebody else, damages what was written before it is committed.
func TestWhatCannotBeOpenedIsNotCommitted(t *testing.T) {
	damage := map[string]func(path string) error{
		"a head":       func(path string) error { return overwrite(path, 100) },
		"cut short":    func(path string) error { return os.Truncate(path, 200) },
		"not there":    os.Remove,
		"another file": func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/", path)) },
	}
	for name, harm := range damage {
		for _, old := range []bool{false, true} {
			dir := filepath.Join(t.TempDir(), "data")
			if old {
				dir = write(t, typedArrays(t), WriterOptions{})
			}
			before := expect.Files(t, filepath.Dir(dir))
			w := expect.Must(Create(dir, WriterOptions{Force: true}))(t)
			g := newGraph(t, plainArrays(t))
			expect.OK(t, w.writeArrays(context.Background(), g), harm(w.tx.Path(nodeColumnPath(0, "label"))))
			err := w.Commit(*g.Schema())
			expect.That(t, errors.Is(err, ErrCorrupt) && strings.Contains(err.Error(), "label.arrow"), "%s: %v",
				name, err)
			expect.OK(t, w.Abort())
			requireEqualFiles(t, before, expect.Files(t, filepath.Dir(dir)))
		}
	}
}

func overwrite(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{0xa5}, at)
	return errors.Join(err, f.Close())
}

func TestTheOldDatasetIsThereUntilTheNewOneIsComplete(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		dir := write(t, typedArrays(t), WriterOptions{})
		g := newGraph(t, plainArrays(t))
		w := expect.Must(Create(dir, WriterOptions{Force: true}))(t)
		expect.OK(t, w.writeArrays(context.Background(), g))
		old := open(t, dir)
		expect.OK(t, w.Commit(*g.Schema()))
		requireEqualGraphs(t, newGraph(t, typedArrays(t)), old.Graph()) // who has it open goes on
		d := open(t, dir)
		requireEqualGraphs(t, g, d.Graph())
		expect.That(t, d.Manifest().Generation == 2, "generation %d", d.Manifest().Generation)
		requireEqualNames(t, filepath.Dir(dir), filepath.Dir(write(t, plainArrays(t), WriterOptions{})))
	})
}

// Readers open and check a dataset again and again, while writers replace it by one of others.
func TestReadersSeeTheOldOrTheNewDatasetWhole(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		graphs := []*graph.Graph{newGraph(t, plainArrays(t)), newGraph(t, typedArrays(t)),
			newGraph(t, randomArrays(t, 1, 50, 3))}
		dir := write(t, plainArrays(t), WriterOptions{})
		reads, end := keepReading(t, dir, graphs)
		for i := 0; (i < 15 || reads() < 15) && !t.Failed(); i++ {
			expect.OK(t, WriteGraph(context.Background(), dir, graphs[i%len(graphs)], WriterOptions{Force: true}))
		}
		end()
	})
}

// keepReading opens and checks a dataset until end is called. reads returns how often it did.
func keepReading(t *testing.T, dir string, graphs []*graph.Graph) (reads func() int64, end func()) {
	var done atomic.Bool
	var n atomic.Int64
	var wg sync.WaitGroup
	for reader := range 4 {
		wg.Go(func() {
			for !done.Load() {
				if err := readWhole(dir, graphs, reader == 0); err != nil {
					t.Errorf("a reader, after %d reads: %v", n.Load(), err)
					return
				}
				n.Add(1)
			}
		})
	}
	return n.Load, func() { done.Store(true); wg.Wait() }
}

// readWhole opens the dataset at dir, or checks it, and compares it with the graph of its id.
func readWhole(dir string, graphs []*graph.Graph, check bool) error {
	if check {
		report, err := Check(context.Background(), dir, CheckOptions{Workers: 1})
		if err != nil || !report.OK() {
			return fmt.Errorf("%+v, %w", report, err)
		}
		return nil
	}
	d, err := Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if !slices.ContainsFunc(graphs, func(g *graph.Graph) bool { return sameEdges(g, d.Graph()) }) {
		return errors.New("it holds edges that no dataset has")
	}
	return nil
}

func sameEdges(a, b *graph.Graph) bool {
	return slices.Equal(a.Indptr(), b.Indptr()) && equalTensors(a.Indices(), b.Indices())
}

func TestOneWriterAtATimeReplacesADataset(t *testing.T) {
	dir := write(t, typedArrays(t), WriterOptions{})
	g := newGraph(t, plainArrays(t))
	first, err := Create(dir, WriterOptions{Force: true})
	expect.OK(t, err, first.writeArrays(context.Background(), g))
	_, err = Create(dir, WriterOptions{Force: true})
	expect.Says(t, err, ErrExist, "another process is writing it", "a second writer")
	expect.OK(t, first.Commit(*g.Schema()))
	requireEqualGraphs(t, g, open(t, dir).Graph())
	expect.OK(t, WriteGraph(context.Background(), dir, newGraph(t, typedArrays(t)), WriterOptions{Force: true}))
	requireEqualNames(t, filepath.Dir(dir), filepath.Dir(write(t, typedArrays(t), WriterOptions{})))
}

// killed are the states in which a writer that replaces dir may die. The old dataset is typedArrays, the new one
// plainArrays. They return what is then there.
var killed = map[string]func(t *testing.T, dir string) graph.Arrays{
	"before it wrote anything": func(t *testing.T, dir string) graph.Arrays {
		expect.OK(t, os.Mkdir(dir+transaction.WorkSuffix, 0o777))
		return typedArrays(t)
	},
	"while it wrote a column": func(t *testing.T, dir string) graph.Arrays {
		w := expect.Must(Create(dir, WriterOptions{Force: true}))(t)
		c := expect.Must(w.NodeColumn(0, graph.Column{Name: "a", DType: unified.Int32}, 10))(t)
		feed(t, c, 12)
		expect.OK(t, w.tx.(*transaction.Tx).Leave())
		return typedArrays(t)
	},
	"when the new one was complete": func(t *testing.T, dir string) graph.Arrays {
		w := expect.Must(Create(dir, WriterOptions{Force: true}))(t)
		expect.OK(t, w.writeArrays(context.Background(), newGraph(t, plainArrays(t))))
		defer func() { directories.Inspect = inspect }()
		directories.Inspect = func(string, *os.Root) (int64, []string, error) { return 0, nil, errors.New("killed") }
		expect.Ensure(t, w.Commit(*newGraph(t, plainArrays(t)).Schema()) != nil, "the writer went on")
		expect.OK(t, w.tx.(*transaction.Tx).Leave())
		return typedArrays(t)
	},
	"before the exchange": func(t *testing.T, dir string) graph.Arrays {
		dieAt(t, dir, func(string, string) error { return errors.New("killed") })
		return typedArrays(t)
	},
	"after the exchange": func(t *testing.T, dir string) graph.Arrays {
		dieAt(t, dir, func(a, b string) error {
			expect.OK(t, os.Rename(a, a+".x"), os.Rename(b, a), os.Rename(a+".x", b))
			return errors.New("killed")
		})
		return plainArrays(t)
	},
	"when the old one was set aside": func(t *testing.T, dir string) graph.Arrays {
		dieAt(t, dir, func(a, b string) error {
			expect.OK(t, os.Rename(a, filepath.Join(a+transaction.WorkSuffix, "old")))
			return errors.New("killed")
		})
		return typedArrays(t)
	},
	"when the old one was copied to be set aside, and went": func(t *testing.T, dir string) graph.Arrays {
		dieAt(t, dir, func(a, b string) error {
			expect.OK(t, os.CopyFS(filepath.Join(a+transaction.WorkSuffix, "old"), os.DirFS(a)),
				os.Remove(filepath.Join(a, "dataset.json")), os.Remove(filepath.Join(a, "graph", "indptr.arrow")))
			return errors.New("killed")
		})
		return typedArrays(t)
	},
	"when the new one has the name": func(t *testing.T, dir string) graph.Arrays {
		dieAt(t, dir, func(a, b string) error {
			expect.OK(t, os.Rename(a, filepath.Join(a+transaction.WorkSuffix, "old")), os.Rename(b, a))
			return errors.New("killed")
		})
		return plainArrays(t)
	},
}

// dieAt replaces a dataset up to the exchange of names.
func dieAt(t *testing.T, dir string, exchanging func(a, b string) error) {
	directories.Exchange = exchanging
	defer func() { directories.Exchange = transaction.Exchange }()
	g := newGraph(t, plainArrays(t))
	w := expect.Must(Create(dir, WriterOptions{Force: true}))(t)
	expect.OK(t, w.writeArrays(context.Background(), g))
	expect.Ensure(t, w.Commit(*g.Schema()) != nil, "the writer went on")
	expect.OK(t, w.tx.(*transaction.Tx).Leave())
}

func TestAWriterThatDiedWhileItReplacedADatasetHarmsNobody(t *testing.T) {
	for name, die := range killed {
		t.Run(name, func(t *testing.T) {
			dir := write(t, typedArrays(t), WriterOptions{})
			left := newGraph(t, die(t, dir))
			requireEqualGraphs(t, left, open(t, dir).Graph())
			report, err := Check(context.Background(), dir, CheckOptions{})
			expect.That(t, err == nil && report.OK(), "check: %+v, %v", report, err)
			g := newGraph(t, plainArrays(t))
			expect.Is(t, WriteGraph(context.Background(), dir, g, WriterOptions{}), ErrExist, "without force")
			requireEqualGraphs(t, left, open(t, dir).Graph())
			expect.OK(t, WriteGraph(context.Background(), dir, g, WriterOptions{Force: true}))
			requireEqualGraphs(t, g, open(t, dir).Graph())
			requireEqualNames(t, filepath.Dir(dir), filepath.Dir(write(t, plainArrays(t), WriterOptions{})))
		})
	}
}

func TestADatasetIsReplacedWhereItLies(t *testing.T) {
	dir := write(t, typedArrays(t), WriterOptions{})
	elsewhere := filepath.Join(scratchDir(t), "link")
	expect.OK(t, os.Symlink(dir, elsewhere))
	g := newGraph(t, plainArrays(t))
	expect.OK(t, WriteGraph(context.Background(), elsewhere, g, WriterOptions{Force: true}))
	requireEqualGraphs(t, g, open(t, elsewhere).Graph())
	requireEqualGraphs(t, g, open(t, dir).Graph())
	st, err := os.Lstat(elsewhere)
	expect.That(t, err == nil && st.Mode()&os.ModeSymlink != 0, "the link is now %v, %v", st, err)
	t.Chdir(dir)
	expect.OK(t, WriteGraph(context.Background(), ".", newGraph(t, typedArrays(t)), WriterOptions{Force: true}))
	requireEqualGraphs(t, newGraph(t, typedArrays(t)), open(t, dir).Graph())
	requireEqualNames(t, filepath.Dir(dir), filepath.Dir(write(t, typedArrays(t), WriterOptions{})))
}

func TestAWorkspaceThatHoldsAnythingElseIsLeftAlone(t *testing.T) {
	g := newGraph(t, plainArrays(t))
	said := map[string]string{"a dataset of that name": `it holds "dataset.json", which no khop dataset has`,
		"files of the user": `it holds "notes.txt", which no khop dataset has`}
	for name, prepare := range map[string]func(t *testing.T, work string){
		"files of the user": func(t *testing.T, work string) {
			expect.OK(t, os.Mkdir(work, 0o777))
			put(t, work, "notes.txt", []byte("mine"))
		},
		"a file of the user in what a writer left": func(t *testing.T, work string) {
			killed["while it wrote a column"](t, strings.TrimSuffix(work, transaction.WorkSuffix))
			put(t, work, "new/notes.txt", []byte("mine"))
		},
		"a dataset of that name": func(t *testing.T, work string) {
			expect.OK(t, WriteGraph(context.Background(), work, g, WriterOptions{}))
		},
		"a dataset of that name whose marker was left": func(t *testing.T, work string) {
			expect.OK(t, WriteGraph(context.Background(), work, g, WriterOptions{}))
			put(t, work, transaction.Marker, []byte(markerHead+"dir .\nfile graph/indptr.arrow\n"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, typedArrays(t), WriterOptions{})
			prepare(t, dir+transaction.WorkSuffix)
			before := expect.Files(t, filepath.Dir(dir))
			err := WriteGraph(context.Background(), dir, g, WriterOptions{Force: true})
			if !errors.Is(err, ErrExist) || !strings.HasPrefix(err.Error(), dir+transaction.WorkSuffix+": ") ||
				!strings.Contains(err.Error(), said[name]) {
				t.Errorf("%v", err)
			}
			requireEqualFiles(t, before, expect.Files(t, filepath.Dir(dir)))
		})
	}
}

// Where a dataset cannot be put in another's place, the error names it and says that the old one is there.
func TestADatasetThatCannotTakeItsPlaceIsNamed(t *testing.T) {
	dir := write(t, typedArrays(t), WriterOptions{})
	before := expect.Files(t, filepath.Dir(dir))
	defer func() { directories.Exchange = transaction.Exchange }()
	directories.Exchange = func(string, string) error { return errors.New("the disk is tired") }
	err := WriteGraph(context.Background(), dir, newGraph(t, plainArrays(t)), WriterOptions{Force: true})
	want := dir + ": the disk is tired; the old dataset is as it was: choose another target"
	expect.That(t, err != nil && err.Error() == want, "%v, not %s", err, want)
	requireEqualFiles(t, before, expect.Files(t, filepath.Dir(dir)))
}

// TestExtendKeepsTheFilesThatThereAre does so with links, and on a file system that has none.
func TestExtendKeepsTheFilesThatThereAre(t *testing.T) {
	for _, links := range []bool{true, false} {
		if !links {
			directories.Link = func(string, string) error { return errors.ErrUnsupported }
			defer func() { directories.Link = os.Link }()
		}
		dir := filepath.Join(t.TempDir(), "x.khop")
		expect.OK(t, copyTree(filepath.Join("testdata", "golden-v1-typed"), dir))
		ds := expect.Must(Open(dir))(t)
		schema, id, mode, was := ds.SchemaOf(), ds.ID(), modeOf(t, dir), ds.Manifest().Provenance
		expect.OK(t, ds.Close())
		w := expect.Must(Extend(dir, ExtendOptions{}))(t)
		expect.OK(t, w.Abort())
		w = expect.Must(Extend(dir, ExtendOptions{Provenance: map[string]string{"added": "more"}}))(t)
		col := graph.Column{Name: "more", DType: unified.Uint8}
		cw, err := w.NodeColumn(1, col, schema.Nodes[1].Count)
		if err == nil {
			_, err = cw.Write(make([]byte, schema.Nodes[1].Count))
		}
		err = errors.Join(err, cw.Close())
		expect.OK(t, err)
		schema.Nodes[1].Columns = append(schema.Nodes[1].Columns, col)
		expect.OK(t, w.Commit(schema))
		rep, err := Check(t.Context(), dir, CheckOptions{})
		expect.That(t, err == nil && rep.OK(), "links %v: %v, %v", links, rep, err)
		if ds, err = Open(dir); err != nil || ds.ID() == id || ds.Manifest().Generation != 2 ||
			ds.Manifest().Provenance["added"] != "more" || len(ds.Manifest().Provenance) != len(was)+1 {
			t.Errorf("links %v: %v, provenance %v, it was %v", links, err, ds.Manifest().Provenance, was)
		}
		expect.OK(t, ds.Close())
		requireMode(t, dir, links, mode)
		expect.That(t, !there(dir+transaction.WorkSuffix), "the workspace is still there")
	}
}

func copyTree(from, to string) error { return os.CopyFS(to, os.DirFS(from)) }

// requireMode wants the mode that files had; that of copies is as if they had been written.
func requireMode(t *testing.T, dir string, links bool, want os.FileMode) {
	t.Helper()
	if !links {
		want = modeOf(t, write(t, plainArrays(t), WriterOptions{}))
	}
	now := modeOf(t, dir)
	expect.That(t, now == want, "links %v: the files' mode is %v, not %v", links, now, want)
}

// modeOf is who may read and write a dataset's indices.
func modeOf(t *testing.T, dir string) os.FileMode {
	t.Helper()
	st := expect.Must(os.Stat(filepath.Join(dir, "graph/indices.arrow")))(t)
	return st.Mode()
}
