package pinned

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/khop-gnn/khop/internal/heap"
)

// HugePage is the size of a transparent huge page on the systems that khop knows, in bytes.
const HugePage = 2 << 20

// errTooLarge is returned for sizes that no allocation of this process can have.
var errTooLarge = errors.New("pinned: size out of range")

// ErrPlacement is returned for an operation that the memory's placement does not allow.
var ErrPlacement = errors.New("not possible with memory there")

// Region is one range of memory outside the Go heap. Its bytes may be read by any number of goroutines; those of an
// allocation may be written by code that the owner allows. The host cannot read a region on a device. A region is valid
// until Close, which the owner calls when no device uses it any more. A nil Region has no memory.
type Region struct {
	mapped bool   // a file
	data   []byte // what the user sees
	raw    []byte // what the system or a Provider gave, data lies within; of the driver's device memory none
	opt    Options
	size   int64 // what the Ledger counts

	onDevice io.Closer // the driver's memory

	closeOnce sync.Once
	closeErr  error
}

// MapFile maps a file of at least one byte, whole and read-only. The mapping shares the page cache with every other
// reader and is not counted. The file may be renamed or removed afterwards; if it is cut short, reading past its new
// end faults.
func MapFile(path string) (*Region, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Map(f)
}

// Map is MapFile for an open file. The file stays the caller's, who may close it at once.
func Map(f *os.File) (*Region, error) {
	path := f.Name()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	if st.Size() == 0 {
		return nil, fmt.Errorf("%s: empty file", path)
	}
	if st.Size() != int64(int(st.Size())) {
		return nil, fmt.Errorf("%s: %w: %d bytes", path, errTooLarge, st.Size())
	}
	b, err := sysMap(f, int(st.Size()))
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	fileMappings.add(b, path)
	return &Region{mapped: true, data: b, raw: b}, nil
}

// Allocate returns a region of n bytes (n may be 0). Host memory is zero, unless opt.From gives it, and aligned to a
// page, or to HugePage if it is as large. Pages are taken when they are first written (see Touch), page-locked ones at
// once; large regions get huge pages. Device memory is aligned to 256 bytes, and its contents are undefined.
//
// Errors: ErrLimit of the Ledger, device.ErrOutOfMemory and others of the driver, ErrPlacement for a Place that needs a
// device and options without one, and one for a size out of range.
func Allocate(n int64, opt Options) (*Region, error) {
	r, err := allocate(n, opt)
	if err == nil && r.opt.Placement() == Pinned {
		clear(r.data) // the driver promises nothing
	}
	return r, err
}

// allocate is Allocate, but page-locked memory may hold anything.
func allocate(n int64, opt Options) (*Region, error) {
	if n < 0 || n > maxAlloc {
		return nil, fmt.Errorf("%w: %d bytes", errTooLarge, n)
	}
	if _, counts := opt.From.(interface{ Accounts() }); counts {
		opt.Ledger = nil
	}
	place := opt.Placement()
	if place != Host && opt.Device == nil {
		return nil, fmt.Errorf("allocate %d bytes of %v memory: %w: no device is given", n, place, ErrPlacement)
	}
	r := &Region{opt: opt}
	if n == 0 {
		return r, nil
	}
	size := opt.Size(n)
	if err := opt.Ledger.take(place, opt.Purpose, size); err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	raw, data, err := r.take(n, size)
	if err == nil {
		r.outside(size)
	} else {
		opt.Ledger.give(place, opt.Purpose, size)
		return nil, fmt.Errorf("allocate %d bytes of %v memory: %w", n, place, err)
	}
	r.raw, r.data, r.size = raw, data[:n:min(size, int64(cap(data)))], size
	if place == Host {
		own.add(r.data, "")
	}
	return r, nil
}

// take gets memory for n bytes, which count as size, from the system, the driver or a Provider. The driver is asked for
// n: it rounds by itself, and what checks the accesses of kernels then knows where the memory ends.
func (r *Region) take(n, size int64) (raw, data []byte, err error) {
	switch place := r.opt.Placement(); {
	case place == Pinned:
		raw, err = r.opt.Device.HostAlloc(n)
	case r.opt.From != nil:
		raw, err = r.opt.From.Take(size)
	case place == Host:
		return sysAlloc(int(size), r.opt.huge(size))
	default:
		data, err = r.takeOnDevice(n)
		return nil, data, err
	}
	return raw, raw, err
}

