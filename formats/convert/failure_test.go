package convert

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/guard"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func randomText(seed uint64, nodes, edges int) string {
	r := rand.New(rand.NewPCG(seed, 0))
	var b strings.Builder
	b.WriteString("src dst weight\n")
	for range edges {
		fmt.Fprintf(&b, "%d %d %d\n", r.IntN(nodes), r.IntN(nodes)*r.IntN(nodes)/nodes, r.IntN(100))
	}
	return b.String()
}

func npyFile(t *testing.T, v any) string {
	t.Helper()
	return write(t, "table.npy", string(expect.NPY(v)))
}

func npyMatrix(t *testing.T, rows, width int, v []float32) string {
	t.Helper()
	return write(t, "features.npy", string(expect.NPY(v, rows, width)))
}

func TestTablesGoBesideAnEdgeList(t *testing.T) {
	src := write(t, "edges.txt", "0 1\n1 2\n")
	res, ds := convert(t, src, Options{
		Features: npyMatrix(t, 4, 2, []float32{1, 2, 3, 4, 5, 6, 7, 8}), Labels: npyFile(t, []int32{0, 15, -1, 2}),
	})
	p := ds.Manifest().Provenance
	expect.That(t, res.Nodes == 4 && res.FeatureDim == 2 && res.Classes == 16 && p["classes"] == "16" &&
		p["source_edges"] == "2" && p["source"] == "edges.txt" && p["kind"] == "edgelist" && p["direction"] != "",
		"%+v, provenance %v", res, p)
	f, _ := ds.Graph().NodeColumn(0, "feature")
	v, err := unified.View[float32](f)
	expect.That(t, err == nil && fmt.Sprint(v) == "[1 2 3 4 5 6 7 8]", "features %v, %v", v, err)
	l, _ := ds.Graph().NodeColumn(0, "label")
	if v, err := unified.View[int64](l); err != nil || fmt.Sprint(v) != "[0 15 -1 2]" {
		t.Errorf("labels %v, %v", v, err)
	}
}

// unconverted is what cannot be converted, and why not.
type unconverted struct {
	name, src string
	opt       Options
	is        error
	says      string
}

// oddConversions have options or tables that make no sense, or an invalid source.
func oddConversions(t *testing.T, good, dataset string) []unconverted {
	return []unconverted{
		{"a merge that is none", good, Options{Merge: 9}, nil, "merge 9"},
		{"a stride of 12", good, Options{RowStride: 12}, nil,
			"a row stride is a power of two from 8 to 65536 bytes, not 12"},
		{"times that are none", good, Options{ByTime: true}, nil,
			"edges have no column time of one number each: name it by Columns"},
		{"no reverse", write(t, "i.csv", "user,item\n0,1\n1,2\n"),
			Options{Columns: []string{"src:user", "dst:item"}, Direction: Symmetrise}, nil,
			`edges from "user" to "item" have no reverse of their own type: leave out Symmetrise`},
		{"rows of nothing", good, Options{Features: npyMatrix(t, 3, 0, nil)}, nil,
			"features have the shape (nodes, width), not [3 0]"},
		{"labels in two dimensions", good, Options{Labels: npyMatrix(t, 3, 2, make([]float32, 6))}, nil,
			"labels have the shape (nodes,), not [3 2]"},
		{"features of text", good, Options{Features: npyText(t)}, nil, `"<U4": numbers are wanted`},
		{"labels that are cut short", good, Options{Labels: cutShort(t, npyFile(t, make([]int64, 100)))}, nil,
			"elements take 800 bytes, but the file has 600: it is cut short"},
		{"a folder of what is unknown", filepath.Dir(write(t, "notes.bin", "\x00\x01")), Options{}, nil,
			"it holds nothing that is known: notes.bin"},
		{"a dataset", dataset, Options{}, nil, "it is a khop dataset already"},
		{"an empty folder", t.TempDir(), Options{}, nil, "there is no file in it"},
		{"what is no text", write(t, "x.bin", "\x00\x01\x02"), Options{}, nil, ""},
		{"what is not there", filepath.Dir(good), Options{From: "musae"}, nil,
			"not recognised; name a directory with X_edges.csv"},
	}
}

