package relbench

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
)

// notesOf reads the small database with other files, and spells its notes: "CHANGE COUNT NAME: TEXT".
func notesOf(t *testing.T, others map[string]string, r *source.Request) string {
	t.Helper()
	dir, files := t.TempDir(), maps.Clone(small)
	maps.Copy(files, others)
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
	}
	tree := expect.Must(source.OpenTree(dir, nil))(t)
	r.Budget = &source.Budget{Dir: dir}
	g := expect.Must(Reader.Read(context.Background(), tree.At("manifest.yaml"), r))(t)
	var b strings.Builder
	for _, n := range g.Notes {
		fmt.Fprintf(&b, "%s %d %s: %s\n", n.Change, n.Count, n.Name, n.Text)
	}
	expect.OK(t, g.Close(), tree.Close())
	return b.String()
}

// TestTimesBeyond2200AreDoubted has milliseconds in a CSV, which are taken for seconds.
func TestTimesBeyond2200AreDoubted(t *testing.T) {
	orders := map[string]string{"db/orders.csv": "user,item,at\nann,7,1704103200000\nbob,5,1704103200\n"}
	const doubt = `guessed 1 at: db/orders.csv: "at": 1 time is after the year 2200, if they are seconds; TimesIn`
	said := notesOf(t, orders, &source.Request{UpTo: "all"})
	expect.That(t, strings.Contains(said, doubt), "%s", said)
	said = notesOf(t, orders, &source.Request{UpTo: "all", TimesIn: "ms"})
	expect.That(t, !strings.Contains(said, "after the year 2200"), "%s", said)
}

// TestCellsThatKeepADatabasesColumnFromBeingNumbersAreNamed has NULL among numbers.
func TestCellsThatKeepADatabasesColumnFromBeingNumbersAreNamed(t *testing.T) {
	users := map[string]string{"db/users.csv": "user,boss,age\nann,bob,41\nbob,ann,NULL\n"}
	said := notesOf(t, users, &source.Request{})
	expect.That(t, strings.Contains(said, `guessed 1 age: db/users.csv: "age" is text: 1 of 2 cells are unlike `+
		`the others, such as "NULL" in line 3; Null NULL takes it`), "%s", said)
	said = notesOf(t, users, &source.Request{Null: []string{"NULL"}})
	expect.That(t, !strings.Contains(said, `"age" is text`), "%s", said)
}
