//go:build !purego

package sampling

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestKernelsEqualPlainGo looks up the same ids with relabel32 and without, in batches of which later ones find the
// entries of earlier ones in the table.
func TestKernelsEqualPlainGo(t *testing.T) {
	defer func(have bool) { haveRelabel32 = have }(haveRelabel32)
	const seed, nodes, offset = 11, 1000, 200
	r := rand.New(rand.NewPCG(seed, 0))
	tables := [2]directMap[int32]{{numNodes: nodes}, {numNodes: nodes}}
	for batch := range 50 {
		var lists [2]list[int32]
		for i := range lists {
			expect.OK(t, tables[i].begin())
			lists[i] = list[int32]{ids: make([]int32, 2000), offset: offset, count: nodes - offset}
		}
		for range 5 {
			ids := make([]int32, r.IntN(300))
			for i := range ids {
				ids[i] = offset + r.Int32N(nodes-offset)
			}
			var out [2][]int32
			for i := range out {
				haveRelabel32 = i == 1
				out[i] = make([]int32, len(ids))
				tables[i].relabel(ids, out[i], &lists[i])
			}
			n := lists[0].n
			if n != lists[1].n || !slices.Equal(out[0], out[1]) || !slices.Equal(lists[0].ids[:n], lists[1].ids[:n]) {
				t.Fatalf("seed %d, batch %d: the local ids of %d ids differ from plain Go's", seed, batch, len(ids))
			}
		}
		expect.Ensure(t, tables[0].next == tables[1].next && slices.Equal(tables[0].tab, tables[1].tab),
			"seed %d, batch %d: the tables differ", seed, batch)
	}
}

func TestSourcesAreReadAndChecked(t *testing.T) {
	indices := []int32{7, 5, 9, 4, 10}
	for _, c := range []struct {
		pos  []int64
		good bool
	}{
		{[]int64{0, 1, 2, 0}, true}, {[]int64{2}, true},
		{[]int64{0, 3}, false}, // source 4 is below the type's
		{[]int64{4, 0}, false}, // source 10 is above
		{[]int64{1, 5}, false}, {[]int64{-1}, false}, {[]int64{1 << 62}, false},
	} {
		nbr, tab := make([]int32, len(c.pos)), make([]uint32, 11)
		good := loadSources32(&c.pos[0], len(c.pos), &indices[0], len(indices), &nbr[0], 5, 5, &tab[0]) != 0
		expect.That(t, good == c.good, "positions %d: good is %t", c.pos, good)
		for i, p := range c.pos {
			if good && nbr[i] != indices[p] {
				t.Errorf("positions %d: source %d is %d", c.pos, i, nbr[i])
			}
		}
	}
}
