//go:build cuda

package sampling

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// A device makes the sequences of the CPU, byte for byte, of drawn graphs and options.
func TestDeviceMakesSequencesAsTheCPU(t *testing.T) {
	const seed = 20261207
	r, compared := rand.New(rand.NewPCG(seed, 0)), 0
	for round := range roundsOrHeavy(expect.DayOrNight(10, 25), 400) {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 6}}[r.IntN(4)]
			g := withColumns(t, r, sizedGraph(t, r, types[0], types[1], 40, func() int {
				return []int{0, 1, 2, 5, r.IntN(30), r.IntN(80)}[r.IntN(6)]
			}))
			k, request := randomSequence(t, r, g)
			if _, ok := k.Of.(DeviceSampler); !ok {
				return
			}
			d, host := openDevice(t), expect.Must(k.Open(Env{Graph: g, BatchSize: 40}))(t)
			for name, o := range d.openSome(k, g, 3, []string{"as opened", "small", "small hash", "int64"}) {
				for batch := range 3 {
					what := fmt.Sprintf("batch %d, %s: %s", batch, name, k.Fingerprint())
					d.compareOne(what, host, o, g, k, request(uint64(batch)))
					compared++
				}
			}
			expect.OK(t, host.Close())
		})
	}
	expect.That(t, compared > 50, "%d samples", compared)
}
