package graphbolt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/foreign/pickle"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// folder copies testdata, which GraphBolt wrote, without some files.
func folder(t testing.TB, without ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "typed")
	expect.OK(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "typed"))))
	for _, name := range without {
		expect.OK(t, os.Remove(filepath.Join(dir, filepath.FromSlash(name))))
	}
	return dir
}

func read(dir string) (*source.Graph, error) {
	tree, err := source.OpenTree(dir, nil)
	if err != nil {
		return nil, err
	}
	ledger := sourcetest.Limited(16 << 20)
	return Reader.Read(context.Background(), tree.At("."), &source.Request{Budget: &source.Budget{Memory: ledger,
		Dir: filepath.Dir(dir)}})
}

// TestDatasetsAreWhatGraphBoltReads: testdata/make.py wrote the dataset and what GraphBolt loads of it.
func TestDatasetsAreWhatGraphBoltReads(t *testing.T) {
	want := expect.Must(os.ReadFile(filepath.Join("testdata", "typed.txt")))(t)
	const listed = "edge share float32[]\nauthor:writes:paper 0>3:0.5 1>0:1 2>1:0.25 2>4:2\n" +
		"paper:cites:paper 0>1:NaN 1>2:NaN 4>0:NaN 3>3:NaN 1>0:NaN\n"
	before, rest, _ := strings.Cut(string(want), "author:writes")
	_, after, _ := strings.Cut(rest, "paper:cites:paper ")
	_, after, _ = strings.Cut(after, "\n")
	for _, c := range []struct{ without, want string }{
		{"", before + listed + after}, // the graph as it was given, in its order
		{"data/cites.csv", string(want)},
		{"metadata.yaml", string(want)},
	} {
		var without []string
		if c.without != "" {
			without = []string{c.without}
		}
		dir := folder(t, without...)
		tree := expect.Must(source.OpenTree(dir, nil))(t)
		found := Reader.Find(tree)
		expect.That(t, len(found) == 1 && found[0] == ".", "without %q: found %v", c.without, found)
		g := expect.Must(read(dir))(t)
		got := sourcetest.Spell(t, g)
		expect.That(t, got == c.want, "without %q:\n%s\nwant\n%s", c.without, got, c.want)
		expect.That(t, c.without == "" || strings.Contains(source.Text(g.Notes), `"share" of edges is not stored`),
			"without %q: notes %q", c.without, g.Notes)
		expect.OK(t, g.Close())
	}
}

func TestPairsAndNegativesAreLinks(t *testing.T) {
	dir := folder(t)
	const task = `
tasks:
- name: links
  train_set:
  - type: author:writes:paper
    data:
    - {name: node_pairs, format: numpy, path: data/pairs.npy}
    - {name: negative_dsts, format: numpy, path: data/negative.npy}
`
	text, err := os.ReadFile(filepath.Join(dir, "metadata.yaml"))
	before, _, _ := strings.Cut(string(text), "tasks:")
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "metadata.yaml"), []byte(before+task[1:]), 0o600),
		os.WriteFile(filepath.Join(dir, "data", "pairs.npy"), expect.NPY([]int64{0, 1, 2, 4}, 2, 2), 0o600),
		os.WriteFile(filepath.Join(dir, "data", "negative.npy"), expect.NPY([]int64{3, 2, 1, 0}, 2, 2), 0o600))
	expect.OK(t, err)
	g := expect.Must(read(dir))(t)
	defer g.Close()
	const want = "train 0 links: [0 0 0 2 2 2] > [1 3 2 4 1 0], types [0 0 0 0 0 0], labels [1 0 0 1 0 0]"
	got := sourcetest.Spell(t, g)
	expect.That(t, strings.Contains(got, want), "%q is not in\n%s", want, got)
}

