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
