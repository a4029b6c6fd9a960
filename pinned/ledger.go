package pinned

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/khop-gnn/khop/internal/heap"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/internal/machine"
)

// ErrLimit is returned for an allocation that would take a Ledger beyond its limit.
var ErrLimit = errors.New("memory limit reached")

// Purpose says what a piece of memory is for.
type Purpose uint8

// The purposes, which a Ledger counts separately.
const (
	Topology Purpose = iota // graph structure copied into memory
	Columns                 // node and edge columns copied into memory
	Batches                 // slots: everything that is delivered with a batch
	Scratch                 // other memory of workers: relabel tables, picks
	Sources                 // memory of readers of foreign formats: edges, names, tables
	Building                // graph structure while it is being built
	numPurposes
)

var purposeNames = [numPurposes]string{"topology", "columns", "batches", "scratch", "sources", "building"}

// String returns the purpose's name, as it stands in statistics.
func (p Purpose) String() string {
	if p < numPurposes {
		return purposeNames[p]
	}
	return fmt.Sprintf("purpose(%d)", uint8(p))
}

// Ledger counts bytes in use by purpose: host memory (pageable and page-locked) and device memory apart, each with a
// limit. The zero value is ready; a nil Ledger counts nothing and has no limits to set. It is safe for concurrent use.
type Ledger struct {
	// Within, if set, counts all that this ledger counts, and its limits hold as well. It is set before the first use.
	Within *Ledger

	host, device account
}

// account is one side of a ledger.
type account struct {
	used  [numPurposes]atomic.Int64
	sum   atomic.Int64
	peak  atomic.Int64
	limit atomic.Int64
}

// SetLimit makes later allocations of host memory fail with ErrLimit that would take Total beyond n bytes; 0 lifts the
// limit.
func (l *Ledger) SetLimit(n int64) { l.host.limit.Store(n) }

// SetDeviceLimit is SetLimit for device memory and DeviceTotal.
func (l *Ledger) SetDeviceLimit(n int64) { l.device.limit.Store(n) }

// take counts n more bytes of a placement for a purpose, or nothing and returns ErrLimit.
func (l *Ledger) take(place Placement, p Purpose, n int64) error {
	if l == nil {
		return nil
	}
	a, kind := l.side(place), ""
	if place == Device {
		kind = " of device memory"
	}
	for {
		now := a.sum.Load()
		if limit := a.limit.Load(); limit > 0 && n > limit-now {
			return fmt.Errorf("%w: %s%s are needed here for %v, and of the limit of %s there are %s left; "+
				"allow at least %s", ErrLimit, machine.Bytes(n), kind, p, machine.Bytes(limit),
				machine.Bytes(max(limit-now, 0)), machine.Bytes(now+n))
		}
		if a.sum.CompareAndSwap(now, now+n) {
			if err := l.Within.take(place, p, n); err != nil {
				a.sum.Add(-n)
				return err
			}
			a.used[p].Add(n)
			a.raisePeak(now + n)
			return nil
		}
	}
}

// side returns the account of a placement; for a nil ledger, one that stays empty.
func (l *Ledger) side(place Placement) *account {
	switch {
	case l == nil:
		return &nothing
	case place == Device:
		return &l.device
	}
	return &l.host
}

var nothing account

// Take counts n bytes of host memory that the caller is about to take by itself, such as memory of the Go heap. After
// ErrLimit, which has the bytes needed and left, nothing is counted.
func (l *Ledger) Take(p Purpose, n int64) error {
	err := l.take(Host, p, n)
	if err == nil {
		heap.Expect(n)
	}
	return err
}

// Give counts n bytes less, which were counted by Take.
func (l *Ledger) Give(p Purpose, n int64) { l.give(Host, p, n) }

// Left returns the bytes of host memory that may still be taken; the greatest int64 without a limit.
func (l *Ledger) Left() int64 {
	if l == nil {
		return math.MaxInt64
	}
	left := l.Within.Left()
	if limit := l.host.limit.Load(); limit > 0 {
		left = min(left, limit-l.host.sum.Load())
	}
	return left
}

// give takes back what take counted.
func (l *Ledger) give(place Placement, p Purpose, n int64) {
	if l != nil {
		l.side(place).add(p, -n)
		l.Within.give(place, p, n)
	}
}

func (a *account) add(p Purpose, n int64) {
	used, sum := a.used[p].Add(n), a.sum.Add(n)
	if invariants.Enabled {
		invariants.Check(used >= 0 && sum >= 0, "%d bytes are in use for %v, %d in all", used, p, sum)
	}
	a.raisePeak(sum)
}

func (a *account) raisePeak(now int64) {
	for {
		peak := a.peak.Load()
		if now <= peak || a.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

// Used returns the bytes of host memory in use for a purpose.
func (l *Ledger) Used(p Purpose) int64 { return l.side(Host).used[p].Load() }

// Total returns the bytes of host memory in use for all purposes.
func (l *Ledger) Total() int64 { return l.side(Host).sum.Load() }

// Peak returns the greatest Total so far.
func (l *Ledger) Peak() int64 { return l.side(Host).peak.Load() }

// DeviceUsed is Used for device memory.
func (l *Ledger) DeviceUsed(p Purpose) int64 { return l.side(Device).used[p].Load() }

// DeviceTotal is Total for device memory.
func (l *Ledger) DeviceTotal() int64 { return l.side(Device).sum.Load() }

// DevicePeak is Peak for device memory.
func (l *Ledger) DevicePeak() int64 { return l.side(Device).peak.Load() }
