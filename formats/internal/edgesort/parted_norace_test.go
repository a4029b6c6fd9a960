//go:build !race

package edgesort

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

func TestAPartBeyondTheMemoryIsPartedAgain(t *testing.T) {
	const n = 300_000
	var edges []edge
	r := rand.New(rand.NewPCG(3, 4))
	for range n { // nearly all edges have one destination
		e := edge{src: r.Int64N(1 << 20), dst: 5}
		if r.IntN(100) == 0 {
			e.dst = r.Int64N(1 << 20)
		}
		edges = append(edges, e)
	}
	ledger := sourcetest.Limited(3 << 18)
	opt := Options{Nodes: []source.NodeType{{Count: 1 << 20}}, Types: []source.EdgeType{{}}, ByTime: -1, Edges: n,
		Budget: &source.Budget{Memory: ledger, Dir: t.TempDir()}}
	got, _ := sortAll(t, opt, edges, 100_000, []int64{0})
	sorted, _ := slow(edges, &opt, 1<<20)
	w := want(sorted, 1<<20, 1, false)
	expect.That(t, bytes.Equal(got.indices.Bytes(), w.indices.Bytes()) && bytes.Equal(got.indptr.Bytes(),
		w.indptr.Bytes()), "the edges are not in order")
	written, _ := opt.Budget.Traffic()
	expect.That(t, written >= 2*8*n*9/10, "%d bytes were written: the part was not parted again", written)
}
