package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/stores"
)

// lie is how a store answers some requests of a command.
type lie struct {
	fault  stores.Fault
	method string // of the requests that are answered so
	in     string // their address has it
	args   []string
	says   string // "": the command goes on, and ends well
}

// lies returns lies to commands about a list of edges, and about a dataset at an address.
func lies(edges, there string) []lie {
	const lists, reads, new, list = "list-type=2", "arrow", "s3://bucket/new", "s3://bucket/a"
	return []lie{
		{stores.Drops, "PUT", ".arrow", []string{"convert", edges, new}, "it has lost an object"},
		{stores.Halves, "PUT", ".arrow", []string{"convert", edges, new}, "it keeps "},
		{stores.Alters, "PUT", ".arrow", []string{"convert", edges, new}, "it keeps other bytes"},
		{stores.Drops, "PUT", "dataset.json", []string{"convert", edges, new}, "it has lost an object"},
		{stores.Wrong, "GET", reads, []string{"stage", there}, "do not fit the checksum"},
		{stores.Cut, "GET", reads, []string{"stage", there}, ""},
		{stores.Stalls, "GET", reads, []string{"stage", there}, ""},
		{stores.Loops, "GET", lists, []string{"convert", list, "OUT"}, "list"},
		{stores.Halts, "GET", lists, []string{"convert", list, "OUT"}, "no byte has come"},
		{stores.Breaks, "GET", lists, []string{"convert", list, "OUT"}, "list"},
		{stores.Boasts, "GET", lists, []string{"convert", list, "OUT"}, "free: make room there"},
		{stores.Moves, "GET", "", []string{"stage", there}, "404"},
	}
}

// A store that lies is refused by name, or outlived where it goes on at last; nothing of the dataset is left in it, and
// no other host sees who asks.
func TestAStoreThatLiesIsRefusedByName(t *testing.T) {
	s := stores.New(t)
	var mu sync.Mutex
	var seen []http.Header
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header)
		mu.Unlock()
		w.WriteHeader(http.StatusNotFound)
	}))
	defer other.Close()
	s.To = other.URL
	t.Setenv("AWS_SESSION_TOKEN", stores.Secret)
	edges := textFile(t, "edges.txt", "0 1\n2 1\n")
	local := filepath.Join(t.TempDir(), "g.khop")
	must(t, "convert", edges, local)
	s.Put("bucket/a/edges.csv", []byte("0,1\n2,1\n"))
	there := s.PutFolder(t, "bucket", "there", local)
	for _, lie := range lies(edges, there) {
		t.Setenv("KHOP_CACHE_DIR", t.TempDir())
		out := filepath.Join(t.TempDir(), "out.khop")
		for i, a := range lie.args {
			if a == "OUT" {
				lie.args[i] = out
			}
		}
		s.Fail(func(_ int, r *http.Request) stores.Fault {
			if r.Method == lie.method && strings.Contains(r.URL.RequestURI(), lie.in) {
				return lie.fault
			}
			return stores.None
		})
		if lie.says == "" {
			must(t, lie.args...)
			continue
		}
		fails(t, exitFailed, lie.says, lie.args...)
		for _, name := range s.Names() {
			expect.That(t, name != "bucket/new/dataset.json", "%q: a dataset is left", lie.args)
			if strings.HasPrefix(name, "bucket/new/") {
				s.Drop(name)
			}
		}
	}
	expect.That(t, len(seen) > 0, "no request came to the other host")
	for _, h := range seen {
		for name, values := range h {
			expect.That(t, !strings.Contains(strings.Join(values, " "), stores.Secret) && name != "Authorization",
				"the other host sees %s: %q", name, values)
		}
	}
}
