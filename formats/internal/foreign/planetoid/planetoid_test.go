package planetoid

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/foreign/pickle"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// files returns the files of testdata, which scipy and pickle wrote.
func files(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, part := range append([]string{"graph"}, parts...) {
		b := expect.Must(os.ReadFile(filepath.Join("testdata", "ind.tiny."+part)))(t)
		all["ind.tiny."+part] = string(b)
	}
	return all
}

func TestHolesDuplicatesAndLoopsComeOutRight(t *testing.T) {
	at := sourcetest.Folder(t, "x", files(t))
	found := Reader.Find(at.Tree)
	expect.Ensure(t, len(found) == 1 && found[0] == "ind.tiny.graph", "found %v", found)
	ledger := sourcetest.Limited(1 << 20)
	g := expect.Must(Reader.Read(context.Background(), at.In("ind.tiny.graph"), &source.Request{
		Budget: &source.Budget{Memory: ledger, Dir: t.TempDir()}}))(t)
	const want = "7 node, 2 classes\n" +
		"  feature float32[3]: [0,1,0,2,0,0,0,0,0,1,1,1,6,0,0,0,0,0,0,0,5]\n" +
		"  label int64[]: [0,1,1,0,0,-1,1]\n" +
		"node:edge:node 0>1 0>3 1>0 3>0 3>6 4>6 6>3 6>4\n" +
		"train 0 of node: [0 1]\nval 0 of node: [2 3]\ntest 0 of node: [4 6]\n"
	got := sourcetest.Spell(t, g)
	expect.That(t, got == want, "got\n%s\nwant\n%s", got, want)
	notes := source.Text(g.Notes)
	expect.That(t, strings.Contains(notes, "1 node has no features") && strings.Contains(notes,
		"2 are there twice and 1 are the node itself"), "notes: %s", notes)
	expect.OK(t, g.Close())
	n := ledger.Used(pinned.Sources)
	expect.That(t, n <= 100, "%d bytes are still counted", n)
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	for _, c := range []struct{ part, from, to, says string }{
		{"test.index", "4", "3", "line 2: node 3 is there twice"}, {"test.index", "4", "-4", `row 2: "-4" is not`},
		{"test.index", "4", "99999999999", "it names node 99999999999"},
		{"test.index", "4\n", "", ".tx: it is 2 x 3: there are 1"},
		{"graph", "ccollections\ndefaultdict\n", "cos\nsystem\n", "ind.tiny.graph: "},
		{"allx", "cscipy.sparse", "cscipy.spares", "ind.tiny.allx: "},
	} {
		all := files(t)
		name := "ind.tiny." + c.part
		if !strings.Contains(all[name], c.from) {
			t.Fatalf("%s has no %q", name, c.from)
		}
		all[name] = strings.Replace(all[name], c.from, c.to, 1)
		_, err := Reader.Read(context.Background(), sourcetest.Folder(t, "x", all).In("ind.tiny.graph"),
			&source.Request{})
		expect.That(t, err != nil && strings.Contains(err.Error(), strings.Replace(c.says, "line 2", "row 2", 1)),
			"%s: %v; want %q", c.part, err, c.says)
		expect.That(t, !strings.HasPrefix(c.from, "c") || errors.Is(err, pickle.ErrForbidden), "%s: %v", c.part, err)
	}
}

func FuzzRead(f *testing.F) {
	all := files(f)
	for part, text := range all {
		f.Add(part, []byte(text))
	}
	f.Fuzz(func(t *testing.T, part string, b []byte) {
		all := files(t)
		if _, ok := all[part]; !ok {
			return
		}
		all[part] = string(b)
		sourcetest.SurvivesAt(t, Reader, t.TempDir(), part, sourcetest.Folder(t, "x", all).In("ind.tiny.graph"))
	})
}

// TestWhatComesOfAnyFilesOfPlanetoid: see sourcetest.Outcomes.
func TestWhatComesOfAnyFilesOfPlanetoid(t *testing.T) {
	sourcetest.Outcomes(t, sourcetest.Case{Name: "tiny", Reader: Reader, At: "ind.tiny.graph", Files: files(t)})
}

var _ source.Reader = Reader
