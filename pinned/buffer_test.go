package pinned

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestBufferGrowsAndKeeps(t *testing.T) {
	var ledger Ledger
	b := Buffer{Options: Options{Ledger: &ledger, Purpose: Scratch}}
	kept := int64(0)
	for _, n := range []int64{10, 5000, 5001, 100_000, 3 << 20} {
		expect.OK(t, b.Grow(n, kept))
		expect.Ensure(t, b.Cap() >= n, "%d bytes asked, %d given", n, b.Cap())
		for i := range kept {
			expect.Ensure(t, b.Bytes()[i] == byte(i*3), "byte %d was lost growing to %d", i, n)
		}
		for i := kept; i < n; i++ {
			b.Bytes()[i] = byte(i * 3)
		}
		kept = n
	}
	before := ledger.Total()
	err := b.Grow(kept/2, kept)
	expect.That(t, err == nil && ledger.Total() == before, "asking for less moved the buffer: %v", err)
	if err := b.Close(); err != nil || ledger.Total() != 0 || b.Cap() != 0 {
		t.Errorf("closed: %v, %d bytes counted", err, ledger.Total())
	}
	err = b.Grow(10, 0)
	expect.That(t, err == nil && b.Cap() >= 10, "a closed buffer cannot be used again: %v", err)
	b.Close()
}

func TestReserveTakesNoMoreThanAsked(t *testing.T) {
	var ledger Ledger
	b := Buffer{Options: Options{Ledger: &ledger}}
	defer b.Close()
	expect.OK(t, b.Reserve(1<<20))
	expect.That(t, ledger.Total() == 1<<20, "%d bytes taken for %d", ledger.Total(), 1<<20)
	err := b.Reserve(1 << 10)
	expect.That(t, err == nil && b.Cap() == 1<<20, "reserving less changed the buffer: %v, %d bytes", err, b.Cap())
}
