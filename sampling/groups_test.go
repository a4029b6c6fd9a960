package sampling

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// Equal pairs of tree and time have one number, in the order in which they came, however many there are.
func TestTimesOfABatchAreNumberedInTheirOrder(t *testing.T) {
	const seed = 20261125
	r := rand.New(rand.NewPCG(seed, 0))
	var g groups
	g.most = 9000
	defer func() {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	}()
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
			if err != nil || got != want || g.n != len(numbers) {
				t.Fatalf("seed %d: pair %v is number %d of %d, want %d of %d: %v", seed, key, got, g.n, want,
					len(numbers), err)
			}
		}
		if len(numbers) <= minSlots/2 {
			t.Fatal("the table did not grow")
		}
		if took, said := g.cellMem.Cap()+g.slotMem.Cap(), 2*groupBytes(0, int64(len(numbers))); took > said {
			t.Errorf("%d pairs take %d bytes, more than %d", len(numbers), took, said)
		}
	}
	g.most = g.n
	if _, err := g.of(77, 77); !errors.Is(err, ErrOptions) {
		t.Errorf("one more than there may be: %v", err)
	}
}
