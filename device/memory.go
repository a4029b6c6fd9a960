package device

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Address is a place that kernels can address, in device memory or in host memory of HostAlloc or Register; 0 means no
// place. The host must not read or write through it.
type Address uint64

// Memory is device memory of Alloc, or of another process (ImportMemory). Its owner closes it after the last kernel and
// copy that uses it and before the Device. It is safe for concurrent use.
type Memory struct {
	device *primary
	at     atomic.Uint64 // 0 once it is closed
	op     string
	close  func(Address) result
}

// Address returns the memory's address for kernels; 0 after Close, and for memory of no bytes.
func (m *Memory) Address() Address { return Address(m.at.Load()) }

// Close frees the memory. If kernels still run, it waits for the device. A second Close does nothing.
func (m *Memory) Close() error {
	at := Address(m.at.Swap(0))
	if at == 0 {
		return nil
	}
	return m.device.dispose(m.op, func() result { return m.close(at) })
}

// Alloc takes n bytes of device memory, aligned to 256 bytes at least, with undefined contents. It fails with
// ErrOutOfMemory.
func (d *Device) Alloc(n int64) (*Memory, error) {
	m := &Memory{device: d.primary, op: "free device memory", close: drv.free}
	if n == 0 {
		return m, nil
	}
	op := fmt.Sprintf("allocate %d bytes on cuda:%d", n, d.ordinal)
	if n < 0 {
		return nil, failure(op, codeInvalidValue)
	}
	return m.opened(ask(d, op, func() (Address, result) { return drv.alloc(n) }))
}

func (m *Memory) opened(at Address, err error) (*Memory, error) {
	if err != nil {
		return nil, err
	}
	m.at.Store(uint64(at))
	return m, nil
}

// HostAlloc returns n bytes of page-locked host memory that the device addresses (see HostAddress), aligned to a page
// and valid until HostFree. n = 0 gives nil.
func (d *Device) HostAlloc(n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	op := fmt.Sprintf("allocate %d bytes of page-locked host memory", n)
	if n < 0 {
		return nil, failure(op, codeInvalidValue)
	}
	at, err := ask(d, op, func() (uintptr, result) { return drv.hostAlloc(n) })
	if err != nil {
		return nil, err
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), n), nil // memory of the driver, not of Go
}

// HostFree gives memory of HostAlloc back: the same slice, or one that begins where it did. Nil is allowed.
func (d *Device) HostFree(b []byte) error {
	if cap(b) == 0 {
		return nil
	}
	return d.dispose("free page-locked host memory", func() result { return drv.hostFree(start0(b)) })
}

// HostAddress returns where the device finds host memory that HostAlloc or Register made addressable. b may begin
// anywhere in such memory. An empty b gives 0.
func (d *Device) HostAddress(b []byte) (Address, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return ask(d, "find the device address of host memory", func() (Address, result) {
		return drv.hostAddress(start0(b))
	})
}

// start0 returns where a slice begins, as a number.
func start0(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// PointerInfo describes an address, as the driver does.
type PointerInfo struct {
	OnDevice bool    // device memory, not page-locked host memory
	Ordinal  int     // of the device that the memory belongs to
	Managed  bool    // memory that migrates between host and device
	Device   Address // where the device finds it
	Host     uintptr // where the host finds it, 0 if it does not
	Start    Address // of the allocation or registration
	Size     int64   // of it, in bytes
}

// Pointer asks the driver about an address. An address that it does not know, such as one of pageable host memory, is
// not an error: most fields are then zero.
func (d *Device) Pointer(a Address) (PointerInfo, error) {
	return ask(d, "read pointer attributes", func() (PointerInfo, result) { return drv.pointer(a) })
}

// IPCHandle names device memory of another process.
type IPCHandle [64]byte

// ExportMemory returns a handle with which another process on the same machine opens memory of Alloc. The memory must
// stay allocated as long as the other process has it open.
func (d *Device) ExportMemory(a Address) (IPCHandle, error) {
	return ask(d, "export device memory", func() (IPCHandle, result) { return drv.exportMemory(a) })
}

// ImportMemory opens memory that another process exported. Close it while that process still holds the memory.
func (d *Device) ImportMemory(h IPCHandle) (*Memory, error) {
	m := &Memory{device: d.primary, op: "close imported memory", close: drv.closeMemory}
	return m.opened(ask(d, "import device memory", func() (Address, result) { return drv.importMemory(h) }))
}
