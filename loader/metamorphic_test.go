package loader_test

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var metamorphicSeed = flag.Uint64("metamorphic.seed", 0, "seed of the random cases; 0 draws a new one")

// newCases returns what draws the cases of a test. Where the test fails, the command that repeats it is printed, with
// what more returns besides.
func newCases(t *testing.T, more func() string) *rand.Rand {
	t.Helper()
	seed := *metamorphicSeed
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-metamorphic.seed=%d", seed)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat it with: go test ./loader -run '^%s$' -metamorphic.seed=%d%s", t.Name(), seed, more())
		}
	})
	return rand.New(rand.NewPCG(seed, 7))
}
