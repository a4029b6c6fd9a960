package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
)

// ask returns the answer of a server, and its status.
func ask(t *testing.T, address string) (a Answer, status int) {
	r, err := http.Get(address)
	if err != nil {
		t.Error(err)
		return a, 0
	}
	defer r.Body.Close()
	if r.StatusCode == http.StatusOK {
		err = json.NewDecoder(r.Body).Decode(&a)
	}
	if err != nil {
		t.Error(err)
	}
	return a, r.StatusCode
}

func TestManyClientsGetTheAnswerThatOneGets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.khop")
	made := synthetic.Options{Nodes: 5000, Edges: 50_000, Features: 16, Classes: 4, Seed: 1}
	if _, err := synthetic.Generate(t.Context(), synthetic.SBM, path, made); err != nil {
		t.Fatal(err)
	}
	ds, err := formats.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	l, err := open(ds)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(l, w, r) }))
	defer server.Close()
	want, _ := ask(t, server.URL+"?id=17&id=4")
	n := len(want.Nodes)
	if n < 20 || want.Nodes[0] != 17 || want.Nodes[1] != 4 || len(want.Features) != 16*n ||
		int(want.Indptr[len(want.Indptr)-1]) != len(want.Indices) {
		t.Fatalf("not an answer: %+v", want)
	}
	const clients, requests = 8, 50
	began := time.Now()
	var wait sync.WaitGroup
	for c := range clients {
		wait.Go(func() {
			for i := range requests {
				query := "id=17&id=4"
				if i%2 > 0 {
					query = fmt.Sprint("id=", c*requests+i)
				}
				if a, _ := ask(t, server.URL+"?"+query); i%2 == 0 && !reflect.DeepEqual(a, want) {
					t.Errorf("client %d: another answer to the same request", c)
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%.0f answers a second", clients*requests/time.Since(began).Seconds())
	for _, query := range []string{"id=x", "id=5000"} {
		if _, status := ask(t, server.URL+"?"+query); status != http.StatusBadRequest {
			t.Errorf("status %d for %q", status, query)
		}
	}
}
