//go:build !amd64 || purego

package gather

import "unsafe"

// variants returns those that this processor runs, the best first. copy() is as good as vectors by hand on arm64.
func variants() []variant { return []variant{prefetched, plain} }

// Only amd64 copies in assembly: variants never returns what would come here.

func copyCall[I rowID](v variant, dst, table unsafe.Pointer, ids *I, n, avail, rowBytes, ahead, lines, near int) {
	panic("gather: no such variant")
}

func streamCall[I rowID](v variant, dst, table unsafe.Pointer, ids *I, n, avail, rowBytes, ahead, lines, near int,
	scratch unsafe.Pointer) int {
	panic("gather: no such variant")
}
