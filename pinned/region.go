package pinned

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"
)

// PageSize is a wish for the pages of an allocation.
type PageSize uint8

const (
	// PagesAuto asks for huge pages where the allocation is large enough to profit (HugePage bytes or more).
	PagesAuto PageSize = iota
	// PagesSmall asks for the system's base pages.
	PagesSmall
	// PagesHuge asks for huge pages whatever the size.
	PagesHuge
)

// HugePage is the size of a transparent huge page on the systems that khop knows, in bytes.
const HugePage = 2 << 20

// ErrTooLarge is returned for sizes that no allocation of this process can have.
var ErrTooLarge = errors.New("pinned: size out of range")

// Options say how Allocate and Buffer take memory. The zero value is anonymous memory on PagesAuto, not counted.
type Options struct {
	Ledger  *Ledger // counts the bytes; nil counts nothing
	Purpose Purpose
	Pages   PageSize
	From    Provider // gives the memory, which then need not be zero; nil takes it from the system
}

// Kind tells how a Region came to be.
type Kind uint8

const (
	// Mapped is a read-only shared mapping of a file.
	Mapped Kind = iota
	// Anonymous is memory of this process alone.
	Anonymous
)

// Region is one range of memory outside the Go heap. Its bytes may be read by any number of goroutines; those of an
// anonymous region may be written by whoever the owner allows. It is valid until Close, which the owner calls once.
type Region struct {
	kind Kind
	data []byte // what the user sees
	raw  []byte // what the system gave, data lies within
	opt  Options

	closeOnce sync.Once
	closeErr  error
}

// MapFile maps a file of at least one byte, whole and read-only. The mapping shares the page cache with every other reader;
// it is not counted as memory of this process. The file may be closed, renamed or removed afterwards, but must not be cut
// short: reading past its new end faults.
func MapFile(path string) (*Region, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Map(f)
}

// Map maps an open file as MapFile does. The file stays the caller's, who may close it at once.
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
		return nil, fmt.Errorf("%s: %w: %d bytes", path, ErrTooLarge, st.Size())
	}
	b, err := sysMap(f, int(st.Size()))
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &Region{kind: Mapped, data: b, raw: b}, nil
}

// Allocate returns an anonymous region of n bytes (n may be 0), zero unless opt.From gives them, aligned to a page, or to HugePage where huge pages were
// asked for. Pages are taken from the system when they are first written; see Touch.
func Allocate(n int64, opt Options) (*Region, error) {
	if n < 0 || n > maxAlloc {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
	}
	r := &Region{kind: Anonymous, opt: opt}
	if n == 0 {
		return r, nil
	}
	size := opt.Size(n)
	if err := opt.Ledger.take(opt.Purpose, size); err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	raw, data, err := opt.take(int(size), opt.huge(n))
	if err != nil {
		opt.Ledger.Add(opt.Purpose, -size)
		return nil, fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	r.raw, r.data = raw, data[:n:size]
	return r, nil
}

// take returns what was given, and the part of it to use.
func (o Options) take(size int, huge bool) (raw, data []byte, err error) {
	if o.From == nil {
		return sysAlloc(size, huge)
	}
	raw, err = o.From.Take(int64(size))
	return raw, raw, err
}

func (o Options) give(raw []byte) error {
	if o.From == nil {
		return sysFree(raw)
	}
	return o.From.Give(raw)
}

// Size returns the bytes that Allocate(n, o) counts: n rounded up to whole pages.
func (o Options) Size(n int64) int64 {
	if o.huge(n) {
		return roundUp(n, HugePage)
	}
	return roundUp(n, int64(os.Getpagesize()))
}

func (o Options) huge(n int64) bool {
	return o.Pages == PagesHuge && n > 0 || o.Pages == PagesAuto && n >= HugePage
}

const maxAlloc = 1<<(min(unsafe.Sizeof(uintptr(0))*8, 48)-1) - 1<<22

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// Bytes returns the region's memory. Writing to a Mapped region faults.
func (r *Region) Bytes() []byte { return r.data }

// Len returns the number of bytes.
func (r *Region) Len() int64 { return int64(len(r.data)) }

// Kind returns how the region came to be.
func (r *Region) Kind() Kind { return r.kind }

// Touch writes one byte to every page of an anonymous region's first n bytes, so that later writes find the pages there:
// a fresh page costs microseconds, a present one nothing. It keeps the contents. It does nothing to a mapped file.
func (r *Region) Touch(n int64) {
	if r.kind != Anonymous {
		return
	}
	touch(r.data[:min(n, int64(len(r.data)))])
}

func touch(b []byte) {
	const page = 4096
	for i := 0; i < len(b); i += page {
		// An atomic, because the compiler drops a plain store of what was just loaded.
		atomic.OrUint32((*uint32)(unsafe.Pointer(&b[i])), 0)
	}
}

// Close gives the memory back. The bytes must not be used any more. Later calls do nothing and return the first result.
func (r *Region) Close() error {
	r.closeOnce.Do(func() {
		if len(r.raw) == 0 {
			return
		}
		if r.kind == Mapped {
			r.closeErr = sysUnmap(r.raw)
		} else {
			r.closeErr = r.opt.give(r.raw)
			r.opt.Ledger.Add(r.opt.Purpose, -int64(cap(r.data)))
		}
		r.raw, r.data = nil, nil
	})
	return r.closeErr
}