// outside counts memory of the host as such that Go's heap has not.
func (r *Region) outside(size int64) {
	if r.opt.Placement() != Device {
		heap.Expect(size)
		heap.Outside(size)
	}
}

// give undoes take.
func (r *Region) give() error {
	r.outside(-r.size)
	switch place := r.opt.Placement(); {
	case place == Pinned:
		return r.opt.Device.HostFree(r.raw)
	case r.opt.From != nil:
		return r.opt.From.Give(r.raw)
	case place == Host:
		return sysFree(r.raw)
	}
	return r.onDevice.Close()
}

// Size returns the bytes that Allocate(n, o) counts: n, rounded up to whole units of allocation.
func (o Options) Size(n int64) int64 {
	switch {
	case o.Placement() == Device:
		return roundUp(n, deviceUnit)
	case o.huge(n):
		return roundUp(n, HugePage)
	}
	return roundUp(n, int64(os.Getpagesize()))
}

func (o Options) huge(n int64) bool {
	return o.Placement() == Host && n >= HugePage
}

// deviceUnit is the unit in which device memory is counted: that of the driver.
const deviceUnit = 512

const maxAlloc = 1<<(min(unsafe.Sizeof(uintptr(0))*8, 48)-1) - 1<<22

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// Bytes returns the region's memory. Writing to a mapped file faults. For a region on a device the slice has the
// device's address and length, but reading or writing its elements on the host faults.
func (r *Region) Bytes() []byte {
	if r == nil {
		return nil
	}
	return r.data
}

// Len returns the number of bytes.
func (r *Region) Len() int64 { return int64(len(r.Bytes())) }

// Touch writes one byte to every page of the first n bytes of pageable memory that Allocate took, so that later writes
// find the pages there: a fresh page costs microseconds. It keeps the contents, and does nothing to other regions.
func (r *Region) Touch(n int64) {
	if r.mapped || r.opt.Placement() != Host {
		return
	}
	const page = 4096
	b := r.data[:min(n, int64(len(r.data)))]
	for i := 0; i < len(b); i += page {
		// An atomic, because the compiler drops a plain store of what was just loaded.
		atomic.OrUint32((*uint32)(unsafe.Pointer(&b[i])), 0)
	}
}

// Close frees the memory. The bytes must not be used any more. Later calls do nothing and return the first result.
func (r *Region) Close() error {
	if r == nil {
		return nil
	}
	r.closeOnce.Do(func() {
		switch {
		case len(r.data) == 0:
			return
		case r.mapped:
			fileMappings.remove(r.raw)
			r.closeErr = sysUnmap(r.raw)
		default:
			if r.opt.Placement() == Host {
				own.remove(r.data)
			}
			r.closeErr = r.give()
			r.opt.Ledger.give(r.opt.Placement(), r.opt.Purpose, r.size)
		}
		r.raw, r.data = nil, nil
	})
	return r.closeErr
}

// Placement says which memory holds some bytes, and with that which processors address them.
type Placement uint8

const (
	Host   Placement = iota // pageable host memory, including mapped files
	Pinned                  // page-locked host memory that a device addresses
	Device                  // device memory: the host cannot read it
)

var placementNames = [...]string{"host", "pinned", "device"}

// String returns the placement's name.
func (p Placement) String() string {
	if int(p) < len(placementNames) {
		return placementNames[p]
	}
	return fmt.Sprintf("placement(%d)", uint8(p))
}

// Provider gives memory in place of the system or the driver (Options.From), such as memory that other processes map:
// device memory with Options.Device, whose bytes are as those of Region.Bytes, else host memory. Any goroutine may call
// it. One with a method Accounts(), which does nothing, counts its memory in a Ledger itself: Options.Ledger does not
// count it again.
type Provider interface {
	// Take returns n bytes, n > 0, aligned to HugePage where n is a multiple of it, else to a page; device memory to
	// 256 bytes at least. They need not be zero. An error that wraps device.ErrOutOfMemory or ErrLimit lets a Buffer
	// that asked for more than it needs ask again.
	Take(n int64) ([]byte, error)
	// Give takes back what Take has returned: the very slice.
	Give(b []byte) error
}
