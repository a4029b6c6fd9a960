//go:build cuda

package cuda

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// The index by which rows are found that a device keeps lies in host memory. It is counted before it is taken, where
// it has no room nothing is, and Close gives all back.
func TestTheIndexOfHotRowsIsCounted(t *testing.T) {
	dev := cudatest.Open(t)
	const n = 100_000
	column := unified.FromSlice(make([]int32, n))
	read := 0
	opt := HotRowsOptions{Column: column, Rows: []int64{3, 64, n - 1}, Most: 10,
		Read: func(context.Context, []int64, []byte) error { read++; return nil }}
	for _, room := range []int64{HotIndexBytes(n) - 1, 1 << 30} {
		var ledger pinned.Ledger
		ledger.SetLimit(room)
		opt.Memory = pinned.Options{Ledger: &ledger, Purpose: pinned.Columns}
		h, err := NewHotRows(context.Background(), dev, opt)
		if room < HotIndexBytes(n) {
			if !errors.Is(err, pinned.ErrLimit) || !strings.Contains(err.Error(), "3 rows on the device among") ||
				read != 0 || ledger.Total() != 0 || ledger.Peak() != 0 {
				t.Errorf("room for %d bytes: %v, %d bytes are counted", room, err, ledger.Total())
			}
			continue
		}
		expect.OK(t, err)
		got := ledger.Used(pinned.Columns)
		expect.That(t, got == HotIndexBytes(n) && got >= n*3/2/8, "%d bytes of the host are counted", got)
		if err := errors.Join(h.Close(), h.Close()); err != nil || ledger.Total() != 0 {
			t.Errorf("%d bytes are left, %v", ledger.Total(), err)
		}
	}
}
