package machine

import (
	"context"
	"errors"
	"math/bits"
	"time"
	"unsafe"

	"github.com/khop-gnn/khop/internal/prefetch"
)

// Line is the bytes of a line of the caches.
const Line = 64

// linesAhead is how many lines are asked for before the first of them is read: more than any core has in flight.
const linesAhead = 64

// LineRate returns the lines a second that so many goroutines read at random places of source together, each with as
// many on their way as its core has room for: what no walk over memory of that size can exceed. Each round takes at
// least the given time. The caller must have written to all pages before.
func LineRate(ctx context.Context, source []byte, readers int, round time.Duration) (float64, error) {
	if len(source) < Line || readers < 1 {
		return 0, errors.New("measure reading: there is no line, or nobody to read it")
	}
	walkers := make([]walker, readers)
	return medianRate(ctx, readers, round, func(i int) func() int64 {
		walkers[i] = walker{source: source, state: uint64(i+1) * prefetch.Multiplier}
		return func() int64 { return walkers[i].read(1 << 12) }
	})
}

// walker reads lines at random places.
type walker struct {
	source []byte
	state  uint64
	sum    uint64
	lines  [2][linesAhead]int64 // that are read next, and those behind
}

// read reads lines in blocks, of which the next is asked for before one is read. It returns how many.
func (w *walker) read(blocks int) int64 {
	base := unsafe.Pointer(unsafe.SliceData(w.source))
	w.ask(base, &w.lines[0])
	for b := range blocks {
		w.ask(base, &w.lines[(b+1)%2])
		for _, line := range &w.lines[b%2] {
			w.sum += uint64(w.source[line*Line])
		}
	}
	return int64(blocks * linesAhead)
}

// ask draws places and prefetches them.
func (w *walker) ask(base unsafe.Pointer, lines *[linesAhead]int64) {
	for i := range lines {
		w.state ^= w.state << 13 // xorshift, Marsaglia 2003
		w.state ^= w.state >> 7
		w.state ^= w.state << 17
		at, _ := bits.Mul64(w.state, uint64(len(w.source)/Line))
		lines[i] = int64(at)
	}
	prefetch.Rows64(base, lines[:], Line, 0)
}
