// Package growth lets tests watch how the cost of something grows with its input, so that no shape of an input makes it
// quadratic. It measures the processor time of the process and not the time that passes, which depends on who else is
// at work.
package growth

import (
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/machine"
)

// factor is how much larger the second input is, most how many times the cost may be then: what is linear takes factor
// times as long, or twice that where the caches have the smaller input alone; what is quadratic takes 64 times as long.
const factor, most = 8, 32

// Linear fails the test where do(8 * n) costs more than 32 times as much as do(n). It takes the cheapest of some runs.
// What takes less than a few milliseconds counts as that: choose n so that a quadratic cost would show.
func Linear(t testing.TB, n int, do func(n int)) {
	t.Helper()
	// The collector takes idle processors, in jumps: a few collections would look like a cost that explodes.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	least := func(n int, best time.Duration) time.Duration {
		runtime.GC()
		before := used(t)
		do(n)
		return min(best, used(t)-before)
	}
	small, large := time.Hour, time.Hour
	for round := range 4 {
		small, large = least(n, small), least(factor*n, large)
		small = least(n, small)
		// Not after one round: a slow run of the smaller input makes all look linear.
		if round > 0 && large <= most*max(small, 3*time.Millisecond) {
			return
		}
	}
	t.Errorf("%d take %v, %d take %v: the cost grows faster than the input", n, small, factor*n, large)
}

var start = time.Now()

// used returns the processor time that the process has taken; where the system does not tell, the time that has passed.
func used(t testing.TB) time.Duration {
	t.Helper()
	took, err := machine.ProcessorTime()
	if errors.Is(err, errors.ErrUnsupported) {
		return time.Since(start)
	}
	if err != nil {
		t.Fatal(err)
	}
	return took
}