// TestEveryTaskIsRead: the second task has labels that agree with those of the first, the third has others.
func TestEveryTaskIsRead(t *testing.T) {
	dir := folder(t)
	set := func(nodes, labels string) string {
		return "  train_set:\n  - type: paper\n    data:\n    - {name: seeds, format: numpy, path: data/" + nodes +
			".npy}\n    - {name: labels, format: numpy, path: data/" + labels + ".npy}\n"
	}
	text, err := os.ReadFile(filepath.Join(dir, "metadata.yaml"))
	before, _, _ := strings.Cut(string(text), "tasks:")
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "metadata.yaml"), []byte(before+"tasks:\n- name: a\n"+
		set("n0", "l0")+"- name: b\n"+set("n1", "l1")+"- name: c\n"+set("n0", "l1")), 0o600))
	for name, v := range map[string][]int64{"n0": {0, 2}, "l0": {7, 8}, "n1": {2, 3}, "l1": {8, 9}} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "data", name+".npy"), expect.NPY(v), 0o600))
	}
	expect.OK(t, err)
	g := expect.Must(read(dir))(t)
	defer g.Close()
	got := sourcetest.Spell(t, g)
	for _, want := range []string{"train 0 of paper: [0 2]", "train 1 of paper: [2 3]", "train 2 of paper: [0 2]",
		"label int64[]: [7,-1,8,9,-1]", "label_2 int64[]: [8,-1,9,-1,-1]"} {
		expect.That(t, strings.Contains(got, want), "%q is not in\n%s", want, got)
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	for _, c := range []struct{ file, from, to, says string }{
		{"metadata.yaml", "data/cites.csv", "../../secret.csv", "leads out of the folder"},
		{"metadata.yaml", "type: paper:cites:paper", "type: cites", `"cites" is not source:relation:target`},
		{"metadata.yaml", "format: csv", "format: feather", "feather"},
		{"metadata.yaml", "type: author\n", "type: \"\\ud800\"\n", "metadata.yaml"},
		{"metadata.yaml", "num: 5", "num: 3", "feat.npy"},
		{"data/cites.csv", "4,0", "4,x", "cites.csv: row 3"},
	} {
		dir := folder(t)
		path := filepath.Join(dir, filepath.FromSlash(c.file))
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), c.from) {
			t.Fatal(c.file, c.from, err)
		}
		expect.OK(t, os.WriteFile(path, []byte(strings.Replace(string(text), c.from, c.to, 1)), 0o600))
		if g, err := read(dir); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %s: %v, %v; want %q", c.from, c.to, g, err, c.says)
		}
	}
}

const fusedGraph = "preprocessed/fused_csc_sampling_graph.pt"

// look reads a dataset with this sampling graph: it may be an error of the file, and nothing else.
func look(t testing.TB, dir string, b []byte) error {
	t.Helper()
	expect.OK(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(fusedGraph)), b, 0o600))
	g, err := read(dir)
	if err == nil {
		err = g.Edges.Each(func(source.Batch) error { return nil })
		for _, n := range g.Nodes {
			for _, c := range n.Columns {
				err = errors.Join(err, c.Write(context.Background(), io.Discard))
			}
		}
		err = errors.Join(err, g.Close())
	}
	return err
}

func TestDamagedGraphsAreErrors(t *testing.T) {
	dir, rnd := folder(t, "metadata.yaml"), rand.New(rand.NewPCG(8, 8))
	whole := expect.Must(os.ReadFile(filepath.Join("testdata", "typed", filepath.FromSlash(fusedGraph))))(t)
	for range 150 {
		b := bytes.Clone(whole)
		for range 1 + rnd.IntN(3) {
			b[rnd.IntN(len(b))] = byte(rnd.Uint32())
		}
		var within *formats.Error
		err := look(t, dir, b)
		expect.Ensure(t, err == nil || errors.As(err, &within), "%v", err)
	}
	evil := bytes.Replace(whole, []byte("ctorch\nScriptObject\n"), []byte("cbuiltins\nexecutors\n"), 1)
	expect.Is(t, look(t, dir, evil), pickle.ErrForbidden, "a graph that runs code")
}

func FuzzRead(f *testing.F) {
	b := expect.Must(os.ReadFile(filepath.Join("testdata", "typed", "metadata.yaml")))(f)
	f.Add(b)
	dir := folder(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		expect.OK(t, os.WriteFile(filepath.Join(dir, "metadata.yaml"), b, 0o600))
		if g, err := read(dir); err == nil {
			_ = g.Close()
		}
	})
}
