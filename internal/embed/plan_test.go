package embed

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
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

// TestAStepGivesItsMemoryBack but for degrees, which later ones read.
func TestAStepGivesItsMemoryBack(t *testing.T) {
	r := &run{rooms: map[string]*pinned.Buffer{}, wide: map[*Table][]float32{}}
	for _, name := range []string{"sums 0", "next", degreesRoom + "a:to:b"} {
		expect.OK(t, expect.Err(room[float32](r, name, 1<<16)))
	}
	expect.OK(t, r.free())
	expect.Same(t, r.ledger.Total(), int64(4<<16), "bytes that are held")
	expect.OK(t, r.rooms[degreesRoom+"a:to:b"].Close())
}
