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
	"github.com/khop-gnn/khop/pinned"
)

// TestSavedGraphsAreWhatDGLReads: testdata/make_bin.py wrote the graphs and what DGL reads of them.
func TestSavedGraphsAreWhatDGLReads(t *testing.T) {
	for _, name := range []string{"coo", "csr", "csc", "typed"} {
		tree := expect.Must(source.OpenTree(filepath.Join("testdata", name+".bin"), nil))(t)
		found := BinReader.Find(tree)
		expect.Ensure(t, len(found) == 1, "%s: found %v", name, found)
		ledger := &pinned.Ledger{}
		ledger.SetLimit(1 << 20)
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
