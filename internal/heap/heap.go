// Package heap keeps all that a process takes within one limit: Go's heap, and memory outside it. Go's own limit knows
// nothing of the latter, and lets one allocation exceed it that is larger than the memory free until the next garbage
// collection.
//
// While nobody sets a limit, all of it does nothing.
package heap

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// much is a change that is reported to the runtime, and an allocation that is worth a collection.
const much = 1 << 20

var (
	limit   atomic.Int64 // of all; 0: none
	outside atomic.Int64 // of the heap

	mu   sync.Mutex
	told int64 // outside at the last report to the runtime
	left int64 // heap after the last collection by Expect
)

// SetLimit bounds heap and memory outside it together; 0 lifts the bound. The runtime then collects garbage as late as
// without a limit, unless the limit is near.
func SetLimit(n int64) {
	mu.Lock()
	defer mu.Unlock()
	limit.Store(n)
	left = 0
	tell()
}

// Limit returns what SetLimit has set.
func Limit() int64 { return limit.Load() }

// Outside counts n more bytes outside the heap, or fewer where n is negative.
func Outside(n int64) {
	now := outside.Add(n)
	if limit.Load() == 0 {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	if now-told >= much || told-now >= much {
		tell()
	}
}

// tell sets the runtime's limit for the heap.
func tell() {
	told = outside.Load()
	n := limit.Load()
	if n == 0 {
		debug.SetMemoryLimit(math.MaxInt64)
		return
	}
	// Below an eighth the runtime would do little but collect.
	debug.SetMemoryLimit(max(n-told, n/8))
}

// Expect collects garbage where n bytes that are about to be taken would not fit beside it.
func Expect(n int64) {
	most := limit.Load()
	if n < much || most == 0 || size()+outside.Load() <= most-n {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	if size()-left >= min(n, most/16) { // what was taken since the last time may be garbage
		debug.FreeOSMemory()
		left = size()
	}
}

// Trim gives the system what is garbage, where there may be much of it.
func Trim() {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(s)
	if s[0].Value.Uint64()+s[1].Value.Uint64() >= 8*much {
		debug.FreeOSMemory()
	}
}

// size returns what the runtime has of the system.
func size() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
