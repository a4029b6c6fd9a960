package machine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
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

// medianRate returns how much a second so many goroutines do together. Each is given a step to repeat, which returns
// how much it has done.
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

// CopySource returns how long the source of CopyRate should be on this machine for destinations of the given size: at
// least eight times the last-level cache.
func (m *Machine) CopySource(dst int64) int64 { return max(8*m.CacheBytes, dst) }
