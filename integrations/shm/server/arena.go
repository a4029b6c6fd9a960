package server

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// arena is a ring's memory: segments that other processes map, given out in pieces. It is a pinned.Provider, so a
// loader gathers rows right into it; deviceArena is one of device memory. It never shrinks: it gives pieces that came
// back out again.
type arena struct {
	access wire.Access
	ledger *pinned.Ledger // counts segments on a device; those who take memory of the host count that
	least  int64          // of a segment
	room   func() int64   // bytes that the machine still has; 0: unknown

	mu       sync.Mutex
	free     [][]extent                     // [segment], ascending, apart from one another
	segments atomic.Pointer[[]*wire.Memory] // only ever appended to
}

// extent is a run of free bytes.
type extent struct{ begin, end int64 }

const (
	pageSize  = 4096
	mostSpare = 1 << 30 // a segment is larger than what it is made for by at most this
)

// These are variables for tests only.
var (
	leastSegment int64 = 64 << 20
	roomLeft           = func() int64 { return machine.Probe().Room() }
)

func newArena(a wire.Access, ledger *pinned.Ledger) *arena {
	return &arena{access: a, ledger: ledger, least: leastSegment, room: roomLeft}
}

func (a *arena) all() []*wire.Memory {
	if p := a.segments.Load(); p != nil {
		return *p
	}
	return nil
}

// Take implements pinned.Provider for host memory.
func (a *arena) Take(n int64) ([]byte, error) { return a.take(n, nil) }

// deviceArena is the part of an arena that lies on a device, as a pinned.Provider.
type deviceArena struct {
	*arena
	on *device.Device
}

// Accounts says that it counts itself (pinned.Provider): on a device a whole segment is taken.
func (deviceArena) Accounts() {}

// Take implements pinned.Provider for device memory.
func (a deviceArena) Take(n int64) ([]byte, error) { return a.take(n, a.on) }

// take returns n bytes of the host or of a device.
func (a *arena) take(n int64, on *device.Device) ([]byte, error) {
	align := int64(pageSize)
	if n%pinned.HugePage == 0 {
		align = pinned.HugePage
	}
	n = (n + pageSize - 1) &^ (pageSize - 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.free {
		if a.all()[i].Device != on {
			continue
		}
		if at, ok := a.cut(i, n, align); ok {
			return a.all()[i].Data[at : at+n : at+n], nil
		}
	}
	if err := a.grow(n, on); err != nil {
		return nil, err
	}
	last := len(a.free) - 1
	at, _ := a.cut(last, n, align)
	return a.all()[last].Data[at : at+n : at+n], nil
}

// cut takes n bytes out of the first run of segment i that has them.
func (a *arena) cut(i int, n, align int64) (int64, bool) {
	for k, x := range a.free[i] {
		at := (x.begin + align - 1) / align * align
		if at+n > x.end {
			continue
		}
		rest := make([]extent, 0, 2)
		for _, r := range []extent{{x.begin, at}, {at + n, x.end}} {
			if r.begin < r.end {
				rest = append(rest, r)
			}
		}
		a.free[i] = slices.Replace(a.free[i], k, k+1, rest...)
		return at, true
	}
	return 0, false
}

// grow adds a segment with room for n bytes.
func (a *arena) grow(n int64, on *device.Device) error {
	if room := a.room(); on == nil && room > 0 && n > room {
		return fmt.Errorf("%w: %s are needed beside the %s that it has, %s are available; take smaller batches, "+
			"fewer workers or hold fewer slots",
			shm.ErrNoRoom, machine.Bytes(n), machine.Bytes(a.size(nil)), machine.Bytes(room))
	}
	old := a.all()
	if len(old) == wire.MaxSegments {
		return fmt.Errorf("%w: %d segments", shm.ErrNoRoom, len(old))
	}
	size := max(n, a.least)
	if on == nil { // pages that nobody touches take no memory; on a device they do
		size = max(size, min(a.size(on), n+mostSpare))
	}
	opt := pinned.Options{Device: on, Ledger: a.ledger, Purpose: pinned.Batches}
	s, err := wire.NewMemory(huge(size), a.access, opt)
	if errors.Is(err, pinned.ErrLimit) { // there may be room for what is needed
		s, err = wire.NewMemory(huge(n), a.access, opt)
	}
	if err != nil {
		return fmt.Errorf("%w: a segment of %d bytes: %w", shm.ErrNoRoom, size, err)
	}
	list := append(slices.Clone(old), s)
	a.segments.Store(&list)
	a.free = append(a.free, []extent{{0, int64(len(s.Data))}})
	return nil
}

// huge rounds up to huge pages, or to pages where it is less than a huge one.
func huge(n int64) int64 {
	unit := int64(pinned.HugePage)
	if n < unit {
		unit = pageSize
	}
	return (n + unit - 1) &^ (unit - 1)
}

// expect says that no more than a number of bytes will be taken at a time. Where that is less than a huge page, whose
// first byte costs as much as all of it, a segment is no larger, and nobody is asked whether there is room for it.
func (a *arena) expect(bytes int64) {
	if bytes < pinned.HugePage {
		a.least, a.room = min(a.least, bytes), func() int64 { return 0 }
	}
}

// Give implements pinned.Provider.
func (a *arena) Give(b []byte) error {
	i, at, ok := a.locate(b)
	if !ok {
		return errors.New("memory that is not of this arena")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	begin, end := int64(at), int64(at)+int64(len(b))
	list := a.free[i]
	k, _ := slices.BinarySearchFunc(list, begin, func(x extent, v int64) int { return int(min(max(x.begin-v, -1), 1)) })
	list = slices.Insert(list, k, extent{begin, end})
	if k+1 < len(list) && list[k+1].begin == end {
		list[k].end = list[k+1].end
		list = slices.Delete(list, k+1, k+2)
	}
	if k > 0 && list[k-1].end == begin {
		list[k-1].end = list[k].end
		list = slices.Delete(list, k, k+1)
	}
	a.free[i] = list
	return nil
}

// locate returns where in which segment b lies.
func (a *arena) locate(b []byte) (segment uint32, offset uint64, ok bool) {
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for i, s := range a.all() {
		base := uintptr(unsafe.Pointer(unsafe.SliceData(s.Data)))
		if p >= base && p-base < uintptr(len(s.Data)) {
			return uint32(i), uint64(p - base), true
		}
	}
	return 0, 0, false
}

// size returns the bytes of all segments on the host, or on a device.
func (a *arena) size(on *device.Device) (n int64) {
	for _, s := range a.all() {
		if s.Device == on {
			n += int64(len(s.Data))
		}
	}
	return n
}

// close unmaps everything. Nothing of it may be in use in this process; consumers' mappings stay.
func (a *arena) close() error {
	var errs []error
	for _, s := range a.all() {
		errs = append(errs, s.Close())
	}
	a.segments.Store(nil)
	a.free = nil
	return errors.Join(errs...)
}
