package torch

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/foreign/pickle"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestGraphsAreWhatPyTorchGeometricReads: testdata/make.py wrote the graphs and what the library reads of them.
func TestGraphsAreWhatPyTorchGeometricReads(t *testing.T) {
	list, err := filepath.Glob("testdata/*.pt")
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	for _, name := range list {
		tree := expect.Must(source.OpenTree(name, nil))(t)
		found := Reader.Find(tree)
		expect.That(t, len(found) == 1, "%s: found %v", name, found)
		want := expect.Must(os.ReadFile(strings.TrimSuffix(name, ".pt") + ".txt"))(t)
		ledger := sourcetest.Limited(1 << 20)
		g, err := Reader.Read(context.Background(), tree.At(filepath.Base(name)), &source.Request{
			Budget: &source.Budget{Memory: ledger, Dir: t.TempDir()}})
		if err != nil {
			t.Fatal(name, err)
		}
		got := sourcetest.Spell(t, g)
		expect.That(t, got == string(want), "%s:\n%s\nwant\n%s", name, got, want)
		expect.That(t, !strings.Contains(name, "data.pt") || strings.Contains(source.Text(g.Notes), "num_things"),
			"%s: notes %q", name, g.Notes)
		expect.OK(t, g.Close())
	}
}

// TestAFileThatWouldRunCodeIsRefused: Python would run it.
func TestAFileThatWouldRunCodeIsRefused(t *testing.T) {
	for _, name := range []string{"data.pt", "old.pt", "hetero.pt"} {
		b := expect.Must(os.ReadFile(filepath.Join("testdata", name)))(t)
		from, to := []byte("ctorch._utils\n_rebuild_tensor_v2\n"), []byte("cposix\nsystem")
		if !bytes.Contains(b, from) {
			t.Fatal(name, "has no tensor")
		}
		to = append(to, bytes.Repeat([]byte{'x'}, len(from)-len(to)-1)...)
		at := sourcetest.File(t, name, string(bytes.Replace(b, from, append(to, '\n'), 1)))
		g, err := Reader.Read(context.Background(), at, &source.Request{})
		expect.That(t, errors.Is(err, pickle.ErrForbidden) && strings.Contains(err.Error(), name), "%s: %v, %v", name,
			g, err)
	}
}

func TestDamagedFilesAreErrors(t *testing.T) {
	dir, rnd := t.TempDir(), rand.New(rand.NewPCG(3, 1))
	for _, name := range []string{"data.pt", "old.pt", "hetero.pt", "processed.pt"} {
		whole := expect.Must(os.ReadFile(filepath.Join("testdata", name)))(t)
		for range 60 {
			b := bytes.Clone(whole)
			if rnd.IntN(4) == 0 {
				b = b[:rnd.IntN(len(b))]
			}
			for range rnd.IntN(4) {
				b[rnd.IntN(max(len(b), 1))] = byte(rnd.Uint32())
			}
			sourcetest.Survives(t, Reader, dir, name, b)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"data.pt", "old.pt", "hetero.pt"} {
		b := expect.Must(os.ReadFile(filepath.Join("testdata", name)))(f)
		f.Add(b)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) { sourcetest.Survives(t, Reader, dir, "x.pt", b) })
}

// An invalid number of nodes is noted, and not used.
func TestANegativeNumberOfNodesIsNoted(t *testing.T) {
	files := sourcetest.Members(t, "testdata/hetero.pt")
	const member, five, fewer = "hetero/data.pkl", "num_nodesq9K\x05", "num_nodesq9J\xfb\xff\xff\xff"
	expect.Ensure(t, strings.Contains(files[member], five), "no num_nodes in %q", files[member])
	files[member] = strings.Replace(files[member], five, fewer, 1)
	packed := sourcetest.Zipped(t, "g.pt")(files)
	g := expect.Must(Reader.Read(context.Background(), sourcetest.File(t, "g.pt", packed["g.pt"]), &source.Request{
		Budget: &source.Budget{Dir: t.TempDir()}}))(t)
	notes := source.Text(g.Notes)
	expect.That(t, strings.Contains(notes, "num_nodes is -5, which is no number of nodes"), "notes: %s", notes)
	expect.OK(t, g.Close())
}

// TestWhatComesOfAnyGraphOfPyTorchGeometric: see sourcetest.Outcomes.
func TestWhatComesOfAnyGraphOfPyTorchGeometric(t *testing.T) {
	var cases []sourcetest.Case
	for _, name := range []string{"collated", "data", "hetero", "hetero-processed", "processed"} {
		c := sourcetest.Case{Name: name, Reader: Reader, At: "g.pt", Pack: sourcetest.Zipped(t, "g.pt"),
			Files: sourcetest.Members(t, "testdata/"+name+".pt")}
		for member := range c.Files {
			if last := member[len(member)-8:]; last != "data.pkl" && last != "yteorder" &&
				member[len(member)-1] != '0' {
				c.Keep = append(c.Keep, member)
			}
		}
		cases = append(cases, c)
	}
	old := expect.Must(os.ReadFile("testdata/old.pt"))(t)
	big := bytes.Replace(old, []byte("little_endianq\x02\x88"), []byte("little_endianq\x02\x89"), 1)
	expect.Ensure(t, !bytes.Equal(big, old), "the file does not say that it is little-endian")
	cases = append(cases, sourcetest.Case{Name: "old and big-endian", Reader: Reader, At: "old.pt",
		Files: map[string]string{"old.pt": string(big)}}.Whole())
	sourcetest.Outcomes(t, append(cases, sourcetest.Case{Name: "old", Reader: Reader, At: "old.pt",
		Files: map[string]string{"old.pt": string(old)}})...)
}

var _ source.Reader = Reader
