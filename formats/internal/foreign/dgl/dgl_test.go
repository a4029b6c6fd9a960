package dgl

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestACSVDatasetIsWhatDGLReads: testdata/make.py wrote it and what DGL reads of it.
func TestACSVDatasetIsWhatDGLReads(t *testing.T) {
	want := expect.Must(os.ReadFile(filepath.Join("testdata", "csv.txt")))(t)
	tree := expect.Must(source.OpenTree(filepath.Join("testdata", "csv"), nil))(t)
	found := Reader.Find(tree)
	expect.Ensure(t, len(found) == 1, "found %v", found)
	g := expect.Must(Reader.Read(context.Background(), tree.At(found[0]), &source.Request{}))(t)
	defer g.Close()
	got := sourcetest.Spell(t, g)
	expect.That(t, got == string(want), "got\n%s\nwant\n%s", got, want)
}

func TestWhatIsNotOneGraphIsRefused(t *testing.T) {
	const edges = "edge_data: [{file_name: e.csv}]\nnode_data: [{file_name: n.csv}]\n"
	for _, c := range []struct{ meta, nodes, says string }{
		{edges + "graph_data: {file_name: g.csv}\n", "node_id\n0\n", `of many graphs, by "g.csv"`},
		{edges, "graph_id,node_id\n0,0\n1,0\n", `row 3: the id "0" is there twice`},
		{edges + "version: 2.0.0\n", "node_id\n0\n", `version "2.0.0" is not supported`},
		{edges, "id\n0\n", `there is no column "node_id"`},
		{"edge_data: [{file_name: e.csv, etype: [a, b]}]\n", "", `["a" "b"] is not source, relation and target`},
	} {
		at := sourcetest.Folder(t, "x", map[string]string{"meta.yaml": c.meta, "n.csv": c.nodes,
			"e.csv": "src_id,dst_id\n0,0\n"})
		sourcetest.Refuses(t, Reader, at.In("meta.yaml"), strings.TrimSpace(c.meta), c.says)
	}
}

func FuzzRead(f *testing.F) {
	b := expect.Must(os.ReadFile(filepath.Join("testdata", "csv", "meta.yaml")))(f)
	f.Add(string(b), "node_id,label\n0,1\n", "src_id,dst_id\n0,0\n")
	f.Fuzz(func(t *testing.T, meta, nodes, edges string) {
		at := sourcetest.Folder(t, "x", map[string]string{"meta.yaml": meta, "users.csv": nodes, "items.csv": nodes,
			"bought.csv": edges, "follows.csv": edges})
		if g, err := Reader.Read(context.Background(), at.In("meta.yaml"), &source.Request{}); err == nil {
			_ = g.Close()
		}
	})
}

// TestSavedGraphsAreWhatDGLReads: testdata/make_bin.py wrote the graphs and what DGL reads of them.
func TestSavedGraphsAreWhatDGLReads(t *testing.T) {
	for _, name := range []string{"coo", "csr", "csc", "typed"} {
		tree := expect.Must(source.OpenTree(filepath.Join("testdata", name+".bin"), nil))(t)
		found := BinReader.Find(tree)
		expect.Ensure(t, len(found) == 1, "%s: found %v", name, found)
		ledger := sourcetest.Limited(1 << 20)
		g, err := BinReader.Read(context.Background(), tree.At(found[0]), &source.Request{
			Budget: &source.Budget{Memory: ledger, Dir: t.TempDir()}})
		if err != nil {
			t.Fatal(name, err)
		}
		want := expect.Must(os.ReadFile(filepath.Join("testdata", name+".txt")))(t)
		got := sourcetest.Spell(t, g)
		expect.That(t, got == string(want), "%s:\n%s\nwant\n%s", name, got, want)
		expect.That(t, strings.Contains(source.Text(g.Notes), "of the whole graph: of_all"), "%s: notes %q",
			name, g.Notes)
		expect.OK(t, g.Close())
	}
}

func readFixture(t testing.TB, name string) []byte {
	t.Helper()
	return expect.Must(os.ReadFile(filepath.Join("testdata", name)))(t)
}

func TestSavedGraphsOfOtherKindsAreRefused(t *testing.T) {
	for _, c := range []struct {
		at   int
		v    uint64
		says string
	}{
		{8, 1, "version 1 of the format is not supported"},
		{24, 3, "it holds 3 graphs: one is wanted"},
		{4096, 5, "the graph is said to begin at 5"},
		{4104, 1 << 60, "things are said to follow"},
	} {
		b := readFixture(t, "coo.bin")
		binary.LittleEndian.PutUint64(b[c.at:], c.v)
		sourcetest.Refuses(t, BinReader, sourcetest.File(t, "x.bin", string(b)), c.says, c.says)
	}
	b := readFixture(t, "csr.bin")
	sourcetest.Refuses(t, BinReader, sourcetest.File(t, "x.bin", string(b[:len(b)-200])), "half", "it is cut short")
}

func TestDamagedSavedGraphsAreErrors(t *testing.T) {
	dir, rnd := t.TempDir(), rand.New(rand.NewPCG(5, 1))
	for _, name := range []string{"csr.bin", "typed.bin"} {
		whole := readFixture(t, name)
		for range 100 {
			b := bytes.Clone(whole)
			for range 1 + rnd.IntN(3) {
				b[headBytes+rnd.IntN(len(b)-headBytes)] = byte(rnd.Uint32())
			}
			sourcetest.Survives(t, BinReader, dir, "x.bin", b)
		}
	}
}

func FuzzSavedGraphs(f *testing.F) {
	for _, name := range []string{"coo.bin", "csr.bin", "csc.bin", "typed.bin"} {
		f.Add(readFixture(f, name)[headBytes:])
	}
	head := readFixture(f, "coo.bin")[:headBytes]
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		sourcetest.Survives(t, BinReader, dir, "x.bin", append(bytes.Clone(head), b...))
	})
}

// TestWhatComesOfAnyDatasetOfDGL: see sourcetest.Outcomes.
func TestWhatComesOfAnyDatasetOfDGL(t *testing.T) {
	cases := []sourcetest.Case{{Name: "csv", Reader: Reader, At: "meta.yaml", Lines: true,
		Files: sourcetest.Within(t, "testdata/csv")}}
	for _, name := range []string{"coo", "csr", "csc", "typed"} {
		b := expect.Must(os.ReadFile("testdata/" + name + ".bin"))(t)
		// The head is damaged apart from the rest: most of it is room that is not used.
		files := map[string]string{"head": string(b[:64]),
			"room": string(b[64:headBytes]), "rest": string(b[headBytes:])}
		cases = append(cases, sourcetest.Case{Name: name, Reader: BinReader, At: "g.bin", Files: files,
			Keep: []string{"room"}, Pack: func(files map[string]string) map[string]string {
				return map[string]string{"g.bin": files["head"] + files["room"] + files["rest"]}
			}})
	}
	sourcetest.Outcomes(t, cases...)
}

var _ source.Reader = Reader
