//go:build !purego

package sampling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

var machineHasSubset16 = haveSubset16

// setSubset16 turns the vector kernel on or off, and reports whether the machine can.
func setSubset16(have bool) bool {
	haveSubset16 = have
	return !have || machineHasSubset16
}

// TestVectorsOfLaborEqualPlainGo looks at the same columns with vectors and without.
func TestVectorsOfLaborEqualPlainGo(t *testing.T) {
	if !haveLook8 {
		return // there is nothing to compare
	}
	defer func() { haveLook8 = true }()
	const seed = 13
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOf(3000) {
		n := r.IntN(40)
		if round%10 == 0 {
			n = r.IntN(2000)
		}
		column := make([]int32, 1+n)
		for i := range column {
			column[i] = r.Int32N([]int32{2, 50, math.MaxInt32}[r.IntN(3)])
		}
		k := 1 + r.IntN(len(column))
		limit := []uint64{0, math.MaxUint64, r.Uint64(), r.Uint64() >> 4}[r.IntN(4)]
		pickers := [2]laborPicker[int32]{}
		var did [2]string
		for i := range pickers {
			haveLook8 = i == 1
			p := &pickers[i]
			p.variates = newVariates(NewRand(seed, 0, 0, uint64(round)), 5, 1, 7, uint64(round%3))
			expect.OK(t, p.makeRoom(int64(len(column))))
			seen := p.scan(column, 100, limit, p.u, p.at)
			did[i] = fmt.Sprint(p.u[:seen], p.at[:seen])
			if k < len(column) {
				p.a, p.start = &assembly[int32]{indices: column}, []int64{0}
				p.degree = []int64{int64(len(column))}
				p.least(k)
				did[i] += fmt.Sprint(p.at[:k])
			}
			expect.OK(t, p.seen.Close())
		}
		expect.Ensure(t, did[0] == did[1], "seed %d round %d: %d of %d: plain Go has\n%s, vectors\n%s", seed, round, k,
			len(column), did[0], did[1])
	}
	us := make([]uint64, 100)
	for i := range us {
		us[i] = r.Uint64()
	}
	for n := 1; n <= len(us)-laborBehind; n++ {
		for _, limit := range slices.Concat(us[:n], []uint64{0, math.MaxUint64}) {
			haveLook8 = false
			want := countUpTo(us, n, limit)
			if haveLook8 = true; countUpTo(us, n, limit) != want {
				t.Fatalf("seed %d: %d of %d numbers are up to %d, vectors differ", seed, want, n, limit)
			}
		}
	}
}

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
