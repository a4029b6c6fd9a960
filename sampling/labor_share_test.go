package sampling

import (
	"math"
	"math/bits"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestSharesOfVariatesAreExact compares the greatest variate of a share with docs/sampling.md, "LABOR": u counts if
// floor(u * n / 2^64) < k. Where n divides k * 2^64 the bound itself does not count.
func TestSharesOfVariatesAreExact(t *testing.T) {
	counts := func(u uint64, k, n int64) bool {
		hi, _ := bits.Mul64(u, uint64(n))
		return hi < uint64(k)
	}
	for _, c := range []struct{ k, n int64 }{
		{1, 2}, {1, 3}, {2, 3}, {1, 4}, {3, 4}, {2, 4}, {5, 8}, {6, 9}, {10, 10_007},
		{1, 1 << 40}, {1<<40 - 1, 1 << 40}, {1 << 20, 1 << 40},
		{1, math.MaxInt64}, {math.MaxInt64 - 1, math.MaxInt64},
	} {
		u := shareOf(c.k, c.n)
		expect.That(t, counts(u, c.k, c.n) && !counts(u+1, c.k, c.n), "%d of %d: %d is not the greatest", c.k, c.n, u)
	}
}
