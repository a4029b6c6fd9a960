//go:build !race

package sampling

import (
	"fmt"
	"testing"

	"github.com/khop-gnn/khop/internal/growth"
	"github.com/khop-gnn/khop/internal/rng"
)

func TestSubsetsAreFloydsForEverySize(t *testing.T) {
	defer func(have bool) { setSubset16(have) }(haveSubset16)
	for _, have := range []bool{false, true} {
		if setSubset16(have) {
			t.Run(fmt.Sprintf("vectors=%t", have), subsetsAreFloyds)
		}
	}
}

func subsetsAreFloyds(t *testing.T) {
	var set subsetter
	pos := make([]int64, 2000)
	for _, start := range []int64{0, 1, 123, 1<<31 - 7, 1 << 40} {
		for _, k := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 20, 25, 31, 32, 33, 64, 65,
			100, 1000} {
			for _, n := range []uint64{2, 3, 5, 6, 8, 11, 16, 17, 18, 21, 26, 33, 63, 64, 65, 66, 70, 100, 128, 1001,
				4095, 4096, 4097, 1 << 16, 1<<18 - 1, 1 << 18, 1<<18 + 1, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1 << 50} {
				if uint64(k) >= n {
					continue
				}
				for trial := range uint64(20) {
					s := rng.Stream(uint64(start)*31+uint64(k), n+trial<<20)
					set.subset(pos[:k], s, start, n)
					for i, want := range rng.Floyd(nil, s, n, uint64(k)) {
						if pos[i] != start+int64(want) {
							t.Fatalf("%d of %d from %d, stream %#x: pick %d is %d, want %d", k, n, start, s, i,
								pos[i]-start, want)
						}
					}
				}
			}
		}
	}
}

func TestLargeSubsetsAreFloyds(t *testing.T) {
	const n, start = threeLevels + 1, 1 << 40
	pos := make([]int64, n)
	for _, k := range []uint64{fewPicks, fewPicks + 1, n / 2, n - 1} {
		var set subsetter
		set.subset(pos[:k], 3, start, n)
		in := make([]bool, n)
		for j := range k {
			i := n - k + j
			if t := rng.Bounded(rng.Draw(3, j), i+1); in[t] {
				in[i] = true
			} else {
				in[t] = true
			}
		}
		at := 0
		for i, is := range in {
			if is && pos[at] != int64(start+i) {
				t.Fatalf("%d: pick %d is %d, want %d", k, at, pos[at]-start, i)
			}
			if is {
				at++
			}
		}
	}
}

func TestALargeSubsetCostsNoMoreThanItsPicks(t *testing.T) {
	growth.Linear(t, 1<<15, func(k int) {
		var set subsetter
		set.subset(make([]int64, k), 5, 0, 1<<40)
	})
}

func BenchmarkSubset(b *testing.B) {
	for _, k := range []int{5, 10, 15, 25, 100} {
		for _, n := range []uint64{30, 60, 100, 1000, 100000} {
			if uint64(k) >= n {
				continue
			}
			b.Run(fmt.Sprintf("fanout=%d/degree=%d", k, n), func(b *testing.B) {
				var set subsetter
				pos := make([]int64, k)
				for i := range b.N {
					set.subset(pos, rng.Stream(1, uint64(i)), 5, n)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(k), "ns/pick")
			})
		}
	}
}
