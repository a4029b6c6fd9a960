package array

import (
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// A reader of a mapped array asks the system for what comes next; one that reads little, here and there, does not: it
// would read much of the file for nothing.
func TestLittleThatIsReadIsNotReadAhead(t *testing.T) {
	want := []int64{0, 1, 2, 3, 4, 5, 6, 7}
	for _, few := range []bool{false, true} {
		h := Header{DType: unified.Int64, Kind: Number, Width: 8, Shape: []int64{8}}
		h.elements = 8
		r := expect.Must(NewMapped(unified.FromSlice(want).Bytes(), h))(t)
		if few {
			r.Few()
		}
		got, err := r.Ints(2)
		expect.That(t, err == nil && slices.Equal(got, want[:2]) && (r.asked == 0) == few,
			"few %t: %v, %d bytes were asked for, %v", few, got, r.asked, err)
	}
}
