//go:build cuda

package drivertest

import (
	"encoding/binary"
	"syscall"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
)

// anonymous maps private memory, which registers.
func anonymous(r *rig, n int) []byte {
	r.Helper()
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	r.must(err)
	r.Cleanup(func() { r.must(syscall.Munmap(b)) })
	return b
}

func TestKernelsAddressRegisteredHostMemory(t *testing.T) {
	r := open(t)
	memory := anonymous(r, 1<<16)
	const n, offset = 1000, 4096 + 8
	for i := range n {
		binary.LittleEndian.PutUint64(memory[offset+8*i:], uint64(i)+5)
	}
	r.must(r.device.Register(memory, false))
	r.must(r.device.Register(memory, false)) // counted
	expect.Is(t, r.device.Register(memory[4096:12288], false), &device.Error{Code: 712}, "a part of it")
	r.must(r.device.Unregister(memory))
	in, err := r.device.HostAddress(memory[offset:])
	r.must(err)
	words, b := r.host(n)
	out, err := r.device.HostAddress(b)
	r.must(err)
	r.must(r.kernels.scaleAdd.Launch(r.stream, 4, 64, 0, deviceScale{out, in, 2, n}))
	r.must(r.stream.Synchronize())
	for i, got := range words {
		want := 2*(uint64(i)+5) + uint64(i)
		expect.Ensure(t, got == want, "word %d is %d, not %d", i, got, want)
	}
	r.must(r.device.Unregister(memory))
	expect.Is(t, r.device.Unregister(memory), &device.Error{Code: 713}, "once too often")
	if a, err := r.device.HostAddress(memory); err == nil && r.device.Attribute(device.AttrPageableAccess) == 0 {
		t.Errorf("memory that is not registered has address %#x", a)
	}
}

func TestPointersTellWhereTheyPoint(t *testing.T) {
	r := open(t)
	const n = 10_000
	a := r.alloc(n)
	cudatest.Fail(t, "cuPointerGetAttribute", 7, 999) // the host's address, which device memory lacks, is not asked for
	info, err := r.device.Pointer(a + 5000)
	r.must(err)
	cudatest.Findings()
	expect.That(t, info.OnDevice && info.Ordinal == 0 && !info.Managed && info.Device == a+5000,
		"device memory: %+v", info)
	expect.That(t, info.Start == a && info.Size >= n, "of %d bytes at %#x: %+v", n, a, info)
	_, b := r.host(n / 8)
	info, err = r.device.Pointer(device.Address(uintptr(unsafe.Pointer(&b[0]))))
	r.must(err)
	address, err := r.device.HostAddress(b)
	r.must(err)
	if info.OnDevice || info.Host != uintptr(unsafe.Pointer(&b[0])) || info.Device != address {
		t.Errorf("page-locked memory: %+v", info)
	}
	pageable := anonymous(r, 4096)
	info, err = r.device.Pointer(device.Address(uintptr(unsafe.Pointer(&pageable[0]))))
	r.must(err)
	expect.That(t, info == device.PointerInfo{}, "pageable memory: %+v", info)
}
