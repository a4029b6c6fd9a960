package makers

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestQuantilesAreExactToSixPercent(t *testing.T) {
	const seed = 51
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 200 {
		var h Histogram
		var all []time.Duration
		sum := time.Duration(0)
		for range 1 + r.IntN(300) {
			d := time.Duration(r.Uint64N(1 << (1 + r.IntN(40))))
			h.Add(d)
			all, sum = append(all, d), sum+d
		}
		slices.Sort(all)
		d := h.Durations()
		expect.Ensure(t, d.Count == uint64(len(all)) && d.Sum == sum && d.Max == all[len(all)-1],
			"seed %d round %d: %+v of %v", seed, round, d, all)
		for _, q := range []struct {
			of  float64
			got time.Duration
		}{{0.5, d.P50}, {0.9, d.P90}, {0.99, d.P99}} {
			want := all[int(q.of*float64(len(all)))]
			if q.got < want || q.got > want+want/16 || want < 32 && q.got != want {
				t.Fatalf("seed %d round %d: quantile %g is %d, want %d; of %v", seed, round, q.of, q.got, want, all)
			}
		}
	}
	var powers Histogram
	for _, d := range []time.Duration{1<<firstBelow - 1, 1 << firstBelow, 1<<(firstBelow+21) - 1, 1 << 40} {
		powers.Add(d)
	}
	below := powers.Durations().Below
	expect.That(t, below[0] == 1 && below[1] == 2 && below[20] == 2 && below[21] == 3, "below powers of two: %v", below)
	for bucket := range bucketOf(1<<40) + 1 {
		if top := topOf(bucket); bucketOf(top) != bucket || bucketOf(top+1) != bucket+1 {
			t.Errorf("bucket %d is said to end at %d, which is in bucket %d", bucket, top, bucketOf(top))
		}
	}
	var h Histogram
	h.Add(-time.Second)
	d := h.Durations()
	expect.That(t, d.Count == 1 && d.Sum == 0 && d.Max == 0 && d.P99 == 0, "a clock that went back: %+v", d)
}
