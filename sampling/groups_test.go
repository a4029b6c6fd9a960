package sampling

import (
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

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
