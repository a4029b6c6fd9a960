//go:build !purego

package gather

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// variants returns those that this processor runs, the best first.
func variants() []variant {
	vs := []variant{prefetched, plain}
	if cpu.X86.HasAVX2 {
		vs = append([]variant{avx2}, vs...)
		if cpu.X86.HasAVX512F {
			vs = append([]variant{avx512}, vs...)
		}
	}
	return vs
}

// copyCall copies n rows, 1 at least, of 64 bytes and more, and prefetches those that many ids ahead, of which avail
// exist.
func copyCall[I rowID](v variant, dst, table unsafe.Pointer, ids *I, n, avail, rowBytes, ahead, lines, near int) {
	switch p := any(ids).(type) {
	case *int32:
		if v == avx512 {
			copyAVX512x32(dst, table, p, n, avail, rowBytes, ahead, lines, near)
			return
		}
		copyAVX2x32(dst, table, p, n, avail, rowBytes, ahead, lines, near)
	case *int64:
		if v == avx512 {
			copyAVX512x64(dst, table, p, n, avail, rowBytes, ahead, lines, near)
			return
		}
		copyAVX2x64(dst, table, p, n, avail, rowBytes, ahead, lines, near)
	}
}

// streamCall is copyCall with non-temporal stores. dst and scratch are at multiples of 64; scratch has 64 bytes before
// it and 128 from it on. The last bytes of the last row, as many as it returns, are left in scratch: the caller copies
// them.
func streamCall[I rowID](v variant, dst, table unsafe.Pointer, ids *I, n, avail, rowBytes, ahead, lines, near int,
	scratch unsafe.Pointer) int {
	switch p := any(ids).(type) {
	case *int32:
		if v == avx512 {
			return streamAVX512x32(dst, table, p, n, avail, rowBytes, ahead, lines, near, scratch)
		}
		return streamAVX2x32(dst, table, p, n, avail, rowBytes, ahead, lines, near, scratch)
	case *int64:
		if v == avx512 {
			return streamAVX512x64(dst, table, p, n, avail, rowBytes, ahead, lines, near, scratch)
		}
		return streamAVX2x64(dst, table, p, n, avail, rowBytes, ahead, lines, near, scratch)
	}
	return 0
}
