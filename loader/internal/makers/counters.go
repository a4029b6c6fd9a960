package makers

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Counters is what workers count.
type Counters struct {
	Replays              atomic.Uint64
	Sample, Gather, Disk Histogram
}

// spread is the Durations of package loader.
type spread struct {
	Count                   uint64
	Sum, P50, P90, P99, Max time.Duration
	Below                   [22]uint64
}

// firstBelow is the power of two of nanoseconds that spread.Below begins with.
const firstBelow = 13

// Histogram counts durations in buckets of a sixteenth of a power of two. It is safe for concurrent use.
type Histogram struct {
	n, sum, max atomic.Uint64
	buckets     [64 * 16]atomic.Uint32
}

func (h *Histogram) Add(d time.Duration) {
	v := uint64(max(0, d))
	h.n.Add(1)
	h.sum.Add(v)
	h.buckets[bucketOf(v)].Add(1)
	for {
		m := h.max.Load()
		if v <= m || h.max.CompareAndSwap(m, v) {
			return
		}
	}
}

// bucketOf returns the bucket of v: its highest bit and the four after it.
func bucketOf(v uint64) int {
	if v < 16 {
		return int(v)
	}
	e := bits.Len64(v) - 5
	return e<<4 + int(v>>e)
}

// topOf returns the greatest value of a bucket.
func topOf(bucket int) uint64 {
	if bucket < 32 {
		return uint64(bucket)
	}
	e := bucket>>4 - 1
	return uint64(bucket&15+16+1)<<e - 1
}

// Sum returns all durations together.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.sum.Load()) }

func (h *Histogram) Durations() spread {
	d := spread{Count: h.n.Load(), Sum: time.Duration(h.sum.Load()), Max: time.Duration(h.max.Load())}
	d.P50, d.P90, d.P99 = h.quantile(0.5, d), h.quantile(0.9, d), h.quantile(0.99, d)
	seen, bucket := uint64(0), 0
	for i := range d.Below {
		for ; bucket < bucketOf(1<<(firstBelow+i)); bucket++ {
			seen += uint64(h.buckets[bucket].Load())
		}
		d.Below[i] = seen
	}
	return d
}

func (h *Histogram) quantile(q float64, d spread) time.Duration {
	rank, seen := uint64(q*float64(d.Count)), uint64(0)
	for i := range h.buckets {
		seen += uint64(h.buckets[i].Load())
		if seen > rank {
			return min(time.Duration(topOf(i)), d.Max)
		}
	}
	return d.Max
}
