// Package rates measures how fast the machine copies memory, and how fast it reads lines at random places.
package rates

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/prefetch"
)

// rateRounds is how often a rate is measured; the median counts.
const rateRounds = 5

// CopyRate returns the bytes a second that one goroutine a destination copies from source together. Every goroutine
// goes through source in steps of its destination's size, so that with a source of CopySource it is read from memory.
// The destinations must not overlap, source must be at least as long as the longest of them, and each round takes at
// least the given time. The caller must have written to all pages before: fresh ones read as one shared page of zeros.
func CopyRate(ctx context.Context, source []byte, dst [][]byte, round time.Duration) (float64, error) {
	longest := 0
	for _, d := range dst {
		longest = max(longest, len(d))
	}
	if len(dst) == 0 || longest == 0 || len(source) < longest {
		return 0, errors.New("measure copying: the source is shorter than a destination, or a destination is empty")
	}
	return medianRate(ctx, len(dst), round, func(i int) func() int64 {
		// Goroutines start apart, so that none finds in the cache what another has just read.
		at, d := len(source)/len(dst)*i, dst[i]
		return func() int64 {
			if at+len(d) > len(source) {
				at = 0
			}
			at += len(d)
			return int64(copy(d, source[at-len(d):]))
		}
	})
}

// medianRate returns how much a number of goroutines do together in a second. Each is given a step to repeat, which
// returns how much it has done.
func medianRate(ctx context.Context, goroutines int, round time.Duration, begin func(i int) func() int64) (float64,
	error) {
	rates := make([]float64, rateRounds)
	for i := range rates {
		rates[i] = rateOf(ctx, goroutines, round, begin)
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
	}
	slices.Sort(rates)
	return rates[rateRounds/2], nil
}

func rateOf(ctx context.Context, goroutines int, round time.Duration, begin func(i int) func() int64) float64 {
	var all sync.WaitGroup
	var total atomic.Int64
	start := time.Now()
	for i := range goroutines {
		all.Add(1)
		go func() {
			defer all.Done()
			for step := begin(i); ctx.Err() == nil; {
				total.Add(step())
				if time.Since(start) >= round {
					break
				}
			}
		}()
	}
	all.Wait()
	return float64(total.Load()) / time.Since(start).Seconds()
}

// CopySource returns how long the source of CopyRate should be on a machine for destinations of the given size: at
// least eight times the last-level cache.
func CopySource(m *machine.Machine, dst int64) int64 { return max(8*m.CacheBytes, dst) }

// linesAhead is how many lines are asked for before the first of them is read: more than any core has in flight.
const linesAhead = 64

// LineRate returns the lines a second that a number of goroutines read at random places of source together, each with
// as many on their way as its core has room for: what no walk over memory of that size can exceed. Each round takes at
// least the given time. The caller must have written to all pages before.
func LineRate(ctx context.Context, source []byte, readers int, round time.Duration) (float64, error) {
	if len(source) < machine.Line || readers < 1 {
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
			w.sum += uint64(w.source[line*machine.Line])
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
		at, _ := bits.Mul64(w.state, uint64(len(w.source)/machine.Line))
		lines[i] = int64(at)
	}
	prefetch.Rows64(base, lines[:], machine.Line, 0)
}