func TestWhatCannotBeConvertedIsAnErrorAndLeavesNothing(t *testing.T) {
	good := write(t, "edges.txt", "0 1\n1 2\n")
	_, old := convert(t, good, Options{})
	_, err := Run(t.Context(), good, filepath.Join(t.TempDir(), "x"),
		Options{Labels: write(t, "x.npy", string(expect.NPY([]int64{1, 0, 2}, 3, 1)))})
	expect.That(t, err == nil, "labels of one column are refused: %v", err)
	for _, c := range append(oddConversions(t, good, old.Path()), []unconverted{
		{"no such file", filepath.Join(t.TempDir(), "none"), Options{}, fs.ErrNotExist, "none"},
		{"a directory of nothing", t.TempDir(), Options{}, ErrUnknown, "From"},
		{"an empty file", write(t, "x", ""), Options{}, ErrUnknown, "empty file"},
		{"a pickle", write(t, "x", "\x80\x02}q\x00."), Options{}, ErrUnknown, "never executed"},
		{"a Parquet file", write(t, "x", "PAR1\x00\x00"), Options{}, guard.ErrFormat, "write it again"},
		{"an unknown kind", good, Options{From: "gexf"}, ErrOptions, "edgelist"},
		{"text as an archive", good, Options{From: "npz"}, nil, "edges.txt"},
		{"a file as a collection", good, Options{From: "musae"}, nil, "edges.csv"},
		{"an unknown kind of ids", good, Options{IDs: "hex"}, ErrOptions, "names"},
		{"a direction that is none", good, Options{Direction: 9}, ErrOptions, "direction 9"},
		{"columns of an archive", write(t, "x", "PK\x05\x06"+strings.Repeat("\x00", 18)),
			Options{Columns: []string{"a", "b"}}, ErrOptions, "edge lists"},
		{"an archive of nothing", write(t, "x", "PK\x05\x06"+strings.Repeat("\x00", 18)), Options{}, nil, "no arrays"},
		{"too few rows of features", good, Options{Features: npyMatrix(t, 2, 1, []float32{1, 2})}, nil,
			"id 2 is not below the 2 nodes"},
		{"tables of different length", good, Options{Features: npyMatrix(t, 3, 1, []float32{1, 2, 3}),
			Labels: npyFile(t, []int64{1, 2})}, nil, "2 rows"},
		{"fewer rows than nodes", write(t, "x.mtx", "%%MatrixMarket matrix coordinate pattern general\n4 4 1\n1 2\n"),
			Options{Features: npyMatrix(t, 3, 1, []float32{1, 2, 3})}, nil, "there are 3 rows, but 4 nodes"},
		{"a table that is not there", good,
			Options{Features: filepath.Join(filepath.Dir(npyFile(t, []int64{1})), "nodes.npy")}, fs.ErrNotExist,
			"table.npy"},
		{"labels that are not integers", good, Options{Labels: npyFile(t, []float32{1, 2.5, 3})}, nil, "row 1"},
		{"features in one dimension", good, Options{Features: npyFile(t, []float32{1, 2, 3})}, nil, "(nodes, width)"},
		{"a table that is none", good, Options{Features: good}, nil, "numpy.save"},
		{"a table that is cut short", good, Options{Features: write(t, "f.npy",
			cut(t, npyMatrix(t, 3, 2, make([]float32, 6))))}, nil, "f.npy"},
		{"rows without end", good, Options{Features: write(t, "f.npy", zipped(wideTable))}, graph.ErrSchema, "feature"},
		{"nodes without end", write(t, "edges.txt", "0 4611686018427387900\n"), Options{IDs: "numbers"}, nil, "nodes"},
	}...) {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Run(context.Background(), c.src, filepath.Join(dir, "out.khop"), c.opt)
			expect.That(t, err != nil && (c.is == nil || errors.Is(err, c.is)) && strings.Contains(err.Error(),
				c.says), "got %v, want %v saying %q", err, c.is, c.says)
			var e *formats.Error
			expect.That(t, !errors.As(err, &e) || filepath.IsAbs(e.Path) && e.Row >= -1, "%v: names file or row: %+v",
				err, e)
			left, _ := os.ReadDir(dir)
			expect.That(t, len(left) == 0, "left behind: %v", left)
		})
	}
}

// wideTable begins a table of 3 rows, each wider than any column may be.
const wideTable = "\x93NUMPY\x01\x00\x46\x00{'descr': '|i1', 'fortran_order': False, 'shape': (3, 2199023255552)}  \n"

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func cut(t *testing.T, path string) string {
	t.Helper()
	b := expect.Must(os.ReadFile(path))(t)
	return string(b[:len(b)-1])
}

func TestATargetIsReplacedOnlyByForce(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "out.khop")
	run := func(text string, force bool) error {
		_, err := Run(context.Background(), write(t, "edges.txt", text), dst, Options{Force: force})
		return err
	}
	expect.OK(t, run("0 1\n", false))
	expect.Is(t, run("0 2\n", false), formats.ErrExist, "without force")
	// A source that is bad is found out before anything is replaced.
	expect.That(t, run("0\n", true) != nil, "a bad source was converted")
	if ds, err := formats.Open(dst); err != nil || ds.Graph().NumNodes() != 2 {
		t.Fatalf("the old dataset is lost: %v", err)
	} else if err := ds.Close(); err != nil {
		t.Fatal(err)
	}
	expect.OK(t, run("0 2\n", true))
	ds := open(t, dst)
	expect.That(t, ds.Graph().NumNodes() == 3, "%d nodes after replacing", ds.Graph().NumNodes())
}

const victim = "KHOP_TEST_CONVERT_VICTIM"

