package gather

import "unsafe"

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// aligned returns n bytes, shift after a multiple of a line.
func aligned(n, shift int) []byte {
	b := make([]byte, n+2*cacheLine)
	at := int(-uintptr(pointer(b))%cacheLine) + shift
	return b[at : at+n : at+n]
}
