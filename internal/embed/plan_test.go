package embed

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// TestGapsAreWhatNoRangeHas of some nodes.
func TestGapsAreWhatNoRangeHas(t *testing.T) {
	for _, c := range []struct {
		done []record
		left [][2]int64
	}{
		{nil, [][2]int64{{0, 10}}},
		{[]record{{Lo: 0, Hi: 10}}, nil},
		{[]record{{Lo: 6, Hi: 8}, {Lo: 2, Hi: 4}, {Lo: 3, Hi: 5}}, [][2]int64{{0, 2}, {5, 6}, {8, 10}}},
	} {
		expect.Same(t, gaps(c.done, 10), c.left, "what is left")
	}
}
