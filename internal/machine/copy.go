package machine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// copyRounds is how often CopyRate measures; the median counts.
const copyRounds = 5

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
	rates := make([]float64, copyRounds)
	for i := range rates {
		rates[i] = copyRound(ctx, source, dst, round)
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
	}
	slices.Sort(rates)
	return rates[copyRounds/2], nil
}

func copyRound(ctx context.Context, source []byte, dst [][]byte, round time.Duration) float64 {
	var all sync.WaitGroup
	copied := make([]int64, len(dst))
	start := time.Now()
	for i, d := range dst {
		all.Add(1)
		go func() {
			defer all.Done()
			// Goroutines start apart, so that none finds in the cache what another has just read.
			at, sum := len(source)/len(dst)*i, int64(0)
			for ctx.Err() == nil && len(d) > 0 {
				if at+len(d) > len(source) {
					at = 0
				}
				sum += int64(copy(d, source[at:]))
				at += len(d)
				if time.Since(start) >= round {
					break
				}
			}
			copied[i] = sum
		}()
	}
	all.Wait()
	total := int64(0)
	for _, n := range copied {
		total += n
	}
	return float64(total) / time.Since(start).Seconds()
}

// CopySource returns how long the source of CopyRate should be on this machine for destinations of the given size: at
// least eight times the last-level cache.
func (m *Machine) CopySource(dst int64) int64 { return max(8*m.CacheBytes, dst) }
