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

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

var (
	rowBytes = flag.Int64("row", 400, "bytes of a row")
	batches  = flag.Int("batches", 6, "batches of each dataset")
	large    = flag.Int64("cache", 32<<20, "bytes of the cache of rows and sources")
	small    = flag.Int64("table", 1<<19, "bytes of the cache of local ids")
)

const (
	line = 64
	page = 4096
	ways = 16
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

// cache is a set-associative cache of lines that forgets the one used least recently.
type cache [][]int64

func newCache(bytes int64) cache { return make(cache, max(bytes/line/ways, 1)) }

// miss brings a line, and reports whether it was not there.
func (c cache) miss(at int64) bool {
	set := &c[uint64(at)*0x9E3779B97F4A7C15>>20%uint64(len(c))]
	place := 0
	for place < len(*set) && (*set)[place] != at {
		place++
	}
	there := place < len(*set)
	if !there && place < ways {
		*set = append(*set, 0)
	} else if !there {
		place--
	}
	copy((*set)[1:place+1], *set)
	(*set)[0] = at
	return !there
}

// counts are sums over batches.
type counts struct{ edges, nodes, sources, locals, rows, pages int64 }

// order is a dataset in one order.
type order struct {
	counts
	large, small cache
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
	o := &order{large: newCache(*large), small: newCache(*small)}
	done := 0
	for b, err := range l.Epoch(context.Background(), 0) {
		if err != nil {
			return err
		}
		o.add(b.Sample)
		if done++; done == *batches {
			break
		}
	}
	n := int64(max(done, 1))
	fmt.Printf("| %s | %d | %d | %d | %d | %d | %d | %.0f %% |\n", path, o.edges/n, o.nodes/n, o.sources/n, o.locals/n,
		o.rows/n, o.pages/n, 100*float64(o.nodes**rowBytes)/float64(max(o.pages, 1)*page))
	return nil
}

// add counts a batch of a graph of one type, in the order in which it is made.
func (o *order) add(s *graph.Sample) {
	const sources, locals = 1 << 40, 1 << 41 // lines of other arrays than the rows
	nodes := s.Nodes[0]
	for layer := len(s.Blocks) - 1; layer >= 0; layer-- {
		b := &s.Blocks[layer][0]
		for i := range b.EdgePos.Len() {
			o.edges++
			if o.large.miss(sources + number(b.EdgePos, i)*4/line) {
				o.sources++
			}
			if o.small.miss(locals + number(nodes, number(b.Indices, i))*4/line) {
				o.locals++
			}
		}
	}
	pages := map[int64]bool{}
	for i := range nodes.Len() {
		first := number(nodes, i) * *rowBytes
		for at := first / line; at <= (first+*rowBytes-1)/line; at++ {
			if o.large.miss(at) {
				o.rows++
			}
			pages[at*line/page] = true
		}
	}
	o.nodes, o.pages = o.nodes+nodes.Len(), o.pages+int64(len(pages))
}

// number returns an element of a list of ids.
func number(t unified.Tensor, i int64) int64 {
	return t.DType().Integer(t.Bytes()[i*t.DType().Size():])
}
