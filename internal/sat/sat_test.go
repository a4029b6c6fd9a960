package sat

import (
	"math"
	"testing"
)

func TestResultsStayInRange(t *testing.T) {
	for _, c := range []struct{ a, b, sum, product int64 }{
		{0, 0, 0, 0}, {0, math.MaxInt64, Most, 0}, {math.MaxInt64, 0, Most, 0}, {3, 4, 7, 12},
		{1, Most, Most + 1, Most}, {2, Most / 2, Most/2 + 2, Most - 1}, {2, Most/2 + 1, Most/2 + 3, Most},
		{1 << 31, 1 << 31, 1 << 32, Most}, {math.MaxInt64, math.MaxInt64, 2 * Most, Most},
	} {
		if sum, product := Add(c.a, c.b), Mul(c.a, c.b); sum != c.sum || product != c.product {
			t.Errorf("%d and %d: %d and %d, want %d and %d", c.a, c.b, sum, product, c.sum, c.product)
		}
	}
}
