package rates

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/machine"
)

func TestCopyRateCopies(t *testing.T) {
	source := bytes.Repeat([]byte{7}, 1<<20)
	dst := [][]byte{make([]byte, 100_000), make([]byte, 1<<20), make([]byte, 1)}
	rate, err := CopyRate(t.Context(), source, dst, time.Millisecond)
	expect.Ensure(t, err == nil && rate > 0, "%g bytes/s, %v", rate, err)
	for i, d := range dst {
		expect.That(t, bytes.Equal(d, source[:len(d)]), "destination %d was not written in full", i)
	}
}

func TestCopyRateRefusesWhatCannotBeMeasured(t *testing.T) {
	for name, dst := range map[string][][]byte{"none": nil, "empty": {{}},
		"longer than the source": {make([]byte, 11)}} {
		_, err := CopyRate(t.Context(), make([]byte, 10), dst, 0)
		expect.That(t, err != nil, "%s: no error", name)
	}
}

func TestCopyRateEndsWhenCancelled(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err := CopyRate(ctx, make([]byte, 10), [][]byte{make([]byte, 10)}, time.Hour)
	expect.That(t, errors.Is(err, why), "%v, want the cause", err)
}

func TestCopySourceIsBeyondTheCache(t *testing.T) {
	m := &machine.Machine{CacheBytes: 1000}
	if CopySource(m, 10) != 8000 || CopySource(m, 9000) != 9000 {
		t.Error(CopySource(m, 10), CopySource(m, 9000))
	}
}
