// Package direct reads and writes files past the page cache, which saves copying and leaves the cache to others.
//
// # Basics
//
// Set switches an open file, and Open opens another one like it. What is read and written then begins at multiples of
// Align in the file and in memory, and is as long; Buffer returns such memory. ReadAt reads any range. A Behind writes
// a file from one end to the other; a Reader of the package ahead reads one.
//
// # Caveats
//
// Systems other than Linux, and some file systems, refuse: by an error of Set or Open, or by Refused of the first
// transfer. Such files are as good through the cache.
package direct

import (
	"io"
	"os"
	"sync"
	"unsafe"
)

// Align is what transfers are aligned to, in bytes.
const Align = 4096

// Buffer returns n bytes, a multiple of Align, that begin at one.
func Buffer(n int) []byte {
	b := make([]byte, n+Align)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (Align - 1))
	return b[skip : skip+n : skip+n]
}

// bounceBytes is how much ReadAt reads at a time.
const bounceBytes = 256 << 10

var bounces = sync.Pool{New: func() any { b := Buffer(bounceBytes); return &b }}

// ReadAt reads all of b from any place of a file that is switched, by way of aligned memory.
func ReadAt(f *os.File, b []byte, at int64) (n int, err error) {
	p := bounces.Get().(*[]byte)
	defer bounces.Put(p)
	for n < len(b) {
		from := (at + int64(n)) &^ (Align - 1)
		skip := int(at + int64(n) - from)
		want := min((skip+len(b)-n+Align-1)&^(Align-1), bounceBytes)
		got, err := f.ReadAt((*p)[:want], from)
		if got <= skip {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
		n += copy(b[n:], (*p)[skip:got])
	}
	return n, nil
}
