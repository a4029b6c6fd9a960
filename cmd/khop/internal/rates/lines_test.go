package rates

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/machine"
)

func TestLineRateReads(t *testing.T) {
	for _, size := range []int{machine.Line, 3*machine.Line + 1, 1 << 20} {
		rate, err := LineRate(t.Context(), make([]byte, size), 2, time.Millisecond)
		expect.That(t, err == nil && rate > 0, "%d bytes: %g lines/s, %v", size, rate, err)
	}
}

// TestWalkerReadsEverywhere: with as many reads as 64 a line, hardly any is left out.
func TestWalkerReadsEverywhere(t *testing.T) {
	source := make([]byte, 100*machine.Line)
	for line := range 100 {
		source[line*machine.Line] = 1
	}
	w := walker{source: source, state: 1}
	if n := w.read(100); n != 100*linesAhead || w.sum != uint64(n) {
		t.Errorf("%d lines, of which %d at their beginning", n, w.sum)
	}
	seen := map[int64]bool{}
	for range 100 {
		w.read(1)
		for _, line := range w.lines[0] {
			seen[line] = true
		}
	}
	expect.That(t, len(seen) == 100, "%d of 100 lines", len(seen))
}

func TestLineRateRefusesWhatCannotBeMeasured(t *testing.T) {
	_, none := LineRate(t.Context(), make([]byte, machine.Line-1), 1, 0)
	_, nobody := LineRate(t.Context(), make([]byte, machine.Line), 0, 0)
	expect.That(t, none != nil && nobody != nil, "%v, %v", none, nobody)
}

func TestLineRateEndsWhenCancelled(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err := LineRate(ctx, make([]byte, machine.Line), 1, time.Hour)
	expect.That(t, errors.Is(err, why), "%v, want the cause", err)
}
