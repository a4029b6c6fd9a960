package placed

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// Rows of a column are verified up to its last piece, however many it has.
func TestTheLastPieceOfALargeColumnIsVerified(t *testing.T) {
	x := expect.Must(unified.New(unified.Uint8, expect.Unread(t, 1<<31), 1<<21, 1<<10))(t)
	p := &pieces{whole: x.Bytes(), times: make([]int, 1<<11), rotten: 1<<11 - 1}
	v := NewVerifiedRows(p, x)
	for _, c := range []struct {
		row  int64
		fits bool
	}{{-1, true}, {0, true}, {1 << 21, true}, {1<<21 - 1, false}, {1<<21 - 1025, true}} {
		err := v.Check(unified.FromSlice([]int64{c.row}))
		expect.That(t, (err == nil) == c.fits, "row %d: %v", c.row, err)
	}
	expect.That(t, p.times[0] == 1 && p.times[1<<11-1] == 1 && p.times[1<<11-2] == 1, "%v", p.times)
}
