package heap

import (
	"runtime/debug"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

var kept [][]byte

// grow takes pieces one after the other, of which only the last is in use, and returns the most of the heap at a time.
func grow(piece int, expected bool) (most int64) {
	for range 8 {
		kept = nil
		if expected {
			Expect(int64(piece))
		}
		kept = [][]byte{make([]byte, piece)}
		most = max(most, size())
	}
	kept = nil
	return most
}

// Garbage of large pieces makes room before the next one is taken.
func TestWhatIsExpectedFitsBesideNoGarbage(t *testing.T) {
	const piece = 48 << 20
	debug.FreeOSMemory()
	base := size()
	SetLimit(base + 3*piece/2)
	defer SetLimit(0)
	most := grow(piece, true)
	expect.That(t, most <= base+3*piece/2+much, "%d bytes were taken at a time beside %d", most-base, base)
}

func TestTheHeapHasWhatMemoryOutsideLeaves(t *testing.T) {
	SetLimit(1 << 30)
	defer SetLimit(0)
	Outside(600 << 20)
	expect.Same(t, debug.SetMemoryLimit(-1), int64(424<<20), "limit beside memory outside")
	Outside(much / 2) // too little to tell the runtime
	expect.Same(t, debug.SetMemoryLimit(-1), int64(424<<20), "limit beside little more")
	Outside(500 << 20)
	expect.Same(t, debug.SetMemoryLimit(-1), int64(128<<20), "limit beside too much")
	Outside(-1100<<20 - much/2)
	expect.Same(t, debug.SetMemoryLimit(-1), int64(1<<30), "limit when all was given back")
}
