//go:build !purego && !race

package prefetch

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestElementsArriveEarly finds an address computed wrongly, which no result would show: reads of prefetched elements take a
// tenth of the time and less, mostly a twentieth. One wrong address in four leaves a factor of 4, so 6 is asked for, of the
// least times of up to 20 rounds, so that a busy machine passes. Not under the race detector, whose own memory each read
// touches as well, and not on arm64, whose tests also run in emulators without caches.
func TestElementsArriveEarly(t *testing.T) {
	const want, rounds = 6.0, 20
	table := newTable()
	for _, w := range walks() {
		plain, ahead := time.Hour, time.Hour
		for round := uint64(0); round < rounds && (round < 3 || float64(plain)/float64(ahead) < want); round++ {
			r := rand.New(rand.NewPCG(1, round))
			plain, ahead = min(plain, w.run(table, r, 1<<12, false)), min(ahead, w.run(table, r, 1<<12, true))
		}
		if f := float64(plain) / float64(ahead); f < want {
			t.Errorf("%s: reads are %.2f times as fast as without it, want %.0f at least", w.name, f, want)
		}
	}
}