// TestAKilledConversionLeavesNoDatasetOrAWholeOne kills a process that converts, at random moments: KHOP_KILLS times,
// with a seed of its own then.
func TestAKilledConversionLeavesNoDatasetOrAWholeOne(t *testing.T) {
	if src := os.Getenv(victim); src != "" { // we are that process
		expect.Must(Run(context.Background(), src, os.Getenv(victim+"_TARGET"), Options{Direction: Symmetrise}))(t)
		return
	}
	src := write(t, "edges.txt", randomText(3, 2000, 20_000))
	start := time.Now()
	runVictim(t, src, filepath.Join(t.TempDir(), "warm.khop"), time.Minute)
	whole := time.Since(start)
	seed, kills, complete := uint64(20261121), 8, 0
	if n, err := strconv.Atoi(os.Getenv("KHOP_KILLS")); err == nil {
		kills, seed = n, uint64(start.UnixNano())
	}
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 9))
	for i := range kills {
		dir := t.TempDir()
		dst := filepath.Join(dir, "out.khop")
		runVictim(t, src, dst, time.Duration(r.Int64N(int64(whole)*5/4)))
		report, err := formats.Check(context.Background(), dst, formats.CheckOptions{Workers: 1})
		switch {
		case err == nil && report.Found == 0:
			complete++
		case errors.Is(err, formats.ErrIncomplete) || errors.Is(err, fs.ErrNotExist):
			_, err := Run(context.Background(), src, dst, Options{})
			expect.That(t, err == nil, "kill %d: converting again: %v", i, err)
		default:
			t.Errorf("kill %d: %v %v", i, err, report)
		}
		left, _ := os.ReadDir(dir)
		expect.That(t, len(left) == 1, "kill %d: beside the dataset: %v", i, left)
	}
	t.Logf("%d of %d were complete; a whole run takes %v", complete, kills, whole)
}

// runVictim runs this test in another process and kills it after a while.
func runVictim(t *testing.T, src, dst string, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), victim+"="+src, victim+"_TARGET="+dst, "GORACE=atexit_sleep_ms=0")
	expect.OK(t, cmd.Start())
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	timer.Stop()
}

// TestOfSeveralSourcesNoneIsChosen has two matrices in a folder, and an archive that alone would be taken.
func TestOfSeveralSourcesNoneIsChosen(t *testing.T) {
	dir := t.TempDir()
	matrix := "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n"
	f := expect.Must(os.Create(filepath.Join(dir, "c.zip")))(t)
	z := zip.NewWriter(f)
	w, err := z.Create("c.mtx")
	if err == nil {
		_, err = io.WriteString(w, matrix)
	}
	err = errors.Join(err, z.Close(), f.Close())
	expect.OK(t, err)
	_, ds := convert(t, dir, Options{})
	expect.That(t, ds.Graph().NumEdges() == 1, "the archive has %d edges", ds.Graph().NumEdges())
	put(t, dir, map[string]string{"a.mtx": matrix, "b.mtx": matrix})
	_, err = Run(t.Context(), dir, filepath.Join(t.TempDir(), "x.khop"), Options{})
	expect.That(t,
		errors.Is(err, ErrUnknown) && strings.Contains(err.Error(), `2 sources of the kind "mtx": a.mtx, b.mtx`), "%v",
		err)
}

// TestASourceThatIsChangedWhileItIsReadIsAnError writes to it, cuts it, removes and replaces it when edges are first
// placed, and does so to a table.
func TestASourceThatIsChangedWhileItIsReadIsAnError(t *testing.T) {
	const n = 40_000
	pairs := make([]int64, 2*n)
	for i := range pairs {
		pairs[i] = int64(i % 1000)
	}
	for name, change := range map[string]func(path string) error{
		"written to": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt(make([]byte, 8), 4096)
			}
			return errors.Join(err, f.Close())
		},
		"cut":     func(path string) error { return os.Truncate(path, 4096) },
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		},
	} {
		for _, what := range []string{"pairs", "rows", "table"} {
			src := write(t, "edges.npy", string(expect.NPY(pairs, n, 2)))
			labels, victim := npyFile(t, make([]int32, 1000)), src
			switch what {
			case "rows": // which all workers read where they are mapped
				src = write(t, "edges.npy", string(expect.NPY(pairs, 2, n)))
				victim = src
			case "table":
				victim = labels
			}
			dir, done := t.TempDir(), false
			_, err := Run(context.Background(), src, filepath.Join(dir, "out.khop"), Options{Labels: labels,
				Progress: func(stage string, _, _ int64) {
					if stage == "place" && !done {
						done = true
						expect.OK(t, change(victim))
					}
				}})
			expect.That(t, errors.Is(err, source.ErrChanged) && done, "%s, %s: %v", name, what, err)
			left, _ := os.ReadDir(dir)
			expect.That(t, len(left) == 0, "%s, %s: left behind: %v", name, what, left)
		}
	}
}
