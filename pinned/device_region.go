package pinned

import (
	"errors"
	"unsafe"

	"github.com/khop-gnn/khop/device"
)

// Options say how Allocate and Buffer take memory. The zero value is anonymous host memory, not counted.
type Options struct {
	Ledger  *Ledger // counts the bytes, device memory apart from host memory; nil counts nothing
	Purpose Purpose

	// Device takes the memory for a device: device memory, or, with Place Pinned, page-locked host memory that every
	// open device addresses too. nil is pageable host memory, and Place must then be Host. The device must stay open as
	// long as the memory is held.
	Device *device.Device
	Place  Placement

	// From provides the memory, on the host or on Device, which then need not be zero; nil takes it from the system or
	// the driver. It never gives page-locked memory.
	From Provider
}

// Placement returns where Allocate takes memory with these options.
func (o Options) Placement() Placement {
	switch {
	case o.Place == Pinned:
		return Pinned
	case o.Device != nil:
		return Device
	}
	return o.Place
}

// Address returns the address of the first byte for kernels; 0 without bytes, and for pageable memory, which has to be
// attached first (Attach).
func (r *Region) Address() device.Address {
	if r == nil || r.opt.Placement() == Host {
		return 0
	}
	return addressOf(r.data)
}

// Address is Region.Address of Bytes.
func (b *Buffer) Address() device.Address { return b.region.Address() }

// takeOnDevice gets n bytes of device memory from the driver.
func (r *Region) takeOnDevice(n int64) (data []byte, err error) {
	m, err := r.opt.Device.Alloc(n)
	if err != nil {
		return nil, err
	}
	r.onDevice = m
	return bytesAt(uintptr(m.Address()), int(n)), nil
}

// lacksRoom reports whether less memory could still be had.
func lacksRoom(err error) bool {
	return errors.Is(err, ErrLimit) || errors.Is(err, device.ErrOutOfMemory)
}

// bytesAt views memory that Go did not allocate. The detour keeps vet from taking the address for arithmetic on a Go
// pointer.
func bytesAt(addr uintptr, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// addressOf returns the address of the first byte as a device sees it, 0 for none. Host memory that a device addresses
// has the same address there (unified addressing), which Attach and Allocate have the driver confirm.
func addressOf(b []byte) device.Address {
	if cap(b) == 0 {
		return 0
	}
	return device.Address(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}
