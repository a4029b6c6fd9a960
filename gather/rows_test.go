package gather_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// TestRowsAreAppendedInTheirOrder of both widths of ids, and an id that is not a row is named.
func TestRowsAreAppendedInTheirOrder(t *testing.T) {
	c := unified.FromSlice([]float32{1, 2, 3, 4})
	s := expect.Must(gather.NewStore(c))(t)
	got := s.Column()
	expect.That(t, &got.Bytes()[0] == &c.Bytes()[0] && got.Len() == 4, "the column is %v, not %v", got, c)
	for _, ids := range []unified.Tensor{unified.FromSlice([]int32{3, 0, 3}), unified.FromSlice([]int64{3, 0, 3})} {
		list, err := s.Rows([]uint32{7}, ids)
		expect.That(t, err == nil && slices.Equal(list, []uint32{7, 3, 0, 3}), "%v: %v, %v", ids, list, err)
	}
	if list, err := s.Rows([]uint32{7}, unified.Tensor{}); err != nil || !slices.Equal(list, []uint32{7}) {
		t.Errorf("no ids: %v, %v", list, err)
	}
	for text, ids := range map[string]unified.Tensor{
		"ids[1] is 4, but the column has 4 rows": unified.FromSlice([]int32{0, 4}),
		"ids[0] is -1":                           unified.FromSlice([]int64{-1, 4}),
	} {
		list, err := s.Rows([]uint32{7}, ids)
		expect.That(t, errors.Is(err, gather.ErrRange) && strings.Contains(err.Error(), text) && len(list) == 1,
			"%s: %v, %v", text, list, err)
	}
	ids := unified.FromSlice([]int32{0, 1})
	far := expect.Must(unified.NewPlaced(pinned.Device, ids.DType(), ids.Bytes(), 2))(t)
	list, err := s.Rows([]uint32{7}, far)
	expect.That(t, err != nil && len(list) == 1, "ids on a device: %v, %v", list, err)
}

// A result for which there is no memory is an error, by one goroutine and by several, and takes none.
func TestAResultThatIsRefusedMemoryIsAnError(t *testing.T) {
	s := expect.Must(gather.NewStore(unified.FromSlice(make([]float64, 100))))(t)
	var ledger pinned.Ledger
	ledger.SetLimit(1000)
	var dst unified.Buffer
	dst.Options.Ledger = &ledger
	ids := unified.FromSlice(make([]int32, 40_000))
	for _, goroutines := range []int{1, 4} {
		x, err := s.Gather(&dst, ids, goroutines)
		expect.That(t, errors.Is(err, pinned.ErrLimit) && !x.Valid(), "%d goroutines: %v, %v", goroutines, x, err)
	}
	n := ledger.Total()
	expect.That(t, n == 0, "%d bytes are taken", n)
}
