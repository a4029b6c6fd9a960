package synthetic

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

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	expect.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = b
		return err
	}))
	return all
}

func TestFilesAreTheSameWithAnyNumberOfWorkers(t *testing.T) {
	kinds := []string{SBM, Typed, RMAT, Products}
	if invariants.Enabled { // which makes each take long, and these two start all goroutines that there are
		kinds = kinds[:2]
	}
	for _, kind := range kinds {
		var first map[string][]byte
		for _, workers := range []int{1, 7} {
			dir := filepath.Join(t.TempDir(), "g.khop")
			// Enough for several chunks of edges, features and seeds.
			o := Options{Nodes: 30_000, Edges: 300_000, Features: 5, Classes: 4, Seed: 7, Workers: workers}
			res := expect.Must(Generate(context.Background(), kind, dir, o))(t)
			got := files(t, dir)
			if first == nil {
				first = got
				check(t, dir, res)
				continue
			}
			expect.That(t, len(got) == len(first), "%s: %d files with %d workers, %d with one", kind, len(got), workers,
				len(first))
			for name, want := range first {
				if !bytes.Equal(got[name], want) {
					t.Errorf("%s: %s differs between 1 worker and %d", kind, name, workers)
				}
			}
		}
	}
}

// check looks at a dataset as its users will: it passes formats.Check, and holds what Generate says.
func check(t *testing.T, dir string, res *Result) {
	t.Helper()
	report, err := formats.Check(context.Background(), dir, formats.CheckOptions{})
	expect.Ensure(t, err == nil && report.OK(), "%s: check: %v, %+v", res.Kind, err, report)
	ds := expect.Must(formats.Open(dir))(t)
	defer func() {
		expect.OK(t, ds.Close())
	}()
	g, top := ds.Graph(), int64(0)
	indptr := g.Indptr()
	for v := range g.NumNodes() {
		top = max(top, indptr[v+1]-indptr[v])
	}
	expect.That(t, g.NumNodes() == res.Options.Nodes && g.NumEdges() == res.Options.Edges && top == res.MaxInDegree,
		"%s: %d nodes, %d edges, %d in-edges at most; Generate said %+v", res.Kind, g.NumNodes(), g.NumEdges(), top,
		res)
	label, ok := g.NodeColumn(0, "label")
	feature, too := g.NodeColumn(0, "feature")
	expect.Ensure(t, ok && too && feature.Dim(1) == 5 && feature.DType() == unified.Float32,
		"%s: features %v, labels %v", res.Kind, feature, label)
	labels, _ := unified.View[int64](label)
	seen := [4]int{}
	for _, k := range labels {
		seen[k]++
	}
	n := len(labels) / 4
	expect.That(t, seen[0]-n <= 1 && seen[3] >= n, "%s: nodes by class: %v", res.Kind, seen)
	checkSplits(t, g, res.Kind)
}

// checkSplits sees that train, val and test hold every node of type 0 once, and not in the order of ids.
func checkSplits(t *testing.T, g *graph.Graph, kind string) {
	t.Helper()
	n := g.Schema().Nodes[0].Count
	seen, ascents, total := make([]bool, n), int64(0), int64(0)
	for _, name := range []string{"train", "val", "test"} {
		seeds := expect.Must(g.Split(name, 0))(t)
		last := int64(-1)
		for i := range seeds.Len() {
			_, id := seeds.At(i)
			if seen[id] {
				t.Fatalf("%s: node %d is in two splits", kind, id)
			}
			seen[id] = true
			if id > last {
				ascents++
			}
			last = id
		}
		total += seeds.Len()
	}
	expect.That(t, total == n && ascents >= n*45/100 && ascents <= n*55/100,
		"%s: %d of %d nodes in splits, %d of them above the one before", kind, total, n, ascents)
}

func TestColumnsAreLeftOutWhereNoneAreWanted(t *testing.T) {
	for _, kind := range []string{SBM, RMAT, Products, Typed} {
		dir := filepath.Join(t.TempDir(), "g.khop")
		res := expect.Must(Generate(context.Background(), kind, dir, Options{Nodes: 500, Edges: 900, Features: None,
			Classes: None}))(t)
		for _, n := range res.Schema.Nodes {
			expect.That(t, len(n.Columns) == 0, "%s: type %s has columns %v", kind, n.Name, n.Columns)
		}
	}
	// A graph of nothing is a dataset too.
	dir := filepath.Join(t.TempDir(), "g.khop")
	expect.Must(Generate(context.Background(), SBM, dir, Options{Nodes: None}))(t)
	if ds, err := formats.Open(dir); err != nil {
		t.Error(err)
	} else if err := ds.Close(); err != nil {
		t.Error(err)
	}
}

func TestBadOptionsSayWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		kind string
		o    Options
		want string
	}{
		{"smb", Options{}, `"smb"; there are: sbm, rmat, products, typed`},
		{SBM, Options{Nodes: -2}, "Nodes is -2"},
		{SBM, Options{Features: -5}, "Features is -5"},
		{SBM, Options{Classes: 1<<20 + 1}, "Classes"},
		{RMAT, Options{Edges: 1 << 60}, "Edges"},
		{RMAT, Options{Workers: -1}, "Workers is -1"},
		{RMAT, Options{Nodes: None, Edges: 7}, "7 edges without nodes"},
		{Products, Options{Nodes: 10, Classes: 11}, "11 classes of 10"},
		{Typed, Options{Nodes: 2, Edges: 7}, "3 nodes at least"},
	} {
		dir := filepath.Join(t.TempDir(), "g.khop")
		_, err := Generate(context.Background(), c.kind, dir, c.o)
		expect.That(t, errors.Is(err, ErrOptions) && strings.Contains(err.Error(), c.want),
			"%s %+v: error %v, want one that says %q", c.kind, c.o, err, c.want)
		_, err = os.Stat(dir)
		expect.That(t, err != nil, "%s %+v: something was written", c.kind, c.o)
	}
}

func TestCancellingLeavesNoDataset(t *testing.T) {
	why := errors.New("enough")
	for _, kind := range []string{SBM, Products} {
		dir := filepath.Join(t.TempDir(), "g.khop")
		ctx, cancel := context.WithCancelCause(context.Background())
		calls := 0
		o := Options{Nodes: 90_000, Edges: 200_000, Features: 64, Workers: 2, Progress: func(string, int64, int64) {
			calls++
			cancel(why)
		}}
		_, err := Generate(ctx, kind, dir, o)
		expect.That(t, errors.Is(err, why), "%s: error %v, want the cause of the cancellation", kind, err)
		expect.That(t, calls != 0, "%s: progress was never reported", kind)
		expect.Is(t, expect.Err(os.Stat(dir)), fs.ErrNotExist, "%s: the directory is left", kind)
	}
}

func TestAnExistingDatasetIsKeptUnlessForced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "g.khop")
	o := Options{Nodes: 100, Edges: 500}
	expect.Must(Generate(context.Background(), SBM, dir, o))(t)
	_, err := Generate(context.Background(), SBM, dir, o)
	expect.That(t, errors.Is(err, formats.ErrExist), "error %v, want ErrExist", err)
	o.Force = true
	_, err = Generate(context.Background(), SBM, dir, o)
	expect.That(t, err == nil, "%v", err)
}

// TestLimitsOfOptionsAreKeptToTheOne, and are in the error.
func TestLimitsOfOptionsAreKeptToTheOne(t *testing.T) {
	for _, c := range []struct {
		name string
		most int64
		set  func(n int64) Options
	}{
		{"Nodes", 1 << 50, func(n int64) Options { return Options{Nodes: n, Edges: 1} }},
		{"Edges", 1 << 50, func(n int64) Options { return Options{Edges: n} }},
		{"Features", 1 << 20, func(n int64) Options { return Options{Features: int(n)} }},
		{"Classes", 1 << 20, func(n int64) Options { return Options{Nodes: 1 << 21, Classes: int(n)} }},
		{"Workers", 1<<15 - 1, func(n int64) Options { return Options{Workers: int(n)} }},
	} {
		for n, good := range map[int64]bool{c.most: true, c.most + 1: false, -2: false, -1: c.name != "Workers"} {
			least := -1
			if c.name == "Workers" {
				least = 0
			}
			want := fmt.Sprintf("%v: %s is %d: must be %d to %d", ErrOptions, c.name, n, least, c.most)
			_, err := c.set(n).resolve(SBM)
			if c.name == "Nodes" && n == -1 { // an edge without nodes
				good = false
			} else if !good && (err == nil || err.Error() != want) {
				t.Errorf("%d %s: %v, want %s", n, c.name, err, want)
			}
			expect.That(t, (err == nil) == good && (err == nil || errors.Is(err, ErrOptions)), "%d %s: %v", n, c.name,
				err)
		}
	}
}
