// Command order says, by a model, what the numbers of a graph's nodes cost: how many lines and pages batches touch, and
// how many of them miss caches. It needs no quiet machine and no counters, so orders of one graph can be compared on
// any: convert it with each --reorder, and name the datasets.
//
//	go run ./order DATASET...
//
// Batches are those of 15,10,5 neighbours of 1,024 nodes, every node expanded at each hop; rows are of --row bytes,
// whether the graph has features or not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/renumber"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

var (
	rowBytes = flag.Int64("row", 400, "bytes of a row")
	batches  = flag.Int("batches", 6, "batches of each dataset")
	large    = flag.Int64("cache", 32<<20, "bytes of the cache of rows and sources")
	small    = flag.Int64("table", 1<<19, "bytes of the cache of local ids")
)

func main() {
	flag.Parse()
	fmt.Println("| dataset | edges | nodes | sources missed | local ids missed | lines of rows missed | " +
		"pages of rows | useful |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|---:|")
	for _, path := range flag.Args() {
		if err := measure(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func measure(path string) (err error) {
	ds, err := formats.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ds.Close()) }()
	l, err := loader.New(ds, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{15, 10, 5},
		Frontier: sampling.AllNodes}, BatchSize: 1024, Workers: 1, Seeds: loader.AllNodes(), Shuffle: true,
		Columns: loader.ColumnOptions{Nodes: []string{}, Seeds: []string{}, EdgePos: true}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var list []*renumber.Batch
	for b, err := range l.Epoch(context.Background(), 0) {
		if err != nil {
			return err
		}
		of := renumber.NewBatch(b.Sample.Nodes[0])
		for _, blocks := range slices.Backward(b.Sample.Blocks) {
			of.Add(blocks[0].Indptr, blocks[0].Indices, blocks[0].EdgePos)
		}
		if list = append(list, of); len(list) == *batches {
			break
		}
	}
	m := renumber.Model{RowBytes: *rowBytes, Cache: *large, Table: *small}
	c := m.Count(list, ds.Graph().Indptr(), nil)
	const page = 4096
	fmt.Printf("| %s | %d | %d | %d | %d | %d | %d | %.0f %% |\n", path, c.Edges, c.Nodes, c.Sources, c.Locals, c.Rows,
		c.Pages, 100*float64(c.Nodes**rowBytes)/float64(max(c.Pages, 1)*page))
	return nil
}
