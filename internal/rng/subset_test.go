package rng

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// floydByMap is Floyd's method as the specification words it: a set, then a sort.
func floydByMap(s, n, k uint64) []uint64 {
	set := map[uint64]bool{}
	for j := range min(k, n) {
		i := n - min(k, n) + j
		if t := Bounded(Draw(s, j), i+1); k < n && !set[t] {
			set[t] = true
		} else {
			set[i] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// checkSubset says what is wrong with Floyd's answer, or nothing.
func checkSubset(s, n, k uint64) error {
	const kept = 12345
	got := Floyd([]uint64{kept}, s, n, k)
	if got[0] != kept {
		return fmt.Errorf("what dst held is now %d", got[0])
	}
	got = got[1:]
	if uint64(len(got)) != min(k, n) {
		return fmt.Errorf("%d picks", len(got))
	}
	for i, x := range got {
		switch {
		case x >= n:
			return fmt.Errorf("pick %d is out of range", x)
		case i > 0 && x <= got[i-1]:
			return fmt.Errorf("pick %d follows %d", x, got[i-1])
		case k >= n && x != uint64(i):
			return fmt.Errorf("pick %d at %d, where all are taken", x, i)
		}
	}
	if want := floydByMap(s, n, k); !slices.Equal(got, want) {
		return fmt.Errorf("picks %d, want %d", got, want)
	}
	return nil
}

func TestFloydIsAnAscendingSubset(t *testing.T) {
	const seed = 3
	for i := range uint64(3000) {
		n := Bounded(Draw(seed, 3*i), 80)
		if i%4 == 0 {
			n = Draw(seed, 3*i) >> (i % 64)
		}
		k := Bounded(Draw(seed, 3*i+1), min(n, 77)+3)
		if n > 100 {
			k = min(k, n-1) // never ask for all of a long list
		}
		s := Draw(seed, 3*i+2)
		err := checkSubset(s, n, k)
		expect.Ensure(t, err == nil, "seed %d, case %d: Floyd(%#x, n %d, k %d): %v", seed, i, s, n, k, err)
	}
}

func TestWithReplacementKeepsDrawOrder(t *testing.T) {
	const seed = 4
	for i := range uint64(200) {
		s, n, k := Draw(seed, i), 1+Bounded(Draw(^uint64(seed), i), 50), i%20
		got := WithReplacement([]uint64{math.MaxUint64}, s, n, k)
		expect.Ensure(t, got[0] == math.MaxUint64 && uint64(len(got)) == 1+k,
			"seed %d: WithReplacement(%#x, n %d, k %d) = %d", seed, s, n, k, got)
		for j, x := range got[1:] {
			if want := Bounded(Draw(s, uint64(j)), n); x != want {
				t.Fatalf("seed %d: WithReplacement(%#x, n %d, k %d): pick %d is %d, want %d", seed, s, n, k, j, x, want)
			}
		}
	}
}

func FuzzFloyd(f *testing.F) {
	f.Add(uint64(0), uint64(7), uint64(3))
	f.Add(uint64(0x35a89eb2729ffa13), uint64(64), uint64(64))
	f.Add(uint64(1), uint64(0), uint64(5))
	f.Add(uint64(2), uint64(math.MaxUint64), uint64(15))
	f.Add(uint64(3), uint64(17), uint64(16))
	f.Fuzz(func(t *testing.T, s, n, k uint64) {
		k %= 2048
		if n > 4096 {
			k = min(k, n-1)
		}
		expect.Is(t, checkSubset(s, n, k), nil, "Floyd(%#x, n %d, k %d)", s, n, k)
	})
}
