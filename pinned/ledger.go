package pinned

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrLimit is returned for an allocation that would take a Ledger beyond its limit.
var ErrLimit = errors.New("memory limit reached")

// Purpose says what a piece of memory is for.
type Purpose uint8

// The purposes that a Ledger tells apart.
const (
	Topology Purpose = iota // graph structure copied into memory
	Columns                 // node and edge columns copied into memory
	Batches                 // slots: everything that is delivered with a batch
	Scratch                 // what workers need besides: relabel tables, picks
	numPurposes
)

var purposeNames = [numPurposes]string{"topology", "columns", "batches", "scratch"}

// String returns the purpose's name, as it stands in statistics.
func (p Purpose) String() string {
	if p < numPurposes {
		return purposeNames[p]
	}
	return fmt.Sprintf("purpose(%d)", uint8(p))
}

// Ledger counts bytes in use by purpose. The zero value is ready; all methods are safe for concurrent use and accept a nil
// receiver, which counts nothing.
type Ledger struct {
	used  [numPurposes]atomic.Int64
	sum   atomic.Int64
	peak  atomic.Int64
	limit atomic.Int64
}

// SetLimit makes every later Allocate fail with ErrLimit that would take Total beyond n bytes; 0 lifts the limit. What is
// held stays.
func (l *Ledger) SetLimit(n int64) { l.limit.Store(n) }

// take counts n more bytes for a purpose, or nothing and returns ErrLimit.
func (l *Ledger) take(p Purpose, n int64) error {
	if l == nil {
		return nil
	}
	for {
		now := l.sum.Load()
		if limit := l.limit.Load(); limit > 0 && now+n > limit {
			return fmt.Errorf("%w: %d bytes more for %v, where %d of %d are in use", ErrLimit, n, p, now, limit)
		}
		if l.sum.CompareAndSwap(now, now+n) {
			l.used[p].Add(n)
			l.raisePeak(now + n)
			return nil
		}
	}
}

// Add counts n more bytes (fewer if n is negative) for a purpose.
func (l *Ledger) Add(p Purpose, n int64) {
	if l == nil {
		return
	}
	l.used[p].Add(n)
	l.raisePeak(l.sum.Add(n))
}

func (l *Ledger) raisePeak(now int64) {
	for {
		peak := l.peak.Load()
		if now <= peak || l.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

// Used returns the bytes in use for a purpose.
func (l *Ledger) Used(p Purpose) int64 {
	if l == nil {
		return 0
	}
	return l.used[p].Load()
}

// Total returns the bytes in use for all purposes.
func (l *Ledger) Total() int64 {
	if l == nil {
		return 0
	}
	return l.sum.Load()
}

// Peak returns the greatest Total that there ever was.
func (l *Ledger) Peak() int64 {
	if l == nil {
		return 0
	}
	return l.peak.Load()
}

// ByPurpose returns the bytes in use, keyed by Purpose.String.
func (l *Ledger) ByPurpose() map[string]int64 {
	m := make(map[string]int64, numPurposes)
	for p := range numPurposes {
		m[p.String()] = l.Used(p)
	}
	return m
}
