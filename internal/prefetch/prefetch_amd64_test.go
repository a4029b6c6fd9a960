//go:build !purego && !race

package prefetch

import (
	"math/rand/v2"
	"testing"
)

// TestElementsArriveEarly finds an address computed wrongly, which no result would show: reads of prefetched elements take a
// tenth of the time and less, mostly a twentieth. One wrong address in four leaves a factor of 4, so 7 is asked for, once in ten rounds: a busy
// machine passes. Not under the race detector, whose own memory each read touches as well, and not on arm64, whose tests also
// run in emulators without caches.
func TestElementsArriveEarly(t *testing.T) {
	table := newTable()
	for _, w := range walks() {
		best := 0.0
		for round := uint64(0); round < 10 && best < 7; round++ {
			r := rand.New(rand.NewPCG(1, round))
			plain, ahead := w.run(table, r, 1<<12, false), w.run(table, r, 1<<12, true)
			best = max(best, float64(plain)/float64(ahead))
		}
		if best < 7 {
			t.Errorf("%s: reads are %.2f times as fast as without it, want 7 at least", w.name, best)
		}
	}
}
