package expect

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seed returns the seed of the cases that a test draws: the same in each run, unless KHOP_SEED says another one, or
// "new" to draw it. The test prints it if it fails.
func Seed(t testing.TB) uint64 {
	t.Helper()
	name := fnv.New64a()
	_, _ = name.Write([]byte(t.Name()))
	seed := name.Sum64()
	switch s := os.Getenv("KHOP_SEED"); s {
	case "":
	case "new":
		seed = rand.Uint64()
	default:
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("KHOP_SEED: %v", err)
		}
	}
	t.Logf("KHOP_SEED=%d", seed)
	return seed
}

// Draws returns how many cases a test draws: n, unless KHOP_DRAWS says another number.
func Draws(t testing.TB, n int) int {
	t.Helper()
	if s := os.Getenv("KHOP_DRAWS"); s != "" {
		return Must(strconv.Atoi(s))(t)
	}
	return n
}

// Night reports whether there is time for what takes long ("make nightly").
func Night() bool { return os.Getenv("KHOP_TEST_NIGHT") != "" }

// DayOrNight returns the second by night, else the first.
func DayOrNight[T any](day, night T) T {
	if Night() {
		return night
	}
	return day
}
