// Package sourcetest helps the tests of readers of foreign formats.
package sourcetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// Folder writes files, named by paths within a folder of that name, and returns the folder's place.
func Folder[B ~string | ~[]byte](t testing.TB, name string, files map[string]B) source.Place {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	tree, err := source.OpenTree(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tree.At(".")
}

// File writes a file of that name and returns its place.
func File(t testing.TB, name, text string) source.Place {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return source.Local(path)
}

// Reads fails the test unless a reader makes of a source what want says: the lines of Spell in one, with "; " between
// them, and "undirected" behind. Each of notes must stand in what is noted.
func Reads(t testing.TB, r source.Reader, at source.Place, req source.Request, want string, notes ...string) {
	t.Helper()
	g := expect.Must(r.Read(context.Background(), at, &req))(t)
	got := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(Spell(t, g)), "\n  ", "\n"), "\n", "; ")
	if g.Edges.Undirected {
		got += "; undirected"
	}
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	all := source.Text(g.Notes)
	for _, note := range notes {
		if !strings.Contains(all, note) {
			t.Errorf("notes %q do not speak of %q", g.Notes, note)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// Refuses fails the test unless the reader refuses a source with an error that says something. what names the source.
func Refuses(t testing.TB, r source.Reader, at source.Place, what, says string) {
	t.Helper()
	g, err := r.Read(context.Background(), at, &source.Request{})
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%q: %v, %v; want %q", what, g, err, says)
	}
}

// ReadsEach fails the test unless the reader reads each text, in a file of the name, as it is spelled.
func ReadsEach(t testing.TB, r source.Reader, name string, spelled map[string]string) {
	t.Helper()
	for text, want := range spelled {
		Reads(t, r, File(t, name, text), source.Request{}, want)
	}
}

// RefusesEach fails the test unless the reader refuses each text, in a file of the name, with an error that says
// something.
func RefusesEach(t testing.TB, r source.Reader, name string, says map[string]string) {
	t.Helper()
	for text, words := range says {
		Refuses(t, r, File(t, name, text), text, words)
	}
}

// Survives fails the test unless a reader can read a file of these bytes, in folder dir, in little memory, or says in
// an error that names the file what is wrong with it.
func Survives(t testing.TB, r source.Reader, dir, name string, b []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	SurvivesAt(t, r, dir, name, source.Local(path))
}

// SurvivesAt is Survives for what is at a place already, with a request if one is given. Temporary files go to dir.
func SurvivesAt(t testing.TB, r source.Reader, dir, name string, at source.Place, with ...source.Request) {
	t.Helper()
	survives(t, r, dir, name, at, false, with)
}

// SoundAt is SurvivesAt for a reader that checks what it reads: edges and seeds that it takes are of nodes.
func SoundAt(t testing.TB, r source.Reader, dir, name string, at source.Place, with ...source.Request) {
	t.Helper()
	survives(t, r, dir, name, at, true, with)
}

// FuzzText fuzzes a text of a reader that checks what it reads.
func FuzzText(f *testing.F, r source.Reader, name string, seeds ...string) {
	for _, text := range seeds {
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) { SoundAt(t, r, dir, text, File(t, name, text)) })
}

func survives(t testing.TB, r source.Reader, dir, name string, at source.Place, sound bool, with []source.Request) {
	t.Helper()
	ledger := &pinned.Ledger{}
	ledger.SetLimit(8 << 20)
	var req source.Request
	if len(with) > 0 {
		req = with[0]
	}
	req.Budget = &source.Budget{Memory: ledger, Dir: dir, Disk: 64 << 20}
	g, err := r.Read(context.Background(), at, &req)
	if err == nil {
		err = errors.Join(edgesAreWhole(t, name, g, sound), columnsAreWhole(t, name, g), g.Close())
		for _, s := range g.Splits {
			for _, v := range s.IDs {
				if sound && uint64(v) >= uint64(g.Nodes[s.NodeType].Count) {
					t.Fatalf("%s: seed %d of %d nodes", name, v, g.Nodes[s.NodeType].Count)
				}
			}
		}
	}
	var within *formats.Error
	if err != nil && !errors.As(err, &within) {
		t.Fatalf("%s: %v", name, err)
	}
}

// edgesAreWhole goes over all edges, which must have the stated number, and their columns. If sound, they are between
// nodes.
func edgesAreWhole(t testing.TB, name string, g *source.Graph, sound bool) error {
	t.Helper()
	n := int64(0)
	err := g.Edges.Each(func(b source.Batch) error {
		for i := range b.Src {
			of := source.TypeAt(b.Types, i)
			sources, targets := g.Nodes[g.Types[of].Source].Count, g.Nodes[g.Types[of].Target].Count
			if sound && (uint64(b.Src[i]) >= uint64(sources) || uint64(b.Dst[i]) >= uint64(targets)) {
				t.Fatalf("%s: edge %d>%d of type %d, from %d nodes to %d", name, b.Src[i], b.Dst[i], of, sources,
					targets)
			}
		}
		for i, c := range g.Edges.Columns {
			if int64(len(b.Columns[i])) != int64(len(b.Src))*c.RowBytes() {
				t.Fatalf("%s: column %s: %d bytes for %d edges", name, c.Name, len(b.Columns[i]), len(b.Src))
			}
		}
		n += int64(len(b.Src))
		return nil
	})
	if err == nil && n != g.Edges.Count {
		t.Fatalf("%s: %d edges, not %d", name, n, g.Edges.Count)
	}
	return err
}

// columnsAreWhole writes the columns of nodes, which must be as long as they say.
func columnsAreWhole(t testing.TB, name string, g *source.Graph) (all error) {
	t.Helper()
	for _, n := range g.Nodes {
		for _, c := range n.Columns {
			if n.Count*c.RowBytes() > 64<<20 {
				continue
			}
			count := &full{room: n.Count * c.RowBytes(), err: errors.New("a column has more bytes than it says")}
			err := c.Write(context.Background(), count)
			if errors.Is(err, count.err) || err == nil && count.room != 0 {
				t.Fatalf("%s: column %s of %d nodes: %v, %d bytes are missing", name, c.Name, n.Count, err, count.room)
			}
			all = errors.Join(all, err)
		}
	}
	return all
}
