package sampling

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/rng"
)

// A sample whose node lists have memory for exactly as many nodes as there are takes the room that looking up local ids
// needs beyond them.
func TestListsThatFillTheirMemoryHaveRoom(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 31, 32, 33, 34, 511, 512, 513, 514, 1023, 1024, 1025, 1026} {
		sources, all := make([]int32, nodes-1), make([]int64, nodes)
		star := []int64{0}
		for i := range nodes {
			all[i] = int64(nodes - 1 - i)
			star = append(star, int64(nodes-1))
		}
		for i := range sources {
			sources[i] = int32(i + 1)
		}
		for what, c := range map[string]struct {
			g     *graph.Graph
			seeds []int64
		}{
			"all are seeds":          {graphs.CSC(t, make([]int64, nodes+1), nil), all},
			"all others are sources": {graphs.CSC(t, star, sources), []int64{0}},
		} {
			n := Neighbor{Fanouts: []int{All}}
			req := &Request{Seeds: [][]int64{c.seeds}, Rand: NewRand(1, 0, 0, 0)}
			want := oracle(c.g, newEdgeRuns(c.g), n, req)
			for name, w := range openVariants(t, c.g, n) {
				compare(t, fmt.Sprintf("%d nodes, %s, %s", nodes, what, name), c.g, tight{w, int64(nodes)}, req, want)
				expect.OK(t, w.Close())
			}
		}
	}
}

// tight gives samples memory for this number of nodes beforehand.
type tight struct {
	Worker
	nodes int64
}

func (w tight) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	width := int64(4)
	if _, wide := w.Worker.(*worker[int64]); wide {
		width = 8
	}
	if err := out.Buffers.Nodes[0].Claim(w.nodes * width); err != nil {
		return err
	}
	return w.Worker.Sample(ctx, req, out)
}

// After some billions of nodes the values of the tables start over, and what earlier batches left there is forgotten.
func TestBatchesAreTheSameAfterTablesStartOver(t *testing.T) {
	const seed = 31
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 12 {
		g := randomGraph(t, r, 1+r.IntN(3), 1+r.IntN(3))
		n := Neighbor{Fanouts: []int{5, 5}, Disjoint: round%3 == 0}
		runs := newEdgeRuns(g)
		for name, w := range openVariants(t, g, n) {
			for batch := range 4 {
				if batch == 2 {
					useUp(w)
				}
				req := randomRequest(r, g.Schema(), uint64(batch))
				compare(t, fmt.Sprintf("seed %d round %d batch %d: %s", seed, round, batch, name), g, w, req,
					oracle(g, runs, n, req))
			}
			expect.OK(t, w.Close())
		}
	}
}

// useUp makes a worker's table as it is after maxBase local ids.
func useUp(w Worker) {
	switch w := w.(type) {
	case *worker[int32]:
		w.assembly.useUp()
	case *worker[int64]:
		w.assembly.useUp()
	}
}

func (a *assembly[V]) useUp() {
	if a.forest != nil {
		a.forest.table.next = maxBase + 1
		return
	}
	switch table := a.local.(type) {
	case *directMap[V]:
		table.next = maxBase + 1
	case *hashMap[V]:
		table.next = maxBase + 1
	}
}

// Each mask ends at a power of 64: the last neighbour of a node with that many, and of one with one more, is picked.
func TestTheLastNeighbourIsPickedOnBothSidesOfEveryMask(t *testing.T) {
	defer func(have bool) { setSubset16(have) }(haveSubset16)
	for _, have := range []bool{false, true} {
		if !setSubset16(have) {
			continue
		}
		var set subsetter
		for _, n := range []uint64{64, 65, 1 << 12, 1<<12 + 1, 1 << 18, 1<<18 + 1} {
			for _, k := range []uint64{1, 8, 9, 16, 17, 40} {
				stream := uint64(0)
				for rng.Bounded(rng.Draw(stream, k-1), n) != n-1 { // the draw that decides on the last neighbour
					stream = rng.Stream(1, stream+1)
				}
				pos := make([]int64, k)
				set.subset(pos, stream, 5, n)
				for i, want := range rng.Floyd(nil, stream, n, k) {
					if pos[i] != 5+int64(want) {
						t.Fatalf("%d of %d, vectors %t: pick %d is %d, want %d", k, n, have, i, pos[i]-5, want)
					}
				}
				if pos[k-1] != 4+int64(n) {
					t.Fatalf("%d of %d: the last pick is %d", k, n, pos[k-1]-5)
				}
			}
		}
	}
}

// Equal pairs of tree and time have one number, in the order in which they came, however many there are.
func TestTimesOfABatchAreNumberedInTheirOrder(t *testing.T) {
	const seed = 20261125
	r := rand.New(rand.NewPCG(seed, 0))
	var g groups
	g.most = 9000
	var memory scratch
	memory.own(&g.timeMem, &g.cellMem, &g.slotMem)
	defer func() { expect.OK(t, memory.Close()) }()
	for range 3 {
		clear(g.slots)
		g.n = 0
		numbers := map[[2]int64]int64{}
		for range 30_000 {
			key := [2]int64{r.Int64N(3), r.Int64N(3000) << 40}
			want, known := numbers[key]
			if !known {
				want = int64(len(numbers))
				numbers[key] = want
			}
			got, err := g.of(key[0], key[1])
			expect.Ensure(t, err == nil && got == want && g.n == len(numbers),
				"seed %d: pair %v is number %d of %d, want %d of %d: %v", seed, key, got, g.n, want, len(numbers), err)
		}
		expect.Ensure(t, len(numbers) > minSlots/2, "the table did not grow")
		took, said := g.cellMem.Cap()+g.slotMem.Cap(), 2*groupBytes(0, int64(len(numbers)))
		expect.That(t, took <= said, "%d pairs take %d bytes, more than %d", len(numbers), took, said)
	}
	g.most = g.n
	expect.Is(t, expect.Err(g.of(77, 77)), ErrOptions, "one more than there may be")
}
